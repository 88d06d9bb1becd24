"""Code that a memory cites, and whether it still stands there.

A citation keeps the hash of its lines (`memory.spans`), never the lines. `refresh` looks at the cited files before each
turn: lines that only moved are followed; a memory whose lines were changed or are gone becomes stale, which changes
what a judge is shown of it, and so its identity; when the lines come back it is the old memory again, with its old
judgments. Only a repository's store has citations: the user's own memories stand for no repository. Trade-off: a file
is believed by size and time, as git does, so a change that keeps both is not seen.
"""

import json
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from xscore.platform.database import transaction
from xscore.platform.files import FileRefused, read_file_under, settled_mtime_ns
from xscore.platform.paths import RepositoryRoot, native_name
from xscore.records import Citation, MemoryStatus
from xscore.store import citations as spans
from xscore.store import memory_rows, memory_writer
from xscore.store.events import EventName, emit_event

Stamp = tuple[int, int]
"""Size and time of a file when its spans were last looked at."""
_NEVER: Stamp = (-1, -1)
_GONE: Stamp = (-2, -2)
_LAYERS = "('session', 'project', 'user', 'vector', 'graph', 'governance')"
"""All of them, so that the index by layer and status serves."""
_BROKEN = "SELECT id FROM memory WHERE status = 'active' AND id IN (SELECT memory_id FROM evidence WHERE changed)"
_MENDED = f"""
    SELECT id FROM memory WHERE layer IN {_LAYERS} AND status = 'stale'
    AND EXISTS (SELECT 1 FROM evidence WHERE memory_id = id)
    AND NOT EXISTS (SELECT 1 FROM evidence WHERE memory_id = id AND changed)
"""
_UPDATE = """
    UPDATE evidence SET start_line = ?, end_line = ?, changed = ?, size = ?, mtime_ns = ?
    WHERE memory_id = ? AND path = ? AND span_hash = ?
"""


class EvidenceRefresh(Struct, frozen=True):
    """What a look at the cited files came to."""

    stale: tuple[str, ...] = ()
    """Memories that became stale just now, by id."""
    active: tuple[str, ...] = ()
    """Memories whose code came back, by id."""
    moved: int = 0
    """Spans whose lines were updated."""
    files_read: int = 0


class _Row(Struct, frozen=True):
    memory: str
    path: str
    hash: str
    lines: spans.LineSpan
    changed: bool
    stamp: Stamp


class _Seen(Struct, frozen=True):
    """A cited file as it is now."""

    text: spans.FileLines | None
    """None: there is no such text."""
    stamp: Stamp


def attach_citations(connection: sqlite3.Connection, memory_id: str, citations: Iterable[Citation]) -> None:
    """Make these what the memory cites, in the place of all that it cited. Call it inside `database.transaction`.

    The next `refresh` verifies them, and sets the state of the memory by them.
    """
    connection.execute("DELETE FROM evidence WHERE memory_id = ?", (memory_id,))
    connection.executemany(
        "INSERT INTO evidence (memory_id, path, span_hash, start_line, end_line, changed) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        ((memory_id, one.path, one.span_hash, one.start_line, one.end_line, one.is_changed) for one in citations),
    )


def citations_of(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, tuple[Citation, ...]]:
    """Return what each of these memories cites, by path and line; memories without citations are missing."""
    found: dict[str, tuple[Citation, ...]] = {}
    for memory, path, first, last, hash_, changed in connection.execute(
        "SELECT memory_id, path, start_line, end_line, span_hash, changed FROM evidence"
        f" WHERE memory_id {memory_rows.IN_JSON_LIST}"
        " ORDER BY memory_id, path, start_line, end_line",
        (json.dumps(list(ids)),),
    ).fetchall():
        found[memory] = (*found.get(memory, ()), Citation(path, first, last, hash_, bool(changed)))
    return found


