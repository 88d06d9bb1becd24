"""What is told of a finished turn: figures and times, never a text.

It is built of records that hold no words of a task, memory or answer, so that nothing downstream can leak one. Who
receives it is a `Tracing`: ours makes OpenTelemetry spans, a program may bring another. Trade-off: it is told once,
after the turn, so that judging pays nothing for it; a turn that is killed outright tells nothing.
"""

from typing import Protocol

from msgspec import Struct

from xscore.records import CallRecord, TurnFigures


class StageSpan(Struct, frozen=True):
    """One stage of a turn, from its first moment to its last."""

    stage: str
    """`index`, `pool`, `cache`, `judge`, `select`, `primary`."""
    began: float
    """Unix seconds."""
    ended: float
    error: str = ""
    """The turn ended in it, for this reason."""


class TracedTurn(Struct, frozen=True, kw_only=True):
    """A turn that has ended, well or not."""

    id: str
    thread: str
    command: str
    began: float
    """Unix seconds."""
    ended: float
    laps: tuple[StageSpan, ...]
    calls: tuple[CallRecord, ...]
    """Every attempt."""
    figures: TurnFigures | None
    """None: it has no receipt."""
    error: str
    """Why it did not end well: the `kind` of an error, `cancelled`, `interrupted`, …; empty: it did."""
    exit_code: int = 0
    """Of a turn that has a receipt."""


class TurnTracer(Protocol):
    """Takes turns that have ended; called in a thread of its own."""

    def prepare(self) -> None:
        """Do what takes time and speaks to nobody: import."""
        ...

    def send(self, turn: TracedTurn) -> str:
        """Hand one turn on; may block. Return what went wrong; empty: nothing."""
        ...
