"""Find the names nearest to one that nothing bears: files, entities, turns, checkpoints, settings.

Compares letters, not meanings: the whole name, and its last part (`turn_key` of
`src/cache.py::turn_key`), without regard to case. Trade-off: every known name is compared, 0.2 s
for 40,000 of them, but only after nothing matched.
"""

import re
from collections.abc import Iterable

NAMES_SHOWN = 5
LIKENESS = 0.6
"""Lowest similarity of two names, from 0 to 1: one wrong letter in a name of three passes, two do
not."""
CONTAINED = 0.7
"""Similarity of a name that contains the wanted one."""
_LETTERS_TO_CONTAIN = 3


def nearest_names(
    name: str, names: Iterable[str], *, limit: int = NAMES_SHOWN, likeness: float = LIKENESS
) -> list[str]:
    """Return the names most like `name`, the nearest first; empty if none comes near.

    likeness: the lowest similarity that counts, from 0 to 1 (shared letters in order,
        `rapidfuzz.fuzz.ratio`).
    """
    from rapidfuzz import fuzz, process  # only where a name is misspelt

    distinct = list(dict.fromkeys(names))
    folded = [choice.casefold() for choice in distinct]
    folded_name = name.casefold()
    parts = [_last_part(choice) for choice in folded]
    # Without a place in it a name is compared with entities, whatever file they are in.
    has_place = "/" in folded_name or "::" in folded_name
    if has_place:
        wholes = folded
    else:
        wholes = [choice.rpartition("::")[2] for choice in folded]
    similarity: dict[int, float] = {}
    for form in {folded_name, _last_part(folded_name)}:
        for choices in (wholes, parts):
            near = process.extract(
                form, choices, scorer=fuzz.ratio, limit=None, score_cutoff=likeness * 100
            )
            for _, score, at in near:
                similarity[at] = max(similarity.get(at, 0.0), score / 100)
        if len(form) >= _LETTERS_TO_CONTAIN and likeness <= CONTAINED:
            for at, part in enumerate(parts):
                if form in part:
                    similarity[at] = max(similarity.get(at, 0.0), CONTAINED)
    ranks = [
        (-score, -fuzz.ratio(folded_name, folded[at]), distinct[at])
        for at, score in similarity.items()
    ]
    return [nearest for *_, nearest in sorted(ranks)[:limit]]


def did_you_mean(near: Iterable[str], otherwise: str) -> str:
    """Return a hint that lists the near names; `otherwise` if there are none."""
    shown = ", ".join(near)
    return f"Did you mean {shown}?" if shown else otherwise


def _last_part(name: str) -> str:
    """Return the last part of an entity's name, or the file's name of a path."""
    path, colons, entity = name.partition("::")
    if colons:
        return re.split(r"\.| > ", entity)[-1]
    return path.rstrip("/").rpartition("/")[2]
