"""Snapshots of a store: out, and back to equality, or as a stranger's."""

import json

import pytest
from msgspec.structs import replace

from tests.memory.conftest import function
from tests.memory.filled import fill
from tests.statements import decide, say
from xscore.extensions.exchange.snapshots import parse_snapshot, restore_snapshot, snapshot_lines, take_snapshot
from xscore.extensions.privacy import erasure
from xscore.platform import database
from xscore.platform.errors import UsageError
from xscore.records import Edge, MemorySource, MemoryStatus, Relation
from xscore.store import memory_writer
from xscore.store.lookup import MemoryFilter, filter_memories, memory_by_id
from xscore.store.store import Store

SECRET = "sk-proj-" + "Zq8Lw3Rt6Yb1Nc5Xd9Kf2Hj7Ma4Ps0Vg"
NOW = 1_000.0


def test_a_snapshot_put_into_an_empty_store_gives_that_snapshot(store: Store, other: Store) -> None:
    """A12: memories, citations, edges, threads, use, looks and maps come over whole; a value is no stranger's."""
    fill(store)
    taken = take_snapshot(store)
    assert len(taken.memories) == 5
    assert taken.edges and taken.retrievals and taken.repository_maps
    assert {kept.thread for kept in taken.memories} == {"", "s_1"}
    assert any(kept.memory.access_count for kept in taken.memories)
    assert any(kept.citations for kept in taken.memories)
    restored = restore_snapshot(other, taken)
    assert (restored.added, restored.changed, restored.retrievals, restored.repository_maps) == (5, 0, 1, 1)
    assert take_snapshot(other) == taken


def text_of(store: Store) -> str:
    """The snapshot file of a store."""
    return "".join(snapshot_lines(take_snapshot(store), secret=store.secret))


def altered(text: str, /, **changes: object) -> bytes:
    """Change the first memory of a snapshot file."""
    header, first, *rest = text.splitlines()
    return "\n".join([header, json.dumps({**json.loads(first), **changes}), *rest]).encode()


def test_a_stores_own_file_gives_back_the_very_snapshot(store: Store) -> None:
    """A12: a file with the MAC of this store is restored exactly; with one letter altered it is foreign."""
    fill(store)
    text = text_of(store)
    assert parse_snapshot(text.encode(), secret=store.secret) == take_snapshot(store)
    for secret in (store.secret, b"another's", None):
        foreign = parse_snapshot(altered(text, importance=1.0), secret=secret)
        assert {kept.memory.source for kept in foreign.memories} == {MemorySource.IMPORT}


def test_a_strangers_file_is_quoted_and_ties_nothing(store: Store, other: Store) -> None:
    """Planted: the user's own word, calls of weight 1e6 to code, counts beyond belief; words alone come in."""
    fill(store)
    header, *lines = map(json.loads, text_of(store).splitlines())
    huge = {"access_count": 2**53, "evidence_count": 2**53, "particulars": {"occurrences": 2**53}}
    identifier = lines[0]["id"]
    planted = [{"source": identifier, "target": function("f").id, "relation": name, "weight": 1e6} for name in Relation]
    body = [{**header, "edges": planted}, *({**line, **huge, "source": "explicit"} for line in lines)]
    restore_snapshot(other, parse_snapshot("\n".join(map(json.dumps, body)).encode(), secret=other.secret, now=NOW))
    found = [kept.memory for kept in take_snapshot(other).memories]
    assert len(found) == 5
    for memory in found:
        counts = (memory.access_count, memory.evidence_count, memory.particulars.occurrences)
        assert (memory.source, counts, memory.accessed_at) == (MemorySource.IMPORT, (1_000, 1_000, 1_000), NOW)
    edges = [
        edge for edge in take_snapshot(other).edges if edge.source == identifier and edge.target == function("f").id
    ]
    assert {(edge.relation, edge.weight) for edge in edges} == {(Relation.REFERENCES, 1.0), (Relation.BELONGS_TO, 1.0)}


