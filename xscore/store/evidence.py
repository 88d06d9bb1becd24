"""Code that a memory cites: `path:10-40`, `path:10`, `path` or `path::entity`, and whether it is
unchanged.

A citation keeps the hash of its lines, never the lines; line endings, trailing whitespace and a
byte order mark do not count. `refresh_evidence` checks the cited files before each turn: moved
lines are followed; a memory whose lines changed is stale, which changes what a judge is shown,
until they are back. Trade-offs: reformatted code counts as changed; a file with the same size and
time of change counts as unchanged, as in git.
"""

import json
import os
import re
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from msgspec import Struct

from xscore.platform.database import transaction
from xscore.platform.errors import UsageError
from xscore.platform.files import (
    FileRefused,
    changed_ns,
    leads_out,
    opened_folder,
    read_file_under,
    settled_ns,
)
from xscore.platform.hashing import file_digest
from xscore.platform.paths import STORE_DIR, RepositoryRoot, native_name, portable_name
from xscore.records.memory import Citation, MemoryStatus
from xscore.store import memory_rows
from xscore.store.events import EventName, emit_event
from xscore.store.memory_queries import entity_spans
from xscore.store.redaction import is_safe_name, is_secret_file, redact
from xscore.store.worktrees import HERE

MAX_CITED_BYTES = 10_000_000
"""Larger files are not read for a citation."""
_FIRST = 8
"""Hex characters of the hash that cover only the first line."""
_UTF8_MARK, _UTF16_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
_HEAD_BYTES = 8_192
_LINES = r"(?P<path>.+):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?"
_FORMS_HINT = "Cite as path, path:LINE, path:FIRST-LAST or path::entity."
_LINES_HINT = "Lines count from 1; both ends are included."
_REFUSED = {
    "too_large": f"is larger than {MAX_CITED_BYTES // 1_000_000} MB",
    "not_a_file": "is not a regular file",
    "FileNotFoundError": "is not there",
    "PermissionError": "may not be read",
    "ValueError": "is not text",
}
"""Why a file cannot be cited, by the message or the type of the error."""
_SHOWN = 5

LineSpan = tuple[int, int]
"""First and last line, 1-based, inclusive; (0, 0): the whole file."""
WHOLE_FILE: LineSpan = (0, 0)


class FileLines:
    """A file's lines, numbered as in editors and the index."""

    def __init__(self, data: bytes) -> None:
        """Split a file's bytes; a binary file is one line. Raises ValueError for broken UTF-16."""
        self.lines: list[bytes] = _split_lines(data)
        self._starts: dict[str, list[int]] = {}

    def hash(self, span: LineSpan) -> str:
        """Hash the lines of a span: 8 characters for the first line, to find it again, and 24 for
        all lines."""
        if span == WHOLE_FILE:
            chosen = self.lines
        else:
            chosen = self.lines[span[0] - 1 : span[1]]
        of_first = _first_line_hash(chosen[0] if chosen else b"")
        return of_first + file_digest(b"\n".join(chosen))[_FIRST:]

    def find(self, span: LineSpan, span_hash: str) -> LineSpan | None:
        """Return where the span is now: the old place, else the only other place with the same
        lines.

        None: it is gone, changed, or in several places, none of them the old one.
        """
        if self._holds(span, span_hash):
            return span
        if span == WHOLE_FILE:
            return None
        if not self._starts:
            for number, line in enumerate(self.lines, 1):
                self._starts.setdefault(_first_line_hash(line), []).append(number)
        matching: list[LineSpan] = []
        for start in self._starts.get(span_hash[:_FIRST], ()):
            place = (start, start + span[1] - span[0])
            if self._holds(place, span_hash):
                matching.append(place)
        if len(matching) == 1:
            return matching[0]
        return None

    def _holds(self, span: LineSpan, span_hash: str) -> bool:
        return span[1] <= len(self.lines) and self.hash(span) == span_hash


def _split_lines(data: bytes) -> list[bytes]:
    if data.startswith(_UTF16_MARKS):
        data = data.decode("utf-16").encode("utf-8")
    elif b"\0" in data[:_HEAD_BYTES]:
        # An image has no lines: it is cited as a whole.
        return [data]
    data = data.removeprefix(_UTF8_MARK).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = [line.rstrip(b" \t") for line in data.split(b"\n")]
    if lines[-1] == b"":
        lines.pop()
    return lines


def _first_line_hash(line: bytes) -> str:
    return file_digest(line)[:_FIRST]


def parse_citation(
    root: RepositoryRoot,
    cited: str,
    *,
    connection: sqlite3.Connection | None = None,
    base: Path | None = None,
) -> Citation:
    """Parse a citation and hash its lines as they are now.

    connection: of the store that knows the entities; None: entities cannot be cited.
    base: a folder inside the root where a relative path is looked up first.
    Raises UsageError.
    """
    place = cited
    span = WHOLE_FILE
    entity = ""
    name = _name_inside(root, cited, base)
    if not (name and os.path.lexists(root.path / name)):
        if lines := re.fullmatch(_LINES, cited):
            place = lines["path"]
            first = int(lines["first"])
            span = (first, int(lines["last"] or first))
            if span == WHOLE_FILE:
                raise UsageError(f"{cited} names no line", hint=_LINES_HINT)
        elif re.fullmatch(".+::.+", cited):
            place, _, entity = cited.partition("::")
    path = _checked_path(root, place, base)
    data, text = _read(root, path)
    if entity:
        span = _entity_span(connection, path, entity, file_digest(data))
    if span != WHOLE_FILE and not 1 <= span[0] <= span[1] <= len(text.lines):
        raise UsageError(
            f"{path} has no lines {span[0]}-{span[1]}: it has {len(text.lines)}", hint=_LINES_HINT
        )
    return Citation(path, *span, text.hash(span))


