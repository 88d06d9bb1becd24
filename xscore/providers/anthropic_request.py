"""A request in the Anthropic dialect: our Request in, the JSON body out. Pure.

No temperature, top_p or top_k is ever sent: the API has none. Numeric bounds stay out of the schema, since it answers
400 to them; the scorer checks. Only the end of the stable parts is ever marked for the cache, and only where the
request asks for it, because writing costs. A host that calls itself compatible and refuses the schema is asked without;
what it then writes is for the repair ladder. The trade-off: a host that ignores the schema in silence is not noticed
here.
"""

from collections.abc import Mapping
from typing import Any

from xscore.providers.catalog import HOUR_S
from xscore.providers.reply_schema import reply_schema
from xscore.records import ReplyForm, Request

THINKING = frozenset({"disabled", "between_tools", "adaptive"})
"""Reasoning words that name a way of thinking; every other is an effort."""


FORM_WORDS = ("output_config", "output_format", "json_schema")
"""Words by which hosts name the part of the request that asks for JSON."""


def body(request: Request, *, stream: bool, form: ReplyForm = ReplyForm.JSON_SCHEMA) -> dict[str, Any]:
    """Return the JSON body of `POST /v1/messages`. form: anything but the schema is a reply in plain text here."""
    fields: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_output_tokens,
        "messages": [{"role": "user", "content": _content(request)}],
    }
    if request.system:
        fields["system"] = [{"type": "text", "text": request.system}]
    output: dict[str, Any] = {}
    if request.reply_ids and form is ReplyForm.JSON_SCHEMA:
        schema = reply_schema(request.reply_ids, questions=request.reply_questions, bounds=False)
        output["format"] = {"type": "json_schema", "schema": schema}
    if request.reasoning in THINKING:
        fields["thinking"] = {"type": request.reasoning}
    elif request.reasoning:
        output["effort"] = request.reasoning
    if output:
        fields["output_config"] = output
    if stream:
        fields["stream"] = True
    return fields


def refuses_the_schema(request: Request, error_body: object) -> bool:
    """Whether a host that answered 400 with this error object names what asks for the schema."""
    message = error_body.get("message") if isinstance(error_body, Mapping) else None
    return bool(request.reply_ids) and isinstance(message, str) and any(word in message for word in FORM_WORDS)


def _content(request: Request) -> str | list[dict[str, Any]]:
    """Join the parts, or, where a prefix is to be kept, mark the end of what is stable over turns."""
    if request.prefix_ttl_s <= 0 or not 0 < request.stable_parts <= len(request.content):
        return "\n\n".join(request.content)
    mark = {"type": "ephemeral"} | ({"ttl": "1h"} if request.prefix_ttl_s >= HOUR_S else {})
    stable = "\n\n".join(request.content[: request.stable_parts])
    rest = "\n\n".join(request.content[request.stable_parts :])
    parts = [{"type": "text", "text": stable, "cache_control": mark}]
    return [*parts, {"type": "text", "text": "\n\n" + rest}] if rest else parts
