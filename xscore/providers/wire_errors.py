"""Map a status, code or broken connection to one of our errors, for all dialects, with a message
that is safe to show.

A host's text is untrusted and may repeat the request: only a short message of a body is shown,
with the key cut out, and nothing where it repeats the prompt. Kinds come from statuses and
codes, never from the words of a message. The codes of both dialects are in one table, since
gateways mix them. Trade-off: a host that says "no money" in prose only is taken by its status.
"""

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

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
from xscore.platform.figures import format_wait
from xscore.providers.hosts import is_host_within
from xscore.records.calls import Completion, Request

KEY_PLACEHOLDER = "[key]"
MIN_KEY_CHARS = 12
"""Shortest key that is searched for. A shorter one (`none`, `ollama`, `password`) is an
ordinary word and would be found where it is not the key."""


def clean_text(text: str, *, secret: str) -> str:
    """Return the text with lone surrogates replaced and the key cut out."""
    text = _encodable(text)
    if len(secret) >= MIN_KEY_CHARS:
        return text.replace(secret, KEY_PLACEHOLDER)
    return text


def clean_completion(completion: Completion, *, secret: str) -> Completion:
    """Return the completion with all text from the host cleaned."""
    text = clean_text(completion.text, secret=secret)
    model = clean_text(completion.model, secret=secret)
    if (text, model) == (completion.text, completion.model):
        return completion
    return replace(completion, text=text, model=model)


class StreamCleaner:
    """Clean text that arrives in pieces."""

    def __init__(self, *, secret: str, on_text: Callable[[str], None]) -> None:
        """on_text: takes the cleaned pieces, as early as nothing in them can change."""
        self._secret = secret if len(secret) >= MIN_KEY_CHARS else ""
        self._on_text = on_text
        self._held = ""
        """The end of the text so far: half a surrogate pair, or what may be the start of the
        key."""

    def add(self, piece: str) -> None:
        """Take the next piece."""
        text = self._held + piece
        sure = len(text) - ("\ud800" <= text[-1:] <= "\udbff")
        if self._secret:
            parts = text[:sure].split(self._secret)
        else:
            parts = [text[:sure]]
        sure -= _key_start(parts[-1], self._secret) if self._secret else 0
        self._held = text[sure:]
        self._show(text[:sure])

    def end(self) -> None:
        """Show what was held back."""
        self._show(self._held)
        self._held = ""

    def _show(self, text: str) -> None:
        if text:
            self._on_text(clean_text(text, secret=self._secret))


def _key_start(text: str, secret: str) -> int:
    """Return the length of the longest beginning of the key that the text ends with."""
    return next(
        (length for length in range(len(secret) - 1, 0, -1) if text.endswith(secret[:length])),
        0,
    )


def _encodable(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _by_name(names: Mapping[type[ProviderError], str]) -> dict[str, type[ProviderError]]:
    by_name: dict[str, type[ProviderError]] = {}
    for kind, listed in names.items():
        by_name.update(dict.fromkeys(listed.split(), kind))
    return by_name


BY_CODE = _by_name(
    {
        QuotaExhausted: (
            "insufficient_quota credit_balance_exhausted billing_hard_limit_reached"
            " billing_not_active billing_error credit_balance_too_low"
            " linked_organization_billing_unavailable"
        ),
        AuthenticationFailed: (
            "invalid_api_key API_KEY_INVALID account_deactivated authentication_error"
            " permission_error organization_on_hold"
        ),
        UnknownModel: "model_not_found not_found_error",
        PromptTooLong: (
            "context_length_exceeded exceed_context_size_error string_above_max_length"
            " request_too_large request_body_too_large_after_decoding"
        ),
        RateLimited: "rate_limit_exceeded rate_limit_error ramp_limit_exceeded",
        Overloaded: (
            "server_overloaded server_error overloaded_error api_error timeout_error conflict_error"
        ),
        RequestRejected: "invalid_request_error",
    }
)
"""`code`, `type`, `details.error_code` or Google's `details[].reason` of an error body -> ours, in
either dialect.

It outranks the status, except for RequestRejected, which says least. Anthropic's plain 400 for a
prompt that is too long has no code: a rejection of that request."""
MONEY_ENDINGS = ("_spend_limit_exceeded", "_spend_limit_reached")
"""Suffixes of codes that say the account's quota is used up."""
REFUSAL_CODES = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})
"""Codes by which a host declines the prompt itself."""

