"""The schema: tables, checks, triggers, views; and that every turn and erasure reads by an
index."""

import json
import sqlite3
from collections.abc import Iterator
from typing import get_args

import pytest

from tests.statements import list_events
from tests.store.conftest import function, put, said
from tests.store.recorded_turns import record_turn
from xscore.extensions.learning import audit
from xscore.extensions.privacy import erasure_plan
from xscore.platform.errors import StoreDamaged
from xscore.platform.hashing import file_id
from xscore.records.memory import Kind, Layer, MemoryScope, MemorySource
from xscore.settings import Settings
from xscore.settings.values import Ceiled
from xscore.store import memory_rows, memory_writer
from xscore.store.events import EventName, emit_event
from xscore.store.memory_queries import latest_exchanges
from xscore.store.store import Store


def columns(store: Store, name: str) -> list[str]:
    """Return the columns of a table or view."""
    return [row[1] for row in store.connection.execute(f"PRAGMA table_info({name})").fetchall()]


def plan(store: Store, sql: str, *parameters: object) -> str:
    """Return the query plan in words."""
    return " | ".join(
        row[3]
        for row in store.connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall()
    )


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        ("SELECT id FROM memory WHERE path = 'a' AND entity = 'b'", "memory_by_path"),
        ("SELECT * FROM edge WHERE target = 'm_a'", "edge_by_target"),
        ("SELECT * FROM edge WHERE source = 'm_a'", "PRIMARY KEY"),
        ("SELECT * FROM judgment WHERE query_id = 1", "PRIMARY KEY"),
        ("SELECT * FROM query WHERE turn_key = 'a' AND judge = 'b' AND sample = 0", "INDEX"),
        ("SELECT * FROM call WHERE turn_id = 't'", "call_by_turn"),
        ("SELECT * FROM mention WHERE name = 'f'", "mention_by_name"),
        ("SELECT * FROM vec WHERE text_hash = 'm'", "INDEX"),
        ("SELECT * FROM vec WHERE embedder = 'e' AND text_hash > 'a'", "vec_by_embedder"),
        ("DELETE FROM sign_block WHERE block = 7", "INDEX"),
        ("SELECT * FROM reservation WHERE turn_id = 't'", "reservation_by_turn"),
    ],
)
def test_every_hot_question_has_its_index(store: Store, sql: str, index: str) -> None:
    """No query of a turn scans a table."""
    query_plan = plan(store, sql)
    assert index in query_plan
    assert "SCAN" not in query_plan


def test_events_are_only_ever_appended(store: Store) -> None:
    """H09: no event is deleted or rewritten; erasing may only blank a payload."""
    emit_event(store.connection, EventName.STORED, at=1.0, subject="m_a", payload={"n": 1})
    for sql in (
        "DELETE FROM event",
        "UPDATE event SET name = 'x'",
        "UPDATE event SET payload = '{}'",
    ):
        with pytest.raises(StoreDamaged, match="append-only"):
            store.connection.execute(sql)
    store.connection.execute("INSERT INTO meta VALUES ('erasing', '1')")
    for sql in (
        "DELETE FROM event",
        "UPDATE event SET at = 2, payload = '{}'",
        "UPDATE event SET payload = '[1]'",
    ):
        with pytest.raises(StoreDamaged, match="append-only"):
            store.connection.execute(sql)
    store.connection.execute("UPDATE event SET payload = '{}'")
    assert [(event.name, event.payload) for event in list_events(store.connection)] == [
        (EventName.STORED, {})
    ]


def test_the_views_show_memories_in_the_agreed_forms(store: Store) -> None:
    """H05, H06, H07, H08, H09: facts, preferences, patterns, chunks, nodes and decisions are views
    of one table."""
    project = {"layer": Layer.PROJECT, "path": "", "source": MemorySource.EXPLICIT}
    user = {"layer": Layer.USER, "path": "", "scope": MemoryScope.GLOBAL}
    memories = [
        function("uses", kind=Kind.TECH_STACK, key="database", text="SQLite", **project),
        function("choice", kind=Kind.DECISION, text="One table.", **project),
        function("tabs", kind=Kind.PREFERENCE, key="indent", text="spaces", **user),
        function("early", kind=Kind.PATTERN, text="return early", **user),
        function("readme", kind=Kind.DOC, layer=Layer.VECTOR, path="README.md"),
        function("code"),
    ]
    put(store.connection, *memories)
    store.connection.execute(
        "INSERT INTO file_row (worktree, path, size, mtime_ns, file_hash) VALUES (1, 'a.py', 1, 1,"
        " 'h')"
    )
    attrs = json.dumps({"rationale": "simple", "alternatives": ["six"], "links": []})
    store.connection.execute(
        "UPDATE memory_row SET attrs = ? WHERE kind = 'decision'", (attrs,)
    )

    def rows(sql: str) -> list[tuple[object, ...]]:
        return list(store.connection.execute(sql).fetchall())

    assert rows(
        "SELECT project_id, category, key, value_json FROM project_facts WHERE key <> ''"
    ) == [(store.store_id, "tech_stack", "database", '{"text":"SQLite"}')]
    assert rows("SELECT key, value, source FROM user_preferences") == [
        ("indent", "spaces", "index")
    ]
    assert rows("SELECT type, description, evidence_count FROM user_patterns") == [
        ("pattern", "return early", 1)
    ]
    assert rows("SELECT path, entity FROM vector_chunks") == [("README.md", "readme")]
    assert rows("SELECT id, type FROM nodes ORDER BY type") == [
        (file_id("a.py"), "file"),
        (memories[4].id, "slice"),
        (memories[5].id, "symbol"),
    ]
    assert rows(
        "SELECT description, rationale, alternatives_json, links_json, created_by FROM decisions"
    ) == [("One table.", "simple", '["six"]', "[]", "explicit")]
    assert "created_at" in columns(store, "decisions")


