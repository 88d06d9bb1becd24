"""One store, one index a worktree: which rows a connection sees, and which belong to its worktree
alone.

What parsing a file gave belongs to a version of the file (`file_version`) and is shared by the
worktrees that list it (`file_row`); edges and the state of cited code belong to one worktree. A
connection enters its worktree once: temporary views named `memory`, `file`, `edge`, `evidence_here`
and `here` then show what that worktree has. None is named like a table, which VACUUM would take for
the table. Writers name the tables (`memory_row`, `file_row`, `edge_row`). Trade-off: every look at
an indexed memory asks whether its version is listed.
"""

import os
import sqlite3
import time

from xscore.platform.database import is_busy, lock_wait_until
from xscore.platform.errors import StoreError
from xscore.platform.git_folder import git_folders
from xscore.platform.paths import RepositoryRoot
from xscore.records.memory import ViewName
from xscore.store.memory_views import of_judged_view, views_in

NOWHERE = -1
"""Number of a worktree that is unknown to a store which cannot be written: it has no files."""
PATIENCE_S = 0.25
"""How long to wait for a process that is writing, if the store can be read all the same."""
HERE = "(SELECT number FROM temp.here)"
"""SQL: the number of the connection's worktree."""
IS_VISIBLE = f"""(version = 0 OR EXISTS (
    SELECT 1 FROM main.file_row AS listed
    WHERE listed.version = memory_row.version AND listed.worktree = {HERE}))"""
"""SQL condition on `memory_row` for memories that are stated, or of a file as this worktree has
it. For few rows."""
LISTED_HERE = (
    f"version IN (SELECT version FROM main.file_row WHERE worktree = {HERE} AND version > 0)"
)
"""SQL condition on `memory_row` for memories of a file as this worktree has it. For reading
very many rows."""
_STALE_HERE = (
    "FROM main.stale_memory AS stale WHERE stale.memory_id = memory_row.id AND stale.worktree ="
    " {number}"
)
_STATUS = f"iif(version = 0 AND EXISTS (SELECT 1 {_STALE_HERE}), 'stale', status)"
"""SQL: the status of a memory here, where code that it cites may have changed."""
_MEMORY_COLUMNS = (
    *(
        "number",
        "id",
        "version",
        "layer",
        "kind",
        "scope",
        "status",
        "origin",
        "place",
        "path",
        "entity",
        "start_line",
        "end_line",
        "language",
    ),
    *(
        "updated_at",
        "importance",
        "confidence",
        "thread",
    ),
    *(
        "name_crc",
        "overrides",
        "key",
        "evidence_count",
        "source",
        "superseded_by",
        "created_at",
        "accessed_at",
    ),
    *("access_count", "title", "attrs", "card", "text", "terms"),
)
_DIFFERING = {
    "status": _STATUS,
    "views": views_in("{number}"),
    "content_hash": of_judged_view("hash", "{number}"),
    "tokens": of_judged_view("tokens", "{number}"),
    "text_hash": of_judged_view("hash", "{number}", (ViewName.WHOLE,)),
    "text_tokens": of_judged_view("tokens", "{number}", (ViewName.WHOLE,)),
}
"""Computed columns of the view `memory`, which may differ where a memory is stale."""
_SHOWN = ", ".join(
    [name for name in _MEMORY_COLUMNS if name not in _DIFFERING]
    + [f"{expression} AS {name}" for name, expression in _DIFFERING.items()]
)
_VIEWS = {
    "here": "SELECT {number} AS number",
    "memory": (
        f"""
        SELECT {_SHOWN} FROM main.memory_row WHERE version = 0 OR EXISTS (
            SELECT 1 FROM main.file_row AS listed
            WHERE listed.version = memory_row.version AND listed.worktree = {{number}})
    """
    ),
    "file": (
        """
        SELECT path, size, mtime_ns, file_hash, language, excluded, version FROM main.file_row
          WHERE worktree = {number}
    """
    ),
    "edge": (
        """
        SELECT one.id AS source, other.id AS target, relation, weight,
               coalesce((SELECT substr(id, 3) FROM main.edge_end WHERE number = file), '') AS path
        FROM main.edge_row JOIN main.edge_end AS one ON one.number = source
        JOIN main.edge_end AS other ON other.number = target WHERE worktree IN (0, {number})
    """
    ),
    "evidence_here": (
        """
        SELECT stated.memory_id, stated.path, stated.span_hash,
               coalesce(seen.start_line, stated.start_line) AS start_line,
               coalesce(seen.end_line, stated.end_line) AS end_line,
                 coalesce(seen.size, -1) AS size,
               coalesce(seen.mtime_ns, -1) AS mtime_ns,
                 coalesce(seen.changed, stated.changed) AS changed
        FROM main.evidence AS stated LEFT JOIN main.evidence_state AS seen
        ON seen.memory_id = stated.memory_id AND seen.path = stated.path
          AND seen.span_hash = stated.span_hash
        AND seen.worktree = {number}
    """
    ),
}
_OWN_TABLES = (
    "file_row",
    "edge_row",
    "evidence_state",
    "stale_memory",
    "pack_slot",
    "worktree_meta",
)
"""Tables with rows of one worktree alone."""


