"""How far a calibrated judge's shares are from the truth, on repositories it was not fitted on.

    python benchmarks/calibration_error.py --bench DIR --repositories DIR [--cache DIR]

A strong model judged the pools of some commits once (DIR/judgments.jsonl). Its log-odds are
degraded by noise, joined with the words of the same pools, and calibrated as `xscore eval
calibrate` does, each repository left out in turn. Printed for each amount of noise: the area
under the curve over the pool, the error of the scores themselves and of the fitted shares (10
bins of equal mass over the best 50 of each case), and what the cuts keep for a chosen recall.
It says nothing about any model.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from recorded_judgments import RecordedPool, read_recorded

from xscore.extensions.evaluation.calibration_fit import (
    KEPT_PER_CASE,
    WEIGHTS,
    ScoredCase,
    ScoredMemory,
    fit_calibration,
)
from xscore.pipeline.joining import WORDS_WEIGHT, joined_score, words_evidence

NOISE = (0.0, 1.5, 2.0, 2.5, 3.0)
"""Standard deviations of what is added to the log-odds."""
DRAWS = 4
BOUND = 0.005
"""A recorded score of 0 or 100 counts as this far from it."""
RECALLS = (0.8, 0.9)
MOST = 15


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(__file__).with_name(".cache"))
    arguments = parser.parse_args()
    pools = list(read_recorded(arguments.bench, arguments.repositories, arguments.cache))
    print(
        f"{len(pools)} commits of {len({pool.case.repository for pool in pools})} repositories"
    )
    print("noise    AUC  error of scores  of shares  highest  wished  recall  kept  weight")
    for noise in NOISE:
        for wished in RECALLS:
            print_row(pools, noise, wished)


def print_row(pools: Sequence[RecordedPool], noise: float, wished: float) -> None:
    """Print the means over the draws."""
    rows: list[tuple[float, ...]] = []
    for draw in range(DRAWS):
        random = np.random.default_rng(draw)
        cases: list[ScoredCase] = []
        areas: list[float] = []
        for pool in pools:
            scores = degraded(pool, noise, random)
            areas.append(area_under_curve(scores, pool.is_gold))
            cases.append(scored_case(pool, scores))
        fit = fit_calibration(
            cases, recall=wished, kept_limit=MOST, weight_in_force=WORDS_WEIGHT
        )
        assert fit.error is not None and fit.error_before is not None
        kept = fit.figures.mean_kept
        rows.append(
            (
                float(np.mean(areas)),
                fit.error_before,
                fit.error,
                fit.recall,
                kept,
                fit.words_weight,
            )
        )
    area, before, after, recall, kept, weight = np.mean(rows, axis=0)
    highest = max(row[2] for row in rows)
    print(
        f"{noise:5.1f}  {area:.3f}  {before:15.3f}  {after:9.3f}  {highest:7.3f}"
        f"  {wished:6.2f}  {recall:6.3f}  {kept:4.1f}  {weight:6.2f}"
    )


def degraded(pool: RecordedPool, noise: float, random: np.random.Generator) -> list[float]:
    """Return scores with noise, in steps of a hundredth as judges give them.

    What the model was not shown (tests, documents) scores as something unrelated of its case.
    """
    unrelated = [score for score in pool.recorded if score is not None and score < 0.1]
    scores: list[float] = []
    for score in pool.recorded:
        scores.append(float(random.choice(unrelated)) if score is None else score)
    bounded = BOUND + (1 - 2 * BOUND) * np.array(scores)
    log_odds = np.log(bounded / (1 - bounded)) + noise * random.standard_normal(len(scores))
    shares = (1 / (1 + np.exp(-log_odds)) - BOUND) / (1 - 2 * BOUND)
    return [float(share) for share in np.clip(shares, 0, 1).round(2)]


def scored_case(pool: RecordedPool, scores: Sequence[float]) -> ScoredCase:
    """Return the case under every weight of words."""
    words = [entry.judgment.score for entry in pool.ranked]
    ranks: dict[float, tuple[int, ...]] = {}
    memories: dict[float, tuple[ScoredMemory, ...]] = {}
    for weight in sorted({*WEIGHTS, WORDS_WEIGHT}):
        evidence = words_evidence(words, weight=weight)
        joined = list(map(joined_score, scores, evidence))
        order = sorted(
            range(len(joined)), key=lambda at: (-joined[at], -scores[at], -words[at], at)
        )
        ranks[weight] = tuple(place for place, at in enumerate(order, 1) if pool.is_gold[at])
        memories[weight] = tuple(
            ScoredMemory(joined[at], str(pool.ranked[at].candidate.kind), pool.is_gold[at])
            for place, at in enumerate(order)
            if place < KEPT_PER_CASE or pool.is_gold[at]
        )
    return ScoredCase(
        id=pool.case.id,
        repository=pool.case.repository,
        gold=len(pool.case.gold),
        gold_ranks=ranks,
        memories=memories,
    )


def area_under_curve(scores: Sequence[float], is_gold: Sequence[bool]) -> float:
    """Return the chance that a gold memory scores above another; ties count half."""
    values, place_of_value, counts = np.unique(
        np.array(scores), return_inverse=True, return_counts=True
    )
    assert len(values)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2)[place_of_value]
    gold = np.array(is_gold)
    positives, negatives = int(gold.sum()), int((~gold).sum())
    return float(
        (ranks[gold].sum() - positives * (positives + 1) / 2) / max(1, positives * negatives)
    )


if __name__ == "__main__":
    main()
