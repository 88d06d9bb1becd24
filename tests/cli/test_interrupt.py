"""Ctrl-C, pressed once and twice, in a new process."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import MakeRepo
from tests.waiting import count_rows, wait_until

pytestmark = pytest.mark.verify

SLOW = """
import asyncio, sys, time
from xscore.cli.interrupt import run_interruptible
async def work():
    print("begun", flush=True)
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        {on_cancel}
    return "kept"

def say(words):
    print(words, file=sys.stderr, flush=True)

try:
    print(run_interruptible(work(), notify=say, cleanup=lambda: say("left")))
except KeyboardInterrupt:
    print("interrupted")
"""


def pressed(on_cancel: str, presses: int) -> tuple[str, str, int]:
    """Start the work, press Ctrl-C N times, and return the output."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW.format(on_cancel=on_cancel)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    assert process.stderr is not None
    said = ""
    for _ in range(presses):
        process.send_signal(signal.SIGINT)
        said += process.stderr.readline()
    out, err = process.communicate(timeout=30)
    return out, said + err, process.returncode


def test_the_second_press_ends_at_once() -> None:
    """A second press exits with 130, even while the loop is busy for longer than the wait."""
    out, err, code = pressed("time.sleep(60)", presses=2)
    assert (out, code) == ("", 130)
    assert "left" in err


def slow_flock(make_repo: MakeRepo, folder: Path) -> tuple[Path, list[str]]:
    """A repository of twelve functions, and the flags for a slow judge."""
    root = make_repo({f"m{n}.py": f'def f{n}() -> int:\n    """Do {n}."""\n    return {n}\n' for n in range(12)})
    script = folder / "script.json"
    flags = ["--judge", f"scripted:{script}", "--pack-size", "1", "--concurrency", "1", "--no-answer", "--json"]
    script.write_text(json.dumps({"default": 0.9, "latency_s": 0.3}))
    return root, flags


def judging(root: Path, flags: list[str]) -> subprocess.Popen[str]:
    """A process that has started to judge."""
    process = subprocess.Popen(
        [sys.executable, "-m", "xscore", "ask", "do it", *flags],
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=dict(os.environ),
    )
    wait_until(lambda: count_rows(root, "judgment") > 0, process)
    return process


def test_ctrl_c_while_judging_keeps_what_was_paid_for(make_repo: MakeRepo, tmp_path: Path, xscore: Run) -> None:
    """Interrupted while judging: exit 130, a receipt that adds up, and the next run judges only the rest."""
    root, flags = slow_flock(make_repo, tmp_path)
    process = judging(root, flags)
    process.send_signal(signal.SIGINT)
    answer = json.loads(process.communicate(timeout=30)[0])
    assert process.returncode == 130
    assert answer["coverage"]["judged"] > 0 and answer["unjudged"]["by_cause"]["interrupted"] > 0
    again = json.loads(xscore("ask", "do it", *flags, cwd=root).stdout)["coverage"]
    assert again["cached"] >= answer["coverage"]["judged"]
    assert again["cached"] + again["judged"] == again["candidates"]


def test_sigterm_ends_like_a_press(make_repo: MakeRepo, tmp_path: Path, xscore: Run) -> None:
    """A supervisor's SIGTERM while judging: exit 130, a receipt that adds up, and `continue` judges only the rest."""
    root, flags = slow_flock(make_repo, tmp_path)
    process = judging(root, flags)
    process.terminate()
    answer = json.loads(process.communicate(timeout=30)[0])
    assert process.returncode == 130
    rest = json.loads(xscore("continue", answer["turn_id"], *flags, cwd=root).stdout)["coverage"]
    assert rest["carried"] >= answer["coverage"]["judged"] > 0
    assert rest["carried"] + rest["judged"] == rest["candidates"]


def test_a_deadline_counts_from_the_start_of_the_command(make_repo: MakeRepo, tmp_path: Path, process: Run) -> None:
    """`ask --deadline 3s` ends before all is judged, says what is left, and `continue` finishes the turn."""
    root = make_repo({f"m{n}.py": f'def f{n}() -> int:\n    """Do {n}."""\n    return {n}\n' for n in range(160)})
    script = tmp_path / "script.json"
    flags = ["--judge", f"scripted:{script}", "--pack-size", "1", "--concurrency", "1", "--no-answer"]
    script.write_text(json.dumps({"default": 0.9, "latency_s": 0.2}))
    process("index", cwd=root)
    for deadline_s in (3, 8, 20):  # a busy machine may take three seconds to begin; all would take 32
        cut = process("ask", "do it", *flags, "--deadline", f"{deadline_s}s", cwd=root)
        if cut.returncode == 1:
            break
    assert cut.returncode == 1 and "deadline" in cut.stderr and "xscore continue" in cut.stderr
    done = process("continue", *flags, "--concurrency", "32", cwd=root)
    assert done.returncode in (0, 1) and ".py:1-3" in done.stdout


def test_ctrl_c_in_a_first_index_ends_at_once_without_a_traceback(make_repo: MakeRepo, process: Run) -> None:
    """The whole process group is interrupted, as a terminal does; the next run indexes the rest."""
    body = "\n\n".join(f'def f{n}() -> int:\n    """Do {n}."""\n    return {n}\n' for n in range(200))
    root = make_repo({f"m{n}.py": f"# {n}\n{body}" for n in range(450)})  # enough for parsing processes
    begun = subprocess.Popen(
        [sys.executable, "-m", "xscore", "ask", "do 7", "--judge", "lexical", "--no-answer"],
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: count_rows(root, "memory") > 0, begun)
    os.killpg(begun.pid, signal.SIGINT)
    out, err = begun.communicate(timeout=30)
    assert (begun.returncode, out) == (130, "")
    assert "interrupted" in err and "Traceback" not in err
    assert 0 < count_rows(root, "file") < 450
    assert process("index", cwd=root).returncode == 0 and count_rows(root, "file") == 450
