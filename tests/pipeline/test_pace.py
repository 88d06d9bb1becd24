"""What a turn is said to take at the limits in force, what it is told of its host, and what it then takes."""

import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conftest import MakeRepo
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from xscore.pipeline.build import Pipeline
from xscore.pipeline.parts import Stopwatch
from xscore.pipeline.pool import Pool
from xscore.pipeline.prepare import open_turn
from xscore.records import JudgeEstimate, SilentObserver, Turn

TASK = Turn(task="Count the sheep of the night.")


@pytest.fixture
def meadow(make_repo: MakeRepo) -> Path:
    """A repository of three hundred functions in thirty files."""

    def one(n: int) -> str:
        return (
            f'def sheep_{n}(flock: list[int]) -> int:\n    """Count sheep {n} of the flock."""\n    return flock[{n}]\n'
        )

    return make_repo({f"f{f:02}.py": "\n\n".join(one(10 * f + n) for n in range(10)) for f in range(30)})


@pytest.mark.parametrize(
    ("rpm", "tpm", "binding"),
    [(500, 200_000, "tokens_per_minute"), (50, 50_000, "tokens_per_minute"), (5, 2_000_000, "requests_per_minute")],
)
async def test_minutes_at_the_limits_that_were_set(
    meadow: Path, server: OpenAIServer, rpm: int, tpm: int, binding: str
) -> None:
    """The estimate's minutes are its own calls and tokens at the limits, and it names the one that binds."""
    async with Pipeline.open(meadow, settings_for(server, rpm=rpm, tpm=tpm, concurrency=32)) as pipeline:
        judge = (await pipeline.estimate(TASK)).judge
    tokens = judge.input_tokens + judge.output_tokens
    assert judge.binding_limit == binding
    assert judge.seconds == pytest.approx(60 * max(judge.calls / rpm, tokens / tpm))
    assert (judge.limits.requests_per_minute, judge.limits.tokens_per_minute) == (rpm, tpm)


class Hears(SilentObserver):
    """Keeps what is forecast."""

    def __init__(self) -> None:
        self.forecasts: list[JudgeEstimate] = []

    def forecast(self, forecast: JudgeEstimate) -> None:
        """Keep it."""
        self.forecasts.append(forecast)


@pytest.mark.verify
async def test_what_the_host_states_is_in_force_and_remembered(meadow: Path, server: OpenAIServer) -> None:
    """Limits in a reply's headers are in the receipt, and hold for the next estimate in another process."""
    server.headers = {"x-ratelimit-limit-requests": "500", "x-ratelimit-limit-tokens": "40000"}
    settings = settings_for(server)
    async with Pipeline.open(meadow, settings) as pipeline:
        first = await pipeline.ask(TASK, answer=False)
    async with Pipeline.open(meadow, settings, observer=(watch := Hears())) as pipeline:
        other = Turn(task="Shear the sheep.")
        judge = (await pipeline.estimate(other)).judge
        forecast = pipeline.parts.judge.forecast(other, _pool(pipeline, other))
    assert first.traffic.limits.tokens_per_minute == 40_000
    assert first.traffic.concurrency[0].because == "start"
    assert (judge.binding_limit, judge.limits.requests_per_minute) == ("tokens_per_minute", 500)
    assert judge.seconds > 20 and not watch.forecasts
    assert forecast.seconds == pytest.approx(judge.seconds, rel=0.25)


def _pool(pipeline: Pipeline, turn: Turn) -> Pool:
    return open_turn(pipeline.parts, turn, Stopwatch()).pool


async def test_a_turn_about_to_take_long_says_so(meadow: Path, server: OpenAIServer) -> None:
    """At a slow limit the first turn says minutes and what binds before it judges; a quick one says nothing."""
    settings = settings_for(server, tpm=30_000)
    hurried = replace(settings, budget=replace(settings.budget, deadline_s=1.0))
    async with Pipeline.open(meadow, hurried, observer=(slow := Hears())) as pipeline:
        await pipeline.ask(TASK, answer=False)
    async with Pipeline.open(meadow, settings_for(server), observer=(quick := Hears())) as pipeline:
        await pipeline.ask(TASK, answer=False)
    assert [one.binding_limit for one in slow.forecasts] == ["tokens_per_minute"]
    assert slow.forecasts[0].seconds > 20 and not quick.forecasts


async def test_a_probe_is_shown_apart(meadow: Path, server: OpenAIServer) -> None:
    """The first turn at an unknown host has a probe beside its judging; the next has none."""
    settings = settings_for(server, probe=True)
    async with Pipeline.open(meadow, settings) as pipeline:
        first = await pipeline.ask(TASK, answer=False)
        second = await pipeline.ask(Turn(task="Shear the sheep."), answer=False)
    assert first.probe_usage is not None and first.probe_usage.calls == 1 and first.probe_usage.usage.input_tokens > 0
    assert second.probe_usage is None
    sent = [body for body in server.counts.bodies if "probe/add.py" in str(body)]
    assert len(sent) == 1 and server.counts.requests == 1 + first.judge_usage.calls + second.judge_usage.calls


@pytest.mark.verify
async def test_a_turn_takes_what_was_estimated(meadow: Path, server: OpenAIServer) -> None:
    """Where tokens a minute bind, the seconds of the turn are those of the estimate, burst deducted."""
    settings = settings_for(server, tpm=60_000)
    async with Pipeline.open(meadow, settings) as pipeline:
        judge = (await pipeline.estimate(TASK)).judge
        begun = time.monotonic()
        answer = await pipeline.ask(TASK, answer=False)
        took = time.monotonic() - begun
    assert judge.binding_limit == "tokens_per_minute" and answer.coverage.unjudged == 0
    assert 0.7 * judge.seconds <= took + 3.0 and took <= 1.25 * judge.seconds + 1.0
