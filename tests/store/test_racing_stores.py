"""Two processes write the same memory: each reads it while holding the lock, and both succeed."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.statements import prefer, say
from xscore.platform import database
from xscore.platform.errors import NothingMatched, StoreError
from xscore.records.memory import Layer
from xscore.store import failures
from xscore.store.lookup import memory_by_id
from xscore.store.remembering import MemoryChange, update_memory
from xscore.store.store import Store

UNTIL_IT_WAITS_S = 0.3


@pytest.fixture
def second(store: Store, user_dir: Path) -> Iterator[Store]:
    """Open the same store again."""
    with Store.open(store.root, user_data_dir=user_dir) as opened:
        yield opened


def race(holder: Store, work: Callable[[], object], write: Callable[[], object]) -> object:
    """Let the work wait for the lock while something is written; return its result."""
    came: list[object] = []

    def do() -> None:
        try:
            came.append(work())
        except NothingMatched as error:
            came.append(error)

    thread = threading.Thread(target=do)
    with database.transaction(holder.connection):
        thread.start()
        time.sleep(UNTIL_IT_WAITS_S)
        assert not came, "it did not wait for the lock"
        write()
    thread.join(20)
    return came[0]


def test_two_changes_of_one_memory_are_both_kept(store: Store, second: Store) -> None:
    """One changes the confidence while another waits to change the importance: neither undoes the
    other."""
    memory = say(store, "the port is 80", now=1.0).memory

    def doubt() -> None:
        store.connection.execute(
            "UPDATE memory_row SET confidence = 0.25 WHERE id = ?", (memory.id,)
        )

    race(
        store,
        lambda: update_memory(second, memory.id, MemoryChange(importance=0.9), now=2.0),
        doubt,
    )
    after = memory_by_id(store, memory.id)
    assert (after.importance, after.confidence) == (0.9, 0.25)


def test_a_change_brings_nothing_erased_back(store: Store, second: Store) -> None:
    """P06: a memory erased while a change waited stays erased, and the change reports that it is
    missing."""
    memory = say(store, "the port is 80", now=1.0).memory

    def erase() -> None:
        store.connection.execute("DELETE FROM memory_row WHERE id = ?", (memory.id,))

    came = race(
        store,
        lambda: update_memory(second, memory.id, MemoryChange(importance=0.9), now=2.0),
        erase,
    )
    assert isinstance(came, NothingMatched)
    assert store.memories([memory.id]) == {}


def test_a_failure_met_while_it_is_resolved_is_counted(store: Store, second: Store) -> None:
    """A resolution that waited for another occurrence keeps the count."""
    failure = failures.record_failure(store, text="boom", seen_at=1.0).memory

    def meet() -> None:
        failures.record_failure_within(
            store.connection, failures.Occurrence(text="boom", seen_at=2.0)
        )

    race(store, lambda: failures.resolve_failure(second, failure.id, "restart", now=3.0), meet)
    after = memory_by_id(store, failure.id).details
    assert (after.occurrences, after.resolution) == (2, "restart")


def test_two_stores_of_one_layer_take_the_locks_in_one_order(
    store: Store, second: Store
) -> None:
    """Imports that write both databases at once never wait for each other: neither ends as
    locked."""
    prefer(store, "k", "v", now=1.0)
    errors: list[StoreError] = []

    def write(store: Store, layers: tuple[Layer, ...]) -> None:
        try:
            for _ in range(40):
                with store.transaction(layers):
                    pass
        except StoreError as error:
            errors.append(error)

    ways = ((store, (Layer.PROJECT, Layer.USER)), (second, (Layer.USER, Layer.GOVERNANCE)))
    threads = [threading.Thread(target=write, args=way) for way in ways]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []


def test_the_users_database_is_taken_first_and_committed_last(store: Store) -> None:
    """The same for any order of layers."""
    prefer(store, "k", "v", now=1.0)
    user = store.user_connection()
    assert user is not None
    said_: list[str] = []
    user.set_trace_callback(lambda sql: said_.append(f"user {sql}"))
    store.connection.set_trace_callback(lambda sql: said_.append(f"own {sql}"))
    for layers in ((Layer.PROJECT, Layer.USER), (Layer.USER, Layer.PROJECT), ()):
        with store.transaction(layers):
            pass
    said_ = [line for line in said_ if "PRAGMA" not in line]
    assert (
        said_
        == ["user BEGIN IMMEDIATE", "own BEGIN IMMEDIATE", "own COMMIT", "user COMMIT"] * 3
    )
