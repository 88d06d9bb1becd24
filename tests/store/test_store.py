"""Opening the store."""

from pathlib import Path

import pytest

from tests.store.conftest import function, put
from xscore.pipeline.store_status import read_store_status
from xscore.platform.errors import StoreDamaged
from xscore.platform.hashing import file_id
from xscore.platform.paths import find_root
from xscore.records.candidates import Slot
from xscore.records.memory import Edge, Kind, Layer, MemoryStatus, Relation
from xscore.settings import Settings
from xscore.store.link_rows import state_edges
from xscore.store.lookup import find_memories
from xscore.store.memory_rows import select_memories
from xscore.store.pack_slot_rows import load_pack_slots, save_pack_slots
from xscore.store.store import Store


def test_the_pool_is_every_live_memory_of_every_layer(store: Store) -> None:
    """X03, H10: all layers, active and stale, take part and are counted; superseded and archived do
    not."""
    put(
        store.connection,
        *(function(layer, layer=layer) for layer in Layer if layer is not Layer.USER),
    )
    put(
        store.connection,
        function("stale", status=MemoryStatus.STALE),
        function("old", status=MemoryStatus.SUPERSEDED),
    )
    put(store.connection, function("archived", status=MemoryStatus.ARCHIVED))
    user_store = store.user_connection(create=True)
    assert user_store is not None
    put(user_store, function(Layer.USER, layer=Layer.USER))
    fetched = store.fetch()
    assert {candidate.entity for candidate in fetched.candidates} == {*Layer, "stale"}
    assert {
        layer_fetch.layer: layer_fetch.memories for layer_fetch in fetched.layers
    } == dict.fromkeys(Layer, 1) | {Layer.GRAPH: 2}
    assert all(
        layer_fetch.fetch_ms >= 0 and not layer_fetch.is_late and not layer_fetch.problem
        for layer_fetch in fetched.layers
    )


def test_a_layer_past_its_deadline_is_named_and_whole(store: Store) -> None:
    """H13, K8: with a zero deadline a layer is late, but none of its memories is missing."""
    put(store.connection, *(function(f"f{i}", path=f"{i}.py") for i in range(500)))
    fetched = store.fetch(deadline_s=0.0)
    assert len(fetched.candidates) == 500
    assert [report.layer for report in fetched.layers if report.is_late] == [Layer.GRAPH]


def test_a_vector_of_the_wrong_size_is_damage(store: Store) -> None:
    """The vectors are read as one column: half an entry would shift the words of all memories that
    follow."""
    put(store.connection, *(function(f"f{i}", path=f"{i}.py") for i in range(3)))
    store.connection.execute("UPDATE memory_row SET terms = terms || x'00' WHERE entity = 'f0'")
    with pytest.raises(StoreDamaged):
        store.fetch(with_terms=True)


def test_a_user_store_that_cannot_be_read_is_named(store: Store, user_dir: Path) -> None:
    """A11: the turn continues without the user layer and says why."""
    (user_dir / "user.db").write_bytes(b"no database at all " * 100)
    reports = {report.layer: report for report in store.fetch().layers}
    assert [layer for layer, report in reports.items() if report.problem] == [Layer.USER]
    assert store.memories(["m_x"]) == {}


def test_without_user_learning_the_user_store_is_never_touched(
    store: Store, tmp_path: Path
) -> None:
    """P07: a store that is there is not opened."""
    poisoned = tmp_path / "else" / "user.db"
    poisoned.parent.mkdir(mode=0o700)
    poisoned.write_bytes(b"whoever opens this fails")
    with Store.open(
        store.root, user_data_dir=poisoned.parent, user_learning=False, trust=True
    ) as opened:
        assert opened.user_connection(create=True) is None
        assert not any(report.problem for report in opened.fetch().layers)
        assert opened.term_vectors() == []


def test_only_this_threads_own_exchanges_stay_out(store: Store) -> None:
    """A thread's exchanges are no candidates in its own turns, but are in other threads."""
    put(
        store.connection,
        function("said", kind=Kind.EXCHANGE, layer=Layer.SESSION),
        thread="s_1",
    )
    put(store.connection, function("code"), thread="")
    names = {
        thread: {candidate.entity for candidate in store.pool(thread=thread)}
        for thread in ("s_1", "s_2", "")
    }
    assert names == {"s_1": {"code"}, "s_2": {"code", "said"}, "": {"code", "said"}}


def test_equal_contents_are_judged_once(store: Store) -> None:
    """H18: memories with the same content are one candidate that names its twins; none is lost."""
    memories = [function(ordinal=i, start_line=10 - i) for i in range(3)]
    put(store.connection, *memories, function("other"))
    pool = store.pool()
    assert len(pool) == 2
    same = next(candidate for candidate in pool if candidate.entity == "f")
    assert same.id == memories[2].id
    assert set(same.duplicates) == {memories[0].id, memories[1].id}


def test_full_tests_are_other_contents(store: Store) -> None:
    """With whole tests a candidate's identity, size and text are the text's, not the card's."""
    memory = function(card="test: adds", kind=Kind.TEST)
    put(store.connection, memory)
    (card,), (full,) = store.pool(tests="cards"), store.pool(tests="full")
    assert (card.content_hash, full.content_hash) == (memory.content_hash, memory.text_hash)
    assert card.tokens < full.tokens
    assert store.texts([card], tests="cards") == {memory.id: "test: adds"}
    assert store.texts([full], tests="full") == {memory.id: memory.text}


