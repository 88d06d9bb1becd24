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
        unpriced = before.cost_usd is None or call.cost_usd is None
        self.stages[call.stage] = StageUsage(
            calls=before.calls + (call.outcome == "ok"),
            attempts=before.attempts + 1,
            usage=before.usage + call.usage,
            cost_usd=None if unpriced else before.cost_usd + call.cost_usd,  # type: ignore[operator]  # both priced
            estimated=before.estimated or call.estimated,
        )

    def spent(self, stage: Stage) -> StageUsage:
        """Return the sum of one stage."""
        return self.stages.get(stage, StageUsage())
