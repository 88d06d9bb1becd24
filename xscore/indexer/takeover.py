"""Begin the index of a worktree with that of another worktree or of a clone, so that the same bytes
are parsed once.

A worktree of the same store lends its list of files and its edges: versions of files are shared
already. From the store of a clone the versions are copied, and nothing that was said, asked or
judged. Then every file is read: one with the same bytes counts as indexed, unless a memory of it
does not match its hashes, so that damage does not spread. The index run after it parses the rest,
as after an edit. It copies between two attached stores, table by table, so its SQL names the tables
themselves. Trade-off: a clone takes as much disk as the first.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from xscore.platform.database import transaction
from xscore.platform.errors import StoreError
from xscore.platform.files import FileRefused, opened_folder, read_file_under, settled_ns
from xscore.platform.hashing import file_digest
from xscore.platform.paths import native_name
from xscore.platform.text import counted
from xscore.records.indexing import FileStamp
from xscore.store import file_rows, index_rows, link_rows
from xscore.store.events import EventName, emit_event
from xscore.store.file_versions import unsound_paths
from xscore.store.mention_links import relink_mentions
from xscore.store.siblings import attached_sibling, transaction_with_sibling
from xscore.store.vector_copies import FORGET_COMPLETE
from xscore.store.worktrees import HERE
from xscore.store.written_rows import ROW_COLUMNS

if TYPE_CHECKING:
    from xscore.indexer.index_run import IndexRun

_COLUMNS = ", ".join(ROW_COLUMNS)
_FROM_WORKTREE = (
    f"""
    INSERT INTO file_row (worktree, path, size, mtime_ns, file_hash, language, version)
    SELECT {HERE}, path, size, mtime_ns, file_hash, language, version FROM file_row
    WHERE worktree = :other AND excluded = ''
    """,
    f"""
    INSERT INTO edge_row (source, target, relation, weight, file, worktree)
    SELECT source, target, relation, weight, file, {HERE} FROM edge_row WHERE worktree = :other
    """,
    f"""
    INSERT OR REPLACE INTO worktree_meta (worktree, key, value)
    SELECT {HERE}, key, value FROM worktree_meta WHERE worktree = :other
      AND key IN (:profile, :missing, :due, :totals)
    """,
)
"""SQL of what another worktree lends."""
_INDEXED_ALIKE = f"""
    SELECT worktree, (SELECT name FROM worktree WHERE number = worktree_meta.worktree)
      FROM worktree_meta
    WHERE key = ? AND value = ? AND worktree <> {HERE} ORDER BY worktree
"""
_DIFFERING = """
    SELECT path, worktree, file_hash FROM file_row WHERE excluded = '' AND path IN (
        SELECT path FROM file_row WHERE excluded = ''
          GROUP BY path HAVING count(DISTINCT file_hash) > 1 LIMIT ?)
"""
MOST_COMPARED = 200
"""How many files that other worktrees have in different versions are read to find the nearest
worktree."""
_THEIRS = """
    theirs.number IN (SELECT version FROM sibling.file_row WHERE worktree = :there)
