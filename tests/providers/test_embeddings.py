"""An embeddings endpoint of the OpenAI dialect, against a real server on loopback."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.servers.embedding_server import DIMS, EmbeddingServer, letters
from xscore.extensions.vectors.embedders import Embedder
from xscore.extensions.vectors.turn_likeness import make_embedder
from xscore.platform.errors import (
    AuthenticationFailed,
    Overloaded,
    QuotaExhausted,
    RateLimited,
    UnreadableResponse,
)
from xscore.providers.attempts import Metered, Retrying
from xscore.providers.provider import Provider
from xscore.records.calls import CallRecord, Stage
from xscore.settings import EmbeddingSettings, OpenAISettings, Secret, Settings

TEXTS = ["read the file", "write the file", ""]


@pytest.fixture
def embedding_server() -> Iterator[EmbeddingServer]:
    """A server, well-behaved by default."""
    with EmbeddingServer() as running:
        yield running


def settings_of(server: EmbeddingServer, key: str = "") -> Settings:
    """Name the server as the host of embeddings only."""
    return Settings(
        embedding=EmbeddingSettings(model="openai:vectors-1", base_url=server.url),
        openai=OpenAISettings(api_key=Secret(key)),
    )


def embedder_of(settings: Settings) -> Embedder:
    """Make the embedder without wrappers."""
    return make_embedder(settings, lambda provider: provider)


async def test_each_text_has_its_row_of_length_one(embedding_server: EmbeddingServer) -> None:
    """H07: rows come back in the order of the texts, however the host orders them; no dimension is
    fixed."""
    embedder = embedder_of(settings_of(embedding_server))
    vectors = await embedder.embed(TEXTS)
    await embedder.aclose()
    expected = np.array([letters(text) for text in TEXTS])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert vectors.shape == (3, DIMS)
    assert np.allclose(vectors.astype(float), expected, atol=1e-3)
    assert embedding_server.embedded == ["read the file", "write the file", " "]
    assert embedder.name == f"openai:{embedding_server.host}:vectors-1"


async def test_every_attempt_is_entered_and_a_storm_is_ridden_out(
    embedding_server: EmbeddingServer,
) -> None:
    """A 429 and a 503 are retried by the common wrappers; the ledger has each attempt, as
    `embed`."""
    embedding_server.statuses = [429, 503]
    rows: list[CallRecord] = []

    async def at_once(seconds: float) -> None:
        assert seconds >= 0

    def wrap(provider: Provider) -> Provider:
        metered = Metered(provider, turn_id="t", record=rows.append)
        return Retrying(metered, attempts=3, sleep=at_once)

    embedder = make_embedder(settings_of(embedding_server), wrap)
    assert (await embedder.embed(TEXTS)).shape == (3, DIMS)
    await embedder.aclose()
    assert [row.outcome for row in rows] == [RateLimited.kind, Overloaded.kind, "ok"]
    assert {row.stage for row in rows} == {Stage.EMBED}
    assert rows[-1].candidates == 3
    assert rows[-1].usage.input_tokens == 3 + 1 + 4 + 1
    assert not rows[-1].estimated
    assert rows[-1].cost_usd == 0, "it stays on this machine"


async def test_the_format_is_left_out_where_it_is_refused(
    embedding_server: EmbeddingServer,
) -> None:
    """A host that does not know `encoding_format` is asked without it."""
    embedding_server.refuses_format = True
    embedder = embedder_of(settings_of(embedding_server))
    assert (await embedder.embed(TEXTS)).shape == (3, DIMS)
    await embedder.aclose()


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"data": []},
        {"data": [{"index": 0, "embedding": [1.0]}]},
        {"data": [{"index": at, "embedding": [1.0] * (at + 1)} for at in range(3)]},
        {"data": [{"index": at, "embedding": ["x"]} for at in range(3)]},
        {"data": [{"index": at, "embedding": []} for at in range(3)]},
        {"data": [{"index": at, "embedding": [10**400]} for at in range(3)]},
        {"data": [{"index": at, "embedding": [1e30]} for at in range(3)]},
        {"data": [{"index": at, "embedding": [float("nan")]} for at in range(3)]},
        {"data": [{"index": 0, "embedding": [1.0]}] * 3},
    ],
)
async def test_vectors_that_are_none_are_an_error(
    embedding_server: EmbeddingServer, reply: dict[str, object]
) -> None:
    """A wrong number of rows, ragged rows, words and vast numbers are never accepted as vectors."""
    embedding_server.reply = reply
    embedder = embedder_of(settings_of(embedding_server))
    with pytest.raises(UnreadableResponse):
        await embedder.embed(TEXTS)
    await embedder.aclose()


async def test_the_key_is_sent_and_never_shown(embedding_server: EmbeddingServer) -> None:
    """The key of `openai.*` is used for the endpoint; an error that repeats it does not show it."""
    key = "sk-test-abcdefghijklmnop-1234"
    embedding_server.reply = {
        "error": {"message": f"no credit for {key}", "code": "insufficient_quota"}
    }
    embedder = embedder_of(settings_of(embedding_server, key))
    with pytest.raises(QuotaExhausted) as caught:
        await embedder.embed(TEXTS)
    await embedder.aclose()
    assert embedding_server.keys == [f"Bearer {key}"]
    assert key not in str(caught.value)


def test_a_remote_host_without_a_key_is_refused_before_anything_is_sent() -> None:
    """No text is sent to a host that would reject it."""
    with pytest.raises(AuthenticationFailed):
        embedder_of(
            Settings(
                embedding=EmbeddingSettings(
                    model="openai:vectors-1", base_url="https://vectors.example/v1"
                )
            )
        )
