"""Fill the index of a new store from another worktree or clone, so that files with the same bytes are not parsed again.

It copies the tables that parsing fills, whole, and nothing that was said, asked or judged. Then it reads every file:
one with the same bytes counts as indexed, unless a memory of it does not match its hashes, so that damage does not
spread. The index run after it parses the rest, as after an edit. Trade-off: rows are copied, so a second worktree takes
as much disk as the first.
"""

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from xscore.platform.errors import StoreError
from xscore.platform.files import FileRefused, opened_folder, read_file_under, settled_ns
from xscore.platform.hashing import content_hash, file_digest
from xscore.platform.paths import native_name
from xscore.platform.text import counted
from xscore.records.memory import FileStamp
from xscore.store import file_rows, index_rows, link_rows
from xscore.store.events import EventName, emit_event
from xscore.store.file_bodies import read_with_bodies
from xscore.store.mention_links import relink_mentions
from xscore.store.siblings import attached_sibling, transaction_beside

if TYPE_CHECKING:
    from xscore.indexer.index import IndexRun

_PARSED = {
    "file": "excluded = ''",
    "memory": "source = 'index'",
    "file_body": "true",
    "file_mention": "true",
    "mentioned_name": "true",
    "edge_end": "id NOT IN (SELECT id FROM sibling.memory WHERE source <> 'index')",
    "edge_row": "file <> 0",
    "vec": "EXISTS (SELECT 1 FROM main.memory WHERE id = memory_id AND source = 'index')",
}
"""Table -> which of its rows come from parsing."""
_STATED_EDGES = "SELECT source, target, relation, weight FROM main.edge"
_STATE_EDGE = "INSERT INTO main.edge (source, target, relation, weight) VALUES (?, ?, ?, ?)"
_UNUSED = "UPDATE main.memory SET accessed_at = 0, access_count = 0 WHERE access_count > 0 AND source = 'index'"
_META = (index_rows.PROFILE, index_rows.GRAMMARS_MISSING, index_rows.LINKS_DUE)
_STEPS = 10_000
"""Steps of SQLite's virtual machine, about a millisecond, between two looks at the clock."""


def take_over_index(run: "IndexRun", stores: Sequence[Path]) -> list[str]:
    """Fill the empty index of a run from the first usable of these stores; return notes for the user.

    A store is skipped if it is damaged, locked by another process, gone, or was filled by other rules and settings. A
    copy that takes longer than the run may is undone.
    """
    connection = run.connection
    for store in stores:
        count = 0
        with suppress(StoreError), attached_sibling(connection, store):  # were ours at fault, the indexer would say so
            if _their_meta(connection, index_rows.PROFILE) == run.profile:
                with transaction_beside(connection):
                    if not index_rows.file_stamps(connection):
                        _copy_rows(connection, now=run.now, until=run.until)
                        count = _settle_files(run)
        if count:
            return [f"copied the index of {counted(count, 'identical file')} from {store.parent.parent}"]
    return []


def _copy_rows(connection: sqlite3.Connection, *, now: float, until: float | None) -> None:
    """Copy what parsing gave. Raises StoreError when it takes too long.

    The ends of edges are numbered as there, so edges that no file states, between what was said here, are put back.
    """
    stated, copied = connection.execute(_STATED_EDGES).fetchall(), dict[str, int]()
    connection.execute("DELETE FROM main.edge_end")
    with _interrupted_at(connection, until):
        for table, rows in _PARSED.items():
            query = f"INSERT INTO main.{table} SELECT * FROM sibling.{table} WHERE {rows}"
            copied[table] = connection.execute(query).rowcount
        connection.execute(_UNUSED)
    connection.executemany(_STATE_EDGE, stated)
    relink_mentions(connection, None)
    for key in _META:
        index_rows.write_meta(connection, key, _their_meta(connection, key))
    added = asdict(index_rows.IndexChanges(added=copied["memory"]))
    emit_event(connection, EventName.INDEXED, at=now, payload=added)


def _settle_files(run: "IndexRun") -> int:
    """Stamp the files that are the same here, and remove those with damage; return how many are the same."""
    connection = run.connection
    stamps = index_rows.file_stamps(connection)
    connection.execute("UPDATE main.file SET size = -1")  # to be read, unless it is stamped now
    same = list(_same_files(run, stamps.values()))
    index_rows.write_stamps(connection, same)
    damaged = _files_with_damage(connection)
    file_rows.replace_files(connection, (), sorted(damaged))
    return len({stamp.path for stamp in same} - damaged)


def _same_files(run: "IndexRun", theirs: Iterable[FileStamp]) -> Iterator[FileStamp]:
    """Yield the stamp of each file whose bytes here are those that were indexed there, until it is too late."""
    with opened_folder(run.root.path) as top:
        for stamp in theirs:
            if run.is_late:
                return
            name = native_name(stamp.path)
            try:
                info = os.stat(name, dir_fd=top, follow_symlinks=False)
                if info.st_size != stamp.size:
                    continue
                data = read_file_under(top, name, max_bytes=run.settings.max_file_bytes)
            except (OSError, ValueError, FileRefused):
                continue
            if file_digest(data) == stamp.file_hash:
                settled = settled_ns(info, now=run.now)
                yield FileStamp(stamp.path, len(data), settled, stamp.file_hash, stamp.language)


def _files_with_damage(connection: sqlite3.Connection) -> set[str]:
    """Return the files with a memory that does not match its hashes, or that is archived there.

    Raises StoreDamaged for mentions that are missing or unreadable: a later edit would fail at them.
    """
    found = set[str]()
    link_rows.check_mentions(connection)
    rows = read_with_bodies(connection, "path, entity, content_hash, text_hash, status", "source = 'index'")
    for path, entity, content, whole, status, _, card, text in rows:
        fits = content_hash(path, entity, text) == whole
        fits = fits and (content_hash(path, entity, card) if card else whole) == content
        if not fits or status != "active":
            found.add(path)
    return found


@contextmanager
def _interrupted_at(connection: sqlite3.Connection, until: float | None) -> Iterator[None]:
    """Interrupt the statements within, and roll their transaction back, when it is too late. Raises StoreError."""
    if until is not None:
        connection.set_progress_handler(lambda: time.monotonic() >= until, _STEPS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


def _their_meta(connection: sqlite3.Connection, key: str) -> str:
    row = connection.execute("SELECT value FROM sibling.meta WHERE key = ?", (key,)).fetchone()
    return str(row[0]) if row else ""
