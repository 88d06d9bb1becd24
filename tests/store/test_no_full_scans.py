"""Every turn and erasure queries the store by an index, so that it does not slow down with more code."""

import sqlite3
from collections.abc import Iterator

import pytest

from tests.store.conftest import put, said
from tests.store.played import play
from xscore.extensions.learning import audit
from xscore.extensions.privacy import erasure_plan
from xscore.store import memory_rows, turn_history
from xscore.store.store import Store


@pytest.fixture
def asked(store: Store) -> Iterator[list[str]]:
    """Collect the executed statements."""
    sent: list[str] = []
    play(store, "fix the heron")
    put(store.connection, said())
    store.connection.set_trace_callback(sent.append)
    yield sent
    store.connection.set_trace_callback(None)


def scans(connection: sqlite3.Connection, sent: list[str]) -> list[str]:
    """Return those that read the whole memory table."""
    connection.set_trace_callback(None)
    reads = [sql for sql in sent if sql.lstrip().startswith("SELECT")]
    assert reads
    plans = {sql: [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()] for sql in reads}
    return [sql for sql, steps in plans.items() if any(step == "SCAN memory" for step in steps)]


def test_a_turn_finds_its_exchanges_by_an_index(store: Store, asked: list[str]) -> None:
    """H02: each answering turn reads its thread's last exchanges; even among 10,000 functions it reads few rows."""
    assert len(turn_history.exchanges(store.connection, "s_1")) == 1
    assert scans(store.connection, asked) == []


def test_an_erasure_finds_what_goes_along_by_an_index(store: Store, asked: list[str]) -> None:
    """P06: only the search for lines that others share must read all memories."""
    (exchange,) = turn_history.exchanges(store.connection, "s_1")
    erasure_plan.plan_erasure(store.connection, [exchange.id])
    assert [sql for sql in scans(store.connection, asked) if "char(10)" not in sql] == []


def test_an_audit_reads_what_was_said_by_an_index(store: Store, asked: list[str]) -> None:
    """Auditing a large repository costs by its statements, not by its index."""
    assert len(memory_rows.select_memories(store.connection, audit._LIVE, ())) == 2
    assert scans(store.connection, asked) == []
