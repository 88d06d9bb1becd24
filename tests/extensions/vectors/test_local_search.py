"""The search among a store's own vectors: by signs first, then exact."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.store.conftest import function
from xscore.extensions.vectors import local_search
from xscore.extensions.vectors.embedders import unit_rows
from xscore.extensions.vectors.pool_search import nearest_memories
from xscore.platform import database
from xscore.records.memory import Memory
from xscore.settings import Settings
from xscore.store import memory_writer
from xscore.store.sign_blocks import HASH_BYTES, MOST_SIGNS, read_signs, sign_bits, signs_of
from xscore.store.store import Store
from xscore.store.vector_rows import ids_without_vector, note_complete_embedder, put_vectors

EMBEDDER = "drawn"
DIMENSIONS = 192
Rows = NDArray[np.float16]


@pytest.fixture
def by_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any store is large: 60 vectors are read after the search by signs."""
    monkeypatch.setattr(local_search, "EXACT_UP_TO", 0)
    monkeypatch.setattr(local_search, "READ_AT_LEAST", 60)


def clustered(count: int) -> Rows:
    """Return vectors around eight centers."""
    chance = np.random.default_rng(5)
    centers = chance.normal(size=(8, DIMENSIONS))
    rows = centers[chance.integers(0, 8, count)] + 0.7 * chance.normal(size=(count, DIMENSIONS))
    return unit_rows(rows).astype("<f2")


async def cosines_of(
    store: Store, query: NDArray[np.float32], k: int | None
) -> dict[str, float]:
    """Search the store."""
    return dict((await nearest_memories(store, Settings(), EMBEDDER, query, k)).cosines)


def fill(store: Store, rows: Rows) -> list[Memory]:
    """Store a memory for each vector."""
    memories = [function(f"f{at}", text=f"def f{at}(): return {at}") for at in range(len(rows))]
    vectors = [(memory, row.tobytes()) for memory, row in zip(memories, rows, strict=True)]
    with database.transaction(store.connection):
        memory_writer.put_memories(store.connection, memories)
        put_vectors(store.connection, EMBEDDER, vectors)
    return memories


@given(st.integers(1, 700), st.integers(0, 1_000))
def test_the_signs_of_a_vector_and_its_text(dimensions: int, seed: int) -> None:
    """Vectors of any length have a bit for each leading place, in whole words, then their text
    hash."""
    row = np.random.default_rng(seed).normal(size=dimensions).astype("<f2")
    signs = sign_bits(row.tobytes())
    bits = np.unpackbits(np.frombuffer(signs, np.uint8))
    leading = row[:MOST_SIGNS]
    assert len(bits) % 64 == 0
    assert bits[-len(leading) :].tolist() == (leading < 0).astype(int).tolist()
    assert not bits[: -len(leading)].any()
    assert signs_of("ab" * HASH_BYTES, row.tobytes()) == signs + b"\xab" * HASH_BYTES


@pytest.mark.usefixtures("by_signs")
async def test_the_nearest_by_signs_are_ranked_by_cosine(store: Store) -> None:
    """Of 600 vectors 60 are read: nearly all of the ten nearest are among them, with exact
    cosines."""
    rows = clustered(600)
    fill(store, rows)
    same = 0
    for row in rows[:20].astype(np.float32):
        exact = await cosines_of(store, row, None)
        cosines = await cosines_of(store, row, 10)
        assert list(cosines.values()) == sorted(cosines.values(), reverse=True)
        assert all(
            abs(exact[identifier] - cosine) < 1e-6 for identifier, cosine in cosines.items()
        )
        same += len(cosines.keys() & set(list(exact)[:10]))
    assert same >= 180


@pytest.mark.usefixtures("by_signs")
async def test_texts_without_a_memory_in_the_pool_take_no_place(store: Store) -> None:
    """Where all the nearest are archived, the search goes on until it has k of the pool."""
    memories = fill(store, clustered(300))
    query = clustered(1)[0].astype(np.float32)
    nearest_200 = list(await cosines_of(store, query, 200))
    store.connection.execute(
        "UPDATE memory_row SET status = 'archived' WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(nearest_200),),
    )
    other_ids = {memory.id for memory in memories} - set(nearest_200)
    cosines = await cosines_of(store, query, 10)
    assert len(cosines) == 10
    assert cosines.keys() <= other_ids


@pytest.mark.usefixtures("by_signs")
async def test_a_removed_vector_leaves_no_signs(store: Store) -> None:
    """What was erased is found by no search, by signs or exact."""
    memories = fill(store, clustered(100))
    query = clustered(1)[0].astype(np.float32)
    nearest_one = next(iter(await cosines_of(store, query, 1)))
    text_hash = next(memory.text_hash for memory in memories if memory.id == nearest_one)
    store.connection.execute("DELETE FROM memory_row WHERE id = ?", (nearest_one,))
    assert signs_in_blocks(store, text_hash) == 0
    signs = read_signs(store.connection, EMBEDDER, dimensions=DIMENSIONS)
    assert bytes.fromhex(text_hash) not in signs
    assert len(signs) == 99 * (24 + HASH_BYTES)
    assert nearest_one not in await cosines_of(store, query, 100)


