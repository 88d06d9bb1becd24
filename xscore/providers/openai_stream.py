"""A streamed reply in the OpenAI dialect, gathered piece by piece into one Completion.

Text goes to the caller as it comes. A stream that ends without saying how it finished has broken off. It does not
reconnect: what was shown cannot be taken back, so the caller decides.
"""

from collections.abc import AsyncIterator, Mapping

from xscore.errors import ConnectionFailed, UnreadableResponse
from xscore.providers import openai_reply as reply
from xscore.providers.openai_errors import hint_for
from xscore.providers.provider import OnText
from xscore.providers.reply_facts import estimated_usage
from xscore.records import Completion, Finish, RateLimits, Request, Usage


class StreamedReply:
    """The state of one streamed reply."""

    def __init__(self, request: Request, *, host: str, secret: str, on_text: OnText) -> None:
        self._request = request
        self._host = host
        self._secret = secret
        self._on_text = on_text
        self._pieces: list[str] = []
        self._finish: Finish | None = None
        self._refused = False
        self._usage: Usage | None = None
        self._model = request.model

    async def gather(self, chunks: AsyncIterator[object], limits: RateLimits) -> Completion:
        """Read the stream to its end.

        Raises ConnectionFailed when it ends unfinished, UnreadableResponse for what is not the dialect, or the
        error that a chunk carries.
        """
        try:
            async for chunk in chunks:
                self._take(chunk)
        except (ValueError, RecursionError) as error:
            raise self._unreadable("a stream whose events are not JSON") from error
        if self._finish is None:
            raise ConnectionFailed(
                f"the stream from {self._host} ended before its reply was whole",
                hint=hint_for(ConnectionFailed, self._host, self._model),
            )
        text = "".join(self._pieces)
        return Completion(
            text=text,
            finish=Finish.REFUSAL if self._refused else self._finish,
            usage=self._usage or estimated_usage(self._request, text),
            model=self._model,
            usage_reported=self._usage is not None,
            limits=limits,
        )

    def _take(self, chunk: object) -> None:
        if not isinstance(chunk, Mapping):
            raise self._unreadable("a stream of something else than objects")
        self._usage = reply.reported_usage(chunk.get("usage")) or self._usage
        self._model = str(chunk.get("model") or self._model)
        reply.raise_inner(chunk.get("error"), self._request, host=self._host, secret=self._secret)
        if not chunk.get("choices"):
            return  # the last chunk carries usage only
        choice = reply.only_choice(chunk, self._request, host=self._host, secret=self._secret)
        delta = choice.get("delta")
        if isinstance(delta, Mapping):
            self._take_delta(delta)
        if choice.get("finish_reason"):
            self._finish = reply.FINISH.get(str(choice["finish_reason"]), Finish.STOP)

    def _take_delta(self, delta: Mapping[str, object]) -> None:
        self._refused = self._refused or bool(delta.get("refusal"))
        piece = delta.get("content")
        if isinstance(piece, str) and piece:
            self._pieces.append(piece)
            self._on_text(piece)

    def _unreadable(self, what: str) -> UnreadableResponse:
        hint = hint_for(UnreadableResponse, self._host, self._model)
        return UnreadableResponse(f"{self._host} answered 200 with {what}", hint=hint)
