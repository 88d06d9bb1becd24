"""What the index knows of itself: file stamps, what is to be linked, totals. SQL and nothing else.

A run in which nothing changed needs only this; `file_rows` writes files, `link_rows` links. Trade-off: totals are
cached, so every writer of index rows must change or clear them.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct, field
from msgspec.structs import astuple

from xscore.platform.database import damage_if_invalid, is_busy
from xscore.platform.errors import StoreError
from xscore.records.memory import FileStamp

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


def file_stamps(connection: sqlite3.Connection) -> dict[str, FileStamp]:
    """Return the stamp of each known file, indexed or excluded, by path."""
    rows = connection.execute("SELECT path, size, mtime_ns, file_hash, language, excluded FROM file").fetchall()
    with damage_if_invalid("the path of a file"):
        "".join(row[0] for row in rows)  # fails if a damaged path is not text
    return {row[0]: FileStamp(*row) for row in rows}


def touch_files(connection: sqlite3.Connection, touched: Mapping[FileStamp, float]) -> None:
    """Store the stamps of files whose bytes are the same. touched: stamp -> when it was modified, in Unix seconds."""
    write_stamps(connection, touched)
    connection.executemany(
        "UPDATE memory SET updated_at = ? WHERE path = ? AND source = 'index'",
        [(modified_at, stamp.path) for stamp, modified_at in touched.items()],
    )


def write_stamps(connection: sqlite3.Connection, stamps: Iterable[FileStamp]) -> None:
    """Store file stamps, also of files excluded for their content: the next run need not read them."""
    connection.executemany(
        "INSERT OR REPLACE INTO file (path, size, mtime_ns, file_hash, language, excluded) VALUES (?, ?, ?, ?, ?, ?)",
        map(astuple, stamps),
    )


def invalidate_stamps(connection: sqlite3.Connection) -> None:
    """Invalidate all stamps: the next run reads and parses every file."""
    connection.execute("UPDATE file SET size = -1, file_hash = ''")


def links_due(connection: sqlite3.Connection) -> LinksDue:
    """Return what the next linking must process. Raises StoreDamaged."""
    written = read_meta(connection, LINKS_DUE)
    if not written:
        return LinksDue()
    with damage_if_invalid("the list of files to link"):
        return msgspec.json.decode(written, type=LinksDue)


def owe_links(connection: sqlite3.Connection, due: LinksDue) -> None:
    """Write down what the next linking must process."""
    if due:
        write_meta(connection, LINKS_DUE, msgspec.json.encode(due, order="sorted").decode())


def note_linked(connection: sqlite3.Connection) -> None:
    """Write down that everything is linked."""
    write_meta(connection, LINKS_DUE, "")


def file_languages(connection: sqlite3.Connection) -> dict[str, str]:
    """Indexed files and their languages."""
    return dict(connection.execute("SELECT path, language FROM file WHERE excluded = ''"))


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
    edges = connection.execute("SELECT relation, count(*) FROM edge_row WHERE file <> 0 GROUP BY 1 ORDER BY 1")
    return dict(sorted(by_kind.items())), dict(sorted(by_language.items())), dict(edges.fetchall())


TOTALS = "index_totals"
"""Key in `meta`: the cached totals; a writer of index rows changes or removes it."""
FILES_LEFT = "index_files_left"
"""Key in `meta`: how many files a run that was stopped has left to the next."""
KEPT_OUT = "index_kept_out"
"""Key in `meta`: how many files are kept out of the index, by reason."""
GRAMMARS_MISSING = "index_without_grammar"
"""Key in `meta`: the languages of indexed files whose grammar was not installed."""


def files_left(connection: sqlite3.Connection) -> int:
    """Return how many files the latest run has left to the next. Raises StoreDamaged."""
    with damage_if_invalid("the count of files left"):
        return int(read_meta(connection, FILES_LEFT) or 0)


def files_kept_out(connection: sqlite3.Connection) -> dict[str, int]:
    """Return how many files the latest run kept out, by reason. Raises StoreDamaged."""
    with damage_if_invalid("the count of files kept out"):
        return msgspec.json.decode(read_meta(connection, KEPT_OUT) or "{}", type=dict[str, int])


def note_kept_out(connection: sqlite3.Connection, by_reason: dict[str, int]) -> None:
    """Store how many files the latest run kept out, if that has changed."""
    written = msgspec.json.encode(by_reason, order="sorted").decode() if by_reason else ""
    if written != read_meta(connection, KEPT_OUT):
        write_meta(connection, KEPT_OUT, written)


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