"""
_MINE = (
    "mine.path = theirs.path AND mine.file_hash = "
    "theirs.file_hash AND mine.rules = theirs.rules"
)
_FROM_CLONE = {
    "versions": (
        f"""
        INSERT INTO main.file_version (path, file_hash, rules, language, mentions, body)
        SELECT path, file_hash, rules, language, mentions, body FROM sibling.file_version AS theirs
          WHERE {_THEIRS}
        ON CONFLICT (path, file_hash, rules) DO NOTHING
    """
    ),
    "numbers": (
        f"""
        CREATE TEMP TABLE copied AS SELECT theirs.number AS theirs, mine.number AS mine,
          mine.number > :newest AS is_new
        FROM sibling.file_version AS theirs JOIN main.file_version AS mine ON {_MINE}
          WHERE {_THEIRS}
    """
    ),
    "files": (
        f"""
        INSERT INTO main.file_row (worktree, path, size, mtime_ns, file_hash, language, version)
        SELECT {HERE}, path, size, mtime_ns, file_hash, language, mine
        FROM sibling.file_row JOIN temp.copied ON theirs = version WHERE worktree = :there
          AND excluded = ''
    """
    ),
    "memories": (
        f"""
        INSERT INTO main.memory_row ({_COLUMNS}, version) SELECT {_COLUMNS}, mine
        FROM sibling.memory_row JOIN temp.copied ON theirs = version WHERE is_new
    """
    ),
    "views": (
        """
        INSERT INTO main.memory_view (memory, view, hash, tokens)
        SELECT mine.number, view, hash, tokens FROM temp.copied
        JOIN sibling.memory_row AS theirs ON theirs.version = copied.theirs
        JOIN main.memory_row AS mine ON mine.id = theirs.id AND mine.version = copied.mine
        JOIN sibling.memory_view AS view ON view.memory = theirs.number AND view.worktree = 0
        WHERE is_new
    """
    ),
    "unused": (
        """
        UPDATE main.memory_row SET accessed_at = 0, access_count = 0 WHERE access_count > 0
        AND version IN (SELECT mine FROM temp.copied WHERE is_new)
    """
    ),
    "names": (
        """
        INSERT INTO main.mentioned_name (name_crc, version) SELECT name_crc, mine
        FROM sibling.mentioned_name JOIN temp.copied ON theirs = version WHERE is_new
    """
    ),
    "ends": (
        """
        INSERT INTO main.edge_end (id) SELECT id FROM sibling.edge_end WHERE number IN (
            SELECT source FROM sibling.edge_row WHERE worktree = :there AND file <> 0
            UNION SELECT target FROM sibling.edge_row WHERE worktree = :there AND file <> 0
            UNION SELECT file FROM sibling.edge_row WHERE worktree = :there AND file <> 0)
        ON CONFLICT DO NOTHING
    """
    ),
    "end numbers": (
        """
        CREATE TEMP TABLE copied_end AS SELECT theirs.number AS theirs, mine.number AS mine
        FROM sibling.edge_end AS theirs JOIN main.edge_end AS mine USING (id)
    """
    ),
    "end index": "CREATE UNIQUE INDEX temp.by_theirs ON copied_end (theirs, mine)",
    "edges": (
        f"""
        INSERT INTO main.edge_row (source, target, relation, weight, file, worktree)
        SELECT source.mine, target.mine, relation, weight, file.mine, {HERE}
          FROM sibling.edge_row AS row
        JOIN temp.copied_end AS source ON source.theirs = row.source
        JOIN temp.copied_end AS target ON target.theirs = row.target
        JOIN temp.copied_end AS file ON file.theirs = row.file
        WHERE worktree = :there AND row.file <> 0 ORDER BY 1, 3, 2
    """
    ),
    "vectors": (
        """
        INSERT INTO main.vec (text_hash, embedder, data)
          SELECT text_hash, embedder, data
          FROM sibling.vec
        WHERE text_hash IN (SELECT hash FROM main.memory_view JOIN main.memory_row
          ON number = memory WHERE version IN (SELECT mine FROM temp.copied))
        ON CONFLICT DO NOTHING
    """
    ),
}
"""SQL of what a clone lends, in this order."""
_TEMPORARY = ("copied", "copied_end")
_META = (index_rows.PROFILE, index_rows.GRAMMARS_MISSING, index_rows.LINKS_DUE)
_STEPS = 10_000
"""Steps of SQLite's virtual machine between two looks at the clock, about a millisecond."""


def begin_from_worktree(run: "IndexRun") -> list[str]:
    """Fill the empty index of a run with that of the nearest other worktree; return notes for the
    user.

    One that was filled by other rules and settings is passed over. Copying that takes longer than
    the run may is undone.
    """
    connection = run.connection
    alike = connection.execute(_INDEXED_ALIKE, (index_rows.PROFILE, run.profile)).fetchall()
    if not alike:
        return []
    names = dict(alike)
    nearest = _nearest_worktree(run, list(names))
    keys = {
        "other": nearest,
        "profile": index_rows.PROFILE,
        "missing": index_rows.GRAMMARS_MISSING,
        "due": index_rows.LINKS_DUE,
        "totals": index_rows.TOTALS,
    }
    count = 0
    # Were the store at fault, the indexer would say so.
    with suppress(StoreError), transaction(connection):
        # Asked under the lock: another run of this worktree may have begun in between.
        if not index_rows.file_stamps(connection):
            with _interrupted_at(connection, run.until):
                for statement in _FROM_WORKTREE:
                    connection.execute(statement, keys)
            count = _stamp_same_files(run)
    if not count:
        return []
    place = f"worktree {names[nearest]}" if names[nearest] else "the main worktree"
    return [f"shared the index of {counted(count, 'identical file')} with {place}"]


def _nearest_worktree(run: "IndexRun", numbers: Sequence[int]) -> int:
    """Return the worktree of these with the most files that are the same here, by those in which
    they differ."""
    if len(numbers) == 1:
        return numbers[0]
    same = dict.fromkeys(numbers, 0)
    hashes: dict[str, str] = {}
    differing = run.connection.execute(_DIFFERING, (MOST_COMPARED,)).fetchall()
    with opened_folder(run.root.path) as top:
        for path, worktree, file_hash in differing:
            if path not in hashes:
                hashes[path] = ""
                with suppress(OSError, ValueError, FileRefused):
                    max_bytes = run.settings.max_file_bytes
                    data = read_file_under(top, native_name(path), max_bytes=max_bytes)
                    hashes[path] = file_digest(data)
            if worktree in same and file_hash == hashes[path]:
                same[worktree] += 1
    return max(numbers, key=lambda number: (same[number], -number))


