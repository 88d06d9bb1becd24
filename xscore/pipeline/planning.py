"""What judging would take, in calls, tokens, dollars and minutes, at the limits in force. Sends nothing.

`estimate` drafts every prompt and is what is then sent; `forecast` adds up sizes that the store holds, for the line
that a turn about to take long begins with, in a hundredth of the time. Prefix-cache discounts are not assumed.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil

from xscore import tokens
from xscore.cost_reports.duration import Work, duration
from xscore.pipeline.pool import Pool
from xscore.prompts.judge import rubric, turn_block
from xscore.providers.prices import price
from xscore.records import Candidate, Estimate, JudgeEstimate, RateLimits, Turn, Usage
from xscore.scorer.draft import Drafts
from xscore.scorer.slots import cost

TOP = "(top)"
LOOSELY_FILLED = 1.14
"""Packs there are for each that the tightest filling would take (benchmarks/README.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """At what pace and price a model judges."""

    provider: str
    host: str
    model: str
    limits: RateLimits
    """In force."""
    concurrency: int
    latency_s: float

    def estimate(self, work: Work, pool: Pool) -> JudgeEstimate:
        """Put the work into minutes and dollars."""
        took = duration(work, self.limits, latency_s=self.latency_s, concurrency=self.concurrency)
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

    def _cost(self, work: Work) -> Decimal | None:
        """Price the average call and multiply, so that long-prompt tiers are not met by the sum."""
        if not work.calls:
            return Decimal(0)
        average = Usage(
            input_tokens=-(-work.input_tokens // work.calls), output_tokens=-(-work.output_tokens // work.calls)
        )
        one = price(self.provider, self.model, self.host, average)
        return None if one is None else one * work.calls


def whole(judge: JudgeEstimate, pool: Pool) -> Estimate:
    """Add where the tokens are, by kind and top folder; the answering call is left to `opening`."""
    return Estimate(
        judge=judge,
        primary=None,
        by_kind=_tokens_by(pool.misses, lambda miss: str(miss.kind)),
        by_folder=_tokens_by(pool.misses, lambda miss: miss.path.split("/", 1)[0] if "/" in miss.path else TOP),
    )


def forecast(drafts: Drafts, turn: Turn, pool: Pool, *, context: str) -> Work:
    """Say about what the misses will take, from their sizes; neither packs nor prompts are made."""
    misses, profile = pool.misses, drafts.profile
    inside = sum(map(cost, misses))
    tightest = max(inside / profile.tokens, len(misses) / profile.size)
    calls = len(misses) if profile.is_plain else ceil(LOOSELY_FILLED * tightest)
    frame = tokens.size(rubric(), turn_block(turn, context=context)) / drafts.model.chars_per_token
    output = drafts.expected_output(ceil(len(misses) / calls)) * calls if calls else 0
    return Work(calls, round(inside + frame * calls), output)


def _tokens_by(misses: Sequence[Candidate], group: Callable[[Candidate], str]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for miss in misses:
        counts[group(miss)] += miss.tokens
    return dict(counts.most_common())
