"""Fill the index of a new store from another worktree or clone, so that files with the same bytes are not parsed again.

It copies only what parsing the files here would give: memories of files, their mentions, edges and vectors; nothing
that was said, asked or judged. A file is copied if path and bytes are the same and its memories match their hashes, so
damage in the other store does not spread. The next index run parses the rest. Trade-off: rows are copied, so a second
worktree takes as much disk as the first; use counts begin at zero.
"""

import os
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from xscore.platform.errors import StoreError
from xscore.platform.files import FileRefused, read_file_under, settled_mtime_ns
from xscore.platform.hashing import content_hash, file_digest
from xscore.platform.paths import native_name
from xscore.platform.text import counted
from xscore.records.memory import FileStamp
from xscore.store import index_rows
from xscore.store.events import EventName, emit_event
from xscore.store.siblings import attached_sibling, transaction_beside

BUNDLE, HURRIED_BUNDLE = 2_000, 128
"""Files per transaction: usually, and under a deadline, which may have to wait for one transaction (about 50 ms)."""

_STAMPS = "SELECT path, size, mtime_ns, file_hash, language, excluded FROM sibling.file WHERE excluded = ''"
_TAKEN = "CREATE TEMP TABLE taken (path TEXT PRIMARY KEY, file_hash TEXT, mtime REAL) WITHOUT ROWID"
_CHANGED_MEANWHILE = """
    DELETE FROM taken WHERE NOT EXISTS (
        SELECT 1 FROM sibling.file WHERE file.path = taken.path AND file.file_hash = taken.file_hash
    ) OR path IN (SELECT path FROM main.file)
"""
_OF_TAKEN = "FROM taken CROSS JOIN main.memory AS own ON own.path = taken.path WHERE source = 'index'"
_OWN_VALUES = {"updated_at": "taken.mtime", "accessed_at": "0", "access_count": "0"}
_VECTORS = """
    INSERT INTO main.vec SELECT theirs.* FROM taken CROSS JOIN main.memory AS own ON own.path = taken.path
    CROSS JOIN sibling.vec AS theirs ON theirs.memory_id = own.id
"""
_TEXTS = f"SELECT own.path, entity, card, text, content_hash, text_hash, status {_OF_TAKEN}"


def take_over_index(
    connection: sqlite3.Connection,
    root: Path,
    stores: Sequence[Path],
    *,
    profile: str,
    max_bytes: int,
    now: float,
    until: float | None = None,
) -> list[str]:
    """Fill the index of a new store, or of one that a deadline left unfinished, from the first usable of these stores.

    profile: the indexer's `PROFILE`; stores with another profile are skipped. max_bytes: largest file to read. now:
    Unix seconds. until: when to stop, in seconds of `time.monotonic`. Returns notes for the user. A store that is
    damaged, locked by another process or gone is skipped.
    """
    for store in stores:
        count = 0
        with suppress(StoreError), attached_sibling(connection, store):  # were ours at fault, the indexer would say so
            if _their_meta(connection, index_rows.PROFILE) == profile:
                for taken in _copied_bundles(connection, root, max_bytes=max_bytes, now=now, until=until):
                    count += taken
        if count:
            return [f"copied the index of {counted(count, 'identical file')} from {store.parent.parent}"]
    return []


def _copied_bundles(
    connection: sqlite3.Connection, root: Path, *, max_bytes: int, now: float, until: float | None
) -> Iterator[int]:
    """Copy the index of files that are the same here, one bundle per transaction; yield how many each copied.

    If this is cut short, all links are resolved again; when it ends, only those that may name files that differ.
    """
    theirs = {row[0]: FileStamp(*row) for row in connection.execute(_STAMPS).fetchall()}
    ours = index_rows.file_stamps(connection)
    missing = {path: stamp for path, stamp in theirs.items() if path not in ours}
    same = _same_files(root, missing, max_bytes=max_bytes, now=now)
    copied = set[str]()
    while until is None or time.monotonic() < until:
        bundle = list(islice(same, BUNDLE if until is None else HURRIED_BUNDLE))
        with transaction_beside(connection):
            if not bundle:
                (files,) = connection.execute("SELECT count(*) FROM main.file").fetchone()
                if copied and files == len(copied):  # no other run has written here
                    _owe_precise_links(connection, theirs.keys() - copied)
                return
            taken = _copy_bundle(connection, bundle, now=now)
        copied |= taken
        yield len(taken)


def _copy_bundle(connection: sqlite3.Connection, bundle: Sequence[tuple[FileStamp, float]], *, now: float) -> set[str]:
    """Copy the rows of these files; return the paths of those that were copied and are undamaged."""
    connection.execute("DROP TABLE IF EXISTS temp.taken")
    connection.execute(_TAKEN)
    rows = [(stamp.path, stamp.file_hash, mtime) for stamp, mtime in bundle]
    connection.executemany("INSERT INTO taken VALUES (?, ?, ?)", rows)
    connection.execute(_CHANGED_MEANWHILE)
    paths = {path for (path,) in connection.execute("SELECT path FROM taken").fetchall()}
    index_rows.write_stamps(connection, [stamp for stamp, _ in bundle if stamp.path in paths])
    _copy_rows(connection, "memory", _OWN_VALUES, where="source = 'index'")
    for table in ("file_mention", "edge"):
        _copy_rows(connection, table)
    connection.execute(_VECTORS)
    for key in (index_rows.PROFILE, index_rows.GRAMMARS_MISSING):
        index_rows.write_meta(connection, key, _their_meta(connection, key))
    index_rows.owe_links(connection, index_rows.LinksDue(everything=True))
    (memories,) = connection.execute(f"SELECT count(*) {_OF_TAKEN}").fetchone()
    damaged = _files_with_damage(connection)
    index_rows.replace_files(connection, (), sorted(damaged))
    emit_event(connection, EventName.INDEXED, at=now, payload={"added": memories, "changed": 0, "removed": 0})
    return paths - damaged


def _owe_precise_links(connection: sqlite3.Connection, others: Collection[str]) -> None:
    """Queue the links that the sibling had not resolved yet, and those that may name files that differ.

    others: the paths of the sibling's files that were not copied.
    """
    due = index_rows.decode_links_due(_their_meta(connection, index_rows.LINKS_DUE))
    due.names |= index_rows.names_stated(connection, others, schema="sibling")
    index_rows.write_meta(connection, index_rows.LINKS_DUE, "")
    index_rows.owe_links(connection, due)


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
        f" FROM taken CROSS JOIN sibling.{table} AS theirs ON theirs.path = taken.path WHERE {where}"
    )


def _files_with_damage(connection: sqlite3.Connection) -> set[str]:
    """Return the files with a memory that does not match its hashes, or that is archived there."""
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
