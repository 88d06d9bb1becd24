"""Wait for what another process brings about, and read the store that it writes."""

import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.conftest import store_file

PATIENCE_S = 60.0
SLOWNESS = (1, 4, 16)
"""How many times as long each attempt of a test with a deadline takes."""


def wait_until(
    holds: Callable[[], object],
    process: subprocess.Popen[str] | None = None,
    *,
    otherwise: str = "it did not come about",
) -> None:
    """Wait for a condition. process: that brings it about, and may not end before."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end, otherwise
        time.sleep(0.01)


class TooSlowError(AssertionError):
    """The machine did not do in time what a test needs before it can look at its promise."""


class Attempt:
    """One attempt of a test with a deadline, to which the test gives fixtures of its own.

    Every assertion in it fails the test at once. Only `needs` lets a slower attempt follow.
    """

    def __init__(
        self, number: int, slowness: int, earlier: list[str], *, is_last: bool
    ) -> None:
        self.number = number
        self.slowness = slowness
        """How many times as long as in the first attempt everything takes."""
        self.was_too_slow = False
        self._is_last = is_last
        self._earlier = earlier

    def needs(self, is_there: object, missing: str) -> None:
        """Give the attempt up if something is not there that only a slow machine leaves out."""
        if not is_there:
            raise TooSlowError(missing)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _: type[BaseException] | None,
        error: BaseException | None,
        __: TracebackType | None,
    ) -> bool:
        if not isinstance(error, TooSlowError):
            return False
        self.was_too_slow = True
        self._earlier.append(f"{self.slowness} times as long: {error}")
        if self._is_last:
            raise TooSlowError("; ".join(self._earlier))
        return True


def slower_attempts(*slowness: int) -> Iterator[Attempt]:
    """Attempts of a test, each slower than the one before, until one is not too slow; after the
    last one the test fails with what each lacked. `for attempt in slower_attempts(): with attempt:`
    """
    all_slowness = slowness or SLOWNESS
    earlier: list[str] = []
    for number, times in enumerate(all_slowness):
        attempt = Attempt(number, times, earlier, is_last=number + 1 == len(all_slowness))
        yield attempt
        if not attempt.was_too_slow:
            return


def rows(root: Path, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Query the store of a repository."""
    return rows_of_file(store_file(root), sql, *parameters)


def rows_of_file(path: Path, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Query a store."""
    with closing(
        sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
    ) as connection:
        return connection.execute(sql, parameters).fetchall()


def count_rows(place: Path, table: str) -> int:
    """Count the rows of a table; 0 if there is no store yet. place: a repository, or the file."""
    path = place if place.suffix == ".db" else store_file(place)
    try:
        return int(rows_of_file(path, f"SELECT count(*) FROM {table}")[0][0])
    except sqlite3.OperationalError:
        return 0
