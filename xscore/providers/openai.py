"""The OpenAI dialect: request bodies, replies, streams and error tables of hosts that speak chat
completions.

Servers that call themselves compatible differ in the fields they take: a `Capability` names what
this host refused, and `weaker` finds the next form to try. The judge's reasoning effort is never
dropped, since it is part of the judge's identity. Scores are not read here. Trade-off: replies are
read as plain JSON and usage that makes no sense counts as not reported, so a host that silently
ignores a field is not noticed.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from xscore.platform.errors import ProviderError
from xscore.providers import host_facts
from xscore.providers.catalog import model_settings
from xscore.providers.host_facts import make_completion, sub_object, token_count
from xscore.providers.hosts import is_loopback
from xscore.providers.wire import StreamReader, WireProvider, prompt_content, response_format
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

WEAKER_FORMS = {
    ReplyForm.JSON_SCHEMA: ReplyForm.JSON_OBJECT,
    ReplyForm.JSON_OBJECT: ReplyForm.TEXT,
}
FORM_WORDS = ("response_format", "json_schema", "json_object", "grammar", "guided")
"""Words by which servers name the part of the request that asks for JSON."""
OPTIONAL_FIELDS = (
    "prompt_cache_options",
    "prompt_cache_breakpoint",
    "prompt_cache_key",
    "stream_options",
    "store",
)
"""Fields that a request can do without when the host does not take them."""

OPENAI = DialectProfile(
    name="OpenAI",
    vendor="openai.com",
    setting="openai.base_url",
    base_url_ends="with /v1",
    path="/chat/completions",
    models_path="/models",
)

FINISH = {"length": Finish.LENGTH, "content_filter": Finish.REFUSAL}
"""`finish_reason` -> ours; every other is a stop."""


class OpenAIStream(StreamReader):
    """The state of one streamed reply; chunks of an unknown kind are skipped, since hosts add their
    own."""

    _is_refused = False
    _reason: object = None

    def take(self, event: Mapping[str, Any]) -> None:
        """Take the next chunk; raise the error that it carries."""
        self.usage: Usage | None = (
            reported_usage(event.get("usage"), self.call.request) or self.usage
        )
        self.counts_cached: bool = (
            self.counts_cached
            or host_facts.cached_count(sub_object(event, "usage")) is not None
        )
        self.model: str = str(event.get("model") or self.model)
        OPENAI.raise_inner(error_within(event), self.call)
        if not event.get("choices"):
            return  # the last chunk carries usage only
        choice = _first_choice(event, self.call)
        delta = sub_object(choice, "delta")
        self._is_refused = self._is_refused or bool(delta.get("refusal"))
        self.show(delta.get("content"))
        self._reason = choice.get("finish_reason") or self._reason
        self.finish: Finish | None = (
            _finish_of(self._reason, refused=self._is_refused) if self._reason else None
        )


class OpenAIProvider(WireProvider):
    """OpenAI's chat completions, as the vendor and compatible hosts speak them."""

    name = "openai"
    profile = OPENAI
    forms: tuple[ReplyForm, ...] = tuple(ReplyForm)
    stream_reader: type[StreamReader] = OpenAIStream

    def fields(
        self, request: Request, capability: Capability, *, stream: bool
    ) -> dict[str, Any]:
        """Return the JSON body of `POST /chat/completions`."""
        without = frozenset(capability.without)
        marked = (
            model_settings("openai", request.model).cache_breakpoints
            and "prompt_cache_breakpoint" not in without
        )
        mark = None
        if marked and request.prefix_ttl_s > 0:
            mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
        # A host that refused the newer name has the limit by its older one.
        is_old_name = "max_completion_tokens" in without
        limit_field = "max_tokens" if is_old_name else "max_completion_tokens"
        fields: dict[str, Any] = {
            "model": request.model,
            "messages": [
                {"role": "system", "content": request.system},
                {"role": "user", "content": prompt_content(request, mark=mark)},
            ],
            limit_field: request.max_output_tokens,
        }
        if request.reply_ids and capability.reply_form is not ReplyForm.TEXT:
            fields["response_format"] = self._response_format(request, capability.reply_form)
        if request.cache_key:
            fields["prompt_cache_key"] = request.cache_key
        if marked:
            fields["prompt_cache_options"] = {"mode": "explicit"}
        if request.reasoning:
            fields["reasoning_effort"] = request.reasoning
        if request.temperature is not None and "temperature" not in without:
            fields["temperature"] = request.temperature
        if self.is_vendors_own:
            fields["store"] = False  # by default the vendor keeps completions
        if stream:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        for name in without.intersection(OPTIONAL_FIELDS):
            fields.pop(name, None)
        return fields

    def _response_format(self, request: Request, form: ReplyForm) -> dict[str, Any]:
        if form is not ReplyForm.JSON_SCHEMA:
            return {"type": "json_object"}
        # The vendor takes `$ref` and charges for the schema; compatible servers may not take it,
        # and do not charge.
        refs = self.is_vendors_own
        schema = response_format(request.reply_ids, request.reply_questions, refs=refs)
        return schema or {"type": "json_object"}

    def weaker(
        self, request: Request, capability: Capability, refusal: object
    ) -> Capability | None:
        """Return what to try after this host refused with this error object; None if nothing
        can be left out."""
        named = _names_in(refusal)
        for name in ("max_completion_tokens", "temperature", *OPTIONAL_FIELDS):
            if name in named and name not in capability.without:
                if name == "prompt_cache_options":
                    dropped = {name, "prompt_cache_breakpoint"}
                else:
                    dropped = {name}
                return replace(
                    capability, without=tuple(sorted(dropped.union(capability.without)))
                )
        if (
            request.reply_ids
            and any(word in named for word in FORM_WORDS)
            and capability.reply_form in WEAKER_FORMS
        ):
            return replace(capability, reply_form=WEAKER_FORMS[capability.reply_form])
        return None

    def completion(
        self, reply: Mapping[str, Any], call: CallContext, limits: RateLimits
    ) -> Completion:
        """Return the completion in this reply object; raise the error it carries, or
        UnreadableResponse."""
        choice = _first_choice(reply, call)
        message = choice.get("message")
        if not isinstance(message, Mapping):
            raise OPENAI.unreadable("a choice without a message", call)
        refusal = message.get("refusal")
        return make_completion(
            call,
            _text(message.get("content")),
            _finish_of(
                choice.get("finish_reason"), refused=isinstance(refusal, str) and bool(refusal)
            ),
            reported_usage(reply.get("usage"), call.request),
            model=str(reply.get("model") or call.model),
            limits=limits,
        )

    async def context_tokens(self, model: str) -> int | None:
        """Return the longest input: as loaded, if the host reports it, otherwise as the model
        was made."""
        listing: Mapping[str, Any] = {}
        with suppress(ProviderError):
            listing = await self.look_up(OPENAI.models_path)
        served = host_facts.served_context(listing, model)
        if served is None and (is_loopback(self.host) or self.base_url.startswith("http:")):
            served = await self._loaded_context(model)
        return served or host_facts.trained_context(listing, model)

    async def _loaded_context(self, model: str) -> int | None:
        """Ask a server on this machine or network, at the path of each kind we know, what it has
        loaded."""
        parts = urlsplit(self.base_url)
        for path in host_facts.LOCAL_PATHS:
            with suppress(ProviderError):
                context_tokens = host_facts.served_context(
                    await self.look_up(f"{parts.scheme}://{parts.netloc}{path}"), model
                )
                if context_tokens is not None:
                    return context_tokens
        return None


