"""A loopback server of the Anthropic dialect; everything else is in `loopback`.

It wants `anthropic-version`, refuses sampling parameters and numeric bounds in an output schema with 400, and accounts
marked prefixes as the vendor does (`anthropic_cache`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from aiohttp import web

from tests.servers import anthropic_streaming
from tests.servers.anthropic_cache import Accounted, MarkedPrefixes, prompt_text
from tests.servers.faults import Fault
from tests.servers.judging import asked_ids
from tests.servers.loopback import LoopbackServer, Tally
from tests.servers.prefix_cache import tokens

SAMPLING = ("temperature", "top_p", "top_k")
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength")
TYPE_BY_STATUS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class AnthropicServer(LoopbackServer):
    """One server; attributes may change while it runs."""

    base_path = ""
    completions_path = "/v1/messages"
    models_path = "/v1/models"
    status_faults: ClassVar[dict[Fault, tuple[int, str, str | None]]] = {
        Fault.RATE_LIMITED: (429, "This request would exceed your rate limit.", None),
        Fault.QUOTA: (402, "Your credit balance is too low.", None),
        Fault.SPEND_LIMIT: (429, "You have reached your API usage limits.", "enforced_spend_limit_reached"),
        Fault.PAYMENT: (402, "Payment required.", None),
        Fault.SERVER_ERROR: (500, "Internal server error.", None),
        Fault.UNAVAILABLE: (503, "Service unavailable.", None),
        Fault.OVERLOADED: (529, "Overloaded.", None),
        Fault.WRONG_KEY: (401, "invalid x-api-key: {key}", None),
        Fault.UNKNOWN_MODEL: (404, "model: not found", None),
        Fault.TOO_LONG: (413, "Request exceeds the maximum size.", None),
    }

    def __init__(self, *, refused_fields: tuple[str, ...] = (), **settings: Any) -> None:
        super().__init__(**settings)
        self.refused_fields = refused_fields
        self.prefixes = MarkedPrefixes()
        self._accounted = Accounted(0, 0, 0, 0)

    def prompt(self, body: dict[str, Any]) -> str:
        """Return the text of the user's messages."""
        return prompt_text(body)

    def asked(self, body: dict[str, Any], prompt: str) -> tuple[str, ...]:
        """Return the ids of the output schema, or those in the prompt."""
        form = body.get("output_config", {}).get("format")
        return asked_ids(form["schema"] if form else None, prompt)

    def problem(self, status: int, message: str, code: str | None, *, param: str | None = None) -> web.Response:
        """Return an error object of a type, with its code in the details."""
        error: dict[str, Any] = {"type": TYPE_BY_STATUS.get(status, "api_error"), "message": message}
        if code is not None:
            error["details"] = {"error_code": code}
        return web.json_response({"type": "error", "error": error, "request_id": "req_loopback"}, status=status)

    def problem_within(self) -> dict[str, Any]:
        """Return the body of an `error` event."""
        return {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

    def refusal(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        """Refuse what the API refuses: no version, sampling parameters, numeric bounds in a schema, no output cap."""
        if "anthropic-version" not in request.headers:
            return self.problem(400, "anthropic-version: header is required", None)
        for name in SAMPLING:
            if name in body:
                return self.problem(400, f"{name}: Extra inputs are not permitted", None)
        if not isinstance(body.get("max_tokens"), int):
            return self.problem(400, "max_tokens: Field required", None)
        for name in self.refused_fields:
            if name in body:
                return self.problem(400, f"{name}: Extra inputs are not permitted", None)
        schema = body.get("output_config", {}).get("format", {}).get("schema", {})
        bound = next((name for name in _keys(schema) if name in BOUNDS), None)
        if bound is not None:
            return self.problem(400, f"output_config.format.schema: property '{bound}' is not supported", None)
        return None

    def account(self, body: dict[str, Any]) -> Tally:
        """Count by the vendor's rules for marked prefixes."""
        self._accounted = self.prefixes.account(body)
        return Tally(self._accounted.given, self._accounted.read, self._accounted.written)

    def envelope(self, body: dict[str, Any], content: str, tally: Tally, fault: Fault | None) -> dict[str, Any]:
        """Return a message."""
        text, reason = content, "end_turn"
        if fault in (Fault.REFUSAL, Fault.MODERATED):
            text, reason = "", "refusal"
        elif fault is Fault.TRUNCATION:
            text, reason = content[: len(content) // 2], "max_tokens"
        elif tokens(content) > body["max_tokens"]:
            text, reason = content[: body["max_tokens"] * 4], "max_tokens"
        given = (
            {Fault.CUT_PROMPT: tally.given // 10, Fault.VAST_USAGE: 10**12}.get(fault, tally.given)
            if fault
            else tally.given
        )
        written_1h = self._accounted.written_1h
        usage = {
            "input_tokens": max(0, given - tally.cached - tally.written),
            "cache_read_input_tokens": tally.cached,
            "cache_creation_input_tokens": tally.written,
            "cache_creation": {
                "ephemeral_5m_input_tokens": tally.written - written_1h,
                "ephemeral_1h_input_tokens": written_1h,
            },
            "output_tokens": tokens(text),
            "output_tokens_details": {"thinking_tokens": 0},
        }
        reply = {
            "id": "msg_loopback",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [{"type": "text", "text": text}] if text else [],
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": usage,
        }
        if fault is Fault.NO_USAGE:
            del reply["usage"]
        return reply

    def stated_limits(self) -> dict[str, str]:
        """Return the vendor's header."""
        return {"anthropic-ratelimit-requests-limit": str(self.rpm)} if self.rpm is not None else {}

    async def stream(
        self, request: web.Request, body: dict[str, Any], reply: dict[str, Any], fault: Fault | None
    ) -> web.StreamResponse:
        """Stream it event by event."""
        error = self.problem_within() if fault is Fault.ERROR_IN_STREAM else None
        is_cut = error is not None or fault is Fault.CUT
        return await anthropic_streaming.stream(request, reply, headers=self.rate_headers(), is_cut=is_cut, error=error)


def _keys(schema: object) -> Iterator[str]:
    """Walk the keywords of a schema; names of properties are no keywords."""
    if isinstance(schema, Mapping):
        for name, inner in schema.items():
            yield str(name)
            parts = inner.values() if name == "properties" else (inner,)
            for part in parts:
                yield from _keys(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _keys(part)
