"""The announced duration of a turn at current limits, what it learns about its host, and the actual
duration."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conftest import MakeRepo
from tests.observers import EventList
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from tests.waiting import slower_attempts
from xscore.pipeline.build import Pipeline
from xscore.records.estimates import JudgeEstimate
from xscore.records.turn import Turn

TASK = Turn(task="Count the sheep of the night.")


@pytest.fixture
def meadow(make_repo: MakeRepo) -> Path:
    """A repository of three hundred functions in thirty files."""

    def one(n: int) -> str:
        return (
            f'def sheep_{n}(flock: list[int]) -> int:\n    """Count sheep {n} of the flock."""\n   '
            f" return flock[{n}]\n"
        )

    return make_repo(
        {f"f{f:02}.py": "\n\n".join(one(10 * f + n) for n in range(10)) for f in range(30)}
    )


@pytest.mark.parametrize(
    ("rpm", "tpm", "binding"),
    [
        (500, 100_000, "tokens_per_minute"),
        (50, 50_000, "tokens_per_minute"),
        (5, 2_000_000, "requests_per_minute"),
    ],
)
async def test_minutes_at_the_limits_that_were_set(
    meadow: Path, server: OpenAIServer, rpm: int, tpm: int, binding: str
) -> None:
    """The estimate's minutes are its calls and tokens at the limits, and it names the binding
    one."""
    async with Pipeline.open(
        meadow, settings_for(server, rpm=rpm, tpm=tpm, concurrency=32)
    ) as pipeline:
        judge = (await pipeline.estimate(TASK)).judge
    tokens = judge.input_tokens + judge.output_tokens
    assert judge.binding_limit == binding
    assert judge.seconds == pytest.approx(60 * max(judge.calls / rpm, tokens / tpm))
    assert (judge.limits.requests_per_minute, judge.limits.tokens_per_minute) == (rpm, tpm)


async def test_a_turn_about_to_take_long_says_so(meadow: Path, server: OpenAIServer) -> None:
    """At a slow limit the first turn announces minutes and the limit before it judges; a fast one
    announces nothing."""
    settings = settings_for(server, tpm=30_000)
    for attempt in slower_attempts():
        with attempt:
            deadline_s = 1.0 * attempt.slowness
            hurried = replace(settings, budget=replace(settings.budget, deadline_s=deadline_s))
            async with Pipeline.open(
                meadow, hurried, observer=(slow := EventList())
            ) as pipeline:
                await pipeline.index()
                turn = Turn(task=f"{TASK.task} Attempt {attempt.number}.")
                answer = await pipeline.ask(turn, answer=False)
            assert answer.unjudged.by_cause == {"deadline": answer.coverage.unjudged}
            attempt.needs(
                slow.of(JudgeEstimate) or answer.coverage.judged, "the turn got to no judging"
            )
            estimates = slow.of(JudgeEstimate)
            assert [estimate.binding_limit for estimate in estimates] == ["tokens_per_minute"]
            assert estimates[0].seconds > 20
    async with Pipeline.open(
        meadow, settings_for(server, concurrency=64), observer=(quick := EventList())
    ) as pipeline:
        await pipeline.ask(TASK, answer=False)
    assert not quick.of(JudgeEstimate)
