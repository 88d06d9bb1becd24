"""What judging would take, in calls, tokens, dollars and minutes, at the limits in force. Sends
nothing.

`estimate` drafts the prompts that would be sent to the judge in force, of a large pool an even
sample; a forecast takes the same packs and adds up sizes that the store holds, for the rest of a
large pool, for the other ways to judge and for what reports compare a turn with. Neither assumes a
prefix-cache discount; the warm estimate beside them does, for a host that still holds every lasting
prompt. What a host charges for writing to its cache is in the estimate only, since a turn is
compared with its cost without that cache.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from math import ceil
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.costs.call_history import Workload, expected_duration, is_timed, typical_latency_s
from xscore.pipeline.model_opening import cached_model
from xscore.pipeline.pool import Pool
from xscore.platform import tokens
from xscore.prompts.turn_text import turn_block
from xscore.providers.catalog import HOUR_S, ModelSettings, model_settings
from xscore.providers.prices import PriceList
from xscore.providers.rate_limits import LocalRates
from xscore.records.calls import Request, Usage
from xscore.records.events import JudgeEstimate
from xscore.records.judgment import JudgeIdentity
from xscore.records.memory import Candidate
from xscore.records.reports import Estimate
from xscore.records.turn import Turn
from xscore.scorer.drafts import PromptDrafts, PromptLayout
from xscore.scorer.judge import Texts
from xscore.scorer.packs import Pack

if TYPE_CHECKING:
    from xscore.pipeline.model_factory import ModelJudgeFactory

TOP_FOLDER = "(top)"
MEMORY_CHARS = len('<memory id="xx" kind="" name="">') + len("\n\n</memory>\n")
FILE_CHARS = len('<file path="">') + len("\n</file>\n")
PATH_CHARS = len(' path=""')
ASKED_CHARS = 100
"""The request that ends each prompt, and the line ends around the pack."""


DRAFTED_MEMORIES = 4_000
"""Pools of more memories are drafted in part: reading and rendering all texts of 43,000 took most
of an estimate."""
DECISIONS, COLD, WARM = "decisions", "chat cold", "chat warm"
"""How a judge is asked: `JudgeEstimate.way`."""
CACHE_STEP_TOKENS = 128
"""A host that caches prefixes by itself serves whole steps of this many tokens."""


def cost_of_calls(
    judge: JudgeIdentity,
    work: Workload,
    prices: PriceList,
    *,
    cache_ttl_s: int = 0,
    is_kept_unasked: bool = False,
) -> Decimal | None:
    """Price the average call and multiply, so that the sum does not hit a long-prompt tier; None:
    no price.

    cache_ttl_s: for how long the host is asked to keep the prompts; is_kept_unasked: it may keep
        them by itself. Either way they are priced as first writes to its cache.
    """
    if not work.calls:
        return Decimal(0)
    given, written = -(-work.input_tokens // work.calls), -(-work.output_tokens // work.calls)
    average = Usage(
        input_tokens=given,
        output_tokens=written,
        cached_input_tokens=work.cached_tokens // work.calls,
    )
    cost = prices(judge.provider, judge.model, judge.host, average)
    if cost is not None and (cache_ttl_s or is_kept_unasked):
        an_hour = given if cache_ttl_s >= HOUR_S else 0
        cached = replace(average, cache_write_tokens=given, cache_write_1h_tokens=an_hour)
        cost = max(cost, prices(judge.provider, judge.model, judge.host, cached) or cost)
    return None if cost is None else cost * work.calls


def estimate_drafted(factory: "ModelJudgeFactory", turn: Turn, pool: Pool) -> Estimate:
    """Estimate with a cold prefix cache at the host and, where there are packs, with a warm one.

    `prepare` adds the answering call and the other wire.
    """
    drafts, sees = factory.experienced(), factory.settings.judge.sees
    work = drafted_work(
        drafts, turn, factory.packs(pool), texts=factory.texts, sees=sees, traits=_traits(factory)
    )
    judge, *warm = _priced_ways(factory, work, pool)
    return Estimate(
        judge=judge,
        primary=None,
        ways=(judge, *warm),
        by_kind=_tokens_by(pool.misses, lambda miss: str(miss.kind)),
        by_folder=_tokens_by(
            pool.misses, lambda miss: miss.path.split("/", 1)[0] if "/" in miss.path else TOP_FOLDER
        ),
    )


def forecast_ways(
    factory: "ModelJudgeFactory", turn: Turn, pool: Pool
) -> tuple[JudgeEstimate, ...]:
    """Estimate each way of this judge by packs and sizes, without drafting a prompt."""
    return _priced_ways(factory, workload_of(factory, turn, pool), pool)


def workload_of(factory: "ModelJudgeFactory", turn: Turn, pool: Pool) -> Workload:
    """Add up what judging would send, by packs and sizes."""
    drafts, sees = factory.experienced(), factory.settings.judge.sees
    return forecast_work(drafts, turn, factory.packs(pool), sees=sees, traits=_traits(factory))


def _traits(factory: "ModelJudgeFactory") -> ModelSettings:
    return model_settings(factory.spec.provider, factory.spec.model)


def _priced_ways(
    factory: "ModelJudgeFactory", work: Workload, pool: Pool
) -> tuple[JudgeEstimate, ...]:
    """Price work with a cold prefix cache at the host and, where there are packs, with a warm
    one."""
    cost = cost_of_calls(
        replace(factory.identity, model=factory.drafts.model.name),
        work,
        PriceList(factory.settings.provider.price),
        cache_ttl_s=cached_model(factory).prefix_ttl_s,
        is_kept_unasked=not _traits(factory).cache_writes,
    )
    cold = replace(price_work(factory, work, pool), cost_usd=cost)
    if factory.spec.is_decision:
        return (cold,)
    return (cold, price_work(factory, replace(work, is_warm=True), pool))


def price_work(factory: "ModelJudgeFactory", work: Workload, pool: Pool) -> JudgeEstimate:
    """Price work for candidates of this pool in minutes and dollars, at the limits in force."""
    judging, prices, host = (
        factory.settings.judge,
        PriceList(factory.settings.provider.price),
        factory.host,
    )
    asked_for = replace(factory.identity, model=factory.drafts.model.name)
    limits = LocalRates(rpm=judging.rpm, tpm=judging.tpm, remembered=factory.stated_limits).in_force
    latency_s = typical_latency_s(factory.store.connection, host=host, model=asked_for.model)
    took = expected_duration(work, limits, latency_s=latency_s, concurrency=factory.concurrency)
    return JudgeEstimate(
        candidates=len(pool.candidates),
        cached=len(pool.candidates) - len(pool.misses) - pool.carried,
        carried=pool.carried,
        to_judge=len(pool.misses),
        calls=work.calls,
        input_tokens=work.input_tokens,
        cached_input_tokens=work.cached_tokens,
        output_tokens=work.output_tokens,
        cost_usd=cost_of_calls(asked_for, work, prices),
        seconds=took.seconds,
        is_assumed=took.binding_limit == "latency"
        and not is_timed(factory.store.connection, host=host, model=asked_for.model),
        binding_limit=took.binding_limit,
        host=host,
        limits=limits,
        concurrency=factory.concurrency,
        way=DECISIONS if factory.spec.is_decision else WARM if work.is_warm else COLD,
        judge=f"{asked_for.provider}:{asked_for.model}",
        tariff=prices.tariff(asked_for.provider, asked_for.model, host),
    )


def drafted_work(
    drafts: PromptDrafts,
    turn: Turn,
    packs: Sequence[Pack],
    *,
    texts: Texts,
    sees: str,
    traits: ModelSettings,
) -> Workload:
    """Add up the prompts that would be sent first; in a large pool a sample tells how far sizes
    alone are off.

    traits: declared of the model, its prefix cache included.
    """
    memories = sum(len(pack.members) for pack in packs)
    if memories <= DRAFTED_MEMORIES:
        return _drafted_exactly(drafts, turn, packs, texts=texts, sees=sees, traits=traits)
    # Packs hold the memories of the pool in order, so every nth one is of all folders and kinds.
    sample = packs[:: ceil(memories / DRAFTED_MEMORIES)]
    drafted = _drafted_exactly(drafts, turn, sample, texts=texts, sees=sees, traits=traits)
    forecast_of_sample = forecast_work(drafts, turn, sample, sees=sees, traits=traits)
    return _corrected(
        forecast_work(drafts, turn, packs, sees=sees, traits=traits), drafted, forecast_of_sample
    )


def _corrected(forecast: Workload, drafted: Workload, forecast_of_same: Workload) -> Workload:
    """Return a forecast times how far the forecast of a part of it was off."""

    def scaled(whole: int, exact: int, rough: int) -> int:
        return round(whole * exact / rough) if rough else whole

    return Workload(
        scaled(forecast.calls, drafted.calls, forecast_of_same.calls),
        scaled(forecast.input_tokens, drafted.input_tokens, forecast_of_same.input_tokens),
        scaled(forecast.output_tokens, drafted.output_tokens, forecast_of_same.output_tokens),
        scaled(forecast.lasting_tokens, drafted.lasting_tokens, forecast_of_same.lasting_tokens),
    )


def _drafted_exactly(
    drafts: PromptDrafts,
    turn: Turn,
    packs: Sequence[Pack],
    *,
    texts: Texts,
    sees: str,
    traits: ModelSettings,
) -> Workload:
    """Add up the exact prompts that would be sent first."""
    calls = given = written = lasting = 0
    for request in drafts.first_requests(packs, turn_block(turn, sees=sees), texts):
        calls += 1
        given += request.input_tokens
        written += drafts.expected_output(request.candidates)
        lasting += _lasting_tokens(request, drafts.model.chars_per_token, traits)
    return Workload(calls, given, written, lasting)


def _lasting_tokens(request: Request, chars_per_token: float, traits: ModelSettings) -> int:
    """Return the tokens of a prompt's beginning that its host may keep for later turns."""
    if not request.stable_parts:
        return 0
    size = tokens.size(request.system, *request.content[: request.stable_parts])
    return _cacheable(int(size / chars_per_token), traits)