def _entity_span(
    connection: sqlite3.Connection | None, path: str, entity: str, file_hash: str
) -> LineSpan:
    if connection is None:
        raise UsageError(
            f"{path}::{entity} cannot be looked up without a store",
            hint="Name its lines: path:10-40.",
        )
    indexed = connection.execute(
        "SELECT file_hash FROM file WHERE path = ? AND excluded = ''", (path,)
    ).fetchone()
    if indexed != (file_hash,):
        raise UsageError(
            f"{path} is not in the index as it stands now",
            hint="Run `xscore index`, or name the lines: path:10-40.",
        )
    spans = entity_spans(connection, path)
    places = [(span.start_line, span.end_line) for span in spans if span.entity == entity]
    if len(places) == 1:
        return places[0]
    names = dict.fromkeys(span.entity for span in spans[:_SHOWN])
    hint = f"Some of that file: {', '.join(names)}."
    if places:
        hint = (
            "Name its lines:"
            f" {', '.join(f'{path}:{first}-{last}' for first, last in places[:_SHOWN])}."
        )
    raise UsageError(f"{path}::{entity} names {len(places) or 'no'} entities", hint=hint)


def _checked_path(root: RepositoryRoot, place: str, base: Path | None) -> str:
    """Return the path as the index writes it, or refuse a file that may not be cited."""
    name = _name_inside(root, place, base)
    if not name:
        raise UsageError(
            f"{redact(place).text} is not inside {root.path}", hint="Cite a file of the repository."
        )
    path = portable_name(name)
    if path.partition("/")[0] == STORE_DIR or leads_out(path):
        raise UsageError(
            f"{path} is not a source file of the repository", hint="Cite a file that people write."
        )
    if is_secret_file(path) or not is_safe_name(path):
        raise UsageError(
            f"{redact(path).text} is a file of secrets", hint="Cite the code that uses it."
        )
    return path


def _name_inside(root: RepositoryRoot, place: str, base: Path | None) -> str:
    """Resolve a path, plain or escaped, against base and root: the first that exists, else the last
    inside."""
    name = ""
    folders = [folder for folder in (base, root.path) if folder is not None]
    for form in dict.fromkeys(() if "\0" in place else (place, native_name(place))):
        for folder in folders:
            name = _inside(os.path.normpath(folder / form), root) or name
            if name and os.path.lexists(root.path / name):
                return name
    return name


def _inside(name: str, root: RepositoryRoot) -> str:
    path = Path(name)
    for candidate in (path, path.parent.resolve() / path.name):
        relative = os.path.relpath(candidate, root.path)
        if relative != "." and relative.partition("/")[0] != "..":
            return relative
    return ""


def _read(root: RepositoryRoot, path: str) -> tuple[bytes, FileLines]:
    with opened_folder(root.path) as top:
        try:
            data = read_file_under(top, native_name(path), max_bytes=MAX_CITED_BYTES)
            return data, FileLines(data)
        except (FileRefused, OSError, ValueError) as error:
            reason = _REFUSED.get(str(error)) or _REFUSED.get(
                type(error).__name__, "is a link, or lies behind one"
            )
            raise UsageError(f"{path} cannot be cited: it {reason}", hint=_FORMS_HINT) from error


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
"""Written as stale before what they cite was stored; each worktree has to look for itself."""
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
    """Memories that became stale just now, by id."""
    active: tuple[str, ...] = ()
    """Memories whose code came back, by id."""
    files_read: int = 0


def attach_citations(
    connection: sqlite3.Connection, memory_id: str, citations: Iterable[Citation]
) -> None:
    """Replace the citations of a memory. Call it inside `database.transaction`.

    The next `refresh_evidence` verifies them and sets the memory's status.
    """
    connection.execute("DELETE FROM evidence WHERE memory_id = ?", (memory_id,))
    rows = [
        (memory_id, cited.path, cited.span_hash, cited.start_line, cited.end_line, cited.is_changed)
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
    with transaction(connection):
        # The spans first: the queries below read what is written of them.
        connection.executemany(_UPDATE, updates)
        was_stale = set(_ids(connection, _STALE_EVERYWHERE))
        _make_active(connection, sorted(was_stale))
        broken = set(_ids(connection, _BROKEN))
        mended = set(_ids(connection, _MENDED))
        _note_stale(connection, broken)
        connection.executemany(_MEND, [(id_,) for id_ in sorted(mended)])
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


_MEND = f"DELETE FROM stale_memory WHERE memory_id = ? AND worktree = {HERE}"


def _note_stale(connection: sqlite3.Connection, ids: Iterable[str]) -> None:
    """Note these memories as they are when the code that they cite has changed."""
    # In most turns nothing that is cited has changed.
    from xscore.store.memory_writer import note_stale, with_status

    memories = memory_rows.memories_with_ids(connection, sorted(ids))
    note_stale(connection, [with_status(memory, MemoryStatus.STALE) for memory in memories])


def _make_active(connection: sqlite3.Connection, ids: Sequence[str]) -> None:
    """Rewrite memories as active, the latest last: of two with one key, the latest survives."""
    if not ids:
        return
    # In most turns nothing that is cited has changed.
    from xscore.store.memory_writer import put_memories, with_status

    threads = (
        f"SELECT id, thread FROM memory_row WHERE version = 0 AND id {memory_rows.IN_JSON_LIST}"
    )
    thread_of = dict(connection.execute(threads, (json.dumps(ids),)).fetchall())
    memories = memory_rows.memories_with_ids(connection, ids)
    for memory in sorted(memories, key=attrgetter("updated_at", "id")):
        active = with_status(memory, MemoryStatus.ACTIVE)
        put_memories(connection, [active], thread=thread_of[memory.id])
