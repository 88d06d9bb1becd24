"""The repair ladder: what to do about memories that a reply did not score. Pure.

    pack  ->  half a pack of what is missing  ->  one by one  ->  Unjudged(cause)

A refusal goes to one by one at once, because one memory may have caused it; a reply cut short and a prompt too long
need fewer memories, and halving gives that. Nothing is clamped and nothing becomes 0 by default.
It does not send; `model_judge` does. Trade-off: at most three asks a memory, so a model that is wrong more often than
that leaves memories unjudged, visibly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import ceil

from xscore.records import Cause, Unjudged
from xscore.scorer.split import Piece


class Rung(IntEnum):
    """How far down the ladder an ask stands."""

    PACK = 0
    HALF = 1
    ALONE = 2


@dataclass(frozen=True, slots=True)
class Ask:
    """One prompt to send: pieces in the order in which they stand in it."""

    pack: str
    """Names the prompt: deals its ids and routes its prefix."""
    pieces: tuple[Piece, ...]
    rung: Rung = Rung.PACK
    is_kept: bool = False
    """Another turn would ask about the same pieces under the same name."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an ask left pieces without a score."""

    cause: Cause
    """What they are lost for at the end of the ladder."""
    detail: str
    one_by_one: bool = False
    """Go straight to the last rung."""
    final_when_alone: bool = False
    """A piece alone in its prompt need not be asked again: the answer would be the same."""


UNREADABLE = Trouble(Cause.UNREADABLE, "no valid score in the reply")
CUT_SHORT = Trouble(Cause.UNREADABLE, "the reply was cut short before its score")
REFUSED = Trouble(Cause.REFUSED, "the model declined", one_by_one=True, final_when_alone=True)


def too_long(detail: str) -> Trouble:
    """A prompt that the model's context does not hold."""
    return Trouble(Cause.TOO_LONG, detail, final_when_alone=True)


def rejected(detail: str) -> Trouble:
    """A prompt that the host will not take, while it takes others."""
    return Trouble(Cause.PROVIDER, detail, one_by_one=True, final_when_alone=True)


def next_rung(ask: Ask, missing: Sequence[Piece], trouble: Trouble) -> tuple[list[Ask], list[tuple[Piece, Unjudged]]]:
    """Give the asks that may still score what is missing, or the pieces that are lost for good."""
    was_alone = len(ask.pieces) == 1
    if ask.rung is Rung.ALONE or (was_alone and trouble.final_when_alone):
        return [], [(piece, Unjudged(piece.content_hash, trouble.cause, trouble.detail)) for piece in missing]
    rung = Rung.ALONE if trouble.one_by_one or was_alone else Rung(ask.rung + 1)
    size = 1 if rung is Rung.ALONE else ceil(len(ask.pieces) / 2)
    groups = [tuple(missing[start : start + size]) for start in range(0, len(missing), size)]
    return [Ask(f"{ask.pack}/{rung.value}.{number}", group, rung) for number, group in enumerate(groups)], []
