"""Check store, settings, models and extensions: one finding a line. It repairs nothing.

Nothing is sent unless `--probe` asks: then the judge scores two memories of our own text, and the answering host lists
its models. Trade-off: prices are those of a short call; a long prompt may cost more.
"""

from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from secrets import token_hex

from msgspec import Struct

from xscore.cache import capabilities
from xscore.extension import implementations
from xscore.pipeline.parts import JudgeCalls, PipelineParts
from xscore.pipeline.probe import ProbeResult, known_capability, probe_host
from xscore.platform import sqlite_drivers
from xscore.platform.clock import DAY_S
from xscore.platform.errors import BudgetExhausted, NoUsableModel, ProviderError, StoreError, UnknownModel, UsageError
from xscore.providers.catalog import model_settings
from xscore.providers.host_facts import is_model_listed
from xscore.providers.hosts import is_loopback
from xscore.providers.prices import call_price
from xscore.providers.provider import Adaptable
from xscore.providers.spec import ModelSpec, connect_provider
from xscore.providers.transport import route_to
from xscore.records import Capability, Diagnosis, DoctorFinding, RateLimits, ReplyForm, Usage
from xscore.settings import AnthropicSettings, OpenAISettings, Settings
from xscore.store import memory_rows

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


class CheckedModel(Struct, frozen=True):
    """One model as it is used."""

    role: str
    """`judge` or `answerer`; begins the name of every line."""
    provider: str
    name: str
    host: str

    def line(self, what: str, detail: str, *, ok: bool = True, hint: str = "") -> DoctorFinding:
        """Return one line; `what` is empty for the first."""
        return DoctorFinding(f"{self.role} {what}".strip(), ok, detail, hint)


def _model_findings(model: CheckedModel, settings: Settings) -> Iterator[DoctorFinding]:
    """Say where the model is, which key goes there, and what it costs."""
    yield location_finding(model, settings)
    account = account_of(model.provider, settings)
    if account is not None:  # the keys of other providers are their own business
        secret = account.api_key.reveal()
        if secret:
            end = f"…{secret[-KEY_END:]}" if len(secret) >= SHORTEST_KEY_SHOWN else "set (too short to display)"
            said = f"{end} from {account.api_key_env}, sent to {model.host}"
        else:
            said = f"none needed: {model.host} is this machine ({account.api_key_env} is not set)"
        yield model.line("key", said)
    yield price_finding(model)


def location_finding(model: CheckedModel, settings: Settings) -> DoctorFinding:
    """Say which model it is, at which host, and through which proxy."""
    here = " (this machine)" if is_loopback(model.host) and model.host != "-" else ""
    said = f"{model.provider}:{model.name} at {model.host}{here}"
    account = account_of(model.provider, settings)
    try:
        proxy = route_to(account.base_url).proxy_host if account else ""
    except UsageError as error:
        return model.line("", f"{said}: {error.message}", ok=False, hint=error.hint)
    return model.line("", f"{said}, through the proxy {proxy}" if proxy else said)


def price_finding(model: CheckedModel) -> DoctorFinding:
    """Say what a million tokens cost."""
    calls = (Usage(input_tokens=SHORT_CALL), Usage(output_tokens=SHORT_CALL))
    given, written = (_a_million(call_price(model.provider, model.name, model.host, usage)) for usage in calls)
    if given is None or written is None:
        hint = "budget.max_usd cannot hold what has no price; use a model the price tables know, or a local one."
        return model.line("price", "no price is known for this model at this host", ok=False, hint=hint)
    if not given and not written:
        return model.line("price", "free: nothing leaves this machine")
    return model.line("price", f"${given:.2f} in and ${written:.2f} out, for a million tokens")


def reasoning_finding(model: CheckedModel, asked: str, capability: Capability | None) -> DoctorFinding:
    """Say what is declared of a judge's reasoning, and what it did in the probe."""
    if asked:
        said = f"asked for as little as this model takes: `{asked}`"
    elif model_settings(model.provider, model.name).known:
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


def capability_finding(model: CheckedModel, known: Capability, *, now: float) -> DoctorFinding:
    """Say what the host was found to do. now: unix seconds."""
    parts = [FORMS[known.reply_form], _usage_words(known)]
    length = known.context_tokens
    parts.append(f"holds {length:,} tokens" if length else "does not tell how much it holds")
    if known.without:
        parts.append(f"refuses {', '.join(known.without)}")
    return model.line("capability", f"{'; '.join(parts)} (found {_ago(now - known.probed_at)})")


def stated_limits(limits: RateLimits) -> str:
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


