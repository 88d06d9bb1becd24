"""Vectors searched by Qdrant Edge: Qdrant's engine in this process, with its files in a folder.

Each collection (`qdrant_points`) is a shard: a folder of its own. All of its vectors are compared,
which takes 6 ms of CPU for 100,000, so there is no index to build. New vectors lie in files that
take more of them, and are slow to open; many of these are packed into files that can only lose
some. What cannot be opened is removed and sent again. Trade-off: the files are not encrypted, and
one process at a time has the folder; another waits for `LOCK_S` and then searches in the store.
"""

import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import TypeVar
from uuid import UUID

from qdrant_edge import (
    Distance,
    EdgeConfig,
    EdgeOptimizersConfig,
    EdgeShard,
    EdgeVectorParams,
    HnswIndexConfig,
    Memory,
    Point,
    Query,
    SearchRequest,
    UpdateOperation,
    VectorStorageDatatype,
)

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
from xscore.platform.errors import StoreError, UsageError
from xscore.platform.file_lock import hold_lock
from xscore.platform.text import counted
from xscore.store.vector_copies import CopiedVector

LOCK_S = 1.0
"""How long to wait for another process that has the folder."""
CLOSE_S = 1.0
"""How long closing waits for a call that was given up and still runs in its thread."""
MOST_OPENINGS = 2
"""Of one shard that no process ends well: the first may only have been stopped meanwhile."""
PACKED_FROM_KB = 10_000
"""How much of vectors is packed, counted as float32: some 6,500 vectors of 384 dimensions."""
NO_INDEX = HnswIndexConfig(m=0, ef_construct=4, full_scan_threshold=1_000_000_000)
"""No vector is linked to others, so that packing makes no index and all vectors are compared."""
HINT = "Check embedding.search: the folder must be on a disk of this machine, and your own."
T = TypeVar("T")


