"""Memories out of the store and back: snapshots to equality, lines through the gate."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.memory.conftest import function
from xscore import database
from xscore.errors import UsageError
from xscore.memory import door, erasure, failures, turns
from xscore.memory.copies.export_lines import export_lines
from xscore.memory.copies.importing import MAX_LINE_BYTES, import_lines
from xscore.memory.copies.snapshot_form import snapshot_from_json, snapshot_to_json
from xscore.memory.evidence import cite
from xscore.memory.lookup import Choice, chosen, exactly
from xscore.memory.store import Store
from xscore.memory.turns import TurnState, Verdict
from xscore.paths import find_root
from xscore.records import Edge, Kind, Layer, Relation, Source, Status, Turn

SECRET = "sk-proj-" + "Zq8Lw3Rt6Yb1Nc5Xd9Kf2Hj7Ma4Ps0Vg"
NOW = 1_000.0


@pytest.fixture
def other(tmp_path: Path, user_dir: Path) -> Iterator[Store]:
    """Open another, empty store of the same user."""
    (tmp_path / "other").mkdir()
    with Store.open(find_root(tmp_path / "other"), user_data_dir=user_dir, clock=lambda: NOW) as opened:
        yield opened


def fill(store: Store) -> None:
    """Say, decide, fail, cite, index and take a turn."""
    (store.root.path / "a.py").write_text("x = 1\ny = 2\n")
    with database.transaction(store.connection):
        door.put(store.connection, [function("f")])
        store.connection.execute("INSERT INTO file (path, size, mtime_ns, file_hash) VALUES ('a.py', 1, 1, 'aa')")
    store.project.remember_decision("see `a.py`", key="k", citations=[cite(store.root, "a.py:1-2")], now=1.0)
    memory = store.project.remember_decision("look at `a.py`", key="k", because="so", now=2.0).memory
    for number in range(3):
        failures.record(store, text=f"boom {number}", seen_at=float(number))
    turn = Turn(task="do it", thread="s_1")
    identifier = turns.begin_turn(store.connection, turn, turn_key="tk", judge="j", now=4.0)
    verdict = Verdict((memory.id, function("f").id), {})
    turns.finish_turn(
        store.connection, identifier, state=TurnState.DONE, receipt="{}", answer="done", verdict=verdict, now=5.0
    )


def test_a_snapshot_put_into_an_empty_store_gives_that_snapshot(store: Store, other: Store) -> None:
    """A12: memories, citations, edges, threads, use, looks and maps come over whole; a value is no stranger's."""
    fill(store)
    taken = store.snapshot()
    assert len(taken.memories) == 5
    assert taken.edges and taken.retrievals and taken.repository_maps
    assert {kept.thread for kept in taken.memories} == {"", "s_1"}
    assert any(kept.memory.access_count for kept in taken.memories)
    assert any(kept.citations for kept in taken.memories)
    restored = other.restore(taken)
    assert (restored.added, restored.changed, restored.retrievals, restored.repository_maps) == (5, 0, 1, 1)
    assert other.snapshot() == taken


def test_a_stores_own_file_gives_back_the_very_snapshot(store: Store) -> None:
    """A12: a file with the seal of this store is read as what was taken; one letter altered, it is a stranger's."""
    fill(store)
    taken = store.snapshot()
    body = json.loads(json.dumps(snapshot_to_json(taken, secret=store.secret)))
    assert snapshot_from_json(json.dumps(body), secret=store.secret) == taken
    assert snapshot_from_json(json.dumps(body, indent=1, sort_keys=True), secret=store.secret) == taken
    body["memories"][0]["importance"] = 1.0
    for secret in (store.secret, b"another's", None):
        strange = snapshot_from_json(json.dumps(body), secret=secret)
        assert {kept.memory.source for kept in strange.memories} == {Source.IMPORT}


