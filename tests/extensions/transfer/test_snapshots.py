"""Snapshots of a store: restored unchanged by their own store, validated as foreign by others."""

import json

import pytest
from msgspec.structs import replace

from tests.extensions.transfer.filled_store import fill
from tests.statements import decide, say
from tests.store.conftest import function, put
from tests.store.generated_secrets import SECRET
from xscore.extensions.privacy import erasure
from xscore.extensions.transfer.snapshots import (
    import_snapshot,
    restore_snapshot,
    snapshot_file,
    take_snapshot,
)
from xscore.platform.errors import UsageError
from xscore.records.memory import MemorySource, MemoryStatus, Relation
from xscore.store.lookup import MemoryFilter, filter_memories, memory_by_id
from xscore.store.store import Store

NOW = 1_000.0


def test_a_snapshot_put_into_an_empty_store_gives_that_snapshot(
    store: Store, second_store: Store
) -> None:
    """A12: memories, citations, edges, threads, use, views and maps are restored; values are not
    taken from others."""
    fill(store)
    taken = take_snapshot(store)
    assert len(taken.memories) == 5
    assert taken.edges and taken.retrievals and taken.repository_maps
    assert {kept.thread for kept in taken.memories} == {"", "s_1"}
    assert any(kept.access_count for kept in taken.memories)
    assert any(kept.citations for kept in taken.memories)
    restored = restore_snapshot(second_store, taken)
    assert restored.added == 5
    assert restored.changed == 0
    assert restored.retrievals == 1
    assert restored.repository_maps == 1
    assert take_snapshot(second_store) == taken


def text_of(store: Store) -> str:
    """Return the snapshot file of a store."""
    return snapshot_file(take_snapshot(store), secret=store.secret).decode()


def altered(text: str, /, **changes: object) -> bytes:
    """Change the first memory of a snapshot file."""
    header, first, *rest = text.splitlines()
    return "\n".join([header, json.dumps({**json.loads(first), **changes}), *rest]).encode()


def test_a_stores_own_file_is_restored_exactly(store: Store) -> None:
    """A12: a file with the MAC of this store changes nothing while nothing changed; with one letter
    altered it is foreign, and changes no memory that is here."""
    fill(store)
    text, taken = text_of(store), take_snapshot(store)
    restored = import_snapshot(store, text.encode())
    assert (restored.unchanged, restored.added, restored.changed) == (5, 0, 0)
    assert take_snapshot(store) == taken
    restored = import_snapshot(store, altered(text, importance=1.0))
    assert (restored.unchanged, restored.added, restored.changed) == (5, 0, 0)
    assert take_snapshot(store) == taken


def test_two_files_are_no_snapshot(store: Store) -> None:
    """A second file after the first would be taken for a stranger's memories: it is named."""
    fill(store)
    text = text_of(store)
    with pytest.raises(UsageError, match=r"snapshot:\d+ begins another file"):
        import_snapshot(store, (text + text).encode())


def test_a_strangers_file_is_quoted_and_ties_nothing(store: Store, second_store: Store) -> None:
    """Planted: the user's own word, edges of weight 1e6, absurd counts; only the text is
    imported."""
    fill(store)
    header, *lines = map(json.loads, text_of(store).splitlines())
    lines = [line for line in lines if line["record"] == "memory"]
    huge = {
        "access_count": 2**53,
        "evidence_count": 2**53,
        "particulars": {"occurrences": 2**53},
    }
    planted = [
        {
            "record": "edge",
            "source": lines[0]["id"],
            "target": function("f").id,
            "relation": relation,
            "weight": 1e6,
        }
        for relation in Relation
    ]
    body = [header, *({**line, **huge, "source": "explicit"} for line in lines), *planted]
    import_snapshot(second_store, "\n".join(map(json.dumps, body)).encode())
    memories = take_snapshot(second_store).memories
    assert len(memories) == 5
    for memory in memories:
        counts = (memory.access_count, memory.evidence_count, memory.details.occurrences)
        assert memory.source == MemorySource.IMPORT
        assert counts == (0, 1_000, 1_000)
        assert memory.accessed_at == NOW
    assert not any(
        edge.weight > 1 or edge.relation is Relation.CALLS
        for edge in take_snapshot(second_store).edges
    )


