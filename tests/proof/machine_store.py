"""The state machine's hands on the store's files: which turns it holds, read with plain SQL, and how it is damaged."""

import sqlite3
from contextlib import closing
from pathlib import Path

from msgspec import Struct, field

from tests.proof.machine_turns import Ask

PAID = """EXISTS (
    SELECT 1 FROM query JOIN judgment ON query.id = query_id
    WHERE query.turn_key = turn.turn_key AND query.judge = turn.judge)"""
"""Whether anything was judged of a turn."""


class Turns(Struct):
    """The turns of a store in the order in which they were begun, whatever the clock said."""

    database: Path
    begun: list[str] = field(default_factory=list)
    salvaged: frozenset[str] = frozenset()

    def look(self) -> None:
        """Take note of what was begun since the last look."""
        new = {row[0] for row in self._rows("SELECT id FROM turn")} - set(self.begun)
        assert len(new) <= 1, "one step begins at most one turn"
        self.begun += new

    def begin_anew(self) -> None:
        """Look at a store that was built anew: its turns are salvaged, and may have been damaged unnoticed."""
        self.begun = [row[0] for row in self._rows("SELECT id FROM turn ORDER BY started_at, id DESC")]
        self.salvaged = frozenset(self.begun)

    def back(self, steps: int) -> str:
        """Name the turn so many before the latest; where there are not so many, one that never was."""
        return self.begun[-1 - steps] if steps < len(self.begun) else "t_never"

    def to_finish(self, turn: str, ask: Ask, judge: str) -> bool:
        """Whether there is something to continue in this turn, and this judge (its key) may."""
        if not self.begun:
            return False
        found = self._rows(f"SELECT state, answer, judge, {PAID} FROM turn WHERE id = ?", turn)
        return any(
            (state != "done" or (ask.answers and not answer)) and (judged_by == judge or not paid)
            for state, answer, judged_by, paid in found
        )

    def _rows(self, sql: str, *parameters: str) -> list[tuple[str, ...]]:
        with closing(sqlite3.connect(f"{self.database.as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute(sql, parameters).fetchall()


def damage(file: Path, how: str, where: float, data: bytes) -> bool:
    """Damage a file of the store at a share of its length; say whether there was something to damage."""
    if not file.exists() or (how == "delete" and file.name == "memory.db"):
        return False
    size = file.stat().st_size
    if how == "delete":
        file.unlink()
        return True
    with file.open("r+b") as opened:
        opened.seek(int(where * size))
        if how == "cut":
            opened.truncate()
        else:
            opened.write(data[: max(1, size - opened.tell())])
    return size > 0
