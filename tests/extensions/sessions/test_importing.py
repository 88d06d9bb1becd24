"""The import: what belongs to the repository, what is new, and what is never imported again."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import git, store_dir
from tests.extensions.sessions.session_writers import (
    ClaudeLog,
    CodexLog,
    Import,
    Past,
    Texts,
    append,
)
from xscore.extensions.learning.consolidate import consolidate
from xscore.extensions.privacy.erasure import erase_memories, preview_erasure
from xscore.extensions.recovery import rebuild
from xscore.extensions.sessions.exchange_writer import SessionImportReport
from xscore.extensions.sessions.importing import import_sessions
from xscore.extensions.sessions.session_reader import AgentFolders
from xscore.platform.errors import XscoreError
from xscore.platform.paths import find_root
from xscore.records.memory import Kind, Memory
from xscore.store import memory_rows
from xscore.store.store import Store

NOW = 4_000_000_000.0
YEAR = 365 * 86_400.0


def rows(store: Store, sql: str) -> list[Any]:
    """Query the store."""
    return store.connection.execute(sql).fetchall()


def test_only_what_is_new_is_read(
    root: Path, own_home: Path, run: Import, texts: Texts
) -> None:
    """An unchanged file is not opened; of a grown one only new and continued exchanges are
    imported."""
    log = ClaudeLog(root).user("one").says("answer one").user("two").says("answer tw")
    path = log.write(own_home)
    os.utime(path, (NOW - 9_000, NOW - 9_000))
    assert run().added == 2
    second = run()
    assert (second.unchanged, second.bytes_read, second.exchanges) == (1, 0, 0)
    log.says("answer two, at length").user("three").says("answer three")
    append(path, log, 4)
    os.utime(path, (NOW - 8_000, NOW - 8_000))
    third = run()
    assert (third.added, third.updated, third.known) == (1, 1, 1)
    assert texts()[1] == "Task: two Answer: answer two, at length"


def test_a_half_written_last_line_waits(
    root: Path, own_home: Path, run: Import, texts: Texts
) -> None:
    """A line still being written is no damage: the next import reads it."""
    log = ClaudeLog(root).user("one").says("answer one").user("two").says("answer two")
    path = log.write(own_home)
    path.write_text(log.text()[:-20])
    assert run().refused == []
    assert texts() == ["Task: one Answer: answer one"]
    path.write_text(log.text())
    assert run().added == 1


def test_a_killed_import_is_completed_by_the_next(
    root: Path,
    own_home: Path,
    store: Store,
    run: Import,
    past: Past,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file is stored whole or not at all; after an interruption nothing is imported twice."""
    from xscore.extensions.sessions import exchange_writer

    monkeypatch.setattr(exchange_writer, "BATCH_FILES", 1)
    for number in range(3):
        log = (
            ClaudeLog(root, f"s{number}")
            .user(f"question {number}")
            .says("a")
            .user(f"more {number}")
            .says("b")
        )
        log.write(own_home)
    store.connection.execute(
        "CREATE TEMP TRIGGER crash BEFORE INSERT ON main.memory_row WHEN NEW.text LIKE '%more 1%'"
        " BEGIN SELECT RAISE(ABORT, 'crash'); END"
    )
    with pytest.raises(XscoreError, match="crash"):
        run()
    assert len(past()) == 2
    store.connection.execute("DROP TRIGGER temp.crash")
    report = run()
    assert (report.added, report.unchanged, report.known, len(past())) == (4, 1, 0, 6)


def test_what_was_erased_never_comes_back(
    root: Path, own_home: Path, store: Store, run: Import, past: Past
) -> None:
    """P: an erased exchange is not imported again, from its file or a copy."""
    log = (
        ClaudeLog(root, "one")
        .user("one", uuid="u1")
        .says("answer")
        .user("two", uuid="u2")
        .says("answer two")
    )
    log.write(own_home)
    run()
    gone = past()[0]
    erase_memories(store, [gone.id], now=NOW)
    log.user("three").says("x").write(own_home, "resumed")
    report = run()
    assert report.forgotten == 1
    assert gone.id not in {memory.id for memory in past()}


def test_what_was_put_away_is_not_revived(
    root: Path, own_home: Path, store: Store, run: Import
) -> None:
    """An archived exchange stays archived when a copy is read."""
    log = ClaudeLog(root, "one").user("one", uuid="u1").says("answer")
    log.write(own_home)
    run()
    store.connection.execute(
        "UPDATE memory_row SET status = 'archived' WHERE kind = 'exchange'"
    )
    log.says("longer answer").write(own_home, "resumed")
    assert run().known == 1
    assert rows(store, "SELECT status FROM memory WHERE kind = 'exchange'") == [("archived",)]