def _cacheable(prefix_tokens: int, traits: ModelSettings) -> int:
    """Return how many of these tokens a host with these traits serves from its prefix cache."""
    if not traits.cache_breakpoints:
        prefix_tokens -= prefix_tokens % CACHE_STEP_TOKENS
    return prefix_tokens if prefix_tokens >= traits.cache_floor else 0


def forecast_work(
    drafts: PromptDrafts, turn: Turn, packs: Sequence[Pack], *, sees: str, traits: ModelSettings
) -> Workload:
    """Estimate judging these packs from the sizes in the store, without drafting prompts."""
    system = tokens.size(drafts.layout.system())
    shown = tokens.size(turn_block(turn, sees=sees)[: drafts.layout.turn_chars]) + ASKED_CHARS
    per_token = drafts.model.chars_per_token
    calls = chars = output = lasting = 0
    for pack in packs:
        asks, memories = prompts_of_pack(drafts, pack)
        pack_chars = asks * system + chars_of(drafts.layout, pack.members, memories)
        calls += asks
        chars += pack_chars + asks * shown
        output += asks * drafts.expected_output(ceil(memories / asks))
        if pack.is_kept and drafts.order == "memory_first":
            lasting += asks * _cacheable(int(pack_chars / asks / per_token), traits)
    return Workload(calls, round(chars / per_token), output, lasting)


