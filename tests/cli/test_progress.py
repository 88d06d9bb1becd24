"""What is said while a turn runs, on a terminal and elsewhere."""

import os
import pty
import subprocess
import sys
from decimal import Decimal

import pytest
from msgspec.structs import replace

from xscore.cli.phrases import render_leaders, render_progress
from xscore.cli.progress import TurnObserver
from xscore.cli.terminal import Terminal
from xscore.records import Leader, Progress

HALF = Progress(
    candidates=812,
    cached=400,
    judged=120,
    unjudged=2,
    calls=6,
    cost_usd=Decimal("0.0042"),
    elapsed_s=10.0,
    seconds_left=24.0,
    leaders=(Leader("a.py", "f", 0.93), Leader("b\x1b[2J.py", "g", 0.71)),
)
TURN = """
import sys, time
from tests.cli.test_progress import HALF
from xscore.cli.progress import TurnObserver
from xscore.cli.terminal import Terminal
watch = TurnObserver(Terminal(quiet={quiet}), streams=True)
watch.stage("judge")
watch.progress(HALF)
time.sleep(0.3)
watch.note("mind the \\x1b[31mgap")
watch.answer_text("It is \\x1b[31mred.")
watch.close()
"""
CLEARED = "\x1b[2K"


def drained(terminal: int) -> str:
    """Read a pseudo-terminal until its other end is closed, and close it."""
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        seen += piece
    os.close(terminal)
    return seen.decode()


def on_a_terminal(*, quiet: bool = False, environ: dict[str, str] | None = None) -> str:
    """Run a turn's worth of telling with stdout and stderr on a pseudo-terminal; return all that arrived."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen(
        [sys.executable, "-c", TURN.format(quiet=quiet)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm-256color", "COLUMNS": "120", **(environ or {})},
    )
    os.close(theirs)
    seen = drained(ours)
    assert process.wait(timeout=20) == 0, seen
    return seen


def test_standing() -> None:
    """Judged, cached, unjudged, rate, dollars and time left, in one line."""
    assert render_progress(HALF) == "522 of 812 · 120 judged · 400 cached · 2 unjudged · 12/s · ~$0.0042 · 24 s left"


@pytest.mark.parametrize("early", [replace(HALF, judged=1), replace(HALF, judged=400, calls=0)], ids=["first", "free"])
def test_no_rate_is_told_that_means_nothing(early: Progress) -> None:
    """After the first result, or where no call is made (the lexical judge), neither a rate nor a time left is told."""
    assert "/s" not in render_progress(early) and "left" not in render_progress(early)
    assert render_progress(early).startswith(f"{early.judged + 402} of 812")


def test_leaders_are_harmless() -> None:
    """The provisional best cannot drive the terminal."""
    assert render_leaders(HALF) == ["0.93  a.py  f", "0.71  b\\x1b[2J.py  g"]


def test_live_on_a_terminal() -> None:
    """On a terminal the board is drawn, shows the best so far and is wiped before the answer."""
    seen = on_a_terminal()
    assert "522 of 812" in seen and "0.93  a.py  f" in seen
    assert CLEARED in seen
    assert "mind the \\x1b[31mgap" in seen
    assert seen.rstrip().endswith("It is \\x1b[31mred.")


def test_no_color() -> None:
    """With NO_COLOR nothing is coloured; the board itself stays."""
    seen = on_a_terminal(environ={"NO_COLOR": "1"})
    assert "522 of 812" in seen
    assert "\x1b[3" not in seen and "\x1b[9" not in seen and "38;" not in seen


def test_quiet_is_only_the_answer() -> None:
    """--quiet shows the answer and nothing else, with no control character."""
    assert on_a_terminal(quiet=True) == "It is \\x1b[31mred."


def test_a_dumb_terminal_is_not_drawn_on() -> None:
    """A terminal that cannot move its cursor gets plain lines."""
    assert CLEARED not in on_a_terminal(environ={"TERM": "dumb"})


def test_elsewhere_a_plain_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    """Not on a terminal, progress is a plain line every ten seconds, and a note is a line, said once."""
    watch = TurnObserver(Terminal())
    watch.progress(HALF)
    watch._last_line -= 11
    watch.progress(HALF)
    watch.progress(HALF)
    watch.note("once")
    watch.note("once")
    assert capsys.readouterr().err == f"{render_progress(HALF)}\nonce\n"


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("hurries", [False, True])
def test_whoever_waits_reads_the_best_so_far(capsys: pytest.CaptureFixture[str], verbose: bool, hurries: bool) -> None:
    """Not on a terminal, the provisional best stand below the line under a deadline, or where more is to be said."""
    watch = TurnObserver(Terminal(verbose=verbose), has_deadline=hurries)
    watch._last_line -= 11
    watch.progress(HALF)
    best = [f"  {line}" for line in render_leaders(HALF)] if verbose or hurries else []
    assert capsys.readouterr().err.splitlines() == [render_progress(HALF), *best]


def test_rich_is_for_terminals() -> None:
    """Through pipes rich is not even imported, and nothing is drawn."""
    code = TURN.format(quiet=False) + 'print(" rich loaded:", "rich" in sys.modules)'
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "It is \x1b[31mred. rich loaded: False\n"
    assert done.stderr == "mind the \\x1b[31mgap\n"


def test_a_reader_who_left_does_not_stop_the_answer() -> None:
    """When stdout is closed while the answer streams, the call that is being paid for goes on."""
    code = """
import sys
from xscore.cli.progress import TurnObserver
from xscore.cli.terminal import Terminal
watch = TurnObserver(Terminal(), streams=True)
for _ in range(20_000):
    watch.answer_text("word ")
print("finished", file=sys.stderr, flush=True)
"""
    command = f"{sys.executable} -c '{code}' | head -c 5"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "word "
    assert "finished" in done.stderr


CONFIRM = """
from decimal import Decimal
from xscore.cli.progress import TurnObserver
from xscore.cli.terminal import Terminal
from xscore.records import Estimate, JudgeEstimate
judge = JudgeEstimate(candidates=9, cached=0, to_judge=9, calls=3, input_tokens=1, output_tokens=1,
                      cost_usd=Decimal("0.5"), seconds=200.0, binding_limit="latency", host="api.example.com")
estimate = Estimate(judge=judge, primary=None, by_kind={{}}, by_folder={{}})
print("agreed:", TurnObserver(Terminal(), assume_yes={assume_yes}).confirm(estimate))
"""


@pytest.mark.parametrize(("typed", "outcome"), [(b"y\n", "agreed: True"), (b"\n", "agreed: False")])
def test_confirmation_on_a_terminal(typed: bytes, outcome: str) -> None:
    """On a terminal the price is put before the user: calls, dollars, minutes, host; only a yes is a yes."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", CONFIRM.format(assume_yes=False)], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    os.write(ours, typed)
    seen = drained(ours)
    assert process.wait(timeout=20) == 0, seen
    assert "3 calls, ~$0.500, 3 min 20 s" in seen and "api.example.com" in seen
    assert outcome in seen


def test_no_confirmation_elsewhere() -> None:
    """A script is not asked, nor is a user who said --yes: --max-usd is their cap."""
    code = CONFIRM.format(assume_yes=False)
    done = subprocess.run([sys.executable, "-c", code], input="", capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("agreed: True\n", "")
