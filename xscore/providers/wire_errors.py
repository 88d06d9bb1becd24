"""What all dialects share of failures: which of ours a status, a code or a broken wire is, and what may be shown of it.

What a server says is untrusted and may repeat what it was sent: of a body only a short message is ever shown, with
the key cut out, and not at all where it repeats the prompt. Nothing here decides by the words of a message. A dialect
brings its own words as a `Vocabulary`. The trade-off: a host that says "no money" in prose only, without a code, is
taken by its status.

A model's text as it may be kept and shown: every character can be encoded, and the key does not stand in it.

JSON can carry half a surrogate pair, which no store and no terminal can take, and a careless host repeats the key that
it was sent. Streamed pieces come out as the whole would: what may go on in the next piece is held back. It leaves
control characters alone; what shows text escapes them. The trade-off: a key of a few characters is an ordinary word,
such as servers on one's own machine are given, and is not looked for.
"""

import json
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    Overloaded,
    PromptTooLong,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    RequestRejected,
    UnknownModel,
    Unreachable,
    UnreadableResponse,
)
from xscore.records import Completion

KEY_PLACEHOLDER = "[key]"
MIN_KEY_CHARS = 12
"""A shorter key (`none`, `ollama`, `password`) would be found where nobody repeats it."""


def clean_text(text: str, *, secret: str) -> str:
    """Return the text with its surrogates paired or replaced, and the key cut out."""
    text = _encodable(text)
    return text.replace(secret, KEY_PLACEHOLDER) if len(secret) >= MIN_KEY_CHARS else text


def clean_completion(completion: Completion, *, secret: str) -> Completion:
    """Return the completion with all that the host wrote in it cleaned."""
    text, model = clean_text(completion.text, secret=secret), clean_text(completion.model, secret=secret)
    if (text, model) == (completion.text, completion.model):
        return completion
    return replace(completion, text=text, model=model)


class StreamCleaner:
    """A text that comes in pieces, cleaned as if it came whole."""

    def __init__(self, *, secret: str, on_text: Callable[[str], None]) -> None:
        """on_text: takes the cleaned pieces, as early as they are sure."""
        self._secret = secret if len(secret) >= MIN_KEY_CHARS else ""
        self._on_text = on_text
        self._shown: list[str] = []
        self._half = ""
        """The first half of a pair, whose second may come."""
        self._held = ""
        """What the key begins with, and may be going on with."""

    def add(self, piece: str) -> None:
        """Take the next piece."""
        text = self._half + piece
        self._half = text[-1:] if _is_first_half(text[-1:]) else ""
        self._take(_encodable(text.removesuffix(self._half)))

    def end(self) -> str:
        """Show what was held back, and return the whole text."""
        self._take(_encodable(self._half))
        self._show(self._held)
        self._half = self._held = ""
        return "".join(self._shown)

    def _take(self, text: str) -> None:
        if not self._secret:
            self._show(text)
            return
        *before, last = (self._held + text).split(self._secret)
        sure = len(last) - _begun(last, self._secret)
        self._held = last[sure:]
        self._show(KEY_PLACEHOLDER.join([*before, last[:sure]]))

    def _show(self, text: str) -> None:
        if text:
            self._shown.append(text)
            self._on_text(text)


def _begun(text: str, secret: str) -> int:
    """Return how many characters at the end of the text are the longest beginning of the key."""
    at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
    while at >= 0 and not secret.startswith(text[at:]):
        at = text.find(secret[0], at + 1)
    return len(text) - at if at >= 0 else 0


def _is_first_half(char: str) -> bool:
    return "\ud800" <= char <= "\udbff"