def stale_memory_ids(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the memories that are stale just now."""
    found = connection.execute(f"SELECT id FROM memory WHERE layer IN {_LAYERS} AND status = 'stale'")
    return frozenset(row[0] for row in found.fetchall())


def refresh_evidence(connection: sqlite3.Connection, root: RepositoryRoot, *, now: float) -> EvidenceRefresh:
    """Look at every cited file that is not as it was, and mark memories stale or active again. now: Unix seconds.

    One transaction, and none where nothing changed. A file that may not be read proves nothing and changes nothing.
    """
    doubtful = _doubtful(connection, root)
    seen = dict(_look(root, doubtful, now=now)) if doubtful else {}
    updates = [_found_again(row, seen[row.path]) for row in _rows(connection, seen)]
    updates = [(old, new) for old, new in updates if old != new]
    if not (updates or _ids(connection, _BROKEN) or _ids(connection, _MENDED)):
        return EvidenceRefresh(files_read=len(seen))
    with transaction(connection):
        connection.executemany(
            _UPDATE, [(*new.lines, new.changed, *new.stamp, new.memory, new.path, new.hash) for _, new in updates]
        )
        stale = _restate(connection, _ids(connection, _BROKEN), MemoryStatus.STALE)
        active = _restate(connection, _ids(connection, _MENDED), MemoryStatus.ACTIVE)
        if stale or active:
            emit_event(connection, EventName.UPDATED, at=now, payload={"stale": len(stale), "active": len(active)})
    return EvidenceRefresh(stale, active, sum(old.lines != new.lines for old, new in updates), len(seen))


def _doubtful(connection: sqlite3.Connection, root: RepositoryRoot) -> list[str]:
    """Cited files whose stamp is not the one that their spans were looked at under; one stat a file."""
    prefix = os.fspath(root.path) + "/"
    current: dict[str, Stamp] = {}
    found: dict[str, None] = {}
    for path, *stamp in connection.execute("SELECT DISTINCT path, size, mtime_ns FROM evidence").fetchall():
        if path not in current:
            current[path] = _stamp(prefix + (path if "%" not in path else native_name(path)))
        if current[path] != tuple(stamp):
            found[path] = None
    return list(found)


def _stamp(name: str) -> Stamp:
    try:
        info = os.lstat(name)
    except (OSError, ValueError):
        return _GONE
    return (info.st_size, info.st_mtime_ns) if stat.S_ISREG(info.st_mode) else _GONE


def _look(root: RepositoryRoot, paths: Iterable[str], *, now: float) -> Iterator[tuple[str, _Seen]]:
    top = os.open(root.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for path in paths:
            name = native_name(path)
            try:
                info = os.stat(name, dir_fd=top, follow_symlinks=False)
                text = spans.FileLines(read_file_under(top, name, max_bytes=spans.MAX_CITED_BYTES))
            except PermissionError:
                continue
            except (FileRefused, ValueError):
                yield path, _Seen(None, (info.st_size, settled_mtime_ns(info, now=now)))
            except OSError:
                yield path, _Seen(None, _GONE)
            else:
                yield path, _Seen(text, (info.st_size, settled_mtime_ns(info, now=now)))
    finally:
        os.close(top)


def _rows(connection: sqlite3.Connection, paths: Iterable[str]) -> list[_Row]:
    columns = "memory_id, path, span_hash, start_line, end_line, changed, size, mtime_ns"
    query = f"SELECT {columns} FROM evidence WHERE path {memory_rows.IN_JSON_LIST}"
    found = connection.execute(query, (json.dumps(list(paths)),))
    return [
        _Row(memory, path, hash_, (first, last), bool(changed), (size, mtime))
        for memory, path, hash_, first, last, changed, size, mtime in found.fetchall()
    ]


def _found_again(row: _Row, seen: _Seen) -> tuple[_Row, _Row]:
    """A row as it was and as it is to be; a span that is not found keeps the lines where it last stood."""
    there = None if seen.text is None else seen.text.find(row.lines, row.hash)
    return row, _Row(row.memory, row.path, row.hash, there or row.lines, there is None, seen.stamp)


def _ids(connection: sqlite3.Connection, query: str) -> list[str]:
    return [row[0] for row in connection.execute(query).fetchall()]


def _restate(connection: sqlite3.Connection, ids: Sequence[str], status: MemoryStatus) -> tuple[str, ...]:
    """Write memories anew in another state, the latest last: of two with one key that is the one to stay."""
    if not ids:
        return ()
    asked = json.dumps(ids)
    threads = dict(
        connection.execute(f"SELECT id, thread FROM memory WHERE id {memory_rows.IN_JSON_LIST}", (asked,)).fetchall()
    )
    for memory in sorted(
        memory_rows.select_memories(connection, f"id {memory_rows.IN_JSON_LIST}", (asked,)),
        key=lambda one: (one.updated_at, one.id),
    ):
        memory_writer.put_memories(connection, [memory_writer.with_status(memory, status)], thread=threads[memory.id])
    return tuple(sorted(ids))
