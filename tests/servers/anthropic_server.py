"""A loopback server of the Anthropic dialect; everything else is in `loopback`.

It wants `anthropic-version`, refuses sampling parameters and numeric bounds in an output schema
with 400, and accounts marked prefixes as the vendor does (`anthropic_cache`).
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from aiohttp import web

from tests.servers.anthropic_cache import MarkedPrefixes, prompt_text
from tests.servers.faults import Fault
from tests.servers.judging import asked_ids
from tests.servers.loopback import BROKEN_STREAMS, LoopbackServer, pieces
from tests.servers.prefix_cache import Tally, tokens

SAMPLING = ("temperature", "top_p", "top_k")
BOUNDS = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
)
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
    rate_header = "anthropic-ratelimit-requests-limit"
    error_in_200: ClassVar[dict[str, Any]] = {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
    }
    status_faults: ClassVar[dict[Fault, tuple[int, str, str | None]]] = {
        Fault.RATE_LIMITED: (429, "This request would exceed your rate limit.", None),
        Fault.QUOTA: (402, "Your credit balance is too low.", None),
        Fault.SPEND_LIMIT: (
            429,
            "You have reached your API usage limits.",
            "enforced_spend_limit_reached",
        ),
        Fault.PAYMENT: (402, "Payment required.", None),
        Fault.SERVER_ERROR: (500, "Internal server error.", None),
        Fault.UNAVAILABLE: (503, "Service unavailable.", None),
        Fault.OVERLOADED: (529, "Overloaded.", None),
        Fault.WRONG_KEY: (401, "invalid x-api-key: {key}", None),
        Fault.UNKNOWN_MODEL: (404, "model: not found", None),
        Fault.TOO_LONG: (413, "Request exceeds the maximum size.", None),
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.prefixes: MarkedPrefixes = MarkedPrefixes()

    def prompt(self, body: dict[str, Any]) -> str:
        """Return the text of the user's messages."""
        return prompt_text(body)

    def asked(self, body: dict[str, Any], prompt: str) -> tuple[str, ...]:
        """Return the ids of the output schema, or those in the prompt."""
        form = body.get("output_config", {}).get("format")
        return asked_ids(form["schema"] if form else None, prompt)

    def problem(
        self, status: int, message: str, code: str | None, *, param: str | None = None
    ) -> web.Response:
        """Return an error object of a type, with its code in the details."""
        error: dict[str, Any] = {
            "type": TYPE_BY_STATUS.get(status, "api_error"),
            "message": message,
        }
        if code is not None:
            error["details"] = {"error_code": code}
        return web.json_response(
            {"type": "error", "error": error, "request_id": "req_loopback"}, status=status
        )

    def refusal(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        """Refuse what the API refuses: no version, sampling parameters, numeric bounds in a schema,
        no output cap."""
        if "anthropic-version" not in request.headers:
            return self.problem(400, "anthropic-version: header is required", None)
        for name in (*SAMPLING, *self.refused_fields):
            if name in body:
                return self.problem(400, f"{name}: Extra inputs are not permitted", None)
        if not isinstance(body.get("max_tokens"), int):
            return self.problem(400, "max_tokens: Field required", None)
        schema = body.get("output_config", {}).get("format", {}).get("schema", {})
        bound = next((name for name in _keys(schema) if name in BOUNDS), None)
        if bound is not None:
            return self.problem(
                400, f"output_config.format.schema: property '{bound}' is not supported", None
            )
        return None

    def envelope(
        self, body: dict[str, Any], content: str, tally: Tally, fault: Fault | None
    ) -> dict[str, Any]:
        """Return a message."""
        text, reason = content, "end_turn"
        if fault in (Fault.REFUSAL, Fault.MODERATED):
            text, reason = "", "refusal"
        elif fault is Fault.TRUNCATION:
            text, reason = content[: len(content) // 2], "max_tokens"
        elif tokens(content) > body["max_tokens"]:
            text, reason = content[: body["max_tokens"] * 4], "max_tokens"
        usage = {
            "input_tokens": max(0, tally.input_tokens - tally.cached - tally.written),
            "cache_read_input_tokens": tally.cached,
            "cache_creation_input_tokens": tally.written,
            "cache_creation": {
                "ephemeral_5m_input_tokens": tally.written - tally.written_1h,
                "ephemeral_1h_input_tokens": tally.written_1h,
            },
            "output_tokens": tokens(text),
            "output_tokens_details": {"thinking_tokens": 0},
        }
        return {
            "id": "msg_loopback",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [{"type": "text", "text": text}] if text else [],
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": usage,
        }

    def events(
        self, body: dict[str, Any], reply: dict[str, Any], fault: Fault | None
    ) -> Iterator[bytes]:
        """Return the events of a message, which begins with nothing written and one token
        counted."""
        begun = reply | {"content": [], "stop_reason": None}
        if "usage" in reply:
            begun["usage"] = reply["usage"] | {"output_tokens": 1}
        yield _event("message_start", {"message": begun})
        yield _event("ping", {})
        for index, block in enumerate(reply["content"]):
            yield _event(
                "content_block_start", {"index": index, "content_block": block | {"text": ""}}
            )
            for piece in pieces(block["text"], fault):
                yield _event(
                    "content_block_delta",
                    {"index": index, "delta": {"type": "text_delta", "text": piece}},
                )
            if fault not in BROKEN_STREAMS:
                yield _event("content_block_stop", {"index": index})
        if fault is Fault.ERROR_IN_STREAM:
            yield _event("error", self.error_in_200)
        if fault in BROKEN_STREAMS:
            return
        ended = {"delta": {"stop_reason": reply["stop_reason"], "stop_sequence": None}}
        if "usage" in reply:
            ended["usage"] = {
                "output_tokens": reply["usage"]["output_tokens"],
                "input_tokens": None,
            }
        yield _event("message_delta", ended)
        yield _event("message_stop", {})


def _event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name} | data)}\n\n".encode()


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
