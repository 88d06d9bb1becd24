"""A job's questions again, as it judged them: to rank what came back, and to judge live what is left.

Settings may have changed since, so those that shape the judge's identity are taken from the job, and texts and keys are
the job's own. Only what the job asked and did not get is judged, within its cap; nothing of it may be at the vendor.
Trade-off: boosts follow the code and the uncommitted change of today.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.keys import judge_key, turn_key
from xscore.extensions.batch import job_rows, job_status, results
from xscore.extensions.batch.job_context import JobLease
from xscore.extensions.batch.job_rows import BatchJob, JobQuestion
from xscore.extensions.batch.list_plan import ListProgress, confirm_plan, plan_questions
from xscore.extensions.batch.machine import BUSY_ELSEWHERE
from xscore.extensions.batch.results import KnownCauses, QuestionSummary, ResultsFile
from xscore.extensions.batch.sending import settle_from_cache
from xscore.pipeline import pool as kept
from xscore.pipeline.list_judging import ListResources, LiveEnd, judge_list
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import pool_among
from xscore.pipeline.prepare import complete_turn
from xscore.pipeline.question_list import PreparedQuestion, fetch_list_memories
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import UsageError
from xscore.platform.paths import native_name
from xscore.platform.processes import gc_paused
from xscore.platform.text import counted
from xscore.prompts.judge import turn_block
from xscore.records import Coverage, Judgment, Outcome, Scope, Stage, Turn, Unjudged, UnjudgedCause
from xscore.records.batch import JobStatus, Question
from xscore.settings import Settings


def settings_of_job(job: BatchJob, settings: Settings) -> Settings:
    """Return the settings with the judge of this job."""
    recipe = job.recipe
    changed: dict[str, object] = {
        "model": job.judge_spec,
        "is_named": True,
        "context": recipe.context,
        "tests": recipe.tests,
        "reasons": "relevant" if recipe.reasons_from > 0 else "all",
        "order": recipe.model.order,
        **({"pack_size": 1} if recipe.packs.is_plain else {}),
    }
    if not recipe.packs.is_plain and settings.judge.pack_size == 1:
        changed["pack_size"] = None
    return replace(settings, judge=replace(settings.judge, **changed))


def prepare_job_questions(parts: PipelineParts, job: BatchJob) -> Iterator[PreparedQuestion]:
    """Prepare a job's questions in their order, each as it was asked and under the key that it was judged under.

    Raises UsageError where the settings make another judge than the job's.
    """
    if judge_key(parts.judge.identity) != job.judge:
        raise UsageError(
            f"the judge of job {job.id} scored by other rules than it would today",
            hint="Submit the list again: what has not changed comes from the cache.",
        )
    only = None if job.recipe.only is None else frozenset(job.recipe.only)
    found = fetch_list_memories(parts, job.recipe.scope, only=only).of_repository()
    moment: Turn | None = None
    for one in job_rows.read_job_questions(parts.store.connection, job.id).values():
        if not one.turn.task:
            continue  # it was erased
        moment = moment or _todays_change(parts)
        with gc_paused():
            known = kept.known_judgments(parts.store, one.turn_key, job.judge)
            pool = pool_among(found.everything, found.candidates, known)
        turn = _as_asked(parts, one, moment, found.scope)
        question = Question(id=one.name, task=turn.task, file=turn.file, errors=turn.errors)
        yield PreparedQuestion(one.number, question, turn, one.turn_key, pool)


def shows_judge_the_same(parts: PipelineParts, prepared: PreparedQuestion) -> bool:
    """Whether the judge would be shown today what the question's key was made of."""
    return turn_key(turn_block(prepared.turn, context=parts.settings.judge.context)) == prepared.key


def _todays_change(parts: PipelineParts) -> Turn:
    """Look at the uncommitted change."""
    return complete_turn(Turn(task="."), parts.root, use_git=parts.settings.index.git, now=parts.clock())


