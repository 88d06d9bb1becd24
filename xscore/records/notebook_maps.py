"""Maps that a notebook shows below an answer: who ran the turn says how its map is made.

An answer is a record and knows no store, so the last turns of this process are known here by their
ids. Trade-off: an answer that was read from JSON, or is older than the last hundred, has no map.
"""

from collections.abc import Callable

MOST_KEPT = 100
MakeMap = Callable[[], str]
_makers: dict[str, MakeMap] = {}


def offer_map(turn_id: str, make_map: MakeMap) -> None:
    """Say how the map of a turn is made, as HTML; it is made when a notebook shows the answer."""
    _makers.pop(turn_id, None)
    _makers[turn_id] = make_map
    while len(_makers) > MOST_KEPT:
        _makers.pop(next(iter(_makers)))


def map_html(turn_id: str) -> str:
    """Return the map of a turn as HTML; empty if `offer_map` was not called for it."""
    make_map = _makers.get(turn_id)
    return make_map() if make_map is not None else ""
