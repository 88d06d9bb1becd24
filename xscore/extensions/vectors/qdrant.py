"""Vectors searched by Qdrant: a server, or its embedded mode in a folder.

Each partition is a collection, so no filter can be forgotten, and the embedded mode, which filters
row by row in Python, has nothing to filter. A point has the kind of its memory beside its text
hash. Trade-off: the embedded mode compares all vectors, keeps them unencrypted, and one process at
a time may have the folder open; whoever comes second searches in the store.
"""

import os
import sqlite3
import stat
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit
from uuid import UUID

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException

from xscore.extensions.shared.server import unavailable
from xscore.extensions.vectors.driver_thread import run_beside
from xscore.extensions.vectors.vector_search import VectorPartition
from xscore.platform.errors import UsageError
from xscore.platform.hashing import digest
from xscore.platform.text import counted
from xscore.store.vector_copies import CopiedVector

PREFIX = "xscore"
"""Of collections."""
HINT = (
    "Check embedding.search. Only one process at a time can open the folder of the embedded mode."
)
_SERVER_ERRORS = (
    ApiException,
    QdrantException,
    AssertionError,
    KeyError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    sqlite3.Error,
)
"""What the client raises for a server: its own errors have two bases."""
T = TypeVar("T")


class QdrantSearch:
    """One partition in Qdrant. See `vector_search.VectorSearch`."""

    def __init__(
        self, place: str, partition: VectorPartition, *, name: str, timeout_s: float
    ) -> None:
        """place: a URL, perhaps with the API key as its password, or a folder."""
        self.name = name
        self._place = place
        self._timeout_s = timeout_s
        self._client: QdrantClient | None = None
        self._prefix = "_".join(
            (PREFIX, partition.member, partition.repository, digest(partition.embedder)[:12])
        )

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
            await run_beside(self._client.close)
            self._client = None

    async def _asked(self, ask: Callable[[QdrantClient], T]) -> T:
        """Let a thread ask. Raises SharedUnavailable."""
        # The embedded mode raises whatever its damaged files lead to.
        failures = (Exception,) if self._is_embedded() else _SERVER_ERRORS
        try:
            return await run_beside(lambda: self._quietly(ask))
        except UsageError:
            raise
        except failures as error:
            raise unavailable(self.name, error, HINT) from error

    def _quietly(self, ask: Callable[[QdrantClient], T]) -> T:
        with warnings.catch_warnings():
            # It warns of many vectors in a folder and of http; the documentation says both.
            warnings.simplefilter("ignore")
            return ask(self._opened())

    def _is_embedded(self) -> bool:
        return not urlsplit(self._place).hostname

    def _opened(self) -> QdrantClient:
        if self._client is None:
            self._client = _client(self._place, self._timeout_s)
        return self._client

    def _collection(self, dimensions: int) -> str:
        return f"{self._prefix}_{dimensions}"

    def _collections(self, client: QdrantClient) -> list[str]:
        """Return the collections of this partition: one for each number of dimensions."""
        return [name for name in _collection_names(client) if name.startswith(f"{self._prefix}_")]

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
                ids=[_point_id(row.text_hash) for row in rows],
                vectors=[_floats(row.data) for row in rows],
                payloads=[{"text_hash": row.text_hash, "kind": row.kind} for row in rows],
            )
            client.upsert(name, points)

    def _search(self, client: QdrantClient, query: bytes, k: int) -> list[tuple[str, float]]:
        name = self._collection(len(query) // 2)
        if not client.collection_exists(name):
            return []
        response = client.query_points(name, query=_floats(query), limit=k, with_payload=False)
        return [(UUID(str(point.id)).hex, float(point.score)) for point in response.points]

    def _count(self, client: QdrantClient) -> int:
        return sum(client.count(name).count for name in self._collections(client))

    def _erase(self, client: QdrantClient, text_hashes: Collection[str]) -> int:
        ids = [_point_id(text_hash) for text_hash in text_hashes]
        erased = 0
        for name in self._collections(client):
            erased += len(client.retrieve(name, ids, with_payload=False))
            client.delete(name, points_selector=models.PointIdsList(points=list(ids)))
        if self._is_embedded():
            # Deleted rows stay in the bytes of its files until these are rewritten.
            client.close()
            self._client = None
            _rewrite_files(Path(self._place).expanduser())
        return erased


def _collection_names(client: QdrantClient) -> list[str]:
    return [collection.name for collection in client.get_collections().collections]


def _client(place: str, timeout_s: float) -> QdrantClient:
    """Return a client; the embedded mode reads its folder now.

    Raises UsageError for a folder that others can change.
    """
    parts = urlsplit(place)
    if not parts.hostname:
        # Resolved once: a link that is changed after the check leads nowhere else.
        folder = Path(place).expanduser().resolve()
        for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        _refuse_shared_folder(folder)
        return QdrantClient(path=str(folder))
    port = parts.port or 6333
    return QdrantClient(
        host=parts.hostname,
        port=port,
        https=parts.scheme == "https",
        api_key=unquote(parts.password or parts.username or "") or None,
        timeout=max(1, round(timeout_s)),
        check_compatibility=False,
    )


def _refuse_shared_folder(folder: Path) -> None:
    """Raise UsageError if others can put files there: Qdrant runs what its files say (pickle)."""
    for path in (folder, *folder.parents):
        status = path.stat()
        owners = {os.geteuid()}
        is_open = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
        if path != folder:
            owners.add(0)
            # As in /tmp, others can neither rename nor remove what is mine.
            is_open = is_open and not status.st_mode & stat.S_ISVTX
        if status.st_uid not in owners or is_open:
            raise UsageError(
                f"embedding.search: other users can change {path}",
                hint=f"Run chmod go-w on {path}, or name a folder that only you can change.",
            )


def _rewrite_files(folder: Path) -> None:
    """Rewrite the files of the embedded mode, so that what was deleted is in none."""
    for file in folder.glob("collection/*/storage.sqlite"):
        with suppress(sqlite3.Error), closing(sqlite3.connect(file)) as connection:
            connection.execute("VACUUM")


def _point_id(text_hash: str) -> str:
    """Return the point of a text: Qdrant takes 128 bits as a UUID, which is what a hash has."""
    return str(UUID(hex=text_hash))


def _floats(data: bytes) -> list[float]:
    floats: list[float] = np.frombuffer(data, dtype="<f2").tolist()
    return floats
