"""Packs of what turns read of each version of a file: they say what the rows say, or are gone."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.proof.linked_worktrees import MAIN, TEXTS, Worktrees
from tests.proof.linked_worktrees import index as index_store
from tests.statements import decide
from xscore.indexer.index import index_repository
from xscore.pipeline.build import Pipeline
from xscore.pipeline.prepare import DAMAGED_PACKS
from xscore.platform.errors import StoreDamaged
from xscore.platform.paths import find_root
from xscore.records.candidates import Candidate
from xscore.records.receipt import Answer
from xscore.settings import IndexSettings, JudgeSettings, Settings
from xscore.store.fetched_pool import FetchedPool
from xscore.store.packed_pool import are_packs_due, pack_versions
from xscore.store.store import Store

FILES = {
    "cart.py": 'def total(items):\n    """Sum."""\n    return sum(items)\n\n\nLIMIT = 9\n',
    "copy/cart.py": 'def total(items):\n    """Sum."""\n    return sum(items)\n',
    "tests/test_cart.py": "from cart import total\n\n\ndef test_no():\n    assert not total([])\n",
    "page.html": "<p>\nOne\n</p>\n<script>\nfunction shown() {\n  return 1;\n}\n</script>\n",
    "README.md": "# Cart\n\nIt sums.\n\n## Limits\n\nNine.\n",
    "settings.toml": "[cart]\nlimit = 9\n",
    "empty.py": "",
}
NOW = 2_000_000_000.0
"""Later than every file's change, so that no stamp is too recent to trust."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A plain folder of files of all kinds."""
    for name, text in FILES.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_780_000_000, 1_780_000_000))
    return tmp_path / "tree"


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    """The repository's store, indexed."""
    with Store.open_with(find_root(root), Settings(), create=True) as opened:
        index(opened)
        yield opened


def index(store: Store) -> None:
    """Run the index as every turn does."""
    index_repository(store.connection, store.root, IndexSettings(), now=NOW)


def packs(connection: sqlite3.Connection) -> int:
    """Return how many packs there are."""
    return int(connection.execute("SELECT count(*) FROM version_pool").fetchone()[0])


def versions_without(connection: sqlite3.Connection) -> int:
    """Return how many versions are not packed."""
    return int(connection.execute("SELECT count(*) FROM unpacked_version").fetchone()[0])


def vectors_of(pool: FetchedPool) -> dict[str, bytes]:
    """Return the term vector of each memory of a pool."""
    start, vectors = 0, dict[str, bytes]()
    for id_, size in zip(pool.terms.ids, pool.terms.sizes, strict=True):
        vectors[id_] = pool.terms.entries[start : start + size]
        start += size
    return vectors


def read(store: Store) -> tuple[tuple[Candidate, ...], dict[str, bytes]]:
    """Return the candidates and their vectors."""
    pool = store.fetch(with_terms=True)
    assert store.fetch().candidates == pool.candidates
    return pool.candidates, vectors_of(pool)


def read_without_packs(store: Store) -> tuple[tuple[Candidate, ...], dict[str, bytes]]:
    """Return the same from rows alone."""
    store.connection.execute("BEGIN")
    store.connection.execute(
        "INSERT OR IGNORE INTO unpacked_version (version) SELECT number FROM file_version"
    )
    assert packs(store.connection) == 0
    try:
        return read(store)
    finally:
        store.connection.execute("ROLLBACK")


