"""The index's rows: file stamps, the memories of a file, mentions, edges. SQL and nothing else.

Callers wrap every write in one transaction. Pending links are stored (`links_due`) together with the files that cause
them, so a killed process leaves a consistent store. Trade-off: all memories of a changed file are written again,
changed or not; ids and use counts survive (`upsert_rows`).
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field
from msgspec.structs import astuple

from xscore.platform.database import damage_if_invalid, is_busy
from xscore.platform.errors import StoreError
from xscore.platform.hashing import file_id
from xscore.records.memory import Edge, FileStamp, Kind, Mention, Relation

if TYPE_CHECKING:
    from xscore.store.encoded_files import EncodedFile

MANY_PATHS = 1_000
"""With more changed files than this, everything is linked again."""
PROFILE = "index_profile"
"""Key in `meta`: the rules and settings by which bytes became memories."""
LINKS_DUE = "links_due"
"""Key in `meta`: what the next linking must process."""


class IndexChanges(Struct):
    """What replacing files did to memories."""

    added: int = 0
    changed: int = 0
    removed: int = 0

    def __add__(self, other: "IndexChanges") -> "IndexChanges":
        return IndexChanges(self.added + other.added, self.changed + other.changed, self.removed + other.removed)


class LinksDue(Struct):
    """What changed since edges were last resolved."""

    paths: set[str] = field(default_factory=set)
    """Files whose own mentions are due."""
    names: set[str] = field(default_factory=set)
    """Names added or removed: files that mention them are due."""
    everything: bool = False

    def __bool__(self) -> bool:
        return self.everything or bool(self.paths or self.names)


class EntityRow(Struct, frozen=True):
    """An entity that a mention may resolve to."""

    id: str
    path: str
    entity: str
    kind: Kind
    language: str
    overrides: bool = False
    """Its signature says that it overrides another method, so a foreign class may have its name as well."""

    @property
    def plain(self) -> str:
        """The entity without the number that distinguishes repeated names."""
        return self.entity.partition("#")[0]


def file_stamps(connection: sqlite3.Connection) -> dict[str, FileStamp]:
    """Return the stamp of each known file, indexed or excluded, by path."""
    rows = connection.execute("SELECT path, size, mtime_ns, file_hash, language, excluded FROM file").fetchall()
    with damage_if_invalid("the path of a file"):
        "".join(row[0] for row in rows)  # fails if a damaged path is not text
    return {row[0]: FileStamp(*row) for row in rows}


def replace_files(
    connection: sqlite3.Connection, indexed: "Sequence[EncodedFile]", removed: Sequence[str]
) -> IndexChanges:
    """Replace all memories and mentions of these files, and delete the removed files."""
    changes, due = IndexChanges(), links_due(connection)
    for path in removed:
        _remove_file(connection, path, changes, due)
    for file in indexed:
        _replace_file(connection, file, changes, due)
    if due.everything or len(due.paths) > MANY_PATHS:
        due = LinksDue(everything=True)
    owe_links(connection, due)
    return changes


def touch_files(connection: sqlite3.Connection, touched: Iterable[FileStamp]) -> None:
    """Store the new mtime of files whose bytes are the same."""
    stamps = list(touched)
    write_stamps(connection, stamps)
    connection.executemany(
        "UPDATE memory SET updated_at = ? WHERE path = ? AND source = 'index'",
        [(stamp.mtime_ns / 1e9, stamp.path) for stamp in stamps],
    )


def write_stamps(connection: sqlite3.Connection, stamps: Iterable[FileStamp]) -> None:
    """Store file stamps, also of files excluded for their content: the next run need not read them."""
    connection.executemany(
        "INSERT OR REPLACE INTO file (path, size, mtime_ns, file_hash, language, excluded) VALUES (?, ?, ?, ?, ?, ?)",
        map(astuple, stamps),
    )


def invalidate_stamps(connection: sqlite3.Connection) -> None:
    """Invalidate all stamps: the next run reads and parses every file."""
    connection.execute("UPDATE file SET mtime_ns = 0, file_hash = ''")


def links_due(connection: sqlite3.Connection) -> LinksDue:
    """Return what the next linking must process."""
    return decode_links_due(read_meta(connection, LINKS_DUE))


def decode_links_due(written: str) -> LinksDue:
    """Read a value of `LINKS_DUE`. Raises StoreDamaged."""
    if not written:
        return LinksDue()
    with damage_if_invalid("the list of files to link"):
        return msgspec.json.decode(written, type=LinksDue)


def owe_links(connection: sqlite3.Connection, due: LinksDue) -> None:
    """Write down what the next linking must process."""
    if due:
        write_meta(connection, LINKS_DUE, msgspec.json.encode(due, order="sorted").decode())


def names_stated(connection: sqlite3.Connection, paths: Iterable[str], *, schema: str = "main") -> set[str]:
    """Return the names by which other files may know these files and what they define or import."""
    found = set[str]()
    for path in paths:
        found |= _file_names(path)
        defined = f"SELECT entity FROM {schema}.memory WHERE path = ? AND source = 'index'"
        found.update(_bare(entity) for (entity,) in connection.execute(defined, (path,)))
        found.update(_imported_words(_imports_of(connection, path, schema=schema)))
    return found


def _imports_of(connection: sqlite3.Connection, path: str, *, schema: str = "main") -> set[tuple[str, str]]:
    """Return name and hint of what a file imports."""
    row = connection.execute(f"SELECT imports FROM {schema}.file_mention WHERE path = ?", (path,)).fetchone()
    with damage_if_invalid("a mention"):
        return {(one.name, one.hint) for one in _imports(path, row[0] if row else "[]")}


def _imported_words(imports: Iterable[tuple[str, str]]) -> set[str]:
    return {word for name, hint in imports for word in (name, hint.partition("#")[2]) if word}


def entity_rows(connection: sqlite3.Connection) -> list[EntityRow]:
    """Every entity of source code in the store."""
    rows = connection.execute(
        "SELECT id, path, entity, kind, language, kind = 'method' AND attrs LIKE '{\"signature\": \"%override%'"
        " FROM memory WHERE layer = 'graph'"
    ).fetchall()
    kinds = {kind.value: kind for kind in Kind}
    return [
        EntityRow(id_, path, entity, kinds[kind], language, bool(own))
        for id_, path, entity, kind, language, own in rows
    ]


def file_languages(connection: sqlite3.Connection) -> dict[str, str]:
    """Indexed files and their languages."""
    return dict(connection.execute("SELECT path, language FROM file WHERE excluded = ''"))


def mentions_of(connection: sqlite3.Connection, paths: Iterable[str] | None) -> dict[str, list[Mention]]:
    """Return the mentions in these files, by path; None: in every file. Raises StoreDamaged."""
    from xscore.store.encoded_files import decode_uses

    query = "SELECT path, imports, bases, uses FROM file_mention"
    if paths is None:
        found = connection.execute(query).fetchall()
    else:
        found = [row for path in paths for row in connection.execute(f"{query} WHERE path = ?", (path,))]
    with damage_if_invalid("a mention"):
        return {
            path: [
                *_imports(path, imports),
                *(one for written in (bases, uses) for given in decode_uses(written).values() for one in given),
            ]
            for path, imports, bases, uses in found
        }


def imports_and_bases(connection: sqlite3.Connection) -> tuple[dict[str, list[Mention]], dict[str, list[Mention]]]:
    """Return the import statements of every file, by path, and the names of base classes, by the id of the class."""
    from xscore.store.encoded_files import decode_uses

    imports: dict[str, list[Mention]] = {}
    bases: dict[str, list[Mention]] = {}
    rows = connection.execute("SELECT path, imports, bases FROM file_mention WHERE imports <> '[]' OR bases <> '{}'")
    with damage_if_invalid("a mention"):
        for path, imported, based in rows.fetchall():
            imports[path] = _imports(path, imported)
            bases |= decode_uses(based)
    return imports, bases


def _imports(path: str, written: str) -> list[Mention]:
    source = file_id(path)
    return [
        Mention(source, Relation.IMPORTS, name, hint)
        for name, hint in msgspec.json.decode(written, type=list[tuple[str, str]])
    ]


def insert_mentions(connection: sqlite3.Connection, mentions: Iterable[Mention]) -> None:
    """Insert the mentions of stated memories."""
    connection.executemany(
        "INSERT OR IGNORE INTO mention (source, relation, name, hint) VALUES (?, ?, ?, ?)",
        ((one.source, one.relation, one.name, one.hint) for one in mentions),
    )


def paths_mentioning(connection: sqlite3.Connection, names: Iterable[str]) -> set[str]:
    """Return the files that mention any of these names; `mention_links` handles stated memories."""
    wanted = frozenset(names)
    rows = connection.execute("SELECT path, names FROM file_mention").fetchall() if wanted else []
    return {path for path, mentioned in rows if not wanted.isdisjoint(mentioned.split("\n"))}


def replace_edges(
    connection: sqlite3.Connection, paths: Iterable[str] | None, edges: Iterable[tuple[str, Edge]]
) -> None:
    """Replace the edges of these files (None: of all files), and clear `links_due`."""
    rebuilt = [] if paths is not None else _drop_edge_indexes(connection)
    if paths is None:
        connection.execute("DELETE FROM edge WHERE path <> ''")
    else:
        connection.executemany("DELETE FROM edge WHERE path = ?", ((path,) for path in paths))
    connection.executemany(
        "INSERT INTO edge (source, target, relation, weight, path) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        sorted((edge.source, edge.target, edge.relation, edge.weight, path) for path, edge in edges),
    )
    for statement in rebuilt:
        connection.execute(statement)
    write_meta(connection, LINKS_DUE, "")


def _drop_edge_indexes(connection: sqlite3.Connection) -> list[str]:
    """Drop the indexes of table `edge`, which are built faster from all rows at once; return what makes them again."""
    found = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE tbl_name = 'edge' AND type = 'index' AND sql IS NOT NULL"
    )
    dropped = found.fetchall()
    for name, _ in dropped:
        connection.execute(f"DROP INDEX {name}")
    return [statement for _, statement in dropped]


_Totals = tuple[dict[str, int], dict[str, int], dict[str, int]]
"""Indexed memories by kind and by language, edges by relation."""


def index_totals(connection: sqlite3.Connection) -> _Totals:
    """Return the cached totals, counted again after a change. Raises StoreDamaged."""
    kept = read_meta(connection, TOTALS)
    if kept:
        with damage_if_invalid("a total"):
            by_kind, by_language, edges = msgspec.json.decode(kept)
        return by_kind, by_language, edges
    counted = _count_totals(connection)
    try:
        write_meta(connection, TOTALS, msgspec.json.encode(counted).decode())
    except StoreError as error:
        if not is_busy(error):
            raise
    return counted


def _count_totals(connection: sqlite3.Connection) -> _Totals:
    by_kind, by_language = Counter[str](), Counter[str]()
    for kind, language, count in connection.execute(
        "SELECT kind, language, count(*) FROM memory WHERE source = 'index' GROUP BY kind, language"
    ):
        by_kind[kind] += count
        by_language[language] += count
    edges = connection.execute("SELECT relation, count(*) FROM edge WHERE path <> '' GROUP BY relation")
    return dict(sorted(by_kind.items())), dict(sorted(by_language.items())), dict(edges.fetchall())


TOTALS = "index_totals"
"""Key in `meta`: the cached totals; a writer of index rows removes it."""
FILES_LEFT = "index_files_left"
"""Key in `meta`: how many files a run that was stopped has left to the next."""
GRAMMARS_MISSING = "index_without_grammar"
"""Key in `meta`: the languages of indexed files whose grammar was not installed."""


def files_left(connection: sqlite3.Connection) -> int:
    """Return how many files the latest run has left to the next. Raises StoreDamaged."""
    with damage_if_invalid("the count of files left"):
        return int(read_meta(connection, FILES_LEFT) or 0)


def read_meta(connection: sqlite3.Connection, key: str) -> str:
    """Return one value of `meta`; empty if there is none."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return str(row[0]) if row else ""