def _encodable(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


BY_STATUS: dict[int, type[ProviderError]] = {
    400: RequestRejected,
    401: AuthenticationFailed,
    402: QuotaExhausted,
    403: AuthenticationFailed,
    404: UnknownModel,
    408: Overloaded,
    409: Overloaded,
    413: PromptTooLong,
    422: RequestRejected,
    429: RateLimited,
}
"""HTTP status -> ours; 5xx is Overloaded, any other RequestRejected."""

NEVER_CONNECTED = frozenset({"ClientConnectorError", "ConnectionTimeoutError", "UnsupportedProtocol"})
"""Classes of the transport for a connection that was never made: DNS, refused, TLS, connect timeout."""

MAX_MESSAGE_CHARS = 200
MIN_ECHO_CHARS = 24
"""A run of so many characters that the prompt has as well is an echo of the prompt."""
MESSAGE_FIELDS = ("message", "detail", "error")
"""Names under which servers put the sentence that says what is wrong."""


class DialectProfile(Struct, frozen=True, kw_only=True):
    """The words of one dialect for what goes wrong, and for itself."""

    name: str
    """As in `the OpenAI dialect`."""
    vendor: str
    """Domain of the vendor, who takes all of the dialect."""
    setting: str
    """The setting that holds the base URL."""
    base_url_ends: str
    """How such a URL ends, for hints."""
    path: str
    by_class: Mapping[str, type[ProviderError]]
    """Name of a class of the SDK -> ours, where neither code nor status says more; subclasses go with it."""
    by_code: Mapping[str, type[ProviderError]]
    """A name in the error body -> ours; stands over the status, but for RequestRejected, which says least."""
    money_endings: tuple[str, ...]
    """How every code ends that says the account has spent what it may."""
    refusal_codes: frozenset[str] = frozenset()
    """Codes by which a host declines the prompt itself; none where a refusal is always a reply."""

    def is_refusal(self, error: Exception) -> bool:
        """Whether the host declined the prompt for its content."""
        return getattr(error, "code", None) in self.refusal_codes

    def translate(
        self, error: Exception, *, host: str, model: str, secret: str, prompt: tuple[str, ...]
    ) -> ProviderError:
        """Return our error for one raised by the SDK or its transport; the caller raises it `from error`.

        secret: the key, cut out of every message. prompt: what was sent, never repeated.
        """
        code = getattr(error, "status_code", None)
        status = code if isinstance(code, int) else None
        body = error_body(error)
        kind = self._kind(error, status, body)
        said = shown_message(body, secret=secret, prompt=prompt)
        where = f"{host} answered {_status_words(status)}" if status is not None else f"{host}: {_plainly(kind)}"
        wait_s = retry_after_s(error)
        where += f" and asks to wait {wait_s:.0f} s" if wait_s is not None and wait_s >= 1 else ""
        message = f"{where}: {said}" if said else where
        return kind(message, hint=self.hint_for(kind, host, model), retry_after_s=wait_s)

    def from_body(
        self, body: Mapping[str, Any], *, host: str, model: str, secret: str, prompt: tuple[str, ...]
    ) -> ProviderError:
        """Return our error for an error object inside a success (a numeric `code` is a status there)."""
        status = _status_within(body)
        kind = self._by_body(body) or (_by_status(status) if status is not None else UnreadableResponse)
        said = shown_message(body, secret=secret, prompt=prompt)
        message = f"{host} answered {_status_words(200)}" + (f": {said}" if said else "")
        return kind(message, hint=self.hint_for(kind, host, model))

    def kept_kind(self, body: object, *, status: int | None = None) -> type[ProviderError]:
        """Return which of ours an error object is that a host kept for later. status: of the call it answered."""
        found = self._by_body(body)
        if status is None:
            return found or Overloaded
        return found if found is not None and found is not RequestRejected else _by_status(status)

    def known_names(self, body: object) -> tuple[str, ...]:
        """Return the names this error object gives its cause, as far as we know them; they can be no echo."""
        return tuple(name for name in _names(body) if self._by_name(name) is not None or name in self.refusal_codes)

    def hint_for(self, kind: type[ProviderError], host: str, model: str) -> str:
        """Say what to do about this kind of failure at this host."""
        hints: dict[type[ProviderError], str] = {
            AuthenticationFailed: f"Check the key in your environment, and that {host} is the host it belongs to.",
            QuotaExhausted: f"Add credit or raise the spending limit of your account at {host}.",
            UnknownModel: f"Check the name `{model}` and that {self.setting} ends where {self.path} begins.",
            RateLimited: "Lower judge.rpm, judge.tpm or judge.concurrency.",
            Overloaded: "Try again later; what was judged is kept.",
            ConnectionFailed: "Check the network; what was judged is kept.",
            Unreachable: f"Check that a server listens at {host} ({self.setting}).",
            PromptTooLong: "Lower judge.pack_tokens, or give the model a longer context (num_ctx in Ollama).",
            UnreadableResponse: f"Check that {host} speaks the {self.name} dialect "
            f"({self.setting}, {self.base_url_ends}).",
            RequestRejected: f"See whether `{model}` takes these request fields; docs/providers.md lists them.",
        }
        return hints.get(kind, "")

    def unreadable(self, what: str, *, host: str, model: str) -> UnreadableResponse:
        """Return the error for a success that is not the dialect's; `what` never quotes the body."""
        hint = self.hint_for(UnreadableResponse, host, model)
        return UnreadableResponse(f"{host} answered 200 with {what}", hint=hint)

    def broken_off(self, *, host: str, model: str) -> ConnectionFailed:
        """Return the error for a stream that ended without saying how its reply finished."""
        hint = self.hint_for(ConnectionFailed, host, model)
        return ConnectionFailed(f"the stream from {host} ended before its reply was whole", hint=hint)

    def _kind(self, error: Exception, status: int | None, body: object) -> type[ProviderError]:
        found = self._by_body(body)
        if found is not None and found is not RequestRejected:
            return found
        failure = status if status is not None and status != 200 else _status_within(body)
        if failure is not None:
            return _by_status(failure)
        if found is not None:
            return found
        if _never_connected(error):
            return Unreachable
        names = (base.__name__ for base in type(error).__mro__)
        return next((self.by_class[name] for name in names if name in self.by_class), ConnectionFailed)

    def _by_body(self, body: object) -> type[ProviderError] | None:
        kinds = [self._by_name(name) for name in _names(body)]
        if QuotaExhausted in kinds:
            return QuotaExhausted
        return next((kind for kind in kinds if kind is not None), None)

    def _by_name(self, name: str) -> type[ProviderError] | None:
        return QuotaExhausted if name.endswith(self.money_endings) else self.by_code.get(name)


def error_body(error: Exception) -> object:
    """Return the error object of what the host answered, out of its wrapping; text that was no JSON is None.

    The SDKs hand on the raw page where the body was not JSON, so a plain text counts only if it stood inside JSON.
    """
    body = getattr(error, "body", None)
    if isinstance(body, str):
        body = _json(getattr(getattr(error, "response", None), "text", ""))
    if isinstance(body, list) and body:
        body = body[0]  # Google puts its errors into a list
    return unwrapped(body)


def unwrapped(body: object) -> object:
    """Return the error object that stands in this body, which may be one itself; None where there is none."""
    if not isinstance(body, Mapping):
        return None
    inner = body.get("error")
    return inner if isinstance(inner, Mapping) else body


def shown_message(body: object, *, secret: str, prompt: tuple[str, ...]) -> str:
    """Return what may be shown of an error body: its message on one line, short, without key or prompt."""
    if not isinstance(body, Mapping):
        return ""
    message = next((said for name in MESSAGE_FIELDS if isinstance(said := body.get(name), str)), "")
    line = clean_text(" ".join(message.split()), secret="")
    if secret:
        line = line.replace(secret, "[key]")
    if len(line) > MAX_MESSAGE_CHARS:
        line = line[: MAX_MESSAGE_CHARS - 1] + "…"
    return "(its message repeats the prompt and is withheld)" if _echoes(line, prompt) else line


def retry_after_s(error: Exception) -> float | None:
    """Return the seconds that the host asks to wait, in whatever form it says so; None where it is silent."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    if headers is None:
        return None
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return _seconds_between(headers.get("date", ""), headers.get("retry-after", ""))


def _names(body: object) -> list[str]:
    """Return every name that an error body gives its cause, the most exact first."""
    if not isinstance(body, Mapping):
        return []
    details = body.get("details")
    parts = details if isinstance(details, list) else [details]
    exact = [part.get(key) for part in parts if isinstance(part, Mapping) for key in ("error_code", "reason")]
    return [name for name in (*exact, body.get("code"), body.get("type")) if isinstance(name, str)]


def _status_within(body: object) -> int | None:
    """Return the status that an error inside a success has as its numeric `code`, as OpenRouter writes it."""
    code = body.get("code") if isinstance(body, Mapping) else None
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _json(text: object) -> object:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _echoes(line: str, prompt: tuple[str, ...]) -> bool:
    sent = " ".join(" ".join(prompt).split())
    return any(line[at : at + MIN_ECHO_CHARS] in sent for at in range(len(line) - MIN_ECHO_CHARS + 1))


def _by_status(status: int) -> type[ProviderError]:
    return BY_STATUS.get(status, Overloaded if status >= 500 else RequestRejected)


def _never_connected(error: BaseException) -> bool:
    """Whether the chain of causes holds the transport's failure to connect (DNS, refused, TLS)."""
    cause: BaseException | None = error
    while cause is not None:
        if any(base.__name__ in NEVER_CONNECTED for base in type(cause).__mro__):
            return True
        cause = cause.__cause__
    return False


def _seconds_between(sent: str, until: str) -> float | None:
    """Read a Retry-After that is a date against the reply's own Date, so that no clock of ours is needed."""
    try:
        wait = parsedate_to_datetime(until) - parsedate_to_datetime(sent)
    except (ValueError, TypeError):
        return None
    return max(0.0, wait.total_seconds())


def _status_words(status: int) -> str:
    return "200 with an error inside" if status == 200 else str(status)


def _plainly(kind: type[ProviderError]) -> str:
    if kind is Unreachable:
        return "no connection could be made"
    if kind is ConnectionFailed:
        return "the connection broke before the reply was whole"
    return "the SDK could not use the reply"
