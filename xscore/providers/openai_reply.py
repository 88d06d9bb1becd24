"""A reply in the OpenAI dialect: JSON in, our Completion out, or the error that it is. Pure.

It trusts nothing: HTML at 200, `{}`, errors inside a success and usage that is not numbers are all met in the field.
It does not read scores; the scorer parses `text`. The trade-off: usage that makes no sense counts as not reported.
"""

import json
from collections.abc import Mapping
from typing import Any

from xscore.errors import ProviderError, UnreadableResponse
from xscore.providers.openai_errors import from_body, hint_for
from xscore.records import Completion, Finish, RateLimits, Request, Usage

FINISH = {"length": Finish.LENGTH, "content_filter": Finish.REFUSAL}
"""`finish_reason` -> ours; every other is a stop."""
OUTPUT_CHARS_PER_TOKEN = 4
MAX_COUNT = 1_000_000_000_000
"""A count above this counts nothing, and would not fit into the ledger."""


def parse_json(data: bytes, content_type: str, *, host: str, model: str) -> dict[str, Any]:
    """Return the JSON object of a 200 reply, or raise UnreadableResponse without showing the body."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        kind = content_type.split(";", maxsplit=1)[0].strip() or "no content type"
        raise _unreadable(host, model, f"{len(data)} bytes of {kind} that are not JSON") from error
    if not isinstance(found, dict):
        raise _unreadable(host, model, f"a JSON {type(found).__name__} where an object belongs")
    return found


def completion(found: Mapping[str, Any], request: Request, *, host: str, secret: str, limits: RateLimits) -> Completion:
    """Return the completion in this reply object; raise the error it carries, or UnreadableResponse."""
    choice = only_choice(found, request, host=host, secret=secret)
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise _unreadable(host, request.model, "a choice without a message")
    refusal = message.get("refusal")
    refused = isinstance(refusal, str) and bool(refusal)
    text = _text(message.get("content"))
    usage = reported_usage(found.get("usage"))
    return Completion(
        text=text,
        finish=Finish.REFUSAL if refused else FINISH.get(str(choice.get("finish_reason")), Finish.STOP),
        usage=usage or estimated_usage(request, text),
        model=str(found.get("model") or request.model),
        usage_reported=usage is not None,
        limits=limits,
    )


def only_choice(found: Mapping[str, Any], request: Request, *, host: str, secret: str) -> Mapping[str, Any]:
    """Return the first choice; raise the error that the reply or the choice carries instead."""
    raise_inner(found.get("error"), request, host=host, secret=secret)
    choices = found.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, Mapping):
        raise _unreadable(host, request.model, "a JSON object without choices")
    raise_inner(choice.get("error"), request, host=host, secret=secret)
    return choice


def raise_inner(error: object, request: Request, *, host: str, secret: str) -> None:
    """Raise the error that stands inside a success, if there is one."""
    if not error:
        return
    inner: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": error}
    prompt = (request.system, *request.content)
    raise from_body(inner, host=host, model=request.model, secret=secret, prompt=prompt)


def reported_usage(found: object) -> Usage | None:
    """Return the usage that the host reports; None where it reports none, or no sense."""
    if not isinstance(found, Mapping):
        return None
    given = _count(found.get("prompt_tokens"))
    written = _count(found.get("completion_tokens"))
    if not given or written is None:
        return None
    prompt_details = _details(found, "prompt_tokens_details")
    output_details = _details(found, "completion_tokens_details")
    cached = min(given, _count(prompt_details.get("cached_tokens")) or 0)
    return Usage(
        input_tokens=given,
        cached_input_tokens=cached,
        cache_write_tokens=min(given - cached, _count(prompt_details.get("cache_write_tokens")) or 0),
        output_tokens=written,
        reasoning_tokens=min(written, _count(output_details.get("reasoning_tokens")) or 0),
    )


def estimated_usage(request: Request, text: str) -> Usage:
    """Return our estimate of a call whose host reports no usage."""
    return Usage(input_tokens=request.input_tokens, output_tokens=-(-len(text) // OUTPUT_CHARS_PER_TOKEN))


def rate_limits(headers: Mapping[str, str]) -> RateLimits:
    """Return the limits that the reply's headers state."""
    return RateLimits(
        requests_per_minute=_header_count(headers.get("x-ratelimit-limit-requests")),
        tokens_per_minute=_header_count(headers.get("x-ratelimit-limit-tokens")),
    )


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(text for text in texts if isinstance(text, str))
    return ""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT else None


def _details(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    details = found.get(name)
    return details if isinstance(details, Mapping) else {}


def _header_count(value: str | None) -> int | None:
    return int(value) if value and len(value) <= len(str(MAX_COUNT)) and value.isdecimal() and int(value) > 0 else None


def _unreadable(host: str, model: str, what: str) -> ProviderError:
    message = f"{host} answered 200 with {what}"
    return UnreadableResponse(message, hint=hint_for(UnreadableResponse, host, model))
