"""One background process for each store finishes the turns that deadlines cut short, then exits."""

import os
import resource
import shutil
import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import own_store
from tests.conftest import git, store_dir, store_file
from tests.extensions.agents.conftest import ask_within, processes_in
from tests.servers.decision_server import DecisionServer
from tests.waiting import rows, wait_until
from xscore.cache.background_lease import BackgroundLease, read_background
from xscore.extensions.agents import background_work
from xscore.extensions.agents.background import wake_background
from xscore.pipeline.build import Pipeline
from xscore.platform.clock import day_of
from xscore.platform.paths import find_root, user_data_dir
from xscore.records.reports import BackgroundStatus
from xscore.settings import MemorySettings, Settings
from xscore.store import opening
from xscore.store.index_rows import write_index_meta
from xscore.store.worktrees import enter_worktree


def wake(root: Path) -> bool:
    """Wake the background process of a repository."""
    return wake_background(find_root(root))


def tasks_left(connection: sqlite3.Connection, *, now: float = 0.0) -> set[str]:
    """Return the tasks of the turns that a process would finish."""
    unfinished = connection.execute(
        background_work._CUT_SHORT, {"now": now or time.time(), "worktree": ""}
    ).fetchall()
    named = "SELECT task FROM turn WHERE id = ?"
    return {str(connection.execute(named, (turn,)).fetchone()[0]) for turn, _ in unfinished}


def connect(root: Path) -> sqlite3.Connection:
    """Open the store of a repository as a process of its user does, with a note of its journal. The
    watched process would refuse a journal without one."""
    return opening.connect_store(store_file(root), opening.key_source(user_data_dir(None)))


def status(root: Path) -> BackgroundStatus:
    """Return what `xscore status` says about it."""
    with closing(connect(root)) as connection:
        enter_worktree(connection)
        return read_background(connection, now=time.time())


def has_ended(root: Path) -> bool:
    """Whether no background process is there, nor one that has just been started: it has its lease
    before it has a name."""
    return status(root).pid is None and not processes_in(root)


async def cut_short(root: Path, host: DecisionServer, *, thread: str = "") -> str:
    """Ask a silent host, so that the deadline leaves everything unjudged; return the turn."""
    host.latency_s = 3_600.0  # what it was asked is not counted later
    async with Pipeline.open(root, Settings(memory=MemorySettings(observe=False))) as pipeline:
        await pipeline.index()  # which would take longer than the deadline
    answer = await ask_within(root, 0.4, thread=thread)
    assert answer.unjudged.by_cause == {"deadline": answer.coverage.candidates}
    return answer.turn_id


async def test_what_a_deadline_left_is_judged_and_the_process_ends(
    flock: Path, host: DecisionServer
) -> None:
    """The turn is finished under its own thread, replaces the one cut short, and no process
    stays."""
    turn = await cut_short(flock, host, thread="agent-1")
    host.latency_s, host.requests = 0.0, 0
    host.judged.clear()
    assert wake(flock)
    wait_until(lambda: has_ended(flock))
    assert rows(flock, "SELECT state FROM turn WHERE id = ?", turn) == [("continued",)]
    ((latest, thread, state),) = rows(
        flock,
        "SELECT turn.id, thread, state FROM worktree_meta JOIN turn ON turn.id = value WHERE key ="
        " 'latest_turn'",
    )
    assert (thread, state) == ("agent-1", "done") and latest != turn
    assert {count for name, count in host.judged.items() if "sheep" in name} == {1}
    assert status(flock) == BackgroundStatus()
    repeated = await ask_within(flock, 2.0, thread="agent-1")
    assert repeated.coverage.unjudged == repeated.coverage.judged == 0


async def test_many_who_ask_at_once_start_one_which_sigterm_ends(
    flock: Path, host: DecisionServer
) -> None:
    """Twelve wakes start one process, which reports its work; SIGTERM ends it, and the turn remains
    to be finished."""
    turn = await cut_short(flock, host)
    host.latency_s = 25.0  # longer than it may take to end
    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(lambda _: wake(flock), range(12)))
    wait_until(lambda: "judging" in status(flock).doing)
    # One started without the lease ends by itself.
    wait_until(lambda: processes_in(flock) == [status(flock).pid])
    running = status(flock)
    pid = running.pid
    assert pid is not None and turn in running.doing and not running.watches
    os.kill(pid, signal.SIGTERM)
    # A process leaves the list of processes a moment before it lets go of its lock.
    wait_until(lambda: not processes_in(flock) and status(flock) == BackgroundStatus())
    assert rows(flock, "SELECT state FROM turn WHERE id = ?", turn) == [("partial",)]


