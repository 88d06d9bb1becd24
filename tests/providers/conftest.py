"""Shared by the provider tests: a loopback server, a judging request, and a clock moved by the
test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from msgspec import Struct

from tests.servers import AnthropicServer, LoopbackServer, OpenAIServer
from xscore.providers.anthropic import connect as connect_claude
from xscore.providers.openai import connect
from xscore.providers.wire import WireProvider
from xscore.records.calls import Request, Stage
from xscore.settings import AnthropicSettings, OpenAISettings, Secret, Settings

MakeRequest = Callable[..., Request]
Connected = Callable[..., AbstractAsyncContextManager[WireProvider]]


@pytest.fixture
def judging() -> MakeRequest:
    """Make a judging request over `n` memories of `chars` characters each."""

    def make(
        *,
        n: int = 3,
        chars: int = 60,
        task: str = "Where is the cache written?",
        **changes: Any,
    ) -> Request:
        ids = tuple(f"k{number}" for number in range(n))
        blocks = [
            f'<memory id="{code}" kind="function" name="entity_{code}">\n'
            + f"body of {code} " * (chars // 11)
            + "\n</memory>"
            for code in ids
        ]
        content = (
            "\n".join(['<file path="src/cache.py">', *blocks, "</file>"]),
            f"<turn>\n{task}\n</turn>",
        )
        size = sum(map(len, content))
        fields: dict[str, Any] = {
            "stage": Stage.JUDGE,
            "model": "judge-2",
            "system": "Score every memory.",
            "content": content,
            "stable_parts": 1,
            "reply_ids": ids,
            "max_output_tokens": 40 * n + 50,
            "input_tokens": size // 4,
            "reserved_input_tokens": size * 2 // 5,
            "cache_key": "pack-1",
            "candidates": n,
            "timeout_s": 5.0,
        }
        return Request(**(fields | changes))

    return make


@pytest.fixture
def connected() -> Connected:
    """Connect to a base URL and close the connection afterwards."""
    return closing(
        lambda url, key: connect(
            "judge-2", Settings(openai=OpenAISettings(base_url=url, api_key=Secret(key)))
        )
    )


@pytest.fixture
def claude_server() -> Iterator[AnthropicServer]:
    """A server of the Anthropic dialect, well-behaved by default."""
    with AnthropicServer() as running:
        yield running


@pytest.fixture
def claude() -> Connected:
    """Connect to a base URL in the Anthropic dialect and close the connection afterwards."""
    return closing(
        lambda url, key: connect_claude(
            "claude-haiku-5-5",
            Settings(anthropic=AnthropicSettings(base_url=url, api_key=Secret(key))),
        )
    )


def closing(connect_to: Callable[[str, str], WireProvider]) -> Connected:
    """Return a connector to a base URL with a key; connections are closed afterwards."""

    @asynccontextmanager
    async def open_(url: str, *, key: str = "") -> AsyncIterator[WireProvider]:
        provider = connect_to(url, key)
        try:
            yield provider
        finally:
            await provider.aclose()

    return open_


class DialectServer(Struct, frozen=True):
    """A server of one dialect, and its connector."""

    name: str
    server: LoopbackServer
    connected: Connected


@pytest.fixture(params=["openai", "anthropic"])
def spoken(
    request: pytest.FixtureRequest, connected: Connected, claude: Connected
) -> Iterator[DialectServer]:
    """Each dialect in turn."""
    is_openai = request.param == "openai"
    with OpenAIServer() if is_openai else AnthropicServer() as running:
        yield DialectServer(request.param, running, connected if is_openai else claude)


class ManualClock:
    """A clock that moves only when someone sleeps on it."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        """Return the time."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Advance the time, and let others run."""
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture
def time_passes() -> ManualClock:
    """A clock for the test."""
    return ManualClock()
