"""What a job came to, from the judgments in the cache: each question ranked, and its rows written to a file."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xscore.offline import job_rows, results
from xscore.offline.job_questions import prepared_of
from xscore.offline.job_rows import Job
from xscore.offline.prepared import Prepared
from xscore.offline.results import Known, QuestionLine
from xscore.offline.results_file import ResultsFile
from xscore.pipeline.parts import Parts
from xscore.records import Cause, Coverage, Outcome, Unjudged


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResults:
    """A job's questions, ranked."""

    job: str
    coverage: Coverage
    """`judged` is what this job had judged; what other turns did counts as cached."""
    unjudged_by_cause: dict[str, int]
    lines: tuple[QuestionLine, ...]
    out: str
    rows: int


async def write_results(parts: Parts, job: Job, out: Path) -> JobResults:
    """Rank every question of a job and write the rows. Raises UsageError, StoreError."""
    known, judged = _lost(parts, job), _judged(parts, job)
    rows = 0
    with ResultsFile(out) as file:

        def keep(found: Sequence[results.Row]) -> None:
            nonlocal rows
            rows += len(found)
            file.add(found)

        async def settle(prepared: Prepared) -> Sequence[Outcome]:
            return results.outcomes(prepared, known)

        lines = await results.rank_all(parts, prepared_of(parts, job), settle, keep, judged=judged)
    causes: Counter[str] = Counter()
    for line in lines:
        causes.update(line.unjudged_by_cause)
    return JobResults(
        job=job.id,
        coverage=results.coverage_of(lines),
        unjudged_by_cause=dict(causes.most_common()),
        lines=tuple(lines),
        out=str(out),
        rows=rows,
    )


def _judged(parts: Parts, job: Job) -> dict[int, int]:
    """Return how many candidates of each question were not known when the job was planned."""
    found = job_rows.questions(parts.store.connection, job.id)
    return {number: one.candidates - one.cached for number, one in found.items()}


def _lost(parts: Parts, job: Job) -> Known:
    """Return why contents have no score, as far as the job knows."""
    rows = parts.store.connection.execute(
        "SELECT question, ask, cause FROM job_request WHERE job = ? AND state = 'lost'", (job.id,)
    ).fetchall()
    asks = job_rows.asks(parts.store.connection, job.id, {ask for _, ask, _ in rows})
    lost: dict[tuple[int, str], Unjudged] = {}
    for question, ask, cause in rows:
        kind, _, detail = cause.partition(": ")
        for piece in asks[ask].pieces:
            lost[question, piece.memory] = Unjudged(piece.memory, Cause(kind), detail)
    return Known(lost=lost, detail="it was not asked by this job, or has not come back yet")
