"""Read the rows of a damaged database in key order, and skip what cannot be read.

SQLite stops at the first damaged page and says nothing about where the next sound row is. So
the reader looks for it by key: it doubles its stride until something can be read, then halves
it. Trade-off: sound rows between two damaged places that lie close together may be skipped.
"""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from xscore.platform.errors import StoreError

DamagedRow = tuple[Any, ...]

MOST_PLACES = 5_000
"""Give up the rest of a table after this many damaged places."""
_TEXT_CHARS = 34
"""Length of keys that are compared, longer than all of ours; keys with this much in common
count as one."""


class KeySpace(Struct, frozen=True):
    """How the keys of a table map to whole numbers, in their order."""

    to_key: Callable[[int], object]
    to_number: Callable[[Any], int]
    end: int
    """The place after the last key."""


def _text_key(number: int) -> str:
    # Seven bits a character: its keys are ASCII.
    shifts = range(7 * (_TEXT_CHARS - 1), -1, -7)
    return "".join(chr(number >> shift & 127) for shift in shifts)


def _key_number(text: str) -> int:
    number = 0
    for char in text[:_TEXT_CHARS].ljust(_TEXT_CHARS, "\0"):
        number = number << 7 | min(ord(char), 127)
    return number


NUMBERS = KeySpace(int, int, 1 << 62)
TEXTS = KeySpace(_text_key, _key_number, 1 << 7 * _TEXT_CHARS)


class DamagedReader:
    """Reads one damaged database and counts the places it had to skip."""

    def __init__(
        self, open_it: Callable[[], sqlite3.Connection], *, reopens: bool = False
    ) -> None:
        """Open the database. reopens: open it again after each failure, since SQLCipher then reads
        nothing more."""
        self._open = open_it
        self._reopens = reopens
        self._connection = open_it()
        self.places: int = 0

    def read(self, sql: str, keys: KeySpace, *before: object) -> Iterator[DamagedRow]:
        """Yield the readable rows of `SELECT <key>, … WHERE … <key> >= ? ORDER BY <key>`.

        before: values of the parameters before the key's.
        """
        at = 0
        given_up = self.places + MOST_PLACES
        while at < keys.end and self.places < given_up:
            try:
                for row in self._connection.execute(sql, (*before, keys.to_key(at))):
                    yield row
                    at = max(at, keys.to_number(row[0])) + 1
            except (StoreError, sqlite3.Error, TypeError, ValueError):
                self.places += 1
                self._reopen()
                at = self._next_readable(sql, keys, before, at)
            else:
                return

    def columns(self, table: str) -> list[str]:
        """Return the columns of a table, which may be of an older schema; empty if they cannot be
        read."""
        try:
            rows = self._connection.execute(f"PRAGMA table_info({table})").fetchall()
        except (StoreError, sqlite3.Error):
            self._reopen()
            return []
        return [row[1] for row in rows]

    def _next_readable(
        self, sql: str, keys: KeySpace, before: tuple[object, ...], at: int
    ) -> int:
        """Find the first readable key: double the stride, then halve it."""

        def can_read(number: int) -> bool:
            return self._can_read(sql, (*before, keys.to_key(number)))

        unreadable = at
        stride = 1
        while not can_read(min(at + stride, keys.end - 1)):
            unreadable = at + stride
            if unreadable >= keys.end:
                return keys.end
            stride *= 2
        readable = at + stride
        while readable - unreadable > 1:
            middle = (readable + unreadable) // 2
            if can_read(middle):
                readable = middle
            else:
                unreadable = middle
        return readable

    def _can_read(self, sql: str, parameters: tuple[object, ...]) -> bool:
        try:
            self._connection.execute(sql, parameters).fetchone()
        except (StoreError, sqlite3.Error):
            self._reopen()
            return False
        return True

    def _reopen(self) -> None:
        if self._reopens:
            self._connection.close()
            self._connection = self._open()

    def close(self) -> None:
        """Release the file."""
        self._connection.close()
