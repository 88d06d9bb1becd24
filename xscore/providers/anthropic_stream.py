"""A streamed reply in the Anthropic dialect: one event at a time; `stream_reading` gathers them.

Thinking is not shown. The trade-off: an event of a kind that is not known is passed over, as the API asks of clients.
"""

from collections.abc import Mapping
from typing import Any

from xscore.providers import anthropic_reply as reply
from xscore.providers.provider import OnText
from xscore.providers.reply_facts import section
from xscore.providers.stream_reading import ShownText
from xscore.records import Finish, Request, Usage


class StreamedReply:
    """The state of one streamed reply."""

    def __init__(self, request: Request, *, host: str, secret: str, on_text: OnText) -> None:
        self.shown = ShownText(on_text)
        self.model = request.model
        self.finish: Finish | None = None
        self._request = request
        self._host = host
        self._secret = secret
        self._stated: dict[str, object] = {}

    @property
    def usage(self) -> Usage | None:
        """What the host reports; None: nothing, or no sense."""
        return reply.reported_usage(self._stated)

    def take(self, event: Mapping[str, Any]) -> None:
        """Take the next event; raise the error that it carries."""
        reply.raise_inner(event, self._request, host=self._host, secret=self._secret)
        match event.get("type"):
            case "message_start":
                message = section(event, "message")
                self.model = str(message.get("model") or self.model)
                self._count(section(message, "usage"))
            case "content_block_start":
                self.shown.add(reply.text_of(event.get("content_block")))
            case "content_block_delta":
                delta = section(event, "delta")
                self.shown.add(delta.get("text") if delta.get("type") == "text_delta" else None)
            case "message_delta":
                self._count(section(event, "usage"))
                reason = section(event, "delta").get("stop_reason")
                self.finish = reply.finish_of(reason) if reason else self.finish

    def _count(self, usage: Mapping[str, object]) -> None:
        """Keep the counts that are stated: later events repeat some cumulatively and leave others out."""
        self._stated |= {name: value for name, value in usage.items() if value is not None}
