"""Rows of what the index links: the mentions of files and stated memories, the entities they may
mean, and the edges.

Ends of edges are integers (`edge_end`); all others read edges through the view `edge`. SQL and
nothing else; callers wrap writes in one transaction. Trade-off: mentions are packed by file, so one
mention cannot be read alone.
"""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing

import msgspec
from msgspec import Struct

from xscore.platform.database import damage_if_invalid
from xscore.platform.hashing import file_id
from xscore.records.indexing import Mention
from xscore.records.memory import Edge, Kind, Relation
from xscore.store.encoded_files import FileMentions, decode_mentions
from xscore.store.worktrees import HERE, IS_VISIBLE, LISTED_HERE, worktree_number
from xscore.store.written_rows import last_name, name_crc


class EntityRow(Struct, frozen=True):
    """An entity that a mention may resolve to."""

    id: str
    path: str
    entity: str
    kind: Kind
    language: str
    overrides: bool = False
    """Whether its signature says that it overrides another method, so that a foreign class may
    have its name as well."""

    @property
    def plain(self) -> str:
        """The entity without the number that distinguishes repeated names."""
        return self.entity.partition("#")[0]


def entity_rows(
    connection: sqlite3.Connection, clause: str = "", *parameters: object
) -> list[EntityRow]:
    """Return the entities of source code, a file's in its order.

    clause: `INDEXED BY` and `WHERE`, to find fewer; SQL, never user input.
    """
    few = f"{clause} AND {IS_VISIBLE}" if clause else f"WHERE {LISTED_HERE}"
    rows = connection.execute(
        f"SELECT id, path, entity, kind, language, overrides FROM memory_row {few} AND layer ="
        " 'graph' ORDER BY status, kind, start_line, length(entity), entity",
        parameters,
    ).fetchall()
    kinds = {kind.value: kind for kind in Kind}
    return [
        EntityRow(id_, path, entity, kinds[kind], language, bool(overrides))
        for id_, path, entity, kind, language, overrides in rows
    ]


def entities_in(connection: sqlite3.Connection, path: str) -> list[EntityRow]:
    """Return the entities of a file of source code."""
    return entity_rows(connection, "INDEXED BY memory_by_path WHERE path = ?", path)


def entities_named(connection: sqlite3.Connection, name: str) -> list[EntityRow]:
    """Return the entities of source code whose name ends in this one."""
    rows = entity_rows(
        connection, "INDEXED BY memory_by_name WHERE name_crc = ?", name_crc(name)
    )
    return [row for row in rows if last_name(row.entity) == name]


def all_mentions(connection: sqlite3.Connection) -> "dict[str, FileMentions]":
    """Return the mentions of every file that has some, by path. Raises StoreDamaged."""
    listed = f"SELECT version FROM file_row WHERE worktree = {HERE}"
    rows = connection.execute(
        f"SELECT path, mentions FROM file_version WHERE number IN ({listed})"
    ).fetchall()
    with damage_if_invalid("a mention"):
        return {path: decode_mentions(written) for path, written in rows}


def file_mentions(connection: sqlite3.Connection, path: str) -> "FileMentions":
    """Return the mentions of a file. Raises StoreDamaged."""
    query = (
        "SELECT mentions FROM file JOIN file_version ON number = version WHERE file.path = ?"
    )
    row = connection.execute(query, (path,)).fetchone()
    with damage_if_invalid("a mention"):
        if row:
            return decode_mentions(row[0])
        return FileMentions()


def check_mentions(connection: sqlite3.Connection) -> None:
    """Raise StoreDamaged if the mentions of an indexed file are missing or unreadable."""
    query = (
        "SELECT mentions FROM file LEFT JOIN file_version ON "
        "number = version WHERE excluded = ''"
    )
    with closing(connection.execute(query)) as rows, damage_if_invalid("a mention"):
        for (written,) in rows:
            decode_mentions(written)


def insert_mentions(connection: sqlite3.Connection, mentions: Iterable[Mention]) -> None:
    """Insert the mentions of stated memories."""
    connection.executemany(
        "INSERT OR IGNORE INTO mention (source, relation, name, hint) VALUES (?, ?, ?, ?)",
        (
            (mention.source, mention.relation, mention.name, mention.hint)
            for mention in mentions
        ),
    )


