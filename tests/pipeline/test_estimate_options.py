"""The ways in which a model can judge the same memories, compared in an estimate."""

from decimal import Decimal
from pathlib import Path

import pytest

from tests.conftest import MakeRepo
from tests.pipeline.test_forecast import FILES
from tests.servers.decision_server import DecisionServer
from tests.servers.scoring import table
from xscore.pipeline.build import Pipeline
from xscore.pipeline.estimating import estimate_judging, forecast_ways
from xscore.pipeline.factories import with_dummy_keys
from xscore.pipeline.prepare import prepare_turn
from xscore.pipeline.turn_clock import Stopwatch
from xscore.records.estimates import Estimate, JudgeEstimate
from xscore.records.turn import Turn
from xscore.settings import JudgeSettings, OpenAISettings, Secret, Settings, validate_group

TASK = Turn(task="Shear the sheep of the meadow.")
M = Decimal(1_000_000)


@pytest.fixture
def meadow(make_repo: MakeRepo) -> Path:
    """About 120 memories, enough for prompts that a host caches."""
    return make_repo(FILES)


async def estimated(root: Path, **judge: object) -> Estimate:
    """Estimate for OpenAI's own host, to which nothing is sent."""
    settings = Settings(
        judge=validate_group(JudgeSettings, judge),
        openai=OpenAISettings(api_key=Secret("sk-test-0123456789")),
    )
    async with Pipeline.open(root, settings) as pipeline:
        return await pipeline.estimate(TASK)


def by_way(estimate: Estimate) -> dict[str, JudgeEstimate]:
    """Return the ways by name."""
    return {way.way: way for way in estimate.ways}


@pytest.mark.parametrize(
    "model", ["openai-chat:gpt-6-luna", "openai:gpt-6-luna", "anthropic:claude-haiku-5-5"]
)
async def test_a_way_that_is_not_rendered_comes_within_a_twentieth(
    meadow: Path, model: str
) -> None:
    """Sizes from the store give the calls, tokens, lasting prefixes and dollars of the prompts
    themselves."""
    settings = with_dummy_keys(Settings(judge=JudgeSettings(model=model)))
    async with Pipeline.open(meadow, settings) as pipeline:
        judge = pipeline.parts.judge
        pool = prepare_turn(pipeline.parts, TASK, Stopwatch(), continues_session=False).pool
        rendered = estimate_judging(judge, TASK, pool).ways
        forecast = forecast_ways(judge, TASK, pool)
    assert [way.way for way in forecast] == [way.way for way in rendered]
    for likely, exact in zip(forecast, rendered, strict=True):
        assert likely.calls == exact.calls
        for part in ("input_tokens", "cached_input_tokens", "output_tokens", "cost_usd"):
            assert float(getattr(likely, part)) == pytest.approx(
                float(getattr(exact, part)), rel=0.05
            )


async def test_both_wires_and_words_are_estimated_side_by_side(meadow: Path) -> None:
    """Decisions, chat with a cold and a warm prefix cache, and lexical: each at its tariff, checked
    by hand."""
    estimate = await estimated(meadow)
    ways = by_way(estimate)
    assert list(ways) == ["decisions", "chat cold", "chat warm", "lexical"]
    assert ways["decisions"] == estimate.judge
    assert ways["lexical"].seconds > 0
    tariffs = [estimated_way.tariff for estimated_way in estimate.ways]
    assert tariffs == [
        "openai-decisions/gpt-6-luna",
        "openai/gpt-6-luna",
        "openai/gpt-6-luna",
        "",
    ]
    cold, warm = ways["chat cold"], ways["chat warm"]
    assert cold.calls == warm.calls
    assert cold.input_tokens == warm.input_tokens
    assert cold.seconds == warm.seconds
    assert 0.9 * warm.input_tokens < warm.cached_input_tokens < warm.input_tokens
    fresh = warm.input_tokens - warm.cached_input_tokens
    by_hand = {
        "decisions": estimate.judge.input_tokens * Decimal("0.10") / M,
        "chat cold": (
            cold.input_tokens * Decimal("0.125") + cold.output_tokens * Decimal("0.50")
        )
        / M,
        "chat warm": (
            fresh * Decimal("0.10")
            + warm.cached_input_tokens * Decimal("0.01")
            + warm.output_tokens * Decimal("0.50")
        )
        / M,
        "lexical": Decimal(0),
    }
    for way, usd in by_hand.items():
        assert float(ways[way].cost_usd or 0) == pytest.approx(float(usd), rel=0.005), way


async def test_the_wire_that_is_set_comes_first(meadow: Path) -> None:
    """`judge.wire = chat` estimates chat, with decisions for comparison."""
    estimate = await estimated(meadow, wire="chat")
    assert [way.way for way in estimate.ways] == [
        "chat cold",
        "chat warm",
        "decisions",
        "lexical",
    ]
    assert estimate.judge == estimate.ways[0]


async def test_a_judge_with_one_wire_shows_that_one(meadow: Path) -> None:
    """A chat model has no decisions; without a model there is nothing to compare."""
    assert list(by_way(await estimated(meadow, model="openai:gpt-5-nano"))) == [
        "chat cold",
        "chat warm",
        "lexical",
    ]
    assert (await estimated(meadow, model="lexical")).ways == ()


async def test_each_way_lacks_what_its_own_cache_lacks(meadow: Path) -> None:
    """After judging by decisions, none are left, but all are left for chat: another judge's scores
    do not count."""
    with DecisionServer(score=table({}, default=4)) as server:
        settings = Settings(
            judge=JudgeSettings(
                model="openai:judge-2", is_named=True, probe=False, wire="decisions"
            ),
            openai=OpenAISettings(base_url=server.url),
        )
        async with Pipeline.open(meadow, settings) as pipeline:
            judged = (await pipeline.ask(TASK, answer=False)).coverage
            ways = by_way(await pipeline.estimate(TASK))
    assert judged.unjudged == 0
    assert (ways["decisions"].calls, ways["decisions"].cached) == (0, judged.candidates)
    assert (ways["chat cold"].cached, ways["chat cold"].to_judge) == (0, judged.candidates)
