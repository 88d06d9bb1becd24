"""From scores on past commits to maps, cuts and the weight of words. Pure.

The share of needed memories at each score is fitted by isotonic regression, for every kind with
enough needed memories by itself and for the other kinds that have any together. Kinds that no case
needs get no cut. One share is then the bar for all kinds: the highest that keeps the wanted recall
without keeping more memories on average than allowed. The cut of a kind is the score at which its
map reaches the bar, the weight of words the one of a few at which needed memories rank highest.
What is reported of recall, kept memories and error is measured on folds that were left out, whole
repositories where there are several, and everything is fitted again without them. Trade-off: the
fit that is stored has seen all cases; the figures are of fits that have seen four fifths.
"""

from collections.abc import Mapping, Sequence
from math import log2, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from msgspec import Struct, field

from xscore.extensions.evaluation.statistics import (
    Interval,
    calibration_error,
    mean_interval,
    pool_adjacent_violators,
)
from xscore.platform.hashing import digest
from xscore.records.calibration import EVERY_KIND, ScoreMap

FEWEST_POSITIVES = 30
"""Fewest needed memories for a fit: with fewer, a recall of .8 would be known to ± .15 at
best."""
FEWEST_OF_KIND = 30
"""Fewest needed memories of one kind for a map of its own."""
FOLDS = 5
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""Weights of words that are tried."""
KEPT_PER_CASE = 200
"""How many of the best memories of a case are looked at, with all gold; the others score next
to nothing."""
ERROR_OVER = 50
"""Best memories of a case over which the calibration error is measured."""
BARS = 200
"""Shares that are tried as the bar."""
LEAST_GAIN = 1.0
"""Standard errors by which another weight has to be better than the one in force."""


class ScoredMemory(NamedTuple):
    """One judged memory of a case, with its final score."""

    score: float
    kind: str
    is_gold: bool


class ScoredCase(Struct, frozen=True, kw_only=True):
    """One past commit as the judge scored it."""

    id: str
    repository: str = ""
    gold: int
    """Entities to be found, whether or not they are candidates."""
    gold_ranks: Mapping[float, tuple[int, ...]]
    """Weight of words -> ranks of the gold among all candidates, from 1."""
    memories: Mapping[float, tuple[ScoredMemory, ...]]
    """Weight of words -> the best `KEPT_PER_CASE`, best first, then what gold is below them."""


class CutFigures(Struct, frozen=True, kw_only=True):
    """What cuts keep of cases."""

    recalls: tuple[float, ...]
    """Recall of each case that has gold."""
    repositories: tuple[str, ...]
    """Repository of each of these cases."""
    kept: tuple[int, ...]
    """Number of memories kept of every case."""

    @property
    def recall(self) -> float:
        """The mean; 0 without a case."""
        return fmean(self.recalls) if self.recalls else 0.0

    @property
    def mean_kept(self) -> float:
        """Memories kept on average."""
        return fmean(self.kept) if self.kept else 0.0


class CalibrationFit(Struct, frozen=True, kw_only=True):
    """All that was fitted, and how well it does on cases that it has not seen."""

    words_weight: float
    maps: Mapping[str, ScoreMap]
    cuts: Mapping[str, float]
    figures: CutFigures
    """Figures on left-out cases."""
    interval: Interval | None
    error: float | None
    error_before: float | None
    """The error if the scores themselves are taken for probabilities."""

    @property
    def recall(self) -> float:
        """Share of the gold that the cuts keep."""
        return self.figures.recall


def count_positives(cases: Sequence[ScoredCase]) -> int:
    """Return how many needed memories the cases hold."""
    positives = 0
    for case in cases:
        first = next(iter(case.memories.values()), ())
        positives += sum(memory.is_gold for memory in first)
    return positives


def fit_calibration(
    cases: Sequence[ScoredCase],
    *,
    recall: float,
    kept_limit: int,
    weight_in_force: float,
    is_weight_chosen: bool = False,
) -> CalibrationFit:
    """Fit everything on all cases, and measure it on folds that were left out.

    cases: with at least `FEWEST_POSITIVES`.
    weight_in_force: kept where no other is clearly better, or if the user has chosen it.
    """

    def weight_for(training: Sequence[ScoredCase]) -> float:
        if is_weight_chosen:
            return weight_in_force
        return choose_weight(training, in_force=weight_in_force)

    weight = weight_for(cases)
    maps = fit_maps(cases, weight)
    cuts = choose_cuts(cases, maps, weight, recall=recall, kept_limit=kept_limit)
    measured = _HeldOutFigures()
    for training, held_out in folds(cases):
        fold_weight = weight_for(training)
        fold_maps = fit_maps(training, fold_weight)
        fold_cuts = choose_cuts(
            training, fold_maps, fold_weight, recall=recall, kept_limit=kept_limit
        )
        figures = figures_at(held_out, fold_cuts, fold_weight, kept_limit=kept_limit)
        measured.add(figures, held_out, fold_maps, fold_weight)
    held_out_figures = measured.cut_figures()
    return CalibrationFit(
        words_weight=weight,
        maps=maps,
        cuts=cuts,
        figures=held_out_figures,
        interval=mean_interval(held_out_figures.recalls, held_out_figures.repositories),
        error=calibration_error(measured.predicted, measured.is_gold),
        error_before=calibration_error(measured.scores, measured.is_gold),
    )


class _HeldOutFigures(Struct):
    """What the fits of all folds did on the cases that each had not seen."""

    recalls: list[float] = field(default_factory=list)
    repositories: list[str] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    predicted: list[float] = field(default_factory=list)
    """Share that the map gives each of the best memories, in the order of `scores` and
    `is_gold`."""
    scores: list[float] = field(default_factory=list)
    is_gold: list[bool] = field(default_factory=list)

    def add(
        self,
        figures: CutFigures,
        held_out: Sequence[ScoredCase],
        maps: Mapping[str, ScoreMap],
        weight: float,
    ) -> None:
        """Add one fold."""
        self.recalls += figures.recalls
        self.repositories += figures.repositories
        self.kept += figures.kept
        for case in held_out:
            for memory in case.memories[weight][:ERROR_OVER]:
                if memory.kind not in maps:
                    continue
                self.predicted.append(maps[memory.kind].share(memory.score))
                self.scores.append(memory.score)
                self.is_gold.append(memory.is_gold)

    def cut_figures(self) -> CutFigures:
        """Return what the cuts kept."""
        return CutFigures(
            recalls=tuple(self.recalls),
            repositories=tuple(self.repositories),
            kept=tuple(self.kept),
        )


def folds(
    cases: Sequence[ScoredCase],
) -> list[tuple[Sequence[ScoredCase], Sequence[ScoredCase]]]:
    """Return pairs of training and held-out cases: by repository, or by case where there is one.

    The same cases give the same folds.
    """
    several = len({case.repository for case in cases}) > 1
    units = sorted({_unit(case, several) for case in cases}, key=digest)
    fold_of = {unit: place % FOLDS for place, unit in enumerate(units)}
    pairs: list[tuple[Sequence[ScoredCase], Sequence[ScoredCase]]] = []
    for fold in range(min(FOLDS, len(units))):
        held_out = [case for case in cases if fold_of[_unit(case, several)] == fold]
        training = [case for case in cases if fold_of[_unit(case, several)] != fold]
        # One case alone cannot be left out and fitted on.
        if training and count_positives(training):
            pairs.append((training, held_out))
    return pairs


def _unit(case: ScoredCase, by_repository: bool) -> str:
    return case.repository if by_repository else case.id


def choose_weight(cases: Sequence[ScoredCase], *, in_force: float) -> float:
    """Return the weight of words at which gold ranks highest.

    Only one that is better by more than a standard error replaces the one in force.
    """
    if cases:
        weights = set.intersection(*(set(case.gold_ranks) for case in cases))
    else:
        weights = set()
    if in_force not in weights:
        return in_force
    gains: dict[float, list[float]] = {}
    for weight in sorted(weights):
        gains[weight] = [
            _gain(case.gold_ranks[weight], case.gold) for case in cases if case.gold
        ]
    best = in_force
    for weight, of_weight in gains.items():
        differences = [
            gain - before for gain, before in zip(of_weight, gains[in_force], strict=True)
        ]
        if len(differences) < 2:
            continue
        error = stdev(differences) / sqrt(len(differences))
        is_clear = fmean(differences) > LEAST_GAIN * error
        if is_clear and fmean(of_weight) > fmean(gains[best]):
            best = weight
    return best


def _gain(ranks: Sequence[int], gold: int) -> float:
    """Return the discounted gain of these ranks over all candidates, as of nDCG; 0..1."""
    ideal = sum(1 / log2(rank + 1) for rank in range(1, gold + 1))
    return sum(1 / log2(rank + 1) for rank in ranks) / ideal


def fit_maps(cases: Sequence[ScoredCase], weight: float) -> dict[str, ScoreMap]:
    """Return a map for every kind that has gold: its own where there is enough, otherwise that
    of all these kinds together.

    Past commits say nothing about the others, such as documents and decisions.
    """
    by_kind: dict[str, list[ScoredMemory]] = {}
    for case in cases:
        for memory in case.memories[weight]:
            by_kind.setdefault(memory.kind, []).append(memory)
    gold_counts: dict[str, int] = {}
    together: list[ScoredMemory] = []
    for kind, memories in sorted(by_kind.items()):
        gold_count = sum(memory.is_gold for memory in memories)
        if gold_count:
            gold_counts[kind] = gold_count
            together += memories
    maps = {EVERY_KIND: fit_map(together)}
    for kind, gold_count in gold_counts.items():
        has_enough = gold_count >= FEWEST_OF_KIND
        maps[kind] = fit_map(by_kind[kind]) if has_enough else maps[EVERY_KIND]
    return maps


def fit_map(memories: Sequence[ScoredMemory]) -> ScoreMap:
    """Fit one map. memories: not empty."""
    counts: dict[float, tuple[int, int]] = {}
    for memory in memories:
        count, gold = counts.get(memory.score, (0, 0))
        counts[memory.score] = (count + 1, gold + memory.is_gold)
    scores = sorted(counts)
    weights = [float(counts[score][0]) for score in scores]
    shares = [counts[score][1] / counts[score][0] for score in scores]
    fitted = pool_adjacent_violators(shares, weights)
    # The first and the last of the scores that share a value are enough to draw it.
    knots = [
        place
        for place in range(len(scores))
        if place in (0, len(scores) - 1)
        or fitted[place] != fitted[place - 1]
        or fitted[place] != fitted[place + 1]
    ]
    return ScoreMap(
        tuple(scores[place] for place in knots),
        tuple(min(1.0, max(0.0, fitted[place])) for place in knots),
    )


def choose_cuts(
    cases: Sequence[ScoredCase],
    maps: Mapping[str, ScoreMap],
    weight: float,
    *,
    recall: float,
    kept_limit: int,
) -> dict[str, float]:
    """Return the cut of each map: at the highest bar that keeps the wished recall.

    If that would keep more than `kept_limit` on average, or no bar keeps as much, the bar is the
    one that keeps most of the gold with that many.
    """
    shares: set[float] = set()
    for case in cases:
        for memory in case.memories[weight][: 4 * kept_limit]:
            if memory.kind in maps:
                shares.add(maps[memory.kind].share(memory.score))
    bars = sorted(shares, reverse=True)
    # Evenly spaced ones of many; the lowest keeps all that can be kept.
    step = max(1, len(bars) // BARS)
    best = dict.fromkeys(maps, 1.0)
    best_recall = -1.0
    for bar in [*bars[::step], *bars[-1:]]:
        cuts = {kind: _score_at(score_map, bar) for kind, score_map in maps.items()}
        figures = figures_at(cases, cuts, weight, kept_limit=kept_limit)
        if figures.mean_kept > kept_limit:
            break
        if figures.recall > best_recall:
            best = cuts
            best_recall = figures.recall
        if figures.recall >= recall:
            break
    return best


def _score_at(score_map: ScoreMap, bar: float) -> float:
    """Return the lowest score whose share reaches the bar; 1 if none does."""
    for place, share in enumerate(score_map.shares):
        if share < bar:
            continue
        if place == 0:
            return score_map.scores[0]
        low = score_map.shares[place - 1]
        high = share
        part = (bar - low) / (high - low)
        before = score_map.scores[place - 1]
        return before + part * (score_map.scores[place] - before)
    return 1.0


def figures_at(
    cases: Sequence[ScoredCase], cuts: Mapping[str, float], weight: float, *, kept_limit: int
) -> CutFigures:
    """Return what cuts keep of the kinds that have one, at most `kept_limit` of a case."""
    recalls: list[float] = []
    repositories: list[str] = []
    kept: list[int] = []
    for case in cases:
        passing = 0
        gold = 0
        for memory in case.memories[weight]:
            if memory.kind not in cuts or memory.score < cuts[memory.kind]:
                continue
            passing += 1
            gold += memory.is_gold
            if passing == kept_limit:
                break
        kept.append(passing)
        if case.gold:
            recalls.append(min(1.0, gold / case.gold))
            repositories.append(case.repository)
    return CutFigures(
        recalls=tuple(recalls), repositories=tuple(repositories), kept=tuple(kept)
    )