def test_packs_say_what_rows_say(store: Store) -> None:
    """Files of one layer and of two, tests with a card, equal contents, and what was stated."""
    decide(store, "Carts are summed once", now=NOW)
    store.connection.execute(
        "UPDATE memory_view SET hash = substr(hex(zeroblob(16)), 1, 32) WHERE memory IN"
        " (SELECT number FROM memory_row WHERE entity = 'total')"
    )
    pack_versions(store.connection)
    assert versions_without(store.connection) == 0 and packs(store.connection) > len(FILES) - 1
    candidates, vectors = read(store)
    assert (candidates, vectors) == read_without_packs(store)
    assert any(candidate.duplicates for candidate in candidates) and all(vectors.values())
    whole_tests = store.fetch(tests="full")
    assert {candidate.id for candidate in whole_tests.candidates} == {
        candidate.id for candidate in candidates
    }
    assert whole_tests.candidates != candidates


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE memory_row SET entity = 'sum_up' WHERE entity = 'total'",
        "UPDATE memory_row SET updated_at = 5 WHERE entity = 'total'",
        "UPDATE memory_row SET start_line = 2, end_line = 2 WHERE entity = 'total'",
        "UPDATE memory_row SET kind = 'method' WHERE entity = 'total'",
        "UPDATE memory_row SET layer = 'vector' WHERE entity = 'total'",
        "UPDATE memory_row SET language = 'go' WHERE entity = 'total'",
        "UPDATE memory_row SET status = 'archived' WHERE entity = 'total'",
        "UPDATE memory_row SET terms = x'010203040506' WHERE entity = 'total'",
        "DELETE FROM memory_row WHERE entity = 'total'",
        "UPDATE memory_view SET hash = 'c' || substr(hash, 2)",
        "UPDATE memory_view SET tokens = tokens + 1",
        "DELETE FROM memory_view WHERE view = 'card'",
        "INSERT INTO memory_view SELECT number, 'card', 0, hash, 7 FROM memory_row"
        " JOIN memory_view ON memory = number WHERE entity = 'total' AND view = 'whole'",
    ],
)
def test_a_changed_row_has_no_pack(store: Store, change: str) -> None:
    """Whoever changes a memory, by whatever statement, the next turn reads what it says now."""
    before = read(store)
    packed = packs(store.connection)
    store.connection.execute(change)
    assert packs(store.connection) < packed
    after = read(store)
    assert after != before and after == read_without_packs(store)
    index(store)
    assert not are_packs_due(store.connection)
    assert read(store) == after


def test_an_edit_packs_its_file_again(store: Store, root: Path) -> None:
    """The other packs stay; a touched file, one that is new and one that is gone count too."""
    numbers = "SELECT number, hex(identities) FROM version_pool ORDER BY 1"
    before = set(store.connection.execute(numbers).fetchall())
    (root / "cart.py").write_text(FILES["cart.py"].replace("sum(items)", "sum(items) + 1"))
    index(store)
    after = set(store.connection.execute(numbers).fetchall())
    assert len(before - after) == len(after - before) == 1
    os.utime(root / "cart.py", (1_790_000_000, 1_790_000_000))
    (root / "new.py").write_text("def fresh():\n    return 1\n")
    (root / "README.md").unlink()
    index(store)
    assert versions_without(store.connection) == 0
    assert read(store) == read_without_packs(store)
    assert {"fresh"} <= {candidate.entity for candidate in read(store)[0]}


def test_nothing_of_a_file_that_is_gone_stays(store: Store, root: Path) -> None:
    """A name that was in one file is in no byte of the store once the file is removed."""
    (root / "cart.py").write_text("def zanzibar_tariff():\n    return 1\n")
    index(store)
    packed = "SELECT count(*) FROM version_pool WHERE entities GLOB '*zanzibar_tariff*'"
    assert store.connection.execute(packed).fetchone() == (1,)
    (root / "cart.py").unlink()
    index(store)
    assert store.connection.execute(packed).fetchone() == (0,)
    store.connection.execute("VACUUM")
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"zanzibar_tariff" not in store.root.store_file.read_bytes()


@pytest.mark.parametrize(
    "unusual",
    [
        "UPDATE memory_row SET entity = 'a' || char(31) || 'b' WHERE entity = 'total'",
        "UPDATE memory_row SET end_line = 70000 WHERE entity = 'total'",
        "UPDATE memory_row SET kind = 'todo' WHERE entity = 'total'",
        "UPDATE memory_row SET updated_at = 1 WHERE entity = 'total'",
    ],
)
def test_what_fits_into_no_pack_is_read_by_its_rows(store: Store, unusual: str) -> None:
    """It is tried once, and again only after a change."""
    store.connection.execute(unusual)
    assert are_packs_due(store.connection)
    expected = read_without_packs(store)
    pack_versions(store.connection)
    assert not are_packs_due(store.connection)
    assert versions_without(store.connection) > 0
    assert read(store) == expected
    store.connection.execute("UPDATE memory_row SET end_line = 1 WHERE kind = 'function'")
    assert are_packs_due(store.connection)


