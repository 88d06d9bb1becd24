"""What judging would take, in calls, tokens, dollars and minutes, at the limits in force. Sends
nothing.

An estimate (`estimate_judging`) renders the prompts that would be sent to the judge in force,
of a large pool an even sample. A forecast (`forecast_judging`) renders none: it adds up, for
the same packs, the sizes that the store holds. Caps, announcements, receipts and reports go by
a forecast, and so does an estimate for the rest of a large pool and for the other ways to
judge. Neither assumes a prefix-cache discount; the warm estimate does, for a host that still
holds every lasting prompt. What a host charges for writing to its cache is in the estimate
only, since a turn is compared with its cost without that cache.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from math import ceil

from msgspec.structs import replace

from xscore.costs.call_history import Workload, expected_duration, is_timed, typical_latency_s
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.judge_prompts import declared_of, estimating_builder, prefix_ttl_s
from xscore.pipeline.judged_memories import judged_texts, packs_of
from xscore.pipeline.pool import Pool
from xscore.platform import tokens
from xscore.prompts.judge import purpose_attribute
from xscore.prompts.turn_text import turn_block
from xscore.providers.catalog import HOUR_S, ModelSettings
from xscore.providers.prices import PriceList
from xscore.providers.rate_limits import LocalRates
from xscore.records.calls import Request, Usage
from xscore.records.candidates import Candidate
from xscore.records.estimates import Estimate, JudgeEstimate
from xscore.records.judgment import JudgeIdentity
from xscore.records.turn import Turn
from xscore.scorer.judge import Texts
from xscore.scorer.packs import Pack
from xscore.scorer.prompt_builder import PromptBuilder, PromptLayout

TOP_FOLDER = "(top)"
MEMORY_CHARS = len('<memory id="xx" kind="" name="">') + len("\n\n</memory>\n")
FILE_CHARS = len('<file path="">') + len("\n</file>\n")
PATH_CHARS = len(' path=""')
ASKED_CHARS = 100
"""Characters of the request that ends each prompt, and of the line ends around the pack."""


RENDERED_MEMORIES = 4_000
"""Largest pool that is rendered whole: reading and rendering all texts of 43,000 memories took
most of an estimate."""
DECISIONS, COLD, WARM = "decisions", "chat cold", "chat warm"
"""Ways in which a judge is asked: `JudgeEstimate.way`."""
SECONDS_A_MEMORY = 25e-6
"""CPU seconds for scoring a memory by words, measured on 1,600 to 11,559 memories (22 µs);
start-up, half a second, is not part of it."""
CACHE_STEP_TOKENS = 128
"""Step of the prefixes that a host serves if it caches them by itself."""


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

    cache_ttl_s: for how long the host is asked to keep the prompts.
    is_kept_unasked: it may keep them by itself. Either way they are priced as first writes to its
        cache.
    """
    if not work.calls:
        return Decimal(0)
    tokens_in = ceil(work.input_tokens / work.calls)
    tokens_out = ceil(work.output_tokens / work.calls)
    average = Usage(
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cached_input_tokens=work.cached_tokens // work.calls,
    )
    cost = prices(judge.provider, judge.model, judge.host, average)
    if cost is None:
        return None
    if cache_ttl_s or is_kept_unasked:
        an_hour = tokens_in if cache_ttl_s >= HOUR_S else 0
        written = replace(average, cache_write_tokens=tokens_in, cache_write_1h_tokens=an_hour)
        cost_written = prices(judge.provider, judge.model, judge.host, written)
        cost = max(cost, cost_written or cost)
    return cost * work.calls


def estimate_judging(judge: JudgeDescription, turn: Turn, pool: Pool) -> Estimate:
    """Estimate judging a pool; sends nothing.

    The prompts of a model are rendered. Its prefix cache is taken for cold and, where there are
    packs, for warm. `turn_estimate` adds the answering call and the other wire.
    """
    if not judge.paid:
        free = forecast_judging(judge, turn, pool)
        return Estimate(judge=free, primary=None, by_kind={}, by_folder={})
    work = rendered_work(
        estimating_builder(judge),
        turn,
        packs_of(judge, pool),
        texts=lambda candidates: judged_texts(judge, candidates),
        sees=judge.settings.judge.sees,
        traits=declared_of(judge),
    )
    cold, *warm = _priced_ways(judge, work, pool)
    return Estimate(
        judge=cold,
        primary=None,
        ways=(cold, *warm),
        by_kind=_tokens_by(pool.misses, lambda miss: str(miss.kind)),
        by_folder=_tokens_by(
            pool.misses,
            lambda miss: miss.path.split("/", 1)[0] if "/" in miss.path else TOP_FOLDER,
        ),
    )


