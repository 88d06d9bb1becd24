"""The results of a list: each question ranked from the cache with its counts, and the results file.

Thresholds and boosts are those of a turn, applied to today's code and uncommitted changes. For
every question, candidates = judged + cached + unjudged by cause. The file is Parquet or JSON lines
and is replaced whole; its path is checked before anything is spent, and may hold nothing but
earlier results. Questions of a batch are prepared with the judge settings of their job. Trade-off:
after judging, every question is prepared a second time, and all rows are in memory.
"""

import asyncio
import json
import os
import stat
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict, astuple, replace

from xscore.cache.keys import judge_key
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.job_rows import BatchJob, JobQuestion
from xscore.extensions.batch.records import QuestionSummary
from xscore.pipeline import pool as kept
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import pool_among
from xscore.pipeline.question_list import PreparedQuestion, Question, fetch_list_memories
from xscore.pipeline.ranking import rank
from xscore.pipeline.uncommitted import UncommittedWork, complete_turn, uncommitted_work
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import UsageError
from xscore.platform.extras import require_extra
from xscore.platform.files import is_there, write_atomically
from xscore.platform.paths import native_name
from xscore.platform.processes import gc_paused
from xscore.records.candidates import Candidate
from xscore.records.judgment import Judgment, Origin, Outcome, Unjudged, UnjudgedCause
from xscore.records.receipt import Coverage
from xscore.records.turn import Scope, Turn
from xscore.settings import Settings

LostPairs = Mapping[tuple[int, str], Unjudged]
"""Question and content hash -> why it has no score."""


class ResultRow(Struct, frozen=True):
    """One chosen memory of one question."""

    id: str
    rank: int
    path: str
    entity: str
    memory: str
    score: float
    raw: float
    reason: str


def cached_outcomes(
    prepared: PreparedQuestion, lost: LostPairs, cause: UnjudgedCause, detail: str
) -> tuple[Outcome, ...]:
    """Return the outcome of every candidate of a question, from the cache alone.

    lost: why some have no score; the others' cause and detail follow.
    """
    pool = prepared.pool

    def absent(candidate: Candidate) -> Outcome:
        content = candidate.content_hash
        why = lost.get((prepared.number, content)) or Unjudged(content, cause, detail)
        return Outcome(candidate, why, Origin.UNJUDGED)

    outcomes = Outcome.from_known(pool.candidates, pool.known, Origin.CACHED)
    pairs = zip(pool.candidates, outcomes, strict=True)
    return tuple(outcome or absent(candidate) for candidate, outcome in pairs)


class RankedList(Struct, frozen=True):
    """The questions of a list, ranked."""

    lines: tuple[QuestionSummary, ...] = ()
    rows: int = 0

    @property
    def coverage(self) -> Coverage:
        """Coverage of all questions."""
        return sum((line.coverage for line in self.lines), Coverage(0, 0, 0, 0, 0))

    @property
    def unjudged_by_cause(self) -> dict[str, int]:
        """Number of unjudged candidates of all questions, by cause."""
        causes = Counter[str]()
        for line in self.lines:
            causes.update(line.unjudged_by_cause)
        return dict(causes.most_common())


OutcomesOf = Callable[[PreparedQuestion], Awaitable[tuple[Sequence[Outcome], int]]]
"""Returns a question's outcomes, and how many were judged in this run; the others were cached."""


async def rank_questions(
    parts: PipelineParts,
    questions: Iterable[PreparedQuestion],
    outcomes_of: OutcomesOf,
    out: Path | None,
    *,
    ranks: bool = True,
) -> RankedList:
    """Rank every question in order and write the rows. If cancelled, it raises CancelledError
    between two questions.

    ranks: false gives each question its account alone.
    """
    lines: list[QuestionSummary] = []
    all_rows: list[ResultRow] = []
    for prepared in questions:
        await asyncio.sleep(0)
        outcomes, judged = await outcomes_of(prepared)
        rows = _ranked_rows(parts, prepared, outcomes) if ranks else []
        lines.append(_question_summary(prepared, outcomes, judged, rows))
        all_rows += rows
    if out is not None:
        write_results(out, all_rows)
    return RankedList(tuple(lines), len(all_rows))


