"""Start the index of a new store from that of another worktree or clone: files with the same bytes are not parsed.

Only what a parse of the files here would give is taken: memories of files, their mentions, edges and vectors; nothing
that was said, asked or judged. A file counts if it has the same path and bytes, and if each of its memories still fits
its hashes, so that a damaged store lends no damage. The next index run parses the rest. Trade-off: rows are copied, so
a second worktree takes as much disk as the first; use counts begin at zero.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from xscore.platform.errors import StoreError
from xscore.platform.files import FileRefused, read_file_under, settled_mtime_ns
from xscore.platform.hashing import content_hash, file_digest
from xscore.platform.paths import native_name
from xscore.records.memory import FileStamp
from xscore.store import index_rows
from xscore.store.events import EventName, emit_event
from xscore.store.siblings import attached_sibling

_STAMPS = "SELECT path, size, mtime_ns, file_hash, language, excluded FROM sibling.file WHERE excluded = ''"
_TAKEN = "CREATE TEMP TABLE taken (path TEXT PRIMARY KEY, mtime REAL NOT NULL) WITHOUT ROWID"
_OWN_VALUES = {"updated_at": "taken.mtime", "accessed_at": "0", "access_count": "0"}
_VECTORS = """
    INSERT INTO main.vec SELECT theirs.* FROM sibling.vec AS theirs CROSS JOIN main.memory ON id = memory_id
"""
_TEXTS = "SELECT path, entity, card, text, content_hash, text_hash, status FROM main.memory"


def take_over_index(
    connection: sqlite3.Connection,
    root: Path,
    stores: Sequence[Path],
    *,
    profile: str,
    max_bytes: int,
    now: float,
) -> list[str]:
    """Fill the index of a new store from the first of these stores that has one, and return a note of it.

    profile: what the indexer writes as `PROFILE`; a store with another is left alone. max_bytes: of a file. A store
    that is damaged, held by another process or gone is passed over. Raises StoreError if our own cannot be written.
    """
    for store in stores:
        count = 0
        try:
            with attached_sibling(connection, store):
                if (
                    not index_rows.read_meta(connection, index_rows.PROFILE)
                    and _their_meta(connection, index_rows.PROFILE) == profile
                ):
                    count = _copy_index(connection, root, max_bytes=max_bytes, now=now)
        except StoreError:  # ours was rolled back; if ours is at fault, the indexer meets it next
            continue
        if count:
            return [f"{count:,} files are as in {store.parent.parent}: their index was taken over from there"]
    return []


def _copy_index(connection: sqlite3.Connection, root: Path, *, max_bytes: int, now: float) -> int:
    """Copy the rows of the files that are the same here; return how many files."""
    theirs = {row[0]: FileStamp(*row) for row in connection.execute(_STAMPS).fetchall()}
    same = list(_same_files(root, theirs, max_bytes=max_bytes, now=now))
    if not same:
        return 0
    connection.execute("DROP TABLE IF EXISTS temp.taken")
    connection.execute(_TAKEN)
    connection.executemany("INSERT INTO taken VALUES (?, ?)", [(stamp.path, mtime) for stamp, mtime in same])
    index_rows.write_stamps(connection, [stamp for stamp, _ in same])
    _copy_rows(connection, "memory", _OWN_VALUES, where="source = 'index'")
    for table in ("mention", "edge"):
        _copy_rows(connection, table)
    connection.execute(_VECTORS)
    for key in (index_rows.PROFILE, index_rows.GRAMMARS_MISSING):
        index_rows.write_meta(connection, key, _their_meta(connection, key))
    index_rows.owe_links(
        connection,
        index_rows.decode_links_due(_their_meta(connection, index_rows.LINKS_DUE)),
        names=index_rows.names_stated(connection, theirs.keys() - {stamp.path for stamp, _ in same}, schema="sibling"),
    )
    damaged = _files_with_damage(connection)
    index_rows.replace_files(connection, (), sorted(damaged))
    (memories,) = connection.execute("SELECT count(*) FROM main.memory").fetchone()
    emit_event(connection, EventName.INDEXED, at=now, payload={"added": memories, "changed": 0, "removed": 0})
    connection.execute("DROP TABLE temp.taken")
    return len(same) - len(damaged)


def _same_files(
    root: Path, theirs: Mapping[str, FileStamp], *, max_bytes: int, now: float
) -> Iterator[tuple[FileStamp, float]]:
    """Yield the stamp and the mtime (Unix seconds) of each file whose bytes here are those that were indexed there."""
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for path, stamp in theirs.items():
            name = native_name(path)
            try:
                info = os.stat(name, dir_fd=top, follow_symlinks=False)
                if info.st_size != stamp.size or ".." in name.split("/"):
                    continue
                data = read_file_under(top, name, max_bytes=max_bytes)
            except (OSError, ValueError, FileRefused):
                continue
            if file_digest(data) == stamp.file_hash:
                settled = settled_mtime_ns(info, now=now)
                yield FileStamp(path, len(data), settled, stamp.file_hash, stamp.language), info.st_mtime_ns / 1e9
    finally:
        os.close(top)


def _copy_rows(connection: sqlite3.Connection, table: str, own: Mapping[str, str] = {}, *, where: str = "true") -> None:
    """Copy the rows of the taken files. own: expressions of the columns that are not copied."""
    columns = [row[1] for row in connection.execute(f"PRAGMA main.table_info({table})")]
    values = ", ".join(own.get(column, f"theirs.{column}") for column in columns)
    connection.execute(
        f"INSERT INTO main.{table} ({', '.join(columns)}) SELECT {values}"
        f" FROM sibling.{table} AS theirs CROSS JOIN taken ON taken.path = theirs.path WHERE {where}"
    )


def _files_with_damage(connection: sqlite3.Connection) -> set[str]:
    """Return the files with a memory that does not fit its hashes, or that was archived there."""
    found = set[str]()
    for path, entity, card, text, content, whole, status in connection.execute(_TEXTS).fetchall():
        fits = content_hash(path, entity, text) == whole
        fits = fits and (content_hash(path, entity, card) if card else whole) == content
        if not fits or status != "active":
            found.add(path)
    return found


def _their_meta(connection: sqlite3.Connection, key: str) -> str:
    row = connection.execute("SELECT value FROM sibling.meta WHERE key = ?", (key,)).fetchone()
    return str(row[0]) if row else ""