def test_contents_are_counted_by_the_memories_that_show_them(store: Store) -> None:
    """A content's count follows every insert, edit and removal of memories, also those made
    directly."""
    twins = [function(ordinal=i) for i in range(2)]
    put(store.connection, *twins)
    count = "SELECT memories FROM content WHERE hash = ?"
    assert store.connection.execute(count, (twins[0].content_hash,)).fetchone() == (2,)
    put(store.connection, function(ordinal=1, text="other"))
    assert store.connection.execute(count, (twins[0].content_hash,)).fetchone() == (1,)
    store.connection.execute("DELETE FROM memory_row")
    assert set(store.connection.execute("SELECT memories FROM content").fetchall()) == {(0,)}


def test_a_content_number_is_never_dealt_twice(store: Store) -> None:
    """A reused row number can never attach a judgment to another content."""
    store.connection.execute("INSERT INTO content (hash) VALUES ('a')")
    (first,) = store.connection.execute("SELECT max(id) FROM content").fetchone()
    store.connection.execute("DELETE FROM content")
    store.connection.execute("INSERT INTO content (hash) VALUES ('b')")
    assert store.connection.execute("SELECT id FROM content").fetchone() == (first + 1,)


def test_a_layer_is_one_row_of_the_vocabulary(store: Store) -> None:
    """The schema accepts every layer; each has authority; those not indexed have caps and a
    ceiling."""
    for layer in Layer:
        memory_writer.put_memories(store.connection, [function(layer, layer=layer)])
    stated = {layer for layer in Layer if not layer.is_indexed}
    settings = Settings()
    assert stated == settings.memory.max_rows.keys() == settings.memory.max_bytes.keys()
    assert stated == settings.bundle.ceilings.keys() == set(get_args(Ceiled))
    assert set(Layer) == settings.bundle.authority.keys()


@pytest.fixture
def statements(store: Store) -> Iterator[list[str]]:
    """Collect the executed statements."""
    sent: list[str] = []
    record_turn(store, "fix the heron")
    put(store.connection, said())
    store.connection.set_trace_callback(sent.append)
    yield sent
    store.connection.set_trace_callback(None)


def scans(connection: sqlite3.Connection, sent: list[str]) -> list[str]:
    """Return those that read the whole memory table."""
    connection.set_trace_callback(None)
    reads = [sql for sql in sent if sql.lstrip().startswith("SELECT")]
    assert reads
    plans = {
        sql: [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()]
        for sql in reads
    }
    return [sql for sql, steps in plans.items() if any(step == "SCAN memory" for step in steps)]


def test_a_turn_finds_its_exchanges_by_an_index(store: Store, statements: list[str]) -> None:
    """H02: each answering turn reads its thread's last exchanges; even among 10,000 functions it
    reads few rows."""
    assert len(latest_exchanges(store.connection, "s_1", 3)) == 1
    assert scans(store.connection, statements) == []


def test_an_erasure_finds_what_goes_along_by_an_index(
    store: Store, statements: list[str]
) -> None:
    """P06: only the search for lines that others share must read all memories."""
    (exchange,) = latest_exchanges(store.connection, "s_1", 3)
    erasure_plan.plan_erasure(store.connection, [exchange.id])
    assert [sql for sql in scans(store.connection, statements) if "char(10)" not in sql] == []


def test_an_audit_reads_what_was_said_by_an_index(store: Store, statements: list[str]) -> None:
    """Auditing a large repository costs by its statements, not by its index."""
    assert len(memory_rows.select_memories(store.connection, audit._LIVE, ())) == 2
    assert scans(store.connection, statements) == []
