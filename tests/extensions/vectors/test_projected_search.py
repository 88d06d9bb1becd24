"""Long vectors are searched on a server by their projections, and ranked by themselves."""

import numpy as np

from tests.extensions.vectors.conftest import EMBEDDER, clustered, fill
from xscore.extensions.vectors.embedders import float_rows, nearest
from xscore.extensions.vectors.projected_search import ProjectedSearch, as_sent
from xscore.extensions.vectors.projection import PROJECTED
from xscore.store.store import Store
from xscore.store.vector_copies import CopiedVector, vectors_to_copy


class ExactServer:
    """A search that compares all it was sent."""

    def __init__(self, sent: list[CopiedVector]) -> None:
        self._sent = sent
        self.asked: list[int] = []

    async def search(self, query: bytes, k: int) -> list[tuple[str, float]]:
        """Return the k nearest."""
        self.asked.append(k)
        vectors = [(copy.text_hash, copy.data) for copy in self._sent]
        return nearest(vectors, np.frombuffer(query, dtype="<f2").astype(np.float32), k)


async def test_a_long_vector_is_sent_as_its_projection_and_ranked_by_itself(
    store: Store,
) -> None:
    """The server has 384 numbers of length 1; cosines are those of the vectors here."""
    rows = clustered(300, 1_536)
    memories = fill(store, rows)
    copies = vectors_to_copy(store.connection, EMBEDDER, [m.text_hash for m in memories])
    sent = as_sent(copies)
    assert [copy.text_hash for copy in sent] == [copy.text_hash for copy in copies]
    assert {len(copy.data) for copy in sent} == {2 * PROJECTED}
    lengths = np.linalg.norm(
        float_rows(b"".join([copy.data for copy in sent]), PROJECTED), axis=1
    )
    assert np.allclose(lengths, 1, atol=1e-3)
    server = ExactServer(sent)
    search = ProjectedSearch(server, store.connection, EMBEDDER)
    query = rows[7]
    vectors = [(copy.text_hash, copy.data) for copy in copies]
    exact = nearest(vectors, query.astype(np.float32), 10)
    assert await search.search(query.tobytes(), 10) == exact
    assert server.asked == [1_000]


async def test_a_short_vector_goes_as_it_is(store: Store) -> None:
    """Nothing is projected, and the server's answer is what is returned."""
    rows = clustered(50)
    memories = fill(store, rows)
    copies = vectors_to_copy(store.connection, EMBEDDER, [m.text_hash for m in memories])
    assert as_sent(copies) == copies
    server = ExactServer(copies)
    search = ProjectedSearch(server, store.connection, EMBEDDER)
    assert len(await search.search(rows[0].tobytes(), 10)) == 10
    assert server.asked == [10]


def test_vectors_of_several_lengths_keep_their_order() -> None:
    """Short and long ones in turn, as after a change of the embedder's dimensions."""
    short, long = clustered(1)[0].tobytes(), clustered(1, 768)[0].tobytes()
    vectors = [CopiedVector(str(at), long if at % 3 else short) for at in range(7)]
    sent = as_sent(vectors)
    assert [copy.text_hash for copy in sent] == [str(at) for at in range(7)]
    lengths = [len(copy.data) for copy in sent]
    assert lengths == [len(short) if at % 3 == 0 else 2 * PROJECTED for at in range(7)]
