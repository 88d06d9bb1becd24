"""What a turn tells while it runs."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from xscore.records.reports import Estimate, JudgeEstimate
from xscore.records.session import SessionInfo


@dataclass(frozen=True, slots=True)
class Leader:
    """A provisional best candidate."""

    path: str
    entity: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where the judging stands."""

    candidates: int
    cached: int
    judged: int
    unjudged: int
    calls: int
    cost_usd: Decimal | None
    elapsed_s: float
    seconds_left: float | None
    """None while unknown."""
    leaders: tuple[Leader, ...]
    """The provisional best by raw score, best first, at most K; cached ones among them."""


class Observer(Protocol):
    """Watches a turn. Every method returns at once, but for `confirm`."""

    def stage(self, name: str) -> None:
        """A stage begins: `index`, `pool`, `judge`, `select`, `primary`."""
        ...

    def forecast(self, forecast: JudgeEstimate) -> None:
        """Judging is about to begin, and will take long."""
        ...

    def progress(self, progress: Progress) -> None:
        """Some judgments settled."""
        ...

    def note(self, message: str) -> None:
        """Something the user should know."""
        ...

    def session(self, session: SessionInfo) -> None:
        """This working session goes on."""
        ...

    def answer_text(self, piece: str) -> None:
        """A piece of the answer arrived."""
        ...

    @property
    def can_confirm(self) -> bool:
        """Whether anyone is there to be asked; where not, no estimate is drafted, and `max_usd` alone holds."""
        ...

    def confirm(self, estimate: Estimate) -> bool:
        """The estimate is above the confirmation limit: go on?"""
        ...


class Silent:
    """Watches nothing and agrees to everything; the default of the Python interface."""

    can_confirm = False

    def stage(self, name: str) -> None:
        """Say nothing."""

    def forecast(self, forecast: JudgeEstimate) -> None:
        """Say nothing."""

    def progress(self, progress: Progress) -> None:
        """Say nothing."""

    def note(self, message: str) -> None:
        """Say nothing."""

    def session(self, session: SessionInfo) -> None:
        """Say nothing."""

    def answer_text(self, piece: str) -> None:
        """Say nothing."""

    def confirm(self, estimate: Estimate) -> bool:
        """Agree: a program set its own `max_usd`."""
        return True
