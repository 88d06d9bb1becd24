"""A streamed reply in the OpenAI dialect: one chunk at a time; `stream_reading` gathers them.

The trade-off: a chunk of a kind that is not known is passed over, since hosts add their own.
"""

from collections.abc import Mapping
from typing import Any

from xscore.providers import openai_reply as reply
from xscore.providers.provider import OnText
from xscore.providers.reply_facts import section
from xscore.providers.stream_reading import ShownText
from xscore.records import Finish, Request, Usage


class StreamedReply:
    """The state of one streamed reply."""

    def __init__(self, request: Request, *, host: str, secret: str, on_text: OnText) -> None:
        self.shown = ShownText(on_text)
        self.model = request.model
        self.usage: Usage | None = None
        self._request = request
        self._host = host
        self._secret = secret
        self._reason = ""
        self._refused = False

    @property
    def finish(self) -> Finish | None:
        """How it ended; None: not yet."""
        return reply.finish_of(self._reason, refused=self._refused) if self._reason else None

    def take(self, event: Mapping[str, Any]) -> None:
        """Take the next chunk; raise the error that it carries."""
        self.usage = reply.reported_usage(event.get("usage")) or self.usage
        self.model = str(event.get("model") or self.model)
        reply.raise_inner(event.get("error"), self._request, host=self._host, secret=self._secret)
        if not event.get("choices"):
            return  # the last chunk carries usage only
        choice = reply.only_choice(event, self._request, host=self._host, secret=self._secret)
        delta = section(choice, "delta")
        self._refused = self._refused or bool(delta.get("refusal"))
        self.shown.add(delta.get("content"))
        self._reason = str(choice.get("finish_reason") or self._reason)
