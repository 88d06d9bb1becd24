"""Consolidation by itself: at most once a day, by the background process of an idle machine.

It is the run that `memory consolidate` makes: one transaction, nothing sent, nothing that you
stated removed for its age. The day is marked before the run, so that one that fails or is killed is
not repeated with every prompt. Trade-off: a repository without background work is never tidied; its
user runs the command.
"""

import os
import sqlite3
from contextlib import suppress

from xscore.extensions.learning.consolidate import consolidate
from xscore.extensions.learning.draft import Consolidation
from xscore.platform import database
from xscore.platform.clock import DAY_S
from xscore.settings import MemorySettings
from xscore.store.events import TIDIED_AT, tidied_at_of
from xscore.store.index_rows import write_meta
from xscore.store.store import Store


def is_due(connection: sqlite3.Connection, *, now: float) -> bool:
    """Whether a day has passed; a mark in the future, left by a clock that was set back, counts as
    none."""
    tidied_at = tidied_at_of(connection)
    return tidied_at is None or not 0 <= now - tidied_at < DAY_S


def tidy(store: Store, settings: MemorySettings, *, now: float) -> Consolidation | None:
    """Consolidate all layers if that is due and the machine is idle; None if it is not the
    time.

    now: Unix seconds. Raises StoreError.
    """
    if not settings.daily_consolidation or not is_due(store.connection, now=now) or _is_busy():
        return None
    with database.transaction(store.connection) as connection:
        # Looked at again under the lock: another worktree's process may have begun.
        if not is_due(connection, now=now):
            return None
        write_meta(connection, TIDIED_AT, repr(now))
    return consolidate(store, settings, now=now)


def _is_busy() -> bool:
    """Whether more work waits for a processor than there are processors."""
    with suppress(OSError, AttributeError):  # a system that does not tell counts as idle
        return os.getloadavg()[0] > (os.cpu_count() or 1)
    return False