def _usage_words(known: Capability) -> str:
    if not known.reports_usage:
        return "does not tell how many tokens were used, so they are estimated"
    return "tells tokens used" + (", and which came from its cache" if known.reports_cached_tokens else "")


def _ago(seconds: float) -> str:
    if seconds < HOUR_S:
        return "just now" if seconds < 60 else f"{seconds / 60:.0f} minutes ago"
    return f"{seconds / HOUR_S:.0f} hours ago" if seconds < 2 * DAY_S else f"{seconds / DAY_S:.0f} days ago"


NAMES_SHOWN = 5


async def diagnose(parts: PipelineParts, *, probe: bool) -> Diagnosis:
    """Collect the findings in the order to read them."""
    probed: list[DoctorFinding] = []
    calls = parts.judge.calls
    if probe:
        probed = await _probe(parts, calls) if calls else [_nothing_to_probe(parts)]
    findings = [
        _root(parts),
        _store(parts),
        *_own_store(parts),
        *_judge(parts, calls),
        *probed,
        *_answerer(parts),
        *await _extensions(parts),
    ]
    if probe and parts.answerer is not None:
        findings.extend(await _listed(parts))
    return Diagnosis(findings=(*findings, _budget(parts)))


async def _extensions(parts: PipelineParts) -> list[DoctorFinding]:
    checks = implementations("doctor_findings", parts.settings)
    found = [finding for check in checks for finding in await check(parts.settings)]
    terms = DoctorFinding("embedder", True, "terms: the words of each memory, hashed; no model, nothing sent")
    return found if any(one.name == terms.name for one in found) else [terms, *found]


def _root(parts: PipelineParts) -> DoctorFinding:
    kind = "git repository" if parts.root.is_git else "plain folder"
    return DoctorFinding("root", True, f"{parts.root.path} ({kind})")


def _own_store(parts: PipelineParts) -> Iterator[DoctorFinding]:
    """Open and read the user's own store, where there is one."""
    try:
        own = parts.store.user_connection()
        if own is not None:
            (said,) = own.execute("PRAGMA quick_check(1)").fetchone()
            memory_rows.select_memories(own, "1", ())
            hint = "" if said == "ok" else sqlite_drivers.recovery_hint(parts.store.user_path)
            yield DoctorFinding(
                "your store", said == "ok", f"{parts.store.user_path}{'' if said == 'ok' else f': {said}'}", hint
            )
    except StoreError as error:
        yield DoctorFinding("your store", False, error.message, error.hint)


def _store(parts: PipelineParts) -> DoctorFinding:
    if parts.root.read_only:
        return DoctorFinding(
            "store", True, f"{parts.store.path} (the root is read-only, so it stands in your cache folder)"
        )
    return DoctorFinding("store", True, str(parts.store.path))


def _judge(parts: PipelineParts, calls: JudgeCalls | None) -> Iterator[DoctorFinding]:
    if calls is None:
        yield DoctorFinding("judge", True, "lexical: scores words, not meaning; no model judges", _key_hint(parts))
        return
    model = CheckedModel("judge", calls.provider.name, calls.model.name, calls.provider.host)
    known = known_capability(parts.store.connection, calls, now=parts.clock())
    yield from _model_findings(model, parts.settings)
    yield _limits(parts, calls, model, known)
    yield reasoning_finding(model, calls.model.reasoning, known)
    packs = f"{calls.packs.tokens:,} tokens, at most {calls.packs.size} memories"
    yield model.line("packs", f"{packs}; {calls.model.order.replace('_', ' ')}")
    yield _capability(parts, calls, model, known)


def _limits(parts: PipelineParts, calls: JudgeCalls, model: CheckedModel, known: Capability | None) -> DoctorFinding:
    judge = parts.settings.judge
    here = [f"{count:,} {what}" for count, what in ((judge.rpm, "requests"), (judge.tpm, "tokens")) if count]
    said = f"at most {calls.concurrency} calls in flight; limits set here: {', '.join(here) or 'none'}"
    stated = stated_limits(known.limits) if known else ""
    return model.line("limits", f"{said}{' a minute' if here else ''}; stated by the host: {stated or 'none yet'}")


def _capability(
    parts: PipelineParts, calls: JudgeCalls, model: CheckedModel, known: Capability | None
) -> DoctorFinding:
    if known is not None and known.probed_at:
        return capability_finding(model, known, now=parts.clock())
    if not isinstance(calls.provider, Adaptable):
        return model.line(
            "capability", "nothing is found out for this provider: its hosts are taken to speak all of its dialect"
        )
    if calls.provider.is_vendors_own:
        return model.line("capability", "the vendor's own host, which takes all that is sent")
    if not parts.settings.judge.probe:
        return model.line("capability", "not found out: judge.probe is off")
    return model.line("capability", "not found out yet; the first turn does, with a small call of its own text")


