"""How similar each memory is to a turn's task, by the embeddings endpoint of the settings (`POST
/embeddings`).

With `terms`, the default, nothing is loaded or sent. The endpoint is a Provider, under the same
limits, retries, budget and ledger as every call. The task is embedded, then memories without a
vector, both for at most `TURN_WAIT_S`; the next turn continues. Vectors order the judging and never
decide what is judged. A failing host costs the turn its similarities and adds a warning. Trade-off:
a search loads all vectors, 40 MB for 50,000 of 384 places.
"""

import asyncio
import base64
import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from xscore.extension import implements, installed, load_plugin, plugin_errors
from xscore.pipeline.likeness import TURN_LIKENESS, Likeness
from xscore.pipeline.parts import AFTER_INDEX, DOCTOR_CHECKS
from xscore.pipeline.resources import TurnResources
from xscore.platform import database, tokens
from xscore.platform.errors import BudgetExhausted, ProviderError, RequestRejected, UsageError
from xscore.platform.extras import require_extra
from xscore.providers.host_facts import make_completion
from xscore.providers.hosts import host_of, usable_key, vendor_access
from xscore.providers.openai import OPENAI, OpenAIProvider, reported_usage
from xscore.providers.provider import Provider
from xscore.providers.spec import import_for_judging
from xscore.providers.wire_errors import CallContext
from xscore.records.calls import Capability, Completion, Finish, RateLimits, Request, Stage
from xscore.records.memory import Memory
from xscore.records.reports import DoctorFinding
from xscore.records.turn import Turn
from xscore.settings import Settings
from xscore.store.memory_queries import ids_without_vector, put_vectors
from xscore.store.memory_rows import IN_JSON_LIST, select_memories
from xscore.store.store import Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TEXTS_A_CALL = 32
"""Texts of one call; of 4,096 dimensions each the reply weighs 3 MB, within what is read of a short
reply."""
CALL_TIMEOUT_S = 60.0
ENDPOINT_EMBEDDER = "openai"
LONGEST_TEXT = 6_000
"""Characters of a memory that are embedded, its path and entity included."""
TURN_WAIT_S = 5.0
"""Longest that a turn waits for vectors of its memories."""
NEAREST = 1_000
"""Memories whose similarity counts; by rank, the others' hardly would."""
EMBEDDINGS_PROFILE = replace(OPENAI, path="/embeddings", setting="embedding.base_url")


class Embedder(Protocol):
    """What turns texts into vectors; another package's `connect(model, settings)` returns one
    (`xscore.embedders`)."""

    name: str
    """Vectors are kept under it: another model has another name."""

    async def embed(self, texts: Sequence[str]) -> "NDArray[Any]":
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

    async def embed(self, texts: Sequence[str]) -> "NDArray[np.float16]":
        """Return one row for each text. Raises RequestRejected."""
        import numpy as np  # an extra

        with plugin_errors(self._plugin, setting="embedding.model", error=RequestRejected):
            rows = unit_rows(await self._embedder.embed(texts))
            if rows.shape[0] != len(texts) or not np.isfinite(rows).all():
                raise ValueError(f"no finite row for each of {len(texts)} texts")
            return rows.astype("<f2")

    async def aclose(self) -> None:
        """Close it."""
        with plugin_errors(self._plugin, setting="embedding.model", error=RequestRejected):
            await self._embedder.aclose()


class EndpointEmbedder:
    """An embedder behind a provider of embeddings."""

    def __init__(self, provider: Provider, model: str) -> None:
        self.name: str = f"{provider.name}:{provider.host}:{model}"
        self._provider = provider
        self._model = model

    async def embed(self, texts: Sequence[str]) -> "NDArray[np.float16]":
        """Return one row for each text. Raises leaves of ProviderError."""
        import numpy as np  # an extra

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
        return np.frombuffer(base64.b64decode(completion.text), dtype="<f2").reshape(len(texts), -1)

    async def aclose(self) -> None:
        """Close the provider."""
        await self._provider.aclose()