@pytest.mark.usefixtures("by_signs")
async def test_a_new_vector_is_found_at_once(store: Store) -> None:
    """Signs that were made before it came are made again, and only those of its block."""
    rows = clustered(101)
    fill(store, rows[:100])
    await cosines_of(store, rows[0].astype(np.float32), 1)
    blocks = {rowid for (rowid,) in store.connection.execute("SELECT rowid FROM sign_block")}
    memory = function("late", text="def late(): return 'x'")
    with database.transaction(store.connection):
        memory_writer.put_memories(store.connection, [memory])
        put_vectors(store.connection, EMBEDDER, [(memory, rows[100].tobytes())])
    assert [*await cosines_of(store, rows[100].astype(np.float32), 1)] == [memory.id]
    blocks_now = {
        rowid for (rowid,) in store.connection.execute("SELECT rowid FROM sign_block")
    }
    assert len(blocks - blocks_now) <= 1 < len(blocks) == len(blocks_now)


@pytest.mark.usefixtures("by_signs")
async def test_a_vector_of_other_dimensions_takes_the_place_of_the_first(store: Store) -> None:
    """An embedder whose vectors became longer is searched by the new ones, and nothing is left of
    the old."""
    rows = clustered(200)
    memories = fill(store, rows)
    query = rows[0].astype(np.float32)
    await cosines_of(store, query, 1)
    longer = np.hstack([rows, rows])
    with database.transaction(store.connection):
        new_vectors = [
            (memory, row.tobytes()) for memory, row in zip(memories, longer, strict=True)
        ]
        put_vectors(store.connection, EMBEDDER, new_vectors)
    assert [*await cosines_of(store, np.hstack([query, query]), 1)] == [memories[0].id]
    assert await cosines_of(store, query, 1) == {}
    connection = store.connection
    assert read_signs(connection, EMBEDDER, dimensions=DIMENSIONS) == b""
    assert len(read_signs(connection, EMBEDDER, dimensions=2 * DIMENSIONS)) == 200 * (48 + 16)


@pytest.mark.usefixtures("by_signs")
async def test_a_store_that_cannot_be_written_is_searched_all_the_same(store: Store) -> None:
    """Signs that are missing there cannot be made: all vectors are compared."""
    rows = clustered(100)
    memories = fill(store, rows)
    store.connection.execute("PRAGMA query_only = ON")
    assert [*await cosines_of(store, rows[7].astype(np.float32), 1)] == [memories[7].id]


def signs_in_blocks(store: Store, text_hash: str) -> int:
    """Return how many blocks hold signs of this text."""
    query = "SELECT count(*) FROM sign_block WHERE instr(signs, ?)"
    (count,) = store.connection.execute(query, (bytes.fromhex(text_hash),)).fetchone()
    return int(count)


def test_only_memories_of_the_pool_lack_a_vector(store: Store) -> None:
    """An archived memory is not embedded, nor one whose text another memory has a vector of."""
    fill(store, clustered(3))
    assert ids_without_vector(store.connection, EMBEDDER) == []
    with database.transaction(store.connection):
        added = [function("added"), function("longer", text="def longer():\n" * 30)]
        memory_writer.put_memories(store.connection, added)
    assert ids_without_vector(store.connection, EMBEDDER) == [memory.id for memory in added]
    store.connection.execute(
        "UPDATE memory_row SET status = 'archived' WHERE id = ?", (added[0].id,)
    )
    assert ids_without_vector(store.connection, EMBEDDER) == [added[1].id]


def test_a_complete_embedder_is_noted_until_a_text_may_lack_a_vector(store: Store) -> None:
    """A new memory, a new text of an old one, a restored one and a removed vector end the note."""
    connection = store.connection
    memories = fill(store, clustered(3))
    connection.execute(
        "UPDATE memory_row SET status = 'archived' WHERE id = ?", (memories[0].id,)
    )
    connection.execute("DELETE FROM vec WHERE text_hash = ?", (memories[0].text_hash,))

    def is_noted() -> bool:
        """Note it if it is so; return whether it is noted."""
        note_complete_embedder(connection, EMBEDDER)
        return connection.execute("SELECT * FROM complete_embedder").fetchall() == [(EMBEDDER,)]

    assert is_noted()
    connection.execute(
        "UPDATE memory_row SET status = 'active' WHERE id = ?", (memories[0].id,)
    )
    assert not is_noted()
    assert ids_without_vector(connection, EMBEDDER) == [memories[0].id]
    with database.transaction(connection):
        put_vectors(connection, EMBEDDER, [(memories[0], clustered(1)[0].tobytes())])
    assert is_noted()
    connection.execute("DELETE FROM vec WHERE text_hash = ?", (memories[1].text_hash,))
    assert not is_noted()
    with database.transaction(connection):
        put_vectors(connection, EMBEDDER, [(memories[1], clustered(1)[0].tobytes())])
    assert is_noted()
    with database.transaction(connection):
        memory_writer.put_memories(connection, [function("f2", text="def f2(): return 'new'")])
    assert not is_noted()
