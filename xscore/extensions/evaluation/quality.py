"""The results of an evaluation, per question and in total.

Two things are measured of each judge: what it *chose* (the selection, at most k, from the threshold
up), which is what a task would be given, and how it *ranked* everything by final score, down to k.
A question that was cut short counts in neither, and one without gold is only asked whether anything
was kept. Unjudged candidates are in no ranking; they are counted.
"""

from collections.abc import Sequence
from decimal import Decimal
from statistics import fmean

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.extensions.evaluation import metrics
from xscore.extensions.evaluation.case_figures import CaseFigures, FigureSummary
from xscore.extensions.evaluation.metrics import (
    CalibrationBin,
    EntityRef,
    LabelledScore,
    RankingMetrics,
    entity_ref,
)
from xscore.pipeline.turn_stages import Ranking
from xscore.platform.errors import ExitCode
from xscore.platform.text import counted
from xscore.records.calls import Usage
from xscore.records.estimates import CapLeft
from xscore.records.judgment import Ranked
from xscore.records.receipt import Coverage
from xscore.records.reports import list_exit_code

GOLD_NAMED = 5
"""How many gold entities without a candidate the warning names."""


class JudgeQuality(Struct, frozen=True, kw_only=True):
    """The quality of one judge."""

    chosen: RankingMetrics
    ranked: RankingMetrics
    """Metrics of the first k by final score, whatever the threshold; the reciprocal rank looks
    further."""
    kept: float
    """Number of chosen memories; over several questions the mean."""


class MissedGold(Struct, frozen=True, kw_only=True):
    """A gold entity that was not chosen."""

    path: str
    name: str
    rank: int | None
    score: float | None
    is_candidate: bool
    raw_score: float | None = None
    """The score that the judge gave it; None: nothing, or an earlier file of results."""
    words: float = 0.0
    """What the words of the memory added to the log-odds of that score."""


class QuestionResult(Struct, frozen=True, kw_only=True):
    """One question."""

    id: str
    query: str
    turn_id: str
    gold: int
    kept: int
    judge: JudgeQuality | None
    """Quality of the judge's ranking; None if there is no gold."""
    words: JudgeQuality | None
    """Quality of the lexical judge's ranking; None if it is the judge."""
    missed: tuple[MissedGold, ...]
    coverage: Coverage
    calls: int
    cost_usd: Decimal | None
    seconds: float
    repository: str = ""
    """The repository, as the case names it."""
    language: str = ""
    kind: str = ""
    figures: CaseFigures | None = None
    """Figures of the case; None if there is no gold."""


class NoGoldQuality(Struct, frozen=True, kw_only=True):
    """The questions to which nothing here is the answer."""

    cases: int
    kept_nothing: int
    """How many of these questions kept nothing, which is right."""
    kept: float
    """Mean number of chosen memories; 0 without such questions."""


class Evaluation(Struct, frozen=True, kw_only=True):
    """The whole run."""

    id: str
    questions: str
    asked: int
    """Questions judged completely; the figures are about these."""
    of: int
    ended: str
    """Why it ended before the last question: `budget`, `deadline`, `interrupted`, `provider` or
    `store`; empty if it did not."""
    cap: CapLeft | None
    """The remaining amount of the binding cap, if one ended it; `max_usd` is of the `run`."""
    judge: str
    by_model: bool = field(name="is_model")
    """Whether a model judged; if not, the scores compare words."""
    k: int
    threshold: float
    found: JudgeQuality | None
    words: JudgeQuality | None
    no_gold: NoGoldQuality
    """Quality on questions without gold, which the figures above leave out."""
    summary: FigureSummary
    """Summary of the questions of which anything was judged, those of an earlier run
    included."""
    resumed: int
    """Questions that an earlier run has judged; the cost is of this run alone."""
    left_out: dict[str, int]
    """Questions that could not be asked, by reason."""
    reliability: tuple[CalibrationBin, ...]
    coverage: Coverage
    unjudged_by_cause: dict[str, int]
    calls: int
    usage: Usage
    cost_usd: Decimal | None
    """Dollars of the whole run, including interrupted questions; None: unpriced."""
    estimated: bool
    seconds: float
    results: tuple[QuestionResult, ...]
    warnings: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """The command's exit code."""
        code = list_exit_code(self.coverage, self.ended)
        if code == ExitCode.DONE and self.left_out:
            return ExitCode.PARTLY
        return code

    @property
    def worst(self) -> tuple[QuestionResult, ...]:
        """Questions with missed gold, worst first."""
        short: list[tuple[float, float, int]] = []
        for number, result in enumerate(self.results):
            if result.judge is not None and result.judge.chosen.recall < 1:
                short.append((result.judge.chosen.recall, result.judge.ranked.ndcg, number))
        return tuple(self.results[number] for _, _, number in sorted(short))


def no_gold_quality(results: Sequence[QuestionResult]) -> NoGoldQuality:
    """Count the questions without gold, and those of them that kept nothing."""
    kept = [result.kept for result in results if not result.gold]
    return NoGoldQuality(
        cases=len(kept),
        kept_nothing=sum(count == 0 for count in kept),
        kept=fmean(kept) if kept else 0.0,
    )