def _ranked_rows(
    parts: PipelineParts, prepared: PreparedQuestion, outcomes: Sequence[Outcome]
) -> list[ResultRow]:
    chosen = rank(parts, outcomes, prepared.turn).selection.kept
    hashes = [memory.candidate.content_hash for memory in chosen]
    reasons = kept.stored_reasons(
        parts.store, prepared.key, [judge_key(parts.judge.identity)], hashes
    )
    rows: list[ResultRow] = []
    for place, memory in enumerate(chosen, start=1):
        candidate = memory.candidate
        row = ResultRow(
            id=prepared.question.id,
            rank=place,
            path=candidate.path,
            entity=candidate.entity,
            memory=candidate.id,
            score=memory.score,
            raw=memory.judgment.score,
            reason=memory.judgment.reason or reasons.get(candidate.content_hash, ""),
        )
        rows.append(row)
    return rows


def _question_summary(
    prepared: PreparedQuestion,
    outcomes: Sequence[Outcome],
    judged: int,
    rows: Sequence[ResultRow],
) -> QuestionSummary:
    causes = Counter[str]()
    scored = judged_now = 0
    for outcome in outcomes:
        if isinstance(outcome.result, Unjudged):
            causes[str(outcome.result.cause)] += 1
        else:
            scored += 1
            judged_now += outcome.origin is Origin.JUDGED
    # Read back from the cache, none says that it was judged in this run.
    judged_now = judged_now or min(judged, scored)
    cached = scored - judged_now
    unjudged = len(outcomes) - scored
    coverage = Coverage(len(prepared.pool.candidates), judged_now, cached, 0, unjudged)
    summary = QuestionSummary(
        prepared.question.id, coverage, dict(causes.most_common()), len(rows)
    )
    if not rows:
        return summary
    best = rows[0]
    name = best.path or best.memory
    if best.entity:
        name = f"{best.path}::{best.entity}"
    return replace(summary, best=name, best_score=best.score)


KINDS = (".parquet", ".jsonl")
_LONGEST_LINE = 1_000_000
"""Longest line that is read, in bytes."""


def check_results_path(path: Path, *, store_dir: Path) -> None:
    """Raise UsageError if results cannot be written to this path, before anything is spent."""
    if path.suffix not in KINDS:
        raise UsageError(
            f"--output: {path} must end in .parquet or .jsonl",
            hint="Both hold one row per memory, as Parquet or as JSON lines.",
        )
    if path.suffix == ".parquet":
        require_extra("frames", "polars", purpose=f"--output {path}")
    if path.resolve().is_relative_to(store_dir.resolve()):
        raise UsageError(
            f"--output: {path} is inside the store's own folder", hint="Name a file elsewhere."
        )
    if os.path.lexists(path) and not is_there(path, stat.S_ISREG, follow=False):
        raise UsageError(
            f"--output: {path} exists and is not a regular file", hint="Name another file."
        )
    if is_there(path) and not _is_earlier(path):
        raise UsageError(
            f"--output: {path} exists and is not an xscore results file",
            hint="Name another file.",
        )
    if not is_there(path.parent, stat.S_ISDIR):
        raise UsageError(
            f"--output: {path.parent} is not a folder", hint="Create the folder first."
        )
    if not os.access(path.parent, os.W_OK):
        raise UsageError(
            f"--output: {path} cannot be written", hint="Name a file in a folder of yours."
        )


def _is_earlier(path: Path) -> bool:
    """Whether a file is empty or holds results."""
    names = list(ResultRow.__struct_fields__)
    try:
        if path.suffix == ".jsonl" or not path.stat().st_size:
            with path.open("rb") as file:
                first = file.readline(_LONGEST_LINE)
            return not first or list(json.loads(first).keys()) == names
        import polars as pl  # an extra; the path was checked for it

        try:
            return list(pl.read_parquet_schema(path)) == names
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return False
    except (OSError, ValueError, RecursionError, AttributeError):
        return False