BY_STATUS: dict[int, type[ProviderError]] = {
    401: AuthenticationFailed,
    402: QuotaExhausted,
    403: AuthenticationFailed,
    404: UnknownModel,
    408: Overloaded,
    409: Overloaded,
    413: PromptTooLong,
    429: RateLimited,
}
# The base URL is wrong, as with most 404s.
BY_STATUS |= dict.fromkeys((301, 302, 303, 307, 308), UnknownModel)
"""HTTP status -> ours; 5xx is Overloaded, any other RequestRejected."""

NEVER_CONNECTED = frozenset({"ClientConnectorError", "ConnectionTimeoutError"})
"""Classes of the HTTP client for a connection that was never made: DNS, refused, TLS, connect
timeout."""

MAX_MESSAGE_CHARS = 200
MIN_ECHO_CHARS = 24
"""Fewest characters of a run that counts as an echo: the prompt has it too."""
MESSAGE_FIELDS = ("message", "detail", "error")
"""Names under which servers put the sentence that says what is wrong."""

HINTS: dict[type[ProviderError], str] = {
    AuthenticationFailed: (
        "Check the key in your environment, and that {host} is the host it belongs to."
    ),
    QuotaExhausted: "Add credit or raise the spending limit of your account at {host}.",
    UnknownModel: (
        "Check the name `{model}`, that {profile.setting} ends where {profile.path} begins, and"
        " that {host} speaks the {profile.name} dialect."
    ),
    RateLimited: "Lower judge.rpm, judge.tpm or judge.concurrency.",
    Overloaded: "Try again later; what was judged is kept.",
    ConnectionFailed: "Check the network; what was judged is kept.",
    Unreachable: "Check that a server listens at {host} ({profile.setting}).",
    PromptTooLong: (
        "Lower judge.pack_tokens, or give the model a longer context (num_ctx in Ollama)."
    ),
    UnreadableResponse: (
        "Check that {host} speaks the {profile.name} dialect "
        "({profile.setting}, {profile.base_url_ends})."
    ),
    RequestRejected: (
        "Check whether `{model}` accepts these request fields; docs/providers.md lists them."
    ),
}
"""What to do about each kind of failure."""

INNER_ERROR = "200 with an error inside"
WITHOUT_STATUS: dict[type[ProviderError], str] = {
    Unreachable: "no connection could be made",
    ConnectionFailed: "the connection broke before the reply was whole",
}


class CallContext(Struct, frozen=True):
    """What is needed about a call to read the host's answer."""

    host: str
    secret: str = ""
    """The key, cut out of every message."""
    model: str = ""
    request: Request | None = None
    """The request; None: a look-up, or the request is no longer at hand."""

    @property
    def prompt(self) -> tuple[str, ...]:
        """What was sent; no message repeats it."""
        if self.request:
            return (self.request.system, *self.request.content)
        return ()


