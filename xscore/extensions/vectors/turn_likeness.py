"""How similar each memory is to a turn's task, by the embedder of the settings.

With `terms`, the default, nothing is loaded or sent. Otherwise the task is embedded, then memories without a vector,
both for at most `TIMEOUT_S`; the next turn continues, and `xscore index` embeds all. A host that fails costs the turn
its similarities and adds a warning, nothing else. Trade-off: the first turns over a large store order by few vectors.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from xscore.extensions.vectors.embedders import LONGEST_TEXT, Embedder
from xscore.pipeline.parts import Likeness, TurnResources
from xscore.platform.errors import BudgetExhausted, ProviderError, UsageError
from xscore.providers.hosts import host_of
from xscore.providers.provider import Provider
from xscore.providers.spec import import_sdk
from xscore.records import DoctorFinding, Turn
from xscore.settings import Settings
from xscore.store.store import Store

TERMS_EMBEDDER, LOCAL_EMBEDDER, ENDPOINT_EMBEDDER = "terms", "minilm", "openai"
TIMEOUT_S = 5.0
"""Longest that a turn waits for vectors of its memories."""
NEAREST = 1_000
"""Memories whose likeness counts; by rank, the others' would hardly."""


def embedder_label(settings: Settings) -> str:
    """Return the embedder in words fit to be shown: without the folder of a local model."""
    kind, model = _parsed(settings)
    return f"{kind}:{model}" if kind == ENDPOINT_EMBEDDER else kind


def make_embedder(settings: Settings, wrap: Callable[[Provider], Provider]) -> Embedder | None:
    """Return the embedder of the settings; None for `terms`. wrap: puts limits, budget and ledger around a host.

    Raises UsageError for what is none or is not there, AuthenticationFailed where a remote host would get no key.
    """
    kind, model = _parsed(settings)
    if kind == LOCAL_EMBEDDER:
        from xscore.extensions.vectors.embedders import LocalEmbedder

        return LocalEmbedder(Path(model).expanduser())
    if kind == ENDPOINT_EMBEDDER:
        from xscore.extensions.vectors.endpoint import EndpointEmbedder, connect

        return EndpointEmbedder(wrap(connect(model, settings)), model)
    return None


async def check_embedder(settings: Settings) -> list[DoctorFinding]:
    """Say for `doctor` which embedder is in use, and whether it can be used; nothing is sent."""
    try:
        return [DoctorFinding("embedder", True, describe_embedder(settings))]
    except (UsageError, ProviderError) as error:
        return [DoctorFinding("embedder", False, error.message, error.hint)]


def describe_embedder(settings: Settings) -> str:
    """Say which embedder is in use, and whether what it needs is there. Raises what `make` raises; nothing is sent."""
    kind, model = _parsed(settings)
    make_embedder(settings, lambda provider: provider)
    if kind == LOCAL_EMBEDDER:
        return f"minilm: the model in {Path(model).expanduser()}, on this machine"
    base_url = settings.embedding.base_url or settings.openai.base_url
    return f"{embedder_label(settings)} at {host_of(base_url)}, which is sent the task and each memory once"


async def turn_likeness(turn: Turn, settings: Settings, *, store: Store, resources: TurnResources) -> Likeness:
    """Return how like the task each memory is. Raises what `make` raises; a host that fails is a remark."""
    embedder = await _opened(settings, resources)
    if embedder is None:
        return Likeness()
    try:
        return Likeness(await _cosines(turn, embedder, store))
    except TimeoutError:
        said = f"{embedder_label(settings)} gave no vector of the task within {TIMEOUT_S:g} s"
        return Likeness(warnings=(f"the order of judging is by words alone: {said}",))
    except (ProviderError, BudgetExhausted) as error:
        return Likeness(warnings=(f"the order of judging is by words alone: {error.message}",))
    finally:
        await embedder.aclose()


async def embed_all(settings: Settings, *, store: Store, resources: TurnResources) -> str:
    """Embed every memory without a vector, however long it takes; say what went wrong. Raises what `make` raises."""
    embedder = await _opened(settings, resources)
    if embedder is None:
        return ""
    from xscore.extensions.vectors.embedders import embed_missing

    try:
        for connection in store.connections_of_a_turn():
            await embed_missing(connection, embedder)
    except (ProviderError, BudgetExhausted) as error:
        return f"some memories have no vector yet: {error.message}"
    finally:
        await embedder.aclose()
    return ""


async def _opened(settings: Settings, resources: TurnResources) -> Embedder | None:
    if _parsed(settings)[0] == ENDPOINT_EMBEDDER:
        await import_sdk(ENDPOINT_EMBEDDER)
    return make_embedder(settings, resources.embedding_provider)


async def _cosines(turn: Turn, embedder: Embedder, store: Store) -> Mapping[str, float]:
    from xscore.extensions.vectors.embedders import embed_missing, read_vectors  # most turns have no embedder

    deadline = asyncio.get_running_loop().time() + TIMEOUT_S
    async with asyncio.timeout_at(deadline):
        query = (await embedder.embed([f"{turn.task}\n{turn.errors}"[:LONGEST_TEXT]]))[0]
    with suppress(TimeoutError):
        async with asyncio.timeout_at(deadline):
            for connection in store.connections_of_a_turn():
                await embed_missing(connection, embedder)
    vectors = read_vectors(store.vectors(embedder.name), dims=len(query))
    return dict(vectors.nearest(query.astype("float32"), NEAREST))


def _parsed(settings: Settings) -> tuple[str, str]:
    kind, _, model = settings.embedding.model.strip().partition(":")
    if (kind == TERMS_EMBEDDER and not model) or (kind in (LOCAL_EMBEDDER, ENDPOINT_EMBEDDER) and model):
        return kind, model
    raise UsageError(
        f"embedding.model is `{settings.embedding.model}`, which names no embedder",
        hint=f"Write {TERMS_EMBEDDER}, {LOCAL_EMBEDDER}:FOLDER or {ENDPOINT_EMBEDDER}:MODEL.",
    )