def enter_worktree(
    connection: sqlite3.Connection, name: str = "", *, must_know: bool = False
) -> int:
    """Let a connection see what the worktree of this name has; return its number.

    Writes only if the store does not know the worktree yet. If the store cannot be written, or
    another process keeps it locked, the worktree has no files (`NOWHERE`). must_know: wait as long
    as for any lock, then raise StoreError.
    """
    number = _number_of(connection, name)
    if number is None:
        number = _add(connection, name, must_know=must_know)
    is_elsewhere = (
        connection.execute("SELECT 1 FROM sqlite_temp_master WHERE name = 'here'").fetchone()
        is not None
    )
    if is_elsewhere and worktree_number(connection) == number:
        return number
    connection.execute("BEGIN")  # each statement alone would take twice the time
    for view, query in _VIEWS.items():
        if is_elsewhere:
            connection.execute(f"DROP VIEW temp.{view}")
        connection.execute(f"CREATE TEMP VIEW {view} AS {query.format(number=number)}")
    connection.execute("COMMIT")
    return number


def worktree_number(connection: sqlite3.Connection) -> int:
    """Return the number of the worktree that this connection has entered."""
    return int(connection.execute("SELECT number FROM temp.here").fetchone()[0])


def visible_memories(connection: sqlite3.Connection) -> str:
    """Return an SQL condition on `memory_row`: what this worktree has. For reading very many rows.

    It costs a tenth of such a read, so it is left out where the store has no other worktree.
    """
    is_alone = worktree_names(connection).keys() == {worktree_number(connection)}
    return "true" if is_alone else f"(version = 0 OR {LISTED_HERE})"


def worktree_names(connection: sqlite3.Connection) -> dict[int, str]:
    """Return the worktrees that the store knows: number -> name."""
    return dict(
        connection.execute("SELECT number, name FROM main.worktree ORDER BY number").fetchall()
    )


def has_other_worktrees(connection: sqlite3.Connection) -> bool:
    """Return whether the store knows another worktree than this connection's."""
    query = f"SELECT EXISTS (SELECT 1 FROM worktree WHERE number <> {HERE})"
    return bool(connection.execute(query).fetchone()[0])


def removed_worktrees(connection: sqlite3.Connection, root: RepositoryRoot) -> list[int]:
    """Return the numbers of the linked worktrees that git no longer has."""
    linked = {number: name for number, name in worktree_names(connection).items() if name}
    folders = git_folders(root.path) if linked else None
    if folders is None:
        return []
    removed: list[int] = []
    for number, name in linked.items():
        if not os.path.lexists(folders.common / "worktrees" / name):
            removed.append(number)
    return removed


def remove_own_rows(connection: sqlite3.Connection, number: int) -> None:
    """Remove what only this worktree had, and the worktree, in an open transaction."""
    for table in _OWN_TABLES:
        connection.execute(f"DELETE FROM main.{table} WHERE worktree = ?", (number,))
    connection.execute("DELETE FROM main.worktree WHERE number = ?", (number,))


def _number_of(connection: sqlite3.Connection, name: str) -> int | None:
    row = connection.execute(
        "SELECT number FROM main.worktree WHERE name = ?", (name,)
    ).fetchone()
    return int(row[0]) if row else None


def _add(connection: sqlite3.Connection, name: str, *, must_know: bool) -> int:
    until = None if must_know else time.monotonic() + PATIENCE_S
    try:
        with lock_wait_until(connection, until):
            connection.execute(
                "INSERT INTO main.worktree (name) VALUES (?) ON CONFLICT (name) DO NOTHING",
                (name,),
            )
    except StoreError as error:
        is_read_only = (
            getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY
        )
        if must_know or not (is_read_only or is_busy(error)):
            raise
        return NOWHERE
    number = _number_of(connection, name)
    return NOWHERE if number is None else number
