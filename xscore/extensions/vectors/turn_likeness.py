"""How similar each memory is to a turn's task, by the embeddings endpoint of the settings (`POST
/embeddings`).

With `terms`, the default, nothing is loaded or sent. The endpoint is a Provider, under the same
limits, retries, budget and ledger as every call. The task is embedded, then memories without a
vector, both for at most `TURN_WAIT_S`; the next turn continues. Vectors order the judging and never
decide what is judged. A failing host costs the turn its similarities and adds a warning. Trade-off:
the search among very many vectors is not exact (`local_search`).
"""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from xscore.extension import implements, installed, load_plugin, plugin_errors
from xscore.extensions.vectors.search_backends import open_search, search_server_name
from xscore.extensions.vectors.vector_search import VectorPartition
from xscore.pipeline.likeness import TURN_LIKENESS, Likeness
from xscore.pipeline.parts import AFTER_INDEX, DOCTOR_CHECKS
from xscore.pipeline.resources import TurnResources
from xscore.platform import database
from xscore.platform.errors import (
    BudgetExhausted,
    ProviderError,
    SharedUnavailable,
    StoreError,
    UsageError,
)
from xscore.platform.extras import require_extra
from xscore.providers.hosts import host_of, usable_key, vendor_access
from xscore.providers.provider import Provider
from xscore.providers.spec import import_http_client
from xscore.records.memory import Memory
from xscore.records.reports import DoctorFinding
from xscore.records.turn import Turn
from xscore.settings import Settings
from xscore.store.memory_rows import IN_JSON_LIST, select_memories
from xscore.store.store import Store
from xscore.store.vector_copies import servers_with_gone_copies, uncopied_texts
from xscore.store.vector_rows import ids_without_vector, note_complete_embedder, put_vectors

if TYPE_CHECKING:
    from xscore.extensions.vectors.embedders import Embedder

TEXTS_A_CALL = 32
"""Texts of one call; of 4,096 dimensions each the reply weighs 3 MB, within what is read of a short
reply."""
ENDPOINT_EMBEDDER = "openai"
LONGEST_TEXT = 6_000
"""Characters of a memory that are embedded, its path and entity included."""
TURN_WAIT_S = 5.0
"""Longest that a turn waits for vectors of its memories."""
NEAREST = 500
"""Memories whose similarity counts; by rank, the others' hardly would."""


def embedder_label(settings: Settings) -> str:
    """Return the embedder's name for display. Raises UsageError for an invalid one."""
    model = settings.embedding.model.strip()
    kind, _, name = model.partition(":")
    if not name or (kind != ENDPOINT_EMBEDDER and kind not in installed()["embedders"]):
        raise UsageError(
            f"embedding.model is `{settings.embedding.model}`, which is not an embedder",
            hint=(
                f"Write terms, {ENDPOINT_EMBEDDER}:MODEL, or PLUGIN:MODEL of an installed package."
            ),
        )
    return model


def make_embedder(settings: Settings, wrap: Callable[[Provider], Provider]) -> "Embedder":
    """Return the embedder of the settings; nothing is sent yet. wrap: adds limits, budget and
    ledger around a host.

    Raises UsageError for what is none, a malformed base URL or key, or a missing extra,
    AuthenticationFailed where a remote host would get no key.
    """
    require_extra("vectors", "numpy", purpose="embedding.model")
    from xscore.extensions.vectors import embedders  # it needs the extra

    kind, _, model = embedder_label(settings).partition(":")
    if kind != ENDPOINT_EMBEDDER:
        connect = load_plugin("embedders", kind, setting="embedding.model")
        with plugin_errors(kind, setting="embedding.model"):
            return embedders.PluginEmbedder(connect(model, settings), kind)
    base_url = _endpoint(settings)
    key = usable_key(
        vendor_access(settings, "openai"),
        host=host_of(base_url, setting=embedders.EMBEDDINGS_PROFILE.setting),
        model=model,
    )
    provider = wrap(embedders.EmbeddingsProvider(base_url, key))
    return embedders.EndpointEmbedder(provider, model, name=_endpoint_name(settings, model))


def _endpoint(settings: Settings) -> str:
    return settings.embedding.base_url or settings.openai.base_url


def _endpoint_name(settings: Settings, model: str) -> str:
    """Return the name under which vectors of an endpoint are kept."""
    return f"{ENDPOINT_EMBEDDER}:{host_of(_endpoint(settings))}:{model}"


_SEARCH_OF_NOTHING = DoctorFinding(
    "vector search",
    False,
    "embedding.search is set, but nothing makes vectors that could be searched",
    "Set embedding.model to an embedder, or leave embedding.search empty.",
)


@implements(DOCTOR_CHECKS)
async def check_embedder(settings: Settings) -> list[DoctorFinding]:
    """Report for `doctor` which embedder is used and what searches its vectors, and whether both
    work; no text or vector is sent."""
    if not settings.embedding.by_model:
        return [_SEARCH_OF_NOTHING]
    try:
        make_embedder(settings, lambda provider: provider)
        label = embedder_label(settings)
        host = host_of(_endpoint(settings))
        if label.startswith(f"{ENDPOINT_EMBEDDER}:"):
            place = f"{label} at {host}"
        else:
            place = f"{label}, of another package"
        words = f"{place}, which is sent the task and each memory once"
        findings = [DoctorFinding("embedder", True, words)]
    except (UsageError, ProviderError) as error:
        findings = [DoctorFinding("embedder", False, error.message, error.hint)]
    if settings.embedding.search.reveal():
        findings.append(await _check_search(settings))
    return findings