def forecast_judging(judge: JudgeDescription, turn: Turn, pool: Pool) -> JudgeEstimate:
    """Estimate judging a pool by packs and sizes alone, without rendering a prompt."""
    if not judge.paid:
        return _words_estimate(judge, pool)
    return price_work(judge, _forecast_work_of(judge, turn, pool), pool)


def forecast_ways(judge: JudgeDescription, turn: Turn, pool: Pool) -> tuple[JudgeEstimate, ...]:
    """Estimate each way of using this judge, likewise."""
    if not judge.paid:
        return (_words_estimate(judge, pool),)
    return _priced_ways(judge, _forecast_work_of(judge, turn, pool), pool)


def _forecast_work_of(judge: JudgeDescription, turn: Turn, pool: Pool) -> Workload:
    return forecast_work(
        estimating_builder(judge),
        turn,
        packs_of(judge, pool),
        sees=judge.settings.judge.sees,
        traits=declared_of(judge),
    )


def _words_estimate(judge: JudgeDescription, pool: Pool) -> JudgeEstimate:
    """Return an estimate of no calls and no cost."""
    return JudgeEstimate(
        candidates=len(pool.candidates),
        cached=0,
        to_judge=len(pool.candidates),
        calls=0,
        input_tokens=0,
        output_tokens=0,
        cost_usd=Decimal(0),
        seconds=SECONDS_A_MEMORY * len(pool.candidates),
        binding_limit="none",
        host=judge.host,
        way=judge.name,
        judge=judge.name,
    )


def _priced_ways(
    judge: JudgeDescription, work: Workload, pool: Pool
) -> tuple[JudgeEstimate, ...]:
    """Price work with a cold prefix cache at the host and, where there are packs, with a warm
    one."""
    cost = cost_of_calls(
        _as_asked(judge),
        work,
        PriceList(judge.settings.provider.price),
        cache_ttl_s=prefix_ttl_s(judge),
        is_kept_unasked=not declared_of(judge).cache_writes,
    )
    cold = replace(price_work(judge, work, pool), cost_usd=cost)
    # A decision host keeps no prompts.
    if judge.spec.is_decision:
        return (cold,)
    return (cold, price_work(judge, replace(work, is_warm=True), pool))


def _as_asked(judge: JudgeDescription) -> JudgeIdentity:
    """Return the judge under the model's name that is sent, which prices go by."""
    return replace(judge.identity, model=judge.asked_model)


def price_work(judge: JudgeDescription, work: Workload, pool: Pool) -> JudgeEstimate:
    """Price work for candidates of this pool in minutes and dollars, at the limits in force."""
    settings = judge.settings.judge
    prices = PriceList(judge.settings.provider.price)
    connection = judge.store.connection
    host = judge.host
    model = judge.asked_model
    provider = judge.identity.provider
    rates = LocalRates(rpm=settings.rpm, tpm=settings.tpm, remembered=judge.stated_limits)
    limits = rates.in_force
    latency_s = typical_latency_s(connection, host=host, model=model)
    took = expected_duration(work, limits, latency_s=latency_s, concurrency=judge.concurrency)
    waits_for_host = took.binding_limit == "latency"
    return JudgeEstimate(
        candidates=len(pool.candidates),
        cached=len(pool.candidates) - len(pool.misses) - pool.carried,
        carried=pool.carried,
        to_judge=len(pool.misses),
        calls=work.calls,
        input_tokens=work.input_tokens,
        cached_input_tokens=work.cached_tokens,
        output_tokens=work.output_tokens,
        cost_usd=cost_of_calls(_as_asked(judge), work, prices),
        seconds=took.seconds,
        is_assumed=waits_for_host and not is_timed(connection, host=host, model=model),
        binding_limit=took.binding_limit,
        host=host,
        limits=limits,
        concurrency=judge.concurrency,
        way=_way_of(judge, work),
        judge=f"{provider}:{model}",
        tariff=prices.tariff(provider, model, host),
    )


def _way_of(judge: JudgeDescription, work: Workload) -> str:
    if judge.spec.is_decision:
        return DECISIONS
    return WARM if work.is_warm else COLD


