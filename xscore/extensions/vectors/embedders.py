"""Embedders, and the arithmetic of their vectors: rows of length 1, and the nearest of them.

An embedder is a plugin's, or the embeddings endpoint of an OpenAI-compatible host, which is a
Provider, under the same limits, retries, budget and ledger as every call. This module needs numpy
(the extra `vectors`): import it once that is checked. When and what to embed is decided elsewhere.
Trade-off: vectors are kept as float16, so the last digits of a cosine are lost.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from xscore.extension import plugin_errors
from xscore.platform import tokens
from xscore.platform.errors import RequestRejected
from xscore.providers.host_facts import make_completion
from xscore.providers.openai import OPENAI, OpenAIProvider, reported_usage
from xscore.providers.provider import Provider
from xscore.providers.wire_errors import CallContext
from xscore.records.calls import Capability, Completion, Finish, RateLimits, Request, Stage

CALL_TIMEOUT_S = 60.0
LARGEST_NUMBER = 1e15
"""Of a vector: the square of a larger one may not fit a float32, and no model returns it."""
EMBEDDINGS_PROFILE = replace(OPENAI, path="/embeddings", setting="embedding.base_url")

NUMBERS_AT_ONCE = 1 << 17
"""Numbers of vectors that are widened to float32 at a time, so that they stay in the processor's
cache: 100,000 vectors take less than half of the time that they take in one piece."""


class Embedder(Protocol):
    """What turns texts into vectors; another package's `connect(model, settings)` returns one
    (`xscore.embedders`)."""

    name: str
    """Vectors are kept under it: another model has another name."""

    async def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return one row for each text, all of one length."""
        ...

    async def aclose(self) -> None:
        """Release what it holds."""
        ...


class PluginEmbedder:
    """An embedder of another package; what it raises, or malformed rows, cost the turn its
    similarities."""

    def __init__(self, embedder: Embedder, plugin: str) -> None:
        self.name: str = f"{plugin}:{embedder.name}"
        self._embedder = embedder
        self._plugin = plugin

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float16]:
        """Return one row for each text. Raises RequestRejected."""
        with plugin_errors(self._plugin, setting="embedding.model", error=RequestRejected):
            rows = unit_rows(await self._embedder.embed(texts))
            is_row_each = rows.ndim == 2 and rows.shape[0] == len(texts) and rows.shape[1] > 0
            if not is_row_each or not np.isfinite(rows).all():
                raise ValueError(f"no finite row for each of {len(texts)} texts")
            return rows.astype("<f2")

    async def aclose(self) -> None:
        """Close it."""
        with plugin_errors(self._plugin, setting="embedding.model", error=RequestRejected):
            await self._embedder.aclose()


class EndpointEmbedder:
    """An embedder behind a provider of embeddings."""

    def __init__(self, provider: Provider, model: str, *, name: str) -> None:
        self.name = name
        self._provider = provider
        self._model = model

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float16]:
        """Return one row for each text. Raises leaves of ProviderError."""
        chars = tokens.size(*texts)
        request = Request(
            stage=Stage.EMBED,
            model=self._model,
            system="",
            content=tuple(text or " " for text in texts),
            max_output_tokens=0,
            input_tokens=tokens.estimate(chars),
            reserved_input_tokens=tokens.upper_bound(chars),
            candidates=len(texts),
            timeout_s=CALL_TIMEOUT_S,
        )
        completion = await self._provider.complete(request)
        return np.frombuffer(base64.b64decode(completion.text), dtype="<f2").reshape(
            len(texts), -1
        )

    async def aclose(self) -> None:
        """Close the provider."""
        await self._provider.aclose()


