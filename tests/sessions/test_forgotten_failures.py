"""What was counted in an exchange goes with it: a failure met there alone, or one count of one met elsewhere too."""

import json
from pathlib import Path

from tests.sessions.session_writers import ClaudeLog, Import
from xscore.extensions.privacy.erasure import erase_memories, preview_erasure
from xscore.extensions.sessions.imported_sessions import imported_ids
from xscore.records import Kind, Memory
from xscore.store import memory_rows
from xscore.store.store import Store

NOW = 1_796_000_001.0


def told(root: Path, home: Path, session: str, error: str) -> None:
    """A session in which a command failed and passed later."""
    log = ClaudeLog(root, session).user(f"mend it in {session}")
    log.runs("pytest -q", error, failed=True, call=f"{session}-a").runs(
        "pytest -q", "ok", failed=False, call=f"{session}-b"
    )
    log.says(f"Mended in {session}.").write(home)


def of(store: Store, kind: Kind) -> list[Memory]:
    """Memories of a kind."""
    return memory_rows.select_memories(store.connection, "kind = ?", (kind,))


def forget(store: Store, session: str) -> None:
    """As `sessions forget` of the exchange alone."""
    (exchange,) = [memory.id for memory in of(store, Kind.EXCHANGE) if memory.particulars.session == session]
    chosen = imported_ids(store.connection, names=[exchange])
    assert preview_erasure(store, chosen).ids == erase_memories(store, chosen, now=NOW, forget=True).ids


def test_a_failure_met_there_alone_goes_too(root: Path, own_home: Path, store: Store, run: Import) -> None:
    """Forgetting the one exchange it was read in takes the failure along, and no import brings either back."""
    told(root, own_home, "one", "KeyError: 'umlaut'")
    assert run().failures == 1 and len(of(store, Kind.FAILURE)) == 1
    forget(store, "one")
    assert of(store, Kind.FAILURE) == [] and of(store, Kind.EXCHANGE) == []
    store.connection.execute("DELETE FROM session_file")
    run()
    assert of(store, Kind.FAILURE) == []


def test_a_failure_met_elsewhere_too_counts_less(root: Path, own_home: Path, store: Store, run: Import) -> None:
    """One of three meetings forgotten leaves two, in the pattern too; with the last one all of it goes."""
    for session in ("one", "two", "three"):
        told(root, own_home, session, "KeyError: 'umlaut'")
    run()
    assert [memory.particulars.occurrences for memory in of(store, Kind.FAILURE)] == [3]
    forget(store, "two")
    (failure,), (pattern,) = of(store, Kind.FAILURE), of(store, Kind.PATTERN)
    assert (failure.particulars.occurrences, failure.evidence_count, pattern.particulars.occurrences) == (2, 2, 2)
    forget(store, "one")
    forget(store, "three")
    assert of(store, Kind.FAILURE) == of(store, Kind.PATTERN) == []
    assert json.loads(store.connection.execute("SELECT json_group_array(id) FROM occurrence").fetchone()[0]) == []
