"""Stored memories can be read back at any size, replace others only visibly, and cost the same
among many."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.extensions.transfer.filled_store import export_lines
from tests.statements import decide, list_events, say
from tests.store.recorded_turns import record_turn
from xscore.extensions.transfer.memory_lines import import_lines
from xscore.extensions.transfer.snapshots import (
    import_snapshot,
    restore_snapshot,
    snapshot_file,
    take_snapshot,
)
from xscore.platform import database
from xscore.platform.paths import find_root
from xscore.records.memory import Kind, Layer, MemoryDetails, MemoryStatus
from xscore.records.statement import Statement
from xscore.store import failures, memory_writer
from xscore.store.citing import parse_citation
from xscore.store.events import EventName
from xscore.store.evidence import refresh_evidence
from xscore.store.lookup import MemoryFilter, memories_starting_with, memory_by_id
from xscore.store.memory_queries import latest_exchanges
from xscore.store.personal_data import redact_said
from xscore.store.remembering import remember, remember_within
from xscore.store.store import Store

NOW = 1_000.0


@contextmanager
def two_stores() -> Iterator[tuple[Store, Store]]:
    """Open two empty stores of one user."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for part in "ab":
            (folder / part).mkdir()
        first_root, second_root = (find_root(folder / part) for part in "ab")
        with (
            Store.open(first_root, user_data_dir=folder / "u") as first,
            Store.open(second_root, user_data_dir=folder / "u") as second,
        ):
            yield first, second


SIZES = st.sampled_from([1, 1, 1, 900, 30_000])
TEXTS = st.tuples(st.text(min_size=1, max_size=9), SIZES).map(lambda sized: sized[0] * sized[1])
SAID = st.one_of(
    TEXTS,
    st.sampled_from(
        ["mail ann.lee@acme-werke.de", 'password = "hunter2hunter2"', "a\n\nAnswer: b"]
    ),
)


@settings(deadline=None, max_examples=6)
@given(
    texts=st.lists(SAID, min_size=5, max_size=5),
    links=st.lists(SAID.filter(str.strip), max_size=3),
)
def test_all_that_is_kept_is_read_back(texts: list[str], links: list[str]) -> None:
    """A12, P06: snapshots and exported lines of any length round-trip through their own
    validation."""
    with two_stores() as (store, empty_store):
        words, because, instead, task, answer = (
            part.encode("utf-8", "replace").decode() for part in texts
        )
        words, because, instead = (
            words[: memory_writer.STATEMENT_CHARS],
            because[:20_000],
            instead[:20_000],
        )
        if words.strip():
            links = [link[: memory_writer.LINE_CHARS] for link in links]
            statement = Statement(
                text=words,
                kind=Kind.DECISION,
                because=because,
                alternatives=(instead,) * 2,
                links=tuple(links),
            )
            remember(store, statement, now=1.0)
        record_turn(store, task, answer=answer)
        details = MemoryDetails(rationale=task, resolution=answer, paths=(task, *["p"] * 1_100))
        failures.record_failure(store, text="boom", details=details, seen_at=1.0)
        taken = take_snapshot(store)
        text = snapshot_file(taken, secret=store.secret)
        assert import_snapshot(store, text).changed == 0
        restore_snapshot(empty_store, taken)
        assert take_snapshot(empty_store) == taken
        lines = list(export_lines(store, MemoryFilter()))
    with two_stores() as (_, third):
        assert len(import_lines(third, "\n".join(lines).encode()).added) == len(lines)
        back = {
            json.loads(line)["id"]: json.loads(line)
            for line in export_lines(third, MemoryFilter())
        }
        for line in map(json.loads, lines):
            shown = redact_said(line["text"]).text
            assert back[line["id"]]["text"] == shown
            # An import notes that somebody stated it, elsewhere.
            restored = {**back[line["id"]].get("particulars", {})}
            restored.pop("origin", None)
            assert restored == line.get("particulars", {})


