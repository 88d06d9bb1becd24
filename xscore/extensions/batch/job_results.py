"""Prepare a job's questions again as it judged them, to rank its results.

Settings may have changed since, so those that are part of the judge's identity come from the job, as do texts and keys.
Trade-off: boosts follow the code and the uncommitted change of today.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.job_rows import BatchJob, JobQuestion
from xscore.extensions.batch.results import KnownCauses, RankedList, cached_outcomes, rank_questions
from xscore.pipeline import pool as kept
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import pool_among
from xscore.pipeline.prepare import complete_turn
from xscore.pipeline.question_list import PreparedQuestion, Question, fetch_list_memories
from xscore.pipeline.uncommitted import UncommittedWork, uncommitted_work
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import UsageError
from xscore.platform.paths import native_name
from xscore.platform.processes import gc_paused
from xscore.records.judgment import Judgment, Outcome, Unjudged, UnjudgedCause
from xscore.records.turn import Scope, Turn
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
    """Prepare a job's questions in order, each as asked and with its original key.

    Raises UsageError where the settings make another judge than the job's.
    """
    if judge_key(parts.judge.identity) != job.judge:
        raise UsageError(
            f"the judge of job {job.id} scored by other rules than it would today",
            hint="Submit the list again: what has not changed comes from the cache.",
        )
    only = None if job.recipe.only is None else frozenset(job.recipe.only)
    found = fetch_list_memories(parts, job.recipe.scope, only=only).of_repository()
    work = uncommitted_work(parts.store.connection, parts.root, parts.settings.index, now=parts.clock())
    for one in job_rows.read_job_questions(parts.store.connection, job.id).values():
        if not one.turn.task:
            continue  # it was erased
        with gc_paused():
            known = kept.known_judgments(parts.store, one.turn_key, job.judge)
            pool = pool_among(found.everything, found.candidates, known)
        turn = _as_asked(parts, one, work, found.scope)
        question = Question(id=one.name, task=turn.task, file=turn.file, errors=turn.errors)
        yield PreparedQuestion(one.number, question, turn, one.turn_key, pool)


def _as_asked(parts: PipelineParts, one: JobQuestion, work: UncommittedWork, scope: Scope) -> Turn:
    turn = replace(one.turn, scope=scope, fresh=True, diff=work.diff, changed=work.changed)
    there = parts.root.path / native_name(turn.file)
    if not turn.file or parts.settings.judge.context == "task" or not there.exists():
        return turn
    shown = complete_turn(Turn(task=".", file=str(there)), parts.root, work=UncommittedWork())
    return replace(turn, file_text=shown.file_text)


async def write_job_results(parts: PipelineParts, job: BatchJob, out: Path) -> RankedList:
    """Rank every question of a job and write the rows. Raises UsageError, StoreError."""
    connection, known = parts.store.connection, _lost_causes(parts, job)
    answered = job_rows.memories_asked(connection, job.id, "answered")
    has_requests = connection.execute("SELECT 1 FROM job_request WHERE job = ?", (job.id,)).fetchone() is not None
    questions = job_rows.read_job_questions(connection, job.id)

    async def settle(prepared: PreparedQuestion) -> tuple[Sequence[Outcome], int]:
        settled, number = cached_outcomes(prepared, known), prepared.number
        scored = [one.candidate.content_hash for one in settled if isinstance(one.result, Judgment)]
        if not has_requests and job.command != "submit":  # it was judged live
            return settled, max(0, len(scored) - questions[number].cached)
        return settled, sum(content in answered.get(number, ()) for content in scored)

    return await rank_questions(parts, prepare_job_questions(parts, job), settle, out)


def _lost_causes(parts: PipelineParts, job: BatchJob) -> KnownCauses:
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
