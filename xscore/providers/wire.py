"""A chat dialect: one request to a model in the words of a vendor, its reply whole or streamed.

It sends, sends again without fields that the host refuses, reads the reply or the stream,
translates errors and checks that the host read all of the prompt. The schema of a judging reply is
built here. A vendor's module holds the rest: bodies and readers. Trade-off: no vendor's SDK is
used, so what a vendor changes in its API is changed here (decision 73).
"""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec.structs import replace

from xscore.platform.errors import PromptCut, PromptTooLong
from xscore.providers.connection import JSON_BODY, HostConnection
from xscore.providers.host_facts import (
    PromptCount,
    cached_count,
    count_prompt,
    is_cache_uncounted,
    is_prompt_cut,
    json_object,
    make_completion,
    sub_object,
)
from xscore.providers.hosts import DUMMY_KEY, host_of, is_host_within, usable_key, vendor_access
from xscore.providers.provider import OnText
from xscore.providers.reply_bounds import expecting_tokens
from xscore.providers.server_events import END_OF_STREAM, event_data
from xscore.providers.transport import headers_of_environment
from xscore.providers.wire_errors import (
    CallContext,
    StreamCleaner,
    clean_completion,
    error_body,
    error_within,
    is_declined,
)
from xscore.records.calls import (
    Capability,
    Completion,
    Finish,
    RateLimits,
    ReplyForm,
    Request,
    Usage,
)

if TYPE_CHECKING:
    from xscore.settings import Settings

FIELD_REFUSAL_STATUSES = (400, 422)
"""Statuses by which a host may say that it does not take a field."""


class StreamReader:
    """The state of one streamed reply; a dialect fills it event by event."""

    def __init__(self, call: CallContext, on_text: OnText) -> None:
        self.call = call
        self.model: str = call.model
        """The model as the host names it, once it does."""
        self.finish: Finish | None = None
        """How the reply ended; None if it has not yet."""
        self.usage: Usage | None = None
        """Usage that the host reports; None if it reports none, or none that makes sense."""
        self.counts_cached = False
        """Whether the host says what its cache served."""
        self.is_over = False
        """Whether nothing follows the last event, even where the host keeps the connection."""
        self.pieces: list[str] = []
        self._on_text = on_text

    def take(self, event: Mapping[str, Any]) -> None:
        """Take the next event; raise the error that it carries."""
        raise NotImplementedError

    def show(self, piece: object) -> None:
        """Pass a piece of text on; skip anything else."""
        if isinstance(piece, str) and piece:
            self.pieces.append(piece)
            self._on_text(piece)


