"""What a list came to: each question ranked from the judgments in the cache, with its account.

Rows are the ranked selection: the same rules, thresholds and boosts as a turn's. Every question has its account:
candidates = judged + cached + unjudged by cause. It judges nothing and writes no file (`results_file`). Trade-off:
questions are gone through once more after judging, at some milliseconds each, so that one process and many workers
leave the same rows.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xscore.cache.keys import judge_key
from xscore.offline.prepared import Prepared
from xscore.pipeline import kept
from xscore.pipeline.parts import Parts
from xscore.pipeline.ranking import rank
from xscore.records import Cause, Coverage, Judgment, Origin, Outcome, Unjudged


@dataclass(frozen=True, slots=True)
class Row:
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


@dataclass(frozen=True, slots=True)
class QuestionLine:
    """The account of one question."""

    id: str
    coverage: Coverage
    unjudged_by_cause: Mapping[str, int]
    kept: int
    best: str = ""
    """The first of the selection, as `path::entity`."""
    best_score: float | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of how the list was judged, where the cache alone does not tell."""

    judged: Mapping[int, int] = field(default_factory=dict)
    """Question -> candidates that were judged in this run."""
    lost: Mapping[tuple[int, str], Unjudged] = field(default_factory=dict)
    """Question and content hash -> why it has no score."""
    cause: Cause = Cause.INTERRUPTED
    """Of whatever else has no score."""
    detail: str = "it was not judged before the run ended"


def outcomes(prepared: Prepared, known: Known) -> tuple[Outcome, ...]:
    """Give every candidate of a question its outcome, from the cache alone."""
    pool = prepared.pool
    found = Outcome.found(pool.candidates, pool.known, Origin.CACHED)
    return tuple(
        outcome or Outcome(one, _absent(prepared.number, one.content_hash, known), Origin.UNJUDGED)
        for one, outcome in zip(pool.candidates, found, strict=True)
    )


def ranked(
    parts: Parts, prepared: Prepared, settled: Sequence[Outcome], *, judged: int = 0
) -> tuple[QuestionLine, list[Row]]:
    """Rank one question. judged: how many of its candidates were judged in this run; the others were known."""
    ranking = rank(parts, settled, prepared.turn)
    chosen = ranking.selection.kept
    reasons = kept.reasons(
        parts.store, prepared.key, judge_key(parts.judge.identity), [one.candidate.content_hash for one in chosen]
    )
    rows = [
        Row(
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
    return _line(prepared, settled, judged, rows), rows


async def rank_all(
    parts: Parts,
    questions: Iterable[Prepared],
    settle: Callable[[Prepared], Awaitable[Sequence[Outcome]]],
    keep: Callable[[Sequence[Row]], None] | None,
    *,
    judged: Mapping[int, int],
) -> list[QuestionLine]:
    """Rank every question in its order. Cancelled, it raises CancelledError between two questions.

    keep: takes the rows; None: nothing is ranked, each question has its account alone.
    """
    lines = []
    for prepared in questions:
        await asyncio.sleep(0)
        settled, here = await settle(prepared), judged.get(prepared.number, 0)
        if keep is None:
            lines.append(_line(prepared, settled, here, ()))
            continue
        line, rows = ranked(parts, prepared, settled, judged=here)
        lines.append(line)
        keep(rows)
    return lines


def _absent(number: int, content_hash: str, known: Known) -> Unjudged:
    return known.lost.get((number, content_hash)) or Unjudged(content_hash, known.cause, known.detail)


def _line(prepared: Prepared, settled: Sequence[Outcome], judged: int, rows: Sequence[Row]) -> QuestionLine:
    causes = Counter(str(one.result.cause) for one in settled if isinstance(one.result, Unjudged))
    scored = sum(isinstance(one.result, Judgment) for one in settled)
    here = sum(one.origin is Origin.JUDGED for one in settled) or min(judged, scored)
    coverage = Coverage(len(prepared.pool.candidates), here, scored - here, 0, len(settled) - scored)
    if not rows:
        return QuestionLine(prepared.question.id, coverage, dict(causes.most_common()), 0)
    best = f"{rows[0].path}::{rows[0].entity}" if rows[0].entity else rows[0].path or rows[0].memory
    return QuestionLine(
        prepared.question.id, coverage, dict(causes.most_common()), len(rows), best=best, best_score=rows[0].score
    )


def coverage_of(lines: Iterable[QuestionLine]) -> Coverage:
    """Add the accounts up."""
    each = [line.coverage for line in lines]
    return Coverage(
        candidates=sum(one.candidates for one in each),
        judged=sum(one.judged for one in each),
        cached=sum(one.cached for one in each),
        carried=sum(one.carried for one in each),
        unjudged=sum(one.unjudged for one in each),
    )
