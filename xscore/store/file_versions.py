"""Versions of files: what parsing the same bytes by the same rules gave, once for all worktrees
that have them.

A version holds the memories of a file, their body and what they mention. It is kept while any
worktree lists it. Uses (`written_rows.USES`) belong to the id of a memory, so each version of a
memory has the same. SQL and nothing else; callers wrap writes in one transaction. Trade-off: a file
that two worktrees have edited is stored twice, whole.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xscore.platform.database import damage_if_invalid, transaction
from xscore.platform.errors import StoreDamaged
from xscore.platform.hashing import content_hash
from xscore.records.memory import ViewName, view_texts
from xscore.store.encoded_files import EncodedFile, FileMentions, decode_mentions
from xscore.store.file_bodies import read_with_bodies
from xscore.store.link_rows import drop_unused_file_ends
from xscore.store.memory_views import decode_views, of_judged_view, views_in, write_views
from xscore.store.worktrees import HERE, remove_own_rows
from xscore.store.written_rows import ROW_COLUMNS, USES, upsert_rows

_ID = ROW_COLUMNS.index("id")
_TEXT_HASH = of_judged_view("hash", 0, (ViewName.WHOLE,))
_PUT = """
    INSERT INTO file_version (path, file_hash, rules, language, mentions, body)
      VALUES (?, ?, ?, ?, ?, ?)
    RETURNING number
"""
_REPLACE = """
    UPDATE file_version SET path = ?, file_hash = ?, rules = ?, language = ?, mentions = ?, body = ?
      WHERE number = ?
"""
_KEEP_USES = f"""
    UPDATE memory_row SET ({USES}) = (
        SELECT {USES} FROM memory_row AS other WHERE other.id = memory_row.id
          AND other.version <> :version LIMIT 1)
    WHERE path = :path AND version = :version
    AND EXISTS (SELECT 1 FROM memory_row AS other WHERE other.id = memory_row.id
      AND other.version <> :version)
