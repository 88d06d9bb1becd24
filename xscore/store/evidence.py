"""Whether the code that memories cite is unchanged.

`refresh_evidence` checks the cited files before each turn: moved lines are followed; a memory whose
lines changed is stale, which changes what a judge is shown, until they are back. How a citation is
written is `citing`'s business. Trade-off: a file with the same size and time of change counts as
unchanged, as in git.
"""

import json
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from xscore.platform.database import transaction
from xscore.platform.files import (
    FileRefused,
    changed_ns,
    opened_folder,
    read_file_under,
    settled_ns,
)
from xscore.platform.paths import RepositoryRoot, native_name
from xscore.records.memory import Citation
from xscore.store import memory_rows
from xscore.store.cited_lines import MAX_CITED_BYTES, FileLines
from xscore.store.events import EventName, emit_event
from xscore.store.worktrees import HERE

Stamp = tuple[int, int]
"""Size and time of change of a file when its spans were last checked."""
_GONE: Stamp = (-2, -2)
_CHANGED_HERE = f"SELECT memory_id FROM evidence_state WHERE worktree = {HERE} AND changed"
_BROKEN = f"""
    SELECT id FROM memory_row WHERE version = 0 AND status = 'active' AND id IN ({_CHANGED_HERE})
    AND NOT EXISTS (SELECT 1 FROM stale_memory WHERE memory_id = id AND worktree = {HERE})
"""
_MENDED = f"""
    SELECT memory_id FROM stale_memory WHERE worktree = {HERE}
      AND memory_id NOT IN ({_CHANGED_HERE})
    AND EXISTS (SELECT 1 FROM evidence WHERE evidence.memory_id = stale_memory.memory_id)
"""
_STALE_EVERYWHERE = f"""
    SELECT id FROM memory_row WHERE layer IN {memory_rows.ALL_LAYERS} AND status = 'stale'
      AND version = 0
    AND EXISTS (SELECT 1 FROM evidence WHERE memory_id = id)
"""
"""SQL of memories written as stale before what they cite was stored; each worktree has to look
for itself."""
_UPDATE = f"""
    INSERT INTO evidence_state
        (start_line, end_line, changed, size, mtime_ns, memory_id, path, span_hash, worktree)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, {HERE})
    ON CONFLICT (memory_id, path, span_hash, worktree) DO UPDATE
      SET start_line = excluded.start_line,
        end_line = excluded.end_line, changed = excluded.changed, size = excluded.size,
          mtime_ns = excluded.mtime_ns
"""


class EvidenceRefresh(Struct, frozen=True):
    """Result of checking the cited files."""

    stale: tuple[str, ...] = ()
    """Ids of memories that just became stale."""
    active: tuple[str, ...] = ()
    """Ids of memories whose code came back."""
    files_read: int = 0


def attach_citations(
    connection: sqlite3.Connection, memory_id: str, citations: Iterable[Citation]
) -> None:
    """Replace the citations of a memory. Call it inside `database.transaction`.

    The next `refresh_evidence` verifies them and sets the memory's status.
    """
    connection.execute("DELETE FROM evidence WHERE memory_id = ?", (memory_id,))
    rows = [
        (
            memory_id,
            cited.path,
            cited.span_hash,
            cited.start_line,
            cited.end_line,
            cited.is_changed,
        )
        for cited in citations
    ]
    connection.executemany(
        "INSERT INTO evidence (memory_id, path, span_hash, start_line, end_line, changed)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        rows,
    )


def citations_of(
    connection: sqlite3.Connection, ids: Iterable[str]
) -> dict[str, tuple[Citation, ...]]:
    """Return the citations of these memories, by path and line; memories without any are
    missing."""
    citations: dict[str, tuple[Citation, ...]] = {}
    for memory, path, first, last, hash_, changed in connection.execute(
        "SELECT memory_id, path, start_line, end_line, span_hash, changed FROM evidence_here"
        f" WHERE memory_id {memory_rows.IN_JSON_LIST}"
        " ORDER BY memory_id, path, start_line, end_line",
        (json.dumps(list(ids)),),
    ).fetchall():
        citations[memory] = (
            *citations.get(memory, ()),
            Citation(path, first, last, hash_, bool(changed)),
        )
    return citations


