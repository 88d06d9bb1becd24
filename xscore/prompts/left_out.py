"""The memories that a bundle only names: chosen without room, passed without a place, or just below the threshold.

One line each, by file, within a share of the budget; what does not fit even so is counted. Trade-off: names come before
reasons, so a long list has no reasons.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from itertools import groupby

from msgspec import Struct

from xscore.platform import tokens
from xscore.prompts.fences import collapse_blanks, escape_tags
from xscore.records.memory import Candidate

REASON_CHARS = 120


class LeftOutCause(IntEnum):
    """Why a memory is only named; the order in which they are listed."""

    NO_ROOM = 0
    NO_PLACE = 1
    BELOW = 2


HEADINGS = {
    LeftOutCause.NO_ROOM: "Chosen, but without room in the budget or in their layer's share; ask for what you need:",
    LeftOutCause.NO_PLACE: "Passed as well, but all places were taken:",
    LeftOutCause.BELOW: "Near, but below the threshold:",
}


class LeftOut(Struct, frozen=True):
    """A memory that is named."""

    candidate: Candidate
    cause: LeftOutCause
    score: float
    reason: str = ""
    title: str = ""
    """Of a memory that belongs to no file."""
    others: tuple[str, ...] = ()
    """Ids of the memories that it represents."""
    tokens: int = 0


def name_within(left_out: Sequence[LeftOut], budget: int, *, size: Callable[[LeftOut], int]) -> list[LeftOut]:
    """Return the first of these whose entries fit into the budget of tokens together."""
    for count, each in enumerate(left_out):
        budget -= size(each)
        if budget < 0:
            return list(left_out[:count])
    return list(left_out)


def in_order(left_out: Iterable[LeftOut]) -> list[LeftOut]:
    """Order by cause, then by file, the file with the best score first."""
    best_first = sorted(left_out, key=lambda one: (one.cause, -one.score, one.candidate.id))
    files: dict[tuple[LeftOutCause, str], int] = {}
    for one in best_first:
        files.setdefault((one.cause, one.candidate.path), len(files))
    return sorted(best_first, key=lambda one: (one.cause, files[one.cause, one.candidate.path]))


def left_out_lines(left_out: Iterable[LeftOut], budget: int) -> list[str]:
    """Return headings and a line for each memory (path:lines, entity, score, reason), within a budget of tokens."""
    ordered = in_order(left_out)
    opens = {next(group).candidate.id: HEADINGS[cause] for cause, group in groupby(ordered, lambda one: one.cause)}

    def size(one: LeftOut) -> int:
        return _tokens(opens.get(one.candidate.id, ""), _line(one))

    named = name_within(ordered, budget, size=size)
    spare = budget - sum(map(size, named))
    lines: list[str] = []
    for one in named:
        whole = _line(one, reason=True)
        spare -= _tokens(whole) - _tokens(_line(one))
        lines += [line for line in (opens.get(one.candidate.id), whole if spare >= 0 else _line(one)) if line]
    rest = len(ordered) - len(named)
    if rest:
        lines.append(f"{rest} {'more ' * bool(named)}passed or came near; `xscore explain` tells of each")
    return lines


def _line(one: LeftOut, *, reason: bool = False) -> str:
    candidate = one.candidate
    lines = f":{candidate.start_line}-{candidate.end_line}" if candidate.start_line else ""
    place = f"{candidate.path}{lines} {candidate.entity}" if candidate.path else one.title or candidate.entity
    ids = " ".join(f"[{id_}]" for id_ in (candidate.id, *one.others)) if not candidate.path or one.others else ""
    size = f"about {one.tokens:,} tokens" if one.tokens and one.cause is LeftOutCause.NO_ROOM else ""
    why = one.reason[:REASON_CHARS] if reason else ""
    said = [ids, place, f"{one.score:.2f}", size, why]
    return collapse_blanks(escape_tags(" ".join(part for part in said if part)))


def _tokens(*texts: str) -> int:
    return tokens.estimate(sum(tokens.size(text) + 1 for text in texts))
