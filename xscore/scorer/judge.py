"""The seam to a judge: candidates in, one outcome for each out, in whatever order they settle."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from xscore.records import Candidate, JudgeIdentity, Judgment, Turn, Unjudged, UnjudgedCause

Texts = Callable[[Sequence[Candidate]], Mapping[str, str]]
"""Loads what the judge is shown of these candidates: candidate id -> text."""


class Judge(Protocol):
    """Scores memories against a turn, each by itself."""

    identity: JudgeIdentity
    is_model: bool
    """False for the lexical judge: its scores depend on the whole pool and are never stored."""

    def judge(self, turn: Turn, candidates: Sequence[Candidate]) -> AsyncIterator[Judgment | Unjudged]:
        """Yield exactly one result for each distinct content hash among the candidates."""
        ...

    @property
    def judged_elsewhere(self) -> AbstractSet[str]:
        """Contents among the results so far that another process was paid for meanwhile: found, not judged here."""
        ...

    def warnings(self) -> tuple[str, ...]:
        """Say what was wrong with replies so far, for the receipt's warnings."""
        ...

    def stop(self, cause: UnjudgedCause) -> None:
        """Send nothing more; what is in flight still settles, and the rest is yielded as unjudged with this cause."""
        ...
