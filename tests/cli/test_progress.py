"""Progress of a turn, on a terminal and elsewhere."""

import subprocess
import sys
from decimal import Decimal

import pytest

from tests.cli.terminals import shown_on_terminal
from xscore.cli.judging_phrases import render_progress
from xscore.cli.phrases import render_index_progress
from xscore.cli.progress import TurnObserver
from xscore.cli.terminal import Terminal
from xscore.records.events import IndexProgress, Leader, Progress, StageBegan

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
from xscore.records.events import AnswerText
watch = TurnObserver(Terminal(quiet={quiet}), streams=True)
watch.stage("judge")
watch.on(HALF)
time.sleep(0.3)
watch.note("mind the \\x1b[31mgap")
watch.on(AnswerText("It is \\x1b[31mred."))
watch.close()
"""
CLEARED = "\x1b[2K"


def on_a_terminal(*, quiet: bool = False) -> str:
    """Show a turn's progress with stdout and stderr on a terminal; return everything shown."""
    seen, code = shown_on_terminal(["-c", TURN.format(quiet=quiet)], columns=120)
    assert code == 0, seen
    return seen


def test_live_on_a_terminal() -> None:
    """On a terminal the board is drawn, shows the best so far and is cleared before the answer."""
    seen = on_a_terminal()
    assert "522 of 812" in seen and "0.93  a.py  f" in seen
    assert CLEARED in seen
    assert "mind the \\x1b[31mgap" in seen
    assert seen.rstrip().endswith("It is \\x1b[31mred.")


QUICK = """
import time
from tests.cli.test_progress import HALF
from xscore.cli.progress import TurnObserver
from xscore.cli.terminal import Terminal
from msgspec.structs import replace
watch = TurnObserver(Terminal())
watch.stage("index")
watch.stage("judge")
watch.on(replace(HALF, calls=0))
time.sleep({waits})
watch.close()
"""


MOST_TURNS = 5


def test_what_ends_at_once_draws_nothing() -> None:
    """A turn of a moment that sends nothing has no board; a longer one says what it does."""
    # A busy machine may make a moment longer, but not each.
    for _ in range(MOST_TURNS):
        quick, _code = shown_on_terminal(["-c", QUICK.format(waits=0)], columns=80)
        if quick == "":
            break
    assert quick == ""
    longer, _ = shown_on_terminal(["-c", QUICK.format(waits=1.5)], columns=80)
    assert "judging" in longer


def test_quiet_is_only_the_answer() -> None:
    """--quiet shows only the answer, without control characters."""
    assert on_a_terminal(quiet=True) == "It is \\x1b[31mred."


def test_elsewhere_a_plain_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal, progress is a plain line every ten seconds, and each note is one line."""
    watch = TurnObserver(Terminal())
    watch.on(HALF)
    watch._last_line -= 11
    watch.on(HALF)
    watch.on(HALF)
    watch.note("once")
    watch.note("once")
    assert capsys.readouterr().err == f"{render_progress(HALF)}\nonce\n"


def test_a_long_index_counts_apart_from_judging(capsys: pytest.CaptureFixture[str]) -> None:
    """In a log, a long index has its line every ten seconds; judging, begun after it, has none at
    its first call."""
    watch = TurnObserver(Terminal())
    watch._last_line -= 11
    watch.on(IndexProgress(files=1_000, of=2_000, elapsed_s=20.0))
    watch._last_line -= 11
    watch.on(StageBegan("judge"))
    watch.on(HALF)
    assert (
        capsys.readouterr().err
        == "bringing the index up to date: 1,000 of 2,000 files · 50/s · 20 s left\n"
    )


def test_rich_is_for_terminals() -> None:
    """Through pipes rich is not imported and nothing is drawn; text is escaped as on a terminal."""
    code = TURN.format(quiet=False) + 'print(" rich loaded:", "rich" in sys.modules)'
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "It is \\x1b[31mred. rich loaded: False\n"
    assert done.stderr == "mind the \\x1b[31mgap\n"


def test_a_reader_who_left_does_not_stop_the_answer() -> None:
    """If stdout is closed while the answer streams, the paid call continues."""
    code = """
import sys
from xscore.cli.progress import TurnObserver
from xscore.cli.terminal import Terminal
from xscore.records.events import AnswerText
watch = TurnObserver(Terminal(), streams=True)
for _ in range(20_000):
    watch.on(AnswerText("word "))
print("finished", file=sys.stderr, flush=True)
"""
    command = f"{sys.executable} -c '{code}' | head -c 5"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "word "
    assert "finished" in done.stderr


def test_an_index_run_says_how_long_it_takes_once_its_rate_is_known() -> None:
    """The first file takes as long as the start of the parsing processes."""
    beginning = render_index_progress(IndexProgress(files=1, of=900, elapsed_s=1.2))
    assert beginning == "1 of 900 files"
    underway = render_index_progress(IndexProgress(files=300, of=900, elapsed_s=6.0))
    assert underway == "300 of 900 files · 50/s · 12 s left"