def paths_mentioning(connection: sqlite3.Connection, names: Iterable[str]) -> set[str]:
    """Return the files that mention any of these names, and those whose names share a CRC with
    one."""
    rows = connection.execute(
        "SELECT DISTINCT file_row.path FROM json_each(?) CROSS JOIN mentioned_name ON name_crc ="
        " value CROSS JOIN file_row ON file_row.version = mentioned_name.version AND worktree ="
        f" {HERE}",
        (msgspec.json.encode([name_crc(name) for name in names]).decode(),),
    )
    return {path for (path,) in rows.fetchall()}


def imported_files(connection: sqlite3.Connection, path: str) -> set[str]:
    """Return the ends that the import edges of a file lead to."""
    query = "SELECT target FROM edge WHERE source = ? AND relation = ?"
    rows = connection.execute(query, (file_id(path), Relation.IMPORTS.value))
    return {target for (target,) in rows.fetchall()}


def files_importing(connection: sqlite3.Connection, paths: Iterable[str]) -> set[str]:
    """Return the files with an import edge to one of these."""
    query = "SELECT source FROM edge WHERE target = ? AND relation = ?"
    prefix = file_id("")
    sources: set[str] = set()
    for path in paths:
        rows = connection.execute(query, (file_id(path), Relation.IMPORTS.value))
        for (source,) in rows.fetchall():
            if source.startswith(prefix):
                sources.add(source.removeprefix(prefix))
    return sources


def replace_all_edges(
    connection: sqlite3.Connection, edges: Sequence[tuple[str, Edge]]
) -> None:
    """Replace the edges that files state. Edges come with their file."""
    alone = connection.execute(_HAS_OTHER_EDGES).fetchone() is None
    rebuilt = _drop_edge_indexes(connection) if alone else []
    connection.execute(f"DELETE FROM edge_row WHERE file <> 0 AND worktree = {HERE}")
    _insert_edges(connection, edges)
    for statement in rebuilt:
        connection.execute(statement)


def replace_edges(
    connection: sqlite3.Connection, paths: Iterable[str], edges: Sequence[tuple[str, Edge]]
) -> Counter[str]:
    """Replace the edges of these files; return how many more there are of each relation.

    Edges come with their file.
    """
    change = Counter[str]()
    for path in paths:
        change.subtract(delete_edges(connection, path))
    _insert_edges(connection, edges)
    for path in {path for path, _ in edges}:
        kept = connection.execute(
            f"SELECT relation FROM edge_row WHERE {_OF_FILE}", (file_id(path),)
        )
        change.update(relation for (relation,) in kept.fetchall())
    return change


def _insert_edges(connection: sqlite3.Connection, edges: Sequence[tuple[str, Edge]]) -> None:
    files = {path: file_id(path) for path, _ in edges}
    worktree = worktree_number(connection)
    ends = set(files.values())
    for _, edge in edges:
        ends.add(edge.source)
        ends.add(edge.target)
    numbers = _numbered(connection, ends)
    # SQLite asks an adapter for each that is not plain text.
    words = {relation: relation.value for relation in Relation}
    rows: list[tuple[int, int, str, float, int]] = []
    for path, edge in edges:
        source = numbers[edge.source]
        target = numbers[edge.target]
        rows.append((source, target, words[edge.relation], edge.weight, numbers[files[path]]))
    connection.executemany(
        "INSERT INTO edge_row (source, target, relation, weight, file, worktree) VALUES (?, ?, ?,"
        f" ?, ?, {worktree}) ON CONFLICT DO NOTHING",
        sorted(rows),
    )


_NUMBER = "(SELECT number FROM edge_end WHERE id = ?)"
_OF_FILE = f"file = {_NUMBER} AND worktree = {HERE}"
_HAS_OTHER_EDGES = f"SELECT 1 FROM edge_row WHERE file <> 0 AND worktree <> {HERE} LIMIT 1"