def write_meta(connection: sqlite3.Connection, key: str, value: str) -> None:
    """Write one value of `meta`; empty removes it."""
    if value:
        connection.execute(
            "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, value),
        )
    else:
        connection.execute("DELETE FROM meta WHERE key = ?", (key,))


def _replace_file(connection: sqlite3.Connection, file: "EncodedFile", changes: IndexChanges, due: LinksDue) -> None:
    from xscore.store.memory_rows import upsert_rows
    from xscore.store.memory_writer import delete_outdated_vectors  # in most turns nothing changed
    from xscore.store.term_vectors import put_vectors

    path = file.stamp.path
    known = _known(connection, path)
    stamp = connection.execute("SELECT 1 FROM file WHERE path = ? AND excluded = ''", (path,)).fetchone()
    new = file.identities()
    gone = [id_ for id_ in known if id_ not in new]
    _remove_memories(connection, gone)
    if known:
        delete_outdated_vectors(connection, [(id_, text_hash) for id_, (_, text_hash) in new.items()])
    upsert_rows(connection, file.rows)
    put_vectors(connection, zip(new, file.vectors, strict=True))
    changes.removed += len(gone)
    changes.added += sum(id_ not in known for id_ in new)
    changes.changed += sum(id_ in known and known[id_][1] != text_hash for id_, (_, text_hash) in new.items())
    due.names.update(_bare(known[id_][0]) for id_ in gone)
    due.names.update(_bare(entity) for id_, (entity, _) in new.items() if id_ not in known)
    due.names.update(_changed_imports(connection, file))
    if stamp is None:
        due.names.update(_file_names(path))
    due.paths.add(path)
    connection.execute("DELETE FROM edge WHERE path = ?", (path,))
    connection.execute(
        "INSERT OR REPLACE INTO file_mention (path, imports, bases, uses, names) VALUES (?, ?, ?, ?, ?)",
        (path, msgspec.json.encode(file.imports).decode(), file.bases, file.uses, file.names),
    )
    write_stamps(connection, [file.stamp])


