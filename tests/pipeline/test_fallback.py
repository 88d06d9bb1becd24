"""`judge.fallback`: which models take over from the judge, at real hosts, and which do not."""

import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.observers import EventList
from tests.pipeline.conftest import TASK, ask
from tests.pipeline.test_decision_turns import questions_of
from tests.pipeline.test_unreachable_judge import nowhere
from tests.servers.decision_server import DecisionServer
from tests.servers.scoring import table
from tests.waiting import PATIENCE_S, slower_attempts
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import BrokenReceipt
from xscore.records.calls import Stage
from xscore.records.judgment import UnjudgedCause
from xscore.records.receipt import Answer
from xscore.settings import (
    BudgetSettings,
    DecisionSettings,
    HostAccess,
    JudgeSettings,
    ProviderSettings,
    Settings,
)

SCORES = table({"::total": 95, "::discount": 85, "Discounts": 72}, default=4)
FIRST, SECOND = "decisions:first-1", "systemone:second-1"


@pytest.fixture
def hosts() -> Iterator[tuple[DecisionServer, DecisionServer]]:
    """The judge's host and the fallback's; both score by the same table."""
    with DecisionServer(score=SCORES) as first, DecisionServer(score=SCORES) as second:
        yield first, second


def settings_for(
    first: str, second: str, *, fallback: tuple[str, ...] = (SECOND, "lexical"), **judge: Any
) -> Settings:
    """The first judges three memories a request, the second takes over."""
    judging = JudgeSettings(
        model=FIRST,
        is_named=True,
        probe=False,
        pack_size=3,
        concurrency=1,
        attempts=1,
        fallback=fallback,
        **judge,
    )
    access = DecisionSettings(
        hosts={"decisions": HostAccess(first), "systemone": HostAccess(second)}
    )
    return Settings(judge=judging, decisions=access, budget=BudgetSettings(max_usd=Decimal(1)))


def given(answer: Answer) -> list[tuple[str, int, int, int]]:
    """How many memories each judge scored: new, cached, carried."""
    return [(share.model, share.judged, share.cached, share.carried) for share in answer.judges]


def failing_after(server: DecisionServer, requests: int, status: int) -> None:
    """Make a host answer N requests and refuse all later ones."""
    server.status = lambda body: (status, "no") if server.requests > requests else None


@pytest.mark.parametrize(
    "status", [401, 404, 500], ids=["key refused", "no route", "host broken"]
)
async def test_what_a_failing_host_left_is_judged_by_the_next(
    shop: Path, hosts: tuple[DecisionServer, DecisionServer], status: int
) -> None:
    """Everything has a score, each memory is paid once, each judgment has its judge, and a repeat
    is free."""
    first, second = hosts
    failing_after(first, 1, status)
    settings = settings_for(first.url, second.url)
    answer = await ask(shop, settings)
    total = answer.coverage.candidates
    assert (answer.coverage.judged, answer.coverage.unjudged, answer.exit_code) == (total, 0, 0)
    assert given(answer) == [("first-1", 3, 0, 0), ("second-1", total - 3, 0, 0)]
    assert second.questions == total - 3
    assert {memory.entity for memory in answer.selected} >= {"total", "discount"}
    async with Pipeline.open(shop, settings) as pipeline:
        rows = dict(
            pipeline.store.connection.execute(
                "SELECT judge, count(*) FROM query JOIN judgment ON query_id = id GROUP BY 1"
            )
        )
        for memory in ("shop/prices.py::total", "README.md::Shop", "shop/cart.py::Cart.add"):
            assert (await pipeline.explain(memory)).outcome != "unjudged"
    assert rows == {share.key: share.judged for share in answer.judges}
    first.status = lambda body: (401, "no")
    repeated = await ask(shop, settings)
    assert given(repeated) == [("first-1", 0, 3, 0), ("second-1", 0, total - 3, 0)]
    assert second.questions == total - 3


async def test_a_host_that_is_back_judges_what_was_left_to_another(
    shop: Path, hosts: tuple[DecisionServer, DecisionServer]
) -> None:
    """Another model's judgment never counts as the judge's own."""
    first, second = hosts
    answer = await ask(shop, settings_for(nowhere(), second.url))
    total = answer.coverage.candidates
    assert given(answer)[1:] == [("second-1", total, 0, 0)]
    assert (answer.ranked_by, answer.exit_code) == ("", 0)
    healthy = await ask(shop, settings_for(first.url, second.url))
    assert given(healthy) == [("first-1", total, 0, 0)]


async def test_one_refused_memory_is_asked_of_the_next(
    shop: Path, hosts: tuple[DecisionServer, DecisionServer]
) -> None:
    """A refusal concerns only its memory: the fallback is asked about that one alone."""
    first, second = hosts
    first.status = lambda body: (
        (400, "bad") if any('name="discount"' in text for text in questions_of(body)) else None
    )
    answer = await ask(shop, settings_for(first.url, second.url))
    assert given(answer)[1:] == [("second-1", 1, 0, 0)]
    assert list(second.judged) == ["shop/prices.py::discount"]