def delete_members(
    connection: sqlite3.Connection, target: str, *, but: Collection[str]
) -> None:
    """Delete the edges by which memories belong to this one, except those of some."""
    ends = "SELECT edge_end.number FROM json_each(?) JOIN edge_end ON edge_end.id = value"
    connection.execute(
        f"DELETE FROM edge_row WHERE target = {_NUMBER} AND relation = 'belongs_to' AND source NOT"
        f" IN ({ends})",
        (target, msgspec.json.encode(sorted(but)).decode()),
    )


_STATE_EDGE = """
    INSERT INTO edge_row (source, target, relation, weight, worktree)
      VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_DROP_END_OF_FILE = """
    DELETE FROM edge_end WHERE id = ? AND NOT EXISTS (
        SELECT 1 FROM file_row WHERE path = ? AND worktree IN (SELECT number FROM worktree))
"""
_DROP_UNUSED_FILE_ENDS = """
    DELETE FROM edge_end WHERE id GLOB 'f_*' AND substr(id, 3) NOT IN (SELECT path FROM file_row)
    AND number NOT IN (
        SELECT source FROM edge_row UNION SELECT target FROM edge_row UNION SELECT file
          FROM edge_row)
"""


def delete_edges(connection: sqlite3.Connection, path: str) -> Counter[str]:
    """Delete the edges that a file states here; return how many there were of each relation."""
    gone = connection.execute(
        f"DELETE FROM edge_row WHERE {_OF_FILE} RETURNING relation", (file_id(path),)
    )
    return Counter(relation for (relation,) in gone.fetchall())


def delete_edges_of_end(connection: sqlite3.Connection, end: str) -> Counter[str]:
    """Delete the edges here from and to an end; return how many of those were stated by files, by
    relation."""
    count = Counter[str]()
    for side in ("source", "target"):
        query = (
            f"DELETE FROM edge_row WHERE {side} = {_NUMBER} AND worktree = {HERE} RETURNING"
            " relation, file"
        )
        for relation, file in connection.execute(query, (end,)).fetchall():
            if file:
                count[relation] += 1
    return count


def drop_end_of_file(connection: sqlite3.Connection, path: str) -> None:
    """Forget the end of edges that a file was, and its edges, if no worktree has the file any
    more."""
    connection.execute(_DROP_END_OF_FILE, (file_id(path), path))


def drop_unused_file_ends(connection: sqlite3.Connection) -> None:
    """Forget the names of files that no worktree has, once no edge needs them."""
    connection.execute(_DROP_UNUSED_FILE_ENDS)


def state_edges(
    connection: sqlite3.Connection, edges: Iterable[tuple[str, str, Relation, float]]
) -> None:
    """Add edges that no file states: source, target, relation, weight; known ones stay as they are.

    What a memory refers to depends on the files of a worktree, so those edges are of this one;
    others are of all.
    """
    stated = list(edges)
    ends: set[str] = set()
    for source, target, *_ in stated:
        ends.update((source, target))
    numbers = _numbered(connection, ends)
    this_worktree = worktree_number(connection)
    rows = []
    for source, target, relation, weight in stated:
        worktree = this_worktree if relation is Relation.REFERENCES else 0
        rows.append((numbers[source], numbers[target], relation.value, weight, worktree))
    connection.executemany(_STATE_EDGE, rows)


def _numbered(connection: sqlite3.Connection, ends: Collection[str]) -> dict[str, int]:
    """Return the numbers of these ends of edges; number those that are new."""
    connection.executemany(
        "INSERT INTO edge_end (id) VALUES (?) ON CONFLICT DO NOTHING",
        ((end,) for end in sorted(ends)),
    )
    numbers = "SELECT value, number FROM json_each(?) JOIN edge_end ON edge_end.id = value"
    return dict(connection.execute(numbers, (msgspec.json.encode(sorted(ends)).decode(),)))


def _drop_edge_indexes(connection: sqlite3.Connection) -> list[str]:
    """Drop the indexes of edges, which are built faster from all rows at once; return the SQL that
    makes them again."""
    indexes = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE tbl_name = 'edge_row' AND type = 'index' AND sql"
        " IS NOT NULL"
    )
    dropped = indexes.fetchall()
    for name, _ in dropped:
        connection.execute(f"DROP INDEX {name}")
    return [statement for _, statement in dropped]
