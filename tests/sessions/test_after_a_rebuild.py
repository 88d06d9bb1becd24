"""A store that was rebuilt reads the session files again: nothing doubles, and what was lost comes back."""

from pathlib import Path

from tests.sessions.session_writers import ClaudeLog
from xscore.extensions.sessions.importing import import_sessions
from xscore.extensions.sessions.session_format import AgentFolders, SessionImportReport
from xscore.platform.paths import find_root
from xscore.store import memory_rows, opening
from xscore.store.store import Store

NOW = 1_796_000_000.0


def imported(root: Path, home: Path, *, lose: str = "") -> tuple[SessionImportReport, dict[str, int]]:
    """Import; return the report, and what is remembered with its count. lose: then drop the exchange of a session."""
    with Store.open(find_root(root), user_data_dir=home / "data") as store:
        report = import_sessions(store, AgentFolders(home, {}, root), now=NOW)
        found = memory_rows.select_memories(store.connection, "source = 'import'", ())
        gone = [memory.id for memory in found if lose and memory.particulars.session == lose]
        store.connection.executemany("DELETE FROM memory WHERE id = ?", [(name,) for name in gone])
        return report, {memory.id: memory.particulars.occurrences for memory in found}


def test_exchanges_and_failures_do_not_double_after_a_rebuild(root: Path, own_home: Path) -> None:
    """Bookmarks are not salvaged, on purpose: all is read again, known by its id, and a lost exchange comes back."""
    log = ClaudeLog(root, "one").user("mend it")
    log.runs("pytest -q", "KeyError: 'x'", failed=True, call="a").runs("pytest -q", "ok", failed=False, call="b")
    log.says("Mended.").write(own_home)
    ClaudeLog(root, "two").user("what is a pack?").says("Candidates of one prompt.").write(own_home)
    first, before = imported(root, own_home, lose="two")
    assert (first.added, first.failures) == (2, 1)
    assert opening.rebuild_store(root / ".xscore", user_data_dir=own_home / "data").aside
    again, after = imported(root, own_home)
    assert (again.added, again.known, again.unchanged) == (1, 1, 0)
    assert after == before
