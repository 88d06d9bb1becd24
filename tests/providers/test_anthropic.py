"""The Anthropic dialect against a real server on loopback."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.providers.conftest import Connected, MakeRequest
from tests.servers import AnthropicServer, Fault
from xscore.platform.errors import AuthenticationFailed, CallTimedOut, RequestRejected, UsageError
from xscore.providers.anthropic import LONGEST_UNSTREAMED_TOKENS, connect
from xscore.providers.provider import Adaptable
from xscore.records import Capability, RateLimits, ReplyForm, Request
from xscore.settings import AnthropicSettings, Secret, Settings

HAIKU = "claude-haiku-5-5"


@pytest.fixture
def asking(judging: MakeRequest) -> MakeRequest:
    """Make a judging request for a small Claude, whose pack is kept for five minutes."""

    def make(**changes: Any) -> Request:
        return judging(**({"model": HAIKU, "prefix_ttl_s": 300} | changes))

    return make


async def test_a_long_answer_is_streamed_although_nobody_watches(
    claude_server: AnthropicServer, asking: MakeRequest, claude: Connected
) -> None:
    """Above the length that the vendor wants streamed, the call streams and gives back the whole."""
    async with claude(claude_server.url) as provider:
        for cap in (LONGEST_UNSTREAMED_TOKENS, LONGEST_UNSTREAMED_TOKENS + 1):
            completion = await provider.complete(asking(reply_ids=(), content=("Go.",), max_output_tokens=cap))
            assert completion.text == claude_server.answer
    assert [body.get("stream", False) for body in claude_server.counts.bodies] == [False, True]


@pytest.mark.parametrize(("ttl_s", "written_1h"), [(300, False), (3_600, True)], ids=["5m", "1h"])
async def test_a_marked_pack_is_written_once_and_then_read(
    claude_server: AnthropicServer, asking: MakeRequest, claude: Connected, ttl_s: int, written_1h: bool
) -> None:
    """The pack's end is marked; the turn after it is never written, and what is kept for an hour is told apart."""
    async with claude(claude_server.url) as provider:
        cold = await provider.complete(asking(chars=3_000, prefix_ttl_s=ttl_s))
        warm = await provider.complete(asking(chars=3_000, prefix_ttl_s=ttl_s, task="Another task"))
        claude_server.prefixes.passes(ttl_s + 1)
        late = await provider.complete(asking(chars=3_000, prefix_ttl_s=ttl_s, task="A third"))
    assert cold.usage.cache_write_tokens == warm.usage.cached_input_tokens == late.usage.cache_write_tokens > 512
    assert cold.usage.cache_write_1h_tokens == (cold.usage.cache_write_tokens if written_1h else 0)
    assert warm.usage.cache_write_tokens == late.usage.cached_input_tokens == 0
    assert cold.usage.cached_input_tokens == 0
    assert claude_server.counts.prompt_tokens == sum(done.usage.input_tokens for done in (cold, warm, late))


@pytest.mark.parametrize("changes", [{"prefix_ttl_s": 0}, {"stable_parts": 0}], ids=["not asked", "throwaway"])
async def test_nothing_is_written_unless_it_pays(
    claude_server: AnthropicServer, asking: MakeRequest, claude: Connected, changes: dict[str, int]
) -> None:
    """A request that does not ask for it, and one without stable parts, write nothing."""
    async with claude(claude_server.url) as provider:
        for _ in range(2):
            await provider.complete(asking(chars=3_000, **changes))
    assert claude_server.counts.cached_tokens == claude_server.counts.written_tokens == 0


async def test_below_the_floor_nothing_is_kept(
    claude_server: AnthropicServer, asking: MakeRequest, claude: Connected
) -> None:
    """A prefix shorter than the model's floor is neither written nor read."""
    async with claude(claude_server.url) as provider:
        for _ in range(2):
            await provider.complete(asking(model="claude-haiku-4-5", chars=3_000))
    assert claude_server.counts.written_tokens == 0


async def test_a_dripping_reply_meets_the_deadline(
    claude_server: AnthropicServer, asking: MakeRequest, claude: Connected
) -> None:
    """The deadline is for the whole reply: one byte at a time does not hold a call."""
    claude_server.misbehave(Fault.DRIP)
    started = asyncio.get_running_loop().time()
    async with claude(claude_server.url) as provider:
        with pytest.raises(CallTimedOut, match=r"0\.3 s"):
            await provider.complete(asking(timeout_s=0.3))
    assert asyncio.get_running_loop().time() - started < 2


async def test_a_temperature_never_leaves(
    claude_server: AnthropicServer, asking: MakeRequest, claude: Connected
) -> None:
    """The API has no temperature and answers 400 to one; a request that carries one is sent without it."""
    async with claude(claude_server.url) as provider:
        await provider.complete(asking(temperature=0.0))
    assert "temperature" not in claude_server.counts.bodies[0]


