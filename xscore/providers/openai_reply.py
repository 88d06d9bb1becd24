"""A reply in the OpenAI dialect: JSON in, our Completion out, or the error that it is. Pure.

It trusts nothing: HTML at 200, `{}`, errors inside a success and usage that is not numbers are all met in the field.
It does not read scores; the scorer parses `text`. The trade-off: usage that makes no sense counts as not reported.
"""

from collections.abc import Mapping
from typing import Any

from xscore.errors import ProviderError
from xscore.providers.openai_errors import OPENAI, from_body
from xscore.providers.reply_facts import count, estimated_usage, header_count, json_object, section
from xscore.records import Completion, Finish, RateLimits, Request, Usage

FINISH = {"length": Finish.LENGTH, "content_filter": Finish.REFUSAL}
"""`finish_reason` -> ours; every other is a stop."""


def parse_json(data: bytes, content_type: str, *, host: str, model: str) -> dict[str, Any]:
    """Return the JSON object of a 200 reply, or raise UnreadableResponse without showing the body."""
    return json_object(data, content_type, words=OPENAI, host=host, model=model)


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
    given = count(found.get("prompt_tokens"))
    written = count(found.get("completion_tokens"))
    if not given or written is None:
        return None
    prompt_details = section(found, "prompt_tokens_details")
    output_details = section(found, "completion_tokens_details")
    cached = min(given, count(prompt_details.get("cached_tokens")) or 0)
    return Usage(
        input_tokens=given,
        cached_input_tokens=cached,
        cache_write_tokens=min(given - cached, count(prompt_details.get("cache_write_tokens")) or 0),
        output_tokens=written,
        reasoning_tokens=min(written, count(output_details.get("reasoning_tokens")) or 0),
    )


def reports_cached(found: object) -> bool:
    """Say whether this usage tells what came from a prefix cache."""
    return (
        isinstance(found, Mapping) and count(section(found, "prompt_tokens_details").get("cached_tokens")) is not None
    )


def rate_limits(headers: Mapping[str, str]) -> RateLimits:
    """Return the limits that the reply's headers state."""
    return RateLimits(
        requests_per_minute=header_count(headers.get("x-ratelimit-limit-requests")),
        tokens_per_minute=header_count(headers.get("x-ratelimit-limit-tokens")),
    )


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(text for text in texts if isinstance(text, str))
    return ""


def _unreadable(host: str, model: str, what: str) -> ProviderError:
    return OPENAI.unreadable(what, host=host, model=model)
