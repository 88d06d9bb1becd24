"""A decision model is asked twice about scores near the threshold, and the mean counts."""

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.pipeline.conftest import TASK, ask
from tests.pipeline.test_decision_turns import scores, settings_for
from tests.servers.decision_server import DecisionServer
from tests.servers.scoring import table
from tests.waiting import count_rows, slower_attempts, wait_until
from xscore.cli.answer_account import render_cost_line
from xscore.pipeline.build import Pipeline
from xscore.providers.scripted import ShownMemory
from xscore.records.calls import Stage
from xscore.records.receipt import SecondDraws
from xscore.settings import BudgetSettings, ProviderSettings, SelectionSettings

FIRST = {"::total": 95, "pyproject": 73, "Discounts": 69, "::Cart.add": 64}
THEN = {"::total": 1, "pyproject": 61, "Discounts": 75}


class ChangingScores(Counter[str]):
    """Scores a memory by one table on the first request, and by another afterwards."""

    def __call__(self, memory: ShownMemory, state: str) -> int | tuple[int, str]:
        """Score one memory."""
        place = f"{memory.path}::{memory.entity}"
        self[place] += 1
        return table(FIRST if self[place] == 1 else THEN, default=4)(memory, state)


@pytest.fixture
def server() -> Iterator[DecisionServer]:
    """A host whose second answer differs from its first."""
    with DecisionServer(score=ChangingScores()) as running:
        yield running


async def test_the_mean_of_two_answers_counts_and_a_cached_turn_asks_for_neither(
    shop: Path, server: DecisionServer
) -> None:
    """One falls below the threshold and one rises above it; each counts and is paid once."""
    settings = settings_for(server)
    first = await ask(shop, settings)
    assert first.coverage.judged == server.questions - 2
    assert first.coverage.candidates == server.questions - 2
    assert first.second_draws == SecondDraws(drawn=2)
    assert (scores(first)["project"], scores(first)["Shop > Discounts"]) == pytest.approx(
        (0.67, 0.72)
    )
    assert [memory.entity for memory in first.selected] == ["total", "Shop > Discounts"]
    assert first.selected[1].draws == (0.69, 0.75) and first.selected[0].draws == ()
    assert "2 judged twice" in render_cost_line(first)
    repeated = await ask(shop, settings)
    assert server.requests == 2
    assert (scores(repeated), repeated.second_draws) == (scores(first), SecondDraws(cached=2))
    async with Pipeline.open(shop, settings) as pipeline:
        explanation = await pipeline.explain("pyproject.toml::project")
    assert explanation.memory is not None and explanation.memory.draws == (0.73, 0.61)
    assert "the mean of 0.73 and 0.61" in explanation.words


async def test_an_edit_draws_nothing_else_again(shop: Path, server: DecisionServer) -> None:
    """Second answers are kept; an edited memory near its threshold gets both answers again."""
    settings = settings_for(server)
    await ask(shop, settings)
    questions_before = server.questions
    readme = shop / "README.md"
    readme.write_text(readme.read_text().replace("tenth", "fifth"))
    edited = await ask(shop, settings)
    assert edited.second_draws.cached == 1
    assert (
        server.questions - questions_before
        == edited.coverage.judged + edited.second_draws.drawn
    )


async def test_the_nearest_are_drawn_first_and_the_rest_is_counted(
    shop: Path, server: DecisionServer
) -> None:
    """With room for one, the memory 0.01 below its threshold is asked again, not the one 0.03
    above."""
    selection = SelectionSettings(most_redrawn=1)
    answer = await ask(shop, replace(settings_for(server), selection=selection))
    assert answer.second_draws == SecondDraws(drawn=1, missed=1)
    assert scores(answer)["Shop > Discounts"] == pytest.approx(0.72)
    assert scores(answer)["project"] == 0.73


async def test_each_kind_is_near_its_own_threshold(shop: Path, server: DecisionServer) -> None:
    """With 0.62 for code and 0.9 for the rest, only the method at 0.64 is near."""
    selection = SelectionSettings(threshold={"code": 0.62, "default": 0.9})
    answer = await ask(shop, replace(settings_for(server), selection=selection))
    assert {
        memory.entity for memory in (*answer.selected, *answer.near_misses) if memory.draws
    } == {"Cart.add"}


async def test_what_gets_no_second_answer_keeps_its_first(
    shop: Path, server: DecisionServer
) -> None:
    """A host that fails in between costs a warning but no judgment."""
    server.status = lambda _: (400, "no more") if server.requests > 1 else None
    answer = await ask(shop, settings_for(server))
    assert answer.coverage.unjudged == 0
    assert answer.exit_code == 0
    assert scores(answer)["project"] == 0.73
    assert answer.second_draws == SecondDraws(missed=2)
    assert any("judged once instead of twice" in warning for warning in answer.warnings)


async def test_a_cap_and_a_deadline_hold_for_second_answers_too(
    shop: Path, server: DecisionServer
) -> None:
    """With little money or time after the first answers, nothing is sent beyond it, and the turn is
    complete."""
    priced = replace(
        settings_for(server, "typesafe"), provider=ProviderSettings(price="vendor")
    )
    uncapped = await ask(shop, priced, replace(TASK, task="first"))
    cost_usd = uncapped.spent(Stage.JUDGE).cost_usd
    assert cost_usd and uncapped.second_draws.drawn
    missed = (0, 0, uncapped.second_draws.drawn)

    async def again(budget: BudgetSettings, latency_s: float) -> tuple[int, int, int]:
        server.latency_s, server.score = latency_s, ChangingScores()
        task = replace(TASK, task=f"again {latency_s:g}")
        answer = await ask(shop, replace(priced, budget=budget), task)
        draws = answer.second_draws
        return answer.coverage.unjudged, draws.drawn, draws.missed

    assert await again(BudgetSettings(max_usd=cost_usd / 100 * 99), 0.0) == missed
    for attempt in slower_attempts():
        with attempt:
            latency_s = 1.0 * attempt.slowness
            account = await again(BudgetSettings(deadline_s=2.2 * latency_s), latency_s)
            assert account[1] == 0, "nothing is sent again beyond the deadline"
            attempt.needs(account[0] == 0, f"{account[0]} memories were not judged")
            assert account == missed


def test_a_kill_between_the_answers_keeps_the_first(shop: Path, server: DecisionServer) -> None:
    """After SIGKILL during the second request, all first answers are stored and not paid again."""
    code = (
        "import asyncio, sys; from pathlib import Path\n"
        "from tests.pipeline.test_decision_turns import *\n"
        "class There: url, host = sys.argv[1], sys.argv[2]\n"
        "asyncio.run(ask(Path(sys.argv[3]), settings_for(There)))\n"
    )

    def hold_the_second(_: object) -> None:
        server.latency_s = 3_600.0 if server.requests == 2 else 0.0

    server.status = hold_the_second
    process = subprocess.Popen(
        [sys.executable, "-c", code, server.url, server.host, str(shop)],
        cwd=Path(__file__).parents[2],
    )
    while server.requests < 2 and process.poll() is None:
        time.sleep(0.05)
    wait_until(lambda: count_rows(shop, "judgment") > 0, otherwise="no first answer is stored")
    process.kill()
    process.wait()
    answer = asyncio.run(ask(shop, settings_for(server)))
    assert (answer.coverage.cached, answer.coverage.unjudged) == (answer.coverage.candidates, 0)
    assert (scores(answer)["project"], server.requests) == (0.73, 2)
