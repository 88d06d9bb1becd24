"""The memory that an answered turn becomes: its exchange, named by its turn key, so that asking
again updates it.

Trade-off: the answer is stored as it was given, and is judged like any other memory.
"""

import sqlite3

from msgspec import Struct

from xscore.records.memory import Kind, Layer, Memory, MemoryDetails, MemoryScope, MemorySource
from xscore.store.memory_rows import memory_with_id
from xscore.store.memory_writer import make_memory, write_memory
from xscore.store.session_summary import (
    TurnContext,
    exchange_card,
    exchange_ordinal,
    exchange_text,
)

_TITLE_CHARS = 80


class AnsweredTurn(Struct, frozen=True):
    """What a turn asked, and what came of it; all of it redacted."""

    turn_key: str
    thread: str
    task: str
    answer: str
    context: TurnContext


def save_exchange(connection: sqlite3.Connection, turn: AnsweredTurn, *, now: float) -> None:
    """Write the memory of this turn. Call it inside `database.transaction`. now: Unix seconds."""
    exchange = _memory_of(turn, now=now)
    before = memory_with_id(connection, exchange.id)
    write_memory(connection, exchange, before=before, now=now, thread=turn.thread)


def _memory_of(turn: AnsweredTurn, *, now: float) -> Memory:
    context = turn.context
    lines = turn.task.strip().splitlines()
    memory, _ = make_memory(
        layer=Layer.SESSION,
        kind=Kind.EXCHANGE,
        title=lines[0][:_TITLE_CHARS] if lines else "(no task)",
        text=exchange_text(turn.task, turn.answer),
        card=exchange_card(turn.answer, ", ".join(context.paths)),
        ordinal=exchange_ordinal(turn.turn_key),
        details=MemoryDetails(links=context.links, paths=context.paths),
        key=turn.turn_key,
        scope=MemoryScope.SESSION,
        source=MemorySource.EXPLICIT,
        created_at=now,
        updated_at=now,
        allow_pii=True,  # the user's own words, which the turn stores too
    )
    return memory