def test_age_counts_from_the_import_and_bars_no_other(
    root: Path, own_home: Path, store: Store, run: Import, past: Past
) -> None:
    """L06: an old conversation is kept for a year after its import; then pruned, it can be imported
    again."""
    told(root, own_home, "one", "KeyError: 'umlaut'")
    years_later = NOW + 4 * YEAR
    assert run(now=years_later).added == 1
    names = {memory.id for memory in (*past(), *of_kind(store, Kind.FAILURE))}
    consolidate(store, store.settings, now=years_later)
    assert {memory.id for memory in (*past(), *of_kind(store, Kind.FAILURE))} == names
    consolidate(store, store.settings, now=years_later + 1.1 * YEAR)
    assert past() == of_kind(store, Kind.FAILURE) == []
    report = run(now=years_later + 1.2 * YEAR)
    assert (report.added, report.forgotten, len(past())) == (1, 0, 1)


def test_worktrees_and_neighbours_are_others(
    root: Path, own_home: Path, tmp_path: Path, run: Import
) -> None:
    """Folders inside the root are this repository; worktrees, nested repositories and similar names
    are not."""
    git(root, "worktree", "add", "-q", str(root / "trees/w"), "-b", "w")
    nested = root / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    folders: list[Path | str] = [
        root / "src",
        root / "trees/w",
        nested,
        tmp_path / "repo-two",
        tmp_path,
        "repo",
    ]
    for number, cwd in enumerate(folders):
        log = (
            CodexLog(cwd, f"s{number}")
            .event("user_message", message="q")
            .event("agent_message", message="a")
        )
        log.write(own_home, f"rollout-{number}.jsonl")
    report = run()
    assert (report.files, report.added) == (1, 1)


def test_a_session_that_moves_is_taken_in_part(
    root: Path, own_home: Path, tmp_path: Path, run: Import
) -> None:
    """Each exchange counts by the folder it was asked in."""
    log = (
        ClaudeLog(root)
        .user("here")
        .says("a")
        .user("there", cwd=str(tmp_path))
        .says("b")
        .user("here again")
        .says("c")
    )
    log.write(own_home)
    report = run()
    assert (report.added, report.elsewhere) == (2, 1)


def test_since_is_not_lost(root: Path, own_home: Path, run: Import) -> None:
    """Exchanges skipped for their age are imported later without that bound."""
    ClaudeLog(root).user("one").says("answer").write(own_home)
    os.utime(ClaudeLog(root).place(own_home), (NOW - 9_000, NOW - 9_000))
    late = run(since=1_795_500_000.0)
    assert (late.added, late.elsewhere) == (0, 1)
    assert run().added == 1


def test_a_dry_run_keeps_nothing(root: Path, own_home: Path, store: Store, run: Import) -> None:
    """A dry run reports what would be imported and writes no row."""
    log = ClaudeLog(root, "one").user("one", uuid="u1").says("answer")
    log.write(own_home)
    log.write(own_home, "copy")
    before = store.connection.total_changes
    report = run(dry_run=True)
    assert (report.added, report.known) == (1, 1)
    assert store.connection.total_changes == before
    assert run().added == 1


def test_secrets_are_taken_out_first(
    root: Path, own_home: Path, store: Store, run: Import
) -> None:
    """P01: a typed or printed secret is in no file of the store, even where text was cut."""
    key = "sk-ant-api03-" + "Ab1" * 31 + "-AAAAAA"
    log = (
        ClaudeLog(root)
        .user(f"use {key} please")
        .runs("deploy", "x" * 5000 + f"\nAPI_KEY={key} failed", failed=True)
    )
    log.says("y" * 1300 + f" {key} " + "z" * 6000).write(own_home)
    assert run().secrets_redacted >= 1
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    stored_bytes = b"".join(
        file.read_bytes() for file in store.path.parent.iterdir() if file.is_file()
    )
    assert b"Ab1Ab1Ab1" not in stored_bytes


def test_no_title_shows_half_of_a_secret(
    root: Path, own_home: Path, run: Import, past: Past
) -> None:
    """P01: a title is redacted before it is cut, and the cut is marked."""
    key = "ghp_" + "aB3dE5gH7jK9mN1pQ2sT4vW6xY8zC0eF5hJ7"
    ClaudeLog(root).user(
        f"why does the deploy fail when it is run with the token of mine {key} and so on"
    ).says("a").write(own_home)
    run()
    (memory,) = past()
    assert "ghp_" not in memory.title + memory.text
    assert memory.title.endswith("…") and len(memory.title) <= 80


def test_exchanges_are_tied_to_the_code_they_name(
    root: Path, own_home: Path, store: Store, run: Import
) -> None:
    """Changed files and mentioned names become edges to indexed memories."""
    store.connection.execute(
        "INSERT INTO file_row (worktree, path, size, mtime_ns, file_hash) VALUES (1,"
        " 'src/reader.py', 1, 1, 'x')"
    )
    ClaudeLog(root).user("why?").edits(str(root / "src/reader.py")).says("done").write(own_home)
    assert run().links == 1
    assert rows(store, "SELECT target, relation FROM edge") == [
        ("f_src/reader.py", "references")
    ]


