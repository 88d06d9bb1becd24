"""A project and a user with work for every rule of consolidation, and the contents of their
stores."""

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

from tests.conftest import store_file
from tests.extensions.learning.conftest import NOW, decision, made, preference, put
from xscore.extensions.learning.consolidate import consolidate
from xscore.platform.clock import DAY_S
from xscore.platform.errors import StoreError
from xscore.platform.paths import find_root
from xscore.records.memory import Kind, Layer, MemoryScope, MemorySource
from xscore.settings import MemorySettings, validate_group
from xscore.store.opening import connect_store
from xscore.store.store import Store
from xscore.store.working_session import resume_session

RULES = validate_group(MemorySettings, {"promote_projects": 1, "max_rows": {"governance": 2}})
"""One project is enough to promote, so that both stores are written in one run."""
STEPS = 20
"""SQLite virtual-machine steps between two possible interruptions."""
_COMPARED = (
    (
        "SELECT id, layer, status, key, superseded_by, confidence, evidence_count, text, attrs,"
        " thread FROM memory ORDER BY id"
    ),
    "SELECT source, target, relation FROM edge ORDER BY 1, 2, 3",
    "SELECT project, key, kind, value FROM observation ORDER BY 1, 2",
    "SELECT memory_id FROM erased_memory ORDER BY 1",
    "SELECT key, value FROM meta WHERE key LIKE 'faded_at%' ORDER BY 1",
)

State = tuple[tuple[object, ...], ...]


def opened(folder: Path) -> Store:
    """Open the project in this folder, with its user."""
    (folder / "project").mkdir(exist_ok=True)
    return Store.open(find_root(folder / "project"), user_data_dir=folder / "user")


def fill(store: Store) -> None:
    """Add work for every rule."""
    session = {"layer": Layer.SESSION, "scope": MemoryScope.SESSION}
    thread = resume_session(store.connection, branch="main", now=NOW - DAY_S).thread
    put(
        store,
        made("Retries use tenacity everywhere in this code.", days_ago=2),
        made("Retries use Tenacity everywhere in this code"),
        made("Use Prisma", kind=Kind.TECH_STACK, key="orm", days_ago=3),
        made("Half a year unseen, this one", days_ago=200),
        made("A year unseen, this one", days_ago=400, source=MemorySource.IMPORT),
        made("Of no weight at all", days_ago=40, importance=0.1),
        preference("Use tabs", key="indent", days_ago=5, source=MemorySource.EXPLICIT),
        preference("Weak by now, and inferred", key="weak", days_ago=300, importance=0.9),
        decision("Use spaces", key="indent"),
        *(decision(f"Decision number {n}", importance=n / 10) for n in range(4)),
    )
    put(store, made("Errors end in a full stop", **session), thread=thread)  # type: ignore[arg-type]  # any field may be given
    store.connection.execute("UPDATE session SET closed_at = ?", (NOW,))


def run(store: Store) -> int:
    """Consolidate everything at the fixed clock; return the number of actions."""
    return len(consolidate(store, RULES, now=NOW).actions)


def state(path: Path) -> State:
    """Read a store's contents over a new connection."""
    connection = connect_store(path)
    try:
        return tuple(
            row for query in _COMPARED for row in (query, *connection.execute(query).fetchall())
        )
    finally:
        connection.close()


def files(folder: Path) -> tuple[Path, Path]:
    """Return both database paths."""
    return store_file(folder / "project"), folder / "user" / "user.db"


def watched(store: Store) -> list[sqlite3.Connection]:
    """Return the connections that consolidation writes with."""
    user = store.user_connection()
    assert user is not None
    return [store.connection, user]


def run_until(folder: Path, moment: int, stop: Callable[[], object]) -> bool:
    """Consolidate, and stop at this step (`STEPS`); return whether that was before the end. stop:
    true interrupts."""
    steps_left = [moment]

    def count() -> object:
        steps_left[0] -= 1
        return stop() if steps_left[0] == 0 else 0

    with opened(folder) as store:
        for connection in watched(store):
            connection.set_progress_handler(count, STEPS)  # type: ignore[arg-type]  # any true value interrupts
        try:
            run(store)
        except StoreError:
            return True
        finally:
            for connection in watched(store):
                connection.set_progress_handler(None, 0)
    return False


if __name__ == "__main__":
    run_until(Path(sys.argv[1]), int(sys.argv[2]), lambda: os.kill(os.getpid(), signal.SIGKILL))
