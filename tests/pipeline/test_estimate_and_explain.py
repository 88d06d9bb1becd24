"""What is shown before a turn (estimate, confirmation) and after it (explain)."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.pipeline.conftest import TASK, settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import NothingMatched, UsageError
from xscore.records.calls import Stage
from xscore.records.estimates import Estimate
from xscore.records.events import Observer
from xscore.records.turn import Scope
from xscore.settings import JudgeSettings, OpenAISettings, PrimarySettings, Secret, Settings


async def test_an_estimate_is_what_is_then_sent(shop: Path, server: OpenAIServer) -> None:
    """X13: calls and input tokens of the estimate equal those of the turn."""
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        estimate = await pipeline.estimate(TASK)
        assert server.counts.requests == 0
        answer = await pipeline.ask(TASK, answer=False)
        after = await pipeline.estimate(TASK)
    assert estimate.judge.calls == answer.spent(Stage.JUDGE).calls
    assert estimate.judge.to_judge == answer.coverage.judged
    assert sum(estimate.by_kind.values()) == sum(estimate.by_folder.values()) > 0
    assert after.judge.calls == 0 and after.judge.binding_limit == "none"


class DeclinesEstimates(Observer):
    """DeclinesEstimates every estimate."""

    can_confirm = True

    def confirm(self, estimate: Estimate) -> bool:
        """Decline."""
        return False


async def test_the_answering_call_is_estimated_and_confirmed_whoever_judges(shop: Path) -> None:
    """A lexical judge is free but the answer is not: it is in the estimate and confirmed; a turn
    without it is not."""
    settings = Settings(
        judge=JudgeSettings(model="lexical"),
        primary=PrimarySettings(model="openai:strong-1"),
        openai=OpenAISettings(base_url="http://192.0.2.1/v1", api_key=Secret("k")),
    )
    async with Pipeline.open(shop, settings, observer=DeclinesEstimates()) as pipeline:
        estimate = await pipeline.estimate(TASK)
        with pytest.raises(UsageError, match="nothing was sent"):
            await pipeline.ask(TASK)
        context = await pipeline.context(TASK)
    assert estimate.judge.calls == 0 and estimate.judge.cost_usd == 0
    assert estimate.primary is not None and estimate.primary.host == "192.0.2.1"
    assert estimate.cost_usd is None
    assert context.exit_code == 0


async def test_every_memory_can_be_explained(shop: Path, server: OpenAIServer) -> None:
    """Chosen, near, below, out of scope, edited since: each is explained in numbers and words."""
    server.score = table({"shop/prices.py::total": 95, "shop/prices.py::discount": 53})
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        answer = await pipeline.ask(TASK, answer=False)
        chosen = await pipeline.explain("shop/prices.py::total")
        near = await pipeline.explain("shop/prices.py::discount", turn_id=answer.turn_id)
        below = await pipeline.explain("shop/cart.py::Cart.add")
        await pipeline.ask(replace(TASK, scope=Scope(paths=("tests/",))), answer=False)
        outside = await pipeline.explain("shop/cart.py::Cart.add")
        with pytest.raises(NothingMatched, match="called `nothing`"):
            await pipeline.explain("nothing")
        with pytest.raises(NothingMatched, match="no turn t_none"):
            await pipeline.explain("shop/prices.py::total", turn_id="t_none")
    assert (chosen.outcome, chosen.rank) == ("selected", 1)
    assert chosen.memory is not None and chosen.memory.raw_score == 0.95
    assert near.outcome == "near_miss" and "short of the threshold" in near.words
    assert below.outcome == "below_threshold" and below.memory is not None
    assert outside.outcome == "out_of_scope"
