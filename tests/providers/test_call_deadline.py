"""One deadline for a whole call: connecting, sending, repeating with fewer fields, and the whole
reply."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiohttp import web

from tests.providers.conftest import Connected, MakeRequest
from tests.servers import OpenAIServer
from xscore.platform.errors import CallTimedOut

DEADLINE_S = 0.6
KEY = "sk-test-0123456789abcdef"


@contextmanager
def listener(*, backlog: int) -> Iterator[str]:
    """A socket that accepts and never answers: `address:port`."""
    with socket.socket() as ear:
        ear.bind(("127.0.0.1", 0))
        ear.listen(backlog)
        yield f"127.0.0.1:{ear.getsockname()[1]}"


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_listener_that_never_speaks_is_not_waited_for(
    judging: MakeRequest, connected: Connected, scheme: str
) -> None:
    """An accepted but unanswered connection, TLS handshake included, counts against the
    deadline."""
    with listener(backlog=5) as host:
        async with connected(f"{scheme}://{host}/v1", key=KEY) as provider:
            with pytest.raises(CallTimedOut, match=f"{DEADLINE_S:g} s"):
                await provider.complete(judging(timeout_s=DEADLINE_S))


class SlowToRefuse(OpenAIServer):
    """Refuses one field at a time, slowly."""

    def refusal(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        """Refuse after a delay."""
        time.sleep(0.15)
        return super().refusal(request, body)


async def test_asking_for_less_does_not_begin_anew(
    judging: MakeRequest, connected: Connected
) -> None:
    """A host that refuses one field after another is retried within the one deadline."""
    fields = (
        "json_schema",
        "json_object",
        "temperature",
        "prompt_cache_key",
        "max_completion_tokens",
    )
    with SlowToRefuse(refused_fields=fields) as server:
        async with connected(server.url) as provider:
            with pytest.raises(CallTimedOut, match=f"{DEADLINE_S:g} s"):
                await provider.complete(judging(timeout_s=DEADLINE_S, temperature=0.0))
    assert server.counts.requests < len(fields)
