"""Claims: who pays for which content, and what happens to claims of dead, stuck and remote
processes."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import pytest
from msgspec import Struct

from tests.cache.conftest import JUDGE, judgments
from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgment_store import StoredClaims, StoredJudgments
from xscore.platform.errors import StoreDamaged
from xscore.platform.processes import is_alive, process_place
from xscore.records.judgment import ClaimResult, ClaimState

FIRST, SECOND = [["aa", "bb"], ["cc", "dd"]]


class Clock(Struct):
    """A wall clock that can jump."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
async def commits(path: Path, connection: Connection) -> AsyncIterator[GroupCommit]:
    """A writer thread on the store."""
    async with GroupCommit(path) as started:
        yield started


def opened(commits: GroupCommit, **options: Any) -> StoredClaims:
    """Return new claims of one turn by one judge."""
    return StoredClaims(commits, turn_key="t", judge=JUDGE, **options)


async def claim(
    claims: StoredClaims, *packs: Sequence[str], at_most: int = 9
) -> list[ClaimResult]:
    """Claim some packs."""
    return await claims.claim(packs, at_most=at_most)


def shares(results: Sequence[ClaimResult]) -> list[ClaimState]:
    """Return who owns each pack."""
    return [result.state for result in results]


def rows(connection: Connection) -> list[str]:
    """Return the claimed contents."""
    return [row[0] for row in connection.execute("SELECT content FROM claim ORDER BY content")]


async def test_the_first_to_claim_pays(commits: GroupCommit, connection: Connection) -> None:
    """A pack with one content claimed by another runner belongs to that runner; unclaimed packs can
    be claimed."""
    async with opened(commits) as first, opened(commits) as second:
        assert shares(await claim(first, FIRST)) == [ClaimState.OURS]
        assert shares(await claim(second, ["bb", "cc"], SECOND)) == [
            ClaimState.THEIRS,
            ClaimState.OURS,
        ]
        assert shares(await claim(first, FIRST, SECOND)) == [ClaimState.OURS, ClaimState.THEIRS]
        assert rows(connection) == ["aa", "bb", "cc", "dd"]
    await commits.submit(lambda _: None)
    assert rows(connection) == []
    assert connection.execute("SELECT count(*) FROM runner").fetchone()[0] == 0


async def test_what_was_judged_meanwhile_is_taken(
    commits: GroupCommit, connection: Connection
) -> None:
    """A claim returns judgments that another runner already wrote; that runner's commit releases
    its own claims."""
    paid = judgments(0, 2)
    hashes = [first.content_hash for first in paid]
    async with opened(commits) as first, opened(commits) as second:
        await claim(first, hashes)
        await StoredJudgments(commits).writer("t", JUDGE)(paid[:1])
        assert rows(connection) == [hashes[1]]
        (claimed,) = await claim(second, hashes)
        assert (claimed.state, dict(claimed.known)) == (ClaimState.THEIRS, {hashes[0]: paid[0]})
        await StoredJudgments(commits).writer("t", JUDGE)(paid[1:])
        (claimed,) = await claim(second, hashes, at_most=0)
        assert claimed.state is ClaimState.OURS and set(claimed.known) == set(hashes)
        assert rows(connection) == []


async def test_what_is_released_can_be_had(commits: GroupCommit) -> None:
    """Contents released without a judgment go to the next runner that asks, while the first one
    keeps working."""
    async with opened(commits) as first, opened(commits) as second:
        await claim(first, FIRST, SECOND)
        first.release(["aa", "bb"])
        second.release(["cc"])
        assert shares(await claim(second, FIRST, SECOND)) == [
            ClaimState.OURS,
            ClaimState.THEIRS,
        ]


async def test_no_more_is_claimed_than_asked_for(
    commits: GroupCommit, connection: Connection
) -> None:
    """A runner claims as many free packs as it has workers and leaves the rest for others."""
    async with opened(commits) as first:
        assert shares(await claim(first, FIRST, SECOND, at_most=1)) == [
            ClaimState.OURS,
            ClaimState.FREE,
        ]
        assert rows(connection) == FIRST