"""
_HAS_OTHERS = "SELECT 1 FROM file_version WHERE path = ? AND number <> ? LIMIT 1"
_IS_SHARED = f"SELECT EXISTS (SELECT 1 FROM file_row WHERE version = ? AND worktree <> {HERE})"
_UNLISTED = "SELECT number FROM file_version WHERE number NOT IN (SELECT version FROM file_row)"


class StoredMemory(NamedTuple):
    """The columns of an indexed memory that tell what a change of it affects."""

    entity: str
    kind: str
    language: str
    overrides: int
    text_hash: str


_STORED_COLUMNS = tuple(map(ROW_COLUMNS.index, StoredMemory._fields[:-1]))


class FileContent(NamedTuple):
    """What a version of a file says, as far as links depend on it."""

    memories: dict[str, StoredMemory]
    """Memories of the version by id."""
    mentions: FileMentions


def encoded_content(file: EncodedFile) -> FileContent:
    """Return the content of a parsed file."""
    text_hashes: dict[str, str] = {}
    for identifier, view, hash_, _ in file.views:
        if view == ViewName.WHOLE:
            text_hashes[identifier] = hash_
    memories: dict[str, StoredMemory] = {}
    for row in file.rows:
        identifier = row[_ID]
        columns = [row[at] for at in _STORED_COLUMNS]
        columns.append(text_hashes[identifier])
        memories[identifier] = StoredMemory(*columns)
    return FileContent(memories, decode_mentions(file.mentions))


def version_content(connection: sqlite3.Connection, path: str, version: int) -> FileContent:
    """Return the content of a version; that of version 0 is empty. Raises StoreDamaged."""
    if not version:
        return FileContent({}, FileMentions())
    rows = connection.execute(
        f"SELECT id, entity, kind, language, overrides, {_TEXT_HASH} FROM memory_row WHERE path = ?"
        " AND version = ?",
        (path, version),
    )
    return FileContent(
        {id_: StoredMemory(*row) for id_, *row in rows}, _mentions_of(connection, version)
    )


def _mentions_of(connection: sqlite3.Connection, version: int) -> FileMentions:
    row = connection.execute(
        "SELECT mentions FROM file_version WHERE number = ?", (version,)
    ).fetchone()
    with damage_if_invalid("a mention"):
        if row:
            return decode_mentions(row[0])
        return FileMentions()


def listed_version(connection: sqlite3.Connection, path: str) -> int:
    """Return the version of a file that this worktree lists; 0 if it lists none."""
    query = f"SELECT version FROM file_row WHERE worktree = {HERE} AND path = ?"
    row = connection.execute(query, (path,)).fetchone()
    return int(row[0]) if row else 0


def find_version(connection: sqlite3.Connection, path: str, file_hash: str, rules: str) -> int:
    """Return the version of a file with this hash, parsed by these rules; 0 if there is none."""
    query = "SELECT number FROM file_version WHERE path = ? AND file_hash = ? AND rules = ?"
    row = connection.execute(query, (path, file_hash, rules)).fetchone()
    return int(row[0]) if row else 0


def put_version(
    connection: sqlite3.Connection, file: EncodedFile, *, rules: str, listed: int
) -> int:
    """Store a parsed file as a version; return its number. listed: the version that this worktree
    lists, or 0.

    A version of the same bytes is rewritten, since it may be damaged. One that no other
    worktree lists is replaced, which costs less than adding another.
    """
    stamp = file.stamp
    number = find_version(connection, stamp.path, stamp.file_hash, rules)
    if not number and listed and not connection.execute(_IS_SHARED, (listed,)).fetchone()[0]:
        number = listed
    values = (stamp.path, stamp.file_hash, rules, stamp.language, file.mentions, file.body)
    is_new = not number
    if number:
        _drop_names(connection, number, stamp.path)
        connection.execute(_REPLACE, (*values, number))
        _drop_other_memories(connection, file, number)
    else:
        ((number,),) = connection.execute(_PUT, values).fetchall()
    upsert_rows(connection, file.rows, version=number)
    write_views(connection, file.views, version=number, are_new=is_new)
    # A replaced version may hold memories that are new to this worktree alone.
    if connection.execute(_HAS_OTHERS, (stamp.path, number)).fetchone():
        connection.execute(_KEEP_USES, {"path": stamp.path, "version": number})
    connection.executemany(
        "INSERT INTO mentioned_name (name_crc, version) VALUES (?, ?)",
        ((name, number) for name in file.names),
    )
    return number


def _drop_other_memories(
    connection: sqlite3.Connection, file: EncodedFile, version: int
) -> None:
    """Delete the memories of a version that the file has no more."""
    stays = {row[_ID] for row in file.rows}
    query = "SELECT id FROM memory_row WHERE path = ? AND version = ?"
    gone: list[tuple[str, int]] = []
    for (id_,) in connection.execute(query, (file.stamp.path, version)).fetchall():
        if id_ not in stays:
            gone.append((id_, version))
    connection.executemany("DELETE FROM memory_row WHERE id = ? AND version = ?", gone)


def list_version(connection: sqlite3.Connection, path: str, version: int) -> None:
    """Let this worktree have this version of a file whose stamp it has."""
    connection.execute(
        f"UPDATE file_row SET version = ? WHERE worktree = {HERE} AND path = ?",
        (version, path),
    )


def drop_if_unlisted(connection: sqlite3.Connection, version: int) -> None:
    """Delete a version with its memories and mentions if no worktree lists it any more."""
    if (
        not version
        or connection.execute("SELECT 1 FROM file_row WHERE version = ?", (version,)).fetchone()
    ):
        return
    row = connection.execute(
        "SELECT path FROM file_version WHERE number = ?", (version,)
    ).fetchone()
    if row is None:
        return
    (path,) = row
    _drop_names(connection, version, path)
    connection.execute("DELETE FROM memory_row WHERE path = ? AND version = ?", (path, version))
    connection.execute("DELETE FROM file_version WHERE number = ?", (version,))


def forget_worktrees(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Remove what only these worktrees had, in one transaction."""
    with transaction(connection):
        for number in numbers:
            remove_own_rows(connection, number)
        for (version,) in connection.execute(_UNLISTED).fetchall():
            drop_if_unlisted(connection, version)
        drop_unused_file_ends(connection)


def is_sound(connection: sqlite3.Connection, path: str, version: int) -> bool:
    """Whether all of a version can be read, and its memories match their hashes."""
    try:
        _mentions_of(connection, version)
        return not unsound_paths(
            connection, "path = ? AND version = ?", (path, version), table="memory_row"
        )
    except StoreDamaged:
        return False


def unsound_paths(
    connection: sqlite3.Connection,
    where: str,
    parameters: Sequence[object] = (),
    *,
    table: str = "memory",
) -> set[str]:
    """Return the files with a memory that does not match its hashes, or that is not active.

    Raises StoreDamaged.
    """
    unsound = set[str]()
    # The table of what any worktree has, unlike the view, has no such column.
    views_column = views_in(0) if table == "memory_row" else "views"
    rows = read_with_bodies(
        connection, f"path, entity, status, {views_column}", where, parameters, table=table
    )
    for path, entity, status, views, _, card, text in rows:
        hashes = {view.name: view.hash for view in decode_views(views, needs_whole=False)}
        fits = hashes == {
            name: content_hash(path, entity, view_text)
            for name, view_text in view_texts(text, card).items()
        }
        if not fits or status != "active":
            unsound.add(path)
    return unsound


def _drop_names(connection: sqlite3.Connection, version: int, path: str) -> None:
    names = _mentions_of(connection, version).names(path)
    connection.executemany(
        "DELETE FROM mentioned_name WHERE name_crc = ? AND version = ?",
        ((name, version) for name in names),
    )
