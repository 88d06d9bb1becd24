"""The memories of the pool nearest to a query: through the server of the settings, else in the
store.

Only a repository's own vectors go to a server; those of the user's own store are few, and searched
here. A server that is away, slow or out of order costs a line: the same search is made in the
store. Trade-off: a server is brought up to date before it is searched, for at most `SEARCH_S`, and
until it is complete it misses what it has not got.
"""

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from xscore.extensions.shared.outage import OutageMemory
from xscore.extensions.vectors.embedders import nearest
from xscore.extensions.vectors.local_search import LocalSearch
from xscore.extensions.vectors.projected_search import ProjectedSearch, as_sent
from xscore.extensions.vectors.search_backends import open_search, search_server_name
from xscore.extensions.vectors.vector_search import (
    NearestTexts,
    VectorSearch,
    note_partition,
    partition_of,
)
from xscore.pipeline.likeness import Likeness
from xscore.platform.errors import SharedUnavailable, StoreError
from xscore.settings import Settings
from xscore.store.store import Store
from xscore.store.vector_copies import (
    confirm_copies,
    count_copies,
    drop_copies,
    forget_complete,
    gone_copies,
    mark_unsent,
    note_complete,
    note_copies,
    servers_with_gone_copies,
    uncopied_texts,
    vectors_to_copy,
)
from xscore.store.vector_rows import all_vectors, memories_with_texts

SEARCH_S = 2.0
"""Longest that a turn waits for a server's answer."""
COPY_S = 60.0
"""Deadline of one request that sends or erases vectors."""
VECTORS_A_REQUEST = 500
OUTAGE = "vector_search_outage"
"""Key in `meta`."""


async def nearest_memories(
    store: Store, settings: Settings, embedder: str, query: NDArray[np.float32], k: int | None
) -> Likeness:
    """Return the cosines of the k nearest memories, best first; equals by id.

    k: None: of all that have a vector, by comparing each in the store.
    Raises UsageError for a setting that names no search, or needs an extra.
    """
    cosines: list[tuple[str, float]] = []
    warnings: tuple[str, ...] = ()
    for connection in store.connections_of_a_turn():
        if k is None:
            vectors = all_vectors(connection, embedder)
            cosines += _of_memories(connection, nearest(vectors, query, len(vectors)))
            continue
        cosines_here: list[tuple[str, float]] | None = None
        if connection is store.connection and settings.embedding.search.reveal():
            cosines_here, problem = await _by_server(store, settings, embedder, query, k)
            if problem:
                warnings = (f"vectors were searched in the store: {problem}",)
        if cosines_here is None:
            cosines_here = await _nearest_of(
                connection, LocalSearch(connection, embedder), query, k
            )
        cosines += cosines_here
    cosines.sort(key=lambda pair: (-pair[1], pair[0]))
    return Likeness(dict(cosines[:k]), warnings)


async def _by_server(
    store: Store, settings: Settings, embedder: str, query: NDArray[np.float32], k: int
) -> tuple[list[tuple[str, float]] | None, str]:
    """Return what the server finds; or None and why it found nothing."""
    outages = _outages(store, search_server_name(settings))
    problem = outages.problem()
    if problem:
        return None, problem
    # Importing a driver takes longer than the search.
    search = open_search(settings, partition_of(store, embedder), timeout_s=SEARCH_S)
    assert search is not None
    cosines: list[tuple[str, float]] | None = None
    try:
        async with asyncio.timeout(SEARCH_S):
            projected = ProjectedSearch(search, store.connection, embedder)
            cosines = await _nearest_of(store.connection, projected, query, k)
            # A server is only asked for its count when that can be the reason.
            is_counted = search.is_here or len(cosines) < k
            if is_counted and await _has_lost_vectors(store, search, embedder):
                mark_unsent(store.connection, embedder, search.name)
                # No outage: the next turn has to send them.
                return None, f"{search.name} lost vectors, which are sent again"
    except TimeoutError:
        problem = f"{search.name} did not answer within {SEARCH_S:g} s"
    except SharedUnavailable as error:
        problem = error.message
    except StoreError as error:
        # Another process has the folder, or this store cannot be written: no outage.
        return None, error.message
    finally:
        await search.aclose()
    with suppress(StoreError):
        outages.remember(problem)
    return cosines, problem


