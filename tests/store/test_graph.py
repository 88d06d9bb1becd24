"""Graph queries: files and entities, cycles, depth, names."""

import pytest

from tests.cpu_time import assert_growth
from tests.store.conftest import function
from xscore.platform import database
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.hashing import file_id
from xscore.records.indexing import FileStamp
from xscore.records.memory import Citation, Edge, Kind, Layer, MemorySource, Relation
from xscore.store import evidence, file_rows, link_rows, memory_writer
from xscore.store.encoded_files import encode_file
from xscore.store.graph import ReachedNode, follow_links
from xscore.store.store import Store

CALLS, IMPORTS, TESTS, REFERENCES = (
    Relation.CALLS,
    Relation.IMPORTS,
    Relation.TESTS,
    Relation.REFERENCES,
)


def follow(
    store: Store, question: str, name: str, *, depth: int | None = None
) -> tuple[ReachedNode, ...]:
    """Ask a question of the graph."""
    return follow_links(store.connection, question, name, depth=depth)


def index(store: Store, files: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Index files with these entities; `path::entity` -> id."""
    memories = {
        path: tuple(function(name, path=path) for name in names)
        for path, names in files.items()
    }
    indexed = [
        encode_file(FileStamp(path, 1, 1, "h", "python"), file_memories)
        for path, file_memories in memories.items()
    ]
    with database.transaction(store.connection):
        file_rows.replace_files(store.connection, indexed, ())
    return {
        f"{memory.path}::{memory.entity}": memory.id
        for file_memories in memories.values()
        for memory in file_memories
    }


def tie(store: Store, *edges: tuple[str, Relation, str], path: str = "a.py") -> None:
    """Write edges."""
    rows = [(path, Edge(source, target, relation)) for source, relation, target in edges]
    with database.transaction(store.connection):
        link_rows.replace_edges(store.connection, [], rows)


def names(reached: tuple[ReachedNode, ...]) -> list[tuple[str, int]]:
    """Return what was reached, with its distance."""
    return [
        (node.path + ("::" + node.entity if node.entity else ""), node.distance)
        for node in reached
    ]


def test_a_chain_is_followed_through_files(store: Store) -> None:
    """A06: a call between entities links their files; distance counts the steps."""
    ids = index(store, {"a.py": ("f",), "b.py": ("g", "h"), "c.py": ("k",)})
    tie(store, (ids["a.py::f"], CALLS, ids["b.py::g"]), (ids["b.py::h"], CALLS, ids["c.py::k"]))
    assert names(follow(store, "deps", "a.py")) == [("b.py", 1), ("c.py", 2)]
    assert names(follow(store, "affected", "c.py")) == [("b.py", 1), ("a.py", 2)]
    assert names(follow(store, "deps", "a.py", depth=1)) == [("b.py", 1)]


def test_an_entity_follows_its_own_calls_alone(store: Store) -> None:
    """A06: a query for an entity returns entities; the rest of its file is ignored."""
    ids = index(store, {"a.py": ("f",), "b.py": ("g", "h"), "c.py": ("k",)})
    tie(store, (ids["a.py::f"], CALLS, ids["b.py::g"]), (ids["b.py::h"], CALLS, ids["c.py::k"]))
    assert names(follow(store, "deps", "a.py::f")) == [("b.py::g", 1)]
    assert names(follow(store, "affected", "c.py::k")) == [("b.py::h", 1)]
    assert names(follow(store, "affected", ids["b.py::g"])) == [("a.py::f", 1)]


def test_a_class_stands_for_its_methods(store: Store) -> None:
    """A query for a class includes its methods' calls; a name that only begins alike is
    excluded."""
    ids = index(store, {"a.py": ("A", "A.run", "A_b", "AXb.run", "f", "g")})
    tie(
        store,
        (ids["a.py::A.run"], CALLS, ids["a.py::f"]),
        (ids["a.py::A_b"], CALLS, ids["a.py::g"]),
    )
    tie(store, (ids["a.py::AXb.run"], CALLS, ids["a.py::f"]))
    assert names(follow(store, "deps", "a.py::A")) == [("a.py::f", 1)]
    assert names(follow(store, "deps", "a.py::A_b")) == [("a.py::g", 1)]


def test_a_cycle_ends(store: Store) -> None:
    """A06: a cycle is walked once, at any depth, and never returns to the start."""
    ids = index(store, {"a.py": ("f",), "b.py": ("g",), "c.py": ("h",)})
    tie(
        store,
        *(
            (ids[caller], CALLS, ids[callee])
            for caller, callee in (("a.py::f", "b.py::g"), ("b.py::g", "c.py::h"))
        ),
        (ids["c.py::h"], CALLS, ids["a.py::f"]),
    )
    assert names(follow(store, "deps", "a.py::f", depth=10**6)) == [
        ("b.py::g", 1),
        ("c.py::h", 2),
    ]
    assert names(follow(store, "deps", "a.py", depth=10**6)) == [("b.py", 1), ("c.py", 2)]


def test_a_diamond_is_reached_by_its_shortest_side(store: Store) -> None:
    """Two paths to one target make one result, with the edges of both."""
    index(store, {"a.py": (), "b.py": (), "c.py": (), "d.py": ()})
    for importer, imported in ("ab", "ac", "bd", "cd"):
        tie(store, (file_id(f"{importer}.py"), IMPORTS, file_id(f"{imported}.py")))
    reached = follow(store, "deps", "a.py")
    assert names(reached) == [("b.py", 1), ("c.py", 1), ("d.py", 2)]
    assert reached[-1].ties == 2
    assert reached[-1].via == file_id("b.py")


def test_a_dense_cycle_costs_no_more_for_its_depth(store: Store) -> None:
    """If everything calls everything, a depth of a thousand costs as much as a depth of two."""
    count = 60
    ids = index(store, {f"f{i}.py": ("g",) for i in range(count)})
    ends = list(ids.values())
    tie(store, *((caller, CALLS, callee) for caller in ends for callee in ends))
    assert len(follow(store, "deps", "f0.py", depth=1_000)) == count - 1
    assert_growth(
        lambda depth: follow(store, "deps", "f0.py", depth=depth),
        small=2,
        large=1_000,
        at_most=3,
    )


def test_a_test_depends_on_its_subject(store: Store) -> None:
    """A06: a changed subject affects its tests; a document that names it is related, but not
    affected."""
    ids = index(store, {"a.py": ("f",), "test_a.py": ("test_f",), "README.md": ("Top",)})
    tie(
        store,
        (ids["test_a.py::test_f"], TESTS, ids["a.py::f"]),
        (ids["README.md::Top"], REFERENCES, ids["a.py::f"]),
    )
    assert names(follow(store, "affected", "a.py")) == [("test_a.py", 1)]
    assert names(follow(store, "related", "a.py")) == [("README.md", 1), ("test_a.py", 1)]


@pytest.mark.parametrize("path", ["quote'\".py", "50%25_done.py", "f_a.py", "m_a.py", "a:b.py"])
def test_odd_paths_are_ends_like_others(store: Store, path: str) -> None:
    """Percent signs, quotes and prefixes of ids in a path cause no wrong match."""
    index(store, {path: ("f",), "other.py": (), "50x25xdone.py": ()})
    tie(store, (file_id("other.py"), IMPORTS, file_id(path)))
    assert names(follow(store, "affected", path)) == [("other.py", 1)]
    assert names(follow(store, "deps", "other.py")) == [(path, 1)]


def test_a_walk_starts_at_what_is_named(store: Store) -> None:
    """A06: a path may be shortened, a method named without its file; an unknown name and a depth of
    0 are errors."""
    ids = index(store, {"src/net/retry.py": ("Retry.run",), "b.py": ("g",)})
    tie(store, (ids["b.py::g"], CALLS, ids["src/net/retry.py::Retry.run"]))
    assert names(follow(store, "affected", "retry.py")) == [("b.py", 1)]
    assert (
        names(follow(store, "affected", "Retry.run"))
        == names(follow(store, "affected", "run"))
        == [("b.py::g", 1)]
    )
    with pytest.raises(NothingMatched, match="called `zzz`"):
        follow(store, "related", "zzz")
    with pytest.raises(UsageError, match="at least 1"):
        follow(store, "related", "src/net/retry.py", depth=0)


def test_a_citation_ties_a_decision_to_the_code_it_rests_on(store: Store) -> None:
    """A06, A08: a decision is related to the file and entities whose lines it cites, and they to
    it, once each."""
    index(store, {"a.py": ("f",), "b.py": ("g",)})
    store.connection.execute(
        "UPDATE memory_row SET start_line = 1, end_line = 9 WHERE source = 'index'"
    )
    decision = function(
        layer=Layer.GOVERNANCE, kind=Kind.DECISION, path="", source=MemorySource.EXPLICIT
    )
    with database.transaction(store.connection):
        memory_writer.put_memories(store.connection, [decision])
        cited = [
            Citation("a.py", 3, 4, "h1"),
            Citation("b.py", 0, 0, "h2"),
            Citation("b.py", 40, 50, "h3"),
        ]
        evidence.attach_citations(store.connection, decision.id, cited)
    assert names(follow(store, "related", decision.id)) == [("b.py", 1), ("a.py::f", 1)]
    assert [node.id for node in follow(store, "related", "a.py")] == [decision.id]
    assert [node.id for node in follow(store, "related", "a.py::f")] == [decision.id]
    assert follow(store, "related", "b.py::g") == ()
    assert [(node.id, node.ties) for node in follow(store, "related", "b.py")] == [
        (decision.id, 2)
    ]
    assert follow(store, "affected", "a.py") == follow(store, "deps", decision.id) == ()


def test_a_test_of_a_file_is_named_as_its_test(store: Store) -> None:
    """A06: a test file imports and calls what it tests; a query for the file lists it as its
    test."""
    ids = index(store, {"a.py": ("f",), "test_a.py": ("test_f",), "b.py": ("g",)})
    tie(
        store,
        (file_id("test_a.py"), IMPORTS, file_id("a.py")),
        (ids["test_a.py::test_f"], TESTS, ids["a.py::f"]),
        (ids["b.py::g"], CALLS, ids["a.py::f"]),
    )
    relation_by_path = {node.path: node.relation for node in follow(store, "related", "a.py")}
    assert relation_by_path == {"test_a.py": TESTS, "b.py": CALLS}
