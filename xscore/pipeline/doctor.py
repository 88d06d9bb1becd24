"""Look at the store, the settings and the models, one finding a line; `--probe` sends one pack of two memories.

It repairs nothing. Without the probe nothing is sent; with it, the judge is probed afresh and the host of the
answering model is asked for the names it serves. What is said of a model is `model_checks`.
"""

from collections.abc import Iterator
from contextlib import suppress
from secrets import token_hex

from xscore import database
from xscore.cache import capabilities
from xscore.errors import BudgetExhausted, NoUsableModel, ProviderError, StoreError, UnknownModel, UsageError
from xscore.memory import rows
from xscore.pipeline import model_checks as checks
from xscore.pipeline.embedding import in_words
from xscore.pipeline.model_checks import Model
from xscore.pipeline.parts import JudgeCalls, Parts
from xscore.pipeline.probe import Probed, find_out, known_of
from xscore.providers.catalog import declared
from xscore.providers.context_length import is_listed
from xscore.providers.provider import Adaptable
from xscore.providers.spec import Spec, connect
from xscore.records import Capability, Diagnosis, Finding

NAMES_SHOWN = 5


async def diagnose(parts: Parts, *, probe: bool) -> Diagnosis:
    """Collect the findings in the order to read them."""
    probed: list[Finding] = []
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
        _embedder(parts),
        *await _shared_server(parts),
    ]
    if probe and parts.answerer is not None:
        findings.extend(await _listed(parts))
    return Diagnosis(findings=(*findings, _budget(parts)))


async def _shared_server(parts: Parts) -> list[Finding]:
    from xscore.shared.checks import look  # no other command looks

    return await look(parts.settings.shared)


def _root(parts: Parts) -> Finding:
    kind = "git repository" if parts.root.is_git else "plain folder"
    return Finding("root", True, f"{parts.root.path} ({kind})")


def _own_store(parts: Parts) -> Iterator[Finding]:
    """Open and read the user's own store, where there is one."""
    try:
        own = parts.store.user_connection()
        if own is not None:
            (said,) = own.execute("PRAGMA quick_check(1)").fetchone()
            rows.memories(own, "1", ())
            hint = "" if said == "ok" else database.way_back(parts.store.user_path)
            yield Finding(
                "your store", said == "ok", f"{parts.store.user_path}{'' if said == 'ok' else f': {said}'}", hint
            )
    except StoreError as error:
        yield Finding("your store", False, error.message, error.hint)


def _store(parts: Parts) -> Finding:
    if parts.root.read_only:
        return Finding("store", True, f"{parts.store.path} (the root is read-only, so it stands in your cache folder)")
    return Finding("store", True, str(parts.store.path))


def _judge(parts: Parts, calls: JudgeCalls | None) -> Iterator[Finding]:
    if calls is None:
        yield Finding("judge", True, "lexical: scores words, not meaning; no model judges", _key_hint(parts))
        return
    model = _judging_model(calls)
    known = known_of(parts.store.connection, calls, now=parts.clock())
    yield checks.where(model, parts.settings)
    key = checks.key(model, parts.settings)
    if key is not None:
        yield key
    yield checks.priced(model)
    yield _limits(parts, calls, model, known)
    yield checks.reasoning(model, calls.model.reasoning, known)
    packs = f"{calls.packs.tokens:,} tokens, at most {calls.packs.size} memories"
    yield model.line("packs", f"{packs}; {calls.model.order.replace('_', ' ')}")
    yield _capability(parts, calls, model, known)


def _judging_model(calls: JudgeCalls) -> Model:
    return Model("judge", calls.provider.name, calls.model.name, calls.provider.host)


def _limits(parts: Parts, calls: JudgeCalls, model: Model, known: Capability | None) -> Finding:
    judge = parts.settings.judge
    here = [f"{count:,} {what}" for count, what in ((judge.rpm, "requests"), (judge.tpm, "tokens")) if count]
    said = f"at most {calls.concurrency} calls in flight; limits set here: {', '.join(here) or 'none'}"
    stated = checks.stated(known.limits) if known else ""
    return model.line("limits", f"{said}{' a minute' if here else ''}; stated by the host: {stated or 'none yet'}")


