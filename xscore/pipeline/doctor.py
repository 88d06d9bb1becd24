"""Check store, settings, models and extensions: one finding a line. It repairs nothing.

Nothing is sent without `--probe`; with it the judge scores two built-in memories, and the answering
host lists its models. Trade-off: prices are for a short call; a long prompt may cost more.
"""

from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

from xscore.cache import capabilities
from xscore.extensions.agents.planted_environment import environment_warnings
from xscore.pipeline.factories import choose_judge, settings_judged_by
from xscore.pipeline.judge_prompts import pack_profile
from xscore.pipeline.known_hosts import known_capability
from xscore.pipeline.parts import DOCTOR_CHECKS, PipelineParts
from xscore.pipeline.probe import probe_host
from xscore.pipeline.reasons import NO_MODEL, reason_model
from xscore.platform import sqlite_drivers
from xscore.platform.errors import (
    BudgetExhausted,
    NoUsableModel,
    ProviderError,
    StoreError,
    UnknownModel,
    UsageError,
)
from xscore.platform.paths import RepositoryRoot, user_stores_dir
from xscore.platform.processes import random_hex
from xscore.platform.text import SHORTEST_KEY_SHOWN, counted, mask_key
from xscore.prompts.bundle_parts import age_text
from xscore.providers.catalog import UNKNOWN, model_settings
from xscore.providers.decision_hosts import DECISION_HOSTS
from xscore.providers.host_facts import is_model_listed
from xscore.providers.hosts import is_loopback
from xscore.providers.prices import PriceList, assumed_price
from xscore.providers.provider import Adaptable, Provider
from xscore.providers.spec import (
    LEXICAL,
    ModelSpec,
    connect_provider,
    host_access,
    host_with_key,
    parse_model_spec,
)
from xscore.providers.transport import route_to
from xscore.records.calls import Capability, ReplyForm, Usage
from xscore.records.reports import Diagnosis, DoctorFinding
from xscore.settings import Settings
from xscore.settings.values import NO_FINAL_ROUND, SET_A_JUDGE, SET_AN_ANSWERER
from xscore.store import memory_rows
from xscore.store.opening import has_store

NO_STORE = "none yet: `xscore index` or the first turn creates it"
SHORT_CALL = 10_000
"""Tokens of the call that is priced, well below any long-prompt tier."""
REASONING_A_JUDGMENT = 2
"""Most reasoning tokens for a judgment; with more, the judge is the wrong one."""
NAMES_SHOWN = 5
REPLY_FORMS = {
    ReplyForm.JSON_SCHEMA: "follows a strict schema",
    ReplyForm.JSON_OBJECT: "gives JSON, without a schema",
    ReplyForm.TEXT: "gives JSON only if the prompt asks for it",
}


async def diagnose(parts: PipelineParts, *, probe: bool) -> Diagnosis:
    """Collect the findings in the order to read them."""
    answerer = parts.answerer
    probed = await _probe(parts) if probe else []
    kind = "git repository" if parts.root.is_git else "plain folder"
    store_place = NO_STORE
    if has_store(parts.root.store_dir):
        store_place = f"{parts.store.original_path}{_where_kept(parts.root)}"
    findings = [
        DoctorFinding("root", True, f"{parts.root.path} ({kind})"),
        DoctorFinding("store", True, store_place),
        *_own_store(parts),
        *_judge(parts),
        *_other_judges(parts),
        *_reasons(parts),
        *_extractor(parts),
        *probed,
        *_answerer(parts),
        *await _extensions(parts),
        *_agents(parts),
    ]
    if probe and answerer is not None:
        findings += await _listed(
            parts, _CheckedModel("answerer", answerer.provider, answerer.model, answerer.host)
        )
    cap = parts.settings.budget.max_usd
    ask = parts.settings.budget.confirm_usd
    if cap is None:
        findings.append(
            DoctorFinding("budget", False, "no cap on a turn", "Set budget.max_usd.")
        )
    else:
        findings.append(
            DoctorFinding("budget", True, f"at most ${cap} a turn; asks first above ${ask}")
        )
    return Diagnosis(findings=tuple(findings))


def _where_kept(root: RepositoryRoot) -> str:
    """Return why a store is not where stores usually are; empty if it is."""
    if root.read_only:
        return " (its folder cannot be written: a copy is read, and nothing is kept)"
    if root.store_dir.is_relative_to(user_stores_dir()):
        return (
            " (in your own folder: the repository has no git folder "
            "of its own that can be written)"
        )
    return ""


