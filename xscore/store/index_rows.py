"""What the index of a worktree knows of itself: file stamps, what is to be linked, totals. SQL and
nothing else.

A run in which nothing changed needs only this; `file_rows` writes files, `link_rows` links.
Trade-off: totals are cached, so every writer of index rows must change or clear them.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct, field
from msgspec.structs import astuple

from xscore.platform.database import damage_if_invalid, is_busy
from xscore.platform.errors import StoreError
from xscore.records.indexing import FileStamp
from xscore.store.worktrees import HERE, LISTED_HERE

PROFILE = "index_profile"
"""Key in `worktree_meta` of the rules and settings by which bytes became memories."""
LINKS_DUE = "links_due"
"""Key in `worktree_meta` of what the next linking must process."""
NOTED_CHANGE = "clean_tree"
"""Key in `worktree_meta` of the change that git found, and of the state in which it did
(`pipeline.noted_change`). Earlier versions noted only trees without one."""
WITHOUT_STAMP = "without_stamp"
"""Key in `worktree_meta` of one digest of the files that have no stamp, such as links."""


class IndexChanges(Struct):
    """What replacing files did to memories."""

    added: int = 0
    changed: int = 0
    removed: int = 0

    def __add__(self, more_changes: "IndexChanges") -> "IndexChanges":
        return IndexChanges(
            self.added + more_changes.added,
            self.changed + more_changes.changed,
            self.removed + more_changes.removed,
        )


class LinksDue(Struct):
    """What changed since edges were last resolved."""

    paths: set[str] = field(default_factory=set)
    """Files whose own mentions are due."""
    names: set[str] = field(default_factory=set)
    """Names added or removed: files that mention them are due."""
    rewired: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """Files whose imports changed, with these, or that were removed: a file that imports them
    reaches others than before."""
    everything: bool = False
    stated: set[str] = field(default_factory=set)
    """Stated memories that were written in other worktrees: the mentions of what they name are
    due here."""
    all_stated: bool = False

    def __bool__(self) -> bool:
        return (
            self.everything
            or self.all_stated
            or bool(self.paths or self.names or self.rewired or self.stated)
        )


def file_stamps(connection: sqlite3.Connection) -> dict[str, FileStamp]:
    """Return the stamp of each known file, indexed or excluded, by path."""
    rows = connection.execute(
        "SELECT path, size, mtime_ns, file_hash, language, excluded FROM file"
    ).fetchall()
    with damage_if_invalid("the path of a file"):
        "".join(row[0] for row in rows)  # fails if a damaged path is not text
    return {row[0]: FileStamp(*row) for row in rows}


_DATE = f"""
    UPDATE memory_row SET updated_at = ?1 WHERE path = ?2 AND version IN (
        SELECT version FROM file_row AS own WHERE worktree = {HERE} AND path = ?2 AND version > 0
          AND NOT EXISTS (
            SELECT 1 FROM file_row AS other WHERE other.version = own.version
              AND other.worktree <> own.worktree))
