"""The rows of a table that lies partly on damaged pages: read on until one cannot be read, jump over it, read on.

It reads in the order of a key, and finds the first key behind a damaged place by doubling its stride and then halving
it, so a place costs some hundred looks however large it is. It believes nothing it reads; `memory.salvage` decides.
Trade-off: sound rows between two damaged places that lie close together may be jumped over too.
"""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from xscore.errors import StoreError

Row = tuple[Any, ...]

MOST_PLACES = 5_000
"""Damaged places of one table after which the rest is given up."""
_TEXT_CHARS = 34
"""Longer than every key of ours; keys that agree so far count as one."""


@dataclass(slots=True)
class Keys:
    """How the keys of a table stand on a line of whole numbers."""

    to_key: Callable[[int], object]
    to_number: Callable[[Any], int]
    end: int
    """Behind the last key."""


def _text(number: int) -> str:
    return "".join(chr(number >> 7 * place & 127) for place in reversed(range(_TEXT_CHARS)))


def _number(text: str) -> int:
    number = 0
    for char in text[:_TEXT_CHARS].ljust(_TEXT_CHARS, "\0"):
        number = number << 7 | min(ord(char), 127)
    return number


NUMBERS = Keys(int, int, 1 << 62)
TEXTS = Keys(_text, _number, 1 << 7 * _TEXT_CHARS)


class DamagedRows:
    """A reader of one damaged database, and how many places it had to jump over."""

    def __init__(self, open_it: Callable[[], sqlite3.Connection], *, anew: bool = False) -> None:
        """Open the database; anew: again after each failure, as SQLCipher reads nothing more after a damaged page."""
        self._open, self._anew = open_it, anew
        self._connection = open_it()
        self.places = 0

    def read(self, sql: str, keys: Keys, *before: object) -> Iterator[Row]:
        """Yield what can be read of `SELECT <key>, … WHERE … <key> >= ? ORDER BY <key>`.

        before: values of the parameters in front of the key's.
        """
        at, given_up = 0, self.places + MOST_PLACES
        while at < keys.end and self.places < given_up:
            try:
                for row in self._connection.execute(sql, (*before, keys.to_key(at))):
                    yield row
                    at = max(at, keys.to_number(row[0])) + 1
            except (StoreError, sqlite3.Error, TypeError, ValueError):
                self.places += 1
                self._go_on()
                at = self._behind(sql, keys, before, at)
            else:
                return

    def columns(self, table: str) -> frozenset[str]:
        """Name the columns that the table has in this database; none where it has no such table."""
        try:
            return frozenset(row[1] for row in self._connection.execute(f"PRAGMA table_info({table})").fetchall())
        except (StoreError, sqlite3.Error):
            self._go_on()
            return frozenset()

    def _behind(self, sql: str, keys: Keys, before: tuple[object, ...], at: int) -> int:
        """Find the first key from which on can be read again."""
        unreadable, stride = at, 1
        while not self._can_read(sql, (*before, keys.to_key(min(at + stride, keys.end - 1)))):
            unreadable = at + stride
            if unreadable >= keys.end:
                return keys.end
            stride *= 2
        readable = at + stride
        while readable - unreadable > 1:
            middle = (readable + unreadable) // 2
            if self._can_read(sql, (*before, keys.to_key(middle))):
                readable = middle
            else:
                unreadable = middle
        return readable

    def _can_read(self, sql: str, parameters: tuple[object, ...]) -> bool:
        try:
            self._connection.execute(sql, parameters).fetchone()
        except (StoreError, sqlite3.Error):
            self._go_on()
            return False
        return True

    def _go_on(self) -> None:
        if self._anew:
            self._connection.close()
            self._connection = self._open()

    def close(self) -> None:
        """Release the file."""
        self._connection.close()
