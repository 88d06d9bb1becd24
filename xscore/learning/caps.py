"""The size of a layer (L11): over its rows or bytes, the least valuable are archived first. Pure.

Value is importance × confidence, then when it was last seen. Trade-off: how often something was used counts only
through when, so that a memory used a hundred times years ago gives way.
"""

from collections.abc import Iterable

from xscore.learning.decay import last_seen
from xscore.learning.retention import LIVE
from xscore.records import Memory


def over_cap(memories: Iterable[Memory], *, max_rows: int, max_bytes: int) -> list[Memory]:
    """Return what has to be archived for a layer's live memories to fit, least valuable first."""
    best_first = sorted((memory for memory in memories if memory.status in LIVE), key=_value, reverse=True)
    rows = size = 0
    for memory in best_first:
        rows, size = rows + 1, size + len(memory.text.encode("utf-8", "surrogatepass"))
        if rows > max_rows or size > max_bytes:
            break
    else:
        return []
    return best_first[rows - 1 :][::-1]


def _value(memory: Memory) -> tuple[float, float, str]:
    return (memory.importance * memory.confidence, last_seen(memory), memory.id)