def test_what_was_forgotten_is_not_restored(store: Store) -> None:
    """P06: a snapshot does not undo an erasure that is to be remembered; its edges stay away too, and it is counted."""
    fill(store)
    taken = take_snapshot(store)
    gone = next(edge.source for edge in taken.edges if edge.source.startswith("m_"))
    erasure.erase_memories(store, [gone], now=6.0, forget=True)
    text = "".join(snapshot_lines(taken, secret=store.secret))
    restored = restore_snapshot(store, parse_snapshot(text.encode(), secret=store.secret))
    assert restored.forgotten == 1
    assert gone not in store.memories([gone])
    assert not any(gone in (edge.source, edge.target) for edge in take_snapshot(store).edges)


def test_putting_back_what_is_there_changes_nothing(store: Store) -> None:
    """A12: a second time there is nothing to do, and no event tells of it."""
    fill(store)
    taken = take_snapshot(store)
    count = store.connection.execute("SELECT count(*) FROM event").fetchone()
    restored = restore_snapshot(store, taken)
    assert (restored.added, restored.changed, restored.unchanged) == (0, 0, 5)
    assert store.connection.execute("SELECT count(*) FROM event").fetchone() == count
    assert take_snapshot(store) == taken


def test_what_changed_since_is_as_it_was_and_what_came_since_stays(store: Store) -> None:
    """Putting back supersedes and rewrites, and removes nothing."""
    fill(store)
    taken = take_snapshot(store)
    store.connection.execute("UPDATE memory SET importance = 0.1, access_count = 99 WHERE source <> 'index'")
    later = decide(store, "something else", key="k", now=9.0).memory
    restore_snapshot(store, taken, now=10.0)
    assert [kept for kept in take_snapshot(store).memories if kept.memory.id != later.id] == list(taken.memories)
    assert memory_by_id(store, later.id).status is MemoryStatus.SUPERSEDED


def test_no_judgment_is_taken_or_planted(store: Store) -> None:
    """A snapshot holds no judgments; one that brings any is refused by name."""
    fill(store)
    header, *lines = text_of(store).splitlines()
    assert "judgment" not in header + "".join(lines)
    planted = json.dumps({**json.loads(header), "judgments": [{"score": 1}]})
    with pytest.raises(UsageError, match="judgments"):
        parse_snapshot("\n".join([planted, *lines]).encode())


@pytest.mark.parametrize(
    "changes",
    [
        {"source": "index"},
        {"kind": "function"},
        {"layer": "graph"},
        {"layer": "user"},
        {"id": "m_1"},
        {"path": "../x"},
        {"score": 1.0},
        {"content_hash": "x"},
        {"status": "odd"},
    ],
)
def test_the_gate_of_a_snapshot(store: Store, changes: dict[str, object]) -> None:
    """What no snapshot of ours says is refused with its place."""
    fill(store)
    with pytest.raises(UsageError, match="line 2: "):
        parse_snapshot(altered(text_of(store), **changes))


def test_an_altered_memory_is_refused_and_nothing_is_put_back(store: Store, other: Store) -> None:
    """A text that does not fit its hash, code's id, or an edge of strangers leaves the store as it was."""
    fill(store)
    taken = take_snapshot(store)
    with pytest.raises(UsageError, match="does not fit its hashes"):
        restore_snapshot(other, parse_snapshot(altered(text_of(store), text="planted")))
    with pytest.raises(UsageError, match="belongs to no memory"):
        restore_snapshot(other, replace(taken, edges=(Edge("m_" + "1" * 20, "f_a.py", Relation.CALLS),)))
    with database.transaction(other.connection):
        memory_writer.put_memories(other.connection, [replace(function("f"), id=taken.memories[0].memory.id)])
    with pytest.raises(UsageError, match="indexed here"):
        restore_snapshot(other, taken)
    assert filter_memories(other, MemoryFilter()) == []


def test_a_planted_secret_does_not_come_in(store: Store, other: Store) -> None:
    """P01: a snapshot passes the door, whatever its hashes say."""
    memory = say(store, "x", now=1.0).memory
    planted = replace(memory, text=f"key = '{SECRET}'", title=SECRET)
    fitting = memory_writer.with_status(planted, MemoryStatus.ACTIVE)
    taken = take_snapshot(store)
    restored = restore_snapshot(other, replace(taken, memories=(replace(taken.memories[0], memory=fitting),)))
    assert restored.redacted == 1  # the title stands in the text
    assert SECRET not in "".join(other.connection.iterdump())
