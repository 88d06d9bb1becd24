"""What a turn reports while it runs, and to whom."""

from decimal import Decimal
from typing import final

from msgspec import Struct

from xscore.records.estimates import Estimate, JudgeEstimate
from xscore.records.indexing import IndexReport
from xscore.records.judgment import Outcome, Ranked
from xscore.records.receipt import Answer
from xscore.records.turn import SessionInfo


class Leader(Struct, frozen=True):
    """A provisional best candidate."""

    path: str
    entity: str
    """Name of the entity, or its kind where it has none."""
    score: float


class Progress(Struct, frozen=True, kw_only=True):
    """Progress of the judging."""

    candidates: int
    cached: int
    judged: int
    unjudged: int
    calls: int
    cost_usd: Decimal | None
    elapsed_s: float
    seconds_left: float | None
    leaders: tuple[Leader, ...]
    """The provisional best by raw score, best first, at most K; cached ones among them."""
    settled: tuple[Outcome, ...] = ()
    """Outcomes since the last report: judged, or left unjudged."""


class StageBegan(Struct, frozen=True):
    """A stage of the turn begins."""

    name: str
    """Name of the stage: `index`, `pool`, `judge`, `select` or `primary`."""


class Note(Struct, frozen=True):
    """Something the user should know."""

    text: str


class Kept(Struct, frozen=True):
    """The choice is made."""

    ranked: tuple[Ranked, ...]
    """What goes into the context, best first."""


class AnswerText(Struct, frozen=True):
    """A piece of the answer arrived."""

    text: str


INDEX_RATE_AFTER_S = 3.0
"""Seconds before which the rate of an index run is that of the parsing processes' start."""


class IndexProgress(Struct, frozen=True):
    """How far an index run has come."""

    files: int
    """Files read so far."""
    of: int
    """Files to read in all."""
    elapsed_s: float

    @property
    def seconds_left(self) -> float | None:
        """How long the other files take at the rate so far; None: too early to say."""
        if self.elapsed_s < INDEX_RATE_AFTER_S:
            return None
        return self.elapsed_s * (self.of - self.files) / max(1, self.files)


TurnEvent = (
    StageBegan
    | Note
    | SessionInfo
    | IndexProgress
    | IndexReport
    | JudgeEstimate
    | Progress
    | Kept
    | AnswerText
    | Answer
)
"""An event that a turn reports while it runs.

`SessionInfo`: the working session continues. `IndexReport`: the index is up to date.
`JudgeEstimate`: judging is about to begin and will take a while. `Progress`: some judgments
settled. `Answer`: the receipt, always last and only in a stream.
"""


class Observer:
    """Watches a turn; this one ignores everything and confirms. Only `confirm` may block."""

    @property
    def can_confirm(self) -> bool:
        """Whether `confirm` may be called; if not, only `max_usd` limits the turn."""
        return False

    def on(self, event: TurnEvent) -> None:
        """Handle an event of the turn."""

    def confirm(self, estimate: Estimate) -> bool:
        """Ask whether to continue although the estimate is above the confirmation limit."""
        return True

    @final
    def stage(self, name: str) -> None:
        """Report that a stage begins."""
        self.on(StageBegan(name))

    @final
    def note(self, message: str) -> None:
        """Report something the user should know."""
        self.on(Note(message))


class ForwardingObserver(Observer):
    """Forwards everything to another observer."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    @property
    def can_confirm(self) -> bool:
        """Whether the other can be asked."""
        return self._observer.can_confirm

    def on(self, event: TurnEvent) -> None:
        """Forward it."""
        self._observer.on(event)

    def confirm(self, estimate: Estimate) -> bool:
        """Ask the other."""
        return self._observer.confirm(estimate)