async def test_a_killed_process_is_seen_and_replaced_at_once(
    flock: Path, host: DecisionServer
) -> None:
    """After SIGKILL the status shows none, the next wake starts another, and that one finishes the
    turn."""
    turn = await cut_short(flock, host)
    assert wake(flock)
    wait_until(lambda: "judging" in status(flock).doing)
    (pid,) = processes_in(flock)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    assert status(flock).pid is None  # its lease of 30 s is not waited for
    host.latency_s = 0.0
    assert wake(flock)
    assert status(flock).pid != pid
    wait_until(lambda: has_ended(flock))
    assert rows(flock, "SELECT state FROM turn WHERE id = ?", turn) == [("continued",)]


@pytest.mark.parametrize(
    "gone",
    [".git/xscore", pytest.param(".", marks=pytest.mark.verify)],
    ids=["store", "repository"],
)
async def test_it_ends_when_its_place_is_gone(
    flock: Path, host: DecisionServer, gone: str
) -> None:
    """A store or repository removed under it is not created again."""
    await cut_short(flock, host)
    assert wake(flock)
    wait_until(lambda: "judging" in status(flock).doing)
    (pid,) = processes_in(flock)
    shutil.rmtree(flock / gone)
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    assert not (store_dir(flock)).exists()
    assert not wake(flock)


async def test_an_index_cut_short_is_completed(flock: Path, host: DecisionServer) -> None:
    """What a deadline left of a first index is read in the background and judged for the
    question."""
    async with Pipeline.open(flock) as pipeline:
        assert pipeline.parts.index(time.monotonic()).files_left == 40
    host.latency_s = 30.0
    turn = (await ask_within(flock, 0.25)).turn_id
    host.latency_s = 0.0
    assert wake(flock)
    wait_until(lambda: has_ended(flock))
    assert rows(flock, "SELECT count(*) FROM file") == [(40,)]
    judged = rows(flock, "SELECT count(*) FROM judgment")
    # And what they show of the project.
    assert judged == rows(flock, "SELECT count(*) FROM memory")
    assert rows(flock, "SELECT state FROM turn WHERE id = ?", turn) == [("continued",)]


async def test_only_what_a_deadline_left_of_the_newest_question_is_taken(
    flock: Path, host: DecisionServer
) -> None:
    """Skipped: command-line turns, earlier questions of a thread, yesterday's; taken: the latest of
    both threads."""
    host.latency_s = 30.0
    for thread, command in (("a", "ask"), ("b", "hook"), ("b", "context"), ("c", "mcp")):
        await ask_within(
            flock, 0.3, task=f"Sheep {thread} {command}", thread=thread, command=command
        )
    await ask_within(
        flock, None, task="Newest of c is done", thread="c", command="hook", judge="lexical"
    )
    with closing(connect(flock)) as connection:
        assert tasks_left(connection) == {"Sheep b context"}
        assert tasks_left(connection, now=time.time() + 90_000) == set()


@pytest.mark.parametrize(("cap", "place"), [("", "here"), ("0.50", "here"), ("", "worktree")])
async def test_the_share_of_a_day_is_kept(
    flock: Path, host: DecisionServer, monkeypatch: pytest.MonkeyPatch, cap: str, place: str
) -> None:
    """Past the user's daily cap, or a dollar of background work without one, nothing is sent; the
    status says so.

    The dollar is one for all worktrees.
    """
    turn, spends = await cut_short(flock, host), flock
    if place == "worktree":
        git(flock, "worktree", "add", "-q", "../second")
        spends = flock.parent / "second"
        own_store(spends).close()
    if cap:
        monkeypatch.setenv("XSCORE_BUDGET_MAX_USD_DAY", cap)
    host.latency_s = 0.0
    with closing(connect(spends)) as connection:
        now, columns = (
            time.time(),
            dict[str, object](provider="p", host="h", model="m", stage="judge", outcome="ok"),
        )
        row = {"id": "c1", "turn_id": "w_1", "started_at": now, "cost": 10**12, **columns}
        zeros = (
            "duration_s candidates input_tokens cached_input_tokens cache_write_tokens"
            " output_tokens"
        )
        row |= dict.fromkeys([*zeros.split(), "reasoning_tokens", "estimated"], 0)
        connection.execute(
            f"INSERT INTO call ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
            [*row.values()],
        )
        connection.execute(
            "INSERT OR REPLACE INTO spending VALUES (?, ?)", (day_of(now), 10**12)
        )
    assert wake(flock)
    wait_until(lambda: has_ended(flock))
    assert turn in status(flock).problem and "used up" in status(flock).problem
    assert not host.judged
    assert rows(flock, "SELECT state FROM turn WHERE id = ?", turn) == [("partial",)]


