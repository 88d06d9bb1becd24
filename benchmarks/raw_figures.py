"""A judge, a pool and questions with known answers in; how well it finds them out.

It measures raw scores: boosts, selection quotas and the answering model stay outside. Each question judges the whole
pool, so with a model judge each question costs a turn. An unjudged candidate ranks last and is counted.
"""

from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct

from xscore.extensions.evaluation import metrics
from xscore.extensions.evaluation.metrics import entity_ref
from xscore.extensions.evaluation.questions import QrelCase
from xscore.records import Candidate, Judgment, Turn
from xscore.scorer.judge import Judge


class CaseResult(Struct, frozen=True, kw_only=True):
    """One question's figures."""

    id: str
    recall: float
    precision: float
    hit: float
    reciprocal_rank: float
    ndcg: float
    kept: int
    """Candidates at or above the threshold, at most k."""
    gold: int
    gold_kept: int
    unjudged: int


class EvaluationReport(Struct, frozen=True, kw_only=True):
    """Means over the questions, and each question's figures."""

    k: int
    threshold: float
    recall: float
    precision: float
    hit: float
    mrr: float
    ndcg: float
    kept: float
    """Mean number kept a question."""
    empty: float
    """Share of the questions that keep nothing."""
    gold_kept: float
    """Mean share of a question's gold among what it keeps."""
    kept_precision: float
    """Gold among everything kept, over all questions together; 0 when nothing is kept."""
    unjudged: int
    cases: tuple[CaseResult, ...]


async def evaluate(
    judge: Judge, candidates: Sequence[Candidate], cases: Sequence[QrelCase], *, threshold: float, k: int = 15
) -> EvaluationReport:
    """Judge the pool against each question and compare with its gold. `cases` is not empty."""
    results = [await _one(judge, candidates, case, threshold=threshold, k=k) for case in cases]
    return report(results, threshold=threshold, k=k)


def report(results: Sequence[CaseResult], *, threshold: float, k: int) -> EvaluationReport:
    """Sum up the figures of at least one question."""
    kept = sum(result.kept for result in results)
    return EvaluationReport(
        k=k,
        threshold=threshold,
        recall=fmean(result.recall for result in results),
        precision=fmean(result.precision for result in results),
        hit=fmean(result.hit for result in results),
        mrr=fmean(result.reciprocal_rank for result in results),
        ndcg=fmean(result.ndcg for result in results),
        kept=fmean(result.kept for result in results),
        empty=fmean(result.kept == 0 for result in results),
        gold_kept=fmean(result.gold_kept / result.gold for result in results),
        kept_precision=sum(result.gold_kept for result in results) / kept if kept else 0.0,
        unjudged=sum(result.unjudged for result in results),
        cases=tuple(results),
    )


async def _one(
    judge: Judge, candidates: Sequence[Candidate], case: QrelCase, *, threshold: float, k: int
) -> CaseResult:
    by_content = {candidate.content_hash: candidate for candidate in candidates}
    judged: list[Judgment] = []
    unjudged = 0
    async for result in judge.judge(Turn(task=case.query), candidates):
        if isinstance(result, Judgment):
            judged.append(result)
        else:
            unjudged += 1
    judged.sort(key=lambda judgment: -judgment.score)
    found = metrics.match_gold([entity_ref(by_content[judgment.content_hash]) for judgment in judged], case.gold)
    kept = sum(judgment.score >= threshold for judgment in judged[:k])
    return CaseResult(
        id=case.id,
        recall=metrics.recall_at(found, len(case.gold), k=k),
        precision=metrics.precision_at(found, k=k),
        hit=metrics.hit_at(found, k=k),
        reciprocal_rank=metrics.reciprocal_rank(found),
        ndcg=metrics.ndcg_at(found, len(case.gold), k=k),
        kept=kept,
        gold=len(case.gold),
        gold_kept=sum(hit is not None for hit in found[:kept]),
        unjudged=unjudged,
    )
