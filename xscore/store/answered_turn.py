"""The memory that an answered turn becomes: its exchange, named by its turn key, so that asking
again updates it.

Trade-off: the answer is stored as it was given, and is judged like any other memory.
"""

import sqlite3

from xscore.records.memory import Kind, Layer, MemoryDetails, MemoryScope, MemorySource
from xscore.store.memory_rows import memory_with_id
from xscore.store.memory_writer import make_memory, write_memory
from xscore.store.session_summary import (
    TurnContext,
    exchange_card,
    exchange_ordinal,
    exchange_text,
)

_TITLE_CHARS = 80


def save_exchange(
    connection: sqlite3.Connection,
    turn_id: str,
    answer: str,
    context: TurnContext,
    *,
    now: float,
) -> None:
    """Write the memory of a turn whose row is stored. Call it inside `database.transaction`.

    answer, context: redacted.
    now: Unix seconds.
    """
    query = "SELECT thread, turn_key, task FROM turn WHERE id = ?"
    thread, turn_key, task = connection.execute(query, (turn_id,)).fetchone()
    lines = task.strip().splitlines()
    exchange, _ = make_memory(
        layer=Layer.SESSION,
        kind=Kind.EXCHANGE,
        title=lines[0][:_TITLE_CHARS] if lines else "(no task)",
        text=exchange_text(task, answer),
        card=exchange_card(answer, ", ".join(context.paths)),
        ordinal=exchange_ordinal(turn_key),
        details=MemoryDetails(links=context.links, paths=context.paths),
        key=turn_key,
        scope=MemoryScope.SESSION,
        source=MemorySource.EXPLICIT,
        created_at=now,
        updated_at=now,
        allow_pii=True,  # the user's own words, which the turn stores too
    )
    before = memory_with_id(connection, exchange.id)
    write_memory(connection, exchange, before=before, now=now, thread=thread)