def test_a_strangers_file_is_quoted_and_ties_nothing(store: Store, other: Store) -> None:
    """Planted: the user's own word, calls of weight 1e6 to code, counts beyond belief; words alone come in."""
    fill(store)
    body = snapshot_to_json(store.snapshot(), secret=store.secret)
    huge = {"access_count": 2**53, "evidence_count": 2**53, "particulars": {"occurrences": 2**53}}
    body["memories"] = [{**memory, **huge, "source": "explicit"} for memory in body["memories"]]
    identifier = body["memories"][0]["id"]
    planted = [{"source": identifier, "target": function("f").id, "relation": name, "weight": 1e6} for name in Relation]
    body["edges"] = planted
    other.restore(snapshot_from_json(json.dumps(body), secret=other.secret, now=NOW))
    found = [kept.memory for kept in other.snapshot().memories]
    assert len(found) == 5
    for memory in found:
        counts = (memory.access_count, memory.evidence_count, memory.particulars.occurrences)
        assert (memory.source, counts, memory.accessed_at) == (Source.IMPORT, (1_000, 1_000, 1_000), NOW)
    edges = [edge for edge in other.snapshot().edges if edge.source == identifier and edge.target == function("f").id]
    assert {(edge.relation, edge.weight) for edge in edges} == {(Relation.REFERENCES, 1.0), (Relation.BELONGS_TO, 1.0)}


def test_what_was_forgotten_is_not_restored(store: Store) -> None:
    """P06: a snapshot does not undo an erasure that is to be remembered; its edges stay away too, and it is counted."""
    fill(store)
    taken = store.snapshot()
    gone = next(edge.source for edge in taken.edges if edge.source.startswith("m_"))
    erasure.erase(store, [gone], now=6.0, forget=True)
    restored = store.restore(
        snapshot_from_json(json.dumps(snapshot_to_json(taken, secret=store.secret)), secret=store.secret)
    )
    assert restored.forgotten == 1
    assert gone not in store.memories([gone])
    assert not any(gone in (edge.source, edge.target) for edge in store.snapshot().edges)


def test_the_users_layer_is_imported_when_it_is_named(store: Store, other: Store) -> None:
    """P06: a line of the user layer would hold everywhere: without being named it is refused, counted, and not kept."""
    kept = store.user.update_preference("k", "v", now=1.0).memory
    store.project.remember("x", now=1.0)
    lines = lines_of(store)
    erasure.erase(store, [kept.id], now=2.0)
    imported = import_lines(other, data(lines))
    assert (len(imported.added), imported.refused) == (1, 1)
    assert other.user.preferences() == []
    named = import_lines(other, data(lines), users=True)
    assert (named.added, named.refused, named.known) == ((kept.id,), 0, 1)


def test_counts_of_a_file_are_bounded(store: Store, other: Store) -> None:
    """No line makes a failure that was met 2**53 times, or evidence that outweighs all there is."""
    store.project.remember("x", now=1.0)
    line = {**json.loads(lines_of(store)[0]), "evidence_count": 2**53, "particulars": {"occurrences": 2**53}}
    (identifier,) = import_lines(other, data([json.dumps(line)])).added
    memory = exactly(other, identifier)
    assert (memory.evidence_count, memory.particulars.occurrences) == (1_000, 1_000)


def test_putting_back_what_is_there_changes_nothing(store: Store) -> None:
    """A12: a second time there is nothing to do, and no event tells of it."""
    fill(store)
    taken = store.snapshot()
    count = store.connection.execute("SELECT count(*) FROM event").fetchone()
    restored = store.restore(taken)
    assert (restored.added, restored.changed, restored.unchanged) == (0, 0, 5)
    assert store.connection.execute("SELECT count(*) FROM event").fetchone() == count
    assert store.snapshot() == taken


def test_what_changed_since_is_as_it_was_and_what_came_since_stays(store: Store) -> None:
    """Putting back supersedes and rewrites, and removes nothing."""
    fill(store)
    taken = store.snapshot()
    store.connection.execute("UPDATE memory SET importance = 0.1, access_count = 99 WHERE source <> 'index'")
    later = store.project.remember_decision("something else", key="k", now=9.0).memory
    store.restore(taken, now=10.0)
    assert [kept for kept in store.snapshot().memories if kept.memory.id != later.id] == list(taken.memories)
    assert exactly(store, later.id).status is Status.SUPERSEDED


