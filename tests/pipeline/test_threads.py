"""A follow-up judges the likely part by its new wording and keeps the thread's judgments for the
rest."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from decimal import Decimal
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from tests.conftest import MakeRepo
from tests.pipeline import test_decision_turns as decisions
from tests.pipeline.conftest import ask, settings_for
from tests.servers.decision_server import DecisionServer
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.cli.answer_account import render_carried
from xscore.extensions.privacy.erasure import erase_memories
from xscore.pipeline.build import Pipeline
from xscore.records.calls import Stage
from xscore.records.receipt import Answer, CarriedOver
from xscore.records.turn import Turn
from xscore.settings import BudgetSettings, MemorySettings, ProviderSettings, Settings

ORDER = Turn(task="Where is the price of an order worked out?", thread="orders")
REFUND = Turn(task="And where is a refund written down?", thread="orders")
FILES = {
    f"shop/part_{at}.py": (
        "\n\n".join(
            f"def step_{at}_{n}(value: int) -> int:\n    return value * {n} + {at}"
            for n in range(8)
        )
        + "\n"
    )
    for at in range(10)
} | {
    "shop/orders.py": (
        "from shop.part_0 import step_0_1\n\n"
        "def price_of_order(n: int) -> int:\n"
        "    return step_0_1(n)"
    ),
    "shop/refunds.py": "def write_refund(amount: int) -> str:\n    return f'refund {amount}'\n",
}
SCORES = {"price_of_order": 90, "write_refund": 80}


@pytest.fixture
def project(make_repo: MakeRepo) -> Path:
    """A repository of about eighty functions, two of them relevant."""
    return make_repo(FILES)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A chat host that scores by a table."""
    with OpenAIServer(score=table(SCORES)) as running:
        yield running


def adds_up(answer: Answer) -> None:
    """Assert that all carried judgments are counted and no candidate is missing."""
    of, under = answer.coverage, answer.carried_over.under
    assert of.candidates == of.judged + of.cached + of.carried + of.unjudged
    assert of.carried == sum(carried.memories for carried in under)


async def test_a_follow_up_asks_about_the_likely_part_only(
    project: Path, server: OpenAIServer
) -> None:
    """Kept memories, their links and the best words are judged again; the rest keeps the earlier
    wording."""
    first = await ask(project, settings_for(server), ORDER)
    assert first.carried_over == CarriedOver(way="all", because=first.carried_over.because)
    calls = server.counts.judging_requests
    second = await ask(project, settings_for(server), REFUND)
    adds_up(second)
    assert 0 < second.coverage.judged < second.coverage.candidates / 3
    assert second.coverage.unjudged == 0
    assert server.counts.judging_requests - calls < calls
    (row,) = second.carried_over.under
    assert row.turn_id == first.turn_id
    assert row.task == ORDER.task
    assert second.carried_over.way == "part"
    assert {memory.entity for memory in second.selected if not memory.carried_from} == set(
        SCORES
    )
    assert first.turn_id in render_carried(second) and "price" in render_carried(second)


async def test_a_follow_up_changes_no_lasting_pack(project: Path, server: OpenAIServer) -> None:
    """The likely part is sent in prompts of one turn; a new file gets its permanent place at the
    next full judging."""
    await ask(project, settings_for(server), ORDER)
    (project / "shop" / "new.py").write_text("def ship(order: int) -> int:\n    return order\n")
    async with Pipeline.open(project, settings_for(server)) as pipeline:
        connection = pipeline.parts.store.connection
        lasting = connection.execute("SELECT * FROM pack_slot").fetchall()
        second = await pipeline.ask(REFUND, answer=False)
        latest = (
            "SELECT DISTINCT substr(pack, 1, 2) FROM judgment WHERE query_id = (SELECT max(id) FROM"
            " query)"
        )
        assert second.coverage.carried and connection.execute(latest).fetchall() == [("x_",)]
        assert connection.execute("SELECT * FROM pack_slot").fetchall() == lasting


async def test_what_changed_since_is_judged_whatever_its_words(
    project: Path, server: OpenAIServer
) -> None:
    """An edited memory has no judgment in the thread, so it is never carried."""
    await ask(project, settings_for(server), ORDER)
    edited = project / "shop/part_7.py"
    edited.write_text(edited.read_text().replace("value * 5 + 7", "value * 5 + 700"))
    async with Pipeline.open(project, settings_for(server)) as pipeline:
        second = await pipeline.ask(REFUND, answer=False)
        explanation = await pipeline.explain("shop/part_7.py::step_7_5")
        unedited = await pipeline.explain("shop/part_7.py::step_7_6")
    assert explanation.memory and not explanation.memory.carried_from
    assert (
        unedited.memory and unedited.memory.carried_from == second.carried_over.under[0].turn_id
    )
    assert (
        f"carried from turn {unedited.memory.carried_from}: judged under “{ORDER.task}”"
        in unedited.words
    )


