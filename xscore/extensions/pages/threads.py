"""The working session around a turn: earlier questions, what was carried, what changed.

Trade-off: what a turn kept is compared with the turn before it by the names that its receipt gave.
"""

import sqlite3

from msgspec.structs import replace

from xscore.extensions.pages.records import ThreadTurn
from xscore.pipeline.stored_receipt import read_receipt
from xscore.platform.errors import StoreDamaged
from xscore.platform.text import ellipsize
from xscore.records.receipt import Answer, Selected
from xscore.records.reports import ListedTurn
from xscore.store.turn_history import TurnFilter, list_turns, past_turn

TURNS_SHOWN = 12
NAMES_SHOWN = 8
NAME_CHARS = 60


def thread_of(
    connection: sqlite3.Connection, turn: ListedTurn, receipt: Answer | None, *, now: float
) -> tuple[ThreadTurn, ...]:
    """Return the turns of a working session, oldest first; empty if this is its only one."""
    until_this = _turns_until(connection, turn, now=now)
    if len(until_this) < 2:
        return ()
    carried: dict[str, int] = {}
    if receipt is not None:
        carried = {source.turn_id: source.memories for source in receipt.carried_over.under}
    turns: list[ThreadTurn] = []
    # Names that the latest turn before kept, if it left a receipt.
    names_before: dict[str, str] | None = None
    for listed in until_this[-TURNS_SHOWN - 1 :]:
        names = _kept_names(connection, listed.id)
        session_turn = ThreadTurn(
            turn=listed, carried=carried.get(listed.id, 0), is_this=listed.id == turn.id
        )
        if names is not None:
            if names_before is not None:
                added = _names_of(names, without=names_before)
                dropped = _names_of(names_before, without=names)
                session_turn = replace(session_turn, added=added, dropped=dropped)
            names_before = names
        turns.append(session_turn)
    return tuple(turns[-TURNS_SHOWN:])


def _turns_until(
    connection: sqlite3.Connection, turn: ListedTurn, *, now: float
) -> list[ListedTurn]:
    """Return the turns of its working session up to this one, oldest first."""
    if not turn.thread:
        return []
    listing = list_turns(connection, TurnFilter(limit=None, thread=turn.thread), now=now)
    turns: list[ListedTurn] = []
    # They are listed latest first.
    for listed in reversed(listing.turns):
        if listed.thread == turn.thread and listed.at <= turn.at:
            turns.append(listed)
    return turns


def _kept_names(connection: sqlite3.Connection, turn_id: str) -> dict[str, str] | None:
    """Return the names of what a turn kept, by memory id; None if it left no readable
    receipt."""
    past = past_turn(connection, turn_id)
    if past is None or not past.receipt:
        return None
    try:
        receipt = read_receipt(past.receipt)
    except StoreDamaged:
        return None
    return {memory.id: name_of(memory) for memory in receipt.selected}


def name_of(memory: Selected) -> str:
    """Return what a memory is called in a list."""
    return memory.entity or memory.title or memory.path or memory.id


def _names_of(kept: dict[str, str], *, without: dict[str, str]) -> tuple[str, ...]:
    names = [ellipsize(name, NAME_CHARS) for id_, name in kept.items() if id_ not in without]
    if len(names) > NAMES_SHOWN:
        return (*names[:NAMES_SHOWN], f"{len(names) - NAMES_SHOWN} more")
    return tuple(names)
