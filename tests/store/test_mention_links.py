"""Remembered memories linked to the code they name."""

from pathlib import Path

import pytest

from tests.conftest import MakeRepo
from tests.store.conftest import said
from xscore.indexer.index import index_repository
from xscore.platform import database
from xscore.platform.hashing import file_id
from xscore.platform.paths import find_root
from xscore.records.memory import Kind, Memory, MemoryDetails
from xscore.settings import IndexSettings
from xscore.store import memory_writer, mention_links
from xscore.store.graph import follow_links
from xscore.store.store import Store

FILES = {
    "src/net/retry.py": (
        "class Retry:\n    def run(self):\n        return 0\n\n\ndef wait_a_bit():\n    return 1\n"
    ),
    "src/db/retry.py": "class Pool:\n    def run(self):\n        return 2\n",
    "tests/test_retry.py": "def test_waits():\n    pass\n",
    "README.md": "# Top\n",
}


@pytest.fixture
def repo(make_repo: MakeRepo, user_dir: Path) -> Store:
    """Give the store of a small indexed repository."""
    store = Store.open(find_root(make_repo(FILES)), user_data_dir=user_dir)
    reindex(store)
    return store


def reindex(store: Store) -> None:
    """Bring the index up to date."""
    index_repository(store.connection, store.root, IndexSettings(), now=2_000_000_000.0)


def remember(store: Store, text: str, **fields: object) -> Memory:
    """Remember something and link it to what it names."""
    details = MemoryDetails(**fields)  # type: ignore[arg-type]  # any field may be given
    failure = said(text, kind=Kind.FAILURE, title="A failure", entity=text, details=details)
    with database.transaction(store.connection):
        memory_writer.put_memories(store.connection, [failure])
        mention_links.link_mentions(store.connection, [failure.id])
    return failure


def targets(store: Store, memory: Memory) -> set[str]:
    """Return the memory's links, by path and entity."""
    edges = [edge for edge in store.edges_touching([memory.id]) if edge.source == memory.id]
    memory_by_id = store.memories([edge.target for edge in edges])
    return {
        (
            f"{memory_by_id[edge.target].path}::{memory_by_id[edge.target].entity}"
            if edge.target in memory_by_id
            else edge.target
        )
        for edge in edges
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("broke in src/net/retry.py again", {file_id("src/net/retry.py")}),
        ("see `./src/net/retry.py`, line 3", {file_id("src/net/retry.py")}),
        ("net/retry.py is the one", {file_id("src/net/retry.py")}),
        ("retry.py is two files", set()),
        ("test_retry.py is one file", {file_id("tests/test_retry.py")}),
        ("src/net/retry.py::Retry.run loops", {"src/net/retry.py::Retry.run"}),
        ("net/retry.py::wait_a_bit", {"src/net/retry.py::wait_a_bit"}),
        ("src/net/retry.py::nothing", set()),
        ("`wait_a_bit()` sleeps", {"src/net/retry.py::wait_a_bit"}),
        ("`Retry.run` and `Pool`", {"src/net/retry.py::Retry.run", "src/db/retry.py::Pool"}),
        ("`run` is two methods", set()),
        ("wait_a_bit without backticks is a word", set()),
        ("https://example.invalid/src/net/retry.py", set()),
        ("/etc/src/net/retry.py", set()),
    ],
)
def test_what_a_text_names_is_linked(repo: Store, text: str, expected: set[str]) -> None:
    """X19: paths, qualified names and identifiers in backticks, if unambiguous."""
    with repo:
        assert targets(repo, remember(repo, text)) == expected


def test_touched_files_and_memories_are_linked(repo: Store) -> None:
    """X19: files an exchange changed, and memories it cites, are linked too."""
    with repo:
        first = remember(repo, "first")
        second = remember(
            repo, "second", paths=("README.md", "gone.md"), links=(first.id, "m_" + "0" * 20)
        )
        assert targets(repo, second) == {file_id("README.md"), f"::{first.entity}"}


def test_links_feed_the_graph_and_are_no_calls(repo: Store) -> None:
    """A06, X19: a file's related memories are found; a memory that names an entity is not its
    caller."""
    with repo:
        failure = remember(repo, "`wait_a_bit` is slow")
        related = follow_links(repo.connection, "related", "src/net/retry.py")
        assert [(node.id, node.entity) for node in related if node.kind == Kind.FAILURE] == [
            (failure.id, "A failure")
        ]
        (target,) = (edge.target for edge in repo.edges_touching([failure.id]))
        assert repo.degrees([target]) == {target: 0}
        assert failure.id not in {
            node.id for node in follow_links(repo.connection, "affected", "src/net/retry.py")
        }


def test_links_survive_their_target(repo: Store) -> None:
    """X19: editing, renaming, removing and restoring the target keeps or restores the edge."""
    with repo:
        linked = remember(repo, "`wait_a_bit` in src/net/retry.py")
        unrelated = remember(repo, "`Pool` has nothing to do with it")
        both = {"src/net/retry.py::wait_a_bit", file_id("src/net/retry.py")}
        file = repo.root.path / "src/net/retry.py"
        text = file.read_text()
        for changed, expected in (
            (text + "\n# more\n", both),
            (text.replace("wait_a_bit", "wait_long"), {file_id("src/net/retry.py")}),
            (text, both),
        ):
            file.write_text(changed)
            reindex(repo)
            assert targets(repo, linked) == expected
            assert targets(repo, unrelated) == {"src/db/retry.py::Pool"}
        file.unlink()
        reindex(repo)
        assert targets(repo, linked) == set()
        file.write_text(text)
        reindex(repo)
        assert targets(repo, linked) == both


def test_links_survive_linking_everything_anew(repo: Store) -> None:
    """When the index links every file again, remembered memories stay linked."""
    with repo:
        failure = remember(repo, "`wait_a_bit`")
        repo.connection.execute(
            'INSERT INTO worktree_meta VALUES (1, \'links_due\', \'{"paths": [], "names": [],'
            ' "everything": true}\')'
        )
        reindex(repo)
        assert targets(repo, failure) == {"src/net/retry.py::wait_a_bit"}


def test_links_die_with_their_memory(repo: Store) -> None:
    """P06: no edge or mention outlives its memory; others' stay."""
    with repo:
        gone, remaining = remember(repo, "`wait_a_bit`"), remember(repo, "`Pool`")
        remember(repo, f"see {gone.id}")
        repo.connection.execute("DELETE FROM memory_row WHERE id = ?", (gone.id,))
        assert repo.edges_touching([gone.id]) == []
        assert repo.connection.execute(
            "SELECT count(*) FROM mention WHERE source = ?", (gone.id,)
        ).fetchone() == (0,)
        assert targets(repo, remaining) == {"src/db/retry.py::Pool"}


def test_linking_again_forgets_what_is_named_no_more(repo: Store) -> None:
    """An edited memory is linked to what it names now; linking twice changes nothing."""
    with repo:
        failure = remember(repo, "`Pool`")
        repo.connection.execute(
            "UPDATE memory_row SET text = '`Retry`' WHERE id = ?", (failure.id,)
        )
        for _ in range(2):
            with database.transaction(repo.connection):
                assert mention_links.link_mentions(repo.connection, [failure.id]) == 1
            assert targets(repo, failure) == {"src/net/retry.py::Retry"}