async def test_a_chain_keeps_the_newest_judgment_of_each(
    project: Path, server: OpenAIServer
) -> None:
    """A thread's third turn takes from the second what that judged itself, and the rest from the
    first."""
    first = await ask(project, settings_for(server), ORDER)
    second = await ask(project, settings_for(server), REFUND)
    third = await ask(
        project, settings_for(server), replace(ORDER, task="Does step_9_3 take part in that?")
    )
    adds_up(third)
    named = {carried.turn_id: carried.memories for carried in third.carried_over.under}
    assert named.keys() == {first.turn_id, second.turn_id}
    assert named[second.turn_id] <= second.coverage.judged


@pytest.mark.parametrize(
    "turn",
    [replace(REFUND, rejudge_all=True), replace(REFUND, thread="other"), Turn(task="Refund?")],
)
async def test_nothing_is_carried_without_a_thread_or_where_all_was_wanted(
    project: Path, server: OpenAIServer, turn: Turn
) -> None:
    """A plain question, another thread and `--fresh` judge every memory."""
    await ask(project, settings_for(server), ORDER)
    answer = await ask(project, settings_for(server), turn)
    assert answer.coverage.judged == answer.coverage.candidates


async def test_the_latest_turn_of_the_branch_is_followed(
    project: Path, server: OpenAIServer
) -> None:
    """`--continue` uses the latest turn's thread, named or not; without any it is a first turn."""
    follow = Turn(task="And then?", follows_latest=True)
    assert (await ask(project, settings_for(server), follow)).coverage.carried == 0
    await ask(project, settings_for(server), ORDER)
    answer = await ask(project, settings_for(server), replace(follow, task=REFUND.task))
    assert answer.session and answer.session.thread == "orders" and answer.coverage.carried > 0


async def test_carried_judgments_are_never_judgments_of_the_new_wording(
    project: Path, server: OpenAIServer
) -> None:
    """The cache holds what was judged; outside the thread the same wording judges the rest."""
    await ask(project, settings_for(server), ORDER)
    second = await ask(project, settings_for(server), REFUND)
    alone = await ask(project, settings_for(server), Turn(task=REFUND.task))
    assert (alone.coverage.cached, alone.coverage.carried) == (second.coverage.judged, 0)
    repeated = await ask(project, settings_for(server), REFUND)
    assert repeated.coverage.cached == repeated.coverage.candidates
    assert repeated.carried_over == CarriedOver()


async def test_an_estimate_forecasts_what_is_sent(project: Path, server: OpenAIServer) -> None:
    """For a follow-up it counts only the likely part, and nothing is opened or sent."""
    await ask(project, settings_for(server), ORDER)
    calls = server.counts.judging_requests
    async with Pipeline.open(project, settings_for(server)) as pipeline:
        estimate = (await pipeline.estimate(REFUND)).judge
        assert server.counts.judging_requests == calls
        answer = await pipeline.ask(REFUND, answer=False)
    assert estimate.to_judge == answer.coverage.judged
    assert estimate.carried == answer.coverage.carried
    assert estimate.calls == answer.spent(Stage.JUDGE).calls
    assert estimate.candidates == estimate.to_judge + estimate.cached + estimate.carried


async def test_another_judge_and_an_erased_turn_carry_nothing(
    project: Path, server: OpenAIServer
) -> None:
    """Scores of another model have another scale; an erased question leaves no judgment to
    carry."""
    first = await ask(project, settings_for(server), ORDER)
    other_judge = await ask(project, settings_for(server, model="openai:judge-3"), REFUND)
    assert other_judge.coverage.judged == other_judge.coverage.candidates
    second = await ask(project, settings_for(server), REFUND)
    async with Pipeline.open(project, settings_for(server)) as pipeline:
        erase_memories(pipeline.parts.store, [], turns=[first.turn_id], now=time.time())
        third = await pipeline.ask(
            replace(REFUND, task="And where is a refund logged?"), answer=False
        )
        explanation = await pipeline.explain("shop/part_7.py::step_7_6", turn_id=second.turn_id)
    assert {carried.turn_id for carried in third.carried_over.under} <= {second.turn_id}
    assert third.coverage.judged >= second.coverage.carried
    assert explanation.memory
    assert explanation.memory.carried_from == first.turn_id
    assert ORDER.task not in explanation.words


async def test_the_lexical_judge_never_carries(project: Path, server: OpenAIServer) -> None:
    """Its scores cost nothing and are never stored."""
    lexical = settings_for(server, model="lexical")
    await ask(project, lexical, ORDER)
    answer = await ask(project, lexical, REFUND)
    assert (answer.coverage.carried, answer.carried_over) == (0, CarriedOver())