def test_an_answer_past_the_limit_is_cut_with_a_mark(store: Store) -> None:
    """P06: an overlong turn is kept with a note that it was cut."""
    record_turn(store, "x", answer="long " * 90_000)
    (kept,) = latest_exchanges(store.connection, "s_1", 3)
    assert len(kept.text) <= memory_writer.TEXT_CHARS
    assert kept.text.endswith(" characters left out]")


def test_what_takes_the_place_of_a_stale_memory_says_so(store: Store) -> None:
    """H15: a stale memory with the same key is named among those replaced, and its event says
    so."""
    (store.root.path / "a.py").write_text("x = 1\n")
    cited = [parse_citation(store.root, "a.py:1")]
    old = decide(store, "see a", key="k", citations=cited, now=1.0).memory
    (store.root.path / "a.py").write_text("y = 2\n")
    refresh_evidence(store.connection, store.root, now=2.0)
    assert memory_by_id(store, old.id).status is MemoryStatus.STALE
    newer = decide(store, "see b", key="k", now=3.0)
    assert newer.superseded == (old.id,)
    assert memory_by_id(store, old.id).superseded_by == newer.memory.id
    payloads = [
        event.payload
        for event in list_events(store.connection)
        if event.subject == old.id and event.name is EventName.UPDATED
    ]
    assert {"superseded_by": newer.memory.id} in payloads


@pytest.mark.parametrize("status", ["active", "stale"])
def test_an_import_displaces_no_stale_memory(store: Store, status: str) -> None:
    """P06: a local memory stays even if its code has changed, and no stale line joins it."""
    (store.root.path / "a.py").write_text("x = 1\n")
    cited = [parse_citation(store.root, "a.py:1")]
    old = decide(store, "see a", key="k", citations=cited, now=1.0).memory
    (store.root.path / "a.py").write_text("y = 2\n")
    refresh_evidence(store.connection, store.root, now=2.0)
    line = json.loads(next(export_lines(store, MemoryFilter())))
    line |= {"id": "m_" + "0" * 20, "text": "see c", "status": status}
    del line["citations"]
    imported = import_lines(store, json.dumps(line).encode())
    assert (imported.added, imported.kept) == ([], [old.id])
    assert memory_by_id(store, old.id).status is MemoryStatus.STALE


@pytest.mark.verify
def test_saying_much_is_linear(store: Store) -> None:
    """H15: among a thousand statements, another is found or recognised as new through an index."""
    with database.transaction(store.connection):
        for at in range(1_000):
            remember_within(
                store.connection, Statement(text=f"thing {at} is so", key=f"k{at}"), now=1.0
            )
    statements: list[str] = []
    store.connection.set_trace_callback(statements.append)
    remember_within(store.connection, Statement(text="thing 7 is so", key="k7"), now=2.0)
    store.connection.set_trace_callback(None)
    plans = [
        step[3]
        for sql in statements
        if sql.lstrip().startswith(("SELECT", "UPDATE", "DELETE"))
        for step in store.connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()
    ]
    assert any(
        "memory_by_words (layer=? AND kind=? AND <expr>>? AND <expr><?)" in step
        for step in plans
    ), plans
    assert any("memory_one_active_by_key" in step for step in plans), plans
    assert not [step for step in plans if step.startswith("SCAN memory")], plans


def test_words_are_found_whatever_they_hold(store: Store) -> None:
    """H15: a zero byte, a short text and a common prefix are distinguished."""
    for text in ("a\0b", "a", "ab", "a" * 90, "a" * 80 + "b"):
        say(store, text, now=1.0)
    for text in ("a\0b", "ab", "a" * 90, "a" * 80 + "b"):
        assert (
            memories_starting_with(store.connection, Layer.PROJECT, Kind.CONTEXT, text)[0].text
            == text
            or text == "ab"
        )
        assert say(store, text, now=2.0).became == "repeated"
