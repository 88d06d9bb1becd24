"""The views of memories, table `memory_view`: what identifies each text that a judge may be shown.

A memory has a row for each of its texts (`Memory.texts`). A stated memory that is stale in one
worktree has further rows for that worktree, since the mark of stale memories is part of what is
hashed. Its SQL is here, but for what copies or counts whole tables (`takeover`, `prune`,
`salvage`); its triggers count the contents that memories show. A new view is a member of
`ViewName`, a text in `view_texts` and a place in `JUDGED_VIEWS`; no SQL names it. Trade-off: the
pool joins the table once for each view that a turn may judge (`docs/internals/decisions`).
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import product

import msgspec
from msgspec import Struct

from xscore.platform.database import damage_if_invalid
from xscore.records.memory import DEFAULT_VIEWS, MemoryStatus, View, ViewName

STALE_MARK = "[stale: the code this cites has changed since]\n"
"""Prefix of a stale memory's text for the judge, and so part of its content hash."""

ViewRow = tuple[str, str, str, int]
"""The id of a memory; name, hash and estimated tokens of one of its views."""
_PUT = """
    INSERT INTO memory_view (memory, view, worktree, hash, tokens)
    SELECT number, ?2, {worktree}, ?3, ?4 FROM memory_row WHERE id = ?1 AND version = ?5
    ON CONFLICT (memory, view, worktree) DO UPDATE SET hash = excluded.hash,
        tokens = excluded.tokens WHERE hash <> excluded.hash OR tokens <> excluded.tokens
"""
_DROP = """
    DELETE FROM memory_view WHERE view = ? AND worktree = 0 AND memory IN (
        SELECT number FROM memory_row WHERE version = ? AND id IN (SELECT value FROM json_each(?)))
"""
_CHOSEN = """(SELECT {column} FROM memory_view WHERE memory = memory_row.number
    AND view = '{view}' AND worktree IN (0, {worktree}) ORDER BY worktree DESC LIMIT 1)"""
_ALL = """(SELECT json_group_array(json_array(view, hash, tokens)) FROM (
    SELECT view, hash, tokens, max(worktree) FROM main.memory_view
    WHERE memory = memory_row.number AND worktree IN (0, {worktree}) GROUP BY view))"""
_VIEWS = msgspec.json.Decoder(list[tuple[str, str, int]])


def view_rows(identifier: str, views: Iterable[View]) -> list[ViewRow]:
    """Return the views of a memory as rows to be written."""
    return [(identifier, view.name, view.hash, view.tokens) for view in views]


def write_views(
    connection: sqlite3.Connection,
    rows: Sequence[ViewRow],
    *,
    version: int,
    are_new: bool = False,
) -> None:
    """Replace the views of these memories, whose rows are written; call it inside a transaction.

    rows: all views of each memory.
    version: version of the file that the memories come from; 0 if they are stated.
    are_new: the memories had no views until now, so none has to go.
    """
    if not rows:
        return
    # Written first: a content that stays must not be without a memory in between, which would
    # remove its vectors.
    connection.executemany(_PUT.format(worktree=0), ((*row, version) for row in rows))
    # SQLite prepares its statement anew for each value, which takes as long as writing a file.
    if are_new:
        return
    names_by_id: dict[str, set[str]] = defaultdict(set)
    for identifier, name, _, _ in rows:
        names_by_id[identifier].add(name)
    for view in ViewName:
        without = [identifier for identifier, names in names_by_id.items() if view not in names]
        if without:
            connection.execute(_DROP, (view, version, json.dumps(without)))


def write_views_here(
    connection: sqlite3.Connection, rows: Iterable[ViewRow], *, worktree: str
) -> None:
    """Write what stated memories are shown as in one worktree. worktree: SQL, its number."""
    connection.executemany(_PUT.format(worktree=worktree), ((*row, 0) for row in rows))


def views_in(worktree: int | str) -> str:
    """Return SQL on `memory_row`: its views in this worktree, as `decode_views` reads them.

    worktree: its number, or SQL for it; 0: as they are where the memory is not stale.
    """
    return _ALL.format(worktree=worktree)


def decode_views(written: str, *, needs_whole: bool = True) -> tuple[View, ...]:
    """Return the views of a memory from the column `views`, in the order of `ViewName`.

    One that a newer xscore wrote, of a name unknown here, is left out.
    needs_whole: every memory has that view, so one without it is damaged.
    Raises StoreDamaged.
    """
    with damage_if_invalid("a view of a memory"):
        rows = {name: (hash_, tokens) for name, hash_, tokens in _VIEWS.decode(written)}
        if needs_whole and ViewName.WHOLE not in rows:
            raise ValueError("that of its full text is missing")
    return tuple(View(name, *rows[name]) for name in ViewName if name in rows)


def of_judged_view(
    column: str, worktree: int | str, names: Sequence[ViewName] = DEFAULT_VIEWS
) -> str:
    """Return SQL on `memory_row`: hash or tokens of the first of these views. For few rows."""
    chosen = [_CHOSEN.format(column=column, view=name, worktree=worktree) for name in names]
    if len(chosen) > 1:
        return f"coalesce({', '.join(chosen)})"
    return chosen[0]


class JoinedViews(Struct, frozen=True):
    """SQL that reads the judged view of very many memories."""

    joins: str
    """SQL that follows `FROM memory_row`."""
    hash: str
    tokens: str


def join_judged_view(names: Sequence[ViewName], worktrees: Sequence[str]) -> JoinedViews:
    """Return how to read the first of these views of `memory_row`.

    worktrees: SQL for their numbers; the first that has a row counts.
    """
    joins: list[str] = []
    aliases: list[str] = []
    for view, worktree in product(names, worktrees):
        alias = f"view_{len(aliases)}"
        aliases.append(alias)
        # A left join keeps SQLite from walking over the views in the order of their table.
        joins.append(
            f"LEFT JOIN memory_view AS {alias} ON {alias}.memory = memory_row.number"
            f" AND {alias}.view = '{view}' AND {alias}.worktree = {worktree}"
        )
    columns: list[str] = []
    for column in ("hash", "tokens"):
        choices = [f"{alias}.{column}" for alias in aliases]
        columns.append(f"coalesce({', '.join(choices)}, NULL)")
    return JoinedViews(" ".join(joins), *columns)


def judge_text(text: str, *, status: str) -> str:
    """Return what a judge is shown of a text of a memory: the text, marked when stale."""
    if status == MemoryStatus.STALE:
        return STALE_MARK + text
    return text