async def test_scores_of_unknown_origin_are_not_carried(
    project: Path, server: OpenAIServer
) -> None:
    """An unsigned import only orders the work: its scores for the earlier wording are judged, not
    carried."""
    await ask(project, settings_for(server), ORDER)
    async with Pipeline.open(project, settings_for(server)) as pipeline:
        connection = pipeline.parts.store.connection
        connection.execute(
            "INSERT INTO untrusted_score SELECT turn_key, judge, sample, hash, 1.0 FROM judgment"
            " JOIN query ON query.id = query_id JOIN content ON content.id = content_id"
        )
        connection.execute("DELETE FROM judgment")
    answer = await ask(project, settings_for(server), REFUND)
    assert answer.coverage.judged == answer.coverage.candidates


NO_RECEIPT = "DELETE FROM receipt"
NOTHING_KEPT = "UPDATE receipt SET body = json_set(body, '$.selected', json('[]'))"


@pytest.mark.parametrize("lost", [NO_RECEIPT, NOTHING_KEPT])
async def test_no_high_score_of_an_earlier_wording_stands_unasked(
    project: Path, server: OpenAIServer, lost: str
) -> None:
    """Killed before its receipt, or limited to part of the code: high scores are still judged
    again."""
    await ask(project, settings_for(server), ORDER)
    async with Pipeline.open(project, settings_for(server)) as pipeline:
        pipeline.parts.store.connection.execute(lost)
    server.score = table({}, default=4)
    second = await ask(
        project, settings_for(server), replace(ORDER, task="Who sells step_9_3?")
    )
    assert second.coverage.carried and not second.selected


async def test_a_small_pool_is_judged_whole(shop: Path, server: OpenAIServer) -> None:
    """If most would be judged again anyway, everything is, and the receipt says why."""
    await ask(shop, settings_for(server), replace(ORDER, task="The discount is taken twice."))
    answer = await ask(
        shop, settings_for(server), replace(ORDER, task="Now the tests of the discount.")
    )
    assert answer.coverage.judged == answer.coverage.candidates
    assert answer.carried_over.way == "all" and "most would" in answer.carried_over.because


async def test_a_turn_that_carried_can_be_continued(
    project: Path, server: OpenAIServer
) -> None:
    """Killed after some calls, `continue` judges the rest of its part and carries the same
    judgments."""
    await ask(project, settings_for(server), ORDER)
    second = await ask(project, settings_for(server), REFUND)
    async with Pipeline.open(project, settings_for(server)) as pipeline:
        connection = pipeline.parts.store.connection
        lost = connection.execute(
            "DELETE FROM judgment WHERE query_id = (SELECT max(id) FROM query) AND content_id IN"
            " (SELECT content_id FROM judgment WHERE query_id = (SELECT max(id) FROM query)"
            " LIMIT 3)"
        ).rowcount
        connection.execute("DELETE FROM receipt WHERE turn_id = ?", (second.turn_id,))
        connection.execute("UPDATE turn SET state = 'running' WHERE id = ?", (second.turn_id,))
        third = await pipeline.resume(second.turn_id, answer=False)
    adds_up(third)
    assert (third.coverage.judged, third.coverage.unjudged) == (lost, 0)
    assert third.carried_over.under[0].memories == second.coverage.carried
    assert third.carried_over.under[1].turn_id == second.turn_id


@pytest.fixture
def decider() -> Iterator[DecisionServer]:
    """A host of decision models."""
    with DecisionServer(score=table(SCORES)) as running:
        yield running


def priced(chosen: Settings) -> Settings:
    """Settings that give the loopback host its vendor's prices."""
    return replace(chosen, provider=ProviderSettings(price="vendor"))


def few_at_a_time(server: DecisionServer, **budget: object) -> Settings:
    """Settings of a decision judge with ten memories a request, one request at a time."""
    chosen = decisions.settings_for(server, "typesafe", pack_size=10, concurrency=1)
    chosen = replace(chosen, memory=MemorySettings(observe=False))
    return priced(replace(chosen, budget=BudgetSettings(**budget)))  # type: ignore[arg-type]  # fields of the record, by name


async def test_a_decision_judge_is_asked_about_all(
    project: Path, decider: DecisionServer
) -> None:
    """A full pass costs cents, so a follow-up carries nothing; the likely part goes first."""
    await ask(project, few_at_a_time(decider), ORDER)
    decider.bodies.clear()
    second = await ask(project, few_at_a_time(decider), REFUND)
    assert second.coverage.judged == second.coverage.candidates
    assert second.carried_over.way == "all" and "decision" in second.carried_over.because
    assert all(name in str(decider.bodies[0]) for name in SCORES)


