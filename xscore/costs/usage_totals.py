"""What a turn has cost so far, by stage, in memory beside the ledger's rows, so that showing progress costs nothing.

Every call is added up and hardly any sum is looked at, so sums are plain counters that become records when asked for.
"""

from collections import deque
from collections.abc import Callable
from decimal import Decimal

from msgspec import Struct, field

from xscore.records import CallRecord, Stage, StageUsage, Usage

LATEST_CALLS = 64
SLOW_CALL_SHARE = 0.9


class _StageTotals(Struct):
    """Counters of one stage."""

    calls: int = 0
    attempts: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: Decimal | None = Decimal(0)
    estimated: bool = False
    took_s: deque[float] = field(default_factory=lambda: deque(maxlen=LATEST_CALLS))
    """Seconds of the latest answered calls."""

    def add(self, call: CallRecord) -> None:
        usage = call.usage
        self.attempts += 1
        if call.outcome == "ok":
            self.calls += 1
            self.took_s.append(call.duration_s)
        self.input_tokens += usage.input_tokens
        self.cached_input_tokens += usage.cached_input_tokens
        self.cache_write_tokens += usage.cache_write_tokens
        self.cache_write_1h_tokens += usage.cache_write_1h_tokens
        self.output_tokens += usage.output_tokens
        self.reasoning_tokens += usage.reasoning_tokens
        if self.cost_usd is not None:
            self.cost_usd = None if call.cost_usd is None else self.cost_usd + call.cost_usd
        self.estimated = self.estimated or call.estimated


class UsageTotals(Struct):
    """Adds up call records and hands each on to the ledger."""

    record: Callable[[CallRecord], None]
    stages: dict[Stage, _StageTotals] = field(default_factory=dict)

    def add(self, call: CallRecord) -> None:
        """Enter one attempt; a call is an attempt that was answered. Raises what the ledger raises."""
        self.record(call)
        found = self.stages.get(call.stage)
        if found is None:
            found = self.stages[call.stage] = _StageTotals()
        found.add(call)

    def spent(self, stage: Stage) -> StageUsage:
        """Return the sum of one stage."""
        found = self.stages.get(stage, _StageTotals())
        usage = Usage(
            input_tokens=found.input_tokens,
            cached_input_tokens=found.cached_input_tokens,
            cache_write_tokens=found.cache_write_tokens,
            cache_write_1h_tokens=found.cache_write_1h_tokens,
            output_tokens=found.output_tokens,
            reasoning_tokens=found.reasoning_tokens,
        )
        return StageUsage(
            calls=found.calls,
            attempts=found.attempts,
            usage=usage,
            cost_usd=found.cost_usd,
            estimated=found.estimated,
        )

    def call_s(self, stage: Stage) -> float:
        """Return how long a slow one of the latest calls took (nine in ten were faster); 0: none was answered yet."""
        latest = sorted(self.stages[stage].took_s) if stage in self.stages else []
        return latest[int(SLOW_CALL_SHARE * (len(latest) - 1))] if latest else 0.0
