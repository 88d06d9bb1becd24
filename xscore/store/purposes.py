"""What a model wrote that files, classes and folders are for, table `purpose`: one line each.

A row is found by what it was written about: the hash of a file, of a class's text, of a folder's
name and the names of its files. So an unchanged file is paid for once in all worktrees, and a
changed one has no purpose to show until it is asked for again. Words are ranked by the latest of a
path as well (`scorer.purpose_field`), and a model as the judge is shown it where `judge.purposes`
says so: an edit of one function leaves what is judged of the others as it was.
Trade-off: a file with one changed line counts as changed.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from xscore.platform.clock import DAY_S
from xscore.platform.hashing import described_hash, digest
from xscore.platform.paths import folder_of
from xscore.platform.text import ellipsize
from xscore.records.candidates import Candidate
from xscore.records.memory import Memory
from xscore.store.line_search import LineMatcher
from xscore.store.memory_rows import IN_JSON_LIST

_SAVE = """
    INSERT INTO purpose (kind, content, path, line, writer, at) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (kind, content) DO UPDATE SET path = excluded.path, line = excluded.line,
        writer = excluded.writer, at = excluded.at
"""
_OF_FILES = f"""
    SELECT file.path, line FROM file JOIN purpose ON kind = 'file' AND content = file_hash
    WHERE line <> '' AND excluded = '' AND file.path {IN_JSON_LIST}
"""
_CLASSES = """
    SELECT memory.id, memory.path, memory.entity, memory_view.hash FROM memory
    JOIN memory_view ON memory_view.memory = memory.number AND view = 'whole'
        AND memory_view.worktree = 0
    WHERE memory.kind = 'class' AND memory.source = 'index'
"""
_OUTDATED = """
    DELETE FROM purpose WHERE at < ?
      AND content NOT IN (SELECT file_hash FROM file_row)
      AND content NOT IN (SELECT hash FROM memory_view)
      AND content NOT IN (SELECT value FROM json_each(?))
      AND NOT (kind = 'file' AND (path, at) IN (
        SELECT path, max(at) FROM purpose WHERE kind = 'file' GROUP BY path
      ))
"""
"""SQL of purposes whose contents no longer exist. The latest of a file stays: words still rank
by it."""
OUTDATED_AFTER_S = 90 * DAY_S
"""How long a purpose is kept after that: a branch that is checked out again within this time is
not paid for again."""
LINE_CHARS = 200
"""Longest purpose."""
_JUDGED_WITH = """
    SELECT DISTINCT hash, line FROM purpose
    JOIN memory_row ON memory_row.path = purpose.path AND version <> 0
    JOIN memory_view ON memory = number
    WHERE purpose.kind = 'file' AND line <> ''
"""
_EXCLUDED = """
    DELETE FROM purpose WHERE path IN (SELECT path FROM file_row WHERE excluded <> '')
      AND path NOT IN (SELECT path FROM file_row WHERE excluded = '')
"""


class PurposeKind(StrEnum):
    """What a purpose is of."""

    FILE = "file"
    CLASS = "class"
    FOLDER = "folder"


class PurposeKey(Struct, frozen=True):
    """What a purpose is written about."""

    kind: PurposeKind
    content: str


class Purpose(Struct, frozen=True, kw_only=True):
    """One row."""

    key: PurposeKey
    path: str
    line: str
    """The purpose; empty if the source did not support what the model wrote."""
    writer: str
    """The model that wrote it, `provider:model`."""


class IndexedClass(Struct, frozen=True):
    """A class of the index."""

    id: str
    path: str
    entity: str
    key: PurposeKey


def save_purposes(
    connection: sqlite3.Connection, purposes: Iterable[Purpose], *, now: float
) -> None:
    """Keep what was written, in an open transaction."""
    rows: list[tuple[object, ...]] = []
    for purpose in purposes:
        key = purpose.key
        rows.append((key.kind, key.content, purpose.path, purpose.line, purpose.writer, now))
    connection.executemany(_SAVE, rows)


def written_keys(connection: sqlite3.Connection) -> frozenset[PurposeKey]:
    """Return what was written about, empty lines included."""
    rows = connection.execute("SELECT kind, content FROM purpose").fetchall()
    return frozenset([PurposeKey(PurposeKind(kind), content) for kind, content in rows])


def has_purposes(connection: sqlite3.Connection) -> bool:
    """Whether anything was ever written: most stores have nothing."""
    return connection.execute("SELECT 1 FROM purpose LIMIT 1").fetchone() is not None


def file_purposes(connection: sqlite3.Connection, paths: Iterable[str]) -> dict[str, str]:
    """Return the purposes of these files that have one, by path."""
    if not has_purposes(connection):
        return {}
    rows = connection.execute(_OF_FILES, (json.dumps(list(paths)),)).fetchall()
    return dict(rows)


def latest_purposes(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the latest purpose of each file, by path: of its content now, or of an earlier
    one, which says what the file is for as well as words can rank by."""
    purposes: dict[str, str] = {}
    purposes.update(
        connection.execute(
            "SELECT path, line FROM purpose WHERE kind = 'file' AND line <> '' ORDER BY at, content"
        ).fetchall()
    )
    purposes.update(
        connection.execute(
            "SELECT file.path, line FROM file JOIN purpose ON kind = 'file' AND content = file_hash"
            " WHERE line <> '' AND excluded = ''"
        ).fetchall()
    )
    return purposes


