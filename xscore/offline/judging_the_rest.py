"""What batches left of a job, judged by live calls: within the job's own cap, and settled in its rows afterwards.

Only what the job asked and did not get is judged; what waits in another job is left to that. Nothing of the job may be
at the vendor. Trade-off: a list that is ended early leaves what it did not reach as lost to the job; the same command
again takes that up.
"""

from collections.abc import Iterator
from dataclasses import replace

from xscore.errors import UsageError
from xscore.offline import job_rows, standing
from xscore.offline.after_live import settle_by_cache
from xscore.offline.job_desk import JobDesk
from xscore.offline.job_lease import JobLease
from xscore.offline.job_progress import JobProgress
from xscore.offline.job_questions import is_as_judged, prepared_of
from xscore.offline.job_rows import Job
from xscore.offline.live import LiveEnd, judge_all
from xscore.offline.live_plan import confirm, plan_live
from xscore.offline.machine import BUSY
from xscore.offline.prepared import Prepared
from xscore.pipeline.parts import Parts
from xscore.records import Cause, Stage
from xscore.records.offline import Standing
from xscore.wording import counted

OTHERS = "would show the judge another file or change than when it was submitted; submit the list again to judge that"


async def judge_the_rest(parts: Parts, job_id: str) -> Standing:
    """Judge live what a job has left, and return how it stands then; nobody else takes it further meanwhile.

    A job that another process has just now is left to that: the standing says so. Raises UsageError where requests are
    at the vendor or the estimate is declined, what opening the judge raises, and StoreError.
    """
    connection = parts.store.connection
    async with JobLease(connection, job_id, clock=parts.clock) as lease:
        before = standing.of_job(connection, job_id)
        if not lease.is_ours:
            return replace(before, problem=BUSY)
        if before.sent:
            raise UsageError(
                f"{before.sent:,} requests of {job_id} are at the vendor still, and would be paid for twice",
                hint=f"Wait for them with `xscore batch wait {job_id}`, or `xscore batch cancel {job_id}` first.",
            )
        job = job_rows.job(connection, job_id)
        end, said = await _judged(parts, job)
        settle_by_cache(lease, connection, job, at=parts.clock())
        return replace(standing.of_job(connection, job_id), remarks=said, over_budget=end.cause is Cause.BUDGET)


async def _judged(parts: Parts, job: Job) -> tuple[LiveEnd, tuple[str, ...]]:
    """Agree to what is left and judge it; say how it ended, and what there is to say."""
    if job.max_usd is not None and parts.capped_at is not None:
        parts = parts.capped_at(job.max_usd)
    others: set[int] = set()
    plan = plan_live(parts, _left_of(parts, job, others))
    said = [f"{counted(len(others), 'question')} {OTHERS}"] if others else []
    if not plan.to_judge:
        return LiveEnd(), tuple(said)
    confirm(parts, plan)
    parts.observer.stage("judge")
    progress = JobProgress(parts.observer, plan)
    async with parts.open_desk(job.id) as desk:
        end = await judge_all(
            parts,
            JobDesk(desk),
            _left_of(parts, job, others),
            progress=lambda judged, unjudged: progress.tell(judged, unjudged, desk.tab.spent(Stage.JUDGE)),
        )
    parts.judge.close()
    said += [*end.remarks, *([f"it ended early: {end.detail or end.cause}"] if end.cause else [])]
    return end, tuple(said)


def _left_of(parts: Parts, job: Job, others: set[int]) -> Iterator[Prepared]:
    """Prepare the questions of which something is left, each with that alone.

    others: takes the numbers of those that would show the judge something else today.
    """
    rows = parts.store.connection.execute(
        "SELECT question, ask FROM job_request WHERE job = ? AND state IN ('planned', 'lost')", (job.id,)
    ).fetchall()
    asks = job_rows.asks(parts.store.connection, job.id, {ask for _, ask in rows})
    left: dict[int, set[str]] = {}
    for question, ask in rows:
        left.setdefault(question, set()).update(piece.memory for piece in asks[ask].pieces)
    for prepared in prepared_of(parts, job):
        wanted = left.get(prepared.number, set())
        misses = tuple(one for one in prepared.pool.misses if one.content_hash in wanted)
        if misses and not is_as_judged(parts, prepared):
            others.add(prepared.number)
        elif misses:
            yield replace(prepared, pool=replace(prepared.pool, candidates=misses, misses=misses))
