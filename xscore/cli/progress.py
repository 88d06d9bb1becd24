"""Watch a turn from the terminal: a live board on a terminal, a plain line now and then elsewhere.

Off a terminal that line comes with the provisional best under --verbose or a deadline, when somebody waits. It only
tells; what is sent, kept or stopped is the pipeline's. rich is imported when a board is first drawn.
"""

import sys
import time
from typing import TYPE_CHECKING

import click

from xscore.cli.phrases import (
    describe_binding_limit,
    describe_resumed_session,
    format_total,
    render_leaders,
    render_progress,
)
from xscore.cli.terminal import Terminal, write_stderr
from xscore.platform.text import counted, format_seconds, one_line
from xscore.records import Estimate, JudgeEstimate, Progress, SessionInfo

if TYPE_CHECKING:
    from xscore.cli.board import Board


SECONDS_BETWEEN_LINES = 10.0
STAGES = {
    "index": "bringing the index up to date",
    "pool": "gathering the candidates",
    "judge": "judging",
    "select": "choosing",
    "primary": "answering",
}


class TurnObserver:
    """The observer of one command; `close` is called before anything else is printed."""

    def __init__(
        self,
        terminal: Terminal,
        *,
        agreed: bool = False,
        streams: bool = False,
        hurries: bool = False,
        called: str = "This turn",
    ) -> None:
        """agreed: do not ask before a costly turn. streams: write the answer to stdout as it arrives.

        hurries: the turn has a deadline, so whoever reads a log wants the best so far in it.
        called: what it is that takes so many calls and dollars, where the user is asked.
        """
        self._terminal = terminal
        self._agreed = agreed
        self._streams = streams
        self._called = called
        self._tells_best = terminal.verbose or hurries
        self._board: Board | None = None
        self._last_line = time.monotonic()
        self.streamed: list[str] = []
        """Pieces of the answer already on stdout."""
        self._reader_left = False

    def stage(self, name: str) -> None:
        """A stage begins."""
        if self._terminal.is_live and not self.streamed:
            self._drawn().stage(STAGES.get(name, name))
        elif self._terminal.verbose:
            self._terminal.lines(f"{STAGES.get(name, name)} …")

    def forecast(self, forecast: JudgeEstimate) -> None:
        """Judging is about to begin, and will take long."""
        self.note(
            f"judging {counted(forecast.to_judge, 'memory', 'memories')} takes about {format_seconds(forecast.seconds)}"
            f" in {counted(forecast.calls, 'call')}, {describe_binding_limit(forecast)}; the most promising come first"
        )

    def progress(self, progress: Progress) -> None:
        """Some judgments settled."""
        if self._terminal.is_live:
            self._drawn().progress(progress)
        elif time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            best = render_leaders(progress) if self._tells_best else []
            self._terminal.lines("\n".join([render_progress(progress), *(f"  {line}" for line in best)]))

    def note(self, message: str) -> None:
        """Something the user should know."""
        self._terminal.note(message, say=self._board.above if self._board else None)

    def session(self, session: SessionInfo) -> None:
        """Tell what was worked on before the break; under --json the receipt tells it."""
        if session.resumed and not self._terminal.as_json:
            self.note(describe_resumed_session(session, now=time.time()))

    def answer_text(self, piece: str) -> None:
        """A piece of the answer arrived; a reader who left does not stop a call that is being paid for."""
        if not self._streams or self._reader_left:
            return
        self.close()
        try:
            self._terminal.piece(piece)
            self.streamed.append(piece)
        except BrokenPipeError:
            self._reader_left = True

    @property
    def can_confirm(self) -> bool:
        """Whether someone is there to ask and has not agreed beforehand; a script goes on within its cap."""
        return self._terminal.can_ask and not self._agreed

    def confirm(self, estimate: Estimate) -> bool:
        """Ask whether to go on."""
        if not self.can_confirm:
            return True
        self.close()
        return _confirm_estimate(estimate, self._called)

    def close(self) -> None:
        """Take the board away and give the terminal back."""
        if self._board is not None:
            self._board.close()
            self._board = None

    def _drawn(self) -> "Board":
        if self._board is None:
            from xscore.cli.board import Board

            self._board = Board()
        return self._board


def _confirm_estimate(estimate: Estimate, called: str) -> bool:
    """Put calls, dollars, minutes and host before the user; an empty answer is a no. Raises KeyboardInterrupt."""
    import signal

    judge = estimate.judge
    hosts = dict.fromkeys(
        [*([judge.host] if judge.calls else []), *([estimate.primary.host] if estimate.primary else [])]
    )
    sent = counted(judge.to_judge, "memory", "memories") if judge.calls else "the chosen memories"
    calls = judge.calls + (1 if estimate.primary else 0)
    took = f" {format_seconds(judge.seconds)}," if judge.calls else ""
    write_stderr(
        f"{called} takes about {counted(calls, 'call')}, {format_total(estimate)},{took}"
        f" and sends {sent} to {one_line(', '.join(hosts))}."
    )
    if estimate.cost_usd is None and estimate.caps:
        write_stderr("A model has no known price: no cap on dollars holds its calls.")
    if estimate.binding:
        from xscore.costs.budget_messages import cap_left_rounded

    for cap in estimate.binding:
        will = "will" if judge.cost_usd is not None and judge.cost_usd > cap.left_usd else "may"
        write_stderr(f"It {will} not be finished: {cap_left_rounded(cap)}.")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return click.confirm("Go on?", default=False, err=True)
    except click.Abort:  # Ctrl-C, or the end of the input
        click.echo(err=True)
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, before)
        sys.stderr.flush()
