"""The copy of what was stated: what is in it, when it is behind, and what it costs to know."""

import time
from pathlib import Path

from tests.statements import decide, prefer, say
from tests.store.encrypted_stores import files_containing
from xscore.platform import database
from xscore.platform.paths import find_root
from xscore.records.memory import Kind, Layer, MemorySource
from xscore.store import copied_stores, stated_copy
from xscore.store.memory_writer import make_memory, write_memory
from xscore.store.removal import read_removable, remove_memory_rows
from xscore.store.store import Store


def source_of(store: Store) -> copied_stores.CopiedStore:
    """Return what the copy of a repository's store is made of."""
    return store.copied_stores()[0]


def exchange(store: Store) -> None:
    """Write a past exchange, as the end of a turn does."""
    memory, _ = make_memory(
        layer=Layer.SESSION,
        kind=Kind.EXCHANGE,
        title="What do herons eat?",
        text="What do herons eat? Fish.",
        source=MemorySource.EXPLICIT,
        updated_at=30.0,
    )
    with database.transaction(store.connection):
        write_memory(store.connection, memory, before=None, now=30.0, thread="t")


def copied_titles(store: Store) -> set[str]:
    """Return the titles that the copy of a repository's store holds."""
    source = source_of(store)
    return {
        stated.memory.title
        for stated in stated_copy.read_copy(source.copy_path, source.keys).memories
    }


def test_what_people_and_agents_said_is_copied_and_exchanges_are_not(store: Store) -> None:
    """Statements of people and of agents are in the copy; past exchanges are not."""
    decide(store, "The heron keeps the books")
    say(store, "Herons fly south", source=MemorySource.INFERRED)
    exchange(store)
    stated_copy.update_copy(source_of(store))
    assert copied_titles(store) == {"The heron keeps the books", "Herons fly south"}


def test_a_store_without_statements_has_no_copy(tmp_path: Path, user_dir: Path) -> None:
    """Nothing is made in the user's folder for a store in which nothing was stated."""
    (tmp_path / "project").mkdir()
    for _ in range(2):
        Store.open(find_root(tmp_path / "project"), user_data_dir=user_dir).close()
    assert not (user_dir / copied_stores.COPIES_DIR).exists()


def test_a_removal_reaches_the_copy(store: Store, user_dir: Path) -> None:
    """A memory that expires leaves the copy, and no byte of it stays; a copy of nothing is
    removed."""
    identifier = decide(store, "The heron keeps the books").memory.id
    stated_copy.update_copy(source_of(store))
    assert files_containing(user_dir)
    remove_memory_rows(
        store.connection, read_removable(store.connection, [identifier]), now=20.0
    )
    assert copied_stores.is_behind(source_of(store))
    stated_copy.update_copy(source_of(store))
    assert files_containing(user_dir) == [] and not source_of(store).copy_path.exists()


def test_turns_do_not_make_a_copy_look_behind(store: Store) -> None:
    """Exchanges and other events are no reason to copy; a statement and a deleted copy are."""
    decide(store, "The heron keeps the books")
    assert copied_stores.is_behind(source_of(store))
    stated_copy.update_copy(source_of(store))
    assert not copied_stores.is_behind(source_of(store))
    exchange(store)
    assert not copied_stores.is_behind(source_of(store))
    source_of(store).copy_path.unlink()
    assert copied_stores.is_behind(source_of(store))


def test_the_users_own_store_has_a_copy_of_its_own(store: Store) -> None:
    """Preferences are copied apart from the repository's memories."""
    prefer(store, "orm", "herons over object mappers")
    _, users = store.copied_stores()
    stated_copy.update_copy(users)
    contents = stated_copy.read_copy(users.copy_path, users.keys)
    assert [stated.memory.key for stated in contents.memories] == ["orm"]


def test_a_copy_that_cannot_be_written_stops_no_command(tmp_path: Path, user_dir: Path) -> None:
    """Where something is in the way of the copies, the statement is kept and the store says what is
    wrong."""
    (tmp_path / "project").mkdir()
    user_dir.mkdir()
    (user_dir / copied_stores.COPIES_DIR).write_text("in the way")
    with Store.open(find_root(tmp_path / "project"), user_data_dir=user_dir) as store:
        decide(store, "The heron keeps the books")
    assert "was not copied" in store.copy_problem and "stated" in store.copy_problem


def test_a_busy_store_closes_and_is_copied_later(tmp_path: Path, user_dir: Path) -> None:
    """While another process writes the store, closing waits only briefly, and the next closing
    notes the copy."""
    (tmp_path / "project").mkdir()
    root = find_root(tmp_path / "project")
    with Store.open(root, user_data_dir=user_dir) as store:
        decide(store, "The heron keeps the books")
    with Store.open(root, user_data_dir=user_dir) as busy_store:
        store = Store.open(root, user_data_dir=user_dir)
        decide(store, "The heron counts")
        busy_store.connection.execute("BEGIN IMMEDIATE")
        started = time.process_time()
        store.close()
        assert time.process_time() - started < 1.0
        busy_store.connection.execute("ROLLBACK")
        assert copied_titles(busy_store) == {"The heron keeps the books", "The heron counts"}
        assert copied_stores.is_behind(source_of(busy_store))


def test_a_store_that_is_only_read_is_not_copied(tmp_path: Path, user_dir: Path) -> None:
    """It cannot note that it was; the next closing that may write copies it."""
    (tmp_path / "project").mkdir()
    store = Store.open(find_root(tmp_path / "project"), user_data_dir=user_dir)
    decide(store, "The heron keeps the books")
    store.connection.execute("PRAGMA query_only = ON")
    store.close()
    assert store.copy_problem == "" and not (user_dir / copied_stores.COPIES_DIR).exists()
    Store.open(find_root(tmp_path / "project"), user_data_dir=user_dir).close()
    assert (user_dir / copied_stores.COPIES_DIR).exists()