async def test_a_stuck_runner_is_taken_over_after_its_lease(commits: GroupCommit) -> None:
    """A runner without a heartbeat loses its claims after the lease; one with a heartbeat keeps
    them."""
    clock = Clock()
    first = opened(commits, clock=clock)
    second = opened(commits, clock=clock)
    await claim(first, FIRST)
    clock.now += 29
    assert shares(await claim(second, FIRST)) == [ClaimState.THEIRS]
    await claim(first, SECOND)
    clock.now += 29
    assert shares(await claim(second, FIRST)) == [ClaimState.THEIRS]
    clock.now += 2
    assert shares(await claim(second, FIRST)) == [ClaimState.OURS]


async def test_signs_of_life_are_shown_while_working(
    commits: GroupCommit, connection: Connection
) -> None:
    """A runner that waits long for one reply still counts as alive."""
    async with opened(commits, heartbeat_s=0.01) as runner:
        await claim(runner, FIRST)
        first = connection.execute("SELECT seen_at FROM runner").fetchone()[0]
        while connection.execute("SELECT seen_at FROM runner").fetchone()[0] <= first:  # noqa: ASYNC110  a thread writes the row to the database; there is no event to await
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("jump_s", [-3_600.0, 3_600.0])
async def test_a_clock_that_jumps_frees_claims_at_worst(
    commits: GroupCommit, jump_s: float
) -> None:
    """Setting the wall clock back or forward never leaves a claim that cannot be taken."""
    clock = Clock()
    first = opened(commits, clock=clock)
    second = opened(commits, clock=clock)
    await claim(first, FIRST)
    clock.now += jump_s
    assert shares(await claim(second, FIRST)) == [ClaimState.OURS]
    assert shares(await claim(first, SECOND)) == [ClaimState.OURS]


@pytest.fixture
def ended() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has ended and has not been reaped."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    yield process
    process.wait()


def test_a_process_that_has_ended_is_not_alive(ended: subprocess.Popen[bytes]) -> None:
    """An ended process is not alive, reaped or not; this process is."""
    assert is_alive(os.getpid())
    assert not is_alive(ended.pid)
    ended.wait()
    assert not is_alive(ended.pid)


async def test_a_dead_process_is_taken_over_at_once(
    commits: GroupCommit, connection: Connection, ended: subprocess.Popen[bytes]
) -> None:
    """Claims of a process on this machine that has ended are free."""
    first, second = opened(commits), opened(commits)
    await claim(first, FIRST)
    connection.execute("UPDATE runner SET pid = ?", (ended.pid,))
    assert shares(await claim(second, FIRST)) == [ClaimState.OURS]


async def test_a_process_id_of_another_place_says_nothing(
    commits: GroupCommit, connection: Connection
) -> None:
    """For another container or host only the lease counts; its process ids mean nothing here."""
    first, second = opened(commits), opened(commits)
    await claim(first, FIRST)
    connection.execute(
        "UPDATE runner SET pid = ?, place = ?", (2**22 + 1, f"not {process_place()}")
    )
    assert shares(await claim(second, FIRST)) == [ClaimState.THEIRS]


async def test_one_that_could_not_say_goodbye_is_gone(
    path: Path, connection: Connection
) -> None:
    """A runner whose end could not be written (full disk) holds no claims, even if its process
    lives on."""
    async with GroupCommit(path) as commits:
        first = opened(commits)
        await claim(first, FIRST)
    async with GroupCommit(path) as commits:
        second = opened(commits)
        assert shares(await claim(second, FIRST)) == [ClaimState.THEIRS]
        async with first:
            pass  # its own writer is closed, so nothing is written
        assert rows(connection) == FIRST
        assert shares(await claim(second, FIRST)) == [ClaimState.OURS]


async def test_a_mark_that_makes_no_sense_is_damage(path: Path, connection: Connection) -> None:
    """An unreadable row of another runner is reported as damage with a remedy, not as a bug of the
    writing thread."""
    connection.execute("INSERT INTO runner VALUES ('r', 'x', 'here', 'never')")
    with pytest.raises(StoreDamaged, match="a runner is invalid"):
        async with GroupCommit(path) as commits:
            await claim(opened(commits), FIRST)
