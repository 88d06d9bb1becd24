"""The forecast for a turn: packs as sent, sizes instead of texts."""

from pathlib import Path

import pytest

from tests.conftest import MakeRepo
from tests.pipeline.conftest import ask, settings_for
from tests.servers.openai_server import OpenAIServer
from xscore.pipeline import estimating
from xscore.pipeline.build import Pipeline
from xscore.pipeline.estimating import estimate_judging, forecast_judging
from xscore.pipeline.prepare import prepare_turn
from xscore.pipeline.turn_clock import Stopwatch
from xscore.records.calls import Stage
from xscore.records.estimates import JudgeEstimate
from xscore.records.turn import Scope, Turn

TASK = Turn(task="Shear the sheep of the meadow.")
SMALL = "\n\n".join(
    f"def shear_{n}(sheep: int) -> int:\n    return sheep * {n} + {n}\n" for n in range(120)
)
LONG = '"""One long function."""\n\n\ndef flock() -> list[str]:\n    found = []\n' + "".join(
    f'    found.append("sheep number {n} of the meadow is counted before it is shorn")\n'
    for n in range(400)
)
FILES = {
    "meadow/shear.py": SMALL,
    "meadow/flock.py": LONG,
    "README.md": "# Meadow\n\nSheep and their shears.\n",
}


@pytest.fixture
def meadow(make_repo: MakeRepo) -> Path:
    """Many small memories, and one larger than a pack."""
    return make_repo(FILES)


async def both(pipeline: Pipeline, turn: Turn) -> tuple[JudgeEstimate, JudgeEstimate]:
    """Estimate and forecast the judging of a turn."""
    pool = prepare_turn(pipeline.parts, turn, Stopwatch(), continues_session=False).pool
    judge = pipeline.parts.judge
    return estimate_judging(judge, turn, pool).judge, forecast_judging(judge, turn, pool)


def agree(estimate: JudgeEstimate, forecast: JudgeEstimate) -> None:
    """Compare a forecast with the estimate that renders every prompt."""
    assert forecast.calls == estimate.calls
    assert forecast.input_tokens == pytest.approx(estimate.input_tokens, rel=0.03)
    assert forecast.output_tokens == pytest.approx(estimate.output_tokens, rel=0.03)


@pytest.mark.parametrize("pack_size", [None, 1, 7])
@pytest.mark.parametrize(
    "scope", [Scope(), Scope(paths=("meadow/shear.py",))], ids=["whole", "narrowed"]
)
async def test_a_forecast_is_the_estimate_without_its_prompts(
    meadow: Path, server: OpenAIServer, pack_size: int | None, scope: Scope
) -> None:
    """Whole pool or part of it, packs or single prompts, with a memory in parts: as many calls, the
    same tokens."""
    async with Pipeline.open(meadow, settings_for(server, pack_size=pack_size)) as pipeline:
        agree(*await both(pipeline, Turn(task=TASK.task, scope=scope)))


async def test_a_forecast_holds_after_an_edit(meadow: Path, server: OpenAIServer) -> None:
    """If only changes are judged, in packs for this turn alone, the forecast includes those
    packs."""
    await ask(meadow, settings_for(server), TASK)
    edited = SMALL.replace("sheep * 7 ", "sheep * 700 ").replace("sheep * 80 ", "sheep * 800 ")
    (meadow / "meadow/shear.py").write_text(edited)
    async with Pipeline.open(meadow, settings_for(server)) as pipeline:
        estimate, forecast = await both(pipeline, TASK)
        server.reset()
        answer = await pipeline.ask(TASK, answer=False)
    agree(estimate, forecast)
    assert estimate.to_judge == forecast.to_judge == answer.coverage.judged > 0
    assert server.counts.judging_requests == forecast.calls == answer.spent(Stage.JUDGE).calls


async def test_replies_teach_how_long_they_are(meadow: Path, server: OpenAIServer) -> None:
    """A judge that explains every memory is estimated by its last replies, not by the default."""
    server.reasons_from = 0
    next_turn = Turn(task="Count the sheep.")
    async with Pipeline.open(meadow, settings_for(server)) as pipeline:
        before, _ = await both(pipeline, TASK)
        taken = (await pipeline.ask(TASK, answer=False)).spent(Stage.JUDGE).usage.output_tokens
        after, forecast = await both(pipeline, next_turn)
    assert before.output_tokens < 0.75 * taken
    assert after.output_tokens == pytest.approx(taken, rel=0.1)
    agree(after, forecast)


async def test_of_a_large_pool_a_sample_is_drafted(
    meadow: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sample tells how far sizes alone are off, so the estimate is nearly that of all
    prompts."""
    async with Pipeline.open(meadow, settings_for(server, pack_size=5)) as pipeline:
        unsampled, forecast = await both(pipeline, TASK)
        monkeypatch.setattr(estimating, "RENDERED_MEMORIES", 40)
        sampled, _ = await both(pipeline, TASK)
    assert sampled.calls == pytest.approx(unsampled.calls, rel=0.03)
    assert sampled.input_tokens == pytest.approx(unsampled.input_tokens, rel=0.03)
    assert sampled.input_tokens not in (unsampled.input_tokens, forecast.input_tokens)
