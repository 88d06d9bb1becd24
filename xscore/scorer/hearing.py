"""What one completion says of the pieces it was asked about: a judgment or none for each, and why not. Pure.

The live judge and the collector of batches both hear through here, so that a reply means the same whichever way it
came. What becomes of the pieces without a score is `repair`'s. Trade-off: a prior is looked up for each piece anew.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from xscore.records import Completion, Finish, Judgment
from xscore.scorer import parse, repair
from xscore.scorer.repair import Ask, Trouble
from xscore.scorer.scores_read import NOTHING, Reply
from xscore.scorer.split import Piece

Read = Callable[[str, Collection[str]], Reply]


class Heard(NamedTuple):
    """One completion, read."""

    judged: list[tuple[Piece, Judgment]]
    missing: list[Piece]
    trouble: Trouble
    """Why those are missing."""
    reply: Reply


def hear(
    ask: Ask, codes: Sequence[str], completion: Completion, *, priors: Mapping[str, float], read: Read = parse.read
) -> Heard:
    """Read a completion. codes: the id of each piece, in their order. priors: by content hash of the memory.

    read: as the prompt's layout has its replies read.
    """
    refused = completion.finish is Finish.REFUSAL
    reply = NOTHING if refused else read(completion.text, frozenset(codes))
    pack = ask.pack if len(ask.pieces) > 1 or ask.pieces[0].is_part else ""  # `cache.reach` knows parts by it
    judged: list[tuple[Piece, Judgment]] = []
    missing: list[Piece] = []
    for position, (code, piece) in enumerate(zip(codes, ask.pieces, strict=True)):
        score = reply.scores.get(code)
        if score is None:
            missing.append(piece)
            continue
        prior = priors.get(piece.memory, 0.0)
        reason = reply.reasons.get(code, "")
        judged.append((piece, Judgment(piece.content_hash, score / 100, reason, pack, position, prior)))
    return Heard(judged, missing, _trouble(completion, refused=refused), reply)


def _trouble(completion: Completion, *, refused: bool) -> Trouble:
    if refused:
        return repair.REFUSED
    return repair.CUT_SHORT if completion.finish is Finish.LENGTH else repair.UNREADABLE
