"""Embedders and dense vectors: texts in, one vector each out, stored as float16 blobs in table `vec`, searched exactly.

Vectors order the judging and serve the lexical judge; they never decide what is judged. Every memory also has a vector
for free: its sparse term vector folded onto `FOLDED_DIMS` signed places. `LocalEmbedder` runs a sentence model from a
folder (extra `local`); nothing is downloaded. Trade-offs: long memories are embedded by their beginning; a search loads
all vectors of an embedder, about 40 MB for 50,000 of 384 dimensions; models that need a prefix or another pooling than
the mean give poorer vectors.
"""

import asyncio
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from xscore.platform import database
from xscore.platform.errors import UsageError
from xscore.platform.hashing import file_digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Dense = NDArray[np.float16]
    "One row a text, each of length 1."
    Matrix = NDArray[np.float32]


LONGEST_TEXT = 6_000
"""Characters of a memory that are embedded, its path and entity included."""


class Embedder(Protocol):
    """Makes vectors of texts."""

    @property
    def name(self) -> str:
        """Names the vectors in table `vec`; whatever changes them is part of it."""
        ...

    @property
    def batch(self) -> int:
        """Texts that are best given at once."""
        ...

    async def embed(self, texts: Sequence[str]) -> "Dense":
        """Return one row for each text. Raises leaves of ProviderError where a host makes them, and UsageError."""
        ...

    async def aclose(self) -> None:
        """Let go of the model or the host."""
        ...


def embedding_text(path: str, entity: str, text: str) -> str:
    """Return what an embedder is given of a memory."""
    return f"{path} {entity}\n{text}"[:LONGEST_TEXT]


FOLDED_DIMS = 256
"""Places of a folded term vector; two of a memory's terms share one in 1 of 256 cases."""
NAME_WEIGHT = 2.0
"""Weight of a term that stands in a memory's name, path or heading, besides its frequency."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorSet:
    """Memories' vectors, one row each, of length 1."""

    ids: tuple[str, ...]
    rows: "Matrix"
    """float32, len(ids) × dimensions."""

    def nearest(self, query: "Matrix", k: int) -> list[tuple[str, float]]:
        """Return the k nearest by cosine, best first, equals by id."""
        if not self.ids or k < 1:
            return []
        import numpy as np

        scores = self.rows @ unit_rows(query)[0]
        least = np.partition(scores, -k)[-k] if k < len(scores) else scores.min()
        best = sorted(np.flatnonzero(scores >= least).tolist(), key=lambda row: (-scores[row], self.ids[row]))
        return [(self.ids[row], float(scores[row])) for row in best[:k]]


def unit_rows(rows: "Matrix") -> "Matrix":
    """Return float32 rows of length 1; a row of zeros stays as it is."""
    import numpy as np

    wide = np.atleast_2d(np.asarray(rows, dtype=np.float32))
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def read_vectors(pairs: Iterable[tuple[str, bytes]], *, dims: int) -> VectorSet:
    """Read stored float16 blobs; those of another dimension are left out."""
    import numpy as np

    kept = sorted((identifier, blob) for identifier, blob in pairs if len(blob) == 2 * dims)
    rows = np.frombuffer(b"".join(blob for _, blob in kept), dtype="<f2").reshape(len(kept), dims)
    return VectorSet(tuple(identifier for identifier, _ in kept), unit_rows(rows.astype(np.float32)))


def fold_term_vectors(blobs: Sequence[bytes], *, dims: int = FOLDED_DIMS) -> "Matrix":
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
    return unit_rows(flat.reshape(len(blobs), dims).astype(np.float32))


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
        made = await embedder.embed([embedding_text(path, entity, text) for _, path, entity, text, _ in part])
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


MODELS = ("model.onnx", "onnx/model.onnx")
"""Where a folder may hold its model; the first that is there."""
TOKENIZER = "tokenizer.json"
MOST_TOKENS = 256
"""Of one text, as MiniLM was trained."""
LOCAL_BATCH = 32


def model_file(folder: Path) -> Path:
    """Return the model of a folder. Raises UsageError where it or its tokenizer is not there."""
    found = next((folder / name for name in MODELS if (folder / name).is_file()), None)
    missing = MODELS[0] if found is None else TOKENIZER if not (folder / TOKENIZER).is_file() else ""
    if found is None or missing:
        raise UsageError(
            f"embedding.model names {folder}, where there is no {missing}",
            hint=f"Put {MODELS[0]} and {TOKENIZER} of a sentence model there; nothing is downloaded.",
        )
    return found


class LocalEmbedder:
    """A sentence model in this process."""

    batch = LOCAL_BATCH

    def __init__(self, folder: Path) -> None:
        """Raise UsageError where the folder holds no model or the extra is not installed."""
        self._model = model_file(folder)
        self._tokenizer = folder / TOKENIZER
        try:
            import onnxruntime
            import tokenizers
        except ImportError as error:
            raise UsageError(
                "embedding.model wants a local model, and the extra `local` is not installed",
                hint="pip install 'xscore[local]', or set embedding.model to terms.",
            ) from error
        self._runtime, self._tokenizers = onnxruntime, tokenizers

    @cached_property
    def name(self) -> str:
        """`minilm:` and a digest of model and tokenizer, so that another model's vectors are others."""
        return f"minilm:{file_digest(self._model.read_bytes() + self._tokenizer.read_bytes())[:12]}"

    async def embed(self, texts: Sequence[str]) -> "Dense":
        """Return one row for each text."""
        return await asyncio.to_thread(self._embed, list(texts))

    async def aclose(self) -> None:
        """Do nothing: the session goes with the object."""

    def _embed(self, texts: list[str]) -> "Dense":
        import numpy as np

        encoded = self._words.encode_batch(texts)
        fed = {
            "input_ids": np.array([one.ids for one in encoded], dtype=np.int64),
            "attention_mask": np.array([one.attention_mask for one in encoded], dtype=np.int64),
            "token_type_ids": np.array([one.type_ids for one in encoded], dtype=np.int64),
        }
        wanted = {given.name for given in self._session.get_inputs()}
        states = self._session.run(None, {name: value for name, value in fed.items() if name in wanted})[0]
        if states.ndim == 3:
            mask = fed["attention_mask"][:, :, None]
            states = (states * mask).sum(axis=1) / np.maximum(mask.sum(axis=1), 1)
        return unit_rows(states).astype(np.float16)

    @cached_property
    def _words(self) -> Any:
        tokenizer = self._tokenizers.Tokenizer.from_file(str(self._tokenizer))
        tokenizer.enable_truncation(MOST_TOKENS)
        tokenizer.enable_padding()
        return tokenizer

    @cached_property
    def _session(self) -> Any:
        return self._runtime.InferenceSession(str(self._model), providers=["CPUExecutionProvider"])
