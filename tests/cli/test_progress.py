"""What is said while a turn runs, on a terminal and elsewhere."""

import subprocess
import sys
from decimal import Decimal

import pytest

from tests.cli.terminals import shown_on_terminal
from xscore.cli.phrases import render_progress
from xscore.cli.progress import TurnObserver
from xscore.cli.terminal import Terminal
from xscore.records.reports import Leader, Progress

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


def on_a_terminal(*, quiet: bool = False) -> str:
    """Run a turn's worth of telling with stdout and stderr on a terminal; return all that arrived."""
    seen, code = shown_on_terminal(["-c", TURN.format(quiet=quiet)], columns=120)
    assert code == 0, seen
    return seen


def test_live_on_a_terminal() -> None:
    """On a terminal the board is drawn, shows the best so far and is wiped before the answer."""
    seen = on_a_terminal()
    assert "522 of 812" in seen and "0.93  a.py  f" in seen
    assert CLEARED in seen
    assert "mind the \\x1b[31mgap" in seen
    assert seen.rstrip().endswith("It is \\x1b[31mred.")


def test_quiet_is_only_the_answer() -> None:
    """--quiet shows the answer and nothing else, with no control character."""
    assert on_a_terminal(quiet=True) == "It is \\x1b[31mred."


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
