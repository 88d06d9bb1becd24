"""The background process: one per store, whoever asks for it; it finishes what deadlines left, and then it ends."""

import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.extensions.agents.conftest import ask_within, processes_in, query, wait_until
from tests.servers.decision_server import DecisionServer
from xscore.cache.background_lease import BackgroundLease, read_background
from xscore.extensions.agents.background import wake_background
from xscore.records.reports import BackgroundStatus
from xscore.store import opening


def wake(root: Path) -> bool:
    """Ask for the background process of a repository."""
    return wake_background(root / ".xscore", root)


def status(root: Path) -> BackgroundStatus:
    """What `xscore status` says of it."""
    with closing(opening.connect_store(root / ".xscore" / "memory.db")) as connection:
        return read_background(connection, now=time.time())


async def cut_short(root: Path, host: DecisionServer, *, thread: str = "") -> str:
    """Ask at a silent host, so that the deadline leaves all unjudged; return the turn."""
    host.latency_s = 30.0
    answer = await ask_within(root, 0.4, thread=thread)
    assert answer.unjudged.by_cause == {"deadline": answer.coverage.candidates}
    return answer.turn_id


async def test_what_a_deadline_left_is_judged_and_the_process_ends(flock: Path, host: DecisionServer) -> None:
    """The turn is finished under its own thread, takes the place of the one cut short, and nothing is left running."""
    turn = await cut_short(flock, host, thread="agent-1")
    host.latency_s, host.requests = 0.0, 0
    host.judged.clear()
    assert wake(flock)
    wait_until(lambda: not processes_in(flock))
    assert query(flock, "SELECT state FROM turn WHERE id = ?", turn) == [("continued",)]
    ((latest, thread, state),) = query(
        flock, "SELECT turn.id, thread, state FROM meta JOIN turn ON turn.id = value WHERE key = 'latest_turn'"
    )
    assert (thread, state) == ("agent-1", "done") and latest != turn
    assert set(host.judged.values()) == {1}
    assert status(flock) == BackgroundStatus()
    again = await ask_within(flock, 2.0, thread="agent-1")
    assert again.coverage.unjudged == again.coverage.judged == 0


async def test_many_who_ask_at_once_start_one_which_sigterm_ends(flock: Path, host: DecisionServer) -> None:
    """Twelve wakes, one process; it says what it does; SIGTERM ends it, and the turn stays to be finished."""
    turn = await cut_short(flock, host)
    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(lambda _: wake(flock), range(12)))
    wait_until(lambda: "judging" in status(flock).doing)
    (pid,) = processes_in(flock)
    found = status(flock)
    assert found.pid == pid and turn in found.doing and not found.watches
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not processes_in(flock))
    assert status(flock) == BackgroundStatus()
    assert query(flock, "SELECT state FROM turn WHERE id = ?", turn) == [("partial",)]
    assert query(flock, "SELECT count(*) FROM runner") == [(0,)]


async def test_a_killed_process_is_seen_and_replaced_at_once(flock: Path, host: DecisionServer) -> None:
    """After SIGKILL the status says none, the next wake starts another, and that one finishes the turn."""
    turn = await cut_short(flock, host)
    assert wake(flock)
    wait_until(lambda: "judging" in status(flock).doing)
    (pid,) = processes_in(flock)
    os.kill(pid, signal.SIGKILL)
    killed_at = time.monotonic()
    wait_until(lambda: status(flock).pid is None)
    assert time.monotonic() - killed_at < 10  # the lease is 30 s: nobody waited for it
    host.latency_s = 0.0
    assert wake(flock)
    assert status(flock).pid not in (None, pid)
    wait_until(lambda: not processes_in(flock))
    assert query(flock, "SELECT state FROM turn WHERE id = ?", turn) == [("continued",)]


async def test_it_ends_when_its_store_is_gone(flock: Path, host: DecisionServer) -> None:
    """A store removed under it is not made again."""
    await cut_short(flock, host)
    assert wake(flock)
    wait_until(lambda: "judging" in status(flock).doing)
    shutil.rmtree(flock / ".xscore")
    wait_until(lambda: not processes_in(flock))
    assert not (flock / ".xscore").exists()
    assert not wake(flock)


async def test_a_store_made_elsewhere_wakes_nothing(flock: Path, host: DecisionServer) -> None:
    """A copy of a repository with its store is not trusted: no process starts."""
    await cut_short(flock, host)
    copy = flock.with_name("copy")
    shutil.copytree(flock, copy)
    assert not wake(copy)
    assert not processes_in(copy)


async def test_the_repository_cannot_run_code_in_it(
    flock: Path, host: DecisionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a folder `xscore` nor a `sitecustomize` is imported, even where the user's path holds an empty place."""
    turn, mark = await cut_short(flock, host), flock.with_name("ran")
    planted = f"open({str(mark)!r}, 'w')\n"
    (flock / "xscore").mkdir()
    for name in ("xscore/__init__.py", "sitecustomize.py", "usercustomize.py"):
        (flock / name).write_text(planted)
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}.{os.pathsep}{Path(__file__).parents[3]}")
    host.latency_s = 0.0
    assert wake(flock)
    wait_until(lambda: not processes_in(flock))
    assert query(flock, "SELECT state FROM turn WHERE id = ?", turn) == [("continued",)]
    assert not mark.exists()


def test_a_clock_set_back_locks_nobody_out(tmp_path: Path) -> None:
    """A heartbeat from the future counts as none; whoever wrote it learns that it was replaced."""
    with closing(opening.connect_store(tmp_path / "memory.db")) as connection:
        before = BackgroundLease(connection, clock=lambda: 2e9)
        assert before.take()
        after = BackgroundLease(connection, clock=lambda: 1e9)
        assert after.take()
        assert not before.beat()
        assert after.beat()
        before.end("")
        after.end("it rained\non us")
        assert read_background(connection, now=1e9) == BackgroundStatus(problem="it rained on us")
