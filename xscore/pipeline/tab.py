"""What a turn has cost so far, by stage, in memory beside the ledger's rows, so that showing progress costs nothing."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from xscore.records import CallRecord, Stage, StageUsage

LATEST = 64
SLOW_SHARE = 0.9


@dataclass(slots=True)
class Tab:
    """Adds up call records and hands each on to the ledger."""

    record: Callable[[CallRecord], None]
    stages: dict[Stage, StageUsage] = field(default_factory=dict)
    took_s: dict[Stage, deque[float]] = field(default_factory=dict)
    """Seconds of the latest answered calls."""

    def add(self, call: CallRecord) -> None:
        """Enter one attempt; a call is an attempt that was answered. Raises what the ledger raises."""
        self.record(call)
        before = self.spent(call.stage)
        if call.outcome == "ok":
            self.took_s.setdefault(call.stage, deque(maxlen=LATEST)).append(call.duration_s)
        cost = None if before.cost_usd is None or call.cost_usd is None else before.cost_usd + call.cost_usd
        self.stages[call.stage] = StageUsage(
            calls=before.calls + (call.outcome == "ok"),
            attempts=before.attempts + 1,
            usage=before.usage + call.usage,
            cost_usd=cost,
            estimated=before.estimated or call.estimated,
        )

    def spent(self, stage: Stage) -> StageUsage:
        """Return the sum of one stage."""
        return self.stages.get(stage, StageUsage())

    def call_s(self, stage: Stage) -> float:
        """Return how long a slow one of the latest calls took (nine in ten were faster); 0: none was answered yet."""
        latest = sorted(self.took_s.get(stage, ()))
        return latest[int(SLOW_SHARE * (len(latest) - 1))] if latest else 0.0
