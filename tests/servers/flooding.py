"""Servers whose replies are too large or contain bad text, in both dialects.

A flood never ends by itself, or unpacks from 1 MB to 1 GB. It says how much of it was sent, so that
a test can tell who stopped it.
"""

import asyncio
import json
import zlib
from contextlib import suppress
from enum import StrEnum
from typing import Any

from aiohttp import web

from tests.servers.anthropic_server import AnthropicServer
from tests.servers.faults import Fault
from tests.servers.loopback import LoopbackServer
from tests.servers.openai_server import OpenAIServer
from tests.servers.prefix_cache import Tally

MIB = 1 << 20
UNPACKED_BYTES = 1 << 30


class Flood(StrEnum):
    """The kind of flood."""

    SPACES = "spaces without end"
    EVENTS = "a stream of events that say nothing, without end"
    LINE = "a stream of one event without end"
    BOMB = "a gzip of a gigabyte"
    BROTLI = "an encoding that was not requested"
    NO_GZIP = "a gzip that is none"
    GZIP = "the right reply, packed"
    CUT_GZIP = "the first half of the right reply, packed"


PACKED = (Flood.GZIP, Flood.CUT_GZIP)
ENDLESS = {
    Flood.SPACES: ("application/json", b" " * MIB),
    Flood.EVENTS: ("text/event-stream", b'data: {"type": "ping"}\n\n' * 40_000),
    Flood.LINE: ("text/event-stream", b"x" * MIB),
}


def bomb() -> bytes:
    """Return a gzip of a gigabyte of spaces: one flushed block of a mebibyte, many times over."""
    packing = zlib.compressobj(9, wbits=31)
    head = packing.compress(b"") + packing.flush(zlib.Z_FULL_FLUSH)
    block = packing.compress(b" " * MIB) + packing.flush(zlib.Z_FULL_FLUSH)
    return head + block * (UNPACKED_BYTES // MIB)


class Flooding(LoopbackServer):
    """Sends floods, as a mixin for either dialect's server; attributes may change while it runs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.flood: Flood | None = None
        self.flood_status = 200
        self.sent_bytes = 0

    async def _reply(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if self.flood is None:
            return await super()._reply(request, body)
        if self.flood in PACKED:
            response = await super()._reply(request, body)
            assert isinstance(response, web.Response)
            return _packed(response.body, is_cut=self.flood is Flood.CUT_GZIP)
        return await self._flooded(request, self.flood)

    async def _list_models(self, request: web.Request) -> web.StreamResponse:
        assert self.flood is not None
        return await self._flooded(request, self.flood)

    async def _flooded(self, request: web.Request, flood: Flood) -> web.StreamResponse:
        if flood not in ENDLESS:
            encoding, data = {
                Flood.BOMB: ("gzip", bomb()),
                Flood.BROTLI: ("br", b"\x0b\x02\x80{}\x03"),
                Flood.NO_GZIP: ("gzip", b'{"choices": []}'),
            }[flood]
            headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
            return web.Response(body=data, status=self.flood_status, headers=headers)
        content_type, data = ENDLESS[flood]
        response = web.StreamResponse(
            status=self.flood_status, headers={"Content-Type": content_type}
        )
        await response.prepare(request)
        with suppress(ConnectionError):
            while True:
                await response.write(data)
                self.sent_bytes += len(data)
                await asyncio.sleep(0)
        return response


class FloodingOpenAI(Flooding, OpenAIServer):
    """Floods in the OpenAI dialect."""


class FloodingClaude(Flooding, AnthropicServer):
    """Floods in the Anthropic dialect."""


class BadText(LoopbackServer):
    """Puts bad text into its replies, as a mixin for either dialect's server."""

    def __init__(self, *, bad_text: str, **settings: Any) -> None:
        """said: in every answer and every reason."""
        super().__init__(answer=f"The answer: {bad_text}.", reasons_from=0, **settings)
        self.said = bad_text

    def envelope(
        self, body: dict[str, Any], content: str, tally: Tally, fault: Fault | None
    ) -> dict[str, Any]:
        """Return the whole reply, with the text in its reasons and model name too."""
        if content.startswith("{"):
            reply = json.loads(content)
            for reason in reply.get("reasons", ()):
                reason["reason"] = f"because {self.said}"
            content = json.dumps(reply, ensure_ascii=False)
        return super().envelope(body, content, tally, fault) | {"model": f"model {self.said}"}


class BadTextOpenAI(BadText, OpenAIServer):
    """Does so in the OpenAI dialect."""


class BadTextClaude(BadText, AnthropicServer):
    """Does so in the Anthropic dialect."""


def _packed(body: object, *, is_cut: bool) -> web.Response:
    assert isinstance(body, bytes)
    data = zlib.compress(body, wbits=31)
    data = data[: len(data) // 2] if is_cut else data
    return web.Response(
        body=data, content_type="application/json", headers={"Content-Encoding": "gzip"}
    )
