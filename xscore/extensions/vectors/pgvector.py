"""Vectors searched by PostgreSQL with pgvector (0.8 or newer), in the schema `xscore_vectors`.

Every statement names the partition, and row-level security by login stands behind it. The index is
HNSW, one for each number of dimensions, made by whoever owns the table once the first vectors are
there. Vectors are `halfvec`, which is what the store has. Trade-off: a login that does not own the
table cannot make the index, so until its owner has, searches read the whole partition.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from msgspec.structs import replace

from xscore.extensions.shared.team.address import connected, team_address
from xscore.extensions.vectors.driver_thread import run_in_thread
from xscore.extensions.vectors.vector_search import VectorPartition
from xscore.platform.errors import SharedUnavailable
from xscore.store.vector_copies import CopiedVector

OLDEST = (0, 8)
"""The first pgvector whose index is searched on until enough rows pass a filter."""
INDEX_S = 600.0
"""Deadline of making an index: 100,000 vectors take a minute."""
MOST_LOOKED_AT = 1_000
"""The most that `hnsw.ef_search` may be."""
_MAKING = 7_837_063_920_242
"""Id of the advisory lock under which the table and its indexes are created."""
_LOCK = f"SELECT pg_advisory_xact_lock({_MAKING})"
_IN_PARTITION = (
    "member = %(member)s AND repository = %(repository)s AND embedder = %(embedder)s"
)
_UPSERT = """
    INSERT INTO xscore_vectors.vector (member, repository, embedder, text_hash, data)
    VALUES (%(member)s, %(repository)s, %(embedder)s, %(text_hash)s, %(data)s::halfvec)
    ON CONFLICT (login, member, repository, embedder, text_hash)
    DO UPDATE SET data = excluded.data
"""
_INDEX = """
    CREATE INDEX IF NOT EXISTS vector_{0} ON xscore_vectors.vector
    USING hnsw ((data::halfvec({0})) halfvec_cosine_ops) WHERE vector_dims(data) = {0}
"""
_INDEX_MEMORY = "SET LOCAL maintenance_work_mem = '256MB'"
_SEARCH = """
    SELECT text_hash, 1 - (data::halfvec({0}) <=> %(query)s::halfvec({0}))
    FROM xscore_vectors.vector WHERE {1} AND vector_dims(data) = {0}
    ORDER BY data::halfvec({0}) <=> %(query)s::halfvec({0}) LIMIT %(k)s
"""
_COUNT = f"SELECT count(*) FROM xscore_vectors.vector WHERE {_IN_PARTITION}"
_ERASE = f"""
    WITH gone AS (
        DELETE FROM xscore_vectors.vector
        WHERE {_IN_PARTITION} AND text_hash = ANY(%(text_hashes)s) RETURNING 1)
    SELECT count(*) FROM gone
"""
_CAN_BE_CREATED = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
_OPTIONS = """
    SELECT set_config('hnsw.ef_search', %(looked_at)s, true),
        set_config('hnsw.iterative_scan', 'relaxed_order', true)
