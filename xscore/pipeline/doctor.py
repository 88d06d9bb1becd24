"""Look at the store, the settings and the models, one finding a line; `--probe` sends one pack of two memories.

It repairs nothing. Without the probe nothing is sent.
"""

import time
from collections.abc import Iterator
from decimal import Decimal

from xscore.errors import ProviderError
from xscore.pipeline.model_seat import ModelSeat
from xscore.pipeline.parts import Parts
from xscore.prompts.judge import PackEntry, judging_request, turn_block
from xscore.providers.catalog import declared
from xscore.providers.hosts import is_loopback
from xscore.providers.prices import price
from xscore.records import Completion, Diagnosis, Finding, Turn, Usage
from xscore.scorer import parse

SHORT_CALL = 10_000
"""Tokens of the call that is priced, well below any long-prompt tier."""
CALLS_A_MILLION = 100
REASONING_A_JUDGMENT = 2
"""More reasoning tokens than this for a judgment and the judge is the wrong one."""
PROBE = (
    PackEntry("ka", "function", "probe/add.py", "add", "def add(a, b):\n    return a + b"),
    PackEntry("qe", "function", "probe/greet.py", "greet", "def greet(name):\n    return f'hello {name}'"),
)
PROBE_TASK = Turn(task="Make `add` accept any number of numbers.")
PROBE_OUTPUT_TOKENS = 2_000


async def diagnose(parts: Parts, *, probe: bool) -> Diagnosis:
    """Collect the findings in the order to read them."""
    found = [_root(parts), _store(parts), *_judge(parts), _answerer(parts), _budget(parts)]
    if probe and isinstance(parts.judge, ModelSeat):
        found.extend(await _probe(parts, parts.judge))
    elif probe:
        found.append(Finding("probe", False, "no model judges, so there is nothing to probe", _key_hint(parts)))
    return Diagnosis(findings=tuple(found))


def _root(parts: Parts) -> Finding:
    kind = "git repository" if parts.root.is_git else "plain folder"
    return Finding("root", True, f"{parts.root.path} ({kind})")


def _store(parts: Parts) -> Finding:
    if parts.root.read_only:
        return Finding("store", True, f"{parts.store.path} (the root is read-only, so it stands in your cache folder)")
    return Finding("store", True, str(parts.store.path))


def _judge(parts: Parts) -> Iterator[Finding]:
    seat = parts.judge
    if not isinstance(seat, ModelSeat):
        yield Finding("judge", True, "lexical: scores words, not meaning; no model judges", _key_hint(parts))
        return
    name, host, model = seat.identity.provider, seat.host, seat.identity.model
    yield Finding("judge", True, f"{name}:{model} at {host}{' (this machine)' if is_loopback(host) else ''}")
    if name == "openai":
        yield _key(parts, host)
    yield _price("judge price", *_a_million(name, model, host))
    traits = declared(name, model)
    settled = f"reasoning {traits.reasoning or 'not sent'}, order {seat.identity.order}, packs of {_pack(seat)}"
    yield Finding("judge settings", True, settled if traits.known else f"{settled}; nothing is declared for this model")
    limits = parts.settings.judge
    rates = f"{limits.rpm or 'no'} requests and {limits.tpm or 'no'} tokens a minute"
    yield Finding("judge limits", True, f"{seat.concurrency} calls in flight; set here: {rates}")


def _pack(seat: ModelSeat) -> str:
    return f"{seat.drafts.profile.tokens:,} tokens, at most {seat.drafts.profile.size}"


def _key(parts: Parts, host: str) -> Finding:
    openai = parts.settings.openai
    key = openai.api_key.get_secret_value()
    if key:
        return Finding("key", True, f"…{key[-4:]} from {openai.api_key_env}, goes to {host}")
    return Finding("key", True, f"none; {host} is this machine and gets a dummy")