def with_purposes(
    connection: sqlite3.Connection, candidates: Sequence[Candidate]
) -> tuple[Candidate, ...]:
    """Return candidates as a judge sees them that is shown what their files are for: each with that
    line, and a content hash that covers it."""
    if not has_purposes(connection):
        return tuple(candidates)
    line_of_path: dict[str, str] = {}
    for path, line in latest_purposes(connection).items():
        line_of_path[path] = ellipsize(line, LINE_CHARS)
    described: list[Candidate] = []
    for candidate in candidates:
        # What was stated about a file, and an exchange about it, is not of the file.
        if candidate.layer.is_indexed and candidate.path in line_of_path:
            line = line_of_path[candidate.path]
            hash_ = described_hash(candidate.content_hash, line)
            described.append(candidate._replace(content_hash=hash_, purpose=line))
        else:
            described.append(candidate)
    return tuple(described)


def other_contents(
    connection: sqlite3.Connection, candidates: Iterable[Candidate]
) -> dict[str, frozenset[str]]:
    """Return the contents under which memories may have been judged before, by id: without a
    purpose, and with each that their file ever had.

    candidates: without purposes.
    """
    lines_of_path: defaultdict[str, set[str]] = defaultdict(set)
    for path, line in connection.execute(
        "SELECT path, line FROM purpose WHERE kind = 'file' AND line <> ''"
    ):
        lines_of_path[path].add(ellipsize(line, LINE_CHARS))
    contents: dict[str, frozenset[str]] = {}
    for candidate in candidates:
        lines = lines_of_path.get(candidate.path, ())
        described = {described_hash(candidate.content_hash, line) for line in lines}
        contents[candidate.id] = frozenset({candidate.content_hash, *described})
    return contents


def described_contents(connection: sqlite3.Connection) -> list[str]:
    """Return the hashes of all contents that a judge may have been shown with a purpose of their
    file, its present one or one before. No row of a memory has them."""
    if not has_purposes(connection):
        return []
    rows: Sequence[tuple[str, str]] = connection.execute(_JUDGED_WITH).fetchall()
    return [described_hash(content, ellipsize(line, LINE_CHARS)) for content, line in rows]


def class_purposes(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, str]:
    """Return the purposes of these classes that have one, by the id of the memory."""
    if not has_purposes(connection):
        return {}
    classes = _classes(connection, f" AND memory.id {IN_JSON_LIST}", json.dumps(list(ids)))
    lines = _lines_of(connection, [class_.key for class_ in classes])
    purposes: dict[str, str] = {}
    for class_ in classes:
        if class_.key in lines:
            purposes[class_.id] = lines[class_.key]
    return purposes