def refresh_evidence(
    connection: sqlite3.Connection, root: RepositoryRoot, *, now: float
) -> EvidenceRefresh:
    """Check every cited file that changed; mark memories stale or active again. now: Unix seconds.

    One transaction, or none if nothing changed. A file without read permission changes nothing.
    """
    doubtful = _doubtful(connection, root)
    if doubtful:
        seen = dict(_look(root, doubtful, now=now))
    else:
        seen = {}
    updates = _changed_spans(connection, seen)
    due = (_BROKEN, _MENDED, _STALE_EVERYWHERE)
    if not updates and not any(_ids(connection, query) for query in due):
        return EvidenceRefresh(files_read=len(seen))
    # In most turns nothing that is cited has changed.
    from xscore.store.stale_marks import make_active, mark_as_stale, unmark

    with transaction(connection):
        # The spans first: the queries below read what is written of them.
        connection.executemany(_UPDATE, updates)
        was_stale = set(_ids(connection, _STALE_EVERYWHERE))
        make_active(connection, sorted(was_stale))
        broken = set(_ids(connection, _BROKEN))
        mended = set(_ids(connection, _MENDED))
        mark_as_stale(connection, broken)
        unmark(connection, mended)
        stale = tuple(sorted(broken - was_stale))
        active = tuple(sorted(mended | (was_stale - broken)))
        if stale or active:
            counts = {"stale": len(stale), "active": len(active)}
            emit_event(connection, EventName.UPDATED, at=now, payload=counts)
    return EvidenceRefresh(stale, active, len(seen))


def _changed_spans(
    connection: sqlite3.Connection, seen: "Mapping[str, tuple[FileLines | None, Stamp]]"
) -> list[tuple[object, ...]]:
    """Return the rows to write of the spans in these files that moved, changed or are back."""
    updates: list[tuple[object, ...]] = []
    for path, memory, hash_, first, last, *state in connection.execute(
        "SELECT path, memory_id, span_hash, start_line, end_line, changed, size, mtime_ns FROM"
        f" evidence_here WHERE path {memory_rows.IN_JSON_LIST}",
        (json.dumps(list(seen)),),
    ).fetchall():
        text, stamp = seen[path]
        if text is None:
            span = None
        else:
            span = text.find((first, last), hash_)
        lines = span or (first, last)  # a span that is not found keeps its last known lines
        new_state = (*lines, span is None, *stamp)
        if new_state != (first, last, *state):
            updates.append((*new_state, memory, path, hash_))
    return updates


def _doubtful(connection: sqlite3.Connection, root: RepositoryRoot) -> list[str]:
    """Return the cited files whose size or time changed since the last check; one stat per file."""
    prefix = os.fspath(root.path) + "/"
    current: dict[str, Stamp] = {}
    doubtful: dict[str, None] = {}
    for path, *stamp in connection.execute(
        "SELECT DISTINCT path, size, mtime_ns FROM evidence_here"
    ).fetchall():
        if path not in current:
            current[path] = _stamp(prefix + (path if "%" not in path else native_name(path)))
        if current[path] != tuple(stamp):
            doubtful[path] = None
    return list(doubtful)


def _stamp(name: str) -> Stamp:
    try:
        info = os.lstat(name)
    except (OSError, ValueError):
        return _GONE
    if stat.S_ISREG(info.st_mode):
        return (info.st_size, changed_ns(info))
    return _GONE


def _look(
    root: RepositoryRoot, paths: Iterable[str], *, now: float
) -> Iterator[tuple[str, tuple[FileLines | None, Stamp]]]:
    """Yield the cited files as they are now; lines are None if there is no such text file."""
    with opened_folder(root.path) as top:
        for path in paths:
            name = native_name(path)
            try:
                info = os.stat(name, dir_fd=top, follow_symlinks=False)
                text = FileLines(read_file_under(top, name, max_bytes=MAX_CITED_BYTES))
            except PermissionError:
                continue
            except (FileRefused, ValueError):
                yield path, (None, (info.st_size, settled_ns(info, now=now)))
            except OSError:
                yield path, (None, _GONE)
            else:
                yield path, (text, (info.st_size, settled_ns(info, now=now)))


def _ids(connection: sqlite3.Connection, query: str) -> list[str]:
    return [row[0] for row in connection.execute(query).fetchall()]