class DialectProfile(Struct, frozen=True, kw_only=True):
    """The names that one dialect uses in errors and hints."""

    name: str
    """Name of the dialect, as in `the OpenAI dialect`."""
    vendor: str
    """Domain of the vendor, who takes all of the dialect."""
    setting: str
    """The setting that holds the base URL."""
    base_url_ends: str
    """Last part of such a URL, for hints."""
    path: str
    """Path of completions, after the base URL."""
    models_path: str
    """Path of the list of models, after the base URL."""

    def translate(self, error: Exception, call: CallContext) -> ProviderError:
        """Return our error for a refusal of the host, or for one of the HTTP client; the caller
        raises it `from error`."""
        code = getattr(error, "status_code", None)
        status = code if isinstance(code, int) else None
        body = error_body(error)
        failure = status if status is not None and status != 200 else _status_within(body)
        kind = stated_kind(body, status=failure) or _kind_without_reply(error)
        if status is None:
            where = f"{call.host}: {WITHOUT_STATUS[kind]}"
        else:
            where = f"{call.host} answered {status if status != 200 else INNER_ERROR}"
            where += _redirect_target(error, secret=call.secret)
        wait_s = retry_after_s(error)
        where += (
            f" and asks to wait {format_wait(wait_s)}"
            if wait_s is not None and wait_s >= 1
            else ""
        )
        return self._error(kind, where, body, call, wait_s)

    def raise_inner(self, error: object, call: CallContext) -> None:
        """Raise the error that is inside a success, if there is one (a numeric `code` is a
        status there)."""
        if error:
            body = error if isinstance(error, Mapping) else {"message": error}
            kind = stated_kind(body, status=_status_within(body)) or UnreadableResponse
            raise self._error(kind, f"{call.host} answered {INNER_ERROR}", body, call)

    def hint_for(self, kind: type[ProviderError], host: str, model: str) -> str:
        """Say what to do about this kind of failure at this host."""
        # A vendor's own host does listen, so what lies between is to be looked at.
        if kind is Unreachable and is_host_within(f"//{host}", self.vendor):
            return "Check the network and its proxy settings."
        return HINTS.get(kind, "").format(host=host, model=model, profile=self)

    def unreadable(self, content: str, call: CallContext) -> UnreadableResponse:
        """Return the error for a success that is not the dialect's; `what` never quotes the
        body."""
        hint = self.hint_for(UnreadableResponse, call.host, call.model)
        return UnreadableResponse(f"{call.host} answered 200 with {content}", hint=hint)

    def stream_ended(self, call: CallContext) -> ConnectionFailed:
        """Return the error for a stream that ended without saying how its reply finished."""
        hint = self.hint_for(ConnectionFailed, call.host, call.model)
        return ConnectionFailed(
            f"the stream from {call.host} ended before its reply was whole", hint=hint
        )

    def _error(
        self,
        kind: type[ProviderError],
        where: str,
        body: object,
        call: CallContext,
        wait_s: float | None = None,
    ) -> ProviderError:
        message = shown_message(body, secret=call.secret, prompt=call.prompt)
        hint = self.hint_for(kind, call.host, call.model)
        return kind(
            f"{where}: {message}" if message else where, hint=hint, retry_after_s=wait_s
        )


def stated_kind(body: object, *, status: int | None) -> type[ProviderError] | None:
    """Return our error type for an error object with this status; None if neither tells."""
    kinds = [_kind_of_name(name) for name in _names(body)]
    named = next((kind for kind in kinds if kind is not None), None)
    # An empty account comes with other codes, and no retry helps.
    if QuotaExhausted in kinds:
        named = QuotaExhausted
    if status is None or (named is not None and named is not RequestRejected):
        return named
    return BY_STATUS.get(status, Overloaded if status >= 500 else RequestRejected)


def known_names(body: object) -> tuple[str, ...]:
    """Return the known error codes in this error object; unlike free text they cannot echo the
    prompt."""
    return tuple(
        name
        for name in _names(body)
        if _kind_of_name(name) is not None or name in REFUSAL_CODES
    )


def error_within(reply: Mapping[str, object]) -> object:
    """Return the error in a success or in an event; false where there is none.

    Some hosts send the fields of an error by themselves, and call the whole an error.
    """
    if "error" in (reply.get("type"), reply.get("object")):
        return reply.get("error") or reply
    return reply.get("error")


def is_declined(error: object) -> bool:
    """Return whether the host declines the prompt itself, by a code in this error object."""
    return not REFUSAL_CODES.isdisjoint(known_names(error))


def _kind_of_name(name: str) -> type[ProviderError] | None:
    if name.endswith(MONEY_ENDINGS):
        return QuotaExhausted
    return BY_CODE.get(name)


