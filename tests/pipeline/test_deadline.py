"""A deadline ends a turn in time with what is judged; the rest can be judged later."""

import asyncio
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conftest import MakeRepo
from tests.observers import EventList
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from tests.waiting import Attempt, slower_attempts, wait_until
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.files import FINE_GRAIN_NS
from xscore.providers.spec import import_http_client
from xscore.records.calls import Stage
from xscore.records.events import Progress
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import Settings

TASK = Turn(task="Count the sheep of the night.")
CONCURRENCY = 4
SILENT_S, PATIENCE_S = 90.0, 45.0
"""A host's silence, and how long a turn with a deadline may take on a busy machine."""


@pytest.fixture
def flock(make_repo: MakeRepo) -> Path:
    """A repository of forty functions."""
    return make_repo(
        {
            f"f{n:02}.py": f'def sheep_{n}() -> int:\n    """Count sheep {n}."""\n    return {n}\n'
            for n in range(40)
        }
    )


def within(settings: Settings, deadline_s: float | None) -> Settings:
    """The same settings with a deadline."""
    return replace(settings, budget=replace(settings.budget, deadline_s=deadline_s))


async def ask(
    root: Path, settings: Settings, *, answer: bool = False, task: str = TASK.task
) -> Answer:
    """Ask once with an up-to-date index and the HTTP client imported, so that only the host's
    latency is measured."""
    await import_http_client("openai")
    async with Pipeline.open(root, settings) as pipeline:
        await pipeline.index()
        return await pipeline.ask(Turn(task=task), answer=answer)


async def ask_paced(
    root: Path,
    server: OpenAIServer,
    settings: Settings,
    *,
    pace: tuple[float, float],
    attempt: Attempt,
    answer: bool = False,
) -> Answer:
    """Ask with a deadline at a host with latency, both longer in a later attempt, which has a task
    of its own: nothing that an earlier one judged is cached."""
    server.reset()
    deadline_s, server.latency_s = (attempt.slowness * seconds for seconds in pace)
    return await ask(
        root,
        within(settings, deadline_s),
        answer=answer,
        task=f"{TASK.task} Attempt {attempt.number}.",
    )


async def test_a_turn_ends_at_its_deadline(flock: Path, server: OpenAIServer) -> None:
    """The rest is unjudged for the deadline, and the counts add up."""
    settings = settings_for(server, pack_size=1, concurrency=4)
    for attempt in slower_attempts():
        with attempt:
            answer = await ask_paced(flock, server, settings, pace=(1.5, 0.3), attempt=attempt)
            coverage = answer.coverage
            assert coverage.unjudged > 0
            assert coverage.candidates == coverage.judged + coverage.unjudged
            assert answer.unjudged.by_cause == {"deadline": coverage.unjudged}
            attempt.needs(coverage.judged, "no memory was judged")
            assert answer.exit_code == 1


async def test_calls_that_would_end_too_late_are_not_begun(
    flock: Path, server: OpenAIServer
) -> None:
    """Once the host's pace is known, no call is in flight at the deadline, so none is paid and cut
    off."""
    settings = settings_for(server, pack_size=1, concurrency=CONCURRENCY)
    for attempt in slower_attempts():
        with attempt:
            answer = await ask_paced(flock, server, settings, pace=(2.2, 0.4), attempt=attempt)
            judging = answer.spent(Stage.JUDGE)
            wait_until(lambda: server.counts.in_flight == 0)
            # Whatever a busy machine held up: no call is paid that the receipt does not count.
            assert answer.coverage.judged == judging.calls
            assert judging.calls <= server.counts.judging_requests <= judging.attempts
            assert judging.attempts - judging.calls <= CONCURRENCY
            attempt.needs(judging.calls > CONCURRENCY, "the host's pace was not known")
            attempt.needs(
                judging.attempts == judging.calls,
                f"{judging.attempts - judging.calls} calls were cut off",
            )
            assert server.counts.judging_requests == judging.attempts


async def test_an_answer_that_takes_too_long_is_given_up(
    flock: Path, server: OpenAIServer
) -> None:
    """The chosen context is returned instead, exit 7, in time."""
    settings = settings_for(server)
    await ask(flock, settings)
    for attempt in slower_attempts():
        with attempt:
            begun = time.monotonic()
            server.latency_s = SILENT_S
            answer = await ask(
                flock, within(settings, 1.0 * attempt.slowness), answer=True, task=TASK.task
            )
            assert time.monotonic() - begun < PATIENCE_S
            assert answer.answer is None
            attempt.needs(answer.exit_code == 7, f"it ended with {answer.exit_code}")
            assert answer.coverage.cached == answer.coverage.candidates
            assert any("deadline" in warning for warning in answer.warnings)