def _as_asked(parts: PipelineParts, one: JobQuestion, moment: Turn, scope: Scope) -> Turn:
    turn = replace(one.turn, scope=scope, fresh=True, diff=moment.diff, changed=moment.changed)
    there = parts.root.path / native_name(turn.file)
    if not turn.file or parts.settings.judge.context == "task" or not there.exists():
        return turn
    shown = complete_turn(Turn(task=".", file=str(there)), parts.root, use_git=False, now=parts.clock())
    return replace(turn, file_text=shown.file_text)


class JobResults(Struct, frozen=True, kw_only=True):
    """A job's questions, ranked."""

    job: str
    coverage: Coverage
    """`judged` is what this job had judged; what other turns did counts as cached."""
    unjudged_by_cause: dict[str, int]
    lines: tuple[QuestionSummary, ...]
    out: str
    rows: int


async def write_job_results(parts: PipelineParts, job: BatchJob, out: Path) -> JobResults:
    """Rank every question of a job and write the rows. Raises UsageError, StoreError."""
    known, own = _lost_causes(parts, job), _JobJudgments.of(parts, job)
    judged: dict[int, int] = {}
    rows = 0
    with ResultsFile(out) as file:

        def keep(found: Sequence[results.ResultRow]) -> None:
            nonlocal rows
            rows += len(found)
            file.add(found)

        async def settle(prepared: PreparedQuestion) -> Sequence[Outcome]:
            settled = results.cached_outcomes(prepared, known)
            judged[prepared.number] = own.among(prepared.number, settled)
            return settled

        lines = await results.rank_questions(parts, prepare_job_questions(parts, job), settle, keep, judged=judged)
    causes: Counter[str] = Counter()
    for line in lines:
        causes.update(line.unjudged_by_cause)
    return JobResults(
        job=job.id,
        coverage=results.total_coverage(lines),
        unjudged_by_cause=dict(causes.most_common()),
        lines=tuple(lines),
        out=str(out),
        rows=rows,
    )


class _JobJudgments(Struct, frozen=True):
    """What of a job's judgments is its own; the rest was known when it was planned, or others judged it."""

    asked: dict[int, set[str]]
    """Question -> contents that its requests had judged."""
    cached: dict[int, int]
    """Of a list that was judged live, which has no requests: what the cache had of each question."""

    @classmethod
    def of(cls, parts: PipelineParts, job: BatchJob) -> "_JobJudgments":
        connection = parts.store.connection
        rows = connection.execute("SELECT question, ask, state FROM job_request WHERE job = ?", (job.id,)).fetchall()
        if not rows and job.command != "submit":
            found = job_rows.read_job_questions(connection, job.id)
            return cls({}, {number: one.cached for number, one in found.items()})
        asks = job_rows.read_asks(connection, job.id, {ask for _, ask, state in rows if state == "answered"})
        asked: dict[int, set[str]] = {}
        for question, ask, state in rows:
            if state == "answered":
                asked.setdefault(question, set()).update(piece.memory for piece in asks[ask].pieces)
        return cls(asked, {})

    def among(self, question: int, settled: Sequence[Outcome]) -> int:
        """Return how many of these candidates the job had judged."""
        scored = [one.candidate.content_hash for one in settled if isinstance(one.result, Judgment)]
        if question in self.cached:
            return max(0, len(scored) - self.cached[question])
        here = self.asked.get(question, set())
        return sum(content in here for content in scored)


def _lost_causes(parts: PipelineParts, job: BatchJob) -> KnownCauses:
    """Return why contents have no score, as far as the job knows."""
    rows = parts.store.connection.execute(
        "SELECT question, ask, cause FROM job_request WHERE job = ? AND state = 'lost'", (job.id,)
    ).fetchall()
    asks = job_rows.read_asks(parts.store.connection, job.id, {ask for _, ask, _ in rows})
    lost: dict[tuple[int, str], Unjudged] = {}
    for question, ask, cause in rows:
        with damage_if_invalid("what a job has lost"):
            kind, _, detail = cause.partition(": ")
            for piece in asks[ask].pieces:
                lost[question, piece.memory] = Unjudged(piece.memory, UnjudgedCause(kind), detail)
    return KnownCauses(lost=lost, detail="it was not asked by this job, or has not come back yet")