async def _check_search(settings: Settings) -> DoctorFinding:
    """Ask the server that searches vectors once; it is sent none."""
    nobody = VectorPartition(member="", repository="", embedder="")
    try:
        search = open_search(settings, nobody, timeout_s=settings.shared.timeout_s)
        assert search is not None
        async with aclosing(search):
            description = await search.check()
    except (UsageError, SharedUnavailable) as error:
        return DoctorFinding("vector search", False, error.message, error.hint)
    words = f"{search.name}: {description}; it stores vectors of this repository's memories"
    return DoctorFinding("vector search", True, words)


@implements(TURN_LIKENESS)
async def turn_likeness(
    turn: Turn,
    settings: Settings,
    *,
    store: Store,
    resources: TurnResources,
    needs_all: bool = False,
) -> Likeness:
    """Return each memory's similarity to the task. needs_all: see `likeness.TurnLikeness`.

    Raises what opening the embedder raises; a failing host is a remark.
    """
    async with aclosing(await _opened(settings, resources)) as embedder:
        try:
            return await _likeness(turn, settings, embedder, store, needs_all=needs_all)
        except TimeoutError:
            message = (
                f"{embedder_label(settings)} gave no vector for the "
                f"task within {TURN_WAIT_S:g} s"
            )
            return Likeness(warnings=(f"judging is ordered by words only: {message}",))
        except (ProviderError, BudgetExhausted) as error:
            return Likeness(warnings=(f"judging is ordered by words only: {error.message}",))


@implements(AFTER_INDEX)
async def embed_all(settings: Settings, *, store: Store, resources: TurnResources) -> str:
    """Embed every memory without a vector, however long it takes; return what went wrong.

    Raises what opening the embedder raises.
    """
    if _has_all_vectors(settings, store):
        return ""  # most runs: numpy and a client would be loaded for nothing
    async with aclosing(await _opened(settings, resources)) as embedder:
        try:
            for connection in store.connections_of_a_turn():
                await embed_missing(connection, embedder)
        except (ProviderError, BudgetExhausted) as error:
            return f"some memories have no vector yet: {error.message}"
        from xscore.extensions.vectors.local_search import prepare_search  # needs numpy
        from xscore.extensions.vectors.pool_search import send_copies  # needs numpy

        # The next turn makes what is not made here.
        with suppress(StoreError):
            for connection in store.connections_of_a_turn():
                prepare_search(connection, embedder.name)
        problem = await send_copies(store, settings, embedder.name, in_turn=False)
    return f"some vectors were not sent: {problem}" if problem else ""


def _has_all_vectors(settings: Settings, store: Store) -> bool:
    """Whether no memory is without a vector, as far as that is known before the embedder is
    loaded."""
    kind, _, model = embedder_label(settings).partition(":")
    # What a plugin calls its vectors, only the plugin knows: then an empty pool alone has all.
    name = _endpoint_name(settings, model) if kind == ENDPOINT_EMBEDDER else ""
    connections = store.connections_of_a_turn()
    if any(ids_without_vector(connection, name) for connection in connections):
        return False
    server = search_server_name(settings)
    if not server:
        return True
    is_sent = not uncopied_texts(store.connection, name, server)
    return is_sent and server not in servers_with_gone_copies(store.connection)


async def _opened(settings: Settings, resources: TurnResources) -> "Embedder":
    await import_http_client(embedder_label(settings).partition(":")[0])
    return make_embedder(settings, resources.metered_provider)


async def _likeness(
    turn: Turn, settings: Settings, embedder: "Embedder", store: Store, *, needs_all: bool
) -> Likeness:
    # Needs numpy.
    from xscore.extensions.vectors.pool_search import nearest_memories, send_copies

    deadline: float | None = None
    if not needs_all:
        deadline = asyncio.get_running_loop().time() + TURN_WAIT_S
    async with asyncio.timeout_at(deadline):
        query = (await embedder.embed([f"{turn.task}\n{turn.errors}"[:LONGEST_TEXT]]))[0]
    with suppress(TimeoutError):
        async with asyncio.timeout_at(deadline):
            for connection in store.connections_of_a_turn():
                await embed_missing(connection, embedder)
    if not needs_all:
        # What goes wrong is remembered, and said by the search.
        await send_copies(store, settings, embedder.name, in_turn=True)
    count = None if needs_all else NEAREST
    return await nearest_memories(
        store, settings, embedder.name, query.astype("float32"), count
    )


async def embed_missing(connection: sqlite3.Connection, embedder: "Embedder") -> None:
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
    # A store that cannot be written is looked through again by the next turn.
    with suppress(StoreError):
        note_complete_embedder(connection, embedder.name)
