"""Write-through: acknowledged means committed."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from sqlite3 import Connection

import pytest

from tests.cache.conftest import JUDGE, NAMES, judgments
from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgment_store import StoredJudgments
from xscore.cache.judgments import read_judgments
from xscore.platform.errors import StoreError
from xscore.store.opening import connect_store

ACKNOWLEDGING = """
import asyncio, pathlib, sys
from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgment_store import StoredJudgments
from xscore.records.judgment import JudgeIdentity, Judgment
JUDGE = JudgeIdentity("openai", "api.openai.com", "m", "low", "judge-2", "memory_first", True)

async def main(path, first):
    async with GroupCommit(path) as commits:
        writer = StoredJudgments(commits).writer("turn", JUDGE)
        async def work(worker):
            for number in range(worker, 10**9, 8):
                digest = f"{first + number:032x}"
                await writer([Judgment(digest, 0.5)])
                sys.stdout.write(digest + "\\n")
                sys.stdout.flush()
        await asyncio.gather(*map(work, range(8)))

asyncio.run(main(pathlib.Path(sys.argv[1]), int(sys.argv[2])))
"""


def stored(path: Path) -> set[str]:
    """Return the contents with a stored judgment."""
    with closing(connect_store(path)) as connection:
        return set(read_judgments(connection, NAMES))


async def test_what_queues_meanwhile_goes_into_one_commit(path: Path) -> None:
    """Many concurrent tasks share commits, and every judgment is stored."""
    async with GroupCommit(path) as commits:
        writer = StoredJudgments(commits).writer("turn", JUDGE)
        await asyncio.gather(
            *(writer(judgments(number * 5, number * 5 + 5)) for number in range(500))
        )
        assert commits.commits < 100
    assert len(stored(path)) == 2500


async def test_jobs_run_in_the_order_they_were_handed_over(path: Path) -> None:
    """A posted job is committed with or before every job queued after it."""
    order: list[int] = []
    async with GroupCommit(path) as commits:
        for number in range(50):
            commits.post(partial(_note, order, number))
        seen = await commits.submit(lambda connection: len(order))
    assert seen == 50
    assert order == list(range(50))


async def test_what_is_added_for_one_bulk_is_written_at_once(path: Path) -> None:
    """Items queued for one bulk write arrive in one call, in order, together with what was posted
    among them."""
    calls: list[list[int]] = []

    def note(items: Sequence[int], connection: Connection) -> None:
        calls.append(list(items))

    locked, free = threading.Event(), threading.Event()

    def hold(connection: Connection) -> None:
        locked.set()
        free.wait(60)

    async with GroupCommit(path) as commits:
        commits.post(hold)
        await asyncio.to_thread(locked.wait, 60)
        for number in range(9):
            commits.post_item(note, number)
            commits.post(_insert_meta(f"k{number}"))
        # It is queued when the lock is let go.
        last = asyncio.ensure_future(commits.submit_item(note, 9))
        await asyncio.sleep(0)
        free.set()
        await last
        assert commits.commits == 2
    assert calls == [list(range(10))]


async def test_one_who_waits_to_be_caught_up_waits_for_all_before(path: Path) -> None:
    """After `caught_up`, everything queued before is committed; with an empty queue it returns at
    once."""
    async with GroupCommit(path) as commits:
        reader = connect_store(path)
        for number in range(20):
            commits.post(_insert_meta(f"k{number}"))
        await commits.caught_up()
        assert reader.execute("SELECT count(*) FROM meta").fetchone() == (20,)
        waiting = asyncio.ensure_future(commits.caught_up())
        await asyncio.sleep(0)
        assert waiting.done()
        reader.close()


async def test_closing_commits_what_is_queued(path: Path) -> None:
    """Closing the writer loses no posted item, even after an exception."""
    with pytest.raises(KeyError):
        async with GroupCommit(path) as commits:
            for number in range(100):
                commits.post(_insert_meta(f"k{number}"))
            raise KeyError("stop")
    connection = connect_store(path)
    assert connection.execute("SELECT count(*) FROM meta").fetchone() == (100,)
    connection.close()


async def test_a_cancelled_wait_does_not_take_the_judgments_back(path: Path) -> None:
    """A paid judgment is stored even if its caller no longer waits for it."""
    async with GroupCommit(path) as commits:
        writer = StoredJudgments(commits).writer("turn", JUDGE)
        waiting = asyncio.ensure_future(writer(judgments(0, 5)))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert len(stored(path)) == 5


@pytest.mark.parametrize("replaced", [True, False])
async def test_a_store_that_was_moved_is_not_written_on(path: Path, *, replaced: bool) -> None:
    """If the database file is gone, writing and spending raise an error, and nothing is stored."""
    with pytest.raises(StoreError, match="moved or replaced"):
        async with GroupCommit(path) as commits:
            await commits.submit(_insert_meta("before"))
            aside = path.parent / "aside-1"
            aside.mkdir()
            for side in ("", "-wal", "-shm"):
                path.with_name(path.name + side).rename(aside / (path.name + side))
            if replaced:
                connect_store(path).close()
            with pytest.raises(StoreError, match="moved or replaced"):
                await commits.submit(_insert_meta("after"))
            with pytest.raises(StoreError, match="moved or replaced"):
                await commits.caught_up()
    with closing(connect_store(aside / path.name)) as connection:
        assert connection.execute("SELECT key FROM meta").fetchall() == [("before",)]


async def test_a_failed_commit_stops_everyone(path: Path) -> None:
    """A failed commit is raised to all current and later callers: nothing more is bought if it
    cannot be stored."""
    commits = GroupCommit(path)
    with pytest.raises(StoreError):
        async with commits:
            writer = StoredJudgments(commits).writer("turn", JUDGE)
            commits.post(lambda connection: connection.execute("PRAGMA query_only = ON"))
            for _ in range(2):
                with pytest.raises(StoreError, match="cannot be written"):
                    await writer(judgments(0, 5))
            with pytest.raises(StoreError):
                commits.post(_insert_meta("late"))


async def test_a_full_disk_is_said_to_be_full(path: Path) -> None:
    """A store that cannot grow raises StoreError with a remedy; what was committed before stays."""
    with pytest.raises(StoreError, match="disk is full"):
        async with GroupCommit(path) as commits:
            writer = StoredJudgments(commits).writer("turn", JUDGE)
            await writer(judgments(0, 10))
            await commits.submit(
                lambda connection: connection.execute("PRAGMA max_page_count = 1").fetchone()
            )
            await writer(judgments(10, 50_000))
    assert len(stored(path)) == 10


@pytest.mark.verify
def test_sigkill_loses_no_acknowledged_judgment(path: Path) -> None:
    """Killed at six arbitrary points while eight tasks write, the store has every acknowledged
    judgment."""
    acknowledged: set[str] = set()
    for run in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", ACKNOWLEDGING, str(path), str(run * 10**9)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        for _ in range(10 * run + 1):
            acknowledged.add(process.stdout.readline().strip())
        process.send_signal(signal.SIGKILL)
        acknowledged |= {line.strip() for line in process.stdout if line.endswith("\n")}
        process.wait()
        process.stdout.close()
        assert acknowledged <= stored(path)
    assert len(acknowledged) > 50


def _note(order: list[int], number: int, connection: Connection) -> None:
    order.append(number)


def _insert_meta(key: str) -> Callable[[Connection], object]:
    return lambda connection: connection.execute("INSERT INTO meta VALUES (?, '')", (key,))
