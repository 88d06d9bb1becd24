"""Every way xscore can fail, as one tree.

    XscoreError                      70  internal
    ├── NothingMatched                1  no memory is what was named
    ├── UsageError                    2  the command or a setting is wrong
    ├── NoUsableModel                 3  no key, no such model, or nothing could be judged
    ├── BudgetExhausted               4  the next call would pass the cap
    ├── GateFailed                    5  a check against a baseline failed
    ├── StoreError                    6  the store cannot be used
    │   ├── SharedUnavailable         6  the shared server cannot be asked
    │   ├── StoreUntrusted            6  it was made elsewhere
    │   └── StoreDamaged              6  its bytes are wrong
    ├── BrokenReceipt                70  the candidates do not add up
    └── ProviderError                 3  a model call failed
        ├── NotSent                      the run was stopped before its turn came
        ├── RateLimited                  retryable, may carry a minimum wait
        ├── Overloaded                   retryable
        ├── ConnectionFailed             retryable, may have been charged
        │   └── Unreachable              retryable, nothing was sent
        ├── CallTimedOut                 retryable, may have been charged
        ├── UnreadableResponse           retryable, may have been charged
        ├── QuotaExhausted               stops the run
        ├── AuthenticationFailed         stops the run
        ├── UnknownModel                 stops the run
        ├── NoBatchApi                   stops the run
        ├── RequestRejected              this request will never pass
        └── PromptTooLong                this request will never pass
            └── PromptCut                this request will never pass, may have been charged

A leaf says in one sentence what happened and where; `hint` says what to do next. Whether a call may be tried again
(`retryable`), whether trying others is pointless (`stops_run`) and whether the host may have charged for it
(`may_be_charged`) are facts of the type, never of a message.
This module does not format for the terminal and knows no SDK; adapters translate into it.
"""

from typing import ClassVar


class XscoreError(Exception):
    """Root of the tree; raised bare only for a broken invariant of our own."""

    exit_code: ClassVar[int] = 70
    kind: ClassVar[str] = "internal"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NothingMatched(XscoreError):
    """Nothing in the store is what was named or asked for; the store is as it was."""

    exit_code = 1
    kind = "nothing_matched"


class UsageError(XscoreError):
    """The command line, a setting or an argument cannot be used as given."""

    exit_code = 2
    kind = "usage"


class NoUsableModel(XscoreError):
    """No model can be called, or none of the candidates could be judged."""

    exit_code = 3
    kind = "no_usable_model"


class BudgetExhausted(XscoreError):
    """The next call could pass the dollar cap; what was judged is kept."""

    exit_code = 4
    kind = "budget"


class GateFailed(XscoreError):
    """A figure is worse than its baseline allows."""

    exit_code = 5
    kind = "gate"


class StoreError(XscoreError):
    """The store cannot be opened, read or written."""

    exit_code = 6
    kind = "store"


class SharedUnavailable(StoreError):
    """The server on which judgments, limits and dollars are shared cannot be asked."""

    kind = "shared_unavailable"


class StoreUntrusted(StoreError):
    """The store was not made by this user at this place, so its judgments may be planted."""

    kind = "store_untrusted"


class StoreDamaged(StoreError):
    """The database fails its own integrity check or has an unknown schema."""

    kind = "store_damaged"


class BrokenReceipt(XscoreError):
    """Candidates are not the sum of judged, cached, carried and unjudged."""

    kind = "broken_receipt"


class ProviderError(XscoreError):
    """A call to a model failed."""

    exit_code = 3
    kind = "provider"
    retryable: ClassVar[bool] = False
    stops_run: ClassVar[bool] = False
    may_be_charged: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class NotSent(ProviderError):
    """The run was stopped while the call waited for its turn; nothing was sent."""

    kind = "not_sent"


class RateLimited(ProviderError):
    """429: too many requests or tokens a minute."""

    kind = "rate_limited"
    retryable = True


class Overloaded(ProviderError):
    """5xx, 529: the provider cannot serve now."""

    kind = "overloaded"
    retryable = True


class ConnectionFailed(ProviderError):
    """The connection broke before the whole reply was here."""

    kind = "connection"
    retryable = True
    may_be_charged = True


class Unreachable(ConnectionFailed):
    """No connection could be made, so nothing was sent."""

    kind = "unreachable"
    may_be_charged = False


class CallTimedOut(ProviderError):
    """The deadline of one call passed; it may have been paid for."""

    kind = "timeout"
    retryable = True
    may_be_charged = True


class UnreadableResponse(ProviderError):
    """A success status with a body that is not the dialect's (HTML, `{}`, an error object)."""

    kind = "unreadable_response"
    retryable = True
    may_be_charged = True


class QuotaExhausted(ProviderError):
    """The account is out of money or past its spending limit."""

    kind = "quota"
    stops_run = True


class AuthenticationFailed(ProviderError):
    """The key is missing, wrong or not allowed."""

    kind = "authentication"
    stops_run = True


class UnknownModel(ProviderError):
    """The host does not serve this model."""

    kind = "unknown_model"
    stops_run = True


class NoBatchApi(ProviderError):
    """The host serves no Batch API: nothing of the batch came to be there."""

    kind = "no_batch_api"
    stops_run = True


class RequestRejected(ProviderError):
    """400-class: the host will not take this request."""

    kind = "rejected"


class PromptTooLong(ProviderError):
    """The prompt does not fit the model's context."""

    kind = "prompt_too_long"


class PromptCut(PromptTooLong):
    """The host answered, but had cut the prompt in silence; its reply is not believed."""

    kind = "prompt_cut"
    may_be_charged = True


def error_kinds() -> dict[str, type[ProviderError]]:
    """Return ProviderError and its leaves by their kind."""
    kinds: dict[str, type[ProviderError]] = {}
    waiting: list[type[ProviderError]] = [ProviderError]
    while waiting:
        found = waiting.pop()
        kinds[found.kind] = found
        waiting += found.__subclasses__()
    return kinds
