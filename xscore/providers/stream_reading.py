"""A streamed reply, gathered event by event into one Completion, whatever the dialect.

Text goes to the caller as it comes. A stream that ends without saying how it finished has broken off. A dialect brings
a `StreamedReply` that takes one event at a time. The trade-off: it does not reconnect, because what was shown cannot
be taken back, so the caller decides.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from xscore.providers.provider import OnText
from xscore.providers.reply_facts import estimated_usage
from xscore.providers.wire_errors import Vocabulary
from xscore.records import Completion, Finish, RateLimits, Request, Usage


class StreamedReply(Protocol):
    """The state of one streamed reply in one dialect."""

    shown: "ShownText"
    model: str
    """As the host names it, once it does."""

    @property
    def finish(self) -> Finish | None:
        """How it ended; None: not yet."""

    @property
    def usage(self) -> Usage | None:
        """What the host reports; None: nothing, or no sense."""

    def take(self, event: Mapping[str, Any]) -> None:
        """Take the next event; raise the error that it carries."""


class ShownText:
    """Text that the caller sees piece by piece."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._pieces: list[str] = []

    def add(self, piece: object) -> None:
        """Show a piece; what is no text, or empty, is none."""
        if isinstance(piece, str) and piece:
            self._pieces.append(piece)
            self._on_text(piece)

    def whole(self) -> str:
        """Return all of it."""
        return "".join(self._pieces)


async def gather(
    events: AsyncIterator[object],
    reply: StreamedReply,
    request: Request,
    *,
    words: Vocabulary,
    host: str,
    limits: RateLimits,
) -> Completion:
    """Read the stream to its end.

    Raises ConnectionFailed when it ends unfinished, UnreadableResponse for what is not the dialect, or the error that
    an event carries.
    """
    try:
        async for event in events:
            if not isinstance(event, Mapping):
                raise words.unreadable("a stream of something else than objects", host=host, model=request.model)
            reply.take(event)
    except (ValueError, RecursionError) as error:
        raise words.unreadable("a stream whose events are not JSON", host=host, model=request.model) from error
    if reply.finish is None:
        raise words.broken_off(host=host, model=request.model)
    text, usage = reply.shown.whole(), reply.usage
    return Completion(
        text=text,
        finish=reply.finish,
        usage=usage or estimated_usage(request, text),
        model=reply.model,
        usage_reported=usage is not None,
        limits=limits,
    )