async def test_a_chain_goes_on_to_the_one_that_can_and_then_to_words(shop: Path) -> None:
    """A model without a host and a dead one are skipped with a warning; finally words rank, marked
    as such."""
    chain = ("fireworks:nobody", SECOND, "lexical")
    answer = await ask(shop, settings_for(nowhere(), nowhere(), fallback=chain))
    assert (answer.ranked_by, answer.exit_code) == ("lexical", 1)
    assert any(
        "`fireworks:nobody` could not take over" in warning for warning in answer.warnings
    )
    assert given(answer) == [("first-1", 0, 0, 0)]
    assert answer.unjudged.by_cause == {UnjudgedCause.PROVIDER: answer.coverage.candidates}


async def test_without_words_in_the_chain_nothing_ranks(shop: Path) -> None:
    """An empty chain leaves unjudged memories, exit 3."""
    answer = await ask(shop, settings_for(nowhere(), nowhere(), fallback=()))
    assert (answer.ranked_by, answer.selected, answer.exit_code) == ("", (), 3)


async def test_by_default_no_model_takes_over(
    shop: Path, hosts: tuple[DecisionServer, DecisionServer]
) -> None:
    """Memories go only to hosts that the user named for them."""
    first, second = hosts
    failing_after(first, 1, 401)
    answer = await ask(
        shop, settings_for(first.url, second.url, fallback=JudgeSettings().fallback)
    )
    assert answer.unjudged.by_cause == {UnjudgedCause.PROVIDER: answer.coverage.candidates - 3}
    assert second.requests == 0


async def test_a_misspelt_model_is_named_before_it_is_needed(
    shop: Path, hosts: tuple[DecisionServer, DecisionServer]
) -> None:
    """A turn that never needs its fallback still names a misspelt one, and ends as usual."""
    first, second = hosts
    settings = settings_for(first.url, second.url, fallback=("opnai:gpt-5", SECOND, "lexical"))
    seen = EventList()
    async with Pipeline.open(shop, settings, observer=seen) as pipeline:
        answer = await pipeline.ask(TASK, answer=False)
    assert answer.exit_code == 0 and answer.coverage.unjudged == 0
    assert [note for note in seen.notes if "`opnai`" in note]
    assert not [note for note in seen.notes if SECOND in note]


async def test_the_cap_holds_for_all_judges_together(
    shop: Path, hosts: tuple[DecisionServer, DecisionServer]
) -> None:
    """The fallback reserves under the same cap, and is refused if nothing is left: exit 4."""
    first, second = hosts
    failing_after(first, 1, 401)
    settings = settings_for(first.url, second.url)
    capped = replace(
        settings,
        judge=replace(
            settings.judge, model="decisions:jev-1.14.0", fallback=("systemone:jev-1.14.0",)
        ),
        provider=ProviderSettings(price="vendor"),
        budget=BudgetSettings(max_usd=Decimal("0.0001")),
    )
    answer = await ask(shop, capped)
    assert (answer.exit_code, set(answer.unjudged.by_cause)) == (4, {"budget"})
    assert Decimal(0) < (answer.spent(Stage.JUDGE).cost_usd or 0) <= Decimal("0.0001")
    assert given(answer)[0] == ("jev-1.14.0", 3, 0, 0)
    assert sum(share.judged for share in answer.judges) > 3


async def test_the_deadline_holds_for_all_judges_together(
    shop: Path, hosts: tuple[DecisionServer, DecisionServer]
) -> None:
    """A silent second host takes no longer than what the first left of the deadline."""
    first, second = hosts
    failing_after(first, 1, 401)
    # Only a deadline ends a call there.
    second.latency_s = 3_600.0
    settings = settings_for(first.url, second.url)
    for attempt in slower_attempts():
        with attempt:
            first.requests = second.requests = 0
            began, deadline_s = time.monotonic(), 1.5 * attempt.slowness
            answer = await ask(
                shop,
                replace(settings, budget=replace(settings.budget, deadline_s=deadline_s)),
                replace(TASK, task=f"{TASK.task} Attempt {attempt.number}."),
            )
            assert second.questions == 0
            attempt.needs(answer.coverage.judged, "the first host judged nothing")
            assert given(answer)[0] == ("first-1", 3, 0, 0) and answer.exit_code == 1
            unjudged = answer.coverage.candidates - 3
            assert answer.unjudged.by_cause == {UnjudgedCause.DEADLINE: unjudged}
            attempt.needs(second.requests, "the second host was not called")
            assert time.monotonic() - began < deadline_s + PATIENCE_S


async def test_shares_that_do_not_add_up_cannot_exist(
    shop: Path, hosts: tuple[DecisionServer, DecisionServer]
) -> None:
    """A receipt with more scores than judgments is an error, never an answer."""
    answer = await ask(shop, settings_for(hosts[0].url, hosts[1].url))
    (share,) = answer.judges
    assert share.key and share.judged == answer.coverage.judged
    with pytest.raises(BrokenReceipt):
        replace(answer, judges=(replace(share, judged=share.judged + 1),))
