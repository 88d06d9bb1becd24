"""A request in the OpenAI dialect: our Request in, the JSON body out. Pure.

Servers that call themselves compatible differ in the fields they take. A `Taken` holds what this host has shown to
take; `weaker` gives the next one to try after a refusal, or None. The judge's reasoning effort is never dropped:
it belongs to the judge's identity. The trade-off: a host that silently ignores a field is not noticed here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from xscore.providers.catalog import declared
from xscore.providers.reply_schema import response_format
from xscore.records import ReplyForm, Request

WEAKER_FORM = {ReplyForm.JSON_SCHEMA: ReplyForm.JSON_OBJECT, ReplyForm.JSON_OBJECT: ReplyForm.TEXT}
FORM_WORDS = ("response_format", "json_schema", "json_object", "grammar", "guided")
"""Words by which servers name the part of the request that asks for JSON."""

OPTIONAL_FIELDS = ("prompt_cache_options", "prompt_cache_breakpoint", "prompt_cache_key", "stream_options", "store")
"""Fields that a request does without when the host does not take them."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What one host takes."""

    official: bool
    """The vendor's own host, which would keep completions unless told not to."""
    form: ReplyForm = ReplyForm.JSON_SCHEMA
    without: frozenset[str] = frozenset()
    """Field names that this host refused."""


def body(request: Request, taken: Taken, *, stream: bool) -> dict[str, Any]:
    """Return the JSON body of `POST /chat/completions`."""
    without = taken.without
    marked = declared("openai", request.model).cache_breakpoints and "prompt_cache_breakpoint" not in without
    fields: dict[str, Any] = {
        "model": request.model,
        "messages": [
            {"role": "system", "content": request.system},
            {"role": "user", "content": _content(request, marked=marked and request.prefix_ttl_s > 0)},
        ],
        "max_tokens" if "max_completion_tokens" in without else "max_completion_tokens": request.max_output_tokens,
    }
    if request.reply_ids and taken.form is not ReplyForm.TEXT:
        is_schema = taken.form is ReplyForm.JSON_SCHEMA
        schema = response_format(request.reply_ids, request.reply_questions) if is_schema else None
        fields["response_format"] = schema or {"type": "json_object"}
    if request.cache_key:
        fields["prompt_cache_key"] = request.cache_key
    if marked:
        fields["prompt_cache_options"] = {"mode": "explicit"}
    if request.reasoning:
        fields["reasoning_effort"] = request.reasoning
    if request.temperature is not None and "temperature" not in without:
        fields["temperature"] = request.temperature
    if taken.official:
        fields["store"] = False
    if stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    for name in without.intersection(OPTIONAL_FIELDS):
        fields.pop(name, None)
    return fields


def weaker(taken: Taken, request: Request, error_body: object) -> Taken | None:
    """Return what to try after this host refused the request with this body; None: nothing can be left out."""
    said = _names_in(error_body)
    for name in ("max_completion_tokens", "temperature", *OPTIONAL_FIELDS):
        if name in said and name not in taken.without:
            gone = {name, "prompt_cache_breakpoint"} if name == "prompt_cache_options" else {name}
            return replace(taken, without=taken.without | gone)
    if request.reply_ids and any(word in said for word in FORM_WORDS) and taken.form in WEAKER_FORM:
        return replace(taken, form=WEAKER_FORM[taken.form])
    return None


def _content(request: Request, *, marked: bool) -> str | list[dict[str, Any]]:
    """Join the parts, or, where the host caches up to marks, mark the end of what is stable over turns."""
    if not marked or not 0 < request.stable_parts <= len(request.content):
        return "\n\n".join(request.content)
    stable = "\n\n".join(request.content[: request.stable_parts])
    rest = "\n\n".join(request.content[request.stable_parts :])
    parts = [{"type": "text", "text": stable, "prompt_cache_breakpoint": {"mode": "explicit"}}]
    return [*parts, {"type": "text", "text": "\n\n" + rest}] if rest else parts


def _names_in(error_body: object) -> str:
    """Return the places of an error body that name a field: never the echoed input."""
    if not isinstance(error_body, Mapping):
        return ""
    places = [error_body.get("param"), error_body.get("code"), error_body.get("message")]
    detail = error_body.get("detail")
    if isinstance(detail, list):
        places += [json.dumps(entry.get("loc")) for entry in detail if isinstance(entry, Mapping)]
    return " ".join(place for place in places if isinstance(place, str))
