"""One pass over the candidates: what pieces came to, what was wrong with replies.

It sends nothing and decides nothing; `model_judge` does. Trade-off: a memory in parts is known only with its last part.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xscore.records import Cause, Judgment, Unjudged
from xscore.scorer.packs import Pack
from xscore.scorer.scores_read import Reply
from xscore.scorer.sharing import Waiting
from xscore.scorer.split import PartTally, Piece

Result = Judgment | Unjudged


@dataclass(slots=True)
class Faults:
    """What was wrong with replies so far; for the receipt's warnings."""

    mended: int = 0
    """Replies that were not JSON as they stood."""
    foreign: int = 0
    """Scores for ids that were not asked for."""
    void: int = 0
    """Scores that are no integer 0..100, or given twice with different values."""
    asked_again: int = 0
    """Prompts sent beyond the first of each pack."""

    def count(self, reply: Reply) -> None:
        """Add what was wrong with one reply."""
        self.mended += reply.mended
        self.foreign += reply.foreign
        self.void += reply.void

    def in_words(self) -> str:
        """`2 replies mended, 1 scores void; 3 prompts asked again`; empty where nothing was wrong."""
        counts = ((self.mended, "replies mended"), (self.foreign, "scores for unknown ids"), (self.void, "scores void"))
        wrong = ", ".join(f"{count:,} {what}" for count, what in counts if count)
        again = f"{self.asked_again:,} prompts asked again" if self.asked_again else ""
        return "; ".join(part for part in (wrong, again) if part)


@dataclass(slots=True)
class Run:
    """One pass over the candidates."""

    turn_text: str
    priors: Mapping[str, float]
    """By content hash of the memory."""
    waiting: Waiting
    has_answer: bool = False
    """The host has taken a request of ours."""
    has_score: bool = False
    """A reply held a usable score."""
    lost_alone: int = 0
    """Memories that were lost at the end of the ladder while there was no score yet."""
    rejected: int = 0
    """Requests that the host turned down since its latest answer."""
    _parts: PartTally = field(default_factory=PartTally)
    _parts_of: dict[str, list[str]] = field(default_factory=dict)

    def contents(self, pack: Pack, found: Sequence[Piece]) -> list[str]:
        """Name all that judging this pack judges: its members and, where a member is in parts, those."""
        parts = [piece for piece in found if piece.is_part]
        for memory in {piece.memory for piece in parts}:
            self._parts_of[memory] = [piece.content_hash for piece in parts if piece.memory == memory]
        return [*(member.content_hash for member in pack.members), *(piece.content_hash for piece in parts)]

    def with_parts(self, memories: Iterable[str]) -> list[str]:
        """Name these memories and the parts they are judged in."""
        return [content for memory in memories for content in (memory, *self._parts_of.pop(memory, ()))]

    def take(self, settled: Iterable[tuple[Piece, Result | None]]) -> list[Result]:
        """Take the results of pieces; give those of the memories that are settled by them."""
        results = [self._parts.settle(piece, result) for piece, result in settled if result is not None]
        return [result for result in results if result is not None]

    def lose(self, pieces: Sequence[Piece], cause: Cause, detail: str) -> list[Result]:
        """Take pieces that will have no score."""
        return self.take((piece, Unjudged(piece.content_hash, cause, detail)) for piece in pieces)

    @staticmethod
    def lost_texts(pack: Pack, found: Sequence[Piece]) -> list[Result]:
        """Account for members whose text is gone: another run changed the store meanwhile."""
        there = {piece.memory for piece in found}
        gone = [member.content_hash for member in pack.members if member.content_hash not in there]
        return [Unjudged(hash_, Cause.UNREADABLE, "it left the store before it was judged") for hash_ in gone]