def test_a_text_that_does_not_fit_its_hash_is_damage(store: Store) -> None:
    """A damaged text is not judged, since its score would be stored under the original content."""
    put(store.connection, function("sound"), function("broken", path="b.py"))
    pool = store.pool()
    store.connection.execute(
        "UPDATE memory_row SET text = replace(text, '1', '7') WHERE path = 'b.py'"
    )
    assert set(store.texts(pool[:1])) == {pool[0].id}
    with pytest.raises(StoreDamaged, match="its hash"):
        store.texts(pool)


def test_a_memory_written_anew_since_the_pool_was_read_has_no_text(store: Store) -> None:
    """A changed text is left to the next turn, since its score would be stored under the old
    content."""
    put(store.connection, function("f"), function("g"))
    pool = store.pool()
    put(store.connection, function("f", text="def f():\n    return 2\n"))
    assert set(store.texts(pool)) == {function("g").id}
    assert set(store.texts(store.pool())) == {function("f").id, function("g").id}


def test_edges_and_degrees(store: Store) -> None:
    """H08: edges are found from either end, once each; a degree counts a memory's calls."""
    rows = [
        ("m_a", "m_b", Relation.CALLS, 1.0),
        ("m_b", "m_c", Relation.CALLS, 1.0),
        ("m_a", file_id("x.py"), Relation.IMPORTS, 1.0),
        ("m_x", "m_y", Relation.TESTS, 1.0),
    ]
    state_edges(store.connection, rows)
    assert store.edges_touching(["m_b", "m_a"]) == [
        Edge("m_a", "m_b", Relation.CALLS),
        Edge("m_a", "f_x.py", Relation.IMPORTS),
        Edge("m_b", "m_c", Relation.CALLS),
    ]
    assert store.edges_touching(["f_x.py"]) == [Edge("m_a", "f_x.py", Relation.IMPORTS)]
    assert store.degrees(["m_a", "m_b", "m_z"]) == {"m_a": 1, "m_b": 2, "m_z": 0}


def test_slots_are_kept_by_profile(store: Store) -> None:
    """A memory's pack is remembered; a removed memory is forgotten; profiles do not mix."""
    save_pack_slots(store.connection, "p1", {"m_a": Slot("k1", 0), "m_b": Slot("k1", 1)})
    save_pack_slots(store.connection, "p2", {"m_a": Slot("k9", 5)})
    save_pack_slots(store.connection, "p1", {"m_b": Slot("k1", 1), "m_c": Slot("k2", 0)})
    assert load_pack_slots(store.connection, "p1") == {
        "m_b": Slot("k1", 1),
        "m_c": Slot("k2", 0),
    }
    assert load_pack_slots(store.connection, "p2") == {"m_a": Slot("k9", 5)}


def test_the_secret_belongs_to_user_and_store(
    store: Store, tmp_path: Path, user_dir: Path
) -> None:
    """Reopening gives the same secret; another store or user has another."""
    with Store.open(store.root, user_data_dir=user_dir) as reopened:
        assert reopened.secret == store.secret
    with Store.open(
        store.root, user_data_dir=tmp_path / "other_user", trust=True
    ) as other_users:
        assert other_users.secret != store.secret
    (tmp_path / "second").mkdir()
    with Store.open(find_root(tmp_path / "second"), user_data_dir=user_dir) as second:
        assert second.secret != store.secret


def test_status_counts_what_is_there(store: Store) -> None:
    """The counts of a store by layer, kind, language and relation."""
    put(
        store.connection,
        function("a"),
        function("b", kind=Kind.DOC, layer=Layer.VECTOR, language="markdown"),
    )
    status = read_store_status(store, Settings())
    assert status.memories == 2
    assert status.by_layer == {"graph": 1, "vector": 1}
    assert status.by_kind == {"doc": 1, "function": 1}
    assert status.by_language == {"markdown": 1, "python": 1}
    assert status.bytes > 0


def test_rows_that_a_torn_page_hides_are_damage(store: Store) -> None:
    """A table with fewer memories than its index is damage, not a smaller pool."""
    put(store.connection, function("f"), function("g"))
    assert len(store.pool()) == 2
    (root,) = store.connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = 'memory'"
    ).fetchone()
    store.connection.execute("PRAGMA writable_schema = ON")
    store.connection.execute("CREATE TABLE empty (id)")
    store.connection.execute(
        "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name ="
        " 'empty') WHERE name = 'memory' AND rootpage = ?",
        (root,),
    )
    store.connection.execute("PRAGMA writable_schema = RESET")
    with pytest.raises(StoreDamaged, match="damaged"):
        store.pool()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM memory_view",
        "UPDATE memory_view SET view = 'unheard'",
        "UPDATE memory_view SET hash = x'ff'",
        "UPDATE memory_row SET origin = 'unheard'",
    ],
)
def test_a_memory_without_sound_views_is_damage(store: Store, damage: str) -> None:
    """A row of the views that is gone or unreadable is no crash, and leaves no transaction open."""
    put(store.connection, function())
    (candidate,) = store.pool()
    store.connection.execute(damage)
    with pytest.raises(StoreDamaged) as raised:
        select_memories(store.connection, "id = ?", (candidate.id,))
    assert not store.connection.in_transaction
    assert raised.value.exit_code == 6


def test_a_word_no_memory_can_have_is_damage(store: Store) -> None:
    """An unknown kind is damage when the pool or memory is read, not a crash."""
    put(store.connection, function())
    store.connection.execute("UPDATE memory_row SET kind = 'nonsense'")
    with pytest.raises(StoreDamaged):
        store.pool()
    with pytest.raises(StoreDamaged):
        find_memories(store, "a.py::f")
