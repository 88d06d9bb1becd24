"""Dense vectors: kept, brought up to date, searched exactly, and gone with their memories."""

import asyncio
import sqlite3
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.memory.conftest import function
from xscore.extensions.vectors.embedders import VectorSet, embed_missing, fold_term_vectors, read_vectors, unit_rows
from xscore.platform import database
from xscore.store import memory_writer
from xscore.store.store import Store
from xscore.store.term_vectors import TERM_EMBEDDER, term_vector


class Folding:
    """An embedder that folds the words of a text, and counts what it was asked for."""

    name = "folding"
    batch = 2

    def __init__(self, dims: int = 64) -> None:
        self.dims, self.asked = dims, list[str]()

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float16]:
        """Return one row a text."""
        self.asked += texts
        return fold_term_vectors([term_vector(text, path="", entity="") for text in texts], dims=self.dims).astype(
            np.float16
        )

    async def aclose(self) -> None:
        """Do nothing."""


def put(store: Store, **texts: str) -> dict[str, str]:
    """Put functions; give their ids by name."""
    memories = [function(name, text=text) for name, text in texts.items()]
    with database.transaction(store.connection):
        memory_writer.put_memories(store.connection, memories)
    return {memory.entity: memory.id for memory in memories}


def vectors_of(connection: sqlite3.Connection, embedder: str) -> set[str]:
    """Give the ids that have one, of whatever state."""
    return {row[0] for row in connection.execute("SELECT memory_id FROM vec WHERE embedder = ?", (embedder,))}


async def test_only_what_is_missing_is_embedded(store: Store) -> None:
    """H07: the first time all, at most `limit`; then nothing, until there is a new memory."""
    put(store, a="read the file", b="write the file", c="close the door")
    folding = Folding()
    assert await embed_missing(store.connection, folding, limit=2) == 2
    assert await embed_missing(store.connection, folding) == 1
    assert await embed_missing(store.connection, folding) == 0
    ids = put(store, d="open the window")
    assert await embed_missing(store.connection, folding) == 1
    assert "open the window" in folding.asked[-1]
    assert ids["d"] in {identifier for identifier, _ in store.vectors("folding")}


async def test_vectors_die_with_their_memory_and_with_its_old_text(store: Store) -> None:
    """No vector outlives what it was made of: neither a deleted memory's nor that of a text since changed."""
    ids = put(store, a="read the file", b="write the file")
    await embed_missing(store.connection, Folding())
    put(store, a="read the socket")
    assert vectors_of(store.connection, "folding") == {ids["b"]}
    assert vectors_of(store.connection, TERM_EMBEDDER) == set(ids.values())
    store.connection.execute("DELETE FROM memory WHERE id = ?", (ids["b"],))
    assert vectors_of(store.connection, "folding") == set()


async def test_a_memory_that_changes_while_it_is_embedded_gets_no_old_vector(store: Store) -> None:
    """A vector is kept only where the text it was made of still stands."""
    put(store, a="read the file")

    class Slow(Folding):
        async def embed(self, texts: Sequence[str]) -> NDArray[np.float16]:
            put(store, a="read the socket")
            return await super().embed(texts)

    await embed_missing(store.connection, Slow())
    assert vectors_of(store.connection, "folding") == set()


async def test_a_kill_between_two_batches_keeps_the_first(store: Store) -> None:
    """Each batch is committed by itself."""
    put(store, a="read the file", b="write the file", c="close the door")

    class Dying(Folding):
        async def embed(self, texts: Sequence[str]) -> NDArray[np.float16]:
            if self.asked:
                raise asyncio.CancelledError
            return await super().embed(texts)

    with pytest.raises(asyncio.CancelledError):
        await embed_missing(store.connection, Dying())
    assert len(vectors_of(store.connection, "folding")) == 2


@given(st.integers(1, 60), st.integers(1, 40), st.integers(1, 70), st.integers(0, 1_000))
def test_the_nearest_are_those_of_the_exact_cosine(count: int, dims: int, k: int, seed: int) -> None:
    """B17: whatever the dimension, search gives the k best by cosine, best first, equals by id."""
    chance = np.random.default_rng(seed)
    rows = unit_rows(chance.integers(-2, 3, size=(count, dims)).astype(np.float32))
    ids = tuple(f"m{at:03}" for at in range(count))
    query = unit_rows(chance.integers(-2, 3, size=(1, dims)).astype(np.float32))[0]
    found = VectorSet(ids, rows).nearest(query, k)
    scores = dict(zip(ids, (rows @ query).tolist(), strict=True))
    assert np.allclose([score for _, score in found], sorted(scores.values(), reverse=True)[:k], atol=1e-6)
    assert all(abs(scores[identifier] - score) < 1e-6 for identifier, score in found)
    assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))


def test_vectors_of_another_dimension_are_left_out() -> None:
    """A model that was exchanged under its name spoils nothing."""
    blobs = [("a", np.ones(4, "<f2").tobytes()), ("b", np.ones(8, "<f2").tobytes())]
    assert read_vectors(blobs, dims=4).ids == ("a",)
    assert read_vectors(blobs, dims=3).nearest(np.ones(3, np.float32), 5) == []


def test_texts_of_the_same_words_fold_to_the_same_place() -> None:
    """Folded term vectors are of length 1, near for shared words and far for others."""
    blobs = [
        term_vector("parse the settings file", path="", entity=""),
        term_vector("the settings file is parsed", path="", entity=""),
        term_vector("draw a blue rectangle", path="", entity=""),
        b"",
    ]
    rows = fold_term_vectors(blobs)
    assert np.allclose(np.linalg.norm(rows, axis=1), [1, 1, 1, 0], atol=1e-6)
    assert rows[0] @ rows[1] > 0.9
    assert abs(rows[0] @ rows[2]) < 0.4
