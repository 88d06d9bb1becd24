"""Where a whole list stands, told as a turn tells it: counts over all its questions, calls, dollars and time."""

import time
from dataclasses import dataclass, field

from xscore.offline.live_plan import LivePlan
from xscore.records import Observer, Progress, StageUsage

EVERY_S = 0.1


@dataclass(slots=True)
class JobProgress:
    """Tells the observer now and then."""

    observer: Observer
    plan: LivePlan
    started: float = field(default_factory=time.monotonic)
    told_at: float = 0.0

    def tell(self, judged: int, unjudged: int, spent: StageUsage) -> None:
        """Say that so many were judged, and settled without a score, for so much.

        Processes that take over from one another settle the same candidate twice; no more is told than there is.
        """
        judged = min(judged, self.plan.to_judge)
        unjudged = min(unjudged, self.plan.to_judge - judged)
        now = time.monotonic()
        if now - self.told_at < EVERY_S:
            return
        self.told_at = now
        elapsed, settled = now - self.started, judged + unjudged
        left = max(0, self.plan.to_judge - settled)
        self.observer.progress(
            Progress(
                candidates=self.plan.candidates,
                cached=self.plan.cached,
                judged=judged,
                unjudged=unjudged,
                calls=spent.calls,
                cost_usd=spent.cost_usd,
                elapsed_s=elapsed,
                seconds_left=elapsed / settled * left if settled else None,
                leaders=(),
            )
        )
