"""What it came to that questions shared prompts: what was sent, and what one question a call would have taken.

Measured, not guessed: what was sent is the ledger's; what each question would have been sent alone is drafted, and
counted in the ratio in which the host counted the prompt that was sent. Dollars are held against the cheaper way: a
host that caches prefixes serves rubric and pack to every question but the first, and sharing saves no more. A question
that a shared prompt did not answer in full is asked again alone, and counts there. Trade-off: the reply to a question
alone is not known, so it is taken to be its share of the shared one, with a frame of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from xscore import tokens
from xscore.providers.catalog import declared
from xscore.providers.prices import Price, price
from xscore.records import StageUsage, Usage
from xscore.scorer.together import Answered

CACHED_IN = 128
"""Tokens of a prefix are cached in steps of so many."""
NOTHING = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """Judging calls, with what they took."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    """None: unpriced."""

    def __sub__(self, other: "Took") -> "Took":
        costs = self.cost_usd, other.cost_usd
        return Took(
            calls=self.calls - other.calls,
            input_tokens=self.input_tokens - other.input_tokens,
            output_tokens=self.output_tokens - other.output_tokens,
            cost_usd=None if costs[0] is None or costs[1] is None else costs[0] - costs[1],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """The account of a run; `together` in its JSON."""

    id: str
    """`a_…`: what the calls that questions shared are entered under; empty: there was none."""
    questions: int
    asked: int
    """Questions that had a turn."""
    questions_a_call: int
    """At most so many shared a prompt."""
    ended: str
    """Why not all were asked: `interrupted`, `provider`, `store`; empty: all were."""
    judged_together: int
    """Judgments that shared prompts gave."""
    shared: StageUsage
    """Calls that questions shared."""
    took: Took
    """All judging: what was shared, and what questions had judged alone."""
    alone: Took
    """What one question a call would have taken, without a prefix cache."""
    alone_at_best_usd: Decimal | None
    """The same, were rubric and pack served from the host's prefix cache for every question but the first."""
    saved: Took
    """`alone` less `took`, dollars by the cheaper of both ways alone; below zero where sharing took more."""
    warnings: tuple[str, ...] = ()
    exit_code: int = 0


@dataclass(slots=True)
class Alone:
    """Adds up what the answered shared prompts would have taken one question a call."""

    provider: str
    host: str
    price_of: Price = price
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: Decimal | None = NOTHING
    at_best_usd: Decimal | None = NOTHING

    def add(self, answered: Answered) -> None:
        """Enter one shared prompt that was answered."""
        request, usage = answered.request, answered.completion.usage
        counted = usage.input_tokens / max(1, request.input_tokens)
        output = max(0, usage.output_tokens - tokens.REPLY_FRAME) // answered.questions + tokens.REPLY_FRAME
        prefix = tokens.size(request.system, *request.content[: request.stable_parts])
        whole = tokens.size(request.system, *request.content)
        prefix_tokens = int(usage.input_tokens * prefix / max(1, whole)) // CACHED_IN * CACHED_IN
        is_long = prefix_tokens >= declared(self.provider, request.model).cache_floor and request.stable_parts
        for nth, input_tokens in enumerate(answered.alone):
            one = Usage(input_tokens=round(input_tokens * counted), output_tokens=output)
            is_cached = is_long and (nth > 0 or usage.cached_input_tokens > 0)
            cached = min(prefix_tokens, one.input_tokens) if is_cached else 0
            best = Usage(input_tokens=one.input_tokens, cached_input_tokens=cached, output_tokens=output)
            self.calls += 1
            self.usage += one
            self.cost_usd = plus(self.cost_usd, self.price_of(self.provider, request.model, self.host, one))
            self.at_best_usd = plus(self.at_best_usd, self.price_of(self.provider, request.model, self.host, best))


def summed(stages: Iterable[StageUsage]) -> StageUsage:
    """Add stages up to one."""
    each = list(stages)
    return StageUsage(
        calls=sum(stage.calls for stage in each),
        attempts=sum(stage.attempts for stage in each),
        usage=sum((stage.usage for stage in each), Usage()),
        cost_usd=_total(each),
        estimated=any(stage.estimated for stage in each),
    )


def took(stages: Iterable[StageUsage]) -> Took:
    """Add judging stages up."""
    whole = summed(stages)
    return Took(
        calls=whole.calls,
        input_tokens=whole.usage.input_tokens,
        output_tokens=whole.usage.output_tokens,
        cost_usd=whole.cost_usd,
    )


def in_place_of(shared: Alone, turns: Took) -> Took:
    """Return what one question a call would have taken, where turns had this judged alone as it was."""
    return Took(
        calls=shared.calls + turns.calls,
        input_tokens=shared.usage.input_tokens + turns.input_tokens,
        output_tokens=shared.usage.output_tokens + turns.output_tokens,
        cost_usd=plus(shared.cost_usd, turns.cost_usd),
    )


def _total(stages: Iterable[StageUsage]) -> Decimal | None:
    total: Decimal | None = NOTHING
    for stage in stages:
        total = plus(total, stage.cost_usd)
    return total


def plus(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    """Add dollars; None as soon as one is unpriced."""
    return None if one is None or other is None else one + other