"""


class PgVectorSearch:
    """One partition on a PostgreSQL server. See `vector_search.VectorSearch`."""

    is_here = False

    def __init__(
        self, url: str, partition: VectorPartition, *, name: str, timeout_s: float
    ) -> None:
        """Connect at each request. Raises UsageError, as `team_address` does."""
        self.name = name
        self._address = team_address(
            url, timeout_s=timeout_s, setting="embedding.search", modules=("psycopg",)
        )
        self._partition = {
            "member": partition.member,
            "repository": partition.repository,
            "embedder": partition.embedder,
        }

    async def upsert(self, vectors: Sequence[CopiedVector], *, is_last: bool) -> None:
        """Add vectors; with the last of them make the index, if there is none."""
        await run_in_thread(lambda: self._upsert(vectors, is_last))

    async def search(self, query: bytes, k: int) -> list[tuple[str, float]]:
        """Return the k nearest."""
        return await run_in_thread(lambda: self._search(query, k))

    async def count(self) -> int:
        """Return how many vectors there are."""
        return await run_in_thread(self._count)

    async def erase(self, text_hashes: Collection[str]) -> int:
        """Erase vectors."""
        return await run_in_thread(lambda: self._erase(text_hashes))

    async def check(self) -> str:
        """Describe the server."""
        return await run_in_thread(self._check)

    async def aclose(self) -> None:
        """Do nothing: no connection is kept."""

    def _upsert(self, vectors: Sequence[CopiedVector], is_last: bool) -> None:
        rows: list[dict[str, str]] = []
        dimensions: set[int] = set()
        for vector in vectors:
            data = _literal(vector.data)
            rows.append({**self._partition, "text_hash": vector.text_hash, "data": data})
            dimensions.add(len(vector.data) // 2)
        with connected(self._address) as connection:
            _prepare(connection)
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(_UPSERT, rows)
        if is_last:
            # Made of what is there it takes a fraction of the time of adding rows to it.
            with connected(replace(self._address, timeout_s=INDEX_S)) as connection:
                for count in sorted(dimensions):
                    _make_index(connection, count)

    def _search(self, query: bytes, k: int) -> list[tuple[str, float]]:
        statement = _SEARCH.format(len(query) // 2, _IN_PARTITION).encode()
        terms = {**self._partition, "query": _literal(query), "k": k}
        with connected(self._address) as connection, connection.transaction():
            if not _has_table(connection):
                return []
            # Looking at only as many as are asked for would miss twice as many of the ten nearest.
            looked_at = str(min(MOST_LOOKED_AT, max(2 * k, 40)))
            connection.execute(_OPTIONS, {"looked_at": looked_at})
            rows = connection.execute(statement, terms).fetchall()
        cosines = [(str(text_hash), float(cosine)) for text_hash, cosine in rows]
        # An index that is searched on returns its rows not quite in order.
        cosines.sort(key=lambda pair: (-pair[1], pair[0]))
        return cosines

    def _count(self) -> int:
        with connected(self._address) as connection:
            if not _has_table(connection):
                return 0
            row = connection.execute(_COUNT, self._partition).fetchone()
        return int(row[0]) if row else 0

    def _erase(self, text_hashes: Collection[str]) -> int:
        terms = {**self._partition, "text_hashes": list(text_hashes)}
        with connected(self._address) as connection:
            row = connection.execute(_ERASE, terms).fetchone()
        return int(row[0]) if row else 0

    def _check(self) -> str:
        with connected(self._address) as connection:
            version = _extension_version(connection)
            if version:
                return f"pgvector {version}"
            if connection.execute(_CAN_BE_CREATED).fetchone() is None:
                raise SharedUnavailable(
                    f"{self.name} has no pgvector",
                    hint="Install pgvector 0.8 or newer on it, or leave embedding.search empty.",
                )
        return "no vectors have been sent yet"


def _prepare(connection: "psycopg.Connection[Any]") -> None:
    """Create the table where it is missing. Raises SharedUnavailable for an old pgvector."""
    if not _has_table(connection):
        script = Path(__file__).with_name("pgvector.sql").read_text("utf-8")
        # Another process created it while this one waited.
        with suppress(psycopg.errors.DuplicateTable), connection.transaction():
            connection.execute(_LOCK)
            connection.execute(script.encode())
    version = _extension_version(connection)
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise SharedUnavailable(
            f"the server has pgvector {version}",
            hint="Install pgvector 0.8 or newer, then run ALTER EXTENSION vector UPDATE.",
        )


def _has_table(connection: "psycopg.Connection[Any]") -> bool:
    row = connection.execute("SELECT to_regclass('xscore_vectors.vector')").fetchone()
    return row is not None and row[0] is not None


def _make_index(connection: "psycopg.Connection[Any]", dimensions: int) -> None:
    """Create the index where it is missing and this login owns the table."""
    # Without owning the table, only an exact search works.
    with suppress(psycopg.errors.InsufficientPrivilege), connection.transaction():
        connection.execute(_LOCK)
        connection.execute(_INDEX_MEMORY)
        connection.execute(_INDEX.format(dimensions).encode())


def _extension_version(connection: "psycopg.Connection[Any]") -> str:
    """Return the version of pgvector in this database; empty: it is not installed there."""
    row = connection.execute(
        "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    ).fetchone()
    return str(row[0]) if row else ""


def _literal(data: bytes) -> str:
    """Return a vector as pgvector reads it."""
    return "[" + ",".join(map(str, np.frombuffer(data, dtype="<f2").tolist())) + "]"
