"""What a working session comes to, read from its turns and exchanges, and kept beside it as text.

It is made anew from what is there after each turn, so that nothing erased lives on in it once it was rebuilt. What is
read off the words is `session_summary`'s business. Trade-off: the latest turns are read, earlier ones only counted.
"""

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from xscore import database
from xscore.hashing import memory_id, ordinal
from xscore.memory import rows as stored
from xscore.memory.exchange_text import answer_in
from xscore.memory.session_summary import entry_of, summarise
from xscore.records import Kind, Layer, SessionEntry, SessionSummary

ENTRIES = 40
"""A summary rests on the first turn and the latest so many."""

_TURNS = (
    "SELECT id, turn_key, task, moment, state, answer <> '' FROM turn WHERE thread = ? AND task <> ''"
    " ORDER BY started_at DESC, id DESC LIMIT ?"
)
_FIRST = _TURNS.replace("DESC", "ASC")


def exchange_ordinal(turn_key: str) -> int:
    """Tell the exchange of one turn key from all others."""
    return ordinal("exchange", turn_key)


def exchange_id(turn_key: str) -> str:
    """Name the exchange that a turn with this key leaves behind."""
    return memory_id(Layer.SESSION, "", Kind.EXCHANGE, "", exchange_ordinal(turn_key))


def entries(connection: sqlite3.Connection, thread: str, *, limit: int = ENTRIES) -> list[SessionEntry]:
    """Read a session's first turn and its latest ones, oldest first, each task once.

    A turn that was answered is read only while its exchange is there: one that was erased is not told of.
    """
    rows = connection.execute(_TURNS, (thread, limit)).fetchall()
    if len(rows) == limit:
        rows += [row for row in connection.execute(_FIRST, (thread, 1)).fetchall() if row not in rows]
    latest = {row[1]: row for row in reversed(rows)}
    turns = sorted(latest.values(), key=rows.index, reverse=True)
    texts = _exchanges(connection, [exchange_id(row[1]) for row in turns])
    with database.making_sense("a turn"):
        told = [
            (row, json.loads(row[3]), texts.get(exchange_id(row[1])))
            for row in turns
            if not row[5] or exchange_id(row[1]) in texts
        ]
        named = _names(connection, {link for _, moment, _ in told for link in moment.get("links", ())})
        return [_entry(row, moment, text, named) for row, moment, text in told]


def summary_of(connection: sqlite3.Connection, thread: str) -> SessionSummary:
    """Return what the session comes to as of now."""
    told = entries(connection, thread)
    (turns,) = connection.execute(
        "SELECT count(DISTINCT turn_key) FROM turn WHERE thread = ? AND task <> ''", (thread,)
    ).fetchone()
    row = connection.execute("SELECT active_ticket FROM session WHERE thread = ?", (thread,)).fetchone()
    earlier = max(0, turns - len(told)) if turns > ENTRIES else 0
    return summarise(told, ticket=row[0] if row else "", earlier=earlier)


def rebuild_summary(connection: sqlite3.Connection, thread: str) -> SessionSummary:
    """Make the session's summary anew from the turns and exchanges that are there, and keep it.

    Whoever erases an exchange or a turn calls it afterwards, in the same transaction.
    """
    summary = summary_of(connection, thread)
    connection.execute("UPDATE session SET conversation_summary = ? WHERE thread = ?", (summary.text, thread))
    return summary


def _exchanges(connection: sqlite3.Connection, ids: list[str]) -> dict[str, str]:
    """Memory id -> text, of the exchanges that are there."""
    found = connection.execute(
        f"SELECT id, text FROM memory WHERE kind = 'exchange' AND id {stored.AMONG}",  # noqa: S608  ours
        (json.dumps(ids),),
    )
    return dict(found.fetchall())


def _names(connection: sqlite3.Connection, ids: set[str]) -> dict[str, str]:
    found = connection.execute(
        f"SELECT id, path, entity FROM memory WHERE id {stored.AMONG}",  # noqa: S608  ours
        (json.dumps(sorted(ids)),),
    ).fetchall()
    return {identifier: f"{path}::{entity}" if entity else path for identifier, path, entity in found if path}


def _entry(
    row: tuple[Any, ...], moment: Mapping[str, Any], exchange: str | None, named: Mapping[str, str]
) -> SessionEntry:
    turn_id, turn_key, task, _, state, _ = row
    return entry_of(
        turn_id=turn_id,
        exchange=exchange_id(turn_key) if exchange else "",
        task=task,
        answer=answer_in(exchange or ""),
        state=state,
        errors=moment.get("errors", ""),
        files=[moment.get("file", ""), *moment.get("recent", ()), *moment.get("paths", ())],
        names={link: named[link] for link in moment.get("links", ()) if link in named},
    )
