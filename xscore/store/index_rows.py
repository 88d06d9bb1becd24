"""The index's rows: file stamps, the memories of a file, mentions, edges. SQL and nothing else.

Every function that writes is called inside one transaction of its caller, so that a kill leaves a consistent store:
what still has to be linked is itself written down (`links_due`) with the files that cause it.
Trade-off: a changed file's memories are all written again, changed or not; ids and use counts survive (`door.put`).
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from xscore.platform.database import damage_if_invalid
from xscore.platform.hashing import file_id
from xscore.records import Edge, FileStamp, IndexedFile, Kind, Layer, Mention, Relation
from xscore.store import memory_writer

MANY_PATHS = 1_000
"""More changed files than this and everything is linked anew."""
_DUE = "links_due"


class IndexChanges(Struct):
    """What replacing files did to memories."""

    added: int = 0
    changed: int = 0
    removed: int = 0

    def __add__(self, other: "IndexChanges") -> "IndexChanges":
        return IndexChanges(self.added + other.added, self.changed + other.changed, self.removed + other.removed)


class LinksDue(Struct):
    """What has changed since edges were last resolved."""

    paths: set[str] = field(default_factory=set)
    """Files whose own mentions are due."""
    names: set[str] = field(default_factory=set)
    """Names that were defined or are no more: whoever mentions them is due."""
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

    @property
    def plain(self) -> str:
        """The entity without the number that tells repeated names apart."""
        return self.entity.partition("#")[0]


def file_stamps(connection: sqlite3.Connection) -> dict[str, FileStamp]:
    """How each known file looked when it was last indexed or found unfit."""
    rows = connection.execute("SELECT path, size, mtime_ns, file_hash, language, excluded FROM file").fetchall()
    found = {row[0]: FileStamp(*row) for row in rows}
    with damage_if_invalid("the path of a file"):
        "".join(found)  # text, all of them: a damaged row can lack it
    return found


def replace_files(
    connection: sqlite3.Connection, indexed: Sequence[IndexedFile], removed: Sequence[str]
) -> IndexChanges:
    """Put new memories and mentions in the place of all that these files had, and forget the removed files."""
    changes, due = IndexChanges(), links_due(connection)
    for path in removed:
        _remove_file(connection, path, changes, due)
    for file in indexed:
        _replace_file(connection, file, changes, due)
    _write_due(connection, due)
    return changes


def touch_files(connection: sqlite3.Connection, touched: Iterable[FileStamp]) -> None:
    """Note a new time of files whose bytes are the same."""
    for stamp in touched:
        _write_stamp(connection, stamp)
        connection.execute(
            "UPDATE memory SET updated_at = ? WHERE path = ? AND source = 'index'", (stamp.mtime_ns / 1e9, stamp.path)
        )


def exclude_files(connection: sqlite3.Connection, excluded: Iterable[FileStamp]) -> None:
    """Remember that these files are kept out for what they hold, so that the next run need not read them."""
    for stamp in excluded:
        _write_stamp(connection, stamp)


def invalidate_stamps(connection: sqlite3.Connection) -> None:
    """Believe no stamp any more: every file is read and parsed again."""
    connection.execute("UPDATE file SET mtime_ns = 0, file_hash = ''")


def links_due(connection: sqlite3.Connection) -> LinksDue:
    """What the next linking has to look at."""
    written = read_meta(connection, _DUE)
    if not written:
        return LinksDue()
    with damage_if_invalid("the list of files to link"):
        due = json.loads(written)
        return LinksDue(set(due["paths"]), set(due["names"]), due["everything"])


def entity_rows(connection: sqlite3.Connection) -> list[EntityRow]:
    """Every entity of source code in the store."""
    query = "SELECT id, path, entity, kind, language FROM memory WHERE layer = ?"
    rows = connection.execute(query, (Layer.GRAPH,)).fetchall()
    kinds = {kind.value: kind for kind in Kind}
    return [EntityRow(id_, path, entity, kinds[kind], language) for id_, path, entity, kind, language in rows]


def file_languages(connection: sqlite3.Connection) -> dict[str, str]:
    """Indexed files and their languages."""
    return dict(connection.execute("SELECT path, language FROM file WHERE excluded = ''"))


def mentions_of(connection: sqlite3.Connection, paths: Iterable[str] | None) -> dict[str, list[Mention]]:
    """Mentions by the file that states them; None: of every file."""
    query = "SELECT path, source, relation, name, hint FROM mention"
    found: dict[str, list[Mention]] = {}
    if paths is None:
        rows = connection.execute(query).fetchall()
    else:
        rows = [row for path in paths for row in connection.execute(query + " WHERE path = ?", (path,))]
    relations = {relation.value: relation for relation in Relation}
    for path, source, relation, name, hint in rows:
        found.setdefault(path, []).append(Mention(source, relations[relation], name, hint))
    return found


def imports(connection: sqlite3.Connection) -> dict[str, list[Mention]]:
    """The import statements of every file."""
    found: dict[str, list[Mention]] = {}
    query = "SELECT path, source, name, hint FROM mention WHERE relation = ?"
    for path, source, name, hint in connection.execute(query, (Relation.IMPORTS,)).fetchall():
        found.setdefault(path, []).append(Mention(source, Relation.IMPORTS, name, hint))
    return found


def paths_mentioning(connection: sqlite3.Connection, names: Iterable[str]) -> set[str]:
    """Files that mention any of these names; remembered memories are tied by `mention_links`."""
    query = "SELECT DISTINCT path FROM mention WHERE name = ? AND path <> ''"
    return {row[0] for name in names for row in connection.execute(query, (name,))}


def replace_edges(
    connection: sqlite3.Connection, paths: Iterable[str] | None, edges: Iterable[tuple[str, Edge]]
) -> None:
    """Put new edges in the place of those that these files stated (None: of all), and note that nothing is due."""
    if paths is None:
        connection.execute("DELETE FROM edge WHERE path <> ''")
    else:
        connection.executemany("DELETE FROM edge WHERE path = ?", ((path,) for path in paths))
    connection.executemany(
        "INSERT INTO edge (source, target, relation, weight, path) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        ((edge.source, edge.target, edge.relation, edge.weight, path) for path, edge in edges),
    )
    write_meta(connection, _DUE, "")


def index_totals(connection: sqlite3.Connection) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Indexed memories by kind and language, edges of files by relation. Reads every row: keep it until a change."""
    by_kind: dict[str, int] = {}
    by_language: dict[str, int] = {}
    for kind, language, count in connection.execute(
        "SELECT kind, language, count(*) FROM memory WHERE source = 'index' GROUP BY kind, language"
    ):
        by_kind[kind] = by_kind.get(kind, 0) + count
        by_language[language] = by_language.get(language, 0) + count
    counted = connection.execute("SELECT relation, count(*) FROM edge WHERE path <> '' GROUP BY relation")
    edges = dict(counted.fetchall())
    return dict(sorted(by_kind.items())), dict(sorted(by_language.items())), edges