def test_failures_are_counted_once(
    root: Path, own_home: Path, store: Store, run: Import
) -> None:
    """The failures of an exchange become project failures, counted once however often it is
    read."""
    log = (
        ClaudeLog(root, "one")
        .user("fix", uuid="u1")
        .runs("pytest", "E KeyError: 'k'", failed=True)
    )
    log.runs("pytest", "ok", failed=False).says("The key was missing.")
    log.write(own_home)
    run()
    log.says("The key was missing; now it is there.").write(own_home, "resumed")
    run()
    ((attrs, text),) = rows(store, "SELECT attrs, text FROM memory WHERE kind = 'failure'")
    assert json.loads(attrs)["occurrences"] == 1
    assert "KeyError" in text and "The key was missing" in text


def imported(
    root: Path, home: Path, *, lose: str = ""
) -> tuple[SessionImportReport, dict[str, int]]:
    """Import; return the report and the stored memories with their count. lose: then drop a
    session's exchange."""
    with Store.open(find_root(root), user_data_dir=home / "data") as store:
        report = import_sessions(store, AgentFolders(home, {}, root), now=NOW)
        memories = memory_rows.select_memories(store.connection, "source = 'import'", ())
        gone = [memory.id for memory in memories if lose and memory.details.session == lose]
        store.connection.executemany(
            "DELETE FROM memory_row WHERE id = ?", [(name,) for name in gone]
        )
        return report, {memory.id: memory.details.occurrences for memory in memories}


def test_exchanges_and_failures_do_not_double_after_a_rebuild(
    root: Path, own_home: Path
) -> None:
    """Bookmarks are not salvaged on purpose: files are read again, known ids skipped, lost
    exchanges restored."""
    log = ClaudeLog(root, "one").user("mend it")
    log.runs("pytest -q", "KeyError: 'x'", failed=True, call="a").runs(
        "pytest -q", "ok", failed=False, call="b"
    )
    log.says("Mended.").write(own_home)
    ClaudeLog(root, "two").user("what is a pack?").says("Candidates of one prompt.").write(
        own_home
    )
    first, before = imported(root, own_home, lose="two")
    assert (first.added, first.failures) == (2, 1)
    assert rebuild.rebuild_store(store_dir(root), user_data_dir=own_home / "data").set_aside_at
    second, after = imported(root, own_home)
    assert (second.added, second.known, second.unchanged) == (1, 1, 0)
    assert after == before


def told(root: Path, home: Path, session: str, error: str) -> None:
    """Write a session in which a command failed and later passed."""
    log = ClaudeLog(root, session).user(f"mend it in {session}")
    log.runs("pytest -q", error, failed=True, call=f"{session}-a").runs(
        "pytest -q", "ok", failed=False, call=f"{session}-b"
    )
    log.says(f"Mended in {session}.").write(home)


def of_kind(store: Store, kind: Kind) -> list[Memory]:
    """Return the memories of a kind."""
    return memory_rows.select_memories(store.connection, "kind = ?", (kind,))


def forget(store: Store, session: str) -> None:
    """Forget only the exchange, as `sessions forget` does."""
    (exchange,) = [
        memory.id
        for memory in of_kind(store, Kind.EXCHANGE)
        if memory.details.session == session
    ]
    chosen = [exchange]
    assert (
        preview_erasure(store, chosen).ids
        == erase_memories(store, chosen, now=NOW, forget=True).ids
    )


def test_a_failure_met_there_alone_goes_too(
    root: Path, own_home: Path, store: Store, run: Import
) -> None:
    """Forgetting a failure's only exchange erases the failure, and no import restores either."""
    told(root, own_home, "one", "KeyError: 'umlaut'")
    assert run().failures == 1 and len(of_kind(store, Kind.FAILURE)) == 1
    forget(store, "one")
    assert of_kind(store, Kind.FAILURE) == [] and of_kind(store, Kind.EXCHANGE) == []
    store.connection.execute("DELETE FROM session_file")
    run()
    assert of_kind(store, Kind.FAILURE) == []


def test_a_failure_met_elsewhere_too_counts_less(
    root: Path, own_home: Path, store: Store, run: Import
) -> None:
    """Forgetting one of three occurrences leaves two, in the pattern too; with the last everything
    is erased."""
    for session in ("one", "two", "three"):
        told(root, own_home, session, "KeyError: 'umlaut'")
    run()
    assert [memory.details.occurrences for memory in of_kind(store, Kind.FAILURE)] == [3]
    forget(store, "two")
    (failure,), (pattern,) = of_kind(store, Kind.FAILURE), of_kind(store, Kind.PATTERN)
    assert failure.details.occurrences == 2
    assert failure.evidence_count == 2
    assert pattern.details.occurrences == 2
    forget(store, "one")
    forget(store, "three")
    assert of_kind(store, Kind.FAILURE) == of_kind(store, Kind.PATTERN) == []
    assert store.connection.execute("SELECT id FROM occurrence").fetchall() == []