def purposes_to_show(
    connection: sqlite3.Connection, memories: Sequence[Memory]
) -> dict[str, tuple[str, ...]]:
    """Return the purposes of the files of these memories, and of their classes among them or
    around them, by path: the file first."""
    paths = {memory.path for memory in memories if memory.path}
    of_files = file_purposes(connection, paths)
    classes = _classes(
        connection,
        f" AND memory.path {IN_JSON_LIST} ORDER BY memory.path, memory.start_line",
        json.dumps(sorted(paths)),
    )
    of_classes = _lines_of(connection, [class_.key for class_ in classes])
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for path, line in of_files.items():
        lines[path].append(line)
    for class_ in classes:
        if class_.key in of_classes and _is_hit(class_, memories):
            lines[class_.path].append(f"{class_.entity}: {of_classes[class_.key]}")
    return {path: tuple(lines_of_path) for path, lines_of_path in lines.items()}


def _is_hit(class_: IndexedClass, memories: Sequence[Memory]) -> bool:
    """Whether a class, or a member of it, is among these memories."""
    for memory in memories:
        if memory.path == class_.path and f"{memory.entity}.".startswith(f"{class_.entity}."):
            return True
    return False


def folder_purposes(connection: sqlite3.Connection, folders: Iterable[str]) -> dict[str, str]:
    """Return the purposes of these folders that have one, by folder; the root is empty."""
    if not has_purposes(connection):
        return {}
    keys = folder_keys(connection)
    lines = _lines_of(connection, keys.values())
    purposes: dict[str, str] = {}
    for folder in folders:
        if folder in keys and keys[folder] in lines:
            purposes[folder] = lines[keys[folder]]
    return purposes


def folder_keys(connection: sqlite3.Connection) -> dict[str, PurposeKey]:
    """Return what identifies each folder with indexed files: its name and the names in it."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for (path,) in connection.execute(
        "SELECT path FROM file WHERE excluded = '' ORDER BY path"
    ):
        names[folder_of(path)].append(path)
    keys: dict[str, PurposeKey] = {}
    for folder, paths in names.items():
        keys[folder] = PurposeKey(PurposeKind.FOLDER, digest("folder", folder, *paths))
    return keys


def indexed_classes(connection: sqlite3.Connection) -> list[IndexedClass]:
    """Return all classes of the index, by path and line."""
    return _classes(connection, " ORDER BY memory.path, memory.start_line")


def sweep_purposes(connection: sqlite3.Connection, *, now: float) -> int:
    """Remove what was written about files that are kept out of the index now, and what nothing has
    any more; return how many. Within a transaction."""
    removed = connection.execute(_EXCLUDED).rowcount
    folders = [key.content for key in folder_keys(connection).values()]
    outdated = (now - OUTDATED_AFTER_S, json.dumps(folders))
    return removed + connection.execute(_OUTDATED, outdated).rowcount


def erase_purposes(connection: sqlite3.Connection, lines: LineMatcher | None = None) -> int:
    """Remove the purposes that quote one of these lines, or all; return how many.

    Within a transaction.
    """
    if lines is None:
        return connection.execute("DELETE FROM purpose").rowcount
    gone: list[tuple[str, str]] = []
    for kind, content, line in connection.execute("SELECT kind, content, line FROM purpose"):
        if line and lines.found_in(line):
            gone.append((kind, content))
    connection.executemany("DELETE FROM purpose WHERE kind = ? AND content = ?", gone)
    return len(gone)


def _classes(
    connection: sqlite3.Connection, condition: str, *parameters: str
) -> list[IndexedClass]:
    classes: list[IndexedClass] = []
    for id_, path, entity, hash_ in connection.execute(_CLASSES + condition, parameters):
        classes.append(IndexedClass(id_, path, entity, PurposeKey(PurposeKind.CLASS, hash_)))
    return classes


def _lines_of(
    connection: sqlite3.Connection, keys: Iterable[PurposeKey]
) -> Mapping[PurposeKey, str]:
    """Return the lines of these keys that have one."""
    contents = json.dumps([key.content for key in keys])
    rows: Sequence[tuple[str, str, str]] = connection.execute(
        f"SELECT kind, content, line FROM purpose WHERE line <> '' AND content {IN_JSON_LIST}",
        (contents,),
    ).fetchall()
    lines: dict[PurposeKey, str] = {}
    for kind, content, line in rows:
        lines[PurposeKey(PurposeKind(kind), content)] = line
    return lines
