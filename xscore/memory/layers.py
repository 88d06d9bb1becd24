"""The pool of a turn: every active or stale memory of all six layers, each layer read under a deadline of its own.

The layers of one store are read one after the other in one snapshot, because threads of one interpreter take longer for
it than one after the other does (`docs/decisions/0016-routing.md`). A layer that misses its deadline lets the others go
first, is finished afterwards, and is named. The project's store is what a turn cannot do without: its damage is an
error. The user's own store is not: what is wrong with it is reported, and the turn goes on without.
"""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Literal, NamedTuple

from xscore import database
from xscore.errors import StoreError
from xscore.memory import rows
from xscore.records import Candidate, Layer, LayerReport

Tests = Literal["cards", "full"]
AT_A_TIME = 2_000
"""Rows between two looks at the clock."""
OF_THE_STORE = (Layer.SESSION, Layer.PROJECT, Layer.GOVERNANCE, Layer.GRAPH, Layer.VECTOR)
"""Layers of a repository's store, in the order in which they are read: the small ones first."""


class Fetched(NamedTuple):
    """What all layers gave."""

    candidates: tuple[Candidate, ...]
    """Once for each content, in the order of path and line."""
    layers: tuple[LayerReport, ...]


def fetch(
    connection: sqlite3.Connection,
    user: Callable[[], sqlite3.Connection | None],
    *,
    tests: Tests = "cards",
    thread: str = "",
    deadline_s: float | None = None,
) -> Fetched:
    """Read the pool. Left out: exchanges of this very thread, which the answering model sees anyway. Nothing else.

    user: opens the user's own store; None: it takes no part. deadline_s: for each layer; None: none.
    Raises StoreDamaged where the table holds fewer memories than its index, by which it is read: so a torn page of the
    table hides nothing.
    """
    reader = _Reader(rows.CANDIDATE_COLUMNS[tests], thread, deadline_s)
    with database.snapshot(connection):
        of_store = [reader.begin(connection, layer) for layer in OF_THE_STORE]
        for begun in of_store:
            reader.finish(begun)
    everything = [*of_store, _of_user(reader, user)]
    found = [row for begun in everything for row in begun.rows]
    return Fetched(rows.candidates(found), tuple(begun.report() for begun in everything))


@dataclass(slots=True)
class _Begun:
    """A layer that is being read."""

    layer: Layer
    cursor: sqlite3.Cursor | None = None
    rows: list[Any] = field(default_factory=list)
    seconds: float = 0.0
    is_late: bool = False
    problem: str = ""

    def report(self) -> LayerReport:
        return LayerReport(self.layer, len(self.rows), round(self.seconds * 1000, 3), self.is_late, self.problem)


@dataclass(frozen=True, slots=True)
class _Reader:
    columns: str
    thread: str
    deadline_s: float | None

    def begin(self, connection: sqlite3.Connection, layer: Layer) -> _Begun:
        """Read a layer until its end or its deadline."""
        begun = _Begun(layer)
        started = perf_counter()
        begun.cursor = connection.execute(
            f"SELECT {self.columns} FROM memory INDEXED BY memory_by_layer"  # noqa: S608  columns are ours
            " WHERE layer = ? AND status IN ('active', 'stale') AND NOT (kind = 'exchange' AND thread = ?)",
            (layer, self.thread or "\0"),
        )
        while found := begun.cursor.fetchmany(AT_A_TIME):
            begun.rows += found
            if self.deadline_s is not None and perf_counter() - started > self.deadline_s:
                begun.is_late = True
                break
        begun.seconds = perf_counter() - started
        return begun

    def finish(self, begun: _Begun) -> None:
        """Read what a late layer has left, without a limit."""
        if begun.is_late and begun.cursor is not None:
            started = perf_counter()
            begun.rows += begun.cursor.fetchall()
            begun.seconds += perf_counter() - started


def _of_user(reader: _Reader, user: Callable[[], sqlite3.Connection | None]) -> _Begun:
    try:
        connection = user()
        if connection is None:
            return _Begun(Layer.USER)
        with database.snapshot(connection):
            begun = reader.begin(connection, Layer.USER)
            reader.finish(begun)
        return begun
    except StoreError as error:
        return _Begun(Layer.USER, problem=error.message)