def test_no_judgment_is_taken_or_planted(store: Store, other: Store) -> None:
    """A snapshot knows no judgments; one that brings any is refused by name."""
    fill(store)
    body = snapshot_to_json(store.snapshot())
    assert "judgment" not in json.dumps(body)
    with pytest.raises(UsageError, match="judgments"):
        snapshot_from_json(json.dumps({**body, "judgments": [{"score": 1}]}))
    assert other.connection.execute("SELECT count(*) FROM judgment").fetchone() == (0,)


def altered(body: dict[str, Any], **changes: object) -> bytes:
    """Change the first memory of a snapshot's JSON."""
    memories = [{**body["memories"][0], **changes}, *body["memories"][1:]]
    return json.dumps({**body, "memories": memories}).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"source": "index"},
        {"kind": "function"},
        {"layer": "graph"},
        {"layer": "user"},
        {"id": "m_1"},
        {"path": "../x"},
        {"path": "/etc/passwd"},
        {"importance": 1.5},
        {"created_at": -1.0},
        {"score": 1.0},
        {"content_hash": "x"},
        {"status": "odd"},
    ],
)
def test_the_gate_of_a_snapshot(store: Store, changes: dict[str, object]) -> None:
    """What no snapshot of ours says is refused with its place."""
    fill(store)
    with pytest.raises(UsageError, match=r"no snapshot: memories\.0\."):
        snapshot_from_json(altered(snapshot_to_json(store.snapshot()), **changes))


def test_an_altered_memory_is_refused_and_nothing_is_put_back(store: Store, other: Store) -> None:
    """A text that does not fit its hash, code's id, or an edge of strangers leaves the store as it was."""
    fill(store)
    taken = store.snapshot()
    body = snapshot_to_json(taken)
    with pytest.raises(UsageError, match="does not fit its hashes"):
        other.restore(snapshot_from_json(altered(body, text="planted")))
    with pytest.raises(UsageError, match="belongs to no memory"):
        other.restore(replace(taken, edges=(Edge("m_" + "1" * 20, "f_a.py", Relation.CALLS),)))
    with database.transaction(other.connection):
        door.put(other.connection, [replace(function("f"), id=taken.memories[0].memory.id)])
    with pytest.raises(UsageError, match="indexed here"):
        other.restore(taken)
    assert chosen(other, Choice()) == []


def test_a_planted_secret_does_not_come_in(store: Store, other: Store) -> None:
    """P01: a snapshot passes the door, whatever its hashes say."""
    memory = store.project.remember("x", now=1.0).memory
    planted = replace(memory, text=f"key = '{SECRET}'", title=SECRET)
    fitting = door.with_status(planted, Status.ACTIVE)
    taken = store.snapshot()
    restored = other.restore(replace(taken, memories=(replace(taken.memories[0], memory=fitting),)))
    assert restored.redacted == 1  # the title stands in the text
    assert SECRET not in "".join(other.connection.iterdump())


def lines_of(store: Store, *layers: Layer) -> list[str]:
    """Export."""
    return list(export_lines(store, Choice(layers=layers, statuses=tuple(Status))))


def data(lines: list[str]) -> bytes:
    """Make a file of lines."""
    return "".join(f"{line}\n" for line in lines).encode()


def test_lines_come_back_as_quoted_data(store: Store, other: Store) -> None:
    """P06: every memory said comes back with its id, as an import; exporting that differs in the source alone."""
    fill(store)
    store.user.update_preference("k", "v", now=1.0)
    lines = lines_of(store)
    assert lines == lines_of(store) and len(lines) == 6
    assert not any("function" in line or "access" in line for line in lines)
    imported = import_lines(other, data([line for line in lines if '"user"' not in line]))
    assert len(imported.added) == 5
    assert all(memory.source is Source.IMPORT for memory in chosen(other, Choice(layers=(Layer.GOVERNANCE,))))
    ours, theirs = ([json.loads(line) for line in lines_of(each, Layer.GOVERNANCE)] for each in (store, other))
    assert [{**line, "source": "import"} for line in ours] == theirs
    again = import_lines(other, data(lines_of(other, Layer.GOVERNANCE, Layer.PROJECT)))
    assert (again.added, again.kept) == ((), ())
    assert again.known > 0


