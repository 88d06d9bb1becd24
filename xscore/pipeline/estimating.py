"""What judging would take, in calls, tokens, dollars and minutes, at the limits in force. Sends nothing.

`estimate` drafts every prompt and is what is then sent; `forecast` takes the same packs and adds up sizes that the
store holds, and is what reports hold a turn against. Prefix-cache discounts are not assumed; what a host charges for
writing to its cache is in the estimate alone, since a turn is held against what it costs without that cache.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from xscore.costs.call_history import Workload, expected_duration
from xscore.pipeline.pool import Pool
from xscore.platform import tokens
from xscore.prompts.judge import judge_rubric, turn_block
from xscore.providers.prices import call_price
from xscore.records import Candidate, Estimate, JudgeEstimate, RateLimits, Turn, Usage
from xscore.scorer.drafts import PromptDrafts
from xscore.scorer.packs import Pack

TOP_FOLDER = "(top)"
MEMORY_CHARS = len('<memory id="xx" kind="" name="">') + len("\n\n</memory>\n")
FILE_CHARS = len('<file path="">') + len("\n</file>\n")
HOUR_S = 3_600
ASKED_CHARS = 100
"""The request that ends each prompt, and the line ends around the pack."""


class JudgingTerms(Struct, frozen=True, kw_only=True):
    """At what pace and price a model judges."""

    provider: str
    host: str
    model: str
    limits: RateLimits
    """In force."""
    concurrency: int
    latency_s: float
    prefix_ttl_s: int = 0
    """For how long the host will be asked to keep the prompts; 0: it is not asked."""
    keeps_unasked: bool = False
    """Whether the host keeps prompts by itself, and may charge for writing them."""

    def estimate(self, work: Workload, pool: Pool) -> JudgeEstimate:
        """Put the work into minutes and dollars."""
        took = expected_duration(work, self.limits, latency_s=self.latency_s, concurrency=self.concurrency)
        return JudgeEstimate(
            candidates=len(pool.candidates),
            cached=len(pool.candidates) - len(pool.misses),
            to_judge=len(pool.misses),
            calls=work.calls,
            input_tokens=work.input_tokens,
            output_tokens=work.output_tokens,
            cost_usd=self._cost(work),
            seconds=took.seconds,
            binding_limit=took.binding_limit,
            host=self.host,
            limits=self.limits,
            concurrency=self.concurrency,
        )

    def _cost(self, work: Workload) -> Decimal | None:
        """Price the average call and multiply, so that long-prompt tiers are not met by the sum.

        Where prompts will be kept at the host they are priced as written to its cache, which none of them was before.
        """
        if not work.calls:
            return Decimal(0)
        average = Usage(
            input_tokens=-(-work.input_tokens // work.calls), output_tokens=-(-work.output_tokens // work.calls)
        )
        plain = call_price(self.provider, self.model, self.host, average)
        if plain is None or not (self.prefix_ttl_s or self.keeps_unasked):
            return None if plain is None else plain * work.calls
        given = average.input_tokens
        written = replace(
            average, cache_write_tokens=given, cache_write_1h_tokens=given if self.prefix_ttl_s >= HOUR_S else 0
        )
        return max(plain, call_price(self.provider, self.model, self.host, written) or plain) * work.calls


def with_breakdown(judge: JudgeEstimate, pool: Pool) -> Estimate:
    """Add where the tokens are, by kind and top folder; the answering call is left to `opening`."""
    return Estimate(
        judge=judge,
        primary=None,
        by_kind=_tokens_by(pool.misses, lambda miss: str(miss.kind)),
        by_folder=_tokens_by(pool.misses, lambda miss: miss.path.split("/", 1)[0] if "/" in miss.path else TOP_FOLDER),
    )


def forecast_work(drafts: PromptDrafts, turn: Turn, packs: Sequence[Pack], *, context: str) -> Workload:
    """Say about what judging these packs will take, from the sizes that the store holds; no prompt is made."""
    frame = tokens.size(judge_rubric(), turn_block(turn, context=context)) + ASKED_CHARS
    calls = chars = output = 0
    for pack in packs:
        asks = prompts_of_pack(drafts, pack)
        memories = len(pack.members) + asks - 1
        calls += asks
        chars += asks * frame + chars_of(pack.members, memories)
        output += asks * drafts.expected_output(ceil(memories / asks))
    return Workload(calls, round(chars / drafts.model.chars_per_token), output)


def prompts_of_pack(drafts: PromptDrafts, pack: Pack) -> int:
    """In how many prompts a pack is judged: one, but for a memory in parts."""
    return max(
        1, sum(_parts_of_memory(member, drafts.profile.tokens) for member in pack.members) - len(pack.members) + 1
    )


def _parts_of_memory(member: Candidate, most: int) -> int:
    """In how many prompts a memory is judged."""
    return ceil(member.tokens / most)


def chars_of(members: Sequence[Candidate], memories: int) -> int:
    """Return the characters of a pack in its prompts: texts by their tokens, from which they were counted, and fences.

    memories: how many fences they stand in, parts counted.
    """
    texts = sum((one.tokens - 0.5) * tokens.chars_per_token(one.kind, one.language) for one in members)
    names = sum(len(one.kind) + len(one.entity) for one in members) + memories * MEMORY_CHARS
    return round(texts) + names + sum(FILE_CHARS + len(path) for path in {one.path for one in members} if path)


def _tokens_by(misses: Sequence[Candidate], group: Callable[[Candidate], str]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for miss in misses:
        counts[group(miss)] += miss.tokens
    return dict(counts.most_common())
