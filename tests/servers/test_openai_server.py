"""The loopback server itself is tested, since other tests rely on it."""

from collections.abc import Iterator

import aiohttp
import pytest

from tests.servers import OpenAIServer
from tests.servers.prefix_cache import PrefixCache
from xscore.prompts.judge import PackEntry, PromptOptions, judging_request
from xscore.providers.openai import OpenAIProvider
from xscore.records.calls import Capability

OFFICIAL = OpenAIProvider("https://api.openai.com/v1", "")
UNPROBED = Capability(provider="openai", host="api.openai.com", model="", probed_at=0.0)
ENTRIES = [PackEntry(f"k{n}", "function", "a.py", f"f{n}", f"def f{n}(): {'x' * 600}") for n in range(10)]


def _body(task: str, *, model: str = "judge-2", key: str = "p1") -> dict[str, object]:
    turn = f"<turn>\n{task}\n</turn>"
    request = judging_request(
        ENTRIES, turn, PromptOptions(model=model, max_output_tokens=900, cache_key=key, prefix_ttl_s=1_800)
    )
    return OFFICIAL.fields(request, UNPROBED, stream=False)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A well-behaved server."""
    with OpenAIServer() as running:
        yield running


async def _post(server: OpenAIServer, fields: dict[str, object], key: str = "k") -> int:
    async with aiohttp.ClientSession() as session:
        headers = {"Authorization": f"Bearer {key}"}
        async with session.post(f"{server.url}/chat/completions", json=fields, headers=headers) as response:
            await response.read()
            return response.status


def test_prefixes_are_served_in_steps_from_the_floor() -> None:
    """Below 1,024 tokens nothing is cached; above, the longest seen prefix in whole steps of 128."""
    cache = PrefixCache()

    def ask(prefix_chars: int, tail: str, key: str = "p") -> int:
        content = "x" * prefix_chars + tail
        return cache.account({"messages": [{"role": "user", "content": content}], "prompt_cache_key": key})[1]

    assert ask(4_000, "a") == 0
    assert ask(4_000, "b") == 0
    assert ask(6_000, "a" * 2_000) == 0
    assert ask(6_000, "b" * 2_000) == 1_024 + 3 * 128
    assert ask(6_000, "b" * 2_000, key="elsewhere") == 0
    cache.clear()
    assert ask(6_000, "b" * 2_000) == 0


async def test_marks_are_served_exactly_and_only_they(server: OpenAIServer) -> None:
    """For GPT-5.6 and later a prefix is served up to an earlier mark."""
    await _post(server, _body("one", model="gpt-6-luna"))
    assert (server.counts.cached_tokens, server.counts.written_tokens > 1_024) == (0, True)
    written = server.counts.written_tokens
    await _post(server, _body("two", model="gpt-6-luna"))
    assert (server.counts.cached_tokens, server.counts.written_tokens) == (written, written)
    unmarked: dict[str, object] = {
        "model": "gpt-6-luna",
        "messages": [{"role": "user", "content": "y" * 9_000 + "one"}],
    }
    await _post(server, dict(unmarked))
    await _post(server, unmarked | {"messages": [{"role": "user", "content": "y" * 9_000 + "two"}]})
    assert server.counts.cached_tokens == written


async def test_nothing_but_loopback_can_be_reached() -> None:
    """This suite's network guard also covers the providers' transport."""
    async with aiohttp.ClientSession() as session:
        with pytest.raises(AssertionError, match="tried to reach"):
            await session.get("http://192.0.2.1/", timeout=aiohttp.ClientTimeout(total=2))