def _answerer(parts: PipelineParts) -> Iterator[DoctorFinding]:
    seat = parts.answerer
    if seat is None:
        yield DoctorFinding("answerer", True, "none: `ask` prints the bundle", _key_hint(parts))
        return
    model, primary = CheckedModel("answerer", seat.provider, seat.model, seat.host), parts.settings.primary
    yield from _model_findings(model, parts.settings)
    known = capabilities.read_capability(
        parts.store.connection, provider=seat.provider, host=seat.host, model=seat.model
    )
    stated = stated_limits(known.limits) if known else ""
    tail = f"; stated by the host: {stated}" if stated else ""
    cap = f"one call a turn, of at most {primary.max_output_tokens:,} tokens out, within {primary.timeout_s:g} s"
    yield model.line("limits", cap + tail)
    default = "the host's default" if model_settings(seat.provider, seat.model).known else "not asked for"
    yield model.line("reasoning", f"`{primary.reasoning}`" if primary.reasoning else default)
    if known is not None and known.probed_at:
        yield capability_finding(model, known, now=parts.clock())
    else:
        yield model.line("capability", "answers in plain text, for which nothing need be found out")


async def _listed(parts: PipelineParts) -> list[DoctorFinding]:
    """Ask the answering model's host whether it lists it; a host that cannot be asked is a finding too."""
    seat = parts.answerer
    assert seat is not None
    provider = connect_provider(ModelSpec(seat.provider, seat.model), parts.settings)
    if not isinstance(provider, Adaptable):
        return []
    model = CheckedModel("answerer", seat.provider, seat.model, seat.host)
    try:
        names = await provider.models()
    except ProviderError as error:
        return [model.line("model", f"{error.kind}: {error.message}", ok=False, hint=error.hint)]
    finally:
        await provider.aclose()
    if not names:
        return [model.line("model", "the host lists no models, so nothing is known of this one")]
    if is_model_listed(seat.model, names):
        return [model.line("model", f"listed by its host, among {len(names):,}")]
    return [model.line("model", f"`{seat.model}` is not listed by its host", ok=False, hint=_among(names))]


async def _probe(parts: PipelineParts, calls: JudgeCalls) -> list[DoctorFinding]:
    """Judge two memories of our own making; the repository's text is not sent."""
    async with parts.open_resources(f"p_{token_hex(8)}") as resources:
        try:
            line = resources.judging_provider(calls.provider, model=calls.model.name)
            found = await probe_host(parts.store.connection, calls, line, clock=parts.clock)
        except (ProviderError, NoUsableModel, BudgetExhausted) as error:
            hint = await _names_hint(calls) if isinstance(error, UnknownModel) else ""
            return [DoctorFinding("probe", False, f"{error.kind}: {error.message}", hint or error.hint)]
    return _probed(found)


async def _names_hint(calls: JudgeCalls) -> str:
    names: tuple[str, ...] = ()
    if isinstance(calls.provider, Adaptable):
        with suppress(ProviderError):
            names = await calls.provider.models()
    return _among(names) if names else ""


def _among(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
    return f"It lists {', '.join(names[:NAMES_SHOWN])}{more}."


def _probed(found: ProbeResult) -> list[DoctorFinding]:
    scores = " and ".join(map(str, found.scores))
    counted = "" if found.capability.reports_usage else ", by our estimate"
    usage = found.usage
    return [
        DoctorFinding("probe", True, f"two memories judged, {scores} of 100, in {found.took_s:.1f} s"),
        DoctorFinding("probe usage", True, f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{counted}"),
    ]


def _nothing_to_probe(parts: PipelineParts) -> DoctorFinding:
    return DoctorFinding("probe", False, "no model judges, so there is nothing to probe", _key_hint(parts))


def _budget(parts: PipelineParts) -> DoctorFinding:
    cap, ask = parts.settings.budget.max_usd, parts.settings.budget.confirm_usd
    if cap is None:
        return DoctorFinding("budget", False, "no cap on a turn", "Set budget.max_usd.")
    return DoctorFinding("budget", True, f"at most ${cap} a turn; asks first above ${ask}")


def _key_hint(parts: PipelineParts) -> str:
    keys = f"{parts.settings.openai.api_key_env} or {parts.settings.anthropic.api_key_env}"
    return f"Set {keys}, or OPENAI_BASE_URL for a server of your own."
