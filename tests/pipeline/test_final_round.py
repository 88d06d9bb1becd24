"""`selection.final`: another model looks once more at what came first."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conftest import MakeRepo
from tests.pipeline.conftest import ask
from tests.pipeline.test_joining import outcome
from tests.pipeline.test_unreachable_judge import nowhere
from tests.servers.decision_server import DecisionServer
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.pipeline.build import Pipeline
from xscore.pipeline.final_round import MOST_FINALISTS, finalists
from xscore.pipeline.joining import join
from xscore.pipeline.selection import select
from xscore.records.judgment import Thresholds
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import (
    BudgetSettings,
    DecisionSettings,
    HostAccess,
    JudgeSettings,
    OpenAISettings,
    SelectionSettings,
    Settings,
)

TASK = Turn(task="Where is the refund of an order paid out?")
FILES = {
    f"shop/part_{at}.py": "\n\n".join(
        f"def step_{at}_{n}(value: int) -> int:\n    return value * {n} + {at}"
        for n in range(8)
    )
    + "\n"
    for at in range(12)
} | {
    "shop/refunds.py": (
        "def pay_out_refund(order: int) -> str:\n    return f'refund of order {order} paid out'\n"
    )
}


@pytest.fixture
def project(make_repo: MakeRepo) -> Path:
    """A repository of about a hundred functions, one of them wanted."""
    return make_repo(FILES)


@pytest.fixture
def first() -> Iterator[DecisionServer]:
    """A weak judge: it takes 24 steps for relevant, the wanted function less so."""
    with DecisionServer(score=table({"pay_out_refund": 72, "::step_1": 85})) as running:
        yield running


@pytest.fixture
def last() -> Iterator[OpenAIServer]:
    """A chat host that knows better."""
    with OpenAIServer(score=table({"pay_out_refund": 96}, default=4)) as running:
        yield running


def settings_for(first: DecisionServer, last: str, **selection: object) -> Settings:
    """A decision model judges, a chat model takes the final round."""
    chosen = SelectionSettings(**{"words": 0, "final": "openai:last-1", **selection})  # type: ignore[arg-type]  # fields by name
    return Settings(
        judge=JudgeSettings(
            model="decisions:first-1",
            is_named=True,
            probe=False,
            fallback=(),
            attempts=1,
            reason_model="none",
        ),
        openai=OpenAISettings(base_url=last),
        decisions=DecisionSettings(hosts={"decisions": HostAccess(first.url)}),
        budget=BudgetSettings(max_usd=Decimal(1)),
        selection=chosen,
    )


def chosen_of(answer: Answer) -> list[tuple[str, float]]:
    """Entities and scores of what was kept."""
    return [(memory.entity, memory.raw_score) for memory in answer.selected]


async def test_the_final_judge_decides_among_the_first(
    project: Path, first: DecisionServer, last: OpenAIServer
) -> None:
    """A weak judge that floods keeps only what the better one confirms; the receipt counts both
    judges, and asking again sends nothing."""
    settings = settings_for(first, last.url)
    without = await ask(project, replace(settings, selection=SelectionSettings(words=0)), TASK)
    assert len(without.selected) == 15 and "pay_out_refund" not in dict(chosen_of(without))
    assert last.counts.judging_requests == 0
    answer = await ask(project, settings, TASK)
    assert chosen_of(answer) == [("pay_out_refund", 0.96)]
    final = answer.final_round
    assert (final.by, final.finalists, final.judged) == ("openai:last-1", 25, 25)
    assert last.counts.judging_requests == 1
    assert [share.model for share in answer.judges] == ["first-1", "last-1"]
    requests = (first.requests, last.counts.judging_requests)
    repeated = await ask(project, settings, TASK)
    assert (first.requests, last.counts.judging_requests) == requests
    assert chosen_of(repeated) == chosen_of(answer)
    async with Pipeline.open(project, settings) as pipeline:
        explanation = await pipeline.explain("pay_out_refund")
    assert explanation.memory is not None and explanation.memory.raw_score == 0.96


async def test_a_final_judge_that_fails_leaves_the_ranking_as_it_was(
    project: Path, first: DecisionServer
) -> None:
    """The turn ends as without it, and says why."""
    settings = settings_for(first, nowhere())
    plain = replace(settings, selection=replace(settings.selection, final="off"))
    answer = await ask(project, settings, TASK)
    assert chosen_of(answer) == chosen_of(await ask(project, plain, TASK))
    assert answer.final_round.by == "" and answer.exit_code == 0
    assert any(warning.startswith("final round:") for warning in answer.warnings)


@pytest.mark.parametrize("final", ["lexical", "no such model"])
async def test_what_is_no_model_is_no_final_judge(
    project: Path, first: DecisionServer, final: str
) -> None:
    """It is named in a warning, and the turn goes on."""
    answer = await ask(project, settings_for(first, nowhere(), final=final), TASK)
    assert len(answer.selected) == 15
    assert any(warning.startswith("there was no final round") for warning in answer.warnings)


async def test_a_replay_sends_nothing_and_uses_what_is_stored(
    project: Path, first: DecisionServer, last: OpenAIServer
) -> None:
    """It does even where the final round was never held: the judge's scores hold."""
    settings = settings_for(first, last.url)
    plain = replace(settings, selection=replace(settings.selection, final="off"))
    await ask(project, plain, TASK)
    replayed = replace(settings, judge=replace(settings.judge, replay=True))
    assert (await ask(project, replayed, TASK)).final_round.judged == 0
    assert last.counts.judging_requests == 0
    answer = await ask(project, settings, TASK)
    assert chosen_of(await ask(project, replayed, TASK)) == chosen_of(answer)


def test_at_most_sixty_are_finalists_and_nothing_else_is_kept() -> None:
    """The best sixty of a hundred that pass; what they leave free stays free."""
    ranked = join(
        [outcome(number, 0.99 - number / 1_000, 0.0) for number in range(100)], weight=0
    )
    chosen = finalists(ranked, Thresholds(0.7), SelectionSettings())
    assert [entry.candidate.id for entry in chosen] == [f"m{n}" for n in range(MOST_FINALISTS)]
    ids = {"m70", "m80"}
    selection = select(
        ranked, thresholds=Thresholds(0.7), settings=SelectionSettings(), finalists=ids
    )
    assert {entry.candidate.id for entry in selection.kept} == ids
    assert selection.beyond_k == 98


async def test_an_estimate_counts_the_round(
    project: Path, first: DecisionServer, last: OpenAIServer
) -> None:
    """Its calls and its host are in the estimate of a turn, and what is cached is counted as
    such."""
    settings = settings_for(first, last.url)
    async with Pipeline.open(project, settings) as pipeline:
        before = await pipeline.estimate(TASK)
    assert before.final is not None and before.final.to_judge == MOST_FINALISTS
    assert before.final.host in before.sends_to
    answers = int(before.primary is not None)
    assert before.calls == before.judge.calls + before.final.calls + answers
    assert first.requests == last.counts.judging_requests == 0
    await ask(project, settings, TASK)
    async with Pipeline.open(project, settings) as pipeline:
        after = await pipeline.estimate(TASK)
    assert after.final is not None and after.final.cached > 0
    alone = replace(settings, selection=SelectionSettings(words=0))
    async with Pipeline.open(project, alone) as pipeline:
        assert (await pipeline.estimate(TASK)).final is None