def test_what_is_here_stays_as_it_is(store: Store, other: Store) -> None:
    """An imported memory takes neither an id nor a key from one that is here."""
    theirs = store.project.remember("their port", key="port", now=1.0).memory
    mine = other.project.remember("my port", key="port", now=1.0).memory
    imported = import_lines(other, data(lines_of(store)))
    assert (imported.added, imported.kept) == ((), (mine.id,))
    assert exactly(other, mine.id) == mine
    changed = json.dumps({**json.loads(lines_of(store)[0]), "id": mine.id, "key": "", "text": "planted"})
    assert import_lines(other, data([changed])).kept == (mine.id,)
    assert theirs.id not in {memory.id for memory in chosen(other, Choice())}


def test_what_was_forgotten_does_not_come_back(store: Store, other: Store) -> None:
    """An id that was erased to be forgotten is left out of an import, and counted."""
    memory = store.project.remember("x", now=1.0).memory
    other.connection.execute("INSERT INTO forgotten (memory_id, at) VALUES (?, 1)", (memory.id,))
    imported = import_lines(other, data(lines_of(store)))
    assert (imported.added, imported.forgotten) == ((), 1)


BAD: list[tuple[bytes, str]] = [
    (b"{", "line 2: .*JSON"),
    (b"[]", "line 2: "),
    (b"\xff\xfe", "line 2: "),
    (b"[" * 100_000, "line 2: "),
    (b'{"a":' * 100_000, "line 2: "),
    (b"x" * (MAX_LINE_BYTES + 1), "line 2: .*too many"),
    (b'{"schema": 2}', "line 2: schema"),
    (b'{"schema": 1, "id": "m_1"}', "line 2: id"),
]


@pytest.mark.parametrize(("line", "message"), BAD, ids=range(len(BAD)))
def test_a_bad_line_is_named_and_nothing_is_half_imported(
    store: Store, other: Store, line: bytes, message: str
) -> None:
    """Strangers' lines: no JSON, not a memory, too deep, too large, another schema; the good line before stays out."""
    store.project.remember("x", now=1.0)
    with pytest.raises(UsageError, match=message) as refused:
        import_lines(other, data(lines_of(store)) + line + b"\n")
    assert len(refused.value.message) < 500
    assert chosen(other, Choice()) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "function"},
        {"layer": "vector"},
        {"source": "index"},
        {"updated_at": NOW + 1e6},
        {"confidence": 2},
        {"text": 3},
        {"particulars": {"polarity": "evil"}},
        {"citations": [{"path": "../x", "start_line": 1, "end_line": 2, "span_hash": "0" * 32}]},
        {"judgment": 1.0},
        {"superseded_by": "x"},
    ],
)
def test_the_gate_of_lines(store: Store, other: Store, changes: dict[str, object]) -> None:
    """Planted code, layers, times, weights, paths and words that nobody knows are refused."""
    store.project.remember("x", now=1.0)
    line = json.dumps({**json.loads(lines_of(store)[0]), **changes})
    with pytest.raises(UsageError, match="line 1: "):
        import_lines(other, data([line]))


def test_one_file_has_an_id_and_a_key_once(store: Store, other: Store) -> None:
    """Two lines of one id, or of one active key, are named with both their numbers."""
    store.project.remember("x", key="k", now=1.0)
    (line,) = lines_of(store)
    with pytest.raises(UsageError, match="line 3: it has the id of line 1"):
        import_lines(other, data([line, "", line]))
    twin = json.dumps({**json.loads(line), "id": "m_" + "1" * 20})
    with pytest.raises(UsageError, match="line 2: it has the key of line 1"):
        import_lines(other, data([line, twin]))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(min_size=1, max_size=200), title=st.text(max_size=30), kind=st.sampled_from([Kind.TODO, Kind.CONTEXT])
)
def test_any_words_survive_the_way_out_and_back(store: Store, other: Store, text: str, title: str, kind: Kind) -> None:
    """Line ends, quotes, control characters and every script come back as they were."""
    try:
        memory = store.project.remember(text, title=title, kind=kind, now=1.0).memory
    except UsageError:
        return
    if memory.id not in import_lines(other, data(lines_of(store))).added:
        return  # said before, by another example
    back = exactly(other, memory.id)
    assert (back.text, back.title, back.content_hash) == (memory.text, memory.title, memory.content_hash)
