"""Checkpoints: a working session under a name, with its goals, names and open tasks, to be taken up in any later turn.

A row holds what was extracted from the session's turns, entry by entry, and names memories by id; no text of a memory
is copied. Trade-off: what was erased since is missing from a checkpoint that is loaded, and `scrub` takes its lines
out too.
"""

import sqlite3
from collections.abc import Iterable, Sequence

from xscore.records import Checkpoint

NAME_CHARS = 64


def save(
    connection: sqlite3.Connection,
    name: str,
    *,
    thread: str,
    notes: Sequence[str] = (),
    goals: Sequence[str] = (),
    persona: str = "",
    now: float,
) -> Checkpoint:
    """Keep the session as it stands under this name; one of that name is replaced. Raises UsageError for a bad name."""
    raise NotImplementedError


def load(connection: sqlite3.Connection, name: str) -> Checkpoint:
    """Return a checkpoint. Raises UsageError with the names that come near."""
    raise NotImplementedError


def checkpoints(connection: sqlite3.Connection) -> list[Checkpoint]:
    """Return all checkpoints, newest first."""
    raise NotImplementedError


def delete(connection: sqlite3.Connection, name: str) -> None:
    """Erase a checkpoint for good: nothing of it stays in the files. Raises UsageError, StoreError."""
    raise NotImplementedError


def scrub(connection: sqlite3.Connection, ids: Iterable[str]) -> int:
    """Take what was extracted from these exchanges or turns out of every checkpoint; return how many were changed.

    For whoever erases them, in the transaction that does it.
    """
    raise NotImplementedError


def render(checkpoint: Checkpoint) -> str:
    """Return the checkpoint in words, for the answer prompt: goals, open tasks, names, notes, what was done."""
    raise NotImplementedError
