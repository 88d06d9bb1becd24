"""A streamed reply in the Anthropic dialect, gathered event by event into one Completion.

Text goes to the caller as it comes; thinking does not. A stream that ends without a stop reason has broken off. It does
not reconnect: what was shown cannot be taken back, so the caller decides.
"""

from collections.abc import AsyncIterator, Mapping

from xscore.errors import UnreadableResponse
from xscore.providers import anthropic_reply as reply
from xscore.providers.anthropic_errors import ANTHROPIC
from xscore.providers.provider import OnText
from xscore.providers.reply_facts import estimated_usage, section
from xscore.records import Completion, Finish, RateLimits, Request


class StreamedReply:
    """The state of one streamed reply."""

    def __init__(self, request: Request, *, host: str, secret: str, on_text: OnText) -> None:
        self._request = request
        self._host = host
        self._secret = secret
        self._on_text = on_text
        self._pieces: list[str] = []
        self._finish: Finish | None = None
        self._usage: dict[str, object] = {}
        self._model = request.model

    async def gather(self, events: AsyncIterator[object], limits: RateLimits) -> Completion:
        """Read the stream to its end.

        Raises ConnectionFailed when it ends unfinished, UnreadableResponse for what is not the dialect, or the error
        that an event carries.
        """
        try:
            async for event in events:
                self._take(event)
        except (ValueError, RecursionError) as error:
            raise self._unreadable("a stream whose events are not JSON") from error
        if self._finish is None:
            raise ANTHROPIC.broken_off(host=self._host, model=self._model)
        text = "".join(self._pieces)
        usage = reply.reported_usage(self._usage)
        return Completion(
            text=text,
            finish=self._finish,
            usage=usage or estimated_usage(self._request, text),
            model=self._model,
            usage_reported=usage is not None,
            limits=limits,
        )

    def _take(self, event: object) -> None:
        if not isinstance(event, Mapping):
            raise self._unreadable("a stream of something else than objects")
        reply.raise_inner(event, self._request, host=self._host, secret=self._secret)
        match event.get("type"):
            case "message_start":
                message = section(event, "message")
                self._model = str(message.get("model") or self._model)
                self._usage |= _stated(section(message, "usage"))
            case "content_block_start":
                self._show(reply.text_of(event.get("content_block")))
            case "content_block_delta":
                delta = section(event, "delta")
                self._show(str(delta.get("text", "")) if delta.get("type") == "text_delta" else "")
            case "message_delta":
                self._usage |= _stated(section(event, "usage"))
                reason = section(event, "delta").get("stop_reason")
                self._finish = reply.finish_of(reason) if reason else self._finish

    def _show(self, piece: str) -> None:
        if piece:
            self._pieces.append(piece)
            self._on_text(piece)

    def _unreadable(self, what: str) -> UnreadableResponse:
        return ANTHROPIC.unreadable(what, host=self._host, model=self._model)


def _stated(usage: Mapping[str, object]) -> dict[str, object]:
    """Return the counts that are stated: later events repeat some cumulatively and leave others out."""
    return {name: value for name, value in usage.items() if value is not None}
