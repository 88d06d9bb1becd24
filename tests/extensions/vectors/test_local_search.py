"""The search among a store's own vectors: by signs first, then exact."""

import json
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.store.conftest import function
from xscore.extensions.vectors import local_search
from xscore.extensions.vectors.embedders import float_rows, unit_rows
from xscore.extensions.vectors.pool_search import nearest_memories
from xscore.extensions.vectors.projection import PROJECTED, project
from xscore.extensions.vectors.sign_blocks import (
    ROW_BYTES,
    read_signs,
    sign_bits,
)
from xscore.platform import database
from xscore.records.memory import Memory
from xscore.settings import Settings
from xscore.store import memory_writer
from xscore.store.store import Store
from xscore.store.vector_rows import (
    all_vectors,
    ids_without_vector,
    latest_dimensions,
    note_complete_embedder,
    put_vectors,
    vectors_by_number,
)

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


@given(st.integers(1, 1_600), st.integers(0, 1_000))
def test_products_with_random_signs_keep_lengths_and_angles(dimensions: int, seed: int) -> None:
    """Whatever the vectors look like, also of one place alone: the same angle is between their
    products, nearly."""
    chance = np.random.default_rng(seed)
    rows = unit_rows(chance.normal(size=(2, dimensions)))
    rows[1] = unit_rows(rows[0] + 0.5 * rows[1])[0]
    only_one_place = np.zeros((1, dimensions), dtype=np.float32)
    only_one_place[0, seed % dimensions] = 1
    products = project(np.vstack([rows, only_one_place]))
    assert products.shape == (3, PROJECTED)
    assert np.allclose(np.abs(products[2]), 1)
    lengths = np.linalg.norm(products, axis=1)
    assert np.allclose(lengths / np.sqrt(PROJECTED), 1, atol=0.4)
    cosine = products[0] @ products[1] / (lengths[0] * lengths[1])
    assert abs(cosine - rows[0] @ rows[1]) < 0.3


