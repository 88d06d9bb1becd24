"""Cited code: how a change affects a memory."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.cited_decisions import CODE, NOW, decide, lines, refresh, write
from xscore.extensions.recovery.salvage import salvage_store
from xscore.records.memory import MemoryStatus
from xscore.store import memory_rows, memory_views, memory_writer
from xscore.store.evidence import EvidenceRefresh, refresh_evidence
from xscore.store.opening import connect_store
from xscore.store.store import Store


def test_a_changed_span_makes_the_memory_stale_and_its_return_mends_it(store: Store) -> None:
    """A stale memory is another content to a judge; undone, it is exactly the previous memory."""
    file = write(store)
    memory = decide(store, "a.py:4-5")
    assert refresh(store) == EvidenceRefresh(files_read=1)
    file.write_text(CODE.replace("n + 1", "n + 2"))
    assert refresh(store).stale == (memory.id,)
    stale = store.memories([memory.id])[memory.id]
    assert stale.status == MemoryStatus.STALE
    assert stale.content_hash != memory.content_hash
    assert store.texts(store.pool())[memory.id].startswith(memory_views.STALE_MARK)
    assert memory_rows.stale_memory_ids(store.connection) == {memory.id}
    file.write_text(CODE)
    assert refresh(store).active == (memory.id,)
    assert store.memories([memory.id])[memory.id] == memory
    assert store.connection.execute("SELECT thread FROM memory").fetchone() == ("s_1",)


def test_a_span_that_moved_is_followed(store: Store) -> None:
    """Lines added above a span only change its line numbers."""
    file = write(store)
    memory = decide(store, "a.py:4-5")
    file.write_text("# a\n# b\n" + CODE)
    assert refresh(store) == EvidenceRefresh(files_read=1)
    assert lines(store, memory) == [(6, 7, False)]


def test_nothing_is_written_when_nothing_changed(store: Store) -> None:
    """The second check opens no file and no transaction."""
    write(store)
    decide(store, "a.py:4-5", "a.py")
    assert refresh(store).files_read == 1
    before = store.connection.total_changes
    assert refresh(store) == EvidenceRefresh()
    assert store.connection.total_changes == before


def test_a_file_written_a_moment_ago_is_not_believed_by_its_time(store: Store) -> None:
    """Two writes within the clock's resolution can look alike, so such a file is read again, and
    its stamp is not stored.
    """
    file = write(store, "one\n")
    memory = decide(store, "a.py:1")
    info = file.stat()
    now = info.st_mtime
    refresh(store, now)
    before = store.connection.total_changes
    assert refresh(store, now).files_read == 1
    assert store.connection.total_changes == before
    file.write_text("two\n")
    os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert refresh(store, now).stale == (memory.id,)


def put_there(how: str, file: Path, away: Path) -> None:
    """Replace a file by something else."""
    match how:
        case "folder":
            file.mkdir()
        case "link":
            file.symlink_to(away)
        case "pipe":
            os.mkfifo(file)
        case "binary":
            file.write_bytes(b"\0" * 40)


@pytest.mark.parametrize(
    "how", ["deleted", "renamed", "folder", "link", "pipe", "binary", "behind a link"]
)
def test_a_file_that_is_no_more_breaks_its_citations(store: Store, how: str) -> None:
    """Deleted, renamed or replaced: the code counts as missing until it is back."""
    file = write(store, name="src/a.py")
    memory = decide(store, "src/a.py:4-5")
    refresh(store)
    away = store.root.path / "away.py"
    if how == "behind a link":
        file.parent.rename(store.root.path / "elsewhere")
        file.parent.symlink_to("elsewhere")
        os.utime(file, ns=(1, 1))
    else:
        file.rename(away)
        put_there(how, file, away)
    assert refresh(store).stale == (memory.id,)
    before = store.connection.total_changes
    refresh(store)
    assert store.connection.total_changes == before
    if how == "deleted":
        away.rename(file)
        assert refresh(store).active == (memory.id,)


def test_a_file_that_may_not_be_read_proves_nothing(store: Store) -> None:
    """Without permission to read, a memory stays unchanged."""
    file = write(store)
    decide(store, "a.py:4-5")
    refresh(store)
    file.write_text("other\n")
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("this user may read everything")
    assert refresh(store) == EvidenceRefresh()


def test_all_citations_must_hold(store: Store) -> None:
    """A memory with two spans is stale while one of them is broken."""
    first_file, second_file = write(store), write(store, "x = 1\n", "b.py")
    memory = decide(store, "a.py:4-5", "b.py")
    first_file.write_text("gone\n")
    second_file.write_text("gone\n")
    assert refresh(store).stale == (memory.id,)
    second_file.write_text("x = 1\n")
    assert refresh(store).active == ()
    first_file.write_text(CODE)
    assert refresh(store).active == (memory.id,)


def test_a_stale_memory_steps_back_for_a_newer_one(store: Store) -> None:
    """L07: a stale decision whose key is decided again is superseded, and does not replace the
    newer one later."""
    file = write(store)
    old = decide(store, "a.py:4-5", key="retry")
    file.write_text("gone\n")
    refresh(store)
    new = decide(store, title="Retry thrice", key="retry", at=20.0)
    file.write_text(CODE)
    assert refresh(store).active == ()
    memories = store.memories([old.id, new.id])
    assert memories[old.id].status == MemoryStatus.SUPERSEDED
    assert memories[old.id].superseded_by == new.id
    assert (
        memory_writer.with_status(memories[old.id], MemoryStatus.SUPERSEDED) == memories[old.id]
    )
    assert memories[new.id].status is MemoryStatus.ACTIVE


def test_citations_and_links_are_salvaged(store: Store, tmp_path: Path) -> None:
    """A stale memory of a damaged store can recover in the rebuilt one, and is linked to what it
    names."""
    file = write(store)
    memory = decide(store, "a.py:4-5", title="Retry in a.py")
    file.write_text("gone\n")
    refresh(store)
    with closing(connect_store(tmp_path / "new" / "memory.db")) as target:
        assert salvage_store(store.path, target).kept["citations"] == 1
        named = target.execute(
            "SELECT name FROM mention WHERE source = ?", (memory.id,)
        ).fetchall()
        assert named == [("a.py",)]
        assert refresh_evidence(target, store.root, now=NOW).stale == (memory.id,)
        file.write_text(CODE)
        assert refresh_evidence(target, store.root, now=NOW).active == (memory.id,)
