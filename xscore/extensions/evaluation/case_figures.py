"""The figures of one case and of all: recall down to 5, 15 and 20, what fits 8,000 tokens, what was
kept, and whether the surest answers are right.

Where gold is files alone, files are ranked, each by its best memory. Every mean has an interval
(`statistics`); nothing is divided by a number of cases that is 0.
"""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from xscore.extensions.evaluation import metrics
from xscore.extensions.evaluation.metrics import EntityRef, entity_ref
from xscore.extensions.evaluation.statistics import Interval, mean_interval
from xscore.pipeline.turn_stages import Ranking
from xscore.records.judgment import Ranked

BUDGET_TOKENS = 8_000
COVERAGES = (0.25, 0.5, 0.75, 1.0)


class CaseFigures(Struct, frozen=True, kw_only=True):
    """The figures of one case with gold; all in 0..1."""

    recall_at_5: float
    recall_at_15: float
    recall_at_20: float
    reciprocal_rank: float
    bcy_8k: float
    """Share of the gold whose whole text is in the first `BUDGET_TOKENS` tokens of the ranking."""
    gold_kept: float
    """Share of the gold that was kept."""
    any_kept: float
    """1 when any gold was kept."""


class MeanFigure(Struct, frozen=True):
    """A mean over cases."""

    mean: float
    interval: Interval | None
    """Interval of the mean; None: too few cases."""


class SurestCases(Struct, frozen=True):
    """The cases with the highest best scores, whether they have gold or not."""

    coverage: float
    """Their share of all cases."""
    precision: MeanFigure
    """Share of these cases in which gold was kept."""


class FigureSummary(Struct, frozen=True, kw_only=True):
    """All cases of a run."""

    cases: int
    """Number of cases with gold."""
    figures: dict[str, MeanFigure]
    """Mean figures by the names of `CaseFigures`; empty without cases that have gold."""
    kept: MeanFigure | None
    """Memories kept of a case with gold."""
    no_gold_cases: int
    kept_nothing: MeanFigure | None
    """Share of the cases without gold in which nothing was kept."""
    precision_at_coverage: tuple[SurestCases, ...]


class MeasuredCase(Struct, frozen=True, kw_only=True):
    """What the summary takes of a case."""

    id: str
    repository: str
    figures: CaseFigures | None
    """Figures of the case; None if it has no gold."""
    kept: int
    best_score: float


def case_figures(ranking: Ranking, gold: Sequence[EntityRef]) -> CaseFigures | None:
    """Measure a ranking; None without gold."""
    if not gold:
        return None
    in_order = ranking.in_order()
    places = [entity_ref(entry.candidate) for entry in in_order]
    are_files = not any(place.name or place.start for place in gold)
    ranked_places = _best_of_each_file(places) if are_files else places
    hits = metrics.match_gold(ranked_places, gold)
    kept = metrics.match_gold(
        [entity_ref(entry.candidate) for entry in ranking.selection.kept], gold
    )
    gold_kept = sum(hit is not None for hit in kept) / len(gold)

    def recall(k: int) -> float:
        return metrics.ranking_metrics(hits, len(gold), k=k).recall

    return CaseFigures(
        recall_at_5=recall(5),
        recall_at_15=recall(15),
        recall_at_20=recall(20),
        reciprocal_rank=metrics.ranking_metrics(hits, len(gold), k=1).reciprocal_rank,
        bcy_8k=_whole_within(in_order, places, gold, BUDGET_TOKENS),
        gold_kept=gold_kept,
        any_kept=float(gold_kept > 0),
    )


def _best_of_each_file(places: Sequence[EntityRef]) -> list[EntityRef]:
    best = {place.path: place for place in reversed(places) if place.path}
    return [place for place in places if best.get(place.path) is place]


def _whole_within(
    in_order: Sequence[Ranked],
    places: Sequence[EntityRef],
    gold: Sequence[EntityRef],
    budget_tokens: int,
) -> float:
    """Return the share of the gold that is shown whole when the ranking is cut at these tokens."""
    tokens_left = budget_tokens
    shown: list[EntityRef] = []
    for entry, place in zip(in_order, places, strict=True):
        tokens_left -= entry.candidate.tokens
        if tokens_left < 0:
            break
        shown.append(place)
    return sum(hit is not None for hit in metrics.match_gold(shown, gold)) / len(gold)


def summarize(cases: Sequence[MeasuredCase]) -> FigureSummary:
    """Return the means of all cases, with their intervals."""
    with_gold: list[MeasuredCase] = []
    without: list[MeasuredCase] = []
    for case in cases:
        (without if case.figures is None else with_gold).append(case)
    figures: dict[str, MeanFigure] = {}
    for name in CaseFigures.__struct_fields__:
        mean = _mean(with_gold, partial(_figure, name))
        if mean is not None:
            figures[name] = mean
    return FigureSummary(
        cases=len(with_gold),
        figures=figures,
        kept=_mean(with_gold, lambda case: float(case.kept)),
        no_gold_cases=len(without),
        kept_nothing=_mean(without, lambda case: float(case.kept == 0)),
        precision_at_coverage=_precision_at_coverage(cases),
    )


def _precision_at_coverage(cases: Sequence[MeasuredCase]) -> tuple[SurestCases, ...]:
    surest = sorted(cases, key=lambda case: (-case.best_score, case.id))
    rows: list[SurestCases] = []
    for coverage in COVERAGES:
        count = round(coverage * len(surest))
        precision = _mean(surest[:count], _is_right)
        if precision is not None:
            rows.append(SurestCases(coverage, precision))
    return tuple(rows)


def _figure(name: str, case: MeasuredCase) -> float:
    if case.figures is None:
        return 0.0
    return float(getattr(case.figures, name))


def _is_right(case: MeasuredCase) -> float:
    if case.figures is None:
        return 0.0
    return case.figures.any_kept


def _mean(
    cases: Sequence[MeasuredCase], figure: Callable[[MeasuredCase], float]
) -> MeanFigure | None:
    """Return the mean of a figure; None over no case."""
    if not cases:
        return None
    values = [figure(case) for case in cases]
    repositories = [case.repository for case in cases]
    return MeanFigure(sum(values) / len(values), mean_interval(values, repositories))