def prompts_of_pack(drafts: PromptDrafts, pack: Pack) -> tuple[int, int]:
    """Return how many prompts a pack takes, and how many whole memories and parts they show.

    Whole memories share a prompt; each part of a long one has its own.
    """
    parts_of_members = [ceil(member.tokens / drafts.profile.longest) for member in pack.members]
    parts = sum(count for count in parts_of_members if count > 1)
    whole = sum(count <= 1 for count in parts_of_members)
    return parts + (whole > 0), parts + whole


def chars_of(layout: PromptLayout, members: Sequence[Candidate], memories: int) -> int:
    """Return the characters of a pack in its prompts: texts, derived from their tokens, plus
    fences.

    memories: number of fences, counting parts.
    """
    texts = sum(
        (one.tokens - 0.5) * tokens.chars_per_token(one.kind, one.language) for one in members
    )
    names = sum(len(one.kind) + len(one.entity) for one in members) + memories * MEMORY_CHARS
    if layout.is_independent:
        # Each question repeats the statement and names its file.
        questions = memories * len(layout.statement())
        files = sum(len(member.path) + PATH_CHARS for member in members if member.path)
        return round(texts) + names + questions + files
    return (
        round(texts)
        + names
        + sum(FILE_CHARS + len(path) for path in {one.path for one in members} if path)
    )


def _tokens_by(misses: Sequence[Candidate], group: Callable[[Candidate], str]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for miss in misses:
        counts[group(miss)] += miss.tokens
    return dict(counts.most_common())
