"""Two judges side by side are one judge: every candidate once, as it settles, and what ends one ends both."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from xscore.platform.errors import StoreError
from xscore.records import Candidate, Judgment, Kind, Layer, Turn, Unjudged, UnjudgedCause
from xscore.scorer.claiming import TwoStoreJudge
from xscore.scorer.lexical import LEXICAL_IDENTITY

TURN = Turn(task="x")


def candidate(number: int, layer: Layer) -> Candidate:
    """Make one."""
    return Candidate(f"m_{number}", f"h{number}", layer, Kind.CONTEXT, "", "", 0, 0, "", 1, 0.0)


class Paced:
    """A judge that takes some time for each candidate, and may fail at the end."""

    identity, is_model = LEXICAL_IDENTITY, True
    judged_elsewhere: frozenset[str] = frozenset()

    def __init__(self, seconds: float, *, failure: StoreError | None = None) -> None:
        self.seconds, self.failure = seconds, failure
        self.done, self.stopped = 0, False

    async def judge(self, turn: Turn, candidates: Sequence[Candidate]) -> AsyncIterator[Judgment | Unjudged]:
        """Score everything 0.5."""
        for one in candidates:
            await asyncio.sleep(self.seconds)
            self.done += 1
            yield Judgment(one.content_hash, 0.5)
        if self.failure:
            raise self.failure

    def warnings(self) -> tuple[str, ...]:
        """Say nothing."""
        return ()

    def stop(self, cause: UnjudgedCause) -> None:
        """Note it."""
        self.stopped = True


MANY = [candidate(number, Layer.USER if number % 5 == 0 else Layer.GRAPH) for number in range(20)]


async def test_every_candidate_settles_once() -> None:
    """X03: whichever judge it goes to."""
    found = [result.content_hash async for result in TwoStoreJudge(Paced(0), Paced(0)).judge(TURN, MANY)]
    assert sorted(found) == sorted(one.content_hash for one in MANY)


async def test_nothing_settled_waits_for_the_slower_judge() -> None:
    """What the user's judge has paid for is handed out at once, so a deadline cannot make it unjudged."""
    both = TwoStoreJudge(Paced(60), Paced(0))
    results = both.judge(TURN, MANY)
    async with asyncio.timeout(30):
        found = [(await anext(results)).content_hash for _ in range(4)]
    await results.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert sorted(found) == sorted(one.content_hash for one in MANY if one.layer is Layer.USER)


async def test_a_failure_of_one_ends_both() -> None:
    """A judge that cannot keep what it pays for stops the other from paying."""
    repository = Paced(0.05)
    both = TwoStoreJudge(repository, Paced(0, failure=StoreError("full", hint="Free some.")))
    with pytest.raises(StoreError):
        async for _ in both.judge(TURN, MANY):
            pass
    assert repository.done < 16


def test_both_are_stopped() -> None:
    """A stop reaches both."""
    one, other = Paced(0), Paced(0)
    TwoStoreJudge(one, other).stop(UnjudgedCause.INTERRUPTED)
    assert one.stopped and other.stopped
