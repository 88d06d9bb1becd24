"""A server that claims compatibility and lacks it, as local servers often do.

It may answer prose where a form of reply is asked for, cut a prompt in silence to its context,
think at length, and tell at paths of its own what it has loaded.
"""

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from msgspec.structs import replace

from tests.servers.faults import Fault
from tests.servers.openai_server import OpenAIServer
from tests.servers.prefix_cache import Tally

PROSE = "The first one looks rather relevant to me, the second one much less so."


class LimitedServer(OpenAIServer):
    """One server; attributes may change while it runs."""

    def __init__(
        self,
        *,
        prose_under: tuple[str, ...] = (),
        num_ctx: int | None = None,
        thinks_tokens: int = 0,
        entry: Mapping[str, Any] | None = None,
        context_fields: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.prose_under = prose_under
        """Reply formats that it ignores: `json_schema`, `json_object`, `text` for none."""
        self.num_ctx = num_ctx
        self.thinks_tokens = thinks_tokens
        self.entry = entry or {}
        """The extra fields of each entry in its model list."""
        self.told = context_fields or {}
        """Path -> its answer there."""

    def envelope(
        self, body: dict[str, Any], content: str, tally: Tally, fault: Fault | None
    ) -> dict[str, Any]:
        """Return a chat completion as this server makes it."""
        if form_of(body) in self.prose_under:
            content = PROSE
        if self.num_ctx is not None:
            tally = replace(tally, input_tokens=min(tally.input_tokens, self.num_ctx))
        reply = super().envelope(body, content, tally, fault)
        reply["usage"]["completion_tokens"] += self.thinks_tokens
        reply["usage"]["completion_tokens_details"]["reasoning_tokens"] = self.thinks_tokens
        return reply

    def listing(self) -> list[dict[str, Any]]:
        """Return the model names with their extra fields."""
        return [{**entry, **self.entry} for entry in super().listing()]

    def add_routes(self, app: web.Application) -> None:
        """Serve the test's paths; others are not found."""
        app.router.add_get("/{path:.*}", self._tell)

    async def _tell(self, request: web.Request) -> web.Response:
        if request.path not in self.told:
            return web.json_response(
                {"error": {"message": "File Not Found", "code": 404}}, status=404
            )
        return web.json_response(self.told[request.path])


def form_of(body: Mapping[str, Any]) -> str:
    """Return the reply format that a request asks for."""
    return str(body.get("response_format", {}).get("type", "text"))


def texts(bodies: list[dict[str, Any]]) -> str:
    """Return everything that was sent, for searching."""
    return json.dumps(bodies)
