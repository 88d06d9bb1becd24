"""A loopback server of the OpenAI dialect; everything else is in `loopback`.

Ids come from the schema's `required` list. It accounts prompt prefixes as the vendor does (`prefix_cache`) and refuses
fields on demand, as servers that call themselves compatible do.
"""

import json
from collections.abc import Callable
from typing import Any, ClassVar

from aiohttp import web

from tests.servers import streaming
from tests.servers.faults import Fault
from tests.servers.judging import asked_ids
from tests.servers.loopback import LoopbackServer, Tally
from tests.servers.prefix_cache import PrefixCache, prompt_text, tokens


class OpenAIServer(LoopbackServer):
    """One server; attributes may change while it runs."""

    base_path = "/v1"
    completions_path = "/v1/chat/completions"
    models_path = "/v1/models"
    status_faults: ClassVar[dict[Fault, tuple[int, str, str | None]]] = {
        Fault.RATE_LIMITED: (429, "Rate limit reached.", "rate_limit_exceeded"),
        Fault.QUOTA: (429, "You exceeded your current quota.", "insufficient_quota"),
        Fault.SPEND_LIMIT: (429, "The project's spend limit is reached.", "project_spend_limit_exceeded"),
        Fault.PAYMENT: (402, "Payment required.", None),
        Fault.SERVER_ERROR: (500, "The server had an error.", None),
        Fault.UNAVAILABLE: (503, "The engine is overloaded.", None),
        Fault.OVERLOADED: (529, "Overloaded.", None),
        Fault.WRONG_KEY: (401, "Incorrect API key provided: {key}.", "invalid_api_key"),
        Fault.UNKNOWN_MODEL: (404, "The model does not exist.", "model_not_found"),
        Fault.TOO_LONG: (400, "This model's maximum context length is exceeded.", "context_length_exceeded"),
        Fault.MODERATED: (400, "The prompt was declined.", "content_policy_violation"),
    }

    def __init__(
        self, *, refused_fields: tuple[str, ...] = (), errors_in_a_list: bool = False, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.errors_in_a_list = errors_in_a_list
        """As Google's endpoint answers them."""
        self.refused_fields = refused_fields
        self.output_tokens: Callable[[int], object] = lambda counted: counted
        """What the usage says of this many tokens."""
        self.prefixes = PrefixCache()

    def prompt(self, body: dict[str, Any]) -> str:
        """Return the text of all messages except the system's."""
        return prompt_text(body)

    def asked(self, body: dict[str, Any], prompt: str) -> tuple[str, ...]:
        """Return the ids of the strict schema, or those in the prompt."""
        form = body.get("response_format", {})
        return asked_ids(form["json_schema"]["schema"] if form.get("type") == "json_schema" else None, prompt)

    def problem(self, status: int, message: str, code: str | None, *, param: str | None = None) -> web.Response:
        """Return an error object with type, code and param."""
        error = {"message": message, "type": "invalid_request_error", "code": code, "param": param}
        return web.json_response([{"error": error}] if self.errors_in_a_list else {"error": error}, status=status)

    def problem_within(self) -> dict[str, Any]:
        """Return what OpenRouter puts into a 200."""
        return {"error": {"code": 429, "message": "Provider returned error"}}

    def refusal(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        """Refuse the test's fields."""
        for name in self.refused_fields:
            form = body.get("response_format", {}).get("type")
            if name in body or name == form or f'"{name}"' in json.dumps(body["messages"][-1]["content"]):
                return self.problem(400, f"Unknown parameter: {name}", None, param=name)
        return None

    def account(self, body: dict[str, Any]) -> Tally:
        """Count by the vendor's rules for prefixes."""
        return Tally(*self.prefixes.account(body))

    def count(self, text: str) -> int:
        """Count the tokens of a reply."""
        return tokens(text)

    def envelope(self, body: dict[str, Any], content: str, tally: Tally, fault: Fault | None) -> dict[str, Any]:
        """Return a chat completion."""
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        finish = "stop"
        cap = body.get("max_completion_tokens", body.get("max_tokens"))
        if fault is Fault.REFUSAL:
            message = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
        elif fault is Fault.TRUNCATION:
            message["content"], finish = content[: len(content) // 2], "length"
        elif cap is not None and self.count(content) > cap:
            message["content"], finish = content[: cap * 4], "length"
        output = self.count(message["content"] or "")
        counted = {Fault.CUT_PROMPT: tally.given // 10, Fault.VAST_USAGE: 10**12}
        usage = {
            "prompt_tokens": counted.get(fault, tally.given) if fault else tally.given,
            "completion_tokens": self.output_tokens(output),
            "prompt_tokens_details": {"cached_tokens": tally.cached, "cache_write_tokens": tally.written},
            "completion_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tally.given + output,
        }
        reply = {
            "id": "chatcmpl-loopback",
            "object": "chat.completion",
            "created": 1,
            "model": body.get("model", ""),
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": usage,
        }
        if fault is Fault.NO_USAGE:
            del reply["usage"]
        return reply

    def stated_limits(self) -> dict[str, str]:
        """Return the vendor's header."""
        return {"x-ratelimit-limit-requests": str(self.rpm)} if self.rpm is not None else {}

    async def stream(
        self, request: web.Request, body: dict[str, Any], reply: dict[str, Any], fault: Fault | None
    ) -> web.StreamResponse:
        """Stream it in pieces of twelve characters."""
        broken = {Fault.CUT: None, Fault.ERROR_IN_STREAM: self.problem_within()}
        halfway = broken.get(fault) if fault else None
        is_cut = fault in broken
        return await streaming.stream(request, body, reply, headers=self.rate_headers(), is_cut=is_cut, error=halfway)
