"""A reply in the OpenAI dialect: JSON in, our Completion out, or the error that it is. Pure.

It trusts nothing: HTML at 200, `{}`, errors inside a success and usage that is not numbers are all met in the field.
It does not read scores; the scorer parses `text`. The trade-off: usage that makes no sense counts as not reported.
"""

from collections.abc import Mapping
from typing import Any

from xscore.providers.openai_errors import OPENAI
from xscore.providers.reply_facts import count, estimated_usage, header_count, seconds, section
from xscore.records import Completion, Finish, RateLimits, Request, Usage

FINISH = {"length": Finish.LENGTH, "content_filter": Finish.REFUSAL}
"""`finish_reason` -> ours; every other is a stop."""
ROUNDING_S = 0.001
"""Hosts write the time until a reset to the millisecond."""
LENIENCE = 2
"""By this factor a window may be off and is still taken for a minute: other calls are in flight while it is stated."""


def completion(found: Mapping[str, Any], request: Request, *, host: str, secret: str, limits: RateLimits) -> Completion:
    """Return the completion in this reply object; raise the error it carries, or UnreadableResponse."""
    choice = only_choice(found, request, host=host, secret=secret)
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise OPENAI.unreadable("a choice without a message", host=host, model=request.model)
    refusal = message.get("refusal")
    refused = isinstance(refusal, str) and bool(refusal)
    text = _text(message.get("content"))
    usage = reported_usage(found.get("usage"))
    return Completion(
        text=text,
        finish=finish_of(choice.get("finish_reason"), refused=refused),
        usage=usage or estimated_usage(request, text),
        model=str(found.get("model") or request.model),
        usage_reported=usage is not None,
        limits=limits,
    )


def finish_of(finish_reason: object, *, refused: bool) -> Finish:
    """Return how the reply ended. refused: it holds a refusal, whatever reason is given."""
    return Finish.REFUSAL if refused else FINISH.get(str(finish_reason), Finish.STOP)


def only_choice(found: Mapping[str, Any], request: Request, *, host: str, secret: str) -> Mapping[str, Any]:
    """Return the first choice; raise the error that the reply or the choice carries instead."""
    raise_inner(found.get("error"), request, host=host, secret=secret)
    choices = found.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, Mapping):
        raise OPENAI.unreadable("a JSON object without choices", host=host, model=request.model)
    raise_inner(choice.get("error"), request, host=host, secret=secret)
    return choice


def raise_inner(error: object, request: Request, *, host: str, secret: str) -> None:
    """Raise the error that stands inside a success, if there is one."""
    if not error:
        return
    inner: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": error}
    prompt = (request.system, *request.content)
    raise OPENAI.from_body(inner, host=host, model=request.model, secret=secret, prompt=prompt)


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
    """Return the limits a minute that the reply's headers state.

    Limits of tokens are per minute wherever they are documented. Those of requests are not: some hosts
    state a day's (Groq, by what its users report).
    """
    requests = header_count(headers.get("x-ratelimit-limit-requests"))
    return RateLimits(
        requests_per_minute=requests if requests and _is_a_minutes(requests, headers) else None,
        tokens_per_minute=header_count(headers.get("x-ratelimit-limit-tokens")),
    )


def _is_a_minutes(limit: int, headers: Mapping[str, str]) -> bool:
    """Whether nothing says that this many requests are of another time than a minute.

    What was used comes back in the time that the reset header states (`1s` after one request of 60, `2m59.56s` after
    30 of 14400), so the whole limit does in proportion. Both have to be stated, and the reset is rounded.
    """
    reset_s = seconds(headers.get("x-ratelimit-reset-requests"))
    remaining = headers.get("x-ratelimit-remaining-requests", "")
    used = limit - int(remaining) if remaining.isdecimal() and len(remaining) <= len(str(limit)) else 0
    if reset_s is None or used <= 0:
        return True
    shortest, longest = ((reset_s + rounding) * limit / used for rounding in (-ROUNDING_S, ROUNDING_S))
    return shortest <= 60 * LENIENCE and longest >= 60 / LENIENCE


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(text for text in texts if isinstance(text, str))
    return ""
