"""What a list came to: each question ranked from the cache with its account, and the file of results.

The rules, thresholds and boosts are a turn's. Candidates = judged + cached + unjudged by cause, for every question. The
file is Parquet or JSON lines, written aside and moved into place whole; its path is checked before anything is spent,
and may hold earlier results or nothing. Trade-off: questions are gone through once more after judging, and Parquet
takes its size on disk twice for a moment.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct, field
from msgspec.structs import asdict

from xscore.cache.keys import judge_key
from xscore.pipeline import pool as kept
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.question_list import PreparedQuestion, is_question_file
from xscore.pipeline.ranking import rank
from xscore.platform.errors import UsageError
from xscore.records import Coverage, Judgment, Origin, Outcome, Unjudged, UnjudgedCause


class ResultRow(Struct, frozen=True):
    """One chosen memory of one question."""

    id: str
    """Of the question."""
    rank: int
    """From 1."""
    path: str
    entity: str
    memory: str
    """Its id."""
    score: float
    """Final: the raw score and its boosts."""
    raw: float
    reason: str


class QuestionSummary(Struct, frozen=True):
    """The account of one question."""

    id: str
    coverage: Coverage
    unjudged_by_cause: Mapping[str, int]
    kept: int
    best: str = ""
    """The first of the selection, as `path::entity`."""
    best_score: float | None = None


class KnownCauses(Struct, frozen=True):
    """What is known of how the list was judged, where the cache alone does not tell."""

    judged: Mapping[int, int] = field(default_factory=dict)
    """Question -> candidates that were judged in this run."""
    lost: Mapping[tuple[int, str], Unjudged] = field(default_factory=dict)
    """Question and content hash -> why it has no score."""
    cause: UnjudgedCause = UnjudgedCause.INTERRUPTED
    """Of whatever else has no score."""
    detail: str = "it was not judged before the run ended"


def cached_outcomes(prepared: PreparedQuestion, known: KnownCauses) -> tuple[Outcome, ...]:
    """Give every candidate of a question its outcome, from the cache alone."""
    pool = prepared.pool
    found = Outcome.from_known(pool.candidates, pool.known, Origin.CACHED)
    return tuple(
        outcome or Outcome(one, _absent(prepared.number, one.content_hash, known), Origin.UNJUDGED)
        for one, outcome in zip(pool.candidates, found, strict=True)
    )


def rank_question(
    parts: PipelineParts, prepared: PreparedQuestion, settled: Sequence[Outcome], *, judged: int = 0
) -> tuple[QuestionSummary, list[ResultRow]]:
    """Rank one question. judged: how many of its candidates were judged in this run; the others were known."""
    ranking = rank(parts, settled, prepared.turn)
    chosen = ranking.selection.kept
    reasons = kept.stored_reasons(
        parts.store, prepared.key, judge_key(parts.judge.identity), [one.candidate.content_hash for one in chosen]
    )
    rows = [
        ResultRow(
            id=prepared.question.id,
            rank=place,
            path=one.candidate.path,
            entity=one.candidate.entity,
            memory=one.candidate.id,
            score=one.score,
            raw=one.judgment.score,
            reason=one.judgment.reason or reasons.get(one.candidate.content_hash, ""),
        )
        for place, one in enumerate(chosen, start=1)
    ]
    return _question_summary(prepared, settled, judged, rows), rows


async def rank_questions(
    parts: PipelineParts,
    questions: Iterable[PreparedQuestion],
    settle: Callable[[PreparedQuestion], Awaitable[Sequence[Outcome]]],
    keep: Callable[[Sequence[ResultRow]], None] | None,
    *,
    judged: Mapping[int, int],
) -> list[QuestionSummary]:
    """Rank every question in its order. Cancelled, it raises CancelledError between two questions.

    keep: takes the rows; None: nothing is ranked, each question has its account alone.
    """
    lines = []
    for prepared in questions:
        await asyncio.sleep(0)
        settled, here = await settle(prepared), judged.get(prepared.number, 0)
        if keep is None:
            lines.append(_question_summary(prepared, settled, here, ()))
            continue
        line, rows = rank_question(parts, prepared, settled, judged=here)
        lines.append(line)
        keep(rows)
    return lines


def _absent(number: int, content_hash: str, known: KnownCauses) -> Unjudged:
    return known.lost.get((number, content_hash)) or Unjudged(content_hash, known.cause, known.detail)


def _question_summary(
    prepared: PreparedQuestion, settled: Sequence[Outcome], judged: int, rows: Sequence[ResultRow]
) -> QuestionSummary:
    causes = Counter(str(one.result.cause) for one in settled if isinstance(one.result, Unjudged))
    scored = sum(isinstance(one.result, Judgment) for one in settled)
    here = sum(one.origin is Origin.JUDGED for one in settled) or min(judged, scored)
    coverage = Coverage(len(prepared.pool.candidates), here, scored - here, 0, len(settled) - scored)
    if not rows:
        return QuestionSummary(prepared.question.id, coverage, dict(causes.most_common()), 0)
    best = f"{rows[0].path}::{rows[0].entity}" if rows[0].entity else rows[0].path or rows[0].memory
    return QuestionSummary(
        prepared.question.id, coverage, dict(causes.most_common()), len(rows), best=best, best_score=rows[0].score
    )


def total_coverage(lines: Iterable[QuestionSummary]) -> Coverage:
    """Add the accounts up."""
    each = [line.coverage for line in lines]
    return Coverage(
        candidates=sum(one.candidates for one in each),
        judged=sum(one.judged for one in each),
        cached=sum(one.cached for one in each),
        carried=sum(one.carried for one in each),
        unjudged=sum(one.unjudged for one in each),
    )


ROWS_AT_ONCE = 20_000
"""Rows that are held in memory before they go to the disk."""
KINDS = (".parquet", ".jsonl")
_LONGEST_LINE = 1_000_000
"""Bytes."""


def check_results_path(path: Path, *, store_dir: Path, questions: Path | None = None) -> None:
    """Raise UsageError where no results of this name can be written, before anything is spent.

    questions: the file that the list was read from.
    """
    if path.suffix not in KINDS:
        raise UsageError(f"--output: {path} names neither Parquet nor JSON lines", hint="End it in .parquet or .jsonl.")
    if path.resolve().is_relative_to(store_dir.resolve()):
        raise UsageError(f"--output: {path} lies in the store's own folder", hint="Name a file elsewhere.")
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise UsageError(f"--output: {path} is there and is no plain file", hint="Name another file.")
    if _is_of_questions(path, questions):
        raise UsageError(f"--output: {path} is a list of questions", hint="Name another file: it would be overwritten.")
    if path.exists() and not _is_earlier(path):
        raise UsageError(f"--output: {path} is there and holds no results of a list", hint="Name another file.")
    if not path.parent.is_dir():
        raise UsageError(f"--output: {path.parent} is no folder", hint="Make the folder first.")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"--output: {path} cannot be written", hint="Name a file in a folder of yours.")


def _is_of_questions(path: Path, questions: Path | None) -> bool:
    """Whether it is the list itself, by whatever name, or some other list."""
    try:
        return (questions is not None and path.samefile(questions)) or is_question_file(path)
    except OSError:
        return False  # one of the two is not there


def _is_earlier(path: Path) -> bool:
    """Whether a file is empty or begins as these results do, so that it may be written anew."""
    names = list(ResultRow.__struct_fields__)
    try:
        with path.open("rb") as file:
            head = file.read(4)
            if not head or path.suffix == ".parquet":
                return not head or (head == b"PAR1" and _columns(path) == names)
            first = json.loads(head + file.readline(_LONGEST_LINE))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and list(first) == names


def _columns(path: Path) -> list[str]:
    """Name the columns of a Parquet file; none where it cannot be read."""
    import polars as pl

    try:
        return list(pl.read_parquet_schema(path))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return []


class ResultsFile(Struct):
    """A context manager: what was added stands at `path` when it ends well, and nothing of it when it does not."""

    path: Path | None
    """None: nothing is written."""
    rows: list[ResultRow] = field(default_factory=list)
    parts: list[Path] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Begin; nothing is made yet."""
        return self

    def add(self, rows: Sequence[ResultRow]) -> None:
        """Take rows. Raises UsageError where they cannot be written."""
        if self.path is None:
            return
        self.rows.extend(rows)
        if len(self.rows) >= ROWS_AT_ONCE:
            self._spill()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Move the file into place, or take away what was begun. Raises UsageError where it cannot be written."""
        try:
            if kind is None and self.path is not None:
                self._finish(self.path)
        finally:
            for part in self.parts:
                with suppress(OSError):
                    part.unlink(missing_ok=True)

    def _finish(self, path: Path) -> None:
        if self.rows or not self.parts:
            self._spill()
        try:
            if len(self.parts) > 1:
                self._join(self._aside("whole"))
            self.parts[-1].replace(path)
        except OSError as error:
            raise _unwritable(path, error) from error

    def _spill(self) -> None:
        assert self.path is not None
        try:
            if self.path.suffix == ".jsonl":
                part = self.parts[0] if self.parts else self._aside("0")
                with part.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in self.rows)
            else:
                _table(self.rows, self._aside(str(len(self.parts))))
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self.rows.clear()

    def _aside(self, name: str) -> Path:
        assert self.path is not None
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}.{name}")
        part.unlink(missing_ok=True)
        self.parts.append(part)
        return part

    def _join(self, whole: Path) -> None:
        import polars as pl

        pl.scan_parquet([part for part in self.parts if part != whole]).sink_parquet(whole, maintain_order=True)


def _table(rows: Sequence[ResultRow], part: Path) -> None:
    import polars as pl

    schema = {
        "id": pl.String,
        "rank": pl.Int64,
        "path": pl.String,
        "entity": pl.String,
        "memory": pl.String,
        "score": pl.Float64,
        "raw": pl.Float64,
        "reason": pl.String,
    }
    pl.DataFrame([asdict(row) for row in rows], schema=schema).write_parquet(part)


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"--output: {path} cannot be written: {error.strerror}",
        hint="What was judged is kept: run the same command again with another --output.",
    )
