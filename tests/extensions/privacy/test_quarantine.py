"""Quarantined scores are erased with their content, and kept when a damaged store is rebuilt."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.store.conftest import put, said
from xscore.cache import judgment_store
from xscore.extensions.privacy import erasure
from xscore.extensions.recovery.salvage import salvage_store
from xscore.platform import database
from xscore.store.opening import connect_store
from xscore.store.store import Store

NAMES = ("a" * 32, "b" * 32, 0)


def test_what_strangers_said_of_an_erased_memory_goes(store: Store) -> None:
    """The score stays if another memory shows the content, and for other contents."""
    gone, shared, twin = (
        said(),
        said("We build with bazel on Mondays", ordinal=1),
        said("We build with bazel on Mondays", ordinal=2),
    )
    put(store.connection, gone, shared, twin)
    with database.transaction(store.connection):
        judgment_store.keep_untrusted(
            store.connection,
            NAMES,
            [(gone.content_hash, 0.9), (shared.content_hash, 0.8), ("c" * 32, 0.7)],
        )
    erasure.erase_memories(store, [gone.id, shared.id], now=50.0)
    assert judgment_store.untrusted_scores(store.connection, NAMES) == {
        shared.content_hash: 0.8,
        "c" * 32: 0.7,
    }


def test_a_damaged_store_keeps_what_can_be_a_score(tmp_path: Path) -> None:
    """An invalid score is dropped and counted."""
    damaged = tmp_path / "damaged" / "memory.db"
    with closing(connect_store(damaged)) as connection, database.transaction(connection):
        judgment_store.keep_untrusted(connection, NAMES, [("c" * 32, 0.5), ("d" * 32, 0.6)])
    with closing(sqlite3.connect(damaged)) as plain:
        plain.execute("PRAGMA ignore_check_constraints = ON")
        plain.execute("UPDATE untrusted_score SET score = 7 WHERE hash LIKE 'd%'")
        plain.commit()
    with closing(connect_store(tmp_path / "new" / "memory.db")) as target:
        salvaged = salvage_store(damaged, target)
        assert judgment_store.untrusted_scores(target, NAMES) == {"c" * 32: 0.5}
    assert (salvaged.kept["scores in quarantine"], salvaged.rejected_rows) == (1, 1)