def _a_million(provider: str, model: str, host: str) -> tuple[Decimal | None, Decimal | None]:
    """Return the dollars of a million tokens in and out, at the price of a short call."""
    calls = (Usage(input_tokens=SHORT_CALL), Usage(output_tokens=SHORT_CALL))
    usd_in, usd_out = (price(provider, model, host, usage) for usage in calls)
    return usd_in and usd_in * CALLS_A_MILLION, usd_out and usd_out * CALLS_A_MILLION


def _price(name: str, input_usd: Decimal | None, output_usd: Decimal | None) -> Finding:
    """Say the price of a short call; long prompts may be in a dearer tier."""
    if input_usd is None or output_usd is None:
        hint = "max_usd cannot hold what has no price; use a model the price tables know, or a local one."
        return Finding(name, False, "unpriced: no price is known for this model at this host", hint)
    return Finding(name, True, f"${input_usd:.2f} in, ${output_usd:.2f} out a million tokens")


def _answerer(parts: Parts) -> Finding:
    seat = parts.answerer
    if seat is None:
        return Finding("answerer", True, "none: `ask` prints the bundle", _key_hint(parts))
    usd_in, usd_out = _a_million(seat.provider, seat.model, seat.host)
    priced = usd_in is not None and usd_out is not None
    said = f"${usd_in:.2f} in, ${usd_out:.2f} out a million tokens" if priced else "unpriced"
    return Finding("answerer", True, f"{seat.provider}:{seat.model} at {seat.host}, {said}")


def _budget(parts: Parts) -> Finding:
    cap, ask = parts.settings.budget.max_usd, parts.settings.budget.confirm_usd
    if cap is None:
        return Finding("budget", False, "no cap on a turn", "Set budget.max_usd.")
    return Finding("budget", True, f"at most ${cap} a turn; asks first above ${ask}")


def _key_hint(parts: Parts) -> str:
    return f"Set {parts.settings.openai.api_key_env}, or OPENAI_BASE_URL for a server of your own."


async def _probe(parts: Parts, seat: ModelSeat) -> list[Finding]:
    """Judge two memories of our own making; the repository's text is not sent."""
    request = judging_request(
        PROBE,
        turn_block(PROBE_TASK),
        model=seat.drafts.model.name,
        max_output_tokens=PROBE_OUTPUT_TOKENS,
        order=seat.identity.order,
        reasoning=seat.identity.reasoning,
        temperature=seat.drafts.model.temperature,
        timeout_s=seat.drafts.model.timeout_s,
    )
    began = time.monotonic()
    async with parts.open_desk(f"p_{time.time_ns():x}") as desk:
        try:
            completion = await desk.wrap(seat.provider).complete(request)
        except ProviderError as error:
            return [Finding("probe", False, f"{error.kind}: {error.message}", error.hint)]
    return _probed(completion, request.reply_ids, time.monotonic() - began)


def _probed(completion: Completion, ids: tuple[str, ...], took_s: float) -> list[Finding]:
    reply = parse.read(completion.text, frozenset(ids))
    scores = ", ".join(f"{score}" for _, score in sorted(reply.scores.items()))
    good = len(reply.scores) == len(ids)
    said = f"scores {scores} of 100 in {took_s:.1f} s" if good else f"{len(reply.scores)} of {len(ids)} scores readable"
    findings = [Finding("probe", good, said, "" if good else "This model does not follow the protocol; use another.")]
    usage = completion.usage
    counted = "" if completion.usage_reported else " (not reported by the host: our estimate)"
    findings.append(Finding("probe usage", True, f"{usage.input_tokens} tokens in, {usage.output_tokens} out{counted}"))
    spent = usage.reasoning_tokens / len(ids)
    if spent > REASONING_A_JUDGMENT:
        hint = "Most of the price of a turn would be reasoning; use a model that can do without."
        findings.append(Finding("probe reasoning", False, f"{spent:.0f} reasoning tokens a judgment", hint))
    return findings