async def test_a_cap_leaves_a_decision_turn_with_earlier_judgments(
    project: Path, decider: DecisionServer
) -> None:
    """What the cap left is carried with a message and judged by `continue`; nothing is unjudged
    meanwhile."""
    first = await ask(project, few_at_a_time(decider), ORDER)
    cost = first.spent(Stage.JUDGE).cost_usd
    assert cost
    capped = few_at_a_time(decider, max_usd=cost / 2)
    second = await ask(project, capped, REFUND)
    adds_up(second)
    assert second.coverage.unjudged == 0 < second.coverage.judged
    assert second.partial
    assert second.exit_code == 4
    assert second.carried_over.left == second.coverage.carried > 0
    assert any("earlier wording" in warning for warning in second.warnings)
    assert {memory.entity for memory in second.selected} == set(SCORES)
    async with Pipeline.open(project, few_at_a_time(decider)) as pipeline:
        third = await pipeline.resume(second.turn_id, answer=False)
    assert third.coverage.judged == second.coverage.carried and not third.partial


async def test_a_deadline_before_any_call_leaves_the_earlier_ranking(
    project: Path, decider: DecisionServer
) -> None:
    """It does even if one memory is new: the thread's judgments are better than words, and the
    new one is unjudged."""
    first = await ask(project, few_at_a_time(decider), ORDER)
    (project / "new.py").write_text("def new_one() -> None: ...\n")
    async with Pipeline.open(project, few_at_a_time(decider, deadline_s=0.01)) as pipeline:
        pipeline.parts.index(None)
        second = await pipeline.ask(REFUND, answer=False)
    adds_up(second)
    assert (second.coverage.judged, second.ranked_by, second.exit_code) == (0, "", 1)
    assert 0 < second.coverage.unjudged < second.coverage.carried == second.carried_over.left
    assert first.selected
    assert [memory.id for memory in second.selected] == [memory.id for memory in first.selected]


class Interruption(Struct, frozen=True):
    """How a turn of the property below is interrupted."""

    decides: bool
    share: float
    """The share of a full turn's dollars."""
    deadline_s: float | None
    killed: int
    """The judgments that the kill lost, with the receipt; 0: not killed."""
    replay: bool


ENDINGS = st.builds(
    Interruption,
    decides=st.booleans(),
    share=st.sampled_from((0.0, 0.1, 0.5, 2.0)),
    deadline_s=st.sampled_from((None, 0.05, 30.0)),
    killed=st.sampled_from((0, 5, 60)),
    replay=st.booleans(),
)


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(endings=st.lists(ENDINGS, min_size=1, max_size=3))
def test_the_sums_add_up_whatever_ends_a_turn(
    project: Path, server: OpenAIServer, decider: DecisionServer, endings: list[Interruption]
) -> None:
    """Under any caps and deadlines, after kills and in replays, each candidate has one outcome and
    its origin."""
    asyncio.run(
        _cut_short(project, (server, decider), endings, thread=f"thread-{next(NUMBERS)}")
    )


NUMBERS = count()


async def _cut_short(
    root: Path,
    servers: tuple[OpenAIServer, DecisionServer],
    endings: list[Interruption],
    *,
    thread: str,
) -> None:
    for number, how in enumerate(endings):
        chosen = few_at_a_time(servers[1]) if how.decides else priced(settings_for(servers[0]))
        chosen = replace(
            chosen,
            judge=replace(chosen.judge, replay=how.replay),
            budget=BudgetSettings(
                max_usd=Decimal(str(how.share)) / 1000, deadline_s=how.deadline_s
            ),
        )
        answer = await ask(
            root, chosen, Turn(task=f"{thread}: step {number} of the refund?", thread=thread)
        )
        adds_up(answer)
        assert answer.carried_over.left <= answer.coverage.carried
        assert answer.partial == bool(answer.coverage.unjudged or answer.carried_over.left)
        turn_ids = {memory.turn_id for memory in answer.carried_over.under}
        assert all(
            memory.carried_from in {"", *turn_ids}
            for memory in (*answer.selected, *answer.near_misses)
        )
        async with Pipeline.open(root, chosen) as pipeline:
            lose(pipeline.parts.store.connection, answer.turn_id, how.killed)


def lose(connection: sqlite3.Connection, turn_id: str, killed: int) -> None:
    """Remove what a kill would have lost: the receipt and the last judgments."""
    if not killed:
        return
    connection.execute("DELETE FROM receipt WHERE turn_id = ?", (turn_id,))
    connection.execute("UPDATE turn SET state = 'running' WHERE id = ?", (turn_id,))
    among = (
        "SELECT query_id, content_id FROM judgment WHERE query_id = (SELECT max(id) FROM query)"
        " LIMIT ?"
    )
    connection.execute(
        f"DELETE FROM judgment WHERE (query_id, content_id) IN ({among})", (killed,)
    )
