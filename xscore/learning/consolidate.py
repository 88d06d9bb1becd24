"""Consolidation: what the layers hold, brought into order, with nothing done twice (L01–L11, B11).

`consolidate` plans from records and then writes: one transaction in the repository's store, one in the user's, then
what is to be erased, which has transactions of its own. A run that was killed leaves each store as it was or as it is
to be, and the next run does the rest. Run again at the same clock it does nothing. Memories of the index are never
looked at. Trade-off: everything of a layer is read at each run (records, not vectors), since that is what makes the
plan a pure function of the store.
"""

from collections.abc import Collection

from xscore.learning.actions import SCOPES, Consolidation, Scope
from xscore.memory.store import Store
from xscore.settings import MemorySettings


def consolidate(
    store: Store,
    settings: MemorySettings,
    *,
    now: float,
    scopes: Collection[Scope] = SCOPES,
    dry_run: bool = False,
) -> Consolidation:
    """Bring the layers of these scopes into order, or with dry_run only tell what would be done. now: Unix seconds."""
    raise NotImplementedError
