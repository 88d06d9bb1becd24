"""The OpenAI dialect: what is its own in a call to a host that speaks it; `wire` does what every dialect does.

The trade-off: replies are read as plain JSON, so a field that the SDK renames must be renamed in `openai_reply`.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from xscore.errors import ProviderError
from xscore.providers import context_length, openai_reply
from xscore.providers.connection import Sdk
from xscore.providers.credentials import DUMMY_KEY, usable_key
from xscore.providers.hosts import host_of, is_loopback, is_within
from xscore.providers.openai_errors import OPENAI
from xscore.providers.openai_request import Taken, body, weaker
from xscore.providers.openai_stream import StreamedReply
from xscore.providers.provider import OnText
from xscore.providers.transport import Route
from xscore.providers.wire import Look, Replies, WireProvider
from xscore.records import Capability, ReplyForm, Request
from xscore.settings import Settings

ACCOUNT_HEADERS = ("OpenAI-Organization", "OpenAI-Project")
"""The SDK fills these from the environment; they are the vendor's business and no other host's."""


def connect(model: str, settings: Settings) -> WireProvider:
    """Return a provider for the host in the settings; nothing is sent yet.

    Raises UsageError for a base URL or key that is none, AuthenticationFailed where a remote host would get no key.
    """
    base_url = settings.openai.base_url
    key = usable_key(settings.openai, host=host_of(base_url, setting=OPENAI.setting), model=model)
    return WireProvider(OpenAIDialect(base_url), base_url=base_url, api_key=key)


class OpenAIDialect:
    """How hosts are spoken to that took OpenAI's chat completions for their own."""

    name = "openai"
    words = OPENAI
    replies: Replies = openai_reply
    forms: tuple[ReplyForm, ...] = tuple(ReplyForm)
    longest_unstreamed_tokens: int | None = None

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._official = is_within(base_url, OPENAI.vendor)

    def load(self, base_url: str, *, key: str, route: Route) -> Sdk:
        """Import the SDK and make a client."""
        from openai import AsyncOpenAI, AsyncStream, DefaultAioHttpClient, Omit, OpenAIError

        withheld: dict[str, Any] = {} if self._official else dict.fromkeys(ACCOUNT_HEADERS, Omit())
        http = route.client(DefaultAioHttpClient)
        client = AsyncOpenAI(
            api_key=key or DUMMY_KEY,
            base_url=base_url,
            max_retries=0,
            timeout=http.timeout,
            default_headers=withheld,
            http_client=http,
        )
        return Sdk(client, AsyncStream[object], OpenAIError)

    def body(self, request: Request, known: Capability, *, stream: bool) -> dict[str, Any]:
        """Return the JSON body of a request to a host that takes so much."""
        return body(request, self._taken(known), stream=stream)

    def weaker(self, request: Request, known: Capability, refusal: object) -> Capability | None:
        """Return what a host takes that refused with this error object; None: it names nothing to leave out."""
        left = weaker(self._taken(known), request, refusal)
        return replace(known, reply_form=left.form, without=tuple(sorted(left.without))) if left else None

    def streamed(self, request: Request, *, host: str, secret: str, on_text: OnText) -> StreamedReply:
        """Return the reader of one stream."""
        return StreamedReply(request, host=host, secret=secret, on_text=on_text)

    async def models(self, look: Look) -> tuple[str, ...]:
        """Return the names of the models that the host lists."""
        return context_length.names(await look("/models"))

    async def context_tokens(self, look: Look, model: str) -> int | None:
        """Return the longest input: as loaded, where the host tells, else as the model was made."""
        listing: Mapping[str, Any] = {}
        with suppress(ProviderError):
            listing = await look("/models")
        told = context_length.served(listing, model)
        if told is None and (is_loopback(host_of(self._base_url)) or self._base_url.startswith("http:")):
            told = await self._context_loaded(look, model)
        return told or context_length.trained(listing, model)

    async def _context_loaded(self, look: Look, model: str) -> int | None:
        """Ask a server on this machine or network, in the words of each that we know, what it has loaded."""
        parts = urlsplit(self._base_url)
        for path in context_length.LOCAL_PATHS:
            with suppress(ProviderError):
                told = context_length.loaded(await look(f"{parts.scheme}://{parts.netloc}{path}"), model)
                if told is not None:
                    return told
        return None

    def _taken(self, known: Capability) -> Taken:
        return Taken(official=self._official, form=known.reply_form, without=frozenset(known.without))
