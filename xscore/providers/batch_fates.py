"""What became of a request of a batch, whichever vendor's: an answer read as the live one is, or which failure. Pure.

Nothing that a host says in sentences is passed on: what was sent is not at hand here, so an echo of it could not be
told. Names of causes that we know are. The trade-off: a cause without a known name is shown by its status alone.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from xscore.errors import PromptTooLong, ProviderError, RequestRejected, UnreadableResponse
from xscore.providers.clean_text import cleaned
from xscore.providers.wire_errors import Vocabulary, unwrapped
from xscore.records import Completion, Finish, RateLimits, Request, Stage, Usage
from xscore.records.offline import BatchResult, Fate

BARE = "a success without a reply"


class Reading(Protocol):
    """What reads a live reply of the dialect."""

    def completion(
        self, found: Mapping[str, Any], request: Request, *, host: str, secret: str, limits: RateLimits
    ) -> Completion:
        """Return the completion in this reply object; raise the error it carries, or UnreadableResponse."""


def answered(
    custom_id: str, body: Mapping[str, Any], *, replies: Reading, model: str, host: str, secret: str
) -> BatchResult:
    """Return the result of a request whose reply this body is."""
    request = Request(
        stage=Stage.JUDGE,
        model=model,
        system="",
        content=(),
        max_output_tokens=0,
        input_tokens=0,
        reserved_input_tokens=0,
    )
    try:
        found = replies.completion(body, request, host=host, secret=secret, limits=RateLimits())
    except ProviderError as error:
        return BatchResult(
            custom_id=custom_id,
            fate=_fate(type(error)),
            detail=BARE,
            tells=(error.kind,),
            is_charged=isinstance(error, UnreadableResponse),
        )
    return BatchResult(custom_id=custom_id, fate=Fate.ANSWERED, completion=cleaned(found, secret=secret))


def unreadable(custom_id: str = "") -> BatchResult:
    """Return the result of a request that the host says it answered, and whose reply is none; no id: of any."""
    return BatchResult(custom_id=custom_id, fate=Fate.ERRED, detail=BARE, is_charged=True)


def failed(custom_id: str, body: object, *, words: Vocabulary, model: str, status: int | None = None) -> BatchResult:
    """Return the result of a request that was answered with this error body. status: where the host states it."""
    error = unwrapped(body)
    names = words.known_names(error)
    if words.refusal_codes.intersection(names):
        declined = Completion(text="", finish=Finish.REFUSAL, usage=Usage(), model=model, usage_reported=False)
        return BatchResult(custom_id=custom_id, fate=Fate.ANSWERED, completion=declined)
    kind = words.kept_kind(error, status=status)
    said = ", ".join(filter(None, ("" if status is None else str(status), *dict.fromkeys(names))))
    return BatchResult(
        custom_id=custom_id, fate=_fate(kind), detail=f"answered {said or 'an error'}", tells=(kind.kind,)
    )


def _fate(kind: type[ProviderError]) -> Fate:
    return Fate.REFUSED if issubclass(kind, (PromptTooLong, RequestRejected)) else Fate.ERRED
