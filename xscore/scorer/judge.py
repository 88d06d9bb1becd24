"""The interface of a judge: candidates in, one result for each out, in any order."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Protocol

from xscore.records.candidates import Candidate
from xscore.records.judgment import JudgeIdentity, Judgment, Unjudged, UnjudgedCause
from xscore.records.turn import Turn

Texts = Callable[[Sequence[Candidate]], Mapping[str, str]]
"""Loads what the judge is shown of these candidates: candidate id -> text."""


class Judge(Protocol):
    """Scores memories against a turn, each separately."""

    identity: JudgeIdentity

    def judge(
        self, turn: Turn, candidates: Sequence[Candidate]
    ) -> AsyncIterator[Judgment | Unjudged]:
        """Yield exactly one result for each distinct content hash among the candidates."""
        ...

    @property
    def judged_elsewhere(self) -> AbstractSet[str]:
        """Contents among the results so far that another process judged."""
        ...

    @property
    def usd_shares(self) -> Mapping[str, Decimal | None]:
        """Each memory's share in dollars of the calls that asked about it, by content hash; None:
        unpriced."""
        ...

    def warnings(self) -> tuple[str, ...]:
        """Return warnings about replies so far, for the receipt."""
        ...

    def stop(self, cause: UnjudgedCause) -> None:
        """Send nothing more; calls in flight finish, and the rest is yielded as unjudged with this
        cause."""
        ...