def test_what_was_forgotten_is_not_restored(store: Store) -> None:
    """P06: a snapshot does not restore an erased memory or its edges; they are counted."""
    fill(store)
    taken = take_snapshot(store)
    gone = next(edge.source for edge in taken.edges if edge.source.startswith("m_"))
    erasure.erase_memories(store, [gone], now=6.0, forget=True)
    restored = import_snapshot(store, snapshot_file(taken, secret=store.secret))
    assert restored.forgotten == 1
    assert gone not in store.memories([gone])
    assert not any(gone in (edge.source, edge.target) for edge in take_snapshot(store).edges)


def test_what_changed_since_is_as_it_was_and_what_came_since_stays(store: Store) -> None:
    """Restoring supersedes and rewrites, but deletes nothing."""
    fill(store)
    taken = take_snapshot(store)
    store.connection.execute(
        "UPDATE memory_row SET importance = 0.1, access_count = 99 WHERE source <> 'index'"
    )
    later = decide(store, "something else", key="k", now=9.0).memory
    restore_snapshot(store, taken)
    assert [kept for kept in take_snapshot(store).memories if kept.id != later.id] == list(
        taken.memories
    )
    assert memory_by_id(store, later.id).status is MemoryStatus.SUPERSEDED


def test_no_judgment_is_taken_or_planted(store: Store) -> None:
    """A snapshot holds no judgments; one that does is refused, whatever its first line says."""
    fill(store)
    header, *lines = text_of(store).splitlines()
    assert "judgment" not in header + "".join(lines)
    judgment = {"record": "judgment", "turn_key": "a" * 32, "judge": "b" * 32, "score": 1.0}
    with pytest.raises(UsageError, match=f"snapshot:{len(lines) + 2}: "):
        import_snapshot(store, "\n".join([header, *lines, json.dumps(judgment)]).encode())
    claims = json.dumps({**json.loads(header), "holds": "judgments", "packing": "zlib"})
    with pytest.raises(UsageError, match="not a snapshot") as refused:
        import_snapshot(store, "\n".join([claims, *lines]).encode())
    assert "`xscore store import`" in refused.value.hint
    packed = json.dumps({**json.loads(header), "packing": "zlib"})
    with pytest.raises(UsageError, match="packing"):
        import_snapshot(store, "\n".join([packed, *lines]).encode())


@pytest.mark.parametrize("changes", [{"source": "index"}, {"path": "../x"}, {"score": 1.0}])
def test_the_gate_of_a_snapshot(store: Store, changes: dict[str, object]) -> None:
    """A field that our snapshots never have is refused with its place."""
    fill(store)
    with pytest.raises(UsageError, match="snapshot:2: "):
        import_snapshot(store, altered(text_of(store), **changes))


def test_code_is_not_overwritten(store: Store, second_store: Store) -> None:
    """A snapshot with the id of locally indexed code leaves the store unchanged."""
    fill(store)
    taken = take_snapshot(store)
    put(second_store.connection, replace(function("f"), id=taken.memories[0].id))
    with pytest.raises(UsageError, match="indexed here"):
        restore_snapshot(second_store, taken)
    assert filter_memories(second_store, MemoryFilter()) == []


def test_a_planted_secret_does_not_come_in(store: Store, second_store: Store) -> None:
    """P01: every snapshot passes the writer's redaction, whatever its origin."""
    say(store, "x", now=1.0)
    taken = take_snapshot(store)
    forged = replace(taken.memories[0], text=f"key = '{SECRET}'", title=SECRET)
    # The title is in the text.
    assert restore_snapshot(second_store, replace(taken, memories=(forged,))).redacted == 1
    assert SECRET not in "".join(second_store.connection.iterdump())


def test_a_snapshot_of_a_newer_xscore_is_named(store: Store) -> None:
    """Its header says the number; nothing of it is restored."""
    data = snapshot_file(take_snapshot(store), secret=store.secret).replace(
        b'"schema":4', b'"schema":9', 1
    )
    with pytest.raises(UsageError, match=r"schema 9; this one reads 4"):
        import_snapshot(store, data)
