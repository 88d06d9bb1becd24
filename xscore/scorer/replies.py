"""From a completion to raw scores: what a reply validly says, and which memories it leaves out.

How a reply is read is its layout's: `chat_replies` reads those of chat models, `prompt_builder`
those of decision models. Pure. Trade-off: why a memory has no score is stated per reply.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from msgspec import Struct

from xscore.platform.text import counted
from xscore.records.calls import Completion, Finish
from xscore.records.judgment import Judgment
from xscore.scorer import repair
from xscore.scorer.repair import MemoryPiece, PackPrompt, RepairReason


class ParsedReply(Struct, frozen=True):
    """What a reply validly says."""

    scores: Mapping[str, float]
    """Id -> 0..100, only ids that were asked for."""
    reasons: Mapping[str, str]
    """Id -> reason, only ids with a score."""
    foreign: int = 0
    """Ids that were not asked for; void."""
    void: int = 0
    """Values that are not a valid score, or ids given twice with different values."""
    repaired: bool = False
    """Whether the reply had to be repaired to be JSON."""
    refused: frozenset[str] = frozenset()
    """Ids that the model declined to score, of a reply that scores others."""


EMPTY_REPLY = ParsedReply({}, {})


class ReplyFaults(Struct):
    """What was wrong with replies so far; for the receipt's warnings."""

    repaired: int = 0
    """Replies that had to be repaired to be JSON."""
    foreign: int = 0
    """Scores for ids that were not asked for."""
    void: int = 0
    """Values that are not a valid score, or scores given twice with different values."""
    asked_again: int = 0
    """Prompts sent for pieces that an earlier one left without a score."""

    def count(self, reply: ParsedReply) -> None:
        """Add what was wrong with one reply."""
        self.repaired += reply.repaired
        self.foreign += reply.foreign
        self.void += reply.void

    def in_words(self) -> str:
        """`2 replies repaired, 1 score void; 3 prompts asked again`; empty if nothing was wrong."""
        counts = (
            (self.repaired, "reply repaired", "replies repaired"),
            (self.foreign, "score for unknown ids", "scores for unknown ids"),
            (self.void, "score void", "scores void"),
        )
        clauses = [", ".join(counted(*fault) for fault in counts if fault[0])]
        if self.asked_again:
            clauses.append(f"{counted(self.asked_again, 'prompt')} asked again")
        return "; ".join(filter(None, clauses))

    def warnings(self) -> tuple[str, ...]:
        """Say for a receipt what was wrong, if anything was."""
        words = self.in_words()
        if not words:
            return ()
        return (f"the judge's replies had to be repaired: {words}",)


ReplyParser = Callable[[str, Collection[str]], ParsedReply]


class ParsedCompletion(NamedTuple):
    """One completion, read."""

    judged: list[tuple[MemoryPiece, Judgment]]
    missing: list[MemoryPiece]
    trouble: RepairReason
    """Why these pieces are missing."""
    reply: ParsedReply
    refused: list[MemoryPiece]
    """Pieces that the model declined in a reply with other scores."""


def _pack_of(prompt: PackPrompt) -> str:
    # A memory alone in its prompt is judged by itself; a part is known by its pack.
    if len(prompt.pieces) > 1 or prompt.pieces[0].is_part:
        return prompt.pack
    return ""


def parse_completion(
    prompt: PackPrompt,
    codes: Sequence[str],
    completion: Completion,
    *,
    priors: Mapping[str, float],
    read: ReplyParser,
) -> ParsedCompletion:
    """Turn a completion into raw scores, or say for which pieces there is none.

    codes: the id of each piece, in their order.
    priors: by content hash of the memory.
    read: how replies to this layout are read.
    """
    refused = completion.finish is Finish.REFUSAL
    reply = EMPTY_REPLY if refused else read(completion.text, frozenset(codes))
    pieces: list[MemoryPiece] = []
    # Columns and not judgments: those of a whole reply are checked together.
    hashes: list[str] = []
    scores: list[float] = []
    reasons: list[str] = []
    positions: list[int] = []
    priors_of_pieces: list[float] = []
    missing: list[MemoryPiece] = []
    declined: list[MemoryPiece] = []
    for position, (code, piece) in enumerate(zip(codes, prompt.pieces, strict=True)):
        score = reply.scores.get(code)
        if score is None:
            (declined if code in reply.refused else missing).append(piece)
            continue
        pieces.append(piece)
        hashes.append(piece.content_hash)
        scores.append(score / 100)
        reasons.append(reply.reasons.get(code, ""))
        positions.append(position)
        priors_of_pieces.append(priors.get(piece.memory, 0.0))
    judgments = Judgment.from_columns(
        hashes,
        scores,
        reasons=reasons,
        packs=repeat(_pack_of(prompt)),
        positions=positions,
        priors=priors_of_pieces,
    )
    judged = list(zip(pieces, judgments, strict=True))
    trouble = repair.CUT_SHORT if completion.finish is Finish.LENGTH else repair.UNREADABLE
    return ParsedCompletion(
        judged, missing, repair.REFUSED if refused else trouble, reply, declined
    )
