"""Code that a memory cites, and whether it still stands there."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from xscore.paths import Root
from xscore.records import Citation


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a look at the cited files came to."""

    stale: tuple[str, ...] = ()
    """Memories that became stale just now, by id."""
    active: tuple[str, ...] = ()
    """Memories whose code came back, by id."""
    moved: int = 0
    """Spans whose lines were updated."""
    files_read: int = 0

    @property
    def is_quiet(self) -> bool:
        """Whether no memory changed its state."""
        return not (self.stale or self.active)


def cite(root: Root, cited: str, *, connection: sqlite3.Connection | None = None) -> Citation:
    """Read `path:10-40`, `path:10`, `path` or `path::entity` and hash the span as it stands now.

    connection: of the store that knows the entities; None: entities cannot be cited. Raises UsageError.
    """
    raise NotImplementedError


def attach(connection: sqlite3.Connection, memory_id: str, citations: Iterable[Citation]) -> None:
    """Make these what the memory cites, in the place of all that it cited. Call it inside `database.transaction`."""
    raise NotImplementedError


def citations(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, tuple[Citation, ...]]:
    """Return what each of these memories cites, by path and line; memories without citations are missing."""
    raise NotImplementedError


def refresh(connection: sqlite3.Connection, root: Root, *, now: float) -> Refreshed:
    """Look at every cited file that is not as it was, and mark memories stale or active again. now: Unix seconds."""
    raise NotImplementedError
