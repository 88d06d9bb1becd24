"""An embeddings endpoint of the OpenAI dialect (`POST /embeddings`) as a Provider, and an embedder on top of one.

As a Provider it goes through the same limits, retries, budget and ledger as every call; the vectors travel as the
completion's text, one float16 row a text in base64. The key is that of `openai.*`, and goes to another host only where
the user named one in `embedding.base_url`. Trade-off: base64 costs some milliseconds a batch.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from xscore.platform import tokens
from xscore.providers.host_facts import make_completion
from xscore.providers.hosts import host_of, usable_key
from xscore.providers.openai import OPENAI, OpenAIDialect, reported_usage
from xscore.providers.provider import Provider
from xscore.providers.wire import WireProvider
from xscore.providers.wire_errors import CallContext
from xscore.records import Capability, Completion, Finish, RateLimits, Request, Stage
from xscore.settings import Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TEXTS_A_CALL = 32
"""Texts of one call; of 4,096 dimensions each the reply weighs 3 MB, within what is read of a short reply."""
TIMEOUT_S = 60.0
EMBEDDINGS_PROFILE = replace(OPENAI, path="/embeddings", setting="embedding.base_url")


def connect(model: str, settings: Settings) -> WireProvider:
    """Return a provider of embeddings; nothing is sent yet.

    Raises UsageError for a malformed base URL or key, AuthenticationFailed where a remote host would get no key.
    """
    base_url = settings.embedding.base_url or settings.openai.base_url
    key = usable_key(settings.openai, host=host_of(base_url, setting=EMBEDDINGS_PROFILE.setting), model=model)
    return WireProvider(EmbeddingsDialect(base_url), base_url=base_url, api_key=key)


class EndpointEmbedder:
    """An embedder behind a provider of embeddings."""

    batch = TEXTS_A_CALL

    def __init__(self, provider: Provider, model: str) -> None:
        self.name = f"{provider.name}:{provider.host}:{model}"
        self._provider = provider
        self._model = model

    async def embed(self, texts: Sequence[str]) -> "NDArray[np.float16]":
        """Return one row for each text. Raises leaves of ProviderError."""
        import numpy as np

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
            timeout_s=TIMEOUT_S,
        )
        found = await self._provider.complete(request)
        return np.frombuffer(base64.b64decode(found.text), dtype="<f2").reshape(len(texts), -1)

    async def aclose(self) -> None:
        """Close the provider."""
        await self._provider.aclose()


class EmbeddingsDialect(OpenAIDialect):
    """The OpenAI dialect's embeddings. A host may cut a text to its context: only the order of judging follows."""

    profile = EMBEDDINGS_PROFILE
    must_read_all = False

    def body(self, request: Request, known: Capability, *, stream: bool) -> dict[str, Any]:
        """Return the JSON body: the texts, to be answered in floats."""
        fields = {"model": request.model, "input": list(request.content), "encoding_format": "float"}
        return {name: value for name, value in fields.items() if name not in known.without}

    def weaker(self, request: Request, known: Capability, refusal: object) -> Capability | None:
        """Leave `encoding_format` out where the host refuses it."""
        if "encoding_format" in known.without or "encoding_format" not in str(refusal):
            return None
        return replace(known, without=(*known.without, "encoding_format"))

    def completion(self, found: Mapping[str, Any], call: CallContext, limits: RateLimits) -> Completion:
        """Return the rows as text; raise the error that the reply carries, or UnreadableResponse."""
        EMBEDDINGS_PROFILE.raise_inner(found.get("error"), call)
        text = base64.b64encode(_rows(found.get("data"), call)).decode("ascii")
        usage = found.get("usage")
        counts = {"completion_tokens": 0, **usage} if isinstance(usage, Mapping) else usage
        name = str(found.get("model") or call.model)
        completion = make_completion(call, "", Finish.STOP, reported_usage(counts), model=name, limits=limits)
        return replace(completion, text=text)

    def reports_cached(self, usage: object) -> bool:
        """Say no: embeddings have no prefix cache."""
        return False


def _rows(data: object, call: CallContext) -> bytes:
    """Return the rows in the order of the texts, each of length 1, as float16."""
    import numpy as np

    found = sorted(filter(_is_row, data), key=lambda row: row["index"]) if isinstance(data, list) else []
    if [row["index"] for row in found] != list(range(len(call.prompt) - 1)):  # the prompt begins with the system text
        raise EMBEDDINGS_PROFILE.unreadable("another number of vectors than of texts", host=call.host, model=call.model)
    try:
        rows = np.array([row["embedding"] for row in found], dtype=np.float32)
    except (TypeError, ValueError):
        rows = np.zeros((0, 0), dtype=np.float32)
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise EMBEDDINGS_PROFILE.unreadable("malformed vectors", host=call.host, model=call.model)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(lengths > 0, lengths, 1)
    return unit.astype("<f2").tobytes()


def _is_row(row: object) -> bool:
    return isinstance(row, Mapping) and type(row.get("index")) is int and isinstance(row.get("embedding"), list)