def write_results(path: Path, rows: Sequence[ResultRow]) -> None:
    """Replace the results file whole. Raises UsageError if it cannot be written."""
    if path.suffix == ".jsonl":
        lines = "".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)
        write_atomically(path, lines.encode())
        return
    import polars as pl  # an extra; the path was checked for it

    types = {"rank": pl.Int64, "score": pl.Float64, "raw": pl.Float64}
    schema = {name: types.get(name, pl.String) for name in ResultRow.__struct_fields__}
    content = BytesIO()
    pl.DataFrame([astuple(row) for row in rows], schema=schema, orient="row").write_parquet(
        content
    )
    write_atomically(path, content.getvalue())


def settings_of_job(job: BatchJob, settings: Settings) -> Settings:
    """Return the settings with this job's judge."""
    recipe = job.recipe
    changed: dict[str, object] = {
        "model": job.judge_spec,
        "is_named": True,
        "wire": "chat",
        "sees": recipe.sees,
        "tests": recipe.tests,
        "purposes": recipe.purposes,
        "reasons": "relevant" if recipe.reasons_from > 0 else "all",
        "order": recipe.model.order,
        **({"pack_size": 1} if recipe.packs.is_plain else {}),
    }
    if not recipe.packs.is_plain and settings.judge.pack_size == 1:
        changed["pack_size"] = None
    return replace(settings, judge=replace(settings.judge, **changed))


def _job_questions(parts: PipelineParts, job: BatchJob) -> Iterator[PreparedQuestion]:
    """Prepare a job's questions in order, each as asked and with its original key.

    Raises UsageError where the settings make another judge than the job's.
    """
    if judge_key(parts.judge.identity) != job.judge:
        raise UsageError(
            f"the judge of job {job.id} scored under other rules than today's",
            hint="Submit the list again: what has not changed comes from the cache.",
        )
    if job.recipe.only is None:
        only = None
    else:
        only = frozenset(job.recipe.only)
    memories = fetch_list_memories(parts, job.recipe.scope, only=only).of_repository()
    work = uncommitted_work(
        parts.store.connection, parts.root, parts.settings.index, now=parts.clock()
    )
    for asked_question in job_rows.read_job_questions(parts.store.connection, job.id).values():
        if not asked_question.task:
            continue  # it was erased
        with gc_paused():
            judgments = kept.known_judgments(parts.store, asked_question.turn_key, job.judge)
            pool = pool_among(memories.everything, memories.candidates, judgments)
        turn = _as_asked(parts, asked_question, work, memories.scope)
        question = Question(
            id=asked_question.name, task=turn.task, file=turn.file, errors=turn.errors
        )
        yield PreparedQuestion(
            turn, asked_question.turn_key, pool, asked_question.number, question
        )


def _as_asked(
    parts: PipelineParts, question: JobQuestion, work: UncommittedWork, scope: Scope
) -> Turn:
    turn = replace(question.turn, scope=scope, fresh=True, diff=work.diff, changed=work.changed)
    path = parts.root.path / native_name(turn.file)
    if not turn.file or parts.settings.judge.sees == "task" or not is_there(path):
        return turn
    shown = complete_turn(Turn(task=".", file=str(path)), parts.root, work=UncommittedWork())
    return replace(turn, file_text=shown.file_text)


async def write_job_results(parts: PipelineParts, job: BatchJob, out: Path) -> RankedList:
    """Rank every question of a job and write the rows. Raises UsageError, StoreError."""
    answered = job_rows.memories_in_state(parts.store.connection, job.id, "answered")
    lost: dict[tuple[int, str], Unjudged] = {}
    with damage_if_invalid("what a job has lost"):
        for pair, cause in job_rows.memories_in_state(
            parts.store.connection, job.id, "lost"
        ).items():
            kind, _, why = cause.partition(": ")
            lost[pair] = Unjudged(pair[1], UnjudgedCause(kind), why)
    detail = "it was not asked by this job, or has not come back yet"

    async def outcomes_of(prepared: PreparedQuestion) -> tuple[Sequence[Outcome], int]:
        outcomes = cached_outcomes(prepared, lost, UnjudgedCause.INTERRUPTED, detail)
        from_job = 0
        for outcome in outcomes:
            if isinstance(outcome.result, Judgment):
                pair = (prepared.number, outcome.candidate.content_hash)
                from_job += pair in answered
        return outcomes, from_job

    return await rank_questions(parts, _job_questions(parts, job), outcomes_of, out)
