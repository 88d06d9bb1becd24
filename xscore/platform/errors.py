"""Every way xscore can fail, as one tree.

    XscoreError                      70  internal
    ├── NothingMatched                1  no memory matches
    ├── UsageError                    2  the command or a setting is wrong
    ├── NoUsableModel                 3  no key, no such model, or nothing could be judged
    ├── BudgetExhausted               4  the next call would pass the cap
    ├── GateFailed                    5  a check against a baseline failed
    ├── StoreError                    6  the store cannot be used
    │   ├── SharedUnavailable         6  the shared server cannot be reached
    │   ├── StoreUntrusted            6  it was made elsewhere
    │   ├── StoreTooNew               6  a newer xscore made it
    │   └── StoreDamaged              6  its bytes are wrong
    ├── NotFetched                    1  a document cannot be fetched or read
    ├── SourceFailed                  1  the caller's own iterator raised
    ├── BrokenReceipt                70  the candidates do not add up
    └── ProviderError                 3  a model call failed
        ├── NotSent                      the run was stopped first
        ├── RateLimited                  retryable, may carry a minimum wait
        ├── Overloaded                   retryable
        ├── ConnectionFailed             retryable, may have been charged
        │   └── Unreachable              retryable, nothing was sent
        │       └── TlsFailed            it will fail again, nothing was sent
        ├── CallTimedOut                 retryable, may have been charged
        ├── UnreadableResponse           retryable, may have been charged
        ├── QuotaExhausted               stops the run
        ├── AuthenticationFailed         stops the run
        ├── UnknownModel                 stops the run
        ├── NoBatchApi                   stops the run
        ├── NotRecorded                  stops the run, nothing was sent
        ├── RequestRejected              this request will never pass
        └── PromptTooLong                this request will never pass
            └── PromptCut                this request will never pass, may have been charged

A message says in one sentence what happened and where; `hint` says what to do next. Whether a call
may be retried (`retryable`), whether other calls are pointless too (`stops_run`) and whether the
host may have charged for it (`may_be_charged`) are facts of the type, never of a message.
This module does not format for the terminal and knows no client of a host; adapters translate what
those raise into these.
"""

from enum import IntEnum
from typing import Any, ClassVar

INSTALL_FROM = "."
"""What hints give to `pip install`: the checkout, until the package is published under a name of
our own."""


def install_hint(extra: str) -> str:
    """Return the hint for a feature whose optional packages are missing."""
    return (
        f"In the checkout: `pip install '{INSTALL_FROM}[{extra}]'`, or a release's wheel in place"
        " of the dot."
    )


class ExitCode(IntEnum):
    """How a command ends; `cli.failures` has the words."""

    DONE = 0
    PARTLY = 1
    USAGE = 2
    NOTHING_JUDGED = 3
    BUDGET = 4
    GATE = 5
    STORE = 6
    NO_ANSWER = 7
    INTERNAL = 70
    INTERRUPTED = 130


class XscoreError(Exception):
    """Root of the tree; raised bare only for a broken invariant of our own."""

    exit_code: ClassVar[int] = ExitCode.INTERNAL
    kind: ClassVar[str] = "internal"
    receipt: Any = None
    """What was done and spent before the error; None if nothing was sent."""
    judged: Any = None
    """What `xscore.judge` had judged before the error, as it would have returned it."""

    def __init_subclass__(
        cls, *, kind: str, exit_code: int | None = None, **facts: bool
    ) -> None:
        cls.kind = kind
        cls.exit_code = cls.exit_code if exit_code is None else exit_code
        for name, value in facts.items():
            setattr(cls, name, value)

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NothingMatched(XscoreError, kind="nothing_matched", exit_code=ExitCode.PARTLY):
    """Nothing in the store matches what was named; the store is unchanged."""


class UsageError(XscoreError, kind="usage", exit_code=ExitCode.USAGE):
    """The command line, a setting or an argument cannot be used as given."""


def newer_file_error(name: str, version: int, readable: int) -> UsageError:
    """Return the error for a file whose form has a higher number than this xscore reads; it is not
    touched."""
    return UsageError(
        f"{name} was made by a newer xscore (schema {version}; this one reads {readable})",
        hint="Upgrade xscore, or create the file again with this one.",
    )


def require_kind(*kinds: Any, **arguments: object) -> None:
    """Raise UsageError unless each argument, given by its name, is of one of these types; None is
    `type(None)`."""
    for name, value in arguments.items():
        if not isinstance(value, kinds):
            names = " or ".join(kind.__name__ for kind in kinds if kind is not type(None))
            raise UsageError(f"`{name}` is a `{type(value).__name__}`", hint=f"Give a {names}.")


class NoUsableModel(XscoreError, kind="no_usable_model", exit_code=ExitCode.NOTHING_JUDGED):
    """No model can be called, or none of the candidates could be judged."""


