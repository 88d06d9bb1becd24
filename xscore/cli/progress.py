"""Report a turn's progress: a live board on a terminal, a plain line now and then elsewhere.

Under --verbose or a deadline the plain line includes the leaders. It only reports; the pipeline
decides what is sent, kept or stopped. rich is imported when a board is first drawn.
"""

import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

import click

from xscore.cli.terminal import Terminal, write_stderr
from xscore.records.estimates import Estimate, JudgeEstimate
from xscore.records.events import (
    AnswerText,
    IndexProgress,
    Note,
    Observer,
    Progress,
    StageBegan,
    TurnEvent,
)
from xscore.records.turn import SessionInfo

if TYPE_CHECKING:
    from xscore.cli.board import Board


SECONDS_BETWEEN_LINES = 10.0
DRAWN_AFTER_S = 0.4
"""A turn that takes no longer shows no board: it would flash, and importing rich would take a
third of the turn."""
BREAK_S = 1_800.0
"""Someone who asked within half an hour is not reminded of what they were working on."""
STAGES = {
    "index": "bringing the index up to date",
    "pool": "gathering the candidates",
    "judge": "judging",
    "select": "choosing",
    "primary": "answering",
}


class TurnObserver(Observer):
    """The observer of one command; `close` is called before anything else is printed."""

    def __init__(
        self,
        terminal: Terminal,
        *,
        assume_yes: bool = False,
        streams: bool = False,
        noun: str = "This turn",
    ) -> None:
        """assume_yes: do not ask before a costly turn.
        streams: write the answer to stdout as it arrives.

        noun: what the confirmation says will take the calls and dollars.
        """
        self._terminal = terminal
        self._assume_yes = assume_yes
        self._streams = streams
        self._noun = noun
        self._board: Board | None = None
        self._stage = ""
        self._drawing: threading.Timer | None = None
        """Draws the board when something takes long."""
        self._lock = threading.Lock()
        self._last_line = time.monotonic()
        self.has_deadline = False
        """Show the leaders in a log too."""
        self.streamed: list[str] = []
        """Pieces of the answer already on stdout."""
        self._stdout_closed = False

    def on(self, event: TurnEvent) -> None:
        """Show it."""
        match event:
            case StageBegan(name):
                self._show_stage(name)
            case JudgeEstimate():
                # What is judged here at once needs no forecast.
                if event.calls:
                    from xscore.cli.judging_phrases import (
                        describe_forecast,  # a cached turn has none
                    )

                    self.note(describe_forecast(event))
            case IndexProgress():
                self._show_index(event)
            case Progress():
                self._show_progress(event)
            case Note(text):
                self._terminal.note(text, say=self._board.print_above if self._board else None)
            case SessionInfo():
                self._show_session(event)
            case AnswerText(piece):
                self._stream(piece)
            case _:  # the command itself prints what was kept, and the receipt
                pass

    def _show_stage(self, name: str) -> None:
        self._last_line = time.monotonic()
        if self._terminal.is_live and not self.streamed:
            self._stage = STAGES.get(name, name)
            if self._board is not None:
                self._board.stage(self._stage)
            elif self._drawing is None:
                self._drawing = threading.Timer(DRAWN_AFTER_S, self._drawn)
                self._drawing.daemon = True
                self._drawing.start()
        elif self._terminal.verbose:
            self._terminal.lines(f"{STAGES.get(name, name)} …")

    def _show_index(self, progress: IndexProgress) -> None:
        if progress.files == progress.of:
            return
        from xscore.cli.phrases import render_index_progress  # most turns parse no file

        line = f"{STAGES['index']}: {render_index_progress(progress)}"
        if self._terminal.is_live:
            self._drawn().stage(line)
        elif time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self._terminal.lines(line)

    def _show_progress(self, progress: Progress) -> None:
        if self._terminal.is_live:
            # What was judged here at once needs no board: the ranking follows.
            if self._board is not None or progress.calls:
                self._drawn().progress(progress)
        elif time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            # Judging that takes a few seconds prints no such line.
            from xscore.cli.judging_phrases import render_leaders, render_progress

            self._last_line = time.monotonic()
            lines = [render_progress(progress)]
            if self._terminal.verbose or self.has_deadline:
                lines += [f"  {leader}" for leader in render_leaders(progress)]
            self._terminal.lines("\n".join(lines))

    def _show_session(self, session: SessionInfo) -> None:
        """Say what was worked on before a break; under --json the receipt has it."""
        now = time.time()
        if (
            session.resumed
            and now - session.last_updated >= BREAK_S
            and not self._terminal.as_json
        ):
            # Only the first turn after a break.
            from xscore.cli.phrases import describe_resumed_session

            self.note(describe_resumed_session(session, now=now))

    def _stream(self, piece: str) -> None:
        """Write a piece of the answer.

        A closed pipe does not stop a call that is being paid for.
        """
        if not self._streams or self._stdout_closed:
            return
        self.close()
        try:
            self._terminal.stream(piece)
            self.streamed.append(piece)
        except BrokenPipeError:
            self._stdout_closed = True

    @property
    def can_confirm(self) -> bool:
        """Whether to ask: stdin is a terminal and --yes was not given.

        A script continues within its cap.
        """
        return self._terminal.can_ask and not self._assume_yes

    def confirm(self, estimate: Estimate) -> bool:
        """Ask whether to continue."""
        if not self.can_confirm:
            return True
        self.close()
        # Few turns ask before they spend.
        from xscore.cli.judging_phrases import describe_estimate

        write_stderr(describe_estimate(estimate, self._noun))
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return click.confirm("Continue?", default=False, err=True)
        except click.Abort:  # Ctrl-C, or the end of the input
            click.echo(err=True)
            raise KeyboardInterrupt from None
        finally:
            signal.signal(signal.SIGINT, before)
            sys.stderr.flush()

    def close(self) -> None:
        """Remove the board from the terminal."""
        if self._drawing is not None:
            self._drawing.cancel()
            # It may be drawing now; what it draws is removed below.
            self._drawing.join()
            self._drawing = None
        if self._board is not None:
            self._board.close()
            self._board = None

    def _drawn(self) -> "Board":
        with self._lock:
            if self._board is None:
                from xscore.cli.board import Board  # only on a terminal

                self._board = Board()
                self._board.stage(self._stage)
        return self._board