def _kind_without_reply(error: Exception) -> type[ProviderError]:
    """Return our error type for a call that got no reply, or only a part of one.

    A timeout of the HTTP client is one too: the deadlines are ours.
    """
    classes = set[str]()
    for cause in error_chain(error):
        classes.update(base.__name__ for base in type(cause).__mro__)
    return ConnectionFailed if classes.isdisjoint(NEVER_CONNECTED) else Unreachable


def error_chain(error: BaseException) -> list[BaseException]:
    """Return an error and its causes."""
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    return chain


def error_body(error: Exception) -> object:
    """Return the unwrapped error object of the host's answer; None if it holds none."""
    body = getattr(error, "body", None)
    if isinstance(body, list) and body:
        body = body[0]  # Google puts its errors into a list
    return unwrapped(body)


def unwrapped(body: object) -> object:
    """Return the error object in this body, which may be one itself; None where there is
    none."""
    if not isinstance(body, Mapping):
        return None
    inner = body.get("error")
    if isinstance(inner, Mapping):
        return inner
    return body


def shown_message(body: object, *, secret: str, prompt: tuple[str, ...]) -> str:
    """Return what may be shown of an error body: its message on one line, short, without key or
    prompt."""
    if not isinstance(body, Mapping):
        return ""
    texts = [body.get(name) for name in MESSAGE_FIELDS]
    message = next((text for text in texts if isinstance(text, str)), "")
    line = _encodable(" ".join(message.split()))
    if secret:
        line = line.replace(secret, KEY_PLACEHOLDER)
    if len(line) > MAX_MESSAGE_CHARS:
        line = line[: MAX_MESSAGE_CHARS - 1] + "…"
    sent = " ".join(" ".join(prompt).split())
    if any(
        line[at : at + MIN_ECHO_CHARS] in sent for at in range(len(line) - MIN_ECHO_CHARS + 1)
    ):
        return "(its message repeats the prompt and is withheld)"
    return line


def retry_after_s(error: Exception) -> float | None:
    """Return the seconds that the host asks to wait, in whatever form it says so; None where it is
    silent."""
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
    from email.utils import parsedate_to_datetime  # few hosts say it so

    try:  # a date, read against the reply's own Date, so that no clock of ours is needed
        wait = parsedate_to_datetime(headers.get("retry-after", "")) - parsedate_to_datetime(
            headers.get("date", "")
        )
    # There is no date, it has no zone, or its year or zone has 20 digits.
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, wait.total_seconds())


def _redirect_target(error: Exception, *, secret: str) -> str:
    """Name the host that the reply redirects to.

    It is not followed: it would be sent the key and the source.
    """
    headers = getattr(getattr(error, "response", None), "headers", None)
    try:
        target = None
        if headers is not None:
            target = urlsplit(str(headers.get("location", "")))
    except ValueError:
        return ""
    named = ""
    if target and target.netloc:
        named = f"{target.scheme}://{target.netloc.rpartition('@')[2]}"
    named = clean_text(named, secret=secret)[:MAX_MESSAGE_CHARS]
    if named:
        return f", a redirect to {named}, which is not followed"
    return ""


def _names(body: object) -> list[str]:
    """Return every name that an error body gives its cause, the most exact first."""
    if not isinstance(body, Mapping):
        return []
    details = body.get("details")
    parts = details if isinstance(details, list) else [details]
    exact: list[object] = []
    for part in parts:
        if isinstance(part, Mapping):
            exact += [part.get("error_code"), part.get("reason")]
    return [
        name for name in (*exact, body.get("code"), body.get("type")) if isinstance(name, str)
    ]


def _status_within(body: object) -> int | None:
    """Return the status that an error inside a success has as its numeric `code`, as OpenRouter
    writes it."""
    code = None
    if isinstance(body, Mapping):
        code = body.get("code")
    if isinstance(code, int) and not isinstance(code, bool):
        return code
    return None