class WireProvider(HostConnection):
    """A host of a vendor's chat dialect; subclasses hold what differs. It is `Adaptable`."""

    forms: tuple[ReplyForm, ...]
    """Forms of the reply, from the strongest."""
    stream_reader: type[StreamReader]
    """Reads one stream."""
    longest_unstreamed_tokens: int | None = None
    """Longest reply that is not streamed if no one watches; None: no limit."""
    must_read_all = True
    """Whether a reply to a prompt that the host cut is worthless."""

    def __init__(self, base_url: str, api_key: str) -> None:
        super().__init__(base_url, api_key)
        self.is_vendors_own: bool = is_host_within(base_url, self.profile.vendor)
        self._shortest: PromptCount | None = None
        self._longest_tokens = 0

    @classmethod
    def connect(cls, model: str, settings: "Settings") -> Self:
        """Return a provider for the host in the settings; nothing is sent yet.

        Raises UsageError for a malformed base URL or key, AuthenticationFailed where a remote host
        would get no key.
        """
        access = vendor_access(settings, cls.name)
        host = host_of(access.base_url, setting=cls.profile.setting)
        return cls(access.base_url, usable_key(access, host=host, model=model))

    def fields(
        self, request: Request, capability: Capability, *, stream: bool
    ) -> dict[str, Any]:
        """Return the JSON body of a request to a host of this capability."""
        raise NotImplementedError

    def weaker(
        self, request: Request, capability: Capability, refusal: object
    ) -> Capability | None:
        """Return what to try after this error object; None if it names nothing that can be left
        out."""
        raise NotImplementedError

    def completion(
        self, reply: Mapping[str, Any], call: CallContext, limits: RateLimits
    ) -> Completion:
        """Return the completion in this reply object; raise the error it carries, or
        UnreadableResponse."""
        raise NotImplementedError

    async def context_tokens(self, model: str) -> int | None:
        """Return the longest input, if the host reports it."""
        raise NotImplementedError

    def adopt(self, capability: Capability) -> None:
        """Ask from now on in this form and without these fields."""
        self._capability = capability

    def headers(self) -> dict[str, str]:
        """Return the authentication headers; without a key, a host on this machine gets a dummy."""
        named = headers_of_environment(self.name, is_vendors_own=self.is_vendors_own)
        return {"Authorization": f"Bearer {self.key or DUMMY_KEY}", **named}

    def body(self, request: Request) -> bytes:
        """Return the JSON body of a request as it would be sent now, not streamed."""
        return msgspec.json.encode(self.fields(request, self._capability, stream=False))

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Make one attempt within `request.timeout_s`; fields that the host refuses are left out
        from then on."""
        async with self.deadline(request.timeout_s):
            completion = await self._send_adapting(request, on_text)
        counts_cached = self._capability.reports_cached_tokens
        return self.read_whole(request, completion, counts_cached=counts_cached)

    async def _send_adapting(self, request: Request, on_text: OnText | None) -> Completion:
        """Send, and retry without fields that the host refuses, until none is left to drop."""
        longest = self.longest_unstreamed_tokens
        if longest is not None and request.max_output_tokens > longest:
            on_text = on_text or (lambda piece: None)
        call = CallContext(self.host, self.key, request.model, request)
        while True:
            used = self._capability
            try:
                with expecting_tokens(request.max_output_tokens):
                    return await self._ask(request, call, on_text)
            except self.caught as error:
                if is_declined(error_body(error)):
                    return declined(request.model)
                # another call may have found a weaker form meanwhile; then try that one first
                now = self._capability
                is_weaker = (now.reply_form, now.without) != (used.reply_form, used.without)
                if not is_weaker and not self._drop_refused_fields(request, error):
                    raise self.translated(error, call) from error

    async def _ask(
        self, request: Request, call: CallContext, on_text: OnText | None
    ) -> Completion:
        if on_text is None:
            received = await self.send(self.profile.path, self.body(request))
            return self._read(received.data, received.headers, call)
        body = msgspec.json.encode(self.fields(request, self._capability, stream=True))
        sent = self.open_reply("POST", self.profile.path, body, headers=JSON_BODY)
        async with sent as reply:
            if reply.is_event_stream:
                return await self._read_stream(reply.pieces(), reply.headers, call, on_text)
            # Some hosts do not stream, and answer whole.
            completion = self._read(await reply.read(), reply.headers, call)
            on_text(completion.text)
            return completion

    async def _read_stream(
        self,
        pieces: AsyncGenerator[bytes, None],
        headers: Mapping[str, str],
        call: CallContext,
        on_text: OnText,
    ) -> Completion:
        """Read a stream to its end.

        Shown text cannot be retracted, so the stream is never reopened.
        """
        cleaner = StreamCleaner(secret=self.key, on_text=on_text)
        reader = self.stream_reader(call, cleaner.add)
        try:
            async with aclosing(event_data(pieces)) as events:
                async for data in events:
                    if data.strip() == END_OF_STREAM:
                        break
                    if not data.strip():
                        continue  # sent by some hosts to keep the connection open
                    event = json.loads(data)
                    if not isinstance(event, Mapping):
                        raise self.profile.unreadable(
                            "a stream of something other than objects", call
                        )
                    if is_declined(error_within(event)):
                        if not reader.pieces and reader.usage is None:
                            return declined(call.model)
                        reader.finish = Finish.REFUSAL
                        break
                    reader.take(event)
                    if reader.is_over:
                        break
        except (ValueError, RecursionError) as error:
            raise self.profile.unreadable("a stream whose events are not JSON", call) from error
        if reader.finish is None:
            raise self.profile.stream_ended(call)
        cleaner.end()
        text = "".join(reader.pieces)
        limits = self.rate_limits(headers)
        completion = make_completion(
            call, text, reader.finish, reader.usage, model=reader.model, limits=limits
        )
        self._learn(call.model, completion, reports_cached=reader.counts_cached)
        return clean_completion(completion, secret=self.key)

    def _read(self, data: bytes, headers: Mapping[str, str], call: CallContext) -> Completion:
        reply = json_object(data, headers, self.profile, call)
        if is_declined(error_within(reply)):
            return declined(call.model)
        completion = self.completion(reply, call, self.rate_limits(headers))
        self._learn(
            call.model,
            completion,
            reports_cached=cached_count(sub_object(reply, "usage")) is not None,
        )
        return clean_completion(completion, secret=self.key)

    def _learn(self, model: str, completion: Completion, *, reports_cached: bool) -> None:
        """Learn from this reply what the host supports."""
        capability = self.learned(model)
        self._capability = replace(
            capability,
            reports_usage=completion.usage_reported,
            reports_cached_tokens=reports_cached,
            limits=completion.limits or capability.limits,
        )

    def _drop_refused_fields(self, request: Request, error: Exception) -> bool:
        """Drop the fields that this refusal names; False if it names none that can be dropped."""
        if getattr(error, "status_code", None) not in FIELD_REFUSAL_STATUSES:
            return False
        weaker = self.weaker(request, self._capability, error_body(error))
        self._capability = weaker or self._capability
        return weaker is not None

    def read_whole(
        self, request: Request, completion: Completion, *, counts_cached: bool
    ) -> Completion:
        """Return the reply to a prompt that was read whole; where the host counts too little, at
        our estimate.

        counts_cached: whether the host says what its cache served, so that nothing can be missing
            from its count.

        Raises PromptCut where it cut the prompt silently; the vendor's own answers 400 instead.
        """
        if self.is_vendors_own or not completion.usage_reported or not self.must_read_all:
            return completion
        read = count_prompt(request, completion.usage.input_tokens)
        context = self._capability.context_tokens
        if not is_prompt_cut(request, read, context_tokens=context, shortest=self._shortest):
            if self._shortest is None or read.chars < self._shortest.chars:
                self._shortest = read
            self._longest_tokens = max(self._longest_tokens, read.tokens)
            return completion
        if not counts_cached and is_cache_uncounted(
            request,
            completion,
            host=self.host,
            context_tokens=context,
            longest=self._longest_tokens,
        ):
            usage = replace(completion.usage, input_tokens=request.input_tokens)
            return replace(completion, usage=usage, usage_reported=False)
        raise PromptCut(
            f"{self.host} read {read.tokens:,} tokens of about {request.input_tokens:,}: it cut the"
            " prompt",
            hint=self.profile.hint_for(PromptTooLong, self.host, request.model),
        )


def declined(model: str) -> Completion:
    """Return the completion of a prompt that the host declined: not read, so not charged."""
    return Completion(
        text="", finish=Finish.REFUSAL, usage=Usage(), model=model, usage_reported=False
    )


def prompt_content(
    request: Request, *, mark: Mapping[str, Any] | None
) -> str | list[dict[str, Any]]:
    """Join the parts of the prompt. mark: fields set at the end of what is stable over turns; None:
    no mark."""
    if mark is None or not 0 < request.stable_parts <= len(request.content):
        return "\n\n".join(request.content)
    stable = "\n\n".join(request.content[: request.stable_parts])
    rest = "\n\n".join(request.content[request.stable_parts :])
    parts = [{"type": "text", "text": stable, **mark}]
    if rest:
        return [*parts, {"type": "text", "text": "\n\n" + rest}]
    return parts


SCORE_MAX = 100
SCHEMA_NAME = "judgments"


@lru_cache(maxsize=256)
def reply_schema(
    ids: tuple[str, ...],
    *,
    questions: tuple[str, ...] = (),
    bounds: bool = True,
    refs: bool = False,
) -> dict[str, Any]:
    """Return the schema for these ids; shared between calls, so not to be changed.

    questions: codes of those that share the prompt, each of which scores every id; none: the prompt
        has one turn.
    bounds: state 0..100 in the schema. Leave it out for hosts that answer 400 to numeric bounds.
    refs: define the score, and the scores of a question, once and refer to them.
    """
    score = (
        {"type": "integer", "minimum": 0, "maximum": SCORE_MAX}
        if bounds
        else {"type": "integer"}
    )
    scores = _object(dict.fromkeys(ids, {"$ref": "#/$defs/score"} if refs else score))
    if questions:
        named = {"q": {"type": "string", "enum": list(questions)}}
    else:
        named = {}
    reason = _object(
        named | {"id": {"type": "string", "enum": list(ids)}, "reason": {"type": "string"}}
    )
    by_question = _object(
        dict.fromkeys(questions, {"$ref": "#/$defs/scores"} if refs else scores)
    )
    schema = _object(
        {
            "scores": by_question if questions else scores,
            "reasons": {"type": "array", "items": reason},
        }
    )
    if refs:
        schema["$defs"] = {"score": score} | ({"scores": scores} if questions else {})
    return schema


@lru_cache(maxsize=256)
def response_format(
    ids: tuple[str, ...], questions: tuple[str, ...] = (), *, refs: bool = False
) -> dict[str, Any]:
    """Return the strict `response_format` of the OpenAI dialect; shared between calls."""
    schema = reply_schema(ids, questions=questions, refs=refs)
    return {
        "type": "json_schema",
        "json_schema": {"name": SCHEMA_NAME, "strict": True, "schema": schema},
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
