"""The loopback server keeps its own promises, since other tests rest on them."""

import asyncio
from collections.abc import Iterator

import aiohttp
import pytest

from tests.servers import Fault, OpenAIServer, by_words, table
from tests.servers.prefix_cache import PrefixCache
from xscore.prompts.judge import PackEntry, PromptOptions, judging_request
from xscore.providers.openai import OpenAIDialect
from xscore.providers.scripted import ShownMemory
from xscore.records import Capability

OFFICIAL = OpenAIDialect("https://api.openai.com/v1")
UNPROBED = Capability(provider="openai", host="api.openai.com", model="", probed_at=0.0)
ENTRIES = [PackEntry(f"k{n}", "function", "a.py", f"f{n}", f"def f{n}(): {'x' * 600}") for n in range(10)]


def _body(task: str, *, model: str = "judge-2", key: str = "p1") -> dict[str, object]:
    turn = f"<turn>\n{task}\n</turn>"
    request = judging_request(
        ENTRIES, turn, PromptOptions(model=model, max_output_tokens=900, cache_key=key, prefix_ttl_s=1_800)
    )
    return OFFICIAL.body(request, UNPROBED, stream=False)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A server that behaves."""
    with OpenAIServer() as running:
        yield running


async def _post(server: OpenAIServer, fields: dict[str, object], key: str = "k") -> int:
    async with aiohttp.ClientSession() as session:
        headers = {"Authorization": f"Bearer {key}"}
        async with session.post(f"{server.url}/chat/completions", json=fields, headers=headers) as response:
            await response.read()
            return response.status


async def test_judgments_are_counted_by_memory(server: OpenAIServer) -> None:
    """Each memory counts once for each reply that scored it; a reply that never came counts nothing."""
    await _post(server, _body("one"))
    await _post(server, _body("two"))
    server.misbehave(Fault.SERVER_ERROR)
    await _post(server, _body("three"))
    assert set(server.counts.judged_places.values()) == {2}
    assert len(server.counts.judgments) == len(ENTRIES)
    assert server.counts.requests == 3
    assert server.counts.refused_requests == 1


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
    """For GPT-5.6 and later a prefix is served up to a mark that was written before."""
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


async def test_the_rate_is_enforced(server: OpenAIServer) -> None:
    """Beyond its requests a minute the server answers 429 with Retry-After."""
    server.rpm = 2
    statuses = [await _post(server, _body("one")) for _ in range(3)]
    assert statuses == [200, 200, 429]


async def test_the_key_and_the_model_are_checked(server: OpenAIServer) -> None:
    """A wrong key is a 401 and an unlisted model a 404."""
    server.api_key = "right"
    assert await _post(server, _body("one"), key="wrong") == 401
    server.models = ("other",)
    assert await _post(server, _body("one"), key="right") == 404


async def test_faults_strike_those_they_are_meant_for(server: OpenAIServer) -> None:
    """A fault waits for requests that fit, spends itself, and may strike every n-th."""
    server.misbehave(Fault.UNAVAILABLE, when=lambda fields: "two" in str(fields["messages"]))
    assert [await _post(server, _body(task)) for task in ("one", "two", "two")] == [200, 503, 200]
    server.misbehave(Fault.UNAVAILABLE, times=99, every=3)
    assert [await _post(server, _body("one")) for _ in range(6)] == [200, 200, 503] * 2


async def test_the_peak_in_flight_is_seen(server: OpenAIServer) -> None:
    """In flight means between arrival and the last byte."""
    server.latency_s = 0.1
    await asyncio.gather(*(_post(server, _body("one")) for _ in range(5)))
    assert (server.counts.peak_in_flight, server.counts.in_flight) == (5, 0)


async def test_nothing_but_loopback_can_be_reached() -> None:
    """The guard of this suite holds for the transport that the providers use."""
    async with aiohttp.ClientSession() as session:
        with pytest.raises(AssertionError, match="tried to reach"):
            await session.get("http://192.0.2.1/", timeout=aiohttp.ClientTimeout(total=2))


def test_scores_come_from_words_or_a_table() -> None:
    """Shared words raise a score; a table gives what it lists."""
    memory = ShownMemory("k", "function", "a/cache.py", "Store.write", "def write(): commit")
    assert by_words(memory, "where does the store write its cache?")[0] > 70
    assert by_words(memory, "unrelated question")[0] < 10
    assert table({"Store.write": 88})(memory, "") == (88, "listed as Store.write")
    assert table({})(memory, "") == (3, "not listed")
