"""Signals at a new process: a second Ctrl-C, one during the first index, SIGTERM before start-up
has finished.

Turns that are interrupted while they judge or answer are proved in
`tests/proof/test_faults_killed.py`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import MakeRepo
from tests.programs import begin
from tests.waiting import count_rows, wait_until
from xscore.cli.interrupt import STOPPING

pytestmark = pytest.mark.verify

BUSY = """
import asyncio, sys, time
from xscore.cli.interrupt import run_interruptible

def say(words):
    print(words, file=sys.stderr, flush=True)

async def work():
    say("begun")
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        time.sleep(60)

run_interruptible(work(), notify=say, cleanup=lambda: say("left"))
"""


def test_the_second_press_ends_at_once() -> None:
    """A second press exits with 130, even while the loop is busy for longer than the wait."""
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for expected_line in ("begun", STOPPING):
            assert process.stderr.readline() == f"{expected_line}\n"
            process.send_signal(signal.SIGINT)
        left_words, exit_code = process.stderr.read(), process.wait(30)
    # The second press may land inside the write of the first one's words; then nothing is said.
    assert exit_code == 130 and left_words in ("left\n", "")


def test_ctrl_c_in_a_first_index_ends_at_once_without_a_traceback(
    make_repo: MakeRepo, process: Run
) -> None:
    """The whole process group is interrupted, as a terminal does; the next run indexes the rest."""
    body = "\n\n".join(
        f'def f{n}() -> int:\n    """Do {n}."""\n    return {n}\n' for n in range(60)
    )
    # Enough for parsing processes.
    root = make_repo({f"m{n}.py": f"# {n}\n{body}" for n in range(450)})
    begun = begin("ask", "do 7", "--judge", "lexical", "--no-answer", cwd=root)
    wait_until(lambda: count_rows(root, "memory") > 0, begun)
    os.killpg(begun.pid, signal.SIGINT)
    out, err = begun.communicate(timeout=100)
    assert (begun.returncode, out) == (130, "")
    assert "interrupted" in err and "Traceback" not in err
    assert 0 < count_rows(root, "file") < 450
    assert process("index", cwd=root).returncode == 0 and count_rows(root, "file") == 450


@pytest.mark.parametrize("after_s", [0.05, 0.2, 0.5])
def test_sigterm_at_the_very_start_is_an_interrupt(make_repo: MakeRepo, after_s: float) -> None:
    """SIGTERM at any time exits with 130 and, under --json, one object, unless Python itself had
    not started."""
    root = make_repo({"a.py": "def f() -> int:\n    return 1\n"})
    arguments = ("ask", "-", "--judge", "lexical", "--no-answer", "--json")
    process = begin(*arguments, cwd=root, stdin=subprocess.PIPE)
    while b"xscore" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
        time.sleep(0.01)
    time.sleep(after_s)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=100)
    assert process.returncode in (130, -signal.SIGTERM)
    if process.returncode == 130:
        assert json.loads(out)["error"]["code"] == 130
