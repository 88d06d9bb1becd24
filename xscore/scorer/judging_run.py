"""One pass of a model judge over its candidates: what was judged in parts, and what is complete.

It sends and stores nothing; `model_judge` does. Trade-off: it changes in place, since results come
in the order in which hosts answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from msgspec import Struct, field

from xscore.records.judgment import Judgment, Unjudged, UnjudgedCause
from xscore.scorer.claiming import PackQueue
from xscore.scorer.giving_up import GiveUpRule
from xscore.scorer.packs import Pack
from xscore.scorer.repair import MemoryPiece, PartTally

JudgingResult = Judgment | Unjudged


class JudgingRun(Struct):
    """One pass over the candidates."""

    turn_text: str
    priors: Mapping[str, float]
    """Prior of each memory, by content hash."""
    queue: PackQueue
    rule: GiveUpRule
    too_long: tuple[float, str] = (inf, "")
    """Tokens of the shortest request that the host found too long, and its words."""
    _parts: PartTally = field(default_factory=PartTally)
    _parts_of: dict[str, list[str]] = field(default_factory=dict)

    def contents(self, pack: Pack, pieces: Sequence[MemoryPiece]) -> list[str]:
        """Return all contents that judging this pack covers: its members, and the parts of those in
        parts."""
        parts = [piece for piece in pieces if piece.is_part]
        # Emptied first for these memories: a pack that was deferred is opened a second time.
        for piece in parts:
            self._parts_of[piece.memory] = []
        for piece in parts:
            self._parts_of[piece.memory].append(piece.content_hash)
        members = [member.content_hash for member in pack.members]
        return members + [piece.content_hash for piece in parts]

    def with_parts(self, memories: Iterable[str]) -> list[str]:
        """Name these memories and the parts they are judged in."""
        contents: list[str] = []
        for memory in memories:
            contents.append(memory)
            contents.extend(self._parts_of.pop(memory, ()))
        return contents

    def take(
        self, piece_results: Iterable[tuple[MemoryPiece, JudgingResult | None]]
    ) -> list[JudgingResult]:
        """Add the results of pieces; return those of the memories that are complete with them."""
        complete: list[JudgingResult] = []
        for piece, piece_result in piece_results:
            if piece_result is None:
                continue
            result = self._parts.add(piece, piece_result)
            if result is not None:
                complete.append(result)
        return complete

    def lose(
        self, pieces: Sequence[MemoryPiece], cause: UnjudgedCause, detail: str
    ) -> list[JudgingResult]:
        """Note pieces that will have no score."""
        return self.take(
            (piece, Unjudged(piece.content_hash, cause, detail)) for piece in pieces
        )

    @staticmethod
    def lost_texts(pack: Pack, pieces: Sequence[MemoryPiece]) -> list[JudgingResult]:
        """Account for members whose text is gone: another run changed the store meanwhile."""
        readable = {piece.memory for piece in pieces}
        detail = "it left the store before it was judged"
        lost: list[JudgingResult] = []
        for member in pack.members:
            if member.content_hash not in readable:
                lost.append(Unjudged(member.content_hash, UnjudgedCause.UNREADABLE, detail))
        return lost
