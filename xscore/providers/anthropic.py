"""The Anthropic dialect: request bodies, replies, streams and error tables of hosts that speak its
messages.

No temperature, top_p or top_k is sent (the API has none), and no numeric bounds in the schema (it
answers 400 to them). Only the end of the stable parts is marked for the cache, and only where the
request asks for it, because writing costs. A compatible host that refuses the schema is asked
without it. Trade-off: a host that ignores the schema silently is not noticed, and blocks that are
not text (thinking) are dropped unread.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

from msgspec.structs import replace

from xscore.platform.errors import ProviderError
from xscore.providers import host_facts
from xscore.providers.catalog import HOUR_S
from xscore.providers.host_facts import (
    cached_count,
    header_count,
    make_completion,
    sub_object,
    token_count,
)
from xscore.providers.provider import OnText
from xscore.providers.wire import StreamReader, WireProvider, prompt_content, reply_schema
from xscore.providers.wire_errors import CallContext, DialectProfile, error_within
from xscore.records.calls import (
    Capability,
    Completion,
    Finish,
    RateLimits,
    ReplyForm,
    Request,
    Usage,
)

THINKING = frozenset({"disabled", "between_tools", "adaptive"})
"""Reasoning words that name a way of thinking; every other is an effort."""
FORM_WORDS = ("output_config", "output_format", "json_schema")
"""Words by which hosts name the part of the request that asks for JSON."""
LONGEST_UNSTREAMED_TOKENS = 21_333
"""Longest reply that is not streamed if no one watches: idle connections are closed after ten
minutes, and the vendor's own SDK refuses such a call."""
VERSION = "2026-10-21"
"""Version of the dialect, as the vendor's SDK 2.12 sends it."""

ANTHROPIC = DialectProfile(
    name="Anthropic",
    vendor="anthropic.com",
    setting="anthropic.base_url",
    base_url_ends="without /v1",
    path="/v1/messages",
    models_path="/v1/models?limit=1000",
)

FINISH: dict[str, Finish] = {
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "pause_turn": Finish.LENGTH,  # the host stopped in the middle and would be asked to go on
    "refusal": Finish.REFUSAL,
}
"""`stop_reason` -> ours; every other is a stop."""
LIMITED = ("requests", "tokens", "input-tokens", "output-tokens")
"""Limits of the host, as its headers name them."""


class AnthropicStream(StreamReader):
    """The state of one streamed reply; thinking is not shown, and unknown events are skipped as the
    API asks."""

    def __init__(self, call: CallContext, on_text: OnText) -> None:
        super().__init__(call, on_text)
        self._counts: dict[str, object] = {}

    def take(self, event: Mapping[str, Any]) -> None:
        """Take the next event; raise the error that it carries."""
        ANTHROPIC.raise_inner(error_within(event), self.call)
        match event.get("type"):
            case "message_start":
                message = sub_object(event, "message")
                self.model: str = str(message.get("model") or self.model)
                self._count(sub_object(message, "usage"))
            case "content_block_start":
                self.show(_text_of(event.get("content_block")))
            case "content_block_delta":
                delta = sub_object(event, "delta")
                self.show(delta.get("text") if delta.get("type") == "text_delta" else None)
            case "message_delta":
                self._count(sub_object(event, "usage"))
                reason = sub_object(event, "delta").get("stop_reason")
                self.finish: Finish | None = _finish_of(reason) if reason else self.finish
            case "message_stop":
                self.is_over: bool = True

    def _count(self, usage: Mapping[str, object]) -> None:
        """Keep the counts that are stated: later events repeat some cumulatively and leave others
        out."""
        self._counts |= {name: value for name, value in usage.items() if value is not None}
        self.usage: Usage | None = reported_usage(self._counts)
        self.counts_cached: bool = cached_count(self._counts) is not None


