"""One deadline for a whole call: connecting, sending, asking again for less, and the reply to its last byte."""

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest
from aiohttp import web

from tests.providers.conftest import Connected, MakeRequest
from tests.servers import Fault, OpenAIServer
from xscore.platform.errors import CallTimedOut
from xscore.providers.wire import WireProvider
from xscore.records.calls import Request

DEADLINE_S = 0.4
GRACE_S = 0.5
KEY = "sk-test-0123456789abcdef"


@contextmanager
def listener(*, backlog: int) -> Iterator[str]:
    """Somebody who listens and never answers: `address:port`."""
    with socket.socket() as ear:
        ear.bind(("127.0.0.1", 0))
        ear.listen(backlog)
        yield f"127.0.0.1:{ear.getsockname()[1]}"


@pytest.fixture(autouse=True, scope="module")
def loaded() -> None:
    """Import what the first call imports: that is no part of a call."""
    for name in ("openai", "aiohttp"):
        import_module(name)


async def held_s(provider: WireProvider, request: Request, *, streamed: bool = False) -> float:
    """Return how long a call that must time out was held."""
    started = asyncio.get_running_loop().time()
    with pytest.raises(CallTimedOut, match=f"{request.timeout_s:g} s"):
        await provider.complete(request, (lambda piece: None) if streamed else None)
    return asyncio.get_running_loop().time() - started


@pytest.mark.parametrize(
    ("fault", "streamed"),
    [(Fault.SILENCE, False), (Fault.SILENCE, True), (Fault.DRIP, False)],
    ids=["silence", "silence in a stream", "one byte at a time"],
)
async def test_a_reply_that_does_not_come_is_not_waited_for(
    server: OpenAIServer, judging: MakeRequest, connected: Connected, fault: Fault, streamed: bool
) -> None:
    """Accepted and then silent, or one byte at a time: a call is held no more than half a second too long."""
    server.misbehave(fault)
    async with connected(server.url) as provider:
        held = await held_s(provider, judging(timeout_s=DEADLINE_S), streamed=streamed)
    assert DEADLINE_S <= held < DEADLINE_S + GRACE_S


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_listener_that_never_speaks_is_not_waited_for(
    judging: MakeRequest, connected: Connected, scheme: str
) -> None:
    """A connection that is taken and not answered, a TLS handshake included, counts against the deadline."""
    with listener(backlog=5) as host:
        async with connected(f"{scheme}://{host}/v1", key=KEY) as provider:
            assert await held_s(provider, judging(timeout_s=DEADLINE_S)) < DEADLINE_S + GRACE_S


class SlowToRefuse(OpenAIServer):
    """Refuses one field at a time, and thinks about each."""

    def refusal(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        """Take a while to say no."""
        time.sleep(0.15)
        return super().refusal(request, body)


async def test_asking_for_less_does_not_begin_anew(judging: MakeRequest, connected: Connected) -> None:
    """A host that refuses one field after another is asked again within the one deadline."""
    fields = ("json_schema", "json_object", "temperature", "prompt_cache_key", "max_completion_tokens")
    with SlowToRefuse(refused_fields=fields) as server:
        async with connected(server.url) as provider:
            assert await held_s(provider, judging(timeout_s=DEADLINE_S, temperature=0.0)) < DEADLINE_S + GRACE_S
    assert 2 <= server.counts.requests <= 4