async def test_an_erased_turn_still_counts_against_the_day(
    flock: Path, host: DecisionServer
) -> None:
    """Erasing the background's turns gives it no new dollar."""
    await cut_short(flock, host)
    host.latency_s = 0.0
    assert wake(flock)
    wait_until(lambda: has_ended(flock))
    with closing(connect(flock)) as connection:
        connection.execute("UPDATE call SET cost = 7 WHERE outcome = 'ok'")
        spent = connection.execute(background_work._SPENT, {"since": 0.0}).fetchone()
        connection.execute("DELETE FROM turn")
        assert (
            connection.execute(background_work._SPENT, {"since": 0.0}).fetchone()
            == spent
            == (7,)
        )


@pytest.mark.verify
async def test_a_full_disk_is_nobodys_error(flock: Path, host: DecisionServer) -> None:
    """If nothing can be written, a wake raises nothing and no process stays; with free space the
    turn is finished."""
    turn = await cut_short(flock, host)
    host.latency_s = 0.0
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        wake(flock)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    wait_until(lambda: has_ended(flock))
    assert wake(flock)
    wait_until(lambda: has_ended(flock))
    assert rows(flock, "SELECT state FROM turn WHERE id = ?", turn) == [("continued",)]


async def test_a_store_made_elsewhere_wakes_nothing(flock: Path, host: DecisionServer) -> None:
    """A copied repository's store is not trusted: no process starts."""
    await cut_short(flock, host)
    copy = flock.with_name("copy")
    shutil.copytree(flock, copy)
    assert not wake(copy)
    assert not processes_in(copy)


async def test_the_repository_cannot_run_code_in_it(
    flock: Path, host: DecisionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a folder `xscore` nor a `sitecustomize` is imported, even if the user's path has an
    empty entry."""
    turn, mark = await cut_short(flock, host), flock.with_name("ran")
    planted = f"open({str(mark)!r}, 'w')\n"
    (flock / "xscore").mkdir()
    for name in ("xscore/__init__.py", "sitecustomize.py", "usercustomize.py"):
        (flock / name).write_text(planted)
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}.{os.pathsep}{Path(__file__).parents[3]}")
    host.latency_s = 0.0
    assert wake(flock)
    wait_until(lambda: has_ended(flock))
    assert rows(flock, "SELECT state FROM turn WHERE id = ?", turn) == [("continued",)]
    assert not mark.exists()


def test_a_clock_set_back_locks_nobody_out(tmp_path: Path) -> None:
    """A heartbeat from the future is ignored, and its process notices that it was replaced."""
    with closing(opening.connect_store(tmp_path / "memory.db")) as connection:
        enter_worktree(connection)
        before = BackgroundLease(connection, clock=lambda: 2e9)
        assert before.take()
        after = BackgroundLease(connection, clock=lambda: 1e9)
        assert after.take()
        assert not before.beat()
        assert after.beat()
        before.end("")
        after.end("it rained\non us")
        assert read_background(connection, now=1e9) == BackgroundStatus(
            problem="it rained on us"
        )


def test_an_unreadable_holder_is_none(tmp_path: Path) -> None:
    """An invalid row of the background process holds no lease, fails no status and is
    overwritten."""
    with closing(opening.connect_store(tmp_path / "memory.db")) as connection:
        enter_worktree(connection)
        write_index_meta(connection, "background", '{"runner": ')
        assert read_background(connection, now=1e9) == BackgroundStatus()
        assert BackgroundLease(connection, clock=lambda: 1e9).take()
        assert read_background(connection, now=1e9).pid == os.getpid()
