"""Wait for what another process brings about, and read the store that it writes."""

import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.conftest import store_file

PATIENCE_S = 60.0


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
