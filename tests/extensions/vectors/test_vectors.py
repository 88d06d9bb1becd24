"""Dense vectors: stored, updated, searched exactly, and deleted with their memories."""

import asyncio
import sqlite3
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.store.conftest import function
from xscore.extensions.vectors import turn_likeness
from xscore.extensions.vectors.embedders import (
    EndpointEmbedder,
    PluginEmbedder,
    nearest,
    unit_rows,
)
from xscore.extensions.vectors.turn_likeness import embed_missing
from xscore.platform import database
from xscore.platform.errors import RequestRejected
from xscore.store import memory_writer
from xscore.store.store import Store


class Folding(EndpointEmbedder):
    """A local embedder that counts its texts."""

    def __init__(self) -> None:
        self.name, self.asked = "folding", list[str]()

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float16]:
        """Return one row for each text."""
        self.asked += texts
        return np.array([[len(text), 1.0] for text in texts], dtype=np.float16)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of two texts."""
    monkeypatch.setattr(turn_likeness, "TEXTS_A_CALL", 2)


def put(store: Store, **texts: str) -> dict[str, str]:
    """Add functions; return their ids by name."""
    memories = [function(name, text=text) for name, text in texts.items()]
    with database.transaction(store.connection):
        memory_writer.put_memories(store.connection, memories)
    return {memory.entity: memory.id for memory in memories}


def vectors_of(connection: sqlite3.Connection, embedder: str) -> set[str]:
    """Return the ids that have a vector, in any state."""
    return {
        row[0]
        for row in connection.execute(
            "SELECT id FROM vec JOIN memory USING (text_hash) WHERE embedder = ?", (embedder,)
        )
    }


async def test_only_what_is_missing_is_embedded(store: Store) -> None:
    """H07: all at first; then none until there is a new memory."""
    put(store, a="read the file", b="write the file", c="close the door")
    folding = Folding()
    for _ in range(2):
        await embed_missing(store.connection, folding)
        assert len(folding.asked) == 3
    ids = put(store, d="open the window")
    await embed_missing(store.connection, folding)
    assert len(folding.asked) == 4
    assert "open the window" in folding.asked[-1]
    assert ids["d"] in vectors_of(store.connection, "folding")


async def test_vectors_die_with_their_memory_and_with_its_old_text(store: Store) -> None:
    """No vector outlives its text: neither a deleted memory's nor that of a changed text."""
    ids = put(store, a="read the file", b="write the file")
    await embed_missing(store.connection, Folding())
    put(store, a="read the socket")
    assert vectors_of(store.connection, "folding") == {ids["b"]}
    assert {identifier for identifier, _ in store.term_vectors()} == set(ids.values())
    store.connection.execute("DELETE FROM memory_row WHERE id = ?", (ids["b"],))
    assert vectors_of(store.connection, "folding") == set()


async def test_a_memory_that_changes_while_it_is_embedded_gets_no_old_vector(
    store: Store,
) -> None:
    """A vector is stored only if its text is still current."""
    put(store, a="read the file")

    class Slow(Folding):
        async def embed(self, texts: Sequence[str]) -> NDArray[np.float16]:
            put(store, a="read the socket")
            return await super().embed(texts)

    await embed_missing(store.connection, Slow())
    assert vectors_of(store.connection, "folding") == set()


async def test_a_kill_between_two_batches_keeps_the_first(store: Store) -> None:
    """Each batch is committed separately."""
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
def test_the_nearest_are_those_of_the_exact_cosine(
    count: int, dims: int, k: int, seed: int
) -> None:
    """B17: for any dimension, search returns the k best by cosine, best first, ties by id."""
    chance = np.random.default_rng(seed)
    rows = chance.integers(-2, 3, size=(count, dims)).astype("<f2")
    query = chance.integers(-2, 3, size=dims).astype(np.float32)
    blobs = [(f"m{at:03}", row.tobytes()) for at, row in enumerate(rows)]
    nearest_scores = nearest([*blobs, ("other", np.ones(dims + 1, "<f2").tobytes())], query, k)
    scores = dict(
        zip(
            [name for name, _ in blobs],
            (unit_rows(rows) @ unit_rows(query)[0]).tolist(),
            strict=True,
        )
    )
    assert np.allclose(
        [score for _, score in nearest_scores],
        sorted(scores.values(), reverse=True)[:k],
        atol=1e-6,
    )
    assert all(abs(scores[identifier] - score) < 1e-6 for identifier, score in nearest_scores)
    assert nearest_scores == sorted(nearest_scores, key=lambda pair: (-pair[1], pair[0]))


@pytest.mark.parametrize("shape", [(1, 0), (1, 2, 3), (2, 3)])
async def test_rows_of_a_plugin_that_are_no_vectors_are_refused(shape: tuple[int, ...]) -> None:
    """A row without numbers, too: no search could compare it."""

    class Odd(Folding):
        """What it returns has this shape."""

        async def embed(self, texts: Sequence[str]) -> NDArray[np.float16]:
            """Return ones."""
            return np.ones(shape, dtype=np.float16)

    with pytest.raises(RequestRejected, match="no finite row"):
        await PluginEmbedder(Odd(), "odd").embed(["a text"])
