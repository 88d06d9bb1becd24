"""Erasure takes what compression kept: the bytes are searched."""

from pathlib import Path

from tests import programs
from tests.conftest import store_dir
from tests.extensions.sessions.session_writers import ClaudeLog
from xscore.extensions.compression.reading import find_log, read_session
from xscore.extensions.sessions.session_reader import AgentFolders
from xscore.platform.paths import find_root
from xscore.store.compressed_sessions import erased_ids, save_summary
from xscore.store.store import Store

SECRET_PLAN = "the zanzibar migration begins on monday with the billing tables"


def bytes_of(root: Path) -> bytes:
    """Return all files of the store."""
    return b"".join(path.read_bytes() for path in store_dir(root).rglob("*") if path.is_file())


def compressed_session(root: Path, home: Path) -> Path:
    """Compress a session that tells a plan; return its log."""
    log = ClaudeLog(root, "abcd-1").user(f"Remember: {SECRET_PLAN}.").says("Noted, I go on.")
    log.user("What about the tests of the parser?").says("They pass.")
    path = log.write(home)
    done = programs.run("session", "compress", "--quiet", cwd=root)
    assert done.returncode == 0, done.stderr
    assert SECRET_PLAN in done.stdout
    return path


def test_a_wiped_session_takes_its_frontier_tiers_and_summaries(
    root: Path, store: Store, own_home: Path
) -> None:
    """Whether or not it was imported; the log itself is the agent's."""
    compressed_session(root, own_home)
    save_summary(store.connection, "claude-code-abcd-1", "h", SECRET_PLAN, now=1.0)
    assert SECRET_PLAN.encode() in bytes_of(root)
    done = programs.run("memory", "wipe", "--session", "abcd-1", "--yes", cwd=root)
    assert done.returncode == 0, done.stderr
    for table in ("compressed_session", "session_turn", "turn_summary"):
        assert store.connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    store.close()
    assert SECRET_PLAN.encode() not in bytes_of(root)


def test_an_erased_exchange_takes_what_was_made_of_it(
    root: Path, store: Store, own_home: Path
) -> None:
    """A later compression leaves the turns of the exchange out, too."""
    compressed_session(root, own_home)
    programs.run("memory", "import-sessions", cwd=root)
    (identifier,) = store.connection.execute(
        "SELECT id FROM memory WHERE kind = 'exchange' AND text LIKE '%zanzibar%'"
    ).fetchone()
    save_summary(store.connection, "claude-code-abcd-1", "h", SECRET_PLAN, now=1.0)
    done = programs.run("memory", "delete", identifier, "--yes", cwd=root)
    assert done.returncode == 0, done.stderr
    assert store.connection.execute("SELECT count(*) FROM turn_summary").fetchone() == (0,)
    assert identifier in erased_ids(store.connection)
    log = find_log(find_root(root), AgentFolders(own_home, {}, root), "")
    outcome = read_session(
        log, allow_pii=False, home=own_home, erased=erased_ids(store.connection)
    )
    assert [turn.words for turn in outcome.session.turns] == [
        "What about the tests of the parser?",
        "They pass.",
    ]
    store.close()
    assert SECRET_PLAN.encode() not in bytes_of(root)
