"""Put one memory and tell what happened: its events, whose place it took, what it is tied to.

Whatever is said, counted, imported or put back is written here, so that each happening leaves its events once. It
decides nothing about the memory. Trade-off: one memory at a time; whoever writes thousands ties them together at the
end (`link`).
"""

import sqlite3

from xscore.memory import door
from xscore.memory.events import EventName, emit
from xscore.memory.links.mention_links import link_mentions
from xscore.records import Kind, Layer, Memory


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
    link: tie it to the code it names; whoever writes many links them all at once (those that `is_linked` names).
    """
    if thread is None:
        thread = "" if before is None else _thread(connection, memory.id)
    superseded = door.put(connection, [memory], thread=thread)
    payload = {"layer": memory.layer, "kind": memory.kind, "source": memory.source}
    name = EventName.STORED if before is None else EventName.UPDATED
    emit(connection, name, at=now, subject=memory.id, payload=payload)
    for identifier in superseded:
        emit(connection, EventName.UPDATED, at=now, subject=identifier, payload={"superseded_by": memory.id})
    if before is None and memory.kind is Kind.DECISION:
        emit(connection, EventName.DECISION, at=now, subject=memory.id)
    if link and is_linked(memory, before):
        link_mentions(connection, [memory.id])
    return superseded


def is_linked(memory: Memory, before: Memory | None) -> bool:
    """Whether a memory is to be tied anew to what it names. The user's own name no repository's code."""
    return memory.layer is not Layer.USER and (before is None or before.text != memory.text)


def _thread(connection: sqlite3.Connection, identifier: str) -> str:
    (thread,) = connection.execute("SELECT thread FROM memory WHERE id = ?", (identifier,)).fetchone()
    return str(thread)
