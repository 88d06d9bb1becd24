"""Vectors searched by a Qdrant server.

A collection is one partition and number of dimensions (`qdrant_points`). Trade-off: the server
makes its index when it finds it worthwhile, and until then compares all vectors.
"""

import warnings
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException

from xscore.extensions.shared.server import unavailable
from xscore.extensions.vectors.driver_thread import run_in_thread
from xscore.extensions.vectors.qdrant_points import (
    PREFIX,
    collection_prefix,
    floats_of,
    point_id,
    text_hash_of,
)
from xscore.extensions.vectors.vector_search import VectorPartition
from xscore.platform.text import counted
from xscore.store.vector_copies import CopiedVector

HINT = "Check embedding.search."
_SERVER_ERRORS = (
    ApiException,
    QdrantException,
    AssertionError,
    KeyError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What the client raises for a server: its own errors have two bases."""
T = TypeVar("T")


class QdrantSearch:
    """One partition on a server. See `vector_search.VectorSearch`."""

    is_here = False

    def __init__(
        self, url: str, partition: VectorPartition, *, name: str, timeout_s: float
    ) -> None:
        """url: perhaps with the API key as its password."""
        self.name = name
        self._url = url
        self._timeout_s = timeout_s
        self._client: QdrantClient | None = None
        self._prefix = collection_prefix(partition)

    async def upsert(self, vectors: Sequence[CopiedVector], *, is_last: bool) -> None:
        """Add vectors; Qdrant makes its index by itself."""
        await self._asked(lambda client: self._upsert(client, vectors))

    async def search(self, query: bytes, k: int) -> list[tuple[str, float]]:
        """Return the k nearest."""
        return await self._asked(lambda client: self._search(client, query, k))

    async def count(self) -> int:
        """Return how many vectors there are."""
        return await self._asked(self._count)

    async def erase(self, text_hashes: Collection[str]) -> int:
        """Erase vectors."""
        return await self._asked(lambda client: self._erase(client, text_hashes))

    async def check(self) -> str:
        """Describe what answers."""
        names = await self._asked(_collection_names)
        collections = counted(
            len([name for name in names if name.startswith(PREFIX)]), "collection"
        )
        return f"{collections} of xscore"

    async def aclose(self) -> None:
        """Close the client."""
        if self._client is not None:
            await run_in_thread(self._client.close)
            self._client = None

    async def _asked(self, ask: Callable[[QdrantClient], T]) -> T:
        """Let a thread ask. Raises SharedUnavailable."""
        try:
            return await run_in_thread(lambda: self._quietly(ask))
        except _SERVER_ERRORS as error:
            raise unavailable(self.name, error, HINT) from error

    def _quietly(self, ask: Callable[[QdrantClient], T]) -> T:
        with warnings.catch_warnings():
            # It warns of a key without TLS, which only a server on this machine gets.
            warnings.simplefilter("ignore")
            return ask(self._opened())

    def _opened(self) -> QdrantClient:
        if self._client is None:
            self._client = _client(self._url, self._timeout_s)
        return self._client

    def _collection(self, dimensions: int) -> str:
        return f"{self._prefix}{dimensions}"

    def _collections(self, client: QdrantClient) -> list[str]:
        """Return the collections of this partition: one for each number of dimensions."""
        return [name for name in _collection_names(client) if name.startswith(self._prefix)]

    def _upsert(self, client: QdrantClient, vectors: Sequence[CopiedVector]) -> None:
        by_dimensions: dict[int, list[CopiedVector]] = {}
        for vector in vectors:
            by_dimensions.setdefault(len(vector.data) // 2, []).append(vector)
        for dimensions, rows in by_dimensions.items():
            name = self._collection(dimensions)
            if not client.collection_exists(name):
                client.create_collection(
                    name,
                    vectors_config=models.VectorParams(
                        size=dimensions,
                        distance=models.Distance.COSINE,
                        datatype=models.Datatype.FLOAT16,
                    ),
                )
            points = models.Batch(
                ids=[str(point_id(row.text_hash)) for row in rows],
                vectors=[floats_of(row.data) for row in rows],
            )
            client.upsert(name, points)

    def _search(self, client: QdrantClient, query: bytes, k: int) -> list[tuple[str, float]]:
        name = self._collection(len(query) // 2)
        if not client.collection_exists(name):
            return []
        response = client.query_points(
            name, query=floats_of(query), limit=k, with_payload=False
        )
        return [(text_hash_of(point.id), float(point.score)) for point in response.points]

    def _count(self, client: QdrantClient) -> int:
        return sum(client.count(name).count for name in self._collections(client))

    def _erase(self, client: QdrantClient, text_hashes: Collection[str]) -> int:
        ids = [str(point_id(text_hash)) for text_hash in text_hashes]
        erased = 0
        for name in self._collections(client):
            erased += len(client.retrieve(name, ids, with_payload=False))
            client.delete(name, points_selector=models.PointIdsList(points=list(ids)))
        return erased


def _collection_names(client: QdrantClient) -> list[str]:
    return [collection.name for collection in client.get_collections().collections]


def _client(url: str, timeout_s: float) -> QdrantClient:
    parts = urlsplit(url)
    return QdrantClient(
        host=parts.hostname,
        port=parts.port or 6333,
        https=parts.scheme == "https",
        api_key=unquote(parts.password or parts.username or "") or None,
        timeout=max(1, round(timeout_s)),
        check_compatibility=False,
    )
