"""What a turn has cost so far, by stage, kept in memory so that showing progress needs no query."""

from collections import deque
from collections.abc import Callable
from decimal import Decimal

from msgspec import Struct, field

from xscore.records.calls import CallRecord, Stage, Usage
from xscore.records.receipt import StageUsage

LATEST_CALLS = 64
SLOW_CALL_SHARE = 0.9


class _StageTotals(Struct):
    calls: int = 0
    attempts: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: Decimal | None = Decimal(0)
    estimated: bool = False
    took_s: deque[float] = field(default_factory=lambda: deque(maxlen=LATEST_CALLS))
    """Seconds of the latest answered calls."""

    def add(self, call: CallRecord) -> None:
        self.attempts += 1
        if call.outcome == "ok":
            self.calls += 1
            self.took_s.append(call.duration_s)
        self.usage += call.usage
        if self.cost_usd is not None:
            self.cost_usd = None if call.cost_usd is None else self.cost_usd + call.cost_usd
        self.estimated = self.estimated or call.estimated


class UsageTotals(Struct):
    """Adds up call records and passes each on to the ledger."""

    record: Callable[[CallRecord], None]
    stages: dict[Stage, _StageTotals] = field(default_factory=dict)
    failures: set[str] = field(default_factory=set)
    """Kinds of the errors that attempts ended with."""

    def add(self, call: CallRecord) -> None:
        """Enter one attempt; a call is an attempt that was answered. Raises what the ledger raises."""
        self.record(call)
        if call.outcome != "ok":
            self.failures.add(call.outcome)
        self.stages.setdefault(call.stage, _StageTotals()).add(call)

    def spent(self, stage: Stage) -> StageUsage:
        """Return the sum of one stage."""
        found = self.stages.get(stage, _StageTotals())
        return StageUsage(
            calls=found.calls,
            attempts=found.attempts,
            usage=found.usage,
            cost_usd=found.cost_usd,
            estimated=found.estimated,
        )

    def whole(self) -> StageUsage:
        """Return the sum of all stages."""
        return sum(map(self.spent, self.stages), StageUsage())

    def call_s(self, stage: Stage) -> float:
        """Return the 90th percentile of the latest calls' seconds; 0 if none was answered yet."""
        latest = sorted(self.stages[stage].took_s) if stage in self.stages else []
        return latest[int(SLOW_CALL_SHARE * (len(latest) - 1))] if latest else 0.0
