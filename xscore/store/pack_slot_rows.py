"""Which pack each memory is judged in, as rows of table `pack_slot`.

A pack keeps its members from turn to turn, so that its prompt stays the same and the host's cache
serves it. Who is in which pack is `scorer.packs`' business.
"""

import sqlite3

from xscore.platform import database
from xscore.records.candidates import Slot, Slots
from xscore.store.worktrees import HERE


def load_pack_slots(connection: sqlite3.Connection, profile: str) -> dict[str, Slot]:
    """Return which pack each memory is judged in under this packing profile."""
    query = (
        "SELECT memory_id, pack, position FROM pack_slot WHERE "
        f"worktree = {HERE} AND profile = ?"
    )
    rows = connection.execute(query, (profile,))
    return {identifier: Slot(pack, position) for identifier, pack, position in rows.fetchall()}


def save_pack_slots(connection: sqlite3.Connection, profile: str, slots: Slots) -> None:
    """Replace the slots of the profile, writing only changed rows."""
    with database.transaction(connection):
        stored = load_pack_slots(connection, profile)
        connection.executemany(
            f"DELETE FROM pack_slot WHERE worktree = {HERE} AND profile = ? AND memory_id = ?",
            [(profile, identifier) for identifier in stored.keys() - slots.keys()],
        )
        changed: list[tuple[str, str, str, int]] = []
        for identifier, slot in slots.items():
            if stored.get(identifier) != slot:
                changed.append((profile, identifier, *slot))
        connection.executemany(
            "INSERT OR REPLACE INTO pack_slot (worktree, profile, memory_id, pack, position)"
            f" VALUES ({HERE}, ?, ?, ?, ?)",
            changed,
        )