def read_meta(connection: sqlite3.Connection, key: str) -> str:
    """One value of `meta`; empty: none."""
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


def _replace_file(connection: sqlite3.Connection, file: IndexedFile, changes: IndexChanges, due: LinksDue) -> None:
    path = file.stamp.path
    known = _known(connection, path)
    is_new = not _has_stamp(connection, path)
    new = {memory.id: memory for memory in file.memories}
    gone = [id_ for id_ in known if id_ not in new]
    _remove_memories(connection, gone)
    memory_writer.put_memories(connection, tuple(new.values()))
    changes.removed += len(gone)
    changes.added += sum(id_ not in known for id_ in new)
    changes.changed += sum(id_ in known and known[id_][1] != memory.text_hash for id_, memory in new.items())
    due.names.update(_bare(known[id_][0]) for id_ in gone)
    due.names.update(_bare(memory.entity) for id_, memory in new.items() if id_ not in known)
    due.names.update(_changed_imports(connection, file))
    if is_new:
        due.names.update(_file_names(path))
    due.paths.add(path)
    connection.execute("DELETE FROM edge WHERE path = ?", (path,))
    connection.execute("DELETE FROM mention WHERE path = ?", (path,))
    connection.executemany(
        "INSERT OR IGNORE INTO mention (path, source, relation, name, hint) VALUES (?, ?, ?, ?, ?)",
        ((path, m.source, m.relation, m.name, m.hint) for m in file.mentions),
    )
    _write_stamp(connection, file.stamp)


def _remove_file(connection: sqlite3.Connection, path: str, changes: IndexChanges, due: LinksDue) -> None:
    known = _known(connection, path)
    _remove_memories(connection, list(known))
    changes.removed += len(known)
    due.names.update(_bare(entity) for entity, _ in known.values())
    due.names.update(_file_names(path))
    for table in ("edge", "mention", "file"):
        connection.execute(f"DELETE FROM {table} WHERE path = ?", (path,))
    connection.execute("DELETE FROM edge WHERE target = ?", (file_id(path),))
    due.paths.discard(path)


def _known(connection: sqlite3.Connection, path: str) -> dict[str, tuple[str, str]]:
    rows = connection.execute("SELECT id, entity, text_hash FROM memory WHERE path = ? AND source = 'index'", (path,))
    return {id_: (entity, text_hash) for id_, entity, text_hash in rows}


def _has_stamp(connection: sqlite3.Connection, path: str) -> bool:
    return connection.execute("SELECT 1 FROM file WHERE path = ? AND excluded = ''", (path,)).fetchone() is not None


def _remove_memories(connection: sqlite3.Connection, ids: Sequence[str]) -> None:
    for id_ in ids:
        connection.execute("DELETE FROM memory WHERE id = ?", (id_,))
        connection.execute("DELETE FROM edge WHERE source = ?", (id_,))
        connection.execute("DELETE FROM edge WHERE target = ?", (id_,))


def _changed_imports(connection: sqlite3.Connection, file: IndexedFile) -> set[str]:
    """Names that the file imports now and did not, or the other way round: others may reach them through it."""
    new = {(m.name, m.hint) for m in file.mentions if m.relation is Relation.IMPORTS}
    old = set(
        connection.execute(
            "SELECT name, hint FROM mention WHERE path = ? AND relation = ?", (file.stamp.path, Relation.IMPORTS)
        )
    )
    return {name for name, _ in new ^ old}


def _bare(entity: str) -> str:
    return entity.partition("#")[0].rpartition(".")[2]


def _file_names(path: str) -> set[str]:
    """What others may call a file: its name, its stem, and the folder that an index file stands for."""
    *folders, name = path.split("/")
    return {name, name.partition(".")[0], *folders[-1:]}


def _write_stamp(connection: sqlite3.Connection, stamp: FileStamp) -> None:
    connection.execute(
        "INSERT INTO file (path, size, mtime_ns, file_hash, language, excluded) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (path) DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns,"
        " file_hash = excluded.file_hash, language = excluded.language, excluded = excluded.excluded",
        (stamp.path, stamp.size, stamp.mtime_ns, stamp.file_hash, stamp.language, stamp.excluded),
    )


def _write_due(connection: sqlite3.Connection, due: LinksDue) -> None:
    if due.everything or len(due.paths) > MANY_PATHS:
        due = LinksDue(everything=True)
    if due:
        written = {"paths": sorted(due.paths), "names": sorted(due.names), "everything": due.everything}
        write_meta(connection, _DUE, json.dumps(written))
