"""How many places commits may take of a turn: few, unless the task asks for the history.

They say why, and the code is what most tasks are about. Pure. Trade-off: that a task asks for the
history is told by its words alone.
"""

import re
from collections.abc import Sequence

from xscore.records.judgment import Ranked
from xscore.records.memory import Kind
from xscore.records.turn import Turn

COMMIT_PLACES = 3
"""Most places that commits take where the task does not ask for them."""
_ASKS_FOR_HISTORY = (
    r"(?i)\b(?:why|who|since when|blame|commits?|history|when (?:was|were|did|has|have)"
    r"|(?:which|what) (?:change|release|version)|introduced (?:in|by)|regress\w*)\b"
)


def within_commit_places(
    passing: Sequence[Ranked], turn: Turn | None, *, top_k: int
) -> tuple[list[Ranked], list[Ranked]]:
    """Split what passed, best first, into what may have a place and the commits beyond theirs.

    turn: None: commits may take as many as they reach.
    """
    may_stay: list[Ranked] = []
    further: list[Ranked] = []
    places = top_k if turn is None else _places_for_commits(turn, top_k=top_k)
    commits = 0
    for ranked in passing:
        is_commit = ranked.candidate.kind is Kind.COMMIT
        commits += is_commit
        if turn is not None and is_commit and commits > places:
            further.append(ranked)
        else:
            may_stay.append(ranked)
    return may_stay, further


def _places_for_commits(turn: Turn, *, top_k: int) -> int:
    if Kind.COMMIT in turn.scope.kinds:
        return top_k
    if re.search(_ASKS_FOR_HISTORY, turn.task):
        return max(COMMIT_PLACES, top_k // 2)
    return COMMIT_PLACES