async def test_the_provisional_best_are_told_best_first(
    flock: Path, server: OpenAIServer
) -> None:
    """X05: at most K leaders, best first; a second run shows the cached ones from the start."""
    server.score = table({f"f{n:02}.py::sheep_{n}": n for n in range(40)})
    watch = EventList()
    async with Pipeline.open(flock, settings_for(server), observer=watch) as pipeline:
        await pipeline.ask(TASK, answer=False)
        scores = [leader.score for leader in watch.of(Progress)[-1].leaders]
        await pipeline.ask(TASK, answer=False)
    assert scores == [n / 100 for n in range(39, 24, -1)]
    assert [leader.score for leader in watch.of(Progress)[-1].leaders] == scores


async def test_continue_judges_only_the_rest(flock: Path, server: OpenAIServer) -> None:
    """Judgments of the interrupted turn are carried and not paid again; together nothing is
    left."""
    settings = settings_for(server, pack_size=1, concurrency=4)
    for attempt in slower_attempts():
        with attempt:
            first = await ask_paced(flock, server, settings, pace=(1.2, 0.2), attempt=attempt)
            attempt.needs(first.coverage.judged, "no memory was judged")
    server.latency_s = 0.0
    async with Pipeline.open(flock, settings) as pipeline:
        second = await pipeline.resume(first.turn_id)
    assert second.continues == first.turn_id and second.turn_id != first.turn_id
    assert second.coverage.carried == first.coverage.judged > 0
    assert second.coverage.judged == first.coverage.unjudged
    assert second.coverage.cached == second.coverage.unjudged == 0
    assert second.answer is not None
    # A busy machine may hold up a call until the deadline cuts it off.
    judging = first.spent(Stage.JUDGE)
    twice = [times for times in server.counts.judgments.values() if times > 1]
    assert len(twice) <= judging.attempts - judging.calls and set(twice) <= {2}


async def test_continue_takes_the_latest_turn(flock: Path, server: OpenAIServer) -> None:
    """Without an id the latest turn is finished; a finished one is reported as such."""
    async with Pipeline.open(flock, settings_for(server)) as pipeline:
        with pytest.raises(NothingMatched, match="no turn yet"):
            await pipeline.resume()
        first = await pipeline.ask(TASK, answer=False)
        second = await pipeline.resume()
        assert second.continues == first.turn_id
        assert second.coverage.carried == second.coverage.candidates
        with pytest.raises(UsageError, match="is done"):
            await pipeline.resume(second.turn_id)
        with pytest.raises(NothingMatched, match="no turn t_none"):
            await pipeline.resume("t_none")


async def test_continue_judges_what_was_edited(flock: Path, server: OpenAIServer) -> None:
    """A memory edited since the turn is judged again, the others are carried."""
    settings = settings_for(server)
    first = await ask(flock, settings)
    (flock / "f00.py").write_text(
        'def sheep_0() -> int:\n    """Count black sheep."""\n    return 0\n'
    )
    async with Pipeline.open(flock, settings) as pipeline:
        second = await pipeline.resume(first.turn_id, answer=True)
    assert second.coverage.carried == first.coverage.judged - 1 and second.coverage.judged == 1


async def test_a_growing_index_is_told(
    flock: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indexing takes at most half of the time; a turn that misses files is partial, and `continue`
    finishes it."""
    settings = settings_for(server)
    # One file would be read in it.
    monkeypatch.setattr("xscore.pipeline.prepare.LEAST_INDEX_S", 0.0)
    # A file younger than that is read again by the next run.
    await asyncio.sleep(FINE_GRAIN_NS / 1e9)
    await ask(flock, settings)
    (flock / "late.py").write_text(
        'def late() -> int:\n    """Count late sheep."""\n    return 1\n'
    )
    async with Pipeline.open(flock, within(settings, 5.0)) as pipeline:
        first = await pipeline.ask(TASK, answer=False, started=time.monotonic() - 5.0)
    assert (first.files_left, first.partial, first.exit_code) == (1, True, 1)
    assert (
        "the index is still being built: 1 of 41 files left. `xscore index` finishes it."
        in first.warnings
    )
    async with Pipeline.open(flock, settings) as pipeline:
        second = await pipeline.resume(first.turn_id, answer=False)
    assert second.files_left == 0
    assert second.coverage.candidates == first.coverage.candidates + 1
    assert second.exit_code == 0
