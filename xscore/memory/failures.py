"""Failures: met, counted by signature, mended; from the third on (`memory.pattern_at`) a pattern to be avoided."""

import sqlite3
from collections.abc import Iterable

from xscore.memory.databases import Databases
from xscore.records import Failure, Memory


def record(
    store: Databases,
    *,
    text: str,
    because: str = "",
    resolution: str = "",
    origin: str = "",
    session: str = "",
    paths: Iterable[str] = (),
    seen_at: float | None = None,
    occurrence: str = "",
) -> Failure:
    """Count one occurrence of a failure, in a transaction of its own. See `record_within`."""
    raise NotImplementedError


def record_within(
    connection: sqlite3.Connection,
    *,
    text: str,
    because: str = "",
    resolution: str = "",
    origin: str = "",
    session: str = "",
    paths: Iterable[str] = (),
    seen_at: float,
    occurrence: str = "",
    pattern_at: int = 3,
) -> Failure:
    """Count one occurrence of a failure. Call it inside `database.transaction` of a repository's store.

    text: the error as it was shown. because: why it happened. resolution: what mended it.
    origin, session: where it was read; empty: it is said here. seen_at: Unix seconds.
    occurrence: any name of this very happening; one that was counted is not counted again. Empty: it is counted.
    """
    raise NotImplementedError


def resolve(store: Databases, memory_id: str, resolution: str, *, now: float | None = None) -> Failure:
    """Say what mended a failure; its pattern is told too. Raises NothingMatched, UsageError."""
    raise NotImplementedError


def failures(connection: sqlite3.Connection) -> list[Memory]:
    """Return the failures, those met most often first."""
    raise NotImplementedError
