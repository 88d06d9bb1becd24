"""SIGTERM ends `xscore watch` within a second, whatever it does; the store loses nothing."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.conftest import store_file
from tests.extensions.agents.conftest import ask_within, processes_in
from tests.extensions.agents.test_background import status
from tests.servers.decision_server import DecisionServer
from tests.waiting import rows, wait_until

ENDED_WITHIN_S = 10.0
"""A second is promised; a busy machine may take ten. Whatever holds the process takes longer."""
PATIENCE_S = 30.0
"""How long `make test` waits, where only a process that does not end fails."""
HOLDS_THE_INTERPRETER = """
import pathlib, re, threading, time

def hold():
    while not pathlib.Path("{go}").exists():
        time.sleep(0.01)
    pathlib.Path("{begun}").touch()
    re.match("(a+)+b", "a" * 60)

threading.Thread(target=hold, daemon=True).start()
"""
"""Run at start-up: once asked, one call in C keeps the interpreter for longer than anyone waits."""


@contextmanager
def watching(root: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run `xscore watch` until it has nothing to do, and kill it at the end if it still runs."""
    nothing = subprocess.DEVNULL
    command = [sys.executable, "-m", "xscore", "watch"]
    process = subprocess.Popen(
        command,
        cwd=root,
        text=True,
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        env={**os.environ, **environment},
    )
    try:
        wait_until(lambda: store_file(root).exists() and status(root).watches, process)
        wait_until(lambda: not status(root).doing, process)
        yield process
    finally:
        process.kill()
        process.wait()


def end_by_sigterm(
    process: subprocess.Popen[str], root: Path, *, within_s: float = ENDED_WITHIN_S
) -> None:
    """Send SIGTERM and check that the process and its children are gone in time."""
    process.send_signal(signal.SIGTERM)
    assert process.wait(within_s) == -signal.SIGTERM
    wait_until(lambda: not processes_in(root) and status(root).pid is None)


@pytest.mark.verify
def test_it_ends_while_it_waits_for_saves(flock: Path) -> None:
    """An idle process ends, and the next one begins at once."""
    with watching(flock) as process:
        end_by_sigterm(process, flock)
    with watching(flock) as process:
        end_by_sigterm(process, flock)


def test_it_ends_inside_a_call_that_holds_the_interpreter(flock: Path, tmp_path: Path) -> None:
    """No handler of ours could run then."""
    go, begun = tmp_path / "go", tmp_path / "begun"
    start_up = tmp_path / "start_up"
    start_up.mkdir()
    (start_up / "sitecustomize.py").write_text(HOLDS_THE_INTERPRETER.format(go=go, begun=begun))
    with watching(flock, PYTHONPATH=os.fspath(start_up)) as process:
        go.touch()
        wait_until(begun.exists, process)
        end_by_sigterm(process, flock, within_s=PATIENCE_S)


@pytest.mark.verify
def test_it_ends_while_it_waits_for_a_locked_store(flock: Path) -> None:
    """Another process's transaction is not waited for."""
    store = store_file(flock)
    with (
        watching(flock) as process,
        closing(sqlite3.connect(store, isolation_level=None)) as lock_holder,
    ):
        lock_holder.execute("BEGIN IMMEDIATE")
        (flock / "f07.py").write_text("def sheep_7() -> int:\n    return 70\n")
        time.sleep(1.5)  # the save is reported, and its index waits for the lock
        end_by_sigterm(process, flock)
        lock_holder.execute("ROLLBACK")


@pytest.mark.verify
async def test_it_ends_while_a_host_does_not_answer(flock: Path, host: DecisionServer) -> None:
    """The call in flight is not waited for, and its memory is judged by the next process, once."""
    await ask_within(flock, None, thread="agent-1")
    with watching(flock) as process:
        host.latency_s, host.requests = 100.0, 0
        (flock / "f07.py").write_text("def sheep_7() -> int:\n    return 70\n")
        wait_until(lambda: host.requests > 0, process)
        end_by_sigterm(process, flock)
    host.latency_s = 0.0
    host.judged.clear()
    with watching(flock) as process:
        wait_until(lambda: host.judged, process)
        end_by_sigterm(process, flock)
    assert dict(host.judged) == {"f07.py::sheep_7": 1}
    assert rows(flock, "SELECT count(*) FROM turn") == [(1,)]
