"""The pool, layer by layer: nobody is dropped, whoever is late or cannot be read is named."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.store.conftest import function
from xscore.platform import database
from xscore.platform.paths import find_root
from xscore.records.memory import Kind, Layer, Memory, MemorySource
from xscore.store import memory_writer
from xscore.store.store import Store


def put(store: Store, memories: Sequence[Memory]) -> None:
    """Write memories where they belong."""
    own = [memory for memory in memories if memory.layer is Layer.USER]
    others = [memory for memory in memories if memory.layer is not Layer.USER]
    user = store.user_connection(create=True)
    assert user is not None
    for connection, members in ((store.connection, others), (user, own)):
        with database.transaction(connection):
            memory_writer.put_memories(connection, members)


def one_of_each() -> list[Memory]:
    """Make a memory of every layer."""
    return [
        memory_writer.make_memory(
            layer=layer,
            kind=Kind.CONTEXT,
            title=str(layer),
            text=f"of {layer}",
            source=MemorySource.EXPLICIT,
            entity=str(layer),
        )[0]
        for layer in Layer
    ]


def test_every_layer_gives_its_memories(store: Store) -> None:
    """H10: six layers, each counted, each with the time it took."""
    put(store, one_of_each())
    fetched = store.fetch()
    assert {candidate.layer for candidate in fetched.candidates} == set(Layer)
    assert {report.layer: report.memories for report in fetched.layers} == dict.fromkeys(Layer, 1)
    assert all(report.fetch_ms >= 0 and not report.is_late and not report.problem for report in fetched.layers)


def test_a_layer_past_its_deadline_is_named_and_whole(store: Store) -> None:
    """H13, K8: a deadline of nothing makes a large layer late; not one of its memories is missing."""
    put(store, [function(f"f{i}", path=f"{i}.py") for i in range(5_000)])
    fetched = store.fetch(deadline_s=0.0)
    assert len(fetched.candidates) == 5_000
    assert [report.layer for report in fetched.layers if report.is_late] == [Layer.GRAPH]


def test_a_user_store_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A11: the turn goes on without the user layer and says why."""
    (tmp_path / "project").mkdir()
    (tmp_path / "user").mkdir(mode=0o700)
    with Store.open(find_root(tmp_path / "project"), user_data_dir=tmp_path / "user") as store:
        (tmp_path / "user" / "user.db").write_bytes(b"no database at all " * 100)
        reports = {report.layer: report for report in store.fetch().layers}
        assert reports[Layer.USER].problem
        assert not any(report.problem for layer, report in reports.items() if layer is not Layer.USER)
        assert store.memories(["m_x"]) == {}


@pytest.mark.parametrize("exists", [True, False])
def test_without_user_learning_the_user_store_is_never_touched(tmp_path: Path, exists: bool) -> None:
    """P07: neither opened nor made."""
    (tmp_path / "project").mkdir()
    poisoned = tmp_path / "user" / "user.db"
    poisoned.parent.mkdir(mode=0o700)
    if exists:
        poisoned.write_bytes(b"whoever opens this fails")
    root = find_root(tmp_path / "project")
    with Store.open(root, user_data_dir=tmp_path / "user", user_learning=False) as store:
        assert store.user_connection(create=True) is None
        assert not any(report.problem for report in store.fetch().layers)
        assert store.vectors("terms-1") == []
    assert poisoned.exists() is exists
