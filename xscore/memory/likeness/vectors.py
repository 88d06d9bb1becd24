"""Dense vectors of memories: kept as float16 blobs in table `vec`, searched exactly with numpy or, where many, FAISS.

Beside what an embedder made, every memory has a dense vector for nothing: its sparse term vector folded onto
`FOLDED_DIMS` signed places, worked out when wanted and never stored. Embedding is lazy: `embed_missing` brings up to
date what a put has left without, and a memory's vectors die with it (or with its old text, in `memory.door`). Search
is exact: an approximate index would save nothing at the sizes of a repository. numpy is imported at first use.
Trade-off: a search loads all vectors of an embedder, some 40 MB for 50,000 of 384 dimensions.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xscore import database
from xscore.memory.likeness import embedder as embedders
from xscore.memory.likeness.embedder import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

FOLDED_DIMS = 256
"""Places of a folded term vector; two of a memory's terms share one in 1 of 256 cases."""
NAME_WEIGHT = 2.0
"""Weight of a term that stands in a memory's name, path or heading, besides its frequency."""


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """Memories' vectors, one row each, of length 1."""

    ids: tuple[str, ...]
    rows: "Matrix"
    """float32, len(ids) × dimensions."""
    _indexes: list[Any] = field(default_factory=list, repr=False)
    """FAISS's, once it was asked for."""

    def nearest(self, query: "Matrix", k: int, *, faiss_rows: int = 0) -> list[tuple[str, float]]:
        """Return the k nearest by cosine, best first, equals by id. faiss_rows: FAISS from so many; 0: never."""
        if not self.ids or k < 1:
            return []
        if faiss_rows and len(self.ids) >= faiss_rows and (index := self._faiss()) is not None:
            scores, rows = (found[0].tolist() for found in index.search(unit(query), min(k, len(self.ids))))
        else:
            rows, scores = _by_numpy(self.rows, query, k)
        best = sorted(zip(rows, scores, strict=True), key=lambda pair: (-pair[1], self.ids[pair[0]]))
        return [(self.ids[row], score) for row, score in best[:k]]

    def _faiss(self) -> Any:
        """Return an exact flat index of the rows, made once; None where the extra is not installed."""
        try:
            import faiss
        except ImportError:
            return None
        if not self._indexes:
            index = faiss.IndexFlatIP(self.rows.shape[1])
            index.add(self.rows)
            self._indexes.append(index)
        return self._indexes[0]


def unit(rows: "Matrix") -> "Matrix":
    """Return float32 rows of length 1; a row of zeros stays as it is."""
    import numpy as np

    wide = np.atleast_2d(np.asarray(rows, dtype=np.float32))
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def gather(pairs: Iterable[tuple[str, bytes]], *, dims: int) -> Vectors:
    """Read stored float16 blobs; those of another dimension are left out."""
    import numpy as np

    kept = sorted((identifier, blob) for identifier, blob in pairs if len(blob) == 2 * dims)
    rows = np.frombuffer(b"".join(blob for _, blob in kept), dtype="<f2").reshape(len(kept), dims)
    return Vectors(tuple(identifier for identifier, _ in kept), unit(rows.astype(np.float32)))


def folded(blobs: Sequence[bytes], *, dims: int = FOLDED_DIMS) -> "Matrix":
    """Return sparse term vectors folded onto so many signed places (feature hashing), each of length 1.

    A term weighs 1 + ln(its frequency), and `NAME_WEIGHT` more where it names the memory.
    """
    import numpy as np

    entries = np.frombuffer(b"".join(blobs), dtype=np.dtype([("term", "<u4"), ("count", "u1"), ("marks", "u1")]))
    sizes = np.fromiter((len(blob) // entries.dtype.itemsize for blob in blobs), dtype=np.int64, count=len(blobs))
    owner = np.repeat(np.arange(len(blobs)), sizes)
    spread = entries["term"].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    place = ((spread >> np.uint64(40)) % np.uint64(dims)).astype(np.int64)
    sign = np.where((spread >> np.uint64(39)) & np.uint64(1), 1.0, -1.0)
    weight = np.where(entries["count"] > 0, 1 + np.log(np.maximum(entries["count"], 1)), 0.0)
    weight = weight + NAME_WEIGHT * (entries["marks"] > 0)
    flat = np.bincount(owner * dims + place, weights=sign * weight, minlength=len(blobs) * dims)
    return unit(flat.reshape(len(blobs), dims).astype(np.float32))


async def embed_missing(connection: sqlite3.Connection, embedder: Embedder, *, limit: int | None = None) -> int:
    """Embed memories of the pool that have no vector of this embedder, at most `limit`; return how many there were.

    Short ones first, so that those of a batch are of one length. Each batch is committed by itself: an end in between
    loses one batch. Raises what the embedder raises.
    """
    rows = connection.execute(
        "SELECT id, path, entity, text, text_hash FROM memory WHERE status IN ('active', 'stale') AND NOT EXISTS"
        " (SELECT 1 FROM vec WHERE memory_id = memory.id AND embedder = ?) ORDER BY length(text), id LIMIT ?",
        (embedder.name, -1 if limit is None else limit),
    ).fetchall()
    for start in range(0, len(rows), embedder.batch):
        part = rows[start : start + embedder.batch]
        made = await embedder.embed([embedders.shown(path, entity, text) for _, path, entity, text, _ in part])
        with database.transaction(connection):  # a memory that changed or went while its vector was made gets none
            connection.executemany(
                "INSERT OR REPLACE INTO vec (memory_id, embedder, data)"
                " SELECT id, ?, ? FROM memory WHERE id = ? AND text_hash = ?",
                [
                    (embedder.name, row.astype("<f2").tobytes(), identifier, text_hash)
                    for row, (identifier, *_, text_hash) in zip(made, part, strict=True)
                ],
            )
    return len(rows)


def _by_numpy(rows: "Matrix", query: "Matrix", k: int) -> tuple[list[int], list[float]]:
    import numpy as np

    scores = rows @ unit(query)[0]
    least = np.partition(scores, -k)[-k] if k < len(scores) else scores.min()
    best = np.flatnonzero(scores >= least)
    return best.tolist(), scores[best].tolist()
