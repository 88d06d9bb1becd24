"""The baseline of `eval compare`: a memory's score is its cosine with the task, by an embedder.

No turn of a user is judged like this. It shows what is gained by judging every memory, at the same
K and under the same rules of selection. Trade-off: cosines have no threshold that holds for every
embedder, so the best K are kept, whatever they are.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from decimal import Decimal
from typing import ClassVar

from xscore.records.candidates import Candidate
from xscore.records.judgment import JudgeIdentity, Judgment, Unjudged, UnjudgedCause
from xscore.records.turn import Turn


class CosineJudge:
    """Scores memories by an embedder's cosines alone."""

    judged_elsewhere: frozenset[str] = frozenset()
    usd_shares: ClassVar[Mapping[str, Decimal | None]] = {}

    def __init__(
        self, cosines: Mapping[str, float], *, identity: JudgeIdentity, remarks: tuple[str, ...]
    ) -> None:
        """cosines: by memory id; a memory without one scores 0."""
        self.identity = identity
        self._cosines = cosines
        self._remarks = remarks

    async def judge(
        self, turn: Turn, candidates: Sequence[Candidate]
    ) -> AsyncIterator[Judgment | Unjudged]:
        """Yield one judgment for each content."""
        seen: set[str] = set()
        for candidate in candidates:
            if candidate.content_hash in seen:
                continue
            seen.add(candidate.content_hash)
            cosine = self._cosines.get(candidate.id, 0.0)
            yield Judgment(
                content_hash=candidate.content_hash, score=min(1.0, max(0.0, cosine))
            )

    def warnings(self) -> tuple[str, ...]:
        """Say what there was to say before it began: it has no replies."""
        return self._remarks

    def stop(self, cause: UnjudgedCause) -> None:
        """Do nothing: it has finished before anyone can ask."""
