"""What a name that a user types means, and the names nearest to one that means nothing.

A name is a memory's id, `path`, `path:12`, `path:12-40`, `path::entity`, `Class.method`, the
last part of an entity's name (each of the definitions that a file has of it), or a module-level
value, which means the block that defines it, or a commit as it is cited (`commit 1a2b3c4`). A
path may be cut at its front (`cache.py` for `src/cache.py`). Nothing is ranked here: several
memories may bear one name. Trade-off: a name without a path reads the names of all memories.
"""

import os
import re
import sqlite3
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from xscore.platform.errors import NothingMatched
from xscore.platform.near_names import did_you_mean, nearest_names
from xscore.platform.paths import decode_path_argument
from xscore.records.candidates import TERM_ENTRY
from xscore.store.index_rows import indexed_files
from xscore.store.memory_rows import memories_with_ids
from xscore.store.term_vectors import WHOLE_NAME, split_word
from xscore.store.worktrees import HERE

MOST_COLONS = 4
"""Most places where a name is taken apart into path and entity."""
_LINES = re.compile(r"(.+):([0-9]{1,9})(?:-([0-9]{1,9}))?")
_CITED_COMMIT = re.compile(r"(?:commit )?([0-9a-f]{7,64})")
_COMMITS = (
    "SELECT id FROM memory WHERE kind = 'commit' AND substr(place, "
    "1, length(?1)) = ?1 ORDER BY id"
)
_FILES = "SELECT path FROM file WHERE excluded = '' AND path = ?"
_FILES_CUT = (
    "SELECT path FROM file WHERE excluded = '' AND substr(path, -length(?1) - 1) = '/' || ?1 ORDER"
    " BY path"
)
_IN_FILE = "SELECT id FROM memory WHERE source = 'index' AND path = ?1"
_ENTITY = f"{_IN_FILE} AND entity = ?2 ORDER BY start_line, id"
_INSIDE = (
    f"{_IN_FILE} AND (substr(entity, 1, length(?2) + 1) = ?2 || '.'"
    " OR substr(entity, 1, length(?2) + 3) = ?2 || ' > ') ORDER BY start_line, id"
)
_SAME_LINES = f"{_IN_FILE} AND start_line = ?2 AND end_line = ?3 ORDER BY id"
_AROUND = (
    f"{_IN_FILE} AND start_line <= ?2 AND end_line >= ?3 ORDER BY "
    "end_line - start_line, id LIMIT 1"
)
_TOUCHED = f"{_IN_FILE} AND start_line <= ?3 AND end_line >= ?2 ORDER BY start_line, id"
_BEARERS = """
    SELECT id FROM (
        SELECT *, iif(layer = 'graph', substr(entity, 1, instr(entity || '#', '#') - 1),
          entity) AS plain FROM memory
        WHERE source = 'index' AND entity <> ''
    ) WHERE (entity = ?1 OR entity NOT GLOB 'module:*' AND (
        plain = ?1 OR substr(plain, -length(?1) - 1) = '.' || ?1
          OR substr(plain, -length(?1) - 3) = ' > ' || ?1))
    ORDER BY path, start_line, id
"""
_LIKELY_BLOCKS = (
    "SELECT id, terms FROM memory WHERE layer = 'graph' AND entity GLOB 'module:*' AND"
    " instr(terms, ?)"
)
_ENTITIES = (
    "SELECT DISTINCT path || '::' || entity FROM memory WHERE source = 'index' AND layer = 'graph'"
    " AND entity <> '' AND entity <> 'module:imports' AND entity NOT GLOB 'module:after *' ORDER BY"
    " path, start_line, id"
)


def find_file(connection: sqlite3.Connection, name: str) -> str:
    """Return the indexed file with this path, or the only one whose path ends in it; empty if there
    is none."""
    files = _indexed_files(connection, name)
    if len(files) == 1:
        return files[0]
    return ""