def quality_of(ranking: Ranking, gold: Sequence[EntityRef], *, k: int) -> JudgeQuality | None:
    """Measure one judge's ranking against one question's gold; None without gold."""
    if not gold:
        return None
    chosen = _hits(ranking.selection.kept, gold)
    ranked = _hits(ranking.in_order(), gold)
    return JudgeQuality(
        chosen=metrics.ranking_metrics(chosen, len(gold), k=k),
        ranked=metrics.ranking_metrics(ranked, len(gold), k=k),
        kept=len(chosen),
    )


def missed_gold(ranking: Ranking, gold: Sequence[EntityRef]) -> tuple[MissedGold, ...]:
    """Return the gold that was not chosen, with its rank."""
    in_order = ranking.in_order()
    at = {hit: rank for rank, hit in enumerate(_hits(in_order, gold)) if hit is not None}
    chosen = set(_hits(ranking.selection.kept, gold))
    unjudged = [entity_ref(candidate) for candidate, _ in ranking.selection.unjudged]
    missed: list[MissedGold] = []
    for index, gold_place in enumerate(gold):
        if index in chosen:
            continue
        place_in_ranking = at.get(index)
        unranked = MissedGold(
            path=gold_place.path,
            name=gold_place.name,
            rank=None,
            score=None,
            is_candidate=any(metrics.is_same_entity(place, gold_place) for place in unjudged),
        )
        if place_in_ranking is None:
            missed.append(unranked)
            continue
        entry = in_order[place_in_ranking]
        missed.append(
            replace(
                unranked,
                rank=place_in_ranking + 1,
                score=entry.score,
                is_candidate=True,
                raw_score=entry.judgment.score,
                words=entry.words,
            )
        )
    return tuple(missed)


def where_missed(gold: MissedGold) -> str:
    """Say how a gold entity ranked that was not chosen."""
    if gold.rank is not None and gold.score is not None:
        joined = ""
        if gold.raw_score is not None and gold.words:
            joined = f" (judge {gold.raw_score:.2f}, words {gold.words:+.1f})"
        return f"rank {gold.rank}, score {gold.score:.2f}{joined}"
    if gold.is_candidate:
        return "unjudged"
    return "no candidate: not in the index, or out of scope"


def figures_of(quality: JudgeQuality | None, kept: float | None) -> dict[str, float]:
    """Return the figures by which results are compared; see `comparison.MEASURES`.

    quality: None: there was nothing to find, so that keeping nothing is right.
    kept: how many were kept; None: not known.
    """
    if quality is None:
        if kept is None:
            return {}
        return {"kept": kept, "silent": float(not kept)}
    return {
        "recall": quality.chosen.recall,
        "recall_at_k": quality.ranked.recall,
        "precision": quality.chosen.precision,
        "hit": quality.chosen.hit,
        "reciprocal_rank": quality.ranked.reciprocal_rank,
        "ndcg": quality.ranked.ndcg,
        "kept": quality.kept,
    }


def absent_gold_warning(results: Sequence[QuestionResult]) -> tuple[str, ...]:
    """Name the gold entities without a candidate, in one sentence; empty if there are none."""
    absent: list[str] = []
    for result in results:
        for gold in result.missed:
            if not gold.is_candidate:
                absent.append(f"{result.id}: {gold.path}::{gold.name}".removesuffix("::"))
    if not absent:
        return ()
    count = counted(len(absent), "gold entity", "gold entities")
    unnamed = len(absent) - GOLD_NAMED
    shown = ", ".join(absent[:GOLD_NAMED]) + (f" and {unnamed} more" if unnamed > 0 else "")
    return (
        (
            f"{count} not among the candidates (not in the index, or out of scope), and so missed:"
            f" {shown}"
        ),
    )


def labelled_scores(ranking: Ranking, gold: Sequence[EntityRef]) -> list[LabelledScore]:
    """Return each judged candidate's final score and whether it is gold."""
    are_gold = metrics.are_gold([entity_ref(entry.candidate) for entry in ranking.ranked], gold)
    scores: list[LabelledScore] = []
    for entry, is_gold in zip(ranking.ranked, are_gold, strict=True):
        scores.append(LabelledScore(entry.score, is_gold))
    return scores


def mean_quality(qualities: Sequence[JudgeQuality]) -> JudgeQuality | None:
    """Return the means over questions; None over none."""
    if not qualities:
        return None
    return JudgeQuality(
        chosen=_mean([quality.chosen for quality in qualities]),
        ranked=_mean([quality.ranked for quality in qualities]),
        kept=fmean(quality.kept for quality in qualities),
    )


def _mean(measures: Sequence[RankingMetrics]) -> RankingMetrics:
    means: dict[str, float] = {}
    for name in RankingMetrics.__struct_fields__:
        means[name] = fmean(getattr(measure, name) for measure in measures)
    return RankingMetrics(**means)


def _hits(ranked: Sequence[Ranked], gold: Sequence[EntityRef]) -> list[int | None]:
    return metrics.match_gold([entity_ref(entry.candidate) for entry in ranked], gold)