def begin_from_clone(run: "IndexRun", siblings: Callable[[], Sequence[Path]]) -> list[str]:
    """Fill the empty index of a run from the first usable store of a clone; return notes for the
    user.

    A store is skipped if it is damaged, locked by another process, gone, or was filled by other
    rules and settings. A copy that takes longer than the run may is undone.
    """
    for store in siblings():
        count = 0
        # Were ours at fault, the indexer would say so.
        with suppress(StoreError), attached_sibling(run.connection, store):
            count = _copy_index(run)
        if count:
            folder = store.parent.parent
            return [f"copied the index of {counted(count, 'identical file')} from {folder}"]
    return []


def _copy_index(run: "IndexRun") -> int:
    """Copy the index of the attached store; return how many of its files are the same here."""
    worktree = _their_worktree(run.connection, run.profile)
    if not worktree:
        return 0
    with transaction_with_sibling(run.connection):
        # Asked under the lock: another run of this worktree may have begun in between.
        if index_rows.file_stamps(run.connection):
            return 0
        _copy_rows(run.connection, worktree, now=run.now, until=run.until)
        return _stamp_same_files(run)


def _their_worktree(connection: sqlite3.Connection, profile: str) -> int:
    """Return the first worktree of the other store that was indexed by these rules; 0 if there is
    none."""
    query = "SELECT min(worktree) FROM sibling.worktree_meta WHERE key = ? AND value = ?"
    return int(connection.execute(query, (index_rows.PROFILE, profile)).fetchone()[0] or 0)


def _copy_rows(
    connection: sqlite3.Connection, worktree: int, *, now: float, until: float | None
) -> None:
    """Copy what parsing gave. Raises StoreError when it takes too long."""
    (newest,) = connection.execute(
        "SELECT coalesce(max(number), 0) FROM main.file_version"
    ).fetchone()
    values = {"there": worktree, "newest": newest}
    added = 0
    with _interrupted_at(connection, until):
        for step, statement in _FROM_CLONE.items():
            # SQLite takes only the values that a statement names.
            marks = {name: value for name, value in values.items() if f":{name}" in statement}
            rows = connection.execute(statement, marks).rowcount
            if step == "memories":
                added = rows
    for table in _TEMPORARY:
        connection.execute(f"DROP TABLE temp.{table}")
    # Vectors were added, which no server was sent.
    connection.execute(FORGET_COMPLETE)
    relink_mentions(connection, None)
    for key in _META:
        index_rows.write_index_meta(connection, key, _their_meta(connection, worktree, key))
    changes = index_rows.IndexChanges(added=added)
    emit_event(connection, EventName.INDEXED, at=now, payload=asdict(changes))


def _stamp_same_files(run: "IndexRun") -> int:
    """Stamp the files that are the same here, and remove those with damage; return how many are the
    same."""
    connection = run.connection
    stamps = index_rows.file_stamps(connection)
    same = list(_same_files(run, stamps.values()))
    # A size that no file has: it is read, unless it is stamped now.
    connection.execute(f"UPDATE main.file_row SET size = -1 WHERE worktree = {HERE}")
    index_rows.write_stamps(connection, same)
    link_rows.check_mentions(connection)
    damaged = unsound_paths(connection, "source = 'index'")
    file_rows.replace_files(connection, (), sorted(damaged))
    return len({stamp.path for stamp in same} - damaged)


def _same_files(run: "IndexRun", theirs: Iterable[FileStamp]) -> Iterator[FileStamp]:
    """Yield the stamp of each file whose bytes here are those that were indexed there, until it is
    too late."""
    with opened_folder(run.root.path) as top:
        for stamp in theirs:
            if run.is_late:
                return
            name = native_name(stamp.path)
            try:
                info = os.stat(name, dir_fd=top, follow_symlinks=False)
                if info.st_size != stamp.size:
                    continue
                data = read_file_under(top, name, max_bytes=run.settings.max_file_bytes)
            except (OSError, ValueError, FileRefused):
                continue
            if file_digest(data) == stamp.file_hash:
                settled = settled_ns(info, now=run.now)
                yield FileStamp(stamp.path, len(data), settled, stamp.file_hash, stamp.language)


@contextmanager
def _interrupted_at(connection: sqlite3.Connection, until: float | None) -> Iterator[None]:
    """Interrupt the statements within, and roll their transaction back, when it is too late.

    Raises StoreError.
    """
    if until is not None:
        connection.set_progress_handler(lambda: time.monotonic() >= until, _STEPS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


def _their_meta(connection: sqlite3.Connection, worktree: int, key: str) -> str:
    query = "SELECT value FROM sibling.worktree_meta WHERE worktree = ? AND key = ?"
    row = connection.execute(query, (worktree, key)).fetchone()
    return str(row[0]) if row else ""
