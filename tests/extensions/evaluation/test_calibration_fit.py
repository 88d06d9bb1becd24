"""Maps, cuts and the weight of words, fitted on cases whose truth is known."""

import math

import numpy as np
import pytest

from xscore.extensions.evaluation.calibration_fit import (
    CalibrationFit,
    ScoredCase,
    ScoredMemory,
    choose_cuts,
    choose_weight,
    figures_at,
    fit_calibration,
    fit_map,
    fit_maps,
    folds,
)
from xscore.records.calibration import EVERY_KIND, ScoreMap

IN_FORCE = 0.5


def case_of(
    number: int, memories: list[ScoredMemory], *, gold: int = 1, repository: str = ""
) -> ScoredCase:
    """A case with the same memories under two weights."""
    ordered = tuple(sorted(memories, key=lambda memory: -memory.score))
    ranks = tuple(place for place, memory in enumerate(ordered, start=1) if memory.is_gold)
    return ScoredCase(
        id=f"c{number}",
        repository=repository,
        gold=gold,
        gold_ranks={0.0: ranks, IN_FORCE: ranks},
        memories={0.0: ordered, IN_FORCE: ordered},
    )


def overconfident(
    cases: int, *, repositories: int = 1, kinds: tuple[str, ...] = ("function",), seed: int = 7
) -> list[ScoredCase]:
    """Cases of a judge whose score s is needed with a chance of s³ / 4."""
    rng = np.random.default_rng(seed)
    cases_made: list[ScoredCase] = []
    for number in range(cases):
        memories: list[ScoredMemory] = []
        for score in rng.uniform(0, 1, 60).round(3):
            kind = kinds[int(rng.integers(len(kinds)))]
            memories.append(ScoredMemory(float(score), kind, bool(rng.random() < score**3 / 4)))
        gold = sum(memory.is_gold for memory in memories)
        name = f"repository {number % repositories}"
        cases_made.append(case_of(number, memories, gold=gold, repository=name))
    return cases_made


def fitted(cases: list[ScoredCase], *, recall: float = 0.9, limit: int = 15) -> CalibrationFit:
    """The fit with the default weight in force."""
    return fit_calibration(cases, recall=recall, kept_limit=limit, weight_in_force=IN_FORCE)


def test_a_map_rises_and_meets_the_truth() -> None:
    """Fitted on many memories, the map is near s³ / 4 everywhere."""
    score_map = fit_maps(overconfident(400), IN_FORCE)[EVERY_KIND]
    for score in (0.2, 0.5, 0.8, 0.95):
        assert score_map.share(score) == pytest.approx(score**3 / 4, abs=0.04)
    assert score_map.share(0.0) <= score_map.share(0.4) <= score_map.share(1.0)


def test_shares_on_left_out_repositories_are_right() -> None:
    """The scores are off by a lot, the fitted shares by little, on repositories not fitted on."""
    fit = fitted(overconfident(80, repositories=10))
    assert fit.error is not None and fit.error_before is not None
    assert fit.error <= 0.05 < fit.error_before


def test_the_cut_keeps_what_was_wished() -> None:
    """On cases not used to set it, within what chance explains."""
    cases = overconfident(150)
    fit = fitted(cases, recall=0.6, limit=30)
    assert fit.interval is not None
    assert fit.interval.low <= 0.6 <= fit.interval.high
    higher = fitted(cases, recall=0.8, limit=60)
    assert higher.cuts[EVERY_KIND] < fit.cuts[EVERY_KIND]
    assert higher.figures.mean_kept > fit.figures.mean_kept


def test_no_more_is_kept_than_allowed() -> None:
    """A recall that is out of reach keeps at most as many as allowed, and the best of them."""
    fit = fitted(overconfident(80), recall=1.0, limit=5)
    assert fit.figures.mean_kept <= 5 and 0 < fit.recall < 1