class QdrantFolder:
    """One partition in a folder. See `vector_search.VectorSearch`."""

    is_here = True

    def __init__(self, folder: str, partition: VectorPartition, *, name: str) -> None:
        """Open nothing yet."""
        self.name = name
        self._folder = Path(folder).expanduser()
        self._prefix = collection_prefix(partition)
        self._shards: dict[int, EdgeShard] = {}
        """By number of dimensions."""
        self._held = ExitStack()
        self._is_held = False
        self._is_closed = False
        self._one_call = Lock()

    async def upsert(self, vectors: Sequence[CopiedVector], *, is_last: bool) -> None:
        """Add vectors; they are on the disk when this returns. With the last of them pack."""
        await self._called(lambda: self._upsert(vectors, is_last))

    async def search(self, query: bytes, k: int) -> list[tuple[str, float]]:
        """Return the k nearest."""
        return await self._called(lambda: self._search(query, k))

    async def count(self) -> int:
        """Return how many vectors there are."""
        return await self._called(self._count)

    async def erase(self, text_hashes: Collection[str]) -> int:
        """Erase vectors, and rewrite the files in which their bytes are."""
        return await self._called(lambda: self._erase(text_hashes))

    async def check(self) -> str:
        """Describe what is there."""
        count = await self._called(
            lambda: sum(path.is_dir() for path in self._folder.glob(f"{PREFIX}_*"))
        )
        return f"{counted(count, 'collection')} of xscore"

    async def aclose(self) -> None:
        """Close the shards and let other processes have the folder."""
        self._is_closed = True
        await run_in_thread(self._close)

    async def _called(self, work: Callable[[], T]) -> T:
        """Let a thread work. Raises SharedUnavailable, StoreError, UsageError."""
        return await run_in_thread(lambda: self._work_alone(work))

    def _work_alone(self, work: Callable[[], T]) -> T:
        with self._one_call:
            try:
                self._hold_folder()
                return work()
            except (StoreError, UsageError):
                raise
            # Damaged files lead to anything, also to a panic of Rust, which is no Exception.
            except BaseException as error:
                raise unavailable(self.name, error, HINT) from error
            finally:
                # Given up meanwhile: nobody else would let the folder go.
                if self._is_closed:
                    self._release()

    def _close(self) -> None:
        if self._one_call.acquire(timeout=CLOSE_S):
            try:
                self._release()
            finally:
                self._one_call.release()

    def _release(self) -> None:
        shards = list(self._shards.values())
        self._shards.clear()
        try:
            for shard in shards:
                shard.close()
        finally:
            self._held.close()
            self._is_held = False

    def _hold_folder(self) -> None:
        """Lock the folder. Raises StoreError, and UsageError for one that others can change."""
        if self._is_held:
            return
        # Resolved once: a link that is changed after the check leads nowhere else.
        folder = self._folder.resolve()
        for missing in reversed(
            [path for path in (folder, *folder.parents) if not path.exists()]
        ):
            missing.mkdir(mode=0o700, exist_ok=True)
        _refuse_shared_folder(folder)
        self._folder = folder
        self._held.enter_context(hold_lock(folder / "xscore.lock", wait_s=LOCK_S, hint=HINT))
        self._is_held = True
        _remove_old_form(folder)

    def _upsert(self, vectors: Sequence[CopiedVector], is_last: bool) -> None:
        points_by_dimensions: dict[int, list[Point]] = {}
        for vector in vectors:
            point = Point(point_id(vector.text_hash), floats_of(vector.data))
            points_by_dimensions.setdefault(len(vector.data) // 2, []).append(point)
        for dimensions, points in points_by_dimensions.items():
            shard = self._opened(dimensions) or self._created(dimensions)
            shard.update(UpdateOperation.upsert_points(points))
            # Before packing: a process that is killed while it packs must not lose them.
            shard.flush()
            if is_last and shard.optimize():
                shard.flush()

    def _search(self, query: bytes, k: int) -> list[tuple[str, float]]:
        shard = self._opened(len(query) // 2)
        if shard is None:
            return []
        points = shard.search(SearchRequest(query=Query.Nearest(floats_of(query)), limit=k))
        return [(text_hash_of(point.id), float(point.score)) for point in points]

    def _count(self) -> int:
        return sum(shard.info().points_count for shard in self._all_opened())

    def _erase(self, text_hashes: Collection[str]) -> int:
        points: list[int | UUID | str] = [point_id(text_hash) for text_hash in text_hashes]
        erased = 0
        for shard in self._all_opened():
            erased += len(shard.retrieve(points, False, False))
            shard.update(UpdateOperation.delete_points(points))
            shard.flush()
            # Also where none was there: an erasure that was killed has deleted without rewriting.
            shard.optimize()
            shard.flush()
        return erased

    def _all_opened(self) -> Iterator[EdgeShard]:
        """Yield the shards of this partition."""
        for path in sorted(self._folder.glob(f"{self._prefix}*/")):
            shard = self._opened(int(path.name.removeprefix(self._prefix)))
            if shard is not None:
                yield shard

    def _opened(self, dimensions: int) -> EdgeShard | None:
        """Return a shard; None: there is none, or it was damaged and is removed."""
        if dimensions not in self._shards:
            shard = _load(self._path(dimensions), dimensions)
            if shard is None:
                return None
            self._shards[dimensions] = shard
        return self._shards[dimensions]

    def _created(self, dimensions: int) -> EdgeShard:
        path = self._path(dimensions)
        path.mkdir(mode=0o700)
        self._shards[dimensions] = EdgeShard.create(str(path), _config(dimensions))
        return self._shards[dimensions]

    def _path(self, dimensions: int) -> Path:
        return self._folder / f"{self._prefix}{dimensions}"


def _load(path: Path, dimensions: int) -> EdgeShard | None:
    """Open a shard. One that cannot be opened is removed: the count shows that it has to be sent
    again."""
    if not path.exists():
        return None
    # A byte for each process that began to open it and ended before it could: some damage ends the
    # process, and would end every process after it.
    opening = path.with_name(f"opening-{path.name}")
    begun = opening.stat().st_size if opening.exists() else 0
    shard: EdgeShard | None = None
    if begun < MOST_OPENINGS:
        with opening.open("ab") as marks:
            marks.write(b".")
        try:
            # With the form, so that a folder of an earlier version is packed with its next vectors.
            shard = EdgeShard.load(str(path), _config(dimensions))
        except (OSError, MemoryError):
            # That says nothing of the files.
            opening.unlink()
            raise
        except BaseException:  # a panic of Rust is no Exception
            shard = None
    if shard is None:
        shutil.rmtree(path)
    opening.unlink()
    return shard


def _config(dimensions: int) -> EdgeConfig:
    """Return the form of a shard: float16, mapped into memory, and rewritten after each erasure."""
    return EdgeConfig(
        vectors=EdgeVectorParams(
            size=dimensions,
            distance=Distance.Cosine,
            datatype=VectorStorageDatatype.Float16,
            # Mapped as needed (`Cold`), each page is a fault: 20 ms more for 100,000 vectors.
            memory=Memory.Cached,
        ),
        hnsw_config=NO_INDEX,
        optimizers=EdgeOptimizersConfig(
            deleted_threshold=1e-9,
            vacuum_min_vector_number=1,
            default_segment_number=1,
            indexing_threshold=PACKED_FROM_KB,
        ),
        # A search has few files to read, and starting threads takes longer than they save.
        max_search_threads=1,
        id_tracker_memory=Memory.Cold,
        # Each change is flushed, so a log would only keep what was erased.
        wal_enabled=False,
    )


def _remove_old_form(folder: Path) -> None:
    """Remove what the embedded mode of qdrant-client left. It is not read: its files are pickles,
    which run what they say."""
    for collection in folder.glob(f"collection/{PREFIX}_*"):
        shutil.rmtree(collection)


def _refuse_shared_folder(folder: Path) -> None:
    """Raise UsageError if others can put files there: Qdrant trusts the files that it maps."""
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