def test_the_signs_of_a_vector_never_change() -> None:
    """Signs that are stored were made by an earlier version: a change is a new schema."""
    # The sum of 701 odd numbers is odd, so no place of the product is zero, and all are exact.
    odd_numbers = 2 * (np.arange(3 * 701) * 7_919 % 17) - 15
    signs = sign_bits(project(odd_numbers.reshape(3, 701).astype(np.float32)))
    assert signs.shape == (3, PROJECTED // 8)
    assert blake2b(signs.tobytes(), digest_size=8).hexdigest() == "3ecef9f008c30704"


@given(st.lists(st.floats(width=16, allow_nan=False, allow_infinity=False), min_size=1))
def test_every_float16_is_widened_as_numpy_does(numbers: list[float]) -> None:
    """Small ones, zeros and negative ones too."""
    row = np.array(numbers, dtype="<f2")
    widened = float_rows(row.tobytes(), len(numbers))
    assert widened.tobytes() == row.astype(np.float32).tobytes()


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
    fill(store, clustered(100))
    query = clustered(1)[0].astype(np.float32)
    nearest_one = next(iter(await cosines_of(store, query, 1)))
    store.connection.execute("DELETE FROM memory_row WHERE id = ?", (nearest_one,))
    assert store.connection.execute("SELECT count(*) FROM sign_block").fetchone() == (0,)
    numbers = read_signs(store.connection, EMBEDDER, dimensions=DIMENSIONS)
    assert len(numbers) == 99
    assert nearest_one not in await cosines_of(store, query, 100)


@pytest.mark.usefixtures("by_signs")
async def test_a_new_vector_is_found_at_once(store: Store) -> None:
    """Of the signs that were made before it came, only those of its neighbors are made again."""
    rows = clustered(601)
    fill(store, rows[:600])
    await cosines_of(store, rows[0].astype(np.float32), 1)
    assert blocks_of(store).keys() == {0, 1, 2}
    before = blocks_of(store)
    memory = function("late", text="def late(): return 'x'")
    with database.transaction(store.connection):
        memory_writer.put_memories(store.connection, [memory])
        put_vectors(store.connection, EMBEDDER, [(memory, rows[600].tobytes())])
    assert blocks_of(store).keys() == {0, 1}
    assert [*await cosines_of(store, rows[600].astype(np.float32), 1)] == [memory.id]
    after = blocks_of(store)
    assert len(after[2]) == len(before[2]) + ROW_BYTES
    assert (after[0], after[1]) == (before[0], before[1])


def blocks_of(store: Store) -> dict[int, bytes]:
    """Return the signs by block."""
    return dict(store.connection.execute("SELECT block, signs FROM sign_block").fetchall())


@pytest.mark.usefixtures("by_signs")
async def test_a_block_without_vectors_is_taken_for_no_other(store: Store) -> None:
    """Where the vectors of a middle block go, and then the last ones, a new vector is found all the
    same."""
    rows = clustered(800)
    fill(store, rows[:770])
    connection = store.connection
    query = rows[0].astype(np.float32)
    connection.execute("DELETE FROM vec WHERE number BETWEEN 512 AND 767")
    await cosines_of(store, query, 1)
    connection.execute("DELETE FROM vec WHERE number > 400")
    await cosines_of(store, query, 1)
    memory = function("late", text="def late(): return 'x'")
    with database.transaction(connection):
        memory_writer.put_memories(connection, [memory])
        put_vectors(connection, EMBEDDER, [(memory, rows[799].tobytes())])
    assert [*await cosines_of(store, rows[799].astype(np.float32), 1)] == [memory.id]


@pytest.mark.usefixtures("by_signs")
@pytest.mark.parametrize("damaged", [b"x" * (ROW_BYTES + 1), "a text"])
async def test_a_damaged_block_is_made_again(store: Store, damaged: bytes | str) -> None:
    """One that cannot hold the signs of its vectors costs no result, and no turn."""
    rows = clustered(300)
    memories = fill(store, rows)
    query = rows[7].astype(np.float32)
    await cosines_of(store, query, 1)
    before = blocks_of(store)
    store.connection.execute("UPDATE sign_block SET signs = ? WHERE block = 0", (damaged,))
    assert [*await cosines_of(store, query, 1)] == [memories[7].id]
    assert blocks_of(store) == before


@pytest.mark.usefixtures("by_signs")
@pytest.mark.parametrize("number", [2**40, 2**63 - 1])
async def test_no_number_makes_endless_work(store: Store, number: int) -> None:
    """However large the number of a row is, only blocks that have vectors are made."""
    rows = clustered(301)
    memories = fill(store, rows[:300])
    connection = store.connection
    connection.execute("UPDATE vec SET number = ? WHERE number = 8", (number,))
    assert [*await cosines_of(store, rows[7].astype(np.float32), 1)] == [memories[7].id]
    assert blocks_of(store).keys() == {0, 1, number // 256}
    memory = function("late", text="def late(): return 'x'")
    with database.transaction(connection):
        memory_writer.put_memories(connection, [memory])
        put_vectors(connection, EMBEDDER, [(memory, rows[300].tobytes())])
    assert [*await cosines_of(store, rows[300].astype(np.float32), 1)] == [memory.id]
    assert len(blocks_of(store)) in (3, 4)


def test_a_number_that_another_embedder_has_now_is_no_result(store: Store) -> None:
    """A vector goes after its signs were read, and the next one gets its number."""
    rows = clustered(2)
    [memory] = fill(store, rows[:1])
    connection = store.connection
    (number,) = connection.execute("SELECT number FROM vec").fetchone()
    connection.execute("DELETE FROM vec")
    put_vectors(connection, "another", [(memory, rows[1].tobytes())])
    assert vectors_by_number(connection, "another", [number]) == [
        (memory.text_hash, rows[1].tobytes())
    ]
    assert vectors_by_number(connection, EMBEDDER, [number]) == []


@pytest.mark.usefixtures("by_signs")
async def test_vectors_of_two_lengths_are_searched_apart(store: Store) -> None:
    """An embedder whose vectors became longer finds the new ones by a long query, the old by a
    short one."""
    rows = clustered(200)
    memories = fill(store, rows[:100])
    new_memories = [function(f"g{at}", text=f"def g{at}(): return {at}") for at in range(100)]
    longer = np.hstack([rows[100:], rows[100:]])
    vectors = [
        (memory, row.tobytes()) for memory, row in zip(new_memories, longer, strict=True)
    ]
    with database.transaction(store.connection):
        memory_writer.put_memories(store.connection, new_memories)
        put_vectors(store.connection, EMBEDDER, vectors)
    short_query = rows[7].astype(np.float32)
    long_query = longer[7].astype(np.float32)
    assert [*await cosines_of(store, short_query, 1)] == [memories[7].id]
    assert [*await cosines_of(store, long_query, 1)] == [new_memories[7].id]
    assert latest_dimensions(store.connection, EMBEDDER) == 2 * DIMENSIONS


@pytest.mark.usefixtures("by_signs")
async def test_an_embedder_without_vectors_in_a_block_is_searched_all_the_same(
    store: Store,
) -> None:
    """Another embedder has the vectors of a whole block, as after a change of the setting."""
    rows = clustered(600)
    memories = fill(store, rows)
    vectors = [(memory, rows[0].tobytes()) for memory in memories]
    with database.transaction(store.connection):
        put_vectors(store.connection, "another", vectors)
    assert [*await cosines_of(store, rows[7].astype(np.float32), 1)] == [memories[7].id]
    assert len(blocks_of(store)) == 1 + 1200 // 256


def test_a_vector_that_came_first_stays(store: Store) -> None:
    """Two processes that embed one text pay twice, and one vector is kept."""
    first, second = clustered(2)
    [memory] = fill(store, first[np.newaxis])
    with database.transaction(store.connection):
        put_vectors(store.connection, EMBEDDER, [(memory, second.tobytes())])
    assert all_vectors(store.connection, EMBEDDER) == [(memory.text_hash, first.tobytes())]


@pytest.mark.usefixtures("by_signs")
async def test_a_store_that_cannot_be_written_is_searched_all_the_same(store: Store) -> None:
    """Signs that are missing there cannot be made: all vectors are compared."""
    rows = clustered(100)
    memories = fill(store, rows)
    store.connection.execute("PRAGMA query_only = ON")
    assert [*await cosines_of(store, rows[7].astype(np.float32), 1)] == [memories[7].id]


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
