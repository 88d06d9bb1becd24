"""The Anthropic dialect against a real server on loopback."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.providers.conftest import Connected, MakeRequest
from tests.servers import AnthropicServer
from xscore.platform.errors import RequestRejected
from xscore.providers.anthropic import LONGEST_UNSTREAMED_TOKENS, connect
from xscore.providers.provider import Adaptable
from xscore.records.calls import Capability, RateLimits, ReplyForm, Request
from xscore.settings import AnthropicSettings, Secret, Settings

HAIKU = "claude-haiku-5-5"


@pytest.fixture
def asking(judging: MakeRequest) -> MakeRequest:
    """Make a judging request for a small Claude, whose pack is cached for five minutes."""

    def make(**changes: Any) -> Request:
        return judging(**({"model": HAIKU, "prefix_ttl_s": 300} | changes))

    return make


async def test_a_long_answer_is_streamed_although_nobody_watches(
    claude_server: AnthropicServer, asking: MakeRequest, claude: Connected
) -> None:
    """Above the length from which the vendor requires streaming, the call streams and returns the
    whole."""
    async with claude(claude_server.url) as provider:
        for cap in (LONGEST_UNSTREAMED_TOKENS, LONGEST_UNSTREAMED_TOKENS + 1):
            completion = await provider.complete(
                asking(reply_ids=(), content=("Go.",), max_output_tokens=cap)
            )
            assert completion.text == claude_server.answer
    assert [body.get("stream", False) for body in claude_server.counts.bodies] == [False, True]


@pytest.mark.parametrize(
    ("ttl_s", "written_1h"), [(300, False), (3_600, True)], ids=["5m", "1h"]
)
async def test_a_marked_pack_is_written_once_and_then_read(
    claude_server: AnthropicServer,
    asking: MakeRequest,
    claude: Connected,
    ttl_s: int,
    written_1h: bool,
) -> None:
    """The pack's end is marked; the turn after it is never written, and an hour's cache is counted
    separately."""
    async with claude(claude_server.url) as provider:
        cold = await provider.complete(asking(chars=3_000, prefix_ttl_s=ttl_s))
        warm = await provider.complete(
            asking(chars=3_000, prefix_ttl_s=ttl_s, task="Another task")
        )
        claude_server.prefixes.passes(ttl_s + 1)
        late = await provider.complete(asking(chars=3_000, prefix_ttl_s=ttl_s, task="A third"))
    assert (
        cold.usage.cache_write_tokens
        == warm.usage.cached_input_tokens
        == late.usage.cache_write_tokens
        > 512
    )
    assert cold.usage.cache_write_1h_tokens == (
        cold.usage.cache_write_tokens if written_1h else 0
    )
    assert warm.usage.cache_write_tokens == late.usage.cached_input_tokens == 0
    assert cold.usage.cached_input_tokens == 0
    assert claude_server.counts.prompt_tokens == sum(
        done.usage.input_tokens for done in (cold, warm, late)
    )


async def test_limits_are_read_from_headers(
    claude_server: AnthropicServer, asking: MakeRequest, claude: Connected
) -> None:
    """The host's stated limits reach the caller, streamed or not; invalid ones are ignored."""
    claude_server.headers = {
        "anthropic-ratelimit-requests-limit": "4000",
        "anthropic-ratelimit-tokens-limit": "lots",
        "anthropic-ratelimit-input-tokens-limit": "400000",
        "anthropic-ratelimit-output-tokens-limit": "80000",
    }
    async with claude(claude_server.url) as provider:
        for on_text in (None, lambda piece: None):
            completion = await provider.complete(asking(), on_text)
            assert completion.limits == RateLimits(4_000, None, 400_000, 80_000)


async def test_a_lesser_host_is_asked_without_the_schema(
    claude_server: AnthropicServer, asking: MakeRequest, claude: Connected
) -> None:
    """A compatible host that refuses the schema gets none from then on; the effort is never
    dropped."""
    claude_server.refused_fields = ("output_config",)
    async with claude(claude_server.url) as provider:
        assert isinstance(provider, Adaptable) and not provider.is_vendors_own
        done = [
            await provider.complete(asking(), on_text) for on_text in (None, lambda piece: None)
        ]
        assert provider.learned(HAIKU).reply_form is ReplyForm.TEXT
        with pytest.raises(RequestRejected, match="output_config"):
            await provider.complete(asking(reasoning="low"))
    assert all(
        set(json.loads(completion.text)["scores"]) == {"k0", "k1", "k2"} for completion in done
    )
    assert claude_server.counts.refused_requests == 2


async def test_what_is_known_of_a_host_is_where_it_starts(
    claude_server: AnthropicServer, asking: MakeRequest, claude: Connected
) -> None:
    """A remembered format is used at once, and what replies show is added."""
    claude_server.headers = {"anthropic-ratelimit-requests-limit": "50"}
    capability = Capability(
        provider="anthropic",
        host=claude_server.host,
        model=HAIKU,
        probed_at=5.0,
        reply_form=ReplyForm.TEXT,
    )
    async with claude(claude_server.url) as provider:
        provider.adopt(capability)
        await provider.complete(asking())
        learned = provider.learned(HAIKU)
        assert await provider.context_tokens(HAIKU) is None
    assert "output_config" not in claude_server.counts.bodies[0]
    assert learned == replace(capability, reports_cached_tokens=True, limits=RateLimits(50))
    assert connect(
        HAIKU, Settings(anthropic=AnthropicSettings(api_key=Secret("k")))
    ).is_vendors_own


async def test_a_base_url_with_the_version_in_it_is_told_apart(
    claude_server: AnthropicServer, asking: MakeRequest, claude: Connected
) -> None:
    """A base URL with /v1, as for the other dialect, gets a hint about where it must end."""
    async with claude(f"{claude_server.url}/v1") as provider:
        with pytest.raises(Exception, match="404") as caught:
            await provider.complete(asking())
    assert not isinstance(caught.value, RequestRejected)
    assert "anthropic.base_url ends where /v1/messages begins" in str(
        getattr(caught.value, "hint", "")
    )
