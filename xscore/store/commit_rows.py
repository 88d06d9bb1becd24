"""Which commits are memories, and what the index of each worktree knows of the history. SQL and
nothing else.

Their rows are of no file's version, so all worktrees of a repository have them, as they share the
commits. They are of the index all the same: they are not exported, and made again where they are
missing.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from xscore.platform.database import damage_if_invalid
from xscore.records.indexing import CommitCounts
from xscore.records.memory import Kind, Layer, Memory
from xscore.store.index_rows import read_index_meta, read_meta, write_index_meta, write_meta
from xscore.store.memory_rows import IN_JSON_LIST
from xscore.store.worktrees import HERE

_HISTORY = "commit_history"
"""Key in `worktree_meta` of a `CommitState`."""
_MADE = "commit_memories"
"""Key in `meta` of how many memories of commits the latest run left, and by which rules."""
_OF_COMMITS = f"layer = '{Layer.GOVERNANCE}' AND kind = '{Kind.COMMIT}' AND version = 0"
"""SQL condition on `memory_row`; the index by layer needs a status as well."""
_LIVE = f"{_OF_COMMITS} AND status = 'active'"
_OLDEST = f"""
    id IN (SELECT id FROM memory_row WHERE {_LIVE} ORDER BY updated_at DESC, id LIMIT -1 OFFSET ?)
"""


class CommitState(Struct, frozen=True, kw_only=True):
    """What the index of a worktree knows of its history."""

    head: str = ""
    """The commit up to which it was read; empty if nothing was read."""
    limit: int = 0
    """How many commits were to be read."""
    left_out: dict[str, int] = {}
    """Commits that say nothing, by reason."""
    is_shallow: bool = False
    is_complete: bool = True
    """Whether all memories are there; if not, a deadline left some to the next run."""


class CommitsMade(Struct, frozen=True):
    """What the latest run of any worktree left."""

    rules: str = ""
    memories: int = 0


def read_state(connection: sqlite3.Connection) -> CommitState:
    """Return what this worktree knows. Raises StoreDamaged."""
    written = read_index_meta(connection, _HISTORY)
    with damage_if_invalid("what is known of the commits"):
        return msgspec.json.decode(written or "{}", type=CommitState)


def write_state(connection: sqlite3.Connection, state: CommitState) -> None:
    """Write what this worktree knows; if it knows nothing, remove its state."""
    if state == CommitState():
        written = ""
    else:
        written = msgspec.json.encode(state).decode()
    write_index_meta(connection, _HISTORY, written)


def read_made(connection: sqlite3.Connection) -> CommitsMade:
    """Return what the latest run left. Raises StoreDamaged."""
    with damage_if_invalid("what is known of the commits"):
        return msgspec.json.decode(read_meta(connection, _MADE) or "{}", type=CommitsMade)


def write_made(connection: sqlite3.Connection, latest: CommitsMade) -> None:
    """Write what this run left."""
    if latest == CommitsMade():
        written = ""
    else:
        written = msgspec.json.encode(latest).decode()
    write_meta(connection, _MADE, written)


def heads_elsewhere(connection: sqlite3.Connection) -> list[str]:
    """Return the commits up to which the other worktrees were read. Raises StoreDamaged."""
    rows = connection.execute(
        f"SELECT value FROM worktree_meta WHERE key = ? AND worktree <> {HERE} ORDER BY worktree",
        (_HISTORY,),
    ).fetchall()
    with damage_if_invalid("what is known of the commits"):
        states = [msgspec.json.decode(value, type=CommitState) for (value,) in rows]
    return [state.head for state in states if state.head]


def count_commits(connection: sqlite3.Connection) -> int:
    """Return how many commits are memories."""
    row = connection.execute(f"SELECT count(*) FROM memory_row WHERE {_LIVE}").fetchone()
    return int(row[0])


def commit_counts(connection: sqlite3.Connection) -> CommitCounts:
    """Return what the latest run of this worktree left. Raises StoreDamaged."""
    state = read_state(connection)
    return CommitCounts(
        memories=count_commits(connection),
        left_out=dict(sorted(state.left_out.items())),
        is_shallow=state.is_shallow,
        is_complete=state.is_complete,
    )


def stored_commits(connection: sqlite3.Connection) -> set[str]:
    """Return the hashes of the commits that are memories."""
    rows = connection.execute(f"SELECT place FROM memory_row WHERE {_LIVE}")
    return {place for (place,) in rows.fetchall()}


def without_erased(connection: sqlite3.Connection, memories: Sequence[Memory]) -> list[Memory]:
    """Leave out the memories that were erased: no index run brings them back."""
    rows = connection.execute(
        f"SELECT memory_id FROM erased_memory WHERE memory_id {IN_JSON_LIST}",
        (json.dumps([memory.id for memory in memories]),),
    )
    erased = {id_ for (id_,) in rows.fetchall()}
    return [memory for memory in memories if memory.id not in erased]


def remove_commits(connection: sqlite3.Connection, *, keep: Iterable[str] = ()) -> int:
    """Remove the memories of all commits but these (their hashes), in an open transaction; return
    how many."""
    condition = f"{_LIVE} AND place NOT {IN_JSON_LIST}"
    return connection.execute(
        f"DELETE FROM memory_row WHERE {condition}", (json.dumps(list(keep)),)
    ).rowcount


def remove_beyond(connection: sqlite3.Connection, limit: int) -> int:
    """Remove the oldest memories of commits beyond this many, in an open transaction; return how
    many."""
    return connection.execute(f"DELETE FROM memory_row WHERE {_OLDEST}", (limit,)).rowcount
