"""Replies without an end and replies that unpack without one, at real hosts of both dialects."""

import resource
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx2
import pytest

from tests.providers.conftest import Connected, MakeRequest
from tests.servers.flooding import ENDLESS, MIB, Flood, Flooding, FloodingClaude, FloodingOpenAI
from xscore.platform.errors import Overloaded, RequestRejected, UnreadableResponse
from xscore.providers.bounded_stream import BodyAllowance, BodyUnreadable, BoundedStream, bound_response
from xscore.providers.transport import (
    BYTES_PER_TOKEN,
    ERROR_BYTES,
    LISTING_BYTES,
    MIN_BYTES,
    STREAMED_BYTES_PER_TOKEN,
    allowed_bytes,
    expecting_tokens,
)
from xscore.providers.wire import WireProvider

At = Callable[..., AbstractAsyncContextManager[tuple[Flooding, WireProvider]]]
DIALECTS = ("openai", "anthropic")
BUFFERED_BYTES = 16 * MIB
"""What may lie in the sockets' buffers when the reader stops."""
GROWTH_BYTES = 128 * MIB
SPOILED = (Flood.BROTLI, Flood.NO_GZIP, Flood.CUT_GZIP)


@pytest.fixture
def at(connected: Connected, claude: Connected) -> At:
    """Connect to a host of this dialect that floods."""

    @asynccontextmanager
    async def open_(dialect: str, flood: Flood, *, status: int = 200) -> AsyncIterator[tuple[Flooding, WireProvider]]:
        host: Flooding = FloodingOpenAI() if dialect == "openai" else FloodingClaude()
        host.flood, host.flood_status = flood, status
        connect = connected if dialect == "openai" else claude
        with host as running:
            async with connect(running.url) as provider:
                yield host, provider

    return open_


def peak_bytes() -> int:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("flood", [*ENDLESS, Flood.BOMB], ids=lambda flood: flood.name)
async def test_a_flood_is_left(at: At, judging: MakeRequest, dialect: str, is_streamed: bool, flood: Flood) -> None:
    """What has no end is an unreadable reply, before its time is up, of which little was read and little is held."""
    before = peak_bytes()
    async with at(dialect, flood) as (host, provider):
        with pytest.raises(UnreadableResponse, match="more than 4,194,304 bytes") as caught:
            await provider.complete(judging(timeout_s=60.0), (lambda piece: None) if is_streamed else None)
    assert caught.value.may_be_charged and caught.value.hint
    assert host.sent_bytes < MIN_BYTES + BUFFERED_BYTES
    assert peak_bytes() - before < GROWTH_BYTES


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("flood", SPOILED, ids=lambda flood: flood.name)
async def test_what_cannot_be_unpacked_is_unreadable(at: At, judging: MakeRequest, dialect: str, flood: Flood) -> None:
    """An encoding that is unknown, wrong or broken off is said, without the body."""
    async with at(dialect, flood) as (_, provider):
        with pytest.raises(UnreadableResponse):
            await provider.complete(judging())


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_packed_reply_is_read_all_the_same(at: At, judging: MakeRequest, dialect: str) -> None:
    """Nothing packed is asked for; a host that packs nevertheless is understood."""
    async with at(dialect, Flood.GZIP) as (host, provider):
        assert '"k0"' in (await provider.complete(judging())).text
    assert "accept-encoding" in host.counts.header_names


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("status", "error"), [(400, RequestRejected), (503, Overloaded)])
@pytest.mark.parametrize("flood", [Flood.SPACES, Flood.BOMB, Flood.BROTLI], ids=lambda flood: flood.name)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
async def test_an_endless_error_is_what_its_status_says(
    at: At, judging: MakeRequest, dialect: str, status: int, error: type[Exception], flood: Flood, is_streamed: bool
) -> None:
    """Of an error, little is read, and what it is does not change."""
    async with at(dialect, flood, status=status) as (host, provider):
        with pytest.raises(error):
            await provider.complete(judging(), (lambda piece: None) if is_streamed else None)
    assert host.sent_bytes < ERROR_BYTES + BUFFERED_BYTES


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("flood", [Flood.SPACES, Flood.BOMB], ids=lambda flood: flood.name)
async def test_an_endless_list_of_models_is_left(at: At, dialect: str, flood: Flood) -> None:
    """A list of models may be long, and not without end."""
    before = peak_bytes()
    async with at(dialect, flood) as (host, provider):
        with pytest.raises(UnreadableResponse, match=f"more than {LISTING_BYTES:,} bytes"):
            await provider.models()
    assert host.sent_bytes < LISTING_BYTES + BUFFERED_BYTES
    assert peak_bytes() - before < 2 * GROWTH_BYTES


def test_a_long_reply_may_weigh_more() -> None:
    """The bound follows from the tokens asked for, and from how they are sent; outside of a call it is a list's."""
    assert allowed_bytes("application/json") == LISTING_BYTES
    with expecting_tokens(1_000_000):
        assert allowed_bytes("application/json") == 1_000_000 * BYTES_PER_TOKEN
        assert allowed_bytes("text/event-stream; charset=utf-8") == 1_000_000 * STREAMED_BYTES_PER_TOKEN
        with expecting_tokens(10):
            assert allowed_bytes("application/json") == allowed_bytes("text/event-stream") == MIN_BYTES
    assert allowed_bytes("application/json") == LISTING_BYTES


def test_an_allowance_is_for_the_whole_body() -> None:
    """It is counted over all pieces, to the byte."""
    allowance = BodyAllowance(6, encoding="")
    assert [*allowance.read(b"abc"), *allowance.read(b"def"), allowance.rest()] == [b"abc", b"def", b""]
    with pytest.raises(BodyUnreadable):
        list(allowance.read(b"g"))


@pytest.mark.parametrize(
    ("headers", "is_bounded"),
    [
        ({"Content-Length": "100"}, False),
        ({"Content-Length": str(LISTING_BYTES + 1)}, True),
        ({"Content-Length": "9" * 5_000}, True),
        ({"Content-Length": "-1"}, True),
        ({"Content-Length": "100", "Transfer-Encoding": "chunked"}, True),
        ({"Content-Length": "100", "Content-Encoding": "gzip"}, True),
        ({}, True),
    ],
)
async def test_only_what_announces_its_end_goes_unwatched(headers: dict[str, str], is_bounded: bool) -> None:
    """A plain body of a length that is allowed is read as it is; every other is counted, and unpacked once."""

    async def nothing() -> AsyncIterator[bytes]:
        yield b""

    response = httpx2.Response(200, headers=headers, content=nothing())
    await bound_response(response, allowed=allowed_bytes)
    assert isinstance(response.stream, BoundedStream) is is_bounded
    assert "content-encoding" not in response.headers
