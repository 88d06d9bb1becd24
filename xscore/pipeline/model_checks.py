"""What the doctor says of one model, judging or answering: host, key, price, reasoning, capability; one line each.

It looks at settings, tables and what is remembered, and sends nothing. A line says what is so and, where it is to be
mended, what to do. Trade-off: prices are those of a short call; a long prompt may be in a dearer tier.
"""

from dataclasses import dataclass
from decimal import Decimal

from xscore.errors import UsageError
from xscore.providers.catalog import declared
from xscore.providers.hosts import is_loopback
from xscore.providers.prices import price
from xscore.providers.transport import route_to
from xscore.records import Capability, Finding, RateLimits, ReplyForm, Usage
from xscore.settings import AnthropicSettings, OpenAISettings, Settings
from xscore.utc_days import DAY_S

SHORT_CALL = 10_000
"""Tokens of the call that is priced, well below any long-prompt tier."""
CALLS_A_MILLION = 100
REASONING_A_JUDGMENT = 2
"""More reasoning tokens than this for a judgment and the judge is the wrong one."""
KEY_END = 4
SHORTEST_KEY_SHOWN = 12
"""Of a shorter key the last characters would tell too much."""
HOUR_S = 3_600
FORMS = {
    ReplyForm.JSON_SCHEMA: "keeps to a strict schema",
    ReplyForm.JSON_OBJECT: "gives JSON, without a schema",
    ReplyForm.TEXT: "gives JSON only when asked for it in words",
}


@dataclass(frozen=True, slots=True)
class Model:
    """One model as it is used."""

    role: str
    """`judge` or `answerer`; begins the name of every line."""
    provider: str
    name: str
    host: str

    def line(self, what: str, detail: str, *, ok: bool = True, hint: str = "") -> Finding:
        """Return one line; `what` is empty for the first."""
        return Finding(f"{self.role} {what}".strip(), ok, detail, hint)


def where(model: Model, settings: Settings) -> Finding:
    """Say which model it is, at which host, and through which proxy."""
    here = " (this machine)" if is_loopback(model.host) and model.host != "-" else ""
    said = f"{model.provider}:{model.name} at {model.host}{here}"
    account = account_of(model.provider, settings)
    try:
        proxy = route_to(account.base_url).proxy_host if account else ""
    except UsageError as error:
        return model.line("", f"{said}: {error.message}", ok=False, hint=error.hint)
    return model.line("", f"{said}, through the proxy {proxy}" if proxy else said)


def key(model: Model, settings: Settings) -> Finding | None:
    """Say which key goes to the host, by its last characters; None for a provider whose keys are its own business."""
    account = account_of(model.provider, settings)
    if account is None:
        return None
    secret = account.api_key.get_secret_value()
    if secret:
        end = f"…{secret[-KEY_END:]}" if len(secret) >= SHORTEST_KEY_SHOWN else "one too short to show the end of,"
        return model.line("key", f"{end} from {account.api_key_env}, sent to {model.host}")
    return model.line("key", f"none needed: {model.host} is this machine ({account.api_key_env} is not set)")


def priced(model: Model) -> Finding:
    """Say what a million tokens cost."""
    calls = (Usage(input_tokens=SHORT_CALL), Usage(output_tokens=SHORT_CALL))
    given, written = (_a_million(price(model.provider, model.name, model.host, usage)) for usage in calls)
    if given is None or written is None:
        hint = "budget.max_usd cannot hold what has no price; use a model the price tables know, or a local one."
        return model.line("price", "no price is known for this model at this host", ok=False, hint=hint)
    if not given and not written:
        return model.line("price", "free: nothing leaves this machine")
    return model.line("price", f"${given:.2f} in and ${written:.2f} out, for a million tokens")


def reasoning(model: Model, asked: str, capability: Capability | None) -> Finding:
    """Say what is declared of a judge's reasoning, and what it did in the probe."""
    if asked:
        said = f"asked for as little as this model takes: `{asked}`"
    elif declared(model.provider, model.name).known:
        said = "this model does none"
    else:
        said = "nothing is known of this model in advance, so the host's default holds"
    if capability is None or not capability.probed_at:
        return model.line("reasoning", said)
    spent = capability.reasoning_tokens
    measured = f"{said}; measured: {spent:,} tokens a judgment"
    if spent <= REASONING_A_JUDGMENT:
        return model.line("reasoning", measured)
    hint = f"More than {REASONING_A_JUDGMENT} make reasoning most of the price; use a model that can do without."
    return model.line("reasoning", measured, ok=False, hint=hint)


def capability(model: Model, known: Capability, *, now: float) -> Finding:
    """Say what the host was found to do. now: unix seconds."""
    parts = [FORMS[known.reply_form], _told(known)]
    length = known.context_tokens
    parts.append(f"holds {length:,} tokens" if length else "does not tell how much it holds")
    if known.without:
        parts.append(f"refuses {', '.join(known.without)}")
    return model.line("capability", f"{'; '.join(parts)} (found {_ago(now - known.probed_at)})")


def stated(limits: RateLimits) -> str:
    """Put the limits that a host states into words; empty where it states none."""
    counts = (
        (limits.requests_per_minute, "requests"),
        (limits.tokens_per_minute, "tokens"),
        (limits.input_tokens_per_minute, "tokens in"),
        (limits.output_tokens_per_minute, "tokens out"),
    )
    said = [f"{count:,} {what}" for count, what in counts if count is not None]
    return f"{', '.join(said)} a minute" if said else ""


def account_of(provider: str, settings: Settings) -> OpenAISettings | AnthropicSettings | None:
    """Return where one of the dialects goes and with which key; None for other providers."""
    match provider:
        case "openai":
            return settings.openai
        case "anthropic":
            return settings.anthropic
        case _:
            return None


def _a_million(usd: Decimal | None) -> Decimal | None:
    return None if usd is None else usd * CALLS_A_MILLION


def _told(known: Capability) -> str:
    if not known.reports_usage:
        return "does not tell how many tokens were used, so they are estimated"
    return "tells tokens used" + (", and which came from its cache" if known.reports_cached_tokens else "")


def _ago(seconds: float) -> str:
    if seconds < HOUR_S:
        return "just now" if seconds < 60 else f"{seconds / 60:.0f} minutes ago"
    return f"{seconds / HOUR_S:.0f} hours ago" if seconds < 2 * DAY_S else f"{seconds / DAY_S:.0f} days ago"