connect: Final = OpenAIProvider.connect


def reported_usage(usage: object, request: Request | None = None) -> Usage | None:
    """Return the usage that the host reports; None where it reports none, or no sense.

    The vendor counts cached tokens among the prompt's; some gateways count them separately, and
    ours is the sum.
    """
    if not isinstance(usage, Mapping):
        return None
    stated = token_count(usage.get("prompt_tokens"))
    written = token_count(usage.get("completion_tokens"))
    if not stated or written is None:
        return None
    cached = host_facts.cached_count(usage) or 0
    input_tokens = host_facts.whole_input(
        stated, cached, expected=request.input_tokens if request else 0
    )
    prompt_details = sub_object(usage, "prompt_tokens_details")
    output_details = sub_object(usage, "completion_tokens_details")
    return Usage(
        input_tokens=input_tokens,
        cached_input_tokens=cached,
        cache_write_tokens=min(
            input_tokens - cached, token_count(prompt_details.get("cache_write_tokens")) or 0
        ),
        output_tokens=written,
        reasoning_tokens=min(written, token_count(output_details.get("reasoning_tokens")) or 0),
    )


def _first_choice(reply: Mapping[str, Any], call: CallContext) -> Mapping[str, Any]:
    """Return the first choice; raise the error that the reply or the choice carries instead."""
    OPENAI.raise_inner(error_within(reply), call)
    choices = reply.get("choices")
    choice = None
    if isinstance(choices, list) and choices:
        choice = choices[0]
    if not isinstance(choice, Mapping):
        raise OPENAI.unreadable("a JSON object without choices", call)
    OPENAI.raise_inner(choice.get("error"), call)
    return choice


def _finish_of(finish_reason: object, *, refused: bool) -> Finish:
    if refused:
        return Finish.REFUSAL
    return FINISH.get(str(finish_reason), Finish.STOP)


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return "".join(text for text in texts if isinstance(text, str))


def _names_in(error_body: object) -> str:
    """Return the places of an error body that name a field: never the echoed input."""
    if not isinstance(error_body, Mapping):
        return ""
    places = [error_body.get("param"), error_body.get("code"), error_body.get("message")]
    detail = error_body.get("detail")
    if isinstance(detail, list):
        places += [
            json.dumps(entry.get("loc")) for entry in detail if isinstance(entry, Mapping)
        ]
    return " ".join(place for place in places if isinstance(place, str))
