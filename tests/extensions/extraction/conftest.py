"""Sessions in a store, as hooks leave them there."""

from collections.abc import Sequence

from tests.extensions.extraction.planted_dialogs import Turn
from xscore.extensions.sessions.exchange_writer import ExchangeWriter, exchange_memory
from xscore.extensions.sessions.session_reader import ImportedExchange
from xscore.platform.clock import DAY_S
from xscore.store.store import Store

NOW = 1_790_000_000.0
"""Long ago, whenever the tests run: by the real clock of a command these sessions are over."""


def put_session(
    store: Store,
    thread: str,
    turns: Sequence[Turn],
    *,
    at: float = NOW - DAY_S,
    now: float = NOW,
) -> list[str]:
    """Store the exchanges of a session as the `stop` hook does; return their ids."""
    writer = ExchangeWriter(store, now=now, thread=thread)
    ids: list[str] = []
    for number, (task, answer) in enumerate(turns):
        exchange = ImportedExchange(
            origin="claude-code",
            session=thread,
            identity=f"{thread}-{number}",
            asked=task,
            answered=answer,
            at=at + number,
            ended_at=at + number,
            cwd=str(store.root.path),
        )
        new = exchange_memory(exchange, store.root, now=now)
        writer.add([new])
        ids.append(new.memory.id)
    writer.finish()
    return ids
