"""The embedder of the settings, and how like a turn's task each memory is by it.

Without one (`terms`, the default) nothing is loaded, sent or waited for. With one, the task is embedded, then memories
without a vector, both for at most `PATIENCE_S`, and the next turn goes on from there; `xscore index` embeds all. It
serves the order of judging and the lexical judge; a host that fails, or says nothing, costs the turn its likeness and a
remark, and nothing else. Trade-off: the first turns over a large store order by few vectors.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from xscore.errors import BudgetExhausted, ProviderError, UsageError
from xscore.memory.likeness.embedder import LONGEST_TEXT, Embedder
from xscore.memory.store import Store
from xscore.pipeline.parts import Desk
from xscore.providers.hosts import host_of
from xscore.providers.provider import Provider
from xscore.providers.sdk_import import imported
from xscore.records import Turn
from xscore.settings import Settings

TERMS, LOCAL, ENDPOINT = "terms", "minilm", "openai"
PATIENCE_S = 5.0
"""Longest that a turn waits for vectors of its memories."""
NEAREST = 1_000
"""Memories whose likeness counts; by rank, the others' would hardly."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """Cosine with the task by memory id, of the nearest that have a vector."""

    cosines: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def label(settings: Settings) -> str:
    """Return the embedder in words fit to be shown: without the folder of a local model."""
    kind, model = _parsed(settings)
    return f"{kind}:{model}" if kind == ENDPOINT else kind


def make(settings: Settings, wrap: Callable[[Provider], Provider]) -> Embedder | None:
    """Return the embedder of the settings; None for `terms`. wrap: puts limits, budget and ledger around a host.

    Raises UsageError for what is none or is not there, AuthenticationFailed where a remote host would get no key.
    """
    kind, model = _parsed(settings)
    if kind == LOCAL:
        from xscore.memory.likeness.local_embedder import LocalEmbedder

        return LocalEmbedder(Path(model).expanduser())
    if kind == ENDPOINT:
        from xscore.providers.embeddings import EndpointEmbedder, connect

        return EndpointEmbedder(wrap(connect(model, settings)), model)
    return None


def in_words(settings: Settings) -> str:
    """Say which embedder is in use, and whether what it needs is there. Raises what `make` raises; nothing is sent."""
    kind, model = _parsed(settings)
    if kind == TERMS:
        return "terms: the words of each memory, hashed; no model, nothing sent"
    make(settings, lambda provider: provider)
    if kind == LOCAL:
        return f"minilm: the model in {Path(model).expanduser()}, on this machine"
    base_url = settings.embedding.base_url or settings.openai.base_url
    return f"{label(settings)} at {host_of(base_url)}, which is sent the task and each memory once"


async def likeness(turn: Turn, settings: Settings, *, store: Store, desk: Desk) -> Likeness:
    """Return how like the task each memory is. Raises what `make` raises; a host that fails is a remark."""
    embedder = await _opened(settings, desk)
    if embedder is None:
        return Likeness()
    try:
        return Likeness(await _cosines(turn, embedder, store, faiss_rows=settings.embedding.faiss_rows))
    except TimeoutError:
        said = f"{label(settings)} gave no vector of the task within {PATIENCE_S:g} s"
        return Likeness(remarks=(f"the order of judging is by words alone: {said}",))
    except (ProviderError, BudgetExhausted) as error:
        return Likeness(remarks=(f"the order of judging is by words alone: {error.message}",))
    finally:
        await embedder.aclose()


async def bring_up_to_date(settings: Settings, *, store: Store, desk: Desk) -> str:
    """Embed every memory without a vector, however long it takes; say what went wrong. Raises what `make` raises."""
    embedder = await _opened(settings, desk)
    if embedder is None:
        return ""
    from xscore.memory.likeness.vectors import embed_missing

    try:
        for connection in store.connections_of_a_turn():
            await embed_missing(connection, embedder)
    except (ProviderError, BudgetExhausted) as error:
        return f"some memories have no vector yet: {error.message}"
    finally:
        await embedder.aclose()
    return ""


async def _opened(settings: Settings, desk: Desk) -> Embedder | None:
    if _parsed(settings)[0] == ENDPOINT:
        await imported(ENDPOINT)
    return make(settings, desk.embedding)


async def _cosines(turn: Turn, embedder: Embedder, store: Store, *, faiss_rows: int) -> Mapping[str, float]:
    from xscore.memory.likeness.vectors import embed_missing, gather  # most turns have no embedder

    patience = asyncio.get_running_loop().time() + PATIENCE_S
    async with asyncio.timeout_at(patience):
        query = (await embedder.embed([f"{turn.task}\n{turn.errors}"[:LONGEST_TEXT]]))[0]
    with suppress(TimeoutError):
        async with asyncio.timeout_at(patience):
            for connection in store.connections_of_a_turn():
                await embed_missing(connection, embedder)
    vectors = gather(store.vectors(embedder.name), dims=len(query))
    return dict(vectors.nearest(query.astype("float32"), NEAREST, faiss_rows=faiss_rows))


def _parsed(settings: Settings) -> tuple[str, str]:
    kind, _, model = settings.embedding.model.strip().partition(":")
    if (kind == TERMS and not model) or (kind in (LOCAL, ENDPOINT) and model):
        return kind, model
    raise UsageError(
        f"embedding.model is `{settings.embedding.model}`, which names no embedder",
        hint=f"Write {TERMS}, {LOCAL}:FOLDER or {ENDPOINT}:MODEL.",
    )