def _own_store(parts: PipelineParts) -> Iterator[DoctorFinding]:
    """Open and read the user's own store, where there is one."""
    path = parts.store.user_path
    try:
        connection = parts.store.user_connection()
        if connection is not None:
            (integrity,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            memory_rows.select_memories(connection, "1", ())
            if integrity == "ok":
                yield DoctorFinding("your store", True, str(path))
            else:
                yield DoctorFinding(
                    "your store",
                    False,
                    f"{path}: {integrity}",
                    sqlite_drivers.recovery_hint(path),
                )
    except StoreError as error:
        yield DoctorFinding("your store", False, error.message, error.hint)


async def _extensions(parts: PipelineParts) -> list[DoctorFinding]:
    findings: list[DoctorFinding] = []
    for check in DOCTOR_CHECKS.implementations(parts.settings):
        findings += await check(parts.settings)
    terms = DoctorFinding(
        "embedder", True, "terms: the words of each memory, hashed; no model, nothing sent"
    )
    if any(finding.name == terms.name for finding in findings):
        return findings
    return [terms, *findings]


def _agents(parts: PipelineParts) -> Iterator[DoctorFinding]:
    """Name what the project's own files set for agents.

    It may be the user's own wish, so there is nothing to fix.
    """
    for warning in environment_warnings(parts.root.path):
        yield DoctorFinding("agents", True, warning)


SHORTEST_KEY = 8
"""Fewest characters of a key; no host's keys are shorter."""
_KEY_HINT = f"Set {SET_A_JUDGE}."


class _CheckedModel(Struct, frozen=True):
    """A model and its role."""

    role: str
    """`judge` or `answerer`, which begins the name of every line."""
    provider: str
    name: str
    host: str

    def line(
        self, subject: str, detail: str, *, ok: bool = True, hint: str = ""
    ) -> DoctorFinding:
        """Return one line; `subject` is empty for the first."""
        return DoctorFinding(f"{self.role} {subject}".strip(), ok, detail, hint)

    def findings(self, settings: Settings) -> Iterator[DoctorFinding]:
        """Report where the model is, which key goes there, and what it costs."""
        this_machine = ""
        if is_loopback(self.host) and self.host != "-":
            this_machine = " (this machine)"
        place = f"{self.provider}:{self.name} at {self.host}{this_machine}"
        account = host_access(self.provider, settings)
        if account is None:  # other providers manage their own keys and routes
            yield self.line("", place)
        else:
            try:
                proxy = route_to(account.base_url).proxy_host
                yield self.line("", f"{place}, through the proxy {proxy}" if proxy else place)
            except UsageError as error:
                yield self.line("", f"{place}: {error.message}", ok=False, hint=error.hint)
            secret = account.api_key.reveal()
            end = (
                mask_key(secret)
                if len(secret) >= SHORTEST_KEY_SHOWN
                else "set (too short to display)"
            )
            key_words = f"{end} from {account.api_key_env}, sent to {self.host}"
            if not secret:
                key_words = (
                    f"none needed: {self.host} is this machine "
                    f"({account.api_key_env} is not set)"
                )
            # A server of this machine takes any key, and short ones are often set for it.
            is_doubtful = 0 < len(secret) < SHORTEST_KEY and not this_machine
            hint = (
                f"It has {counted(len(secret), 'character')}: check that {account.api_key_env} is"
                " a complete key."
            )
            yield self.line(
                "key", key_words, ok=not is_doubtful, hint=hint if is_doubtful else ""
            )
        yield self._price(PriceList(settings.provider.price))

    def _price(self, prices: PriceList) -> DoctorFinding:
        calls = (Usage(input_tokens=SHORT_CALL), Usage(output_tokens=SHORT_CALL))
        price_in, price_out = (
            prices(self.provider, self.name, self.host, usage) for usage in calls
        )
        if price_in is None or price_out is None:
            hint = (
                "budget.max_usd cannot limit calls without a price; use a model with a known"
                " price, or a local one."
            )
            return self.line(
                "price", "no price is known for this model at this host", ok=False, hint=hint
            )
        if not price_in and not price_out:
            return self.line(
                "price", "free: a model server on this machine, or nothing is sent"
            )
        million = 1_000_000 // SHORT_CALL
        price_words = (
            f"${price_in * million:.2f} in and "
            f"${price_out * million:.2f} out, for a million tokens"
        )
        price_words += f" (tariff {prices.tariff(self.provider, self.name, self.host)})"
        if assumed_price(self.name, self.host, prices.rule) == "vendor":
            price_words += (
                f"; assumed: {self.host} passes calls on to the vendor (provider.price)"
            )
        return self.line("price", price_words)

    def capability(
        self, capability: Capability | None, unknown: str, *, now: float
    ) -> DoctorFinding:
        """Report what the host can do, or `unknown` where it was not found out. now: Unix
        seconds."""
        if capability is None or not capability.probed_at:
            return self.line("capability", unknown)
        usage = "does not report token usage, so tokens are estimated"
        if capability.reports_usage:
            usage = "reports token usage" + (
                ", and which came from its cache" if capability.reports_cached_tokens else ""
            )
        length = capability.context_tokens
        abilities = [
            (
                f"answers as {capability.answered_by}"
                if capability.answered_by
                else REPLY_FORMS[capability.reply_form]
            ),
            usage,
            f"holds {length:,} tokens" if length else "does not report its context size",
            f"refuses {', '.join(capability.without)}" if capability.without else "",
        ]
        return self.line(
            "capability",
            f"{'; '.join(filter(None, abilities))} (found {age_text(now - capability.probed_at)})",
        )


def _other_judges(parts: PipelineParts) -> Iterator[DoctorFinding]:
    """Report each model that takes over what the judge leaves, or holds a final round; a judge by
    words needs none."""
    if not parts.judge.paid:
        return
    names = [name for name in parts.settings.judge.fallback if name != LEXICAL]
    model_by_use = {f"fallback {number}": name for number, name in enumerate(names, 1)}
    if parts.settings.selection.final != NO_FINAL_ROUND:
        model_by_use["final round"] = parts.settings.selection.final
    for use, name in model_by_use.items():
        try:
            spec, _ = choose_judge(settings_judged_by(name, parts.settings))
            host = host_with_key(spec, parts.settings)
        except (NoUsableModel, UsageError) as error:
            yield DoctorFinding(use, False, f"{name}: {error.message}", error.hint)
        else:
            model = _CheckedModel(use, spec.provider, spec.model, host)
            yield from model.findings(parts.settings)


def _extractor(parts: PipelineParts) -> Iterator[DoctorFinding]:
    """Report the model that is asked for facts of sessions, if one is named."""
    name = parts.settings.memory.extractor
    if not name or parts.settings.memory.extract == "off":
        return
    try:
        spec = parse_model_spec(name)
        host = host_with_key(spec, parts.settings)
    except (NoUsableModel, ProviderError, UsageError) as error:
        yield DoctorFinding("facts", False, f"{name}: {error.message}", error.hint)
    else:
        model = _CheckedModel("facts", spec.provider, spec.model, host)
        yield from model.findings(parts.settings)


def _reasons(parts: PipelineParts) -> Iterator[DoctorFinding]:
    """Report the chat model that gives reasons for what a decision model chose; other judges need
    none."""
    if not parts.judge.identity.is_decision:
        return
    try:
        spec = reason_model(parts.settings.judge.reason_model, parts.judge.spec)
        host = host_with_key(spec, parts.settings) if spec else ""
    except (NoUsableModel, ProviderError, UsageError) as error:
        yield DoctorFinding("reasons", False, error.message, error.hint)
        return
    if spec is None:
        yield DoctorFinding("reasons", True, f"none: {NO_MODEL}")
    else:
        yield from _CheckedModel("reasons", spec.provider, spec.model, host).findings(
            parts.settings
        )


def _judge(parts: PipelineParts) -> Iterator[DoctorFinding]:
    described = parts.judge
    if not described.paid:
        yield DoctorFinding(
            "judge", True, "lexical: scores words, not meaning; no model judges", _KEY_HINT
        )
        return
    provider = described.connected()
    packs = pack_profile(described)
    model = _CheckedModel("judge", provider.name, described.asked_model, described.host)
    capability = known_capability(
        parts.store.connection, provider, described.asked_model, now=parts.clock()
    )
    judge = parts.settings.judge
    yield from model.findings(parts.settings)
    set_limits = [
        f"{count:,} {unit}"
        for count, unit in ((judge.rpm, "requests"), (judge.tpm, "tokens"))
        if count
    ]
    set_words = f"{', '.join(set_limits)} a minute" if set_limits else "none"
    calls_words = (
        f"at most {described.concurrency} calls in flight; limits set here: {set_words}"
    )
    limits = described.stated_limits
    stated = (capability.limits.in_words() if capability else "") or (
        limits.in_words() if limits else ""
    )
    yield model.line(
        "limits",
        f"{calls_words}; stated by the host: {f'{stated} a minute' if stated else 'none yet'}",
    )
    yield _reasoning(model, described.identity.reasoning, capability)
    size = f"{packs.tokens:,} tokens, at most {packs.size}"
    if packs.is_independent:
        route = DECISION_HOSTS[model.provider].route
        yield model.line(
            "wire", f"{route}: one memory, one question; {size} questions a request"
        )
    else:
        yield model.line(
            "packs",
            f"chat prompts of {size} memories; {described.identity.order.replace('_', ' ')}",
        )
    unknown = _unknown_capability(provider, may_probe=judge.probe)
    yield model.capability(capability, unknown, now=parts.clock())


def _reasoning(
    model: _CheckedModel, effort: str, capability: Capability | None
) -> DoctorFinding:
    """Report a judge's declared reasoning and what it used in the probe."""
    declared = "this model is not in the built-in tables, so the host's default applies"
    if effort:
        declared = f"reasoning effort set to this model's minimum (`{effort}`)"
    elif model_settings(model.provider, model.name) is not UNKNOWN:
        declared = "this model does not reason"
    if capability is None or not capability.probed_at:
        return model.line("reasoning", declared)
    spent = capability.reasoning_tokens
    is_much = spent > REASONING_A_JUDGMENT
    hint = (
        f"More than {REASONING_A_JUDGMENT} make reasoning most of the price; use a model that works"
        " without it."
    )
    measured = f"{declared}; measured: {spent:,} tokens a judgment"
    return model.line("reasoning", measured, ok=not is_much, hint=hint if is_much else "")


def _unknown_capability(provider: Provider, *, may_probe: bool) -> str:
    if not isinstance(provider, Adaptable):
        return "not probed: this provider's hosts are assumed to support its whole API"
    if provider.is_vendors_own:
        return "the vendor's own host, which accepts every field"
    if not may_probe:
        return "not known: judge.probe is off"
    return "not known yet; the first turn finds out with one small test call"


def _answerer(parts: PipelineParts) -> Iterator[DoctorFinding]:
    answerer = parts.answerer
    primary = parts.settings.primary
    if answerer is None:
        hint = f"Set {SET_AN_ANSWERER}." if parts.judge.paid else _KEY_HINT
        yield DoctorFinding("answerer", True, "none: `ask` shows the ranking", hint)
        return
    model = _CheckedModel("answerer", answerer.provider, answerer.model, answerer.host)
    yield from model.findings(parts.settings)
    capability = capabilities.read_capability(
        parts.store.connection,
        provider=answerer.provider,
        host=answerer.host,
        model=answerer.model,
    )
    limits = capability.limits.in_words() if capability else ""
    stated = f"; stated by the host: {limits} a minute" if limits else ""
    cap = (
        f"one call a turn, of at most {primary.max_output_tokens:,} tokens out, within"
        f" {primary.timeout_s:g} s"
    )
    yield model.line("limits", cap + stated)
    default = (
        "the host's default"
        if model_settings(answerer.provider, answerer.model) is not UNKNOWN
        else "not asked for"
    )
    yield model.line("reasoning", f"`{primary.reasoning}`" if primary.reasoning else default)
    unknown = "not needed: it answers in plain text"
    yield model.capability(capability, unknown, now=parts.clock())


async def _listed(parts: PipelineParts, model: _CheckedModel) -> list[DoctorFinding]:
    """Ask the answering model's host whether it lists it; a host that cannot be asked is a finding
    too."""
    provider = connect_provider(ModelSpec(model.provider, model.name), parts.settings)
    if not isinstance(provider, Adaptable):
        return []
    try:
        names = await provider.models()
    except ProviderError as error:
        return [
            model.line("model", f"{error.kind}: {error.message}", ok=False, hint=error.hint)
        ]
    finally:
        await provider.aclose()
    if not names:
        return [model.line("model", "the host lists no models, so this one cannot be checked")]
    if is_model_listed(model.name, names):
        return [model.line("model", f"listed by its host, among {len(names):,}")]
    return [
        model.line(
            "model", f"`{model.name}` is not listed by its host", ok=False, hint=_among(names)
        )
    ]


async def _probe(parts: PipelineParts) -> list[DoctorFinding]:
    """Judge two built-in memories; the repository's text is not sent."""
    judge = parts.judge
    if not judge.paid:
        return [
            DoctorFinding(
                "probe", False, "no model judges, so there is nothing to probe", _KEY_HINT
            )
        ]
    async with parts.open_resources(f"p_{random_hex(8)}") as resources:
        try:
            line = resources.judging_provider(judge.connected(), model=judge.asked_model)
            probed = await probe_host(judge, line)
        except (ProviderError, NoUsableModel, BudgetExhausted) as error:
            names: tuple[str, ...] = ()
            provider = judge.connected()
            if isinstance(error, UnknownModel) and isinstance(provider, Adaptable):
                with suppress(ProviderError):
                    names = await provider.models()
            hint = _among(names) if names else error.hint
            return [DoctorFinding("probe", False, f"{error.kind}: {error.message}", hint)]
    scores = " and ".join(map(str, probed.scores))
    usage = probed.usage
    memories = "two memories" if len(probed.scores) > 1 else "one of two memories"
    estimated = "" if probed.capability.reports_usage else ", by our estimate"
    return [
        DoctorFinding(
            "probe", True, f"{memories} judged, {scores} of 100, in {probed.took_s:.1f} s"
        ),
        DoctorFinding(
            "probe usage",
            True,
            f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{estimated}",
        ),
    ]


def _among(names: tuple[str, ...]) -> str:
    further = f" and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
    return f"It lists {', '.join(names[:NAMES_SHOWN])}{further}."