def test_a_kind_with_enough_gold_has_a_cut_of_its_own() -> None:
    """Documents that score lower for the same need are cut lower; a kind with little gold goes with
    the others, and one without any has no cut."""
    rng = np.random.default_rng(1)
    cases: list[ScoredCase] = []
    for number in range(120):
        memories = [
            ScoredMemory(float(score), "function", False) for score in rng.uniform(0, 0.6, 30)
        ]
        memories += [
            ScoredMemory(float(score), "doc", False) for score in rng.uniform(0, 0.3, 30)
        ]
        memories.append(ScoredMemory(0.9, "decision", False))
        memories.append(ScoredMemory(float(rng.uniform(0.7, 0.9)), "function", True))
        memories.append(ScoredMemory(float(rng.uniform(0.4, 0.6)), "doc", True))
        if number < 5:
            memories.append(ScoredMemory(0.8, "test", True))
        cases.append(case_of(number, memories, gold=2))
    fit = fitted(cases)
    assert set(fit.maps) == set(fit.cuts) == {EVERY_KIND, "doc", "function", "test"}
    assert fit.maps["test"] == fit.maps[EVERY_KIND] != fit.maps["function"]
    assert fit.cuts["doc"] <= 0.45 < fit.cuts["function"]
    assert fit.recall > 0.85


def test_a_weight_replaces_another_only_where_it_is_clearly_better() -> None:
    """Gold that ranks first under 0 and low under the weight in force; and a single case."""
    gold = ScoredMemory(0.9, "function", True)
    better = [
        ScoredCase(
            id=str(number),
            gold=1,
            gold_ranks={0.0: (1,), IN_FORCE: (20 + number,)},
            memories={0.0: (gold,), IN_FORCE: (gold,)},
        )
        for number in range(10)
    ]
    assert choose_weight(better, in_force=IN_FORCE) == 0.0
    assert choose_weight(better[:1], in_force=IN_FORCE) == IN_FORCE
    assert choose_weight(overconfident(10), in_force=IN_FORCE) == IN_FORCE
    assert choose_weight([], in_force=IN_FORCE) == IN_FORCE
    chosen = fit_calibration(
        better * 4, recall=0.9, kept_limit=5, weight_in_force=IN_FORCE, is_weight_chosen=True
    )
    assert chosen.words_weight == IN_FORCE


def test_a_case_is_never_fitted_and_measured_at_once() -> None:
    """Folds are whole repositories where there are several, otherwise cases; each is left out
    once."""
    several = overconfident(40, repositories=7)
    left_out: list[str] = []
    for training, held_out in folds(several):
        assert not {case.repository for case in training} & {
            case.repository for case in held_out
        }
        left_out += [case.id for case in held_out]
    assert sorted(left_out) == sorted(case.id for case in several)
    alone = overconfident(12)
    assert sorted(case.id for _, held_out in folds(alone) for case in held_out) == sorted(
        case.id for case in alone
    )
    assert folds(alone[:1]) == []


def test_one_case_and_no_gold_divide_by_nothing() -> None:
    """A fit of one case has no figures of left-out cases; cases without gold only count as kept."""
    lone = fitted(overconfident(1))
    assert (lone.recall, lone.interval, lone.error) == (0.0, None, None)
    nothing = case_of(0, [ScoredMemory(0.5, "function", False)], gold=0)
    figures = figures_at([nothing], {"function": 0.4}, IN_FORCE, kept_limit=5)
    assert (figures.recall, figures.mean_kept) == (0.0, 1.0)


def test_ties_are_one_score() -> None:
    """All memories at one score: one share, and the cut is that score."""
    memories = [ScoredMemory(0.7, "function", number == 0) for number in range(10)]
    score_map = fit_map(memories)
    assert score_map.share(0.1) == score_map.share(0.9) == pytest.approx(0.1)
    cases = [case_of(number, memories) for number in range(6)]
    maps = {"function": score_map}
    cuts = choose_cuts(cases, maps, IN_FORCE, recall=0.9, kept_limit=10)
    assert cuts["function"] == pytest.approx(0.7)


def test_the_same_cases_give_the_same_fit() -> None:
    """Nothing is drawn by chance, whatever the order."""
    cases = overconfident(40, repositories=6)
    assert fitted(cases).cuts == fitted(cases[::-1]).cuts


@pytest.mark.parametrize(
    ("scores", "shares"),
    [
        ((), ()),
        ((0.1,), ()),
        ((0.2, 0.1), (0.0, 0.1)),
        ((0.1, 0.2), (0.2, 0.1)),
        ((0.1,), (math.nan,)),
    ],
)
def test_a_map_that_falls_cannot_exist(
    scores: tuple[float, ...], shares: tuple[float, ...]
) -> None:
    """A map of nothing, or with NaN, cannot exist either."""
    with pytest.raises(ValueError, match="map"):
        ScoreMap(scores, shares)