class EmbeddingsProvider(OpenAIProvider):
    """The OpenAI dialect's embeddings.

    A host may cut a text to its context: only the order of judging follows.
    """

    profile = EMBEDDINGS_PROFILE
    must_read_all = False

    def fields(self, request: Request, capability: Capability, *, stream: bool) -> dict[str, Any]:
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
    import numpy as np  # an extra

    ordered = [row for row in data if _is_embedding(row)] if isinstance(data, list) else []
    ordered.sort(key=lambda row: row["index"])
    # The prompt begins with the system text.
    if [row["index"] for row in ordered] != list(range(len(call.prompt) - 1)):
        raise EMBEDDINGS_PROFILE.unreadable("another number of vectors than of texts", call)
    try:
        rows = np.array([row["embedding"] for row in ordered], dtype=np.float32)
    except (TypeError, ValueError):
        rows = np.zeros((0, 0), dtype=np.float32)
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise EMBEDDINGS_PROFILE.unreadable("malformed vectors", call)
    return unit_rows(rows).astype("<f2").tobytes()


def unit_rows(rows: "NDArray[Any]") -> "NDArray[np.float32]":
    """Return float32 rows of length 1; a row of zeros stays as it is."""
    import numpy as np  # an extra

    wide = np.atleast_2d(np.asarray(rows, dtype=np.float32))
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def embedder_label(settings: Settings) -> str:
    """Return the embedder's name for display. Raises UsageError for an invalid one."""
    model = settings.embedding.model.strip()
    kind, _, name = model.partition(":")
    if not name or (kind != ENDPOINT_EMBEDDER and kind not in installed()["embedders"]):
        raise UsageError(
            f"embedding.model is `{settings.embedding.model}`, which names no embedder",
            hint=(
                f"Write terms, {ENDPOINT_EMBEDDER}:MODEL, or PLUGIN:MODEL of an installed package."
            ),
        )
    return model


def make_embedder(settings: Settings, wrap: Callable[[Provider], Provider]) -> Embedder:
    """Return the embedder of the settings; nothing is sent yet. wrap: adds limits, budget and
    ledger around a host.

    Raises UsageError for what is none, a malformed base URL or key, or a missing extra,
    AuthenticationFailed where a remote host would get no key.
    """
    require_extra("vectors", "numpy", purpose="embedding.model")
    kind, _, model = embedder_label(settings).partition(":")
    if kind != ENDPOINT_EMBEDDER:
        connect = load_plugin("embedders", kind, setting="embedding.model")
        with plugin_errors(kind, setting="embedding.model"):
            return PluginEmbedder(connect(model, settings), kind)
    base_url = settings.embedding.base_url or settings.openai.base_url
    key = usable_key(
        vendor_access(settings, "openai"),
        host=host_of(base_url, setting=EMBEDDINGS_PROFILE.setting),
        model=model,
    )
    return EndpointEmbedder(wrap(EmbeddingsProvider(base_url, key)), model)


@implements(DOCTOR_CHECKS)
async def check_embedder(settings: Settings) -> list[DoctorFinding]:
    """Report for `doctor` which embedder is used, and whether it works; nothing is sent."""
    try:
        make_embedder(settings, lambda provider: provider)
        label = embedder_label(settings)
        host = host_of(settings.embedding.base_url or settings.openai.base_url)
        if label.startswith(f"{ENDPOINT_EMBEDDER}:"):
            place = f"{label} at {host}"
        else:
            place = f"{label}, of another package"
        words = f"{place}, which is sent the task and each memory once"
        return [DoctorFinding("embedder", True, words)]
    except (UsageError, ProviderError) as error:
        return [DoctorFinding("embedder", False, error.message, error.hint)]


