"""What a list would take by live calls: candidates, what the cache has, calls, tokens, dollars. Sends nothing.

It goes by sizes (`forecast`), no prompt is drafted. Questions of which nothing is known yet need the same packs, so
their forecast is made once. Trade-off: of such questions the first one's length stands for all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from xscore.cache.keys import judge_key
from xscore.offline import agreeing, job_rows
from xscore.offline.job_rows import JobQuestion
from xscore.offline.prepared import Prepared
from xscore.offline.under_way import under_way
from xscore.pipeline import affording
from xscore.pipeline.parts import Parts
from xscore.providers.prices import batch_price
from xscore.records import Estimate, JudgeEstimate, Usage


@dataclass(slots=True)
class LivePlan:
    """What a list would take."""

    rows: list[JobQuestion] = field(default_factory=list)
    """Each question as it is to be judged, with what the cache has of it."""
    candidates: int = 0
    cached: int = 0
    elsewhere: int = 0
    """Of those to judge, what batches under way are having judged: it would be paid for twice."""
    elsewhere_jobs: tuple[str, ...] = ()
    estimate: JudgeEstimate | None = None
    """Summed up; None: there is no question."""
    warnings: list[str] = field(default_factory=list)
    """What was said of it before anything was sent, and belongs into the account as well."""

    @property
    def to_judge(self) -> int:
        """Candidates, over all questions, that somebody is to be paid for."""
        return self.candidates - self.cached

    @property
    def hit_rate(self) -> float | None:
        """Replayed hit rate: the share of candidates that the cache had; None: there are none."""
        return self.cached / self.candidates if self.candidates else None


def plan_live(parts: Parts, questions: Iterable[Prepared]) -> LivePlan:
    """Go through the questions once and add up. Raises what preparing raises."""
    plan, others = LivePlan(), _Others.of(parts)
    unknown: JudgeEstimate | None = None
    whole: JudgeEstimate | None = None
    for prepared in questions:
        pool = prepared.pool
        hits = len(pool.candidates) - len(pool.misses)
        turn = replace(prepared.turn, file_text="", diff="", changed=())
        plan.rows.append(
            JobQuestion(
                number=prepared.number,
                name=prepared.question.id,
                turn=turn,
                turn_key=prepared.key,
                candidates=len(pool.candidates),
                cached=hits,
            )
        )
        plan.candidates += len(pool.candidates)
        plan.cached += hits
        others.meet(plan, prepared)
        if pool.misses is pool.candidates:
            found = unknown = unknown or parts.judge.forecast(prepared.turn, pool)
        else:
            found = parts.judge.forecast(prepared.turn, pool)
        whole = found if whole is None else _sum(whole, found)
    plan.estimate = whole
    return plan


@dataclass(frozen=True, slots=True)
class _Others:
    """Jobs under way of the same judge, and the contents they are having judged by turn key."""

    work: Mapping[str, Mapping[str, frozenset[str]]]

    @classmethod
    def of(cls, parts: Parts) -> "_Others":
        connection, key = parts.store.connection, judge_key(parts.judge.identity)
        found = job_rows.jobs(connection, under_way=True) if parts.judge.is_model else []
        return cls({job.id: under_way(connection, [job.id]) for job in found if job.judge == key})

    def meet(self, plan: LivePlan, prepared: Prepared) -> None:
        """Count what of a question is under way."""
        met: set[str] = set()
        for job, work in self.work.items():
            contents = work.get(prepared.key, frozenset())
            theirs = {miss.content_hash for miss in prepared.pool.misses if miss.content_hash in contents}
            if theirs and job not in plan.elsewhere_jobs:
                plan.elsewhere_jobs += (job,)
            met |= theirs
        plan.elsewhere += len(met)


def warn(parts: Parts, plan: LivePlan) -> None:
    """Say, before anything is paid for, that no cap holds, and what batches under way are having judged."""
    plan.warnings = affording.uncapped(parts) if plan.to_judge else []
    for message in plan.warnings:
        parts.observer.note(message)
    if not plan.elsewhere:
        return
    job, *_ = plan.elsewhere_jobs
    parts.observer.note(
        f"{plan.elsewhere:,} to judge are under way by batch in {', '.join(plan.elsewhere_jobs)}: live calls pay for"
        f" them again. `xscore batch wait {job}` or `xscore batch cancel {job}` first spares that."
    )


def confirm(parts: Parts, plan: LivePlan) -> None:
    """Ask once, before a costly list. Raises UsageError when the user declines."""
    if not (plan.to_judge and plan.estimate and parts.judge.is_model and parts.observer.can_confirm):
        return
    if parts.settings.judge.replay:
        return
    caps = agreeing.caps_left(parts)
    agreeing.agree(parts, Estimate(judge=plan.estimate, primary=None, by_kind={}, by_folder={}, caps=caps))


def batch_cost(parts: Parts, estimate: JudgeEstimate) -> Decimal | None:
    """Return the dollars by the vendor's Batch API; None where the tables state no such price."""
    calls = parts.judge.calls
    if not estimate.calls or calls is None:
        return Decimal(0)
    average = Usage(
        input_tokens=-(-estimate.input_tokens // estimate.calls),
        output_tokens=-(-estimate.output_tokens // estimate.calls),
    )
    each = batch_price(calls.model.name, parts.judge.identity.host, average)
    return None if each is None else each * estimate.calls


def _sum(one: JudgeEstimate, other: JudgeEstimate) -> JudgeEstimate:
    longest = max(one, other, key=lambda each: each.seconds)
    unpriced = one.cost_usd is None or other.cost_usd is None
    return replace(
        longest,
        candidates=one.candidates + other.candidates,
        cached=one.cached + other.cached,
        to_judge=one.to_judge + other.to_judge,
        calls=one.calls + other.calls,
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cost_usd=None if unpriced else (one.cost_usd or Decimal(0)) + (other.cost_usd or Decimal(0)),
        seconds=one.seconds + other.seconds,
    )