def find_named(connection: sqlite3.Connection, name: str, *, inside: bool = False) -> list[str]:
    """Return the ids of the memories that a name means; empty if it means none.

    inside: an entity also means what is defined inside it.
    """
    by_id = _column(connection, "SELECT id FROM memory WHERE id = ?", name)
    if by_id:
        return by_id
    queries = (_ENTITY, _INSIDE) if inside else (_ENTITY,)
    for colons in islice(re.finditer("::", name), MOST_COLONS):  # a path may have them too
        path = name[: colons.start()]
        entity = name[colons.end() :]
        of_entity = _entities_of(connection, path, entity, queries)
        if of_entity:
            return of_entity
    lines = _LINES.fullmatch(name)
    if lines is not None:
        first = int(lines[2])
        last = int(lines[3] or lines[2])
        # Exactly these lines, otherwise the smallest memory around them, otherwise all that
        # they touch.
        for query in (_SAME_LINES, _AROUND, _TOUCHED):
            at_lines = _of_files(connection, lines[1], query, first, last)
            if at_lines:
                return at_lines
    of_file = _of_files(connection, name, f"{_IN_FILE} ORDER BY start_line, id")
    if of_file or not name:
        return of_file
    bearers = _column(connection, _BEARERS, name) or _blocks_defining(connection, name)
    cited = _CITED_COMMIT.fullmatch(name)
    if bearers or cited is None:
        return bearers
    return _column(connection, _COMMITS, cited[1])


def _entities_of(
    connection: sqlite3.Connection, path: str, entity: str, queries: Sequence[str]
) -> list[str]:
    """Return the memories of an entity of a file, otherwise the blocks that define a value of
    its name."""
    ids: list[str] = []
    files = _files(connection, path)
    for file in files:
        for query in queries:
            ids += _column(connection, query, file, entity)
    if ids:
        return ids
    for file in files:
        ids += _blocks_defining(connection, entity, file)
    return ids


def _of_files(
    connection: sqlite3.Connection, path: str, query: str, *parameters: object
) -> list[str]:
    """Return what a query finds in each file that a path means."""
    ids: list[str] = []
    for file in _files(connection, path):
        ids += _column(connection, query, file, *parameters)
    return ids


def _blocks_defining(connection: sqlite3.Connection, name: str, path: str = "") -> list[str]:
    """Return the ids of the blocks of module-level code that define a value, in one file or in
    any."""
    likely: list[str] = []
    # Searched by their term vectors first: the texts of all blocks would have to be
    # decompressed.
    for _, term in split_word(name)[-1:]:
        for id_, terms in connection.execute(_LIKELY_BLOCKS, (term.to_bytes(4, "little"),)):
            for entry_term, _, fields in TERM_ENTRY.iter_unpack(terms):
                if entry_term == term and fields & WHOLE_NAME:
                    likely.append(id_)
                    break
    defining: list[str] = []
    for block in memories_with_ids(connection, likely):
        if name in block.facts.defines and path in ("", block.path):
            defining.append(block.id)
    return defining


def near_names(connection: sqlite3.Connection, name: str) -> list[str]:
    """Return the five names of files and entities nearest to this one."""
    lines = _LINES.fullmatch(name)
    place = lines[1] if lines is not None else name
    entities = [] if lines is not None else _column(connection, _ENTITIES)
    return nearest_names(place, [*entities, *indexed_files(connection)])


def unknown_name(connection: sqlite3.Connection, name: str) -> NothingMatched:
    """Return the error for a name that means nothing, with the nearest names in its hint."""
    was_indexed = (
        f"SELECT 1 FROM worktree_meta WHERE worktree = {HERE} AND key = 'index_profile' UNION"
        " SELECT 1 FROM file"
    )
    if not _column(connection, was_indexed):
        hint = "Nothing is indexed here yet: run `xscore index`."
    else:
        otherwise = (
            "Name a file, path:lines, path::entity, an entity or an ID, as `ask` shows them."
        )
        hint = did_you_mean(near_names(connection, name), otherwise)
    return NothingMatched(f"nothing here is called `{name}`", hint=hint)


def name_forms(name: str, root: Path) -> list[str]:
    """Return the ways in which a name may be meant: its path from the working folder, or from the
    root."""
    path, colons, entity = name.partition("::")
    if path.startswith("m_") and not colons:
        return [name]
    real = Path(os.path.normpath(Path.cwd() / path))
    if path:
        from_here = [os.path.relpath(real, root)]
    else:
        from_here = []
    forms = [*from_here, os.path.normpath(path), path]
    return [decode_path_argument(form) + colons + entity for form in dict.fromkeys(forms)]


def file_of_name(name: str) -> str:
    """Return the path of a name: without its lines, and without its entity."""
    path = name.partition("::")[0]
    lines = _LINES.fullmatch(path)
    if lines is None:
        return path
    return lines[1]


def _files(connection: sqlite3.Connection, path: str) -> list[str]:
    return _indexed_files(connection, path) or [path]


def _indexed_files(connection: sqlite3.Connection, path: str) -> list[str]:
    return _column(connection, _FILES, path) or (
        _column(connection, _FILES_CUT, path) if path else []
    )


def _column(connection: sqlite3.Connection, sql: str, *parameters: object) -> list[str]:
    return [row[0] for row in connection.execute(sql, parameters)]