"""


def touch_files(connection: sqlite3.Connection, touched: Mapping[FileStamp, float]) -> None:
    """Store the stamps of files whose bytes are the same. touched: stamp -> when it was modified,
    in Unix seconds.

    What another worktree has too keeps its date, or each checkout would give it a new one.
    """
    write_stamps(connection, touched)
    connection.executemany(
        _DATE, [(modified_at, stamp.path) for stamp, modified_at in touched.items()]
    )


_STAMP = f"""
    INSERT INTO file_row (worktree, path, size, mtime_ns, file_hash, language, excluded)
    VALUES ({HERE}, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (worktree, path) DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns,
        file_hash = excluded.file_hash, language = excluded.language, excluded = excluded.excluded
"""


def write_stamps(connection: sqlite3.Connection, stamps: Iterable[FileStamp]) -> None:
    """Store file stamps, also of files excluded for their content: the next run need not read
    them."""
    connection.executemany(_STAMP, map(astuple, stamps))
    drop_noted_change(connection)


def drop_noted_change(connection: sqlite3.Connection) -> None:
    """Drop the note of what git found changed.

    In the transaction that writes what an index run found: a turn that asked git before may have
    noted it since the run began.
    """
    if read_index_meta(connection, NOTED_CHANGE):
        write_index_meta(connection, NOTED_CHANGE, "")


def invalidate_stamps(connection: sqlite3.Connection) -> None:
    """Invalidate all stamps: the next run reads and parses every file."""
    connection.execute(f"UPDATE file_row SET size = -1, file_hash = '' WHERE worktree = {HERE}")


def links_due(connection: sqlite3.Connection) -> LinksDue:
    """Return what the next linking must process. Raises StoreDamaged."""
    written = read_index_meta(connection, LINKS_DUE)
    if not written:
        return LinksDue()
    with damage_if_invalid("the list of files to link"):
        return msgspec.json.decode(written, type=LinksDue)


def owe_links(connection: sqlite3.Connection, due: LinksDue) -> None:
    """Write down what the next linking must process."""
    if due:
        write_index_meta(
            connection, LINKS_DUE, msgspec.json.encode(due, order="sorted").decode()
        )


def owe_stated_links(connection: sqlite3.Connection, sources: Sequence[str]) -> None:
    """Write down for every other worktree that what these stated memories name there is to be
    linked."""
    if not sources:
        return
    for number, written in connection.execute(_OTHERS_DUE).fetchall():
        with damage_if_invalid("the list of files to link"):
            if written:
                due = msgspec.json.decode(written, type=LinksDue)
            else:
                due = LinksDue()
        due.stated.update(sources)
        if len(due.stated) > MANY_STATED:
            due.stated = set()
            due.all_stated = True
        encoded = msgspec.json.encode(due, order="sorted").decode()
        connection.execute(_OWE, (number, LINKS_DUE, encoded))


MANY_STATED = 1_000
"""Number of memories above which all that are stated are linked again."""
_OTHERS_DUE = f"""
    SELECT profile.worktree, due.value FROM worktree_meta AS profile
    LEFT JOIN worktree_meta AS due ON due.worktree = profile.worktree AND due.key = '{LINKS_DUE}'
    WHERE profile.key = '{PROFILE}' AND profile.worktree <> {HERE}
"""
_OWE = """
    INSERT INTO worktree_meta (worktree, key, value) VALUES (?, ?, ?)
    ON CONFLICT (worktree, key) DO UPDATE SET value = excluded.value
"""


def note_linked(connection: sqlite3.Connection) -> None:
    """Write down that everything is linked."""
    write_index_meta(connection, LINKS_DUE, "")


def file_languages(connection: sqlite3.Connection) -> dict[str, str]:
    """Indexed files and their languages."""
    return dict(connection.execute("SELECT path, language FROM file WHERE excluded = ''"))


_Totals = tuple[dict[str, int], dict[str, int], dict[str, int]]
"""Numbers of indexed memories by kind and by language, and of edges by relation."""


def index_totals(connection: sqlite3.Connection) -> _Totals:
    """Return the cached totals, counted again after a change. Raises StoreDamaged."""
    kept = read_index_meta(connection, TOTALS)
    if kept:
        with damage_if_invalid("a total"):
            by_kind, by_language, edges = msgspec.json.decode(kept)
        return by_kind, by_language, edges
    counted = _count_totals(connection)
    try:
        write_index_meta(connection, TOTALS, msgspec.json.encode(counted).decode())
    except StoreError as error:
        if not is_busy(error):
            raise
    return counted


def _count_totals(connection: sqlite3.Connection) -> _Totals:
    by_kind = Counter[str]()
    by_language = Counter[str]()
    for kind, language, count in connection.execute(
        f"SELECT kind, language, count(*) FROM memory_row WHERE {LISTED_HERE} GROUP BY kind,"
        " language"
    ):
        by_kind[kind] += count
        by_language[language] += count
    edges = connection.execute(
        f"SELECT relation, count(*) FROM edge_row WHERE file <> 0 AND worktree = {HERE} GROUP BY 1"
        " ORDER BY 1"
    )
    return (
        dict(sorted(by_kind.items())),
        dict(sorted(by_language.items())),
        dict(edges.fetchall()),
    )


TOTALS = "index_totals"
"""Key in `worktree_meta` of the cached totals; a writer of index rows changes or removes it."""
FILES_LEFT = "index_files_left"
"""Key in `worktree_meta` of how many files a run that was stopped has left to the next."""
OBSERVED = "observed"
"""Key in `worktree_meta` that says that what files show was noted after the latest change."""
KEPT_OUT = "index_kept_out"
"""Key in `worktree_meta` of how many files are kept out of the index, by reason."""
GRAMMARS_MISSING = "index_without_grammar"
"""Key in `worktree_meta` of the languages of indexed files whose grammar was not installed."""


def files_left(connection: sqlite3.Connection) -> int:
    """Return how many files the latest run has left to the next. Raises StoreDamaged."""
    with damage_if_invalid("the count of files left"):
        return int(read_index_meta(connection, FILES_LEFT) or 0)


def files_kept_out(connection: sqlite3.Connection) -> dict[str, int]:
    """Return how many files the latest run kept out, by reason. Raises StoreDamaged."""
    with damage_if_invalid("the count of files kept out"):
        return msgspec.json.decode(
            read_index_meta(connection, KEPT_OUT) or "{}", type=dict[str, int]
        )


def note_kept_out(connection: sqlite3.Connection, by_reason: dict[str, int]) -> None:
    """Store how many files the latest run kept out, if that has changed."""
    written = ""
    if by_reason:
        written = msgspec.json.encode(by_reason, order="sorted").decode()
    if written != read_index_meta(connection, KEPT_OUT):
        write_index_meta(connection, KEPT_OUT, written)


def read_index_meta(connection: sqlite3.Connection, key: str) -> str:
    """Return one value of this worktree; empty if there is none."""
    query = f"SELECT value FROM worktree_meta WHERE worktree = {HERE} AND key = ?"
    row = connection.execute(query, (key,)).fetchone()
    return str(row[0]) if row else ""


def write_index_meta(connection: sqlite3.Connection, key: str, value: str) -> None:
    """Write one value of this worktree; empty removes it."""
    if value:
        connection.execute(
            f"INSERT INTO worktree_meta (worktree, key, value) VALUES ({HERE}, ?, ?)"
            " ON CONFLICT (worktree, key) DO UPDATE SET value = excluded.value",
            (key, value),
        )
    else:
        connection.execute(
            f"DELETE FROM worktree_meta WHERE worktree = {HERE} AND key = ?", (key,)
        )


def read_meta(connection: sqlite3.Connection, key: str) -> str:
    """Return one value of `meta`, of the whole store; empty if there is none."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return str(row[0]) if row else ""


def write_meta(connection: sqlite3.Connection, key: str, value: str) -> None:
    """Write one value of `meta`, of the whole store; empty removes it."""
    if value:
        connection.execute(
            "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value ="
            " excluded.value",
            (key, value),
        )
    else:
        connection.execute("DELETE FROM meta WHERE key = ?", (key,))


def indexed_files(connection: sqlite3.Connection) -> list[str]:
    """Return the paths of all files that were read."""
    rows = connection.execute("SELECT path FROM file WHERE excluded = '' ORDER BY path")
    return [path for (path,) in rows]