async def test_the_server_refuses_what_the_api_refuses(claude_server: AnthropicServer) -> None:
    """The test's own server answers 400 to sampling parameters, to numeric bounds and to a missing version."""
    import aiohttp

    good: dict[str, Any] = {"model": HAIKU, "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
    bounded = {"type": "object", "properties": {"minimum": {"type": "integer", "minimum": 0}}}
    statuses = []
    async with aiohttp.ClientSession() as session:
        for change, headers in (
            ({}, {"anthropic-version": "2026-10-21"}),
            ({}, {}),
            ({"temperature": 0}, {"anthropic-version": "2026-10-21"}),
            ({"output_config": {"format": {"schema": bounded}}}, {"anthropic-version": "2026-10-21"}),
        ):
            async with session.post(
                f"{claude_server.url}/v1/messages", json=good | change, headers=headers
            ) as response:
                statuses.append(response.status)
    assert statuses == [200, 400, 400, 400]


async def test_limits_are_read_from_headers(
    claude_server: AnthropicServer, asking: MakeRequest, claude: Connected
) -> None:
    """What the host states of its limits reaches the caller, streamed or not; nonsense counts as silence."""
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


async def test_a_key_goes_to_the_host_and_a_dummy_to_loopback(
    claude_server: AnthropicServer, asking: MakeRequest, claude: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of the settings is sent and no other; a local server without one gets a dummy."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-the-environment")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-of-the-environment")
    async with claude(claude_server.url, key="sk-ant-test-1234567890") as provider:
        await provider.complete(asking())
    async with claude(claude_server.url) as provider:
        await provider.complete(asking())
    assert claude_server.counts.keys == {"sk-ant-test-1234567890", "none"}


def test_a_remote_host_needs_a_key() -> None:
    """Without a key nothing is sent to another machine; the hint names the variable."""
    with pytest.raises(AuthenticationFailed, match=r"no key for api\.anthropic\.com") as caught:
        connect(HAIKU, Settings())
    assert "ANTHROPIC_API_KEY" in caught.value.hint


@pytest.mark.parametrize("url", ["api.anthropic.com", "ftp://host", "http://user:secret@host", "http://h:x"])
def test_a_base_url_that_is_none_is_a_usage_error(url: str) -> None:
    """A base URL that is none is refused by the name of its own setting, without repeating it."""
    with pytest.raises(UsageError, match=r"anthropic\.base_url") as caught:
        connect("m", Settings(anthropic=AnthropicSettings(base_url=url)))
    assert "secret" not in str(caught.value)


async def test_the_host_lists_its_models(claude_server: AnthropicServer, claude: Connected) -> None:
    """`doctor` can see which models a host serves."""
    claude_server.models = (HAIKU, "claude-opus-5-5")
    async with claude(claude_server.url) as provider:
        assert await provider.models() == (HAIKU, "claude-opus-5-5")


async def test_a_lesser_host_is_asked_without_the_schema(
    claude_server: AnthropicServer, asking: MakeRequest, claude: Connected
) -> None:
    """A compatible host that refuses the schema is asked without it, from then on; the effort is never dropped."""
    claude_server.refused_fields = ("output_config",)
    async with claude(claude_server.url) as provider:
        assert isinstance(provider, Adaptable) and not provider.is_vendors_own
        done = [await provider.complete(asking(), on_text) for on_text in (None, lambda piece: None)]
        assert provider.learned(HAIKU).reply_form is ReplyForm.TEXT
        with pytest.raises(RequestRejected, match="output_config"):
            await provider.complete(asking(reasoning="low"))
    assert all(set(json.loads(one.text)["scores"]) == {"k0", "k1", "k2"} for one in done)
    assert claude_server.counts.refused_requests == 2


async def test_what_is_known_of_a_host_is_where_it_starts(
    claude_server: AnthropicServer, asking: MakeRequest, claude: Connected
) -> None:
    """A remembered form is asked at once, and what replies show is added to what is known."""
    claude_server.headers = {"anthropic-ratelimit-requests-limit": "50"}
    known = Capability(
        provider="anthropic", host=claude_server.host, model=HAIKU, probed_at=5.0, reply_form=ReplyForm.TEXT
    )
    async with claude(claude_server.url) as provider:
        provider.adopt(known)
        await provider.complete(asking())
        learned = provider.learned(HAIKU)
        assert await provider.context_tokens(HAIKU) is None
    assert "output_config" not in claude_server.counts.bodies[0]
    assert learned == replace(known, reports_cached_tokens=True, limits=RateLimits(50))
    assert connect(HAIKU, Settings(anthropic=AnthropicSettings(api_key=Secret("k")))).is_vendors_own


async def test_a_base_url_with_the_version_in_it_is_told_apart(
    claude_server: AnthropicServer, asking: MakeRequest, claude: Connected
) -> None:
    """Whoever writes /v1 as for the other dialect learns where the URL must end."""
    async with claude(f"{claude_server.url}/v1") as provider:
        with pytest.raises(Exception, match="404") as caught:
            await provider.complete(asking())
    assert not isinstance(caught.value, RequestRejected)
    assert "anthropic.base_url ends where /v1/messages begins" in str(getattr(caught.value, "hint", ""))


def test_connecting_loads_no_sdk(tmp_path: Path) -> None:
    """Building a provider imports none of the heavy modules; only a call does."""
    program = (
        "import sys\n"
        "from xscore.providers import spec\n"
        "from xscore.settings import AnthropicSettings, Settings\n"
        "settings = Settings(anthropic=AnthropicSettings(base_url='http://127.0.0.1:9'))\n"
        "provider = spec.connect_provider(spec.parse_model_spec('anthropic:m'), settings)\n"
        "print(sorted({'anthropic', 'aiohttp', 'httpx2', 'openai'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"