def _capability(parts: Parts, calls: JudgeCalls, model: Model, known: Capability | None) -> Finding:
    if known is not None and known.probed_at:
        return checks.capability(model, known, now=parts.clock())
    if not isinstance(calls.provider, Adaptable):
        return model.line(
            "capability", "nothing is found out for this provider: its hosts are taken to speak all of its dialect"
        )
    if calls.provider.is_vendors_own:
        return model.line("capability", "the vendor's own host, which takes all that is sent")
    if not parts.settings.judge.probe:
        return model.line("capability", "not found out: judge.probe is off")
    return model.line("capability", "not found out yet; the first turn does, with a small call of its own text")


def _answerer(parts: Parts) -> Iterator[Finding]:
    seat = parts.answerer
    if seat is None:
        yield Finding("answerer", True, "none: `ask` prints the bundle", _key_hint(parts))
        return
    model, primary = Model("answerer", seat.provider, seat.model, seat.host), parts.settings.primary
    yield checks.where(model, parts.settings)
    key = checks.key(model, parts.settings)
    if key is not None:
        yield key
    yield checks.priced(model)
    known = capabilities.remembered(parts.store.connection, provider=seat.provider, host=seat.host, model=seat.model)
    stated = checks.stated(known.limits) if known else ""
    tail = f"; stated by the host: {stated}" if stated else ""
    cap = f"one call a turn, of at most {primary.max_output_tokens:,} tokens out, within {primary.timeout_s:g} s"
    yield model.line("limits", cap + tail)
    default = "the host's default" if declared(seat.provider, seat.model).known else "not asked for"
    yield model.line("reasoning", f"`{primary.reasoning}`" if primary.reasoning else default)
    if known is not None and known.probed_at:
        yield checks.capability(model, known, now=parts.clock())
    else:
        yield model.line("capability", "answers in plain text, for which nothing need be found out")


def _embedder(parts: Parts) -> Finding:
    try:
        return Finding("embedder", True, in_words(parts.settings))
    except (UsageError, ProviderError) as error:
        return Finding("embedder", False, error.message, error.hint)


async def _listed(parts: Parts) -> list[Finding]:
    """Ask the answering model's host whether it lists it; a host that cannot be asked is a finding too."""
    seat = parts.answerer
    assert seat is not None
    provider = connect(Spec(seat.provider, seat.model), parts.settings)
    if not isinstance(provider, Adaptable):
        return []
    model = Model("answerer", seat.provider, seat.model, seat.host)
    try:
        names = await provider.models()
    except ProviderError as error:
        return [model.line("model", f"{error.kind}: {error.message}", ok=False, hint=error.hint)]
    finally:
        await provider.aclose()
    if not names:
        return [model.line("model", "the host lists no models, so nothing is known of this one")]
    if is_listed(seat.model, names):
        return [model.line("model", f"listed by its host, among {len(names):,}")]
    return [model.line("model", f"`{seat.model}` is not listed by its host", ok=False, hint=_among(names))]


async def _probe(parts: Parts, calls: JudgeCalls) -> list[Finding]:
    """Judge two memories of our own making; the repository's text is not sent."""
    async with parts.open_desk(f"p_{token_hex(8)}") as desk:
        try:
            line = desk.wrap(calls.provider, model=calls.model.name)
            found = await find_out(parts.store.connection, calls, line, clock=parts.clock)
        except (ProviderError, NoUsableModel, BudgetExhausted) as error:
            hint = await _names_hint(calls) if isinstance(error, UnknownModel) else ""
            return [Finding("probe", False, f"{error.kind}: {error.message}", hint or error.hint)]
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


def _probed(found: Probed) -> list[Finding]:
    scores = " and ".join(map(str, found.scores))
    counted = "" if found.capability.reports_usage else ", by our estimate"
    usage = found.usage
    return [
        Finding("probe", True, f"two memories judged, {scores} of 100, in {found.took_s:.1f} s"),
        Finding("probe usage", True, f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{counted}"),
    ]


def _nothing_to_probe(parts: Parts) -> Finding:
    return Finding("probe", False, "no model judges, so there is nothing to probe", _key_hint(parts))


def _budget(parts: Parts) -> Finding:
    cap, ask = parts.settings.budget.max_usd, parts.settings.budget.confirm_usd
    if cap is None:
        return Finding("budget", False, "no cap on a turn", "Set budget.max_usd.")
    return Finding("budget", True, f"at most ${cap} a turn; asks first above ${ask}")


def _key_hint(parts: Parts) -> str:
    keys = f"{parts.settings.openai.api_key_env} or {parts.settings.anthropic.api_key_env}"
    return f"Set {keys}, or OPENAI_BASE_URL for a server of your own."
