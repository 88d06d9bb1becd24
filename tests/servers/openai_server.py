"""A loopback server of the OpenAI dialect; everything else is in `loopback`.

Ids come from the schema's `required` list. It accounts prompt prefixes as the vendor does
(`prefix_cache`) and refuses fields on demand, as servers that call themselves compatible do.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from aiohttp import web

from tests.servers.faults import Fault
from tests.servers.judging import asked_ids
from tests.servers.loopback import BROKEN_STREAMS, LoopbackServer, pieces
from tests.servers.prefix_cache import PrefixCache, Tally, prompt_text, tokens


class OpenAIServer(LoopbackServer):
    """One server; attributes may change while it runs."""

    base_path = "/v1"
    completions_path = "/v1/chat/completions"
    rate_header = "x-ratelimit-limit-requests"
    error_in_200: ClassVar[dict[str, Any]] = {
        "error": {"code": 429, "message": "Provider returned error"}
    }
    """An error in a success, as OpenRouter puts it."""
    status_faults: ClassVar[dict[Fault, tuple[int, str, str | None]]] = {
        Fault.RATE_LIMITED: (429, "Rate limit reached.", "rate_limit_exceeded"),
        Fault.QUOTA: (429, "You exceeded your current quota.", "insufficient_quota"),
        Fault.SPEND_LIMIT: (
            429,
            "The project's spend limit is reached.",
            "project_spend_limit_exceeded",
        ),
        Fault.PAYMENT: (402, "Payment required.", None),
        Fault.SERVER_ERROR: (500, "The server had an error.", None),
        Fault.UNAVAILABLE: (503, "The engine is overloaded.", None),
        Fault.OVERLOADED: (529, "Overloaded.", None),
        Fault.WRONG_KEY: (401, "Incorrect API key provided: {key}.", "invalid_api_key"),
        Fault.UNKNOWN_MODEL: (404, "The model does not exist.", "model_not_found"),
        Fault.TOO_LONG: (
            400,
            "This model's maximum context length is exceeded.",
            "context_length_exceeded",
        ),
        Fault.MODERATED: (400, "The prompt was declined.", "content_policy_violation"),
    }

    def __init__(self, *, errors_in_a_list: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        self.errors_in_a_list = errors_in_a_list
        """Whether errors come in a list, as from Google's endpoint."""
        self.output_tokens: Callable[[int], object] = lambda counted: counted
        """What the usage says of this many tokens."""
        self.prefixes = PrefixCache()

    def prompt(self, body: dict[str, Any]) -> str:
        """Return the text of all messages except the system's."""
        return prompt_text(body)

    def asked(self, body: dict[str, Any], prompt: str) -> tuple[str, ...]:
        """Return the ids of the strict schema, or those in the prompt."""
        form = body.get("response_format", {})
        return asked_ids(
            form["json_schema"]["schema"] if form.get("type") == "json_schema" else None, prompt
        )

    def problem(
        self, status: int, message: str, code: str | None, *, param: str | None = None
    ) -> web.Response:
        """Return an error object with type, code and param."""
        error = {
            "message": message,
            "type": "invalid_request_error",
            "code": code,
            "param": param,
        }
        return web.json_response(
            [{"error": error}] if self.errors_in_a_list else {"error": error}, status=status
        )

    def refusal(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        """Refuse the test's fields."""
        for name in self.refused_fields:
            form = body.get("response_format", {}).get("type")
            if (
                name in body
                or name == form
                or f'"{name}"' in json.dumps(body["messages"][-1]["content"])
            ):
                return self.problem(400, f"Unknown parameter: {name}", None, param=name)
        return None

    def count(self, text: str) -> int:
        """Count the tokens of a reply."""
        return tokens(text)

    def envelope(
        self, body: dict[str, Any], content: str, tally: Tally, fault: Fault | None
    ) -> dict[str, Any]:
        """Return a chat completion."""
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        finish = "stop"
        cap = body.get("max_completion_tokens", body.get("max_tokens"))
        if fault is Fault.REFUSAL:
            message = {
                "role": "assistant",
                "content": None,
                "refusal": "I cannot help with that.",
            }
        elif fault is Fault.TRUNCATION:
            message["content"], finish = content[: len(content) // 2], "length"
        elif cap is not None and self.count(content) > cap:
            message["content"], finish = content[: cap * 4], "length"
        output = self.count(message["content"] or "")
        usage = {
            "prompt_tokens": tally.input_tokens,
            "completion_tokens": self.output_tokens(output),
            "prompt_tokens_details": {
                "cached_tokens": tally.cached,
                "cache_write_tokens": tally.written,
            },
            "completion_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tally.input_tokens + output,
        }
        return {
            "id": "chatcmpl-loopback",
            "object": "chat.completion",
            "created": 1,
            "model": body.get("model", ""),
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": usage,
        }

    def events(
        self, body: dict[str, Any], reply: dict[str, Any], fault: Fault | None
    ) -> Iterator[bytes]:
        """Return the chunks of a chat completion."""
        frame = {
            "id": reply["id"],
            "object": "chat.completion.chunk",
            "created": 1,
            "model": reply["model"],
        }
        choice = reply["choices"][0]
        text, refusal = choice["message"]["content"] or "", choice["message"]["refusal"]
        deltas = (
            [{"refusal": refusal}]
            if refusal
            else [{"content": piece} for piece in pieces(text, fault)]
        )
        for delta in deltas:
            yield _chunk(
                frame | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            )
        if fault is Fault.ERROR_IN_STREAM:
            yield _chunk(frame | self.error_in_200)
        if fault in BROKEN_STREAMS:
            return
        yield _chunk(
            frame
            | {"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
        )
        if body.get("stream_options", {}).get("include_usage") and "usage" in reply:
            yield _chunk(frame | {"choices": [], "usage": reply["usage"]})
        yield b"data: [DONE]\n\n"


def _chunk(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"