class AnthropicProvider(WireProvider):
    """Anthropic's messages, as the vendor and compatible hosts speak them."""

    name = "anthropic"
    profile = ANTHROPIC
    forms: tuple[ReplyForm, ...] = (ReplyForm.JSON_SCHEMA, ReplyForm.TEXT)
    longest_unstreamed_tokens: int | None = LONGEST_UNSTREAMED_TOKENS
    stream_reader: type[StreamReader] = AnthropicStream

    def headers(self) -> dict[str, str]:
        """Return the authentication headers and the version of the API."""
        return {"anthropic-version": VERSION, **super().headers()}

    def fields(
        self, request: Request, capability: Capability, *, stream: bool
    ) -> dict[str, Any]:
        """Return the JSON body of `POST /v1/messages`; any form but the schema is plain text
        here."""
        fields: dict[str, Any] = {
            "model": request.model,
            "max_tokens": request.max_output_tokens,
            "messages": [
                {"role": "user", "content": prompt_content(request, mark=_cache_mark(request))}
            ],
        }
        if request.system:
            fields["system"] = [{"type": "text", "text": request.system}]
        output: dict[str, Any] = {}
        if request.reply_ids and capability.reply_form is ReplyForm.JSON_SCHEMA:
            schema = reply_schema(
                request.reply_ids, questions=request.reply_questions, bounds=False
            )
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

    def weaker(
        self, request: Request, capability: Capability, refusal: object
    ) -> Capability | None:
        """Ask without the schema where this error object names it; None if it does not."""
        message = None
        if isinstance(refusal, Mapping):
            message = refusal.get("message")
        if (
            capability.reply_form is not ReplyForm.JSON_SCHEMA
            or not request.reply_ids
            or not isinstance(message, str)
        ):
            return None
        if any(word in message for word in FORM_WORDS):
            return replace(capability, reply_form=ReplyForm.TEXT)
        return None

    def completion(
        self, reply: Mapping[str, Any], call: CallContext, limits: RateLimits
    ) -> Completion:
        """Return the completion in this reply object; raise the error it carries, or
        UnreadableResponse."""
        ANTHROPIC.raise_inner(error_within(reply), call)
        blocks = reply.get("content")
        if not isinstance(blocks, list):
            raise ANTHROPIC.unreadable("a JSON object without content", call)
        return make_completion(
            call,
            "".join(_text_of(block) for block in blocks),
            _finish_of(reply.get("stop_reason")),
            reported_usage(reply.get("usage")),
            model=str(reply.get("model") or call.model),
            limits=limits,
        )

    def rate_limits(self, headers: Mapping[str, str]) -> RateLimits:
        """Return the limits a minute that the reply's headers state.

        The total is left out where input is stated by itself: it is then input plus output, and
        calls would be held back by what the cache served, which the host does not count.
        """
        stated = {}
        for name in LIMITED:
            stated[name] = header_count(headers.get(f"anthropic-ratelimit-{name}-limit"))
        return RateLimits(
            requests_per_minute=stated["requests"],
            tokens_per_minute=None if stated["input-tokens"] else stated["tokens"],
            input_tokens_per_minute=stated["input-tokens"],
            output_tokens_per_minute=stated["output-tokens"],
        )

    async def context_tokens(self, model: str) -> int | None:
        """Return the longest input, if the host reports it."""
        with suppress(ProviderError):
            model_facts = await self.look_up(f"/v1/models/{quote(model, safe='')}")
            return token_count(
                model_facts.get("max_input_tokens")
            ) or host_facts.served_context({"data": [model_facts]}, model)
        return None


connect: Final = AnthropicProvider.connect


def reported_usage(usage: object) -> Usage | None:
    """Return the usage that the host reports; None where it reports none, or no sense.

    The host counts what its cache served and what was written to it separately from
    `input_tokens`; ours is the sum.
    """
    if not isinstance(usage, Mapping):
        return None
    fresh = token_count(usage.get("input_tokens"))
    output = token_count(usage.get("output_tokens"))
    read = cached_count(usage) or 0
    written = token_count(usage.get("cache_creation_input_tokens")) or 0
    if fresh is None or output is None or not fresh + read + written:
        return None
    written_1h = (
        token_count(sub_object(usage, "cache_creation").get("ephemeral_1h_input_tokens")) or 0
    )
    thought = (
        token_count(sub_object(usage, "output_tokens_details").get("thinking_tokens")) or 0
    )
    return Usage(
        input_tokens=fresh + read + written,
        cached_input_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=min(written, written_1h),
        output_tokens=output,
        reasoning_tokens=min(output, thought),
    )


def _cache_mark(request: Request) -> dict[str, Any] | None:
    if request.prefix_ttl_s <= 0:
        return None
    return {
        "cache_control": {"type": "ephemeral"}
        | ({"ttl": "1h"} if request.prefix_ttl_s >= HOUR_S else {})
    }


def _finish_of(stop_reason: object) -> Finish:
    return FINISH.get(str(stop_reason), Finish.STOP)


def _text_of(block: object) -> str:
    """Return the text of a content block; thinking and anything else has none."""
    if not isinstance(block, Mapping) or block.get("type") != "text":
        return ""
    text = block.get("text")
    if isinstance(text, str):
        return text
    return ""
