"""Put one memory and tell what happened: its events, whose place it took, what it is tied to.

Whatever is said, counted, imported or put back is written here, so that each happening leaves its events once. It
decides nothing about the memory. Trade-off: one memory at a time; whoever writes thousands ties them together at the
end (`link`).
"""

import sqlite3

from xscore.memory import door
from xscore.memory.events import EventName, emit
from xscore.memory.mention_links import link_mentions
from xscore.records import Kind, Layer, Memory, Status


def write(
    connection: sqlite3.Connection,
    memory: Memory,
    *,
    before: Memory | None,
    now: float,
    thread: str | None = None,
    link: bool = True,
) -> tuple[str, ...]:
    """Put a memory and tell what happened; return the ids of those whose place it took. Call it inside a transaction.

    before: the memory as it was; None: it is new. thread: its working session; None: the one it had.
    link: tie it to the code it names; whoever writes many links them all at once.
    """
    superseded = _in_its_place(connection, memory)
    if thread is None:
        thread = "" if before is None else _thread(connection, memory.id)
    door.put(connection, [memory], thread=thread)
    payload = {"layer": memory.layer, "kind": memory.kind, "source": memory.source}
    name = EventName.STORED if before is None else EventName.UPDATED
    emit(connection, name, at=now, subject=memory.id, payload=payload)
    for identifier in superseded:
        emit(connection, EventName.UPDATED, at=now, subject=identifier, payload={"superseded_by": memory.id})
    if before is None and memory.kind is Kind.DECISION:
        emit(connection, EventName.DECISION, at=now, subject=memory.id)
    is_new_text = before is None or before.text != memory.text
    if link and is_new_text and memory.layer is not Layer.USER:
        link_mentions(connection, [memory.id])
    return superseded


def _in_its_place(connection: sqlite3.Connection, memory: Memory) -> tuple[str, ...]:
    if not memory.key or memory.status is not Status.ACTIVE:
        return ()
    found = connection.execute(
        "SELECT id FROM memory WHERE layer = ? AND scope = ? AND key = ? AND status = 'active' AND id <> ? ORDER BY id",
        (memory.layer, memory.scope, memory.key, memory.id),
    )
    return tuple(identifier for (identifier,) in found.fetchall())


def _thread(connection: sqlite3.Connection, identifier: str) -> str:
    (thread,) = connection.execute("SELECT thread FROM memory WHERE id = ?", (identifier,)).fetchone()
    return str(thread)