async def send_copies(store: Store, settings: Settings, embedder: str, *, in_turn: bool) -> str:
    """Bring the server of the settings up to date; return what went wrong.

    in_turn: wait no longer than for a search, and go on with the next turn; False: however long it
        takes.
    Raises UsageError.
    """
    server = search_server_name(settings)
    if not server:
        return ""
    outages = _outages(store, server)
    if in_turn and outages.problem():
        return ""  # the search says so
    missing = uncopied_texts(store.connection, embedder, server)
    if not missing and server not in servers_with_gone_copies(store.connection):
        return ""
    search = open_search(settings, partition_of(store, embedder), timeout_s=COPY_S)
    assert search is not None
    problem = ""
    try:
        async with asyncio.timeout(SEARCH_S if in_turn else None):
            await _send(store, search, embedder, missing)
    except TimeoutError:
        # Many vectors take several turns; a server that took none is away.
        if uncopied_texts(store.connection, embedder, server) == missing:
            problem = f"{server} did not answer within {SEARCH_S:g} s"
    except SharedUnavailable as error:
        problem = error.message
    except StoreError as error:
        return error.message  # of this store: a disk that is full, for example
    finally:
        await search.aclose()
    if problem:
        with suppress(StoreError):
            outages.remember(problem)
    return problem


def _outages(store: Store, server: str) -> OutageMemory:
    return OutageMemory(store.connection, server, clock=store.clock, key=OUTAGE)


async def _send(
    store: Store, search: VectorSearch, embedder: str, missing: Sequence[str]
) -> None:
    """Erase what is gone here, then send what is missing there."""
    connection = store.connection
    gone = gone_copies(connection, search.name).get(embedder, [])
    if gone:
        forget_complete(connection, embedder, search.name)
        await search.erase(gone)
        drop_copies(connection, embedder, search.name, gone)
    if missing and await _has_lost_vectors(store, search, embedder):
        mark_unsent(connection, embedder, search.name)
        missing = uncopied_texts(connection, embedder, search.name)
    if missing:
        note_partition(store)
    for start in range(0, len(missing), VECTORS_A_REQUEST):
        text_hashes = missing[start : start + VECTORS_A_REQUEST]
        vectors = vectors_to_copy(connection, embedder, text_hashes)
        # Noted first: a request that is cut off may have arrived.
        note_copies(connection, embedder, search.name, text_hashes)
        is_last = start + VECTORS_A_REQUEST >= len(missing)
        await search.upsert(as_sent(vectors), is_last=is_last)
        confirm_copies(connection, embedder, search.name, text_hashes)
    note_complete(connection, embedder, search.name)


async def _has_lost_vectors(store: Store, search: VectorSearch, embedder: str) -> bool:
    """Whether the server has fewer vectors than by the notes."""
    noted = count_copies(store.connection, embedder, search.name)
    if not noted or await search.count() >= noted:
        return False
    # Another process may have erased some in between, there and then in the notes.
    noted = min(noted, count_copies(store.connection, embedder, search.name))
    return await search.count() < noted


async def _nearest_of(
    connection: sqlite3.Connection, search: NearestTexts, query: NDArray[np.float32], k: int
) -> list[tuple[str, float]]:
    """Return memory id and cosine of at least the k nearest, where there are so many."""
    data = query.astype("<f2").tobytes()
    # A text may have no memory in the pool: that of another branch, or of an archived memory.
    texts = k
    while True:
        cosines_of_texts = await search.search(data, texts)
        cosines = _of_memories(connection, cosines_of_texts)
        if len(cosines) >= k or len(cosines_of_texts) < texts:
            return cosines
        texts *= 4


def _of_memories(
    connection: sqlite3.Connection, cosines_of_texts: list[tuple[str, float]]
) -> list[tuple[str, float]]:
    """Return memory id and cosine of the memories of the pool with these texts."""
    ids_by_text: dict[str, list[str]] = defaultdict(list)
    for memory_id, text_hash in memories_with_texts(connection, dict(cosines_of_texts)):
        ids_by_text[text_hash].append(memory_id)
    cosines: list[tuple[str, float]] = []
    for text_hash, cosine in cosines_of_texts:
        cosines += [(memory_id, cosine) for memory_id in ids_by_text[text_hash]]
    return cosines
