"""Read the rows of a table that lies partly on damaged pages: read up to an unreadable row, skip it, read on.

It reads in key order and finds the next readable key by doubling its stride and then halving it, so a damaged place
costs about a hundred queries however large it is. It checks no values. Trade-off: sound rows between two damaged places
that lie close together may be skipped too.
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
"""Longer than all our keys; keys with this much in common count as one."""


class KeySpace(Struct, frozen=True):
    """How the keys of a table map to whole numbers, in their order."""

    to_key: Callable[[int], object]
    to_number: Callable[[Any], int]
    end: int
    """After the last key."""


def _text_key(number: int) -> str:
    return "".join(chr(number >> 7 * place & 127) for place in reversed(range(_TEXT_CHARS)))


def _key_number(text: str) -> int:
    number = 0
    for char in text[:_TEXT_CHARS].ljust(_TEXT_CHARS, "\0"):
        number = number << 7 | min(ord(char), 127)
    return number


NUMBERS = KeySpace(int, int, 1 << 62)
TEXTS = KeySpace(_text_key, _key_number, 1 << 7 * _TEXT_CHARS)


class DamagedReader:
    """Reads one damaged database and counts the places it had to skip."""

    def __init__(self, open_it: Callable[[], sqlite3.Connection], *, reopens: bool = False) -> None:
        """Open the database. reopens: open it again after each failure, since SQLCipher then reads nothing more."""
        self._open, self._reopens = open_it, reopens
        self._connection = open_it()
        self.places = 0

    def read(self, sql: str, keys: KeySpace, *before: object) -> Iterator[DamagedRow]:
        """Yield the readable rows of `SELECT <key>, … WHERE … <key> >= ? ORDER BY <key>`.

        before: values of the parameters before the key's.
        """
        at, given_up = 0, self.places + MOST_PLACES
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

    def _next_readable(self, sql: str, keys: KeySpace, before: tuple[object, ...], at: int) -> int:
        """Find the first readable key: double the stride, then halve it."""
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