DAMAGES = [
    "DELETE FROM version_pool WHERE number = (SELECT min(number) FROM version_pool)",
    "UPDATE version_pool SET identities = substr(identities, 2)",
    "UPDATE version_pool SET identities = zeroblob(10) || substr(identities, 11)",
    "UPDATE version_pool SET identities = substr(identities, 1, 10) || zeroblob(16) ||"
    " substr(identities, 27)",
    "UPDATE version_pool SET identities = substr(identities, 1, length(identities) - 4)",
    "UPDATE version_pool SET numbers = x''",
    "UPDATE version_pool SET kinds = 'é'",
    "UPDATE version_pool SET kinds = CAST(x'ff' AS TEXT)",
    "UPDATE version_pool SET entities = entities || char(31)",
    "UPDATE version_pool SET terms = x'00'",
    "UPDATE version_pool SET terms = x''",
    "UPDATE version_pool SET updated_at = 'now'",
    "UPDATE version_pool SET updated_at = 9e999",
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_pack_hides_nothing(store: Store, damage: str) -> None:
    """Rows are read instead, and the next index run packs them again."""
    expected = read(store)
    store.connection.execute(damage)
    damaged = store.fetch(with_terms=True)
    assert damaged.has_damaged_packs and (damaged.candidates, vectors_of(damaged)) == expected
    assert packs(store.connection) == 0 and are_packs_due(store.connection)
    index(store)
    assert packs(store.connection) > 0 and versions_without(store.connection) == 0
    healed = store.fetch(with_terms=True)
    assert not healed.has_damaged_packs
    assert (healed.candidates, vectors_of(healed)) == expected


def test_a_damaged_pack_is_passed_over_while_another_process_writes(store: Store) -> None:
    """Nobody is waited for: rows are read, and the packs stay for a later turn to drop."""
    expected = read(store)
    store.connection.execute(DAMAGES[1])
    with closing(sqlite3.connect(store.root.store_file)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert read(store) == expected
        assert packs(store.connection) > 0
        writer.rollback()
    assert read(store) == expected and packs(store.connection) == 0


def test_rows_that_are_missing_are_damage(store: Store) -> None:
    """Neither packs nor the index of the table replace a row that is lost."""
    store.connection.execute("PRAGMA ignore_check_constraints = ON")
    store.connection.execute(DAMAGES[1])
    store.connection.execute("DELETE FROM memory_view WHERE view = 'whole'")
    with pytest.raises(StoreDamaged):
        store.fetch()


async def test_a_turn_with_a_damaged_pack_warns_once(store: Store, root: Path) -> None:
    """It keeps what it would have kept; the next turn has nothing to say."""
    settings = Settings(judge=JudgeSettings(model="lexical"))
    store.connection.execute(DAMAGES[1])
    answers: list[Answer] = []
    for _ in range(2):
        async with Pipeline.open(root, settings) as pipeline:
            answers.append(await pipeline.context("sum the items of the cart"))
    first, second = answers
    assert DAMAGED_PACKS in first.warnings
    assert DAMAGED_PACKS not in second.warnings
    assert first.selected and first.selected == second.selected


def test_an_index_that_ended_before_is_packed_by_the_next(root: Path) -> None:
    """Until then the rows are read."""
    with Store.open_with(find_root(root), Settings(), create=True) as store:
        index(store)
        store.connection.execute(
            "INSERT OR IGNORE INTO unpacked_version (version) SELECT number FROM file_version"
            " WHERE path <> 'cart.py'"
        )
        assert packs(store.connection) == 1
        expected = read(store)
        pack_versions(store.connection, is_late=lambda: True)
        assert packs(store.connection) == 1
        index(store)
        assert versions_without(store.connection) == 0 and read(store) == expected


def test_each_worktree_reads_the_packs_of_its_versions(tmp_path: Path) -> None:
    """A shared version has one pack; an edit in one worktree changes what that one reads."""
    world = Worktrees(tmp_path)
    world.add("second")
    with ExitStack() as stack:
        first, second = (stack.enter_context(world.open(name)) for name in (MAIN, "second"))
        index_store(first)
        count = packs(first.connection)
        index_store(second)
        assert packs(first.connection) == count
        world.write("second", "pkg/b.py", TEXTS["pkg/b.py"][1])
        index_store(second)
        assert packs(first.connection) == count + 1
        assert read(first) != read(second)
        for store in (first, second):
            assert read(store) == read_without_packs(store)


def test_a_clone_takes_over_and_packs(store: Store, root: Path, tmp_path: Path) -> None:
    """What a copy of the store holds is packed there, too: by its own rows."""
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    subprocess.run(["rm", "-rf", str(copy / ".xscore")], check=True)
    with Store.open_with(find_root(copy), Settings(), create=True) as copied_store:
        index_repository(
            copied_store.connection,
            copied_store.root,
            IndexSettings(),
            now=NOW,
            siblings=lambda: [store.root.store_file],
        )
        assert versions_without(copied_store.connection) == 0
        assert read(copied_store) == read_without_packs(copied_store)
        assert len(read(copied_store)[0]) == len(read(store)[0])
