"""What a turn has cost so far, by stage, in memory beside the ledger's rows, so that showing progress costs nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field

from xscore.records import CallRecord, Stage, StageUsage


@dataclass(slots=True)
class Tab:
    """Adds up call records and hands each on to the ledger."""

    record: Callable[[CallRecord], None]
    stages: dict[Stage, StageUsage] = field(default_factory=dict)

    def add(self, call: CallRecord) -> None:
        """Enter one attempt; a call is an attempt that was answered. Raises what the ledger raises."""
        self.record(call)
        before = self.spent(call.stage)
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
