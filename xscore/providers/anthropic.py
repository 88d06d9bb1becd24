"""The Anthropic dialect: what is its own in a call to a host that speaks it; `wire` does what every dialect does.

The trade-off: replies are read as plain JSON, so a field that the SDK renames must be renamed in `anthropic_reply`.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from xscore.errors import ProviderError
from xscore.providers import anthropic_reply, context_length
from xscore.providers.anthropic_errors import ANTHROPIC
from xscore.providers.anthropic_request import body, refuses_the_schema
from xscore.providers.anthropic_stream import StreamedReply
from xscore.providers.connection import Sdk
from xscore.providers.credentials import DUMMY_KEY, usable_key
from xscore.providers.hosts import host_of
from xscore.providers.provider import OnText
from xscore.providers.reply_facts import count
from xscore.providers.transport import Route
from xscore.providers.wire import Look, Replies, WireProvider
from xscore.records import Capability, ReplyForm, Request
from xscore.settings import Settings

LONGEST_UNSTREAMED_TOKENS = 21_333
"""A longer reply is streamed even if nobody watches: idle connections are closed after ten minutes, and the SDK's own
typed call refuses it."""


def connect(model: str, settings: Settings) -> WireProvider:
    """Return a provider for the host in the settings; nothing is sent yet.

    Raises UsageError for a base URL or key that is none, AuthenticationFailed where a remote host would get no key.
    """
    base_url = settings.anthropic.base_url
    key = usable_key(settings.anthropic, host=host_of(base_url, setting=ANTHROPIC.setting), model=model)
    return WireProvider(AnthropicDialect(), base_url=base_url, api_key=key)


class AnthropicDialect:
    """How hosts are spoken to that answer Anthropic's messages."""

    name = "anthropic"
    words = ANTHROPIC
    replies: Replies = anthropic_reply
    forms: tuple[ReplyForm, ...] = (ReplyForm.JSON_SCHEMA, ReplyForm.TEXT)
    longest_unstreamed_tokens: int | None = LONGEST_UNSTREAMED_TOKENS

    def load(self, base_url: str, *, key: str, route: Route) -> Sdk:
        """Import the SDK and make a client."""
        from anthropic import AnthropicError, AsyncAnthropic, AsyncStream, DefaultAioHttpClient

        http = route.client(DefaultAioHttpClient)
        client = AsyncAnthropic(api_key=key or DUMMY_KEY, base_url=base_url, max_retries=0, http_client=http)
        return Sdk(client, AsyncStream[object], AnthropicError)

    def body(self, request: Request, known: Capability, *, stream: bool) -> dict[str, Any]:
        """Return the JSON body of a request to a host that takes so much."""
        return body(request, stream=stream, form=known.reply_form)

    def weaker(self, request: Request, known: Capability, refusal: object) -> Capability | None:
        """Return what a host takes that refused the schema with this error object; None: it was not the schema."""
        if known.reply_form is not ReplyForm.JSON_SCHEMA or not refuses_the_schema(request, refusal):
            return None
        return replace(known, reply_form=ReplyForm.TEXT)

    def streamed(self, request: Request, *, host: str, secret: str, on_text: OnText) -> StreamedReply:
        """Return the reader of one stream."""
        return StreamedReply(request, host=host, secret=secret, on_text=on_text)

    async def models(self, look: Look) -> tuple[str, ...]:
        """Return the names of the models that the host lists."""
        return context_length.names(await look("/v1/models?limit=1000"))

    async def context_tokens(self, look: Look, model: str) -> int | None:
        """Return the longest input, where the host tells."""
        with suppress(ProviderError):
            told = await look(f"/v1/models/{quote(model, safe='')}")
            return count(told.get("max_input_tokens")) or context_length.served({"data": [told]}, model)
        return None