class BudgetExhausted(XscoreError, kind="budget", exit_code=ExitCode.BUDGET):
    """The next call could exceed the dollar cap; judgments made so far are kept."""


class GateFailed(XscoreError, kind="gate", exit_code=ExitCode.GATE):
    """A figure is worse than its baseline allows."""


class StoreError(XscoreError, kind="store", exit_code=ExitCode.STORE):
    """The store cannot be opened, read or written."""


class SharedUnavailable(StoreError, kind="shared_unavailable"):
    """The server that shares judgments, limits and dollars cannot be reached."""


class StoreUntrusted(StoreError, kind="store_untrusted"):
    """The store was not made by this user at this place, so its judgments may be planted."""


class StoreTooNew(StoreError, kind="store_too_new"):
    """A newer xscore made the store, or migrated it while this one had it open; nothing was
    changed."""


class StoreDamaged(StoreError, kind="store_damaged"):
    """The database fails its own integrity check, or is not an xscore store."""


class NotFetched(XscoreError, kind="not_fetched", exit_code=ExitCode.PARTLY):
    """A document was not fetched: it may not be, cannot be reached, or holds nothing to read."""


class SourceFailed(XscoreError, kind="source", exit_code=ExitCode.PARTLY):
    """The iterator of items that the caller gave raised an error (`__cause__`); `judged` holds what
    came before."""


class BrokenReceipt(XscoreError, kind="broken_receipt"):
    """The candidates are not the sum of judged, cached, carried and unjudged."""


class ProviderError(XscoreError, kind="provider", exit_code=ExitCode.NOTHING_JUDGED):
    """A call to a model failed."""

    retryable: ClassVar[bool] = False
    stops_run: ClassVar[bool] = False
    may_be_charged: ClassVar[bool] = False

    def __init__(
        self, message: str, *, hint: str = "", retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class NotSent(ProviderError, kind="not_sent"):
    """The run was stopped while the call waited for its turn; nothing was sent."""


class RateLimited(ProviderError, kind="rate_limited", retryable=True):
    """429: too many requests or tokens a minute."""


class Overloaded(ProviderError, kind="overloaded", retryable=True):
    """5xx, 529: the provider cannot serve now."""


class ConnectionFailed(ProviderError, kind="connection", retryable=True, may_be_charged=True):
    """The connection broke before the whole reply arrived."""


class Unreachable(ConnectionFailed, kind="unreachable", may_be_charged=False):
    """No connection could be made, so nothing was sent."""


class TlsFailed(Unreachable, kind="tls", retryable=False):
    """The host answered, but no encrypted connection could be made: its certificate, or it speaks
    plain HTTP."""


class CallTimedOut(ProviderError, kind="timeout", retryable=True, may_be_charged=True):
    """The deadline of one call passed; it may have been paid for."""


class UnreadableResponse(
    ProviderError, kind="unreadable_response", retryable=True, may_be_charged=True
):
    """A success status with a body that is not in the dialect (HTML, `{}`, an error object)."""


class QuotaExhausted(ProviderError, kind="quota", stops_run=True):
    """The account is out of money or past its spending limit."""


class AuthenticationFailed(ProviderError, kind="authentication", stops_run=True):
    """The key is missing, wrong or not allowed."""


class UnknownModel(ProviderError, kind="unknown_model", stops_run=True):
    """The host does not serve this model."""


class NoBatchApi(ProviderError, kind="no_batch_api", stops_run=True):
    """The host has no Batch API; it holds nothing of the batch."""


class NotRecorded(ProviderError, kind="not_recorded", stops_run=True):
    """A replay of recorded replies holds none to this request; nothing was sent."""


class RequestRejected(ProviderError, kind="rejected"):
    """400-class: the host refuses this request."""


class PromptTooLong(ProviderError, kind="prompt_too_long"):
    """The prompt does not fit the model's context."""


class PromptCut(PromptTooLong, kind="prompt_cut", may_be_charged=True):
    """The host silently truncated the prompt; its reply is discarded."""


def error_kinds() -> dict[str, type[ProviderError]]:
    """Return ProviderError and its subclasses by `kind`."""
    kinds: dict[str, type[ProviderError]] = {}
    waiting: list[type[ProviderError]] = [ProviderError]
    while waiting:
        error = waiting.pop()
        kinds[error.kind] = error
        waiting += error.__subclasses__()
    return kinds


def find_xscore_error(error: BaseException) -> XscoreError | None:
    """Return the error of ours that this is, or the first that a group holds; None for a bug."""
    if isinstance(error, XscoreError):
        return None if type(error) is XscoreError else error
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            inner_error = find_xscore_error(inner)
            if inner_error is not None:
                return inner_error
    return None
