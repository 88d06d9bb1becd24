"""Endless replies and replies that unpack endlessly, at real hosts.

Both dialects share the reader.
"""

import resource

import pytest

from tests.providers.conftest import Connected, MakeRequest
from tests.servers.flooding import ENDLESS, MIB, Flood, FloodingClaude, FloodingOpenAI
from xscore.platform.errors import Overloaded, RequestRejected, UnreadableResponse
from xscore.providers.reply_bounds import (
    ERROR_BYTES,
    LISTING_BYTES,
    MIN_BYTES,
    allowed_bytes,
    expecting_tokens,
)

BUFFERED_BYTES = 64 * MIB
"""What a host may have sent beyond what was read: the buffers of two sockets on a busy machine."""
"""What may be in socket buffers when the reader stops."""
GROWTH_BYTES = 128 * MIB


def peak_bytes() -> int:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


@pytest.mark.parametrize(
    ("dialect", "is_streamed", "flood"),
    [
        ("openai", False, Flood.SPACES),
        ("openai", False, Flood.BOMB),
        *(("openai", True, flood) for flood in ENDLESS),
        ("anthropic", True, Flood.EVENTS),
    ],
)
async def test_a_flood_is_left(
    connected: Connected,
    claude: Connected,
    judging: MakeRequest,
    dialect: str,
    is_streamed: bool,
    flood: Flood,
) -> None:
    """An endless reply is unreadable before its deadline, with little read and little held."""
    before = peak_bytes()
    with FloodingOpenAI() if dialect == "openai" else FloodingClaude() as host:
        host.flood = flood
        async with (connected if dialect == "openai" else claude)(host.url) as provider:
            with pytest.raises(UnreadableResponse, match="more than 4,194,304 bytes") as caught:
                await provider.complete(
                    judging(timeout_s=60.0), (lambda piece: None) if is_streamed else None
                )
    assert caught.value.may_be_charged and caught.value.hint
    assert host.sent_bytes < MIN_BYTES + BUFFERED_BYTES
    assert peak_bytes() - before < GROWTH_BYTES


@pytest.mark.parametrize(
    "flood", [Flood.BROTLI, Flood.NO_GZIP, Flood.CUT_GZIP], ids=lambda flood: flood.name
)
async def test_what_cannot_be_unpacked_is_unreadable(
    connected: Connected, judging: MakeRequest, flood: Flood
) -> None:
    """An unknown, wrong or truncated encoding is reported without the body; a valid gzip is
    read."""
    with FloodingOpenAI() as host:
        async with connected(host.url) as provider:
            host.flood = flood
            with pytest.raises(UnreadableResponse):
                await provider.complete(judging())
            host.flood = Flood.GZIP
            assert '"k0"' in (await provider.complete(judging())).text


@pytest.mark.parametrize(
    ("status", "error", "flood", "is_streamed"),
    [(400, RequestRejected, Flood.SPACES, False), (503, Overloaded, Flood.BOMB, True)],
)
async def test_an_endless_error_is_what_its_status_says(
    connected: Connected,
    judging: MakeRequest,
    status: int,
    error: type[Exception],
    flood: Flood,
    is_streamed: bool,
) -> None:
    """Little of an error is read, and its type does not change."""
    with FloodingOpenAI() as host:
        host.flood, host.flood_status = flood, status
        async with connected(host.url) as provider:
            with pytest.raises(error):
                await provider.complete(
                    judging(), (lambda piece: None) if is_streamed else None
                )
    assert host.sent_bytes < ERROR_BYTES + BUFFERED_BYTES


async def test_an_endless_list_of_models_is_left(
    connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of models may be long but not endless."""
    # It is its length that ends it, however slow the machine is.
    monkeypatch.setattr("xscore.providers.connection.LOOK_UP_TIMEOUT_S", 100.0)
    with FloodingOpenAI() as host:
        host.flood = Flood.SPACES
        async with connected(host.url) as provider:
            with pytest.raises(UnreadableResponse, match=f"more than {LISTING_BYTES:,} bytes"):
                await provider.models()
    assert host.sent_bytes < LISTING_BYTES + BUFFERED_BYTES


def test_a_long_reply_may_weigh_more() -> None:
    """The bound follows from the requested tokens and their encoding; outside a call it is that of
    a list."""
    with expecting_tokens(1_000_000):
        of_whole_reply = allowed_bytes("application/json")
        assert MIN_BYTES < of_whole_reply < allowed_bytes("Text/Event-Stream; charset=utf-8")
        with expecting_tokens(10):
            assert (
                allowed_bytes("application/json")
                == allowed_bytes("Text/Event-Stream")
                == MIN_BYTES
            )
        assert allowed_bytes("application/json") == of_whole_reply
    assert allowed_bytes("application/json") == LISTING_BYTES