def rendered_work(
    builder: PromptBuilder,
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
    if memories <= RENDERED_MEMORIES:
        return _rendered_exactly(builder, turn, packs, texts=texts, sees=sees, traits=traits)
    # Packs hold the memories of the pool in order, so every nth one is of all folders and kinds.
    sample = packs[:: ceil(memories / RENDERED_MEMORIES)]
    rendered = _rendered_exactly(builder, turn, sample, texts=texts, sees=sees, traits=traits)
    forecast_of_sample = forecast_work(builder, turn, sample, sees=sees, traits=traits)
    return _corrected(
        forecast_work(builder, turn, packs, sees=sees, traits=traits),
        rendered,
        forecast_of_sample,
    )


def _corrected(forecast: Workload, rendered: Workload, forecast_of_same: Workload) -> Workload:
    """Return a forecast times how far the forecast of a part of it was off."""

    def scaled(amount: int, exact: int, rough: int) -> int:
        if rough:
            return round(amount * exact / rough)
        return amount

    rough = forecast_of_same
    return Workload(
        scaled(forecast.calls, rendered.calls, rough.calls),
        scaled(forecast.input_tokens, rendered.input_tokens, rough.input_tokens),
        scaled(forecast.output_tokens, rendered.output_tokens, rough.output_tokens),
        scaled(forecast.lasting_tokens, rendered.lasting_tokens, rough.lasting_tokens),
    )


def _rendered_exactly(
    builder: PromptBuilder,
    turn: Turn,
    packs: Sequence[Pack],
    *,
    texts: Texts,
    sees: str,
    traits: ModelSettings,
) -> Workload:
    """Add up the exact prompts that would be sent first."""
    calls = tokens_in = tokens_out = lasting = 0
    for request in builder.first_requests(packs, turn_block(turn, sees=sees), texts):
        calls += 1
        tokens_in += request.input_tokens
        tokens_out += builder.expected_output(request.candidates)
        lasting += _lasting_tokens(request, builder.model.chars_per_token, traits)
    return Workload(calls, tokens_in, tokens_out, lasting)


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
    builder: PromptBuilder,
    turn: Turn,
    packs: Sequence[Pack],
    *,
    sees: str,
    traits: ModelSettings,
) -> Workload:
    """Estimate judging these packs from the sizes in the store, without rendering prompts."""
    layout = builder.layout
    system_chars = tokens.size(layout.system())
    shown = turn_block(turn, sees=sees)[: layout.turn_chars]
    turn_chars = tokens.size(shown) + ASKED_CHARS
    per_token = builder.model.chars_per_token
    # Only what comes before the turn can be served again to another one.
    is_prefix = builder.order == "memory_first"
    calls = chars = output = lasting = 0
    for pack in packs:
        prompts, memories = prompts_of_pack(builder, pack)
        pack_chars = prompts * system_chars + chars_of(layout, pack.members, memories)
        calls += prompts
        chars += pack_chars + prompts * turn_chars
        output += prompts * builder.expected_output(ceil(memories / prompts))
        if pack.is_lasting and is_prefix:
            prefix_tokens = int(pack_chars / prompts / per_token)
            lasting += prompts * _cacheable(prefix_tokens, traits)
    return Workload(calls, round(chars / per_token), output, lasting)


def prompts_of_pack(builder: PromptBuilder, pack: Pack) -> tuple[int, int]:
    """Return how many prompts a pack takes, and how many whole memories and parts they show.

    Whole memories share a prompt; each part of a long one has its own.
    """
    parts_of_members = [
        ceil(member.tokens / builder.profile.longest) for member in pack.members
    ]
    parts = sum(count for count in parts_of_members if count > 1)
    whole_memories = sum(count <= 1 for count in parts_of_members)
    return parts + (whole_memories > 0), parts + whole_memories


def chars_of(layout: PromptLayout, members: Sequence[Candidate], memories: int) -> int:
    """Return the characters of a pack in its prompts: texts, derived from their tokens, plus
    fences.

    memories: number of fences, counting parts.
    """
    texts = 0.0
    chars = memories * MEMORY_CHARS
    paths: list[str] = []
    for member in members:
        texts += (member.tokens - 0.5) * tokens.chars_per_token(member.kind, member.language)
        chars += len(member.kind) + len(member.entity)
        if member.path:
            # What is shown of the file, without its tag.
            paths.append(member.path + purpose_attribute(member.purpose))
    chars += round(texts)
    if layout.is_independent:
        # Each question repeats the statement and names its file.
        chars += memories * len(layout.statement())
        return chars + len(paths) * PATH_CHARS + sum(map(len, paths))
    files = set(paths)
    return chars + len(files) * FILE_CHARS + sum(map(len, files))


def _tokens_by(
    misses: Sequence[Candidate], group: Callable[[Candidate], str]
) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for miss in misses:
        counts[group(miss)] += miss.tokens
    return dict(counts.most_common())