@implements(TURN_LIKENESS)
async def turn_likeness(
    turn: Turn, settings: Settings, *, store: Store, resources: TurnResources
) -> Likeness:
    """Return each memory's similarity to the task.

    Raises what `make` raises; a failing host is a remark.
    """
    async with aclosing(await _opened(settings, resources)) as embedder:
        try:
            return Likeness(await _cosines(turn, embedder, store))
        except TimeoutError:
            message = (
                f"{embedder_label(settings)} gave no vector of the task within {TURN_WAIT_S:g} s"
            )
            return Likeness(warnings=(f"judging is ordered by words only: {message}",))
        except (ProviderError, BudgetExhausted) as error:
            return Likeness(warnings=(f"judging is ordered by words only: {error.message}",))


@implements(AFTER_INDEX)
async def embed_all(settings: Settings, *, store: Store, resources: TurnResources) -> str:
    """Embed every memory without a vector, however long it takes; return what went wrong.

    Raises what `make` raises.
    """
    async with aclosing(await _opened(settings, resources)) as embedder:
        try:
            for connection in store.connections_of_a_turn():
                await embed_missing(connection, embedder)
        except (ProviderError, BudgetExhausted) as error:
            return f"some memories have no vector yet: {error.message}"
    return ""


async def _opened(settings: Settings, resources: TurnResources) -> Embedder:
    await import_for_judging(embedder_label(settings).partition(":")[0])
    return make_embedder(settings, resources.metered_provider)


async def _cosines(turn: Turn, embedder: Embedder, store: Store) -> Mapping[str, float]:
    deadline = asyncio.get_running_loop().time() + TURN_WAIT_S
    async with asyncio.timeout_at(deadline):
        query = (await embedder.embed([f"{turn.task}\n{turn.errors}"[:LONGEST_TEXT]]))[0]
    with suppress(TimeoutError):
        async with asyncio.timeout_at(deadline):
            for connection in store.connections_of_a_turn():
                await embed_missing(connection, embedder)
    return dict(nearest(store.vectors(embedder.name), query.astype("float32"), NEAREST))


async def embed_missing(connection: sqlite3.Connection, embedder: Embedder) -> None:
    """Embed memories of the pool without a vector of this embedder.

    Short ones first, so that those of a batch are of one length. Each batch is committed by itself:
    an end in between loses one batch. Raises what the embedder raises.
    """
    missing = ids_without_vector(connection, embedder.name)
    for start in range(0, len(missing), TEXTS_A_CALL):
        among = (json.dumps(missing[start : start + TEXTS_A_CALL]),)
        part = select_memories(connection, f"id {IN_JSON_LIST}", among)
        vectors = await embedder.embed(
            [f"{memory.path} {memory.entity}\n{memory.text}"[:LONGEST_TEXT] for memory in part]
        )
        # A memory that changed or went while its vector was made gets none.
        with database.transaction(connection):
            new_vectors: list[tuple[Memory, bytes]] = []
            for row, memory in zip(vectors, part, strict=True):
                new_vectors.append((memory, row.astype("<f2").tobytes()))
            put_vectors(connection, embedder.name, new_vectors)


def nearest(
    vectors: Iterable[tuple[str, bytes]], query: "NDArray[np.float32]", k: int
) -> list[tuple[str, float]]:
    """Return the k nearest by cosine, best first, equals by id; vectors of another dimension are
    left out."""
    import numpy as np  # an extra

    candidates = sorted((id_, blob) for id_, blob in vectors if len(blob) == 2 * len(query))
    if not candidates:
        return []
    data = b"".join(blob for _, blob in candidates)
    rows = np.frombuffer(data, dtype="<f2").reshape(len(candidates), len(query))
    scores = unit_rows(rows) @ unit_rows(query)[0]
    best = np.argsort(-scores, kind="stable")[:k].tolist()  # equals stay in the order of their ids
    return [(candidates[row][0], float(scores[row])) for row in best]
