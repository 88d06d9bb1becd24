"""Which pack each memory is judged in, kept so that packs stay byte-stable over turns. Rows and nothing else."""

import sqlite3
from collections.abc import Mapping

from xscore import database

Slots = dict[str, tuple[str, int]]
"""Memory id -> (pack, position)."""


def slots(connection: sqlite3.Connection, profile: str) -> Slots:
    """Return which pack each memory is judged in under this packing profile."""
    found = connection.execute("SELECT memory_id, pack, position FROM slot WHERE profile = ?", (profile,))
    return {identifier: (pack, position) for identifier, pack, position in found.fetchall()}


def save_slots(connection: sqlite3.Connection, profile: str, wanted: Mapping[str, tuple[str, int]]) -> None:
    """Make these the slots of the profile; rows that stay as they are are not written."""
    with database.transaction(connection):
        known = slots(connection, profile)
        connection.executemany(
            "DELETE FROM slot WHERE profile = ? AND memory_id = ?",
            [(profile, identifier) for identifier in known.keys() - wanted.keys()],
        )
        connection.executemany(
            "INSERT INTO slot (profile, memory_id, pack, position) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (profile, memory_id) DO UPDATE SET pack = excluded.pack, position = excluded.position",
            [(profile, identifier, *slot) for identifier, slot in wanted.items() if known.get(identifier) != slot],
        )
