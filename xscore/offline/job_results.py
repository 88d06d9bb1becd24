"""What a job came to, from the judgments in the cache: each question ranked, and its rows written to a file."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xscore.database import making_sense
from xscore.offline import job_rows, results
from xscore.offline.job_questions import prepared_of
from xscore.offline.job_rows import Job
from xscore.offline.prepared import Prepared
from xscore.offline.results import Known, QuestionLine
from xscore.offline.results_file import ResultsFile
from xscore.pipeline.parts import Parts
from xscore.records import Cause, Coverage, Judgment, Outcome, Unjudged


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
    known, own = _lost(parts, job), _Own.of(parts, job)
    judged: dict[int, int] = {}
    rows = 0
    with ResultsFile(out) as file:

        def keep(found: Sequence[results.Row]) -> None:
            nonlocal rows
            rows += len(found)
            file.add(found)

        async def settle(prepared: Prepared) -> Sequence[Outcome]:
            settled = results.outcomes(prepared, known)
            judged[prepared.number] = own.among(prepared.number, settled)
            return settled

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


@dataclass(frozen=True, slots=True)
class _Own:
    """What of a job's judgments is its own; the rest was known when it was planned, or others judged it."""

    asked: dict[int, set[str]]
    """Question -> contents that its requests had judged."""
    cached: dict[int, int]
    """Of a list that was judged live, which has no requests: what the cache had of each question."""

    @classmethod
    def of(cls, parts: Parts, job: Job) -> "_Own":
        connection = parts.store.connection
        rows = connection.execute("SELECT question, ask, state FROM job_request WHERE job = ?", (job.id,)).fetchall()
        if not rows and job.command != "submit":
            found = job_rows.questions(connection, job.id)
            return cls({}, {number: one.cached for number, one in found.items()})
        asks = job_rows.asks(connection, job.id, {ask for _, ask, state in rows if state == "answered"})
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


def _lost(parts: Parts, job: Job) -> Known:
    """Return why contents have no score, as far as the job knows."""
    rows = parts.store.connection.execute(
        "SELECT question, ask, cause FROM job_request WHERE job = ? AND state = 'lost'", (job.id,)
    ).fetchall()
    asks = job_rows.asks(parts.store.connection, job.id, {ask for _, ask, _ in rows})
    lost: dict[tuple[int, str], Unjudged] = {}
    for question, ask, cause in rows:
        with making_sense("what a job has lost"):
            kind, _, detail = cause.partition(": ")
            for piece in asks[ask].pieces:
                lost[question, piece.memory] = Unjudged(piece.memory, Cause(kind), detail)
    return Known(lost=lost, detail="it was not asked by this job, or has not come back yet")
