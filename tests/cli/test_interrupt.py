"""Ctrl-C in two steps, in a process of its own."""

import signal
import subprocess
import sys
import time

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
    print(run_interruptible(work(), say=say, leave=lambda: say("left")))
except KeyboardInterrupt:
    print("interrupted")
"""


def pressed(on_cancel: str, presses: int) -> tuple[str, str, int]:
    """Start the work, press Ctrl-C so many times, and give back what it said."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW.format(on_cancel=on_cancel)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    for _ in range(presses):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    out, err = process.communicate(timeout=20)
    return out, err, process.returncode


def test_the_first_press_lets_the_work_keep_what_it_has() -> None:
    """Work that winds down gives its result back."""
    out, err, code = pressed("pass", presses=1)
    assert (out, code) == ("kept\n", 0)
    assert "what was paid for is kept" in err


def test_work_that_gives_nothing_back_is_an_interrupt() -> None:
    """Work that lets itself be cancelled ends as an interrupt."""
    assert pressed("raise", presses=1)[0] == "interrupted\n"


def test_the_second_press_ends_at_once() -> None:
    """A second press ends the process with 130, though the loop is busy."""
    begun = time.monotonic()
    out, err, code = pressed("time.sleep(30)", presses=2)
    assert (out, code) == ("", 130)
    assert "left" in err
    assert time.monotonic() - begun < 15