CHANGED_SINCE = (
    "would show the judge another file or change than when it was submitted; submit the list again to judge that"
)


async def finish_job_live(parts: PipelineParts, job_id: str) -> JobStatus:
    """Judge live what a job has left, and return how it stands then; nobody else takes it further meanwhile.

    A job that another process has just now is left to that: the standing says so. Raises UsageError where requests are
    at the vendor or the estimate is declined, what opening the judge raises, and StoreError.
    """
    connection = parts.store.connection
    async with JobLease(connection, job_id, clock=parts.clock) as lease:
        before = job_status.job_status(connection, job_id)
        if not lease.acquired:
            return replace(before, problem=BUSY_ELSEWHERE)
        if before.sent:
            raise UsageError(
                f"{before.sent:,} requests of {job_id} are at the vendor still, and would be paid for twice",
                hint=f"Wait for them with `xscore batch wait {job_id}`, or `xscore batch cancel {job_id}` first.",
            )
        job = job_rows.read_job(connection, job_id)
        end, said = await _judged(parts, job)
        settle_from_cache(lease, connection, job, at=parts.clock())
        return replace(
            job_status.job_status(connection, job_id), remarks=said, over_budget=end.cause is UnjudgedCause.BUDGET
        )


async def _judged(parts: PipelineParts, job: BatchJob) -> tuple[LiveEnd, tuple[str, ...]]:
    """Agree to what is left and judge it; say how it ended, and what there is to say."""
    if job.max_usd is not None and parts.with_cap is not None:
        parts = parts.with_cap(job.max_usd)
    others: set[int] = set()
    plan = plan_questions(parts, _remaining_questions(parts, job, others))
    said = [f"{counted(len(others), 'question')} {CHANGED_SINCE}"] if others else []
    if not plan.to_judge:
        return LiveEnd(), tuple(said)
    confirm_plan(parts, plan)
    parts.observer.stage("judge")
    progress = ListProgress(parts.observer, plan.candidates, plan.cached)
    async with parts.open_resources(job.id) as resources:
        end = await judge_list(
            parts,
            ListResources(resources),
            _remaining_questions(parts, job, others),
            progress=lambda judged, unjudged: progress.report(judged, unjudged, resources.usage.spent(Stage.JUDGE)),
        )
    parts.judge.close()
    said += [*end.remarks, *([f"it ended early: {end.detail or end.cause}"] if end.cause else [])]
    return end, tuple(said)


def _remaining_questions(parts: PipelineParts, job: BatchJob, others: set[int]) -> Iterator[PreparedQuestion]:
    """Prepare the questions of which something is left, each with that alone.

    others: takes the numbers of those that would show the judge something else today.
    """
    rows = parts.store.connection.execute(
        "SELECT question, ask FROM job_request WHERE job = ? AND state IN ('planned', 'lost')", (job.id,)
    ).fetchall()
    asks = job_rows.read_asks(parts.store.connection, job.id, {ask for _, ask in rows})
    left: dict[int, set[str]] = {}
    for question, ask in rows:
        left.setdefault(question, set()).update(piece.memory for piece in asks[ask].pieces)
    for prepared in prepare_job_questions(parts, job):
        wanted = left.get(prepared.number, set())
        misses = tuple(one for one in prepared.pool.misses if one.content_hash in wanted)
        if misses and not shows_judge_the_same(parts, prepared):
            others.add(prepared.number)
        elif misses:
            yield replace(prepared, pool=replace(prepared.pool, candidates=misses, misses=misses))