def _remove_file(connection: sqlite3.Connection, path: str, changes: IndexChanges, due: LinksDue) -> None:
    known = _known(connection, path)
    _remove_memories(connection, list(known))
    changes.removed += len(known)
    due.names.update(_bare(entity) for entity, _ in known.values())
    due.names.update(_file_names(path))
    for table in ("edge", "file_mention", "file"):
        connection.execute(f"DELETE FROM {table} WHERE path = ?", (path,))
    connection.execute("DELETE FROM edge WHERE target = ?", (file_id(path),))
    due.paths.discard(path)


def _known(connection: sqlite3.Connection, path: str) -> dict[str, tuple[str, str]]:
    rows = connection.execute("SELECT id, entity, text_hash FROM memory WHERE path = ? AND source = 'index'", (path,))
    return {id_: (entity, text_hash) for id_, entity, text_hash in rows}


def _remove_memories(connection: sqlite3.Connection, ids: Sequence[str]) -> None:
    for table, column in (("memory", "id"), ("edge", "source"), ("edge", "target")):
        connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", [(id_,) for id_ in ids])


def _changed_imports(connection: sqlite3.Connection, file: "EncodedFile") -> set[str]:
    """Return the imported names that the file added or dropped: others may reach them through it."""
    return _imported_words(_imports_of(connection, file.stamp.path) ^ set(file.imports))


def _bare(entity: str) -> str:
    return entity.partition("#")[0].rpartition(".")[2]


def _file_names(path: str) -> set[str]:
    """Return the names others may use for a file: its name, its stem, and its folder (for an index file)."""
    *folders, name = path.split("/")
    return {name, name.partition(".")[0], *folders[-1:]}
