"""A reply in the Anthropic dialect: JSON in, our Completion out, or the error that it is. Pure.

The host counts what its cache served and what was written to it apart from `input_tokens`; ours is the sum. It does
not read scores; the scorer parses `text`. The trade-off: blocks that are no text (thinking) are dropped unread.
"""

from collections.abc import Mapping
from typing import Any

from xscore.providers.anthropic_errors import ANTHROPIC
from xscore.providers.reply_facts import count, estimated_usage, header_count, section
from xscore.records import Completion, Finish, RateLimits, Request, Usage

FINISH: dict[str, Finish] = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "tool_use": Finish.STOP,  # no tools are offered; what stands there is what there is
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "pause_turn": Finish.LENGTH,  # the host stopped in the middle and would be asked to go on
    "refusal": Finish.REFUSAL,
}
"""`stop_reason` -> ours; one that is not listed is a stop."""
LIMITED = ("requests", "tokens", "input-tokens", "output-tokens")
"""What the host limits, as its headers name it."""


def completion(found: Mapping[str, Any], request: Request, *, host: str, secret: str, limits: RateLimits) -> Completion:
    """Return the completion in this reply object; raise the error it carries, or UnreadableResponse."""
    raise_inner(found, request, host=host, secret=secret)
    blocks = found.get("content")
    if not isinstance(blocks, list):
        raise ANTHROPIC.unreadable("a JSON object without content", host=host, model=request.model)
    text = "".join(text_of(block) for block in blocks)
    usage = reported_usage(found.get("usage"))
    return Completion(
        text=text,
        finish=finish_of(found.get("stop_reason")),
        usage=usage or estimated_usage(request, text),
        model=str(found.get("model") or request.model),
        usage_reported=usage is not None,
        limits=limits,
    )


def raise_inner(found: Mapping[str, Any], request: Request, *, host: str, secret: str) -> None:
    """Raise the error that stands inside a success, if there is one."""
    error = found.get("error")
    if not error:
        return
    inner: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": error}
    prompt = (request.system, *request.content)
    raise ANTHROPIC.from_body(inner, host=host, model=request.model, secret=secret, prompt=prompt)


def finish_of(stop_reason: object) -> Finish:
    """Return how the reply ended."""
    return FINISH.get(str(stop_reason), Finish.STOP)


def text_of(block: object) -> str:
    """Return the text of a content block; thinking and anything else has none."""
    if not isinstance(block, Mapping) or block.get("type") != "text":
        return ""
    text = block.get("text")
    return text if isinstance(text, str) else ""


def reported_usage(found: object) -> Usage | None:
    """Return the usage that the host reports; None where it reports none, or no sense."""
    if not isinstance(found, Mapping):
        return None
    fresh = count(found.get("input_tokens"))
    output = count(found.get("output_tokens"))
    read = count(found.get("cache_read_input_tokens")) or 0
    written = count(found.get("cache_creation_input_tokens")) or 0
    if fresh is None or output is None or not fresh + read + written:
        return None
    written_1h = count(section(found, "cache_creation").get("ephemeral_1h_input_tokens")) or 0
    thought = count(section(found, "output_tokens_details").get("thinking_tokens")) or 0
    return Usage(
        input_tokens=fresh + read + written,
        cached_input_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=min(written, written_1h),
        output_tokens=output,
        reasoning_tokens=min(output, thought),
    )


def reports_cached(found: object) -> bool:
    """Say whether this usage tells what came from a prefix cache."""
    return isinstance(found, Mapping) and count(found.get("cache_read_input_tokens")) is not None


def rate_limits(headers: Mapping[str, str]) -> RateLimits:
    """Return the limits a minute that the reply's headers state.

    The total is left out where input is stated apart: it is then input and output added up, and a call would be held
    back by what the cache served, which the host does not count.
    """
    stated = {name: header_count(headers.get(f"anthropic-ratelimit-{name}-limit")) for name in LIMITED}
    return RateLimits(
        requests_per_minute=stated["requests"],
        tokens_per_minute=None if stated["input-tokens"] else stated["tokens"],
        input_tokens_per_minute=stated["input-tokens"],
        output_tokens_per_minute=stated["output-tokens"],
    )
