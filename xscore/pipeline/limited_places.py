"""How many places commits, and conventions that nobody stated, may take of a turn: few, unless the
task asks for them.

Commits say why, and conventions how work is done here; the code is what most tasks are about. What
a person stated is not limited. Pure. Trade-off: what a task asks for is told by its words alone.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum, auto

from xscore.records.judgment import Ranked
from xscore.records.memory import Candidate, Kind
from xscore.records.turn import Turn

COMMIT_PLACES = 3
"""Most places that commits take where the task does not ask for them."""
CONVENTION_PLACES = 2
"""The same of conventions and parts of the stack that files show."""
_ASKS_FOR_HISTORY = (
    r"(?i)\b(?:why|who|since when|blame|commits?|history|when (?:was|were|did|has|have)"
    r"|(?:which|what) (?:change|release|version)|introduced (?:in|by)|regress\w*)\b"
)
_ASKS_HOW_WORK_IS_DONE = (
    r"(?i)\b(?:how|where|which|what|command|please)\b.{0,60}\b(?:run|runs|build|built|builds|test"
    r"|tests|tested|lint\w*|format\w*|type.?check\w*|install\w*|set ?up|named?|naming|deploy\w*)\b"
    r"|\b(?:conventions?|code style|coding style|tech stack|our stack|naming|project layout)\b"
    r"|\b(?:run|execute) (?:all |the )*(?:unit )?(?:tests|test suite|linters?)\b"
    r"|\b(?:test|build|lint|format|install) commands?\b"
)
_CONVENTION_KINDS = frozenset({Kind.CONVENTION, Kind.TECH_STACK})


class _LimitedGroup(Enum):
    """What shares a number of places."""

    COMMITS = auto()
    CONVENTIONS = auto()


def within_limited_places(
    passing: Sequence[Ranked], turn: Turn | None, *, top_k: int
) -> tuple[list[Ranked], list[Ranked]]:
    """Split what passed, best first, into what may have a place and what is beyond its group's
    places.

    turn: None: each group may take as many as it reaches.
    """
    if turn is None:
        return list(passing), []
    may_stay: list[Ranked] = []
    further: list[Ranked] = []
    places = _places_of_groups(turn, top_k=top_k)
    taken = Counter[_LimitedGroup]()
    for ranked in passing:
        group = _group_of(ranked.candidate)
        if group is not None:
            taken[group] += 1
        if group is not None and taken[group] > places[group]:
            further.append(ranked)
        else:
            may_stay.append(ranked)
    return may_stay, further


def _group_of(candidate: Candidate) -> _LimitedGroup | None:
    if candidate.kind is Kind.COMMIT:
        return _LimitedGroup.COMMITS
    if candidate.is_inferred and candidate.kind in _CONVENTION_KINDS:
        return _LimitedGroup.CONVENTIONS
    return None


def _places_of_groups(turn: Turn, *, top_k: int) -> Mapping[_LimitedGroup, int]:
    return {
        _LimitedGroup.COMMITS: _places(
            turn, {Kind.COMMIT}, _ASKS_FOR_HISTORY, COMMIT_PLACES, top_k=top_k
        ),
        _LimitedGroup.CONVENTIONS: _places(
            turn, _CONVENTION_KINDS, _ASKS_HOW_WORK_IS_DONE, CONVENTION_PLACES, top_k=top_k
        ),
    }


def _places(
    turn: Turn, kinds: "frozenset[Kind] | set[Kind]", asking: str, few: int, *, top_k: int
) -> int:
    """Return how many places these kinds may take: few, half where the task asks for them, all
    where its scope names them."""
    if not kinds.isdisjoint(turn.scope.kinds):
        return top_k
    if re.search(asking, turn.task):
        return max(few, top_k // 2)
    return few