class EmbeddingsProvider(OpenAIProvider):
    """The OpenAI dialect's embeddings.

    A host may cut a text to its context: only the order of judging follows.
    """

    profile = EMBEDDINGS_PROFILE
    must_read_all = False

    def fields(
        self, request: Request, capability: Capability, *, stream: bool
    ) -> dict[str, Any]:
        """Return the JSON body: the texts, to be answered in floats."""
        fields = {
            "model": request.model,
            "input": list(request.content),
            "encoding_format": "float",
        }
        return {name: value for name, value in fields.items() if name not in capability.without}

    def weaker(
        self, request: Request, capability: Capability, refusal: object
    ) -> Capability | None:
        """Leave `encoding_format` out where the host refuses it."""
        if "encoding_format" in capability.without or "encoding_format" not in str(refusal):
            return None
        return replace(capability, without=(*capability.without, "encoding_format"))

    def completion(
        self, reply: Mapping[str, Any], call: CallContext, limits: RateLimits
    ) -> Completion:
        """Return the rows as text; raise the error that the reply carries, or
        UnreadableResponse."""
        EMBEDDINGS_PROFILE.raise_inner(reply.get("error"), call)
        text = base64.b64encode(_rows(reply.get("data"), call)).decode("ascii")
        usage = reply.get("usage")
        counts = {"completion_tokens": 0, **usage} if isinstance(usage, Mapping) else usage
        name = str(reply.get("model") or call.model)
        completion = make_completion(
            call, "", Finish.STOP, reported_usage(counts), model=name, limits=limits
        )
        return replace(completion, text=text)


def _is_embedding(row: object) -> bool:
    if not isinstance(row, Mapping):
        return False
    return type(row.get("index")) is int and isinstance(row.get("embedding"), list)


def _rows(data: object, call: CallContext) -> bytes:
    """Return the rows in the order of the texts, each of length 1, as float16."""
    ordered = [row for row in data if _is_embedding(row)] if isinstance(data, list) else []
    ordered.sort(key=lambda row: row["index"])
    # The prompt begins with the system text.
    if [row["index"] for row in ordered] != list(range(len(call.prompt) - 1)):
        raise EMBEDDINGS_PROFILE.unreadable("another number of vectors than of texts", call)
    try:
        rows = np.array([row["embedding"] for row in ordered], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        rows = np.zeros((0, 0))
    # NaN is not below it either.
    if rows.ndim != 2 or not rows.size or not (np.abs(rows) < LARGEST_NUMBER).all():
        raise EMBEDDINGS_PROFILE.unreadable("malformed vectors", call)
    return unit_rows(rows).astype("<f2").tobytes()


def unit_rows(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Return float32 rows of length 1; a row of zeros stays as it is."""
    wide = np.atleast_2d(np.asarray(rows, dtype=np.float32))
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def float_rows(data: bytes, dimensions: int) -> NDArray[np.float32]:
    """Return vectors (float16, little-endian, all finite) as rows of float32.

    numpy converts one number at a time; moving the bits of all to their places takes a quarter of
    the time.
    """
    bits = np.frombuffer(data, dtype="<i2").astype(np.int32)
    bits <<= 13
    # Above the exponent are copies of the sign.
    bits &= ~0x7000_0000
    rows = bits.view(np.float32).reshape(-1, dimensions)
    # The exponents of float32 count from 112 below those of float16.
    rows *= 2.0**112
    return rows


def nearest(
    vectors: Iterable[tuple[str, bytes]], query: NDArray[np.float32], k: int
) -> list[tuple[str, float]]:
    """Return the k nearest by cosine, best first, equals by id; vectors of another dimension are
    left out."""
    vector_bytes = 2 * len(query)
    candidates: list[tuple[str, bytes]] = []
    for id_, blob in vectors:
        if len(blob) == vector_bytes:
            candidates.append((id_, blob))
    if not candidates:
        return []
    unit_query = unit_rows(query)[0]
    scores = np.empty(len(candidates), dtype=np.float32)
    rows_at_once = max(1, NUMBERS_AT_ONCE // len(query))
    for start in range(0, len(candidates), rows_at_once):
        block = candidates[start : start + rows_at_once]
        rows = float_rows(b"".join([blob for _, blob in block]), len(query))
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        scores[start : start + len(block)] = (
            rows @ unit_query / np.where(lengths > 0, lengths, 1)
        )
    # All that tie with the last one, so that ids decide among them.
    place = max(0, len(candidates) - k)
    least = np.partition(scores, place)[place]
    best: list[tuple[str, float]] = []
    for row in np.flatnonzero(scores >= least).tolist():
        best.append((candidates[row][0], float(scores[row])))
    best.sort(key=lambda pair: (-pair[1], pair[0]))
    return best[:k]
