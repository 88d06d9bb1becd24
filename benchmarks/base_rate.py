"""What a judge must be able to do before it is worth its money: recorded judgments of a strong
model, degraded, over pools of a thousand to 75,000 memories.

    python benchmarks/base_rate.py --bench DIR --repositories DIR [--every N] [--pools 1500 …]

DIR/judgments.jsonl holds what a strong model said of the functions of some commits' parents
(DIR/commits.jsonl), 0 to 100; DIR/OWNER+NAME is a clone. A case's pool is every memory of its
tree, with the word scores of the pipeline's own judge without a key. What was not shown to the
model scores as what it called unrelated (below 10) in the same case. Pools of another size are
made by leaving out or resampling the case's own unwanted memories, each with its score and its
word score: harder than memories of other repositories, which share few words. The model's
log-odds get normal noise until its AUC over the pools is as asked for; with an `echo`, its
error on unwanted memories holds this share of the words' log-odds, as of a judge that the same
words fool. A second draw errs by itself in half of the error's variance. The final round is a
listwise look at the first 60 by a better judge, whose scores then replace those of the 60.
Joining, ranking, selection and the choice of second draws are the product's own functions. Ends
with 1 where a target is missed.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from pathlib import Path

import numpy
from msgspec import Struct
from numpy.random import Generator
from numpy.typing import NDArray
from recorded_judgments import read_recorded

from xscore.pipeline.joining import JUDGE_BOUND, WORDS_BOUND, WORDS_WEIGHT, join
from xscore.pipeline.second_draws import nearest_to_threshold
from xscore.pipeline.selection import select
from xscore.pipeline.turn_stages import by_rank
from xscore.records.candidates import Candidate
from xscore.records.judgment import Judgment, Origin, Outcome, Ranked, Thresholds
from xscore.settings import SelectionSettings

Floats = NDArray[numpy.float64]
SETTINGS = SelectionSettings()
THRESHOLDS = Thresholds(0.7)
K = 15
FINALISTS = 60
UNRELATED = 0.10
AUCS = (1.0, 0.998, 0.99, 0.967, 0.945)
"""AUCs of the degraded judge over the pools; 1: as recorded."""
ECHOES = (0.0, 0.3, 0.6)
POOLS = (1_000, 5_000, 20_000, 75_000)
FINAL_AUCS = (0.998, 0.99)
TARGETS = {1.0: 0.99, 0.99: 0.93, 0.967: 0.86}
"""Recall@15, joined, by the judge's AUC."""


class Case(Struct, frozen=True):
    """A commit's pool with what the strong model and words said of it."""

    id: str
    candidates: tuple[Candidate, ...]
    words: Floats
    scores: Floats
    """0..1; NaN: it was not shown."""
    wanted: NDArray[numpy.bool_]


class Errors(Struct, frozen=True):
    """How a judge errs."""

    noise: float
    """Standard deviation of what is added to its log-odds."""
    echo: float = 0.0
    """Share of the words' log-odds in its error on what is not wanted."""
    fresh: float = 1.0
    """Share of the noise's variance that is new in this answer."""


class Measured(Struct, frozen=True):
    """One question's figures."""

    recall: float
    """Share of what is wanted that is among the first 15."""
    kept: float
    """Share of what is wanted that is kept."""
    chosen: int
    """Kept."""
    false: float
    """Unwanted above the threshold, of 1,000."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(".cache/lexical"))
    parser.add_argument("--every", type=int, default=1, help="only every n-th case")
    parser.add_argument("--draws", type=int, default=10, help="of the noise")
    parser.add_argument("--pools", type=int, nargs="*", default=list(POOLS))
    options = parser.parse_args()
    cases = list(read_pools(options.bench, options.repositories, options.cache))[
        :: options.every
    ]
    sizes = sorted(len(case.candidates) for case in cases)
    print(f"{len(cases)} cases, pools of {sizes[0]:,} to {sizes[-1]:,}", end=", ")
    print(f"median {sizes[len(sizes) // 2]:,}", flush=True)
    show_words(cases)
    is_met = show_pools_as_they_are(cases, draws=options.draws)
    show_rounds(cases, draws=options.draws)
    for pool in options.pools:
        show_resized(cases, pool, draws=max(1, options.draws * 1_000 // pool))
    return 0 if is_met else 1


def read_pools(bench: Path, clones: Path, cache: Path) -> Iterator[Case]:
    """Yield the cases that have recorded judgments, with the word scores of their trees."""
    for pool in read_recorded(bench, clones, cache):
        scores = [math.nan if score is None else score for score in pool.recorded]
        yield Case(
            pool.case.id,
            tuple(entry.candidate for entry in pool.ranked),
            numpy.array([entry.judgment.score for entry in pool.ranked]),
            numpy.array(scores),
            numpy.array(pool.is_gold),
        )


def resized(case: Case, size: int, draw: Generator) -> Case:
    """Return the case in a pool of this size: some of its unwanted memories, or all of
    them and some copied."""
    unwanted = numpy.flatnonzero(~case.wanted)
    missing = size - len(case.candidates)
    copied = draw.choice(unwanted, max(0, missing))
    sampled = draw.choice(unwanted, len(unwanted) + min(0, missing), replace=False)
    kept_rows = numpy.sort(numpy.concatenate([numpy.flatnonzero(case.wanted), sampled]))
    rows = numpy.concatenate([kept_rows, copied])
    candidates = [case.candidates[row] for row in kept_rows]
    for number, row in enumerate(copied):
        name = f"copy-{number}"
        candidates.append(
            case.candidates[row]._replace(id=name, content_hash=name, duplicates=())
        )
    return Case(
        case.id, tuple(candidates), case.words[rows], case.scores[rows], case.wanted[rows]
    )


class Answers(Struct, frozen=True):
    """What a degraded judge says of a case: twice, and what a better one says."""

    first: Floats
    second: Floats


def answers(case: Case, errors: Errors, draw: Generator) -> Answers:
    """Return two answers of a judge that errs so, 0..1."""
    log_odds = log_odds_of(shown_scores(case, draw), JUDGE_BOUND)
    by_words = log_odds_of(case.words, WORDS_BOUND)
    log_odds += numpy.where(case.wanted, 0, errors.echo * (by_words - by_words.mean()))
    count = len(case.words)
    lasting = draw.standard_normal(count) * math.sqrt(1 - errors.fresh)
    both: list[Floats] = []
    for _ in range(2):
        new = draw.standard_normal(count) * math.sqrt(errors.fresh)
        both.append(scores_of(log_odds + errors.noise * (lasting + new)))
    return Answers(*both)


def shown_scores(case: Case, draw: Generator) -> Floats:
    """Return the recorded scores, and of what was not shown one of the case's unrelated."""
    unrelated = case.scores[~case.wanted & (case.scores < UNRELATED)]
    scores = case.scores.copy()
    is_missing = numpy.isnan(scores)
    scores[is_missing] = draw.choice(unrelated, int(is_missing.sum()))
    return scores


def log_odds_of(scores: Floats, bound: float) -> Floats:
    kept_off = bound + (1 - 2 * bound) * scores
    log_odds: Floats = numpy.log(kept_off / (1 - kept_off))
    return log_odds


def scores_of(log_odds: Floats) -> Floats:
    bounded = 1 / (1 + numpy.exp(-log_odds))
    scores: Floats = numpy.clip((bounded - JUDGE_BOUND) / (1 - 2 * JUDGE_BOUND), 0, 1)
    return scores


def outcomes_of(case: Case, scores: Floats) -> list[Outcome]:
    """Return what the pipeline would have of this judge."""
    rows = zip(case.candidates, scores.tolist(), case.words.tolist(), strict=True)
    outcomes: list[Outcome] = []
    for candidate, score, words in rows:
        judgment = Judgment(candidate.content_hash, score, prior=words)
        outcomes.append(Outcome(candidate, judgment, Origin.JUDGED))
    return outcomes


def drawn_twice(outcomes: list[Outcome], second: Floats, weight: float) -> list[Outcome]:
    """Return the outcomes with the mean of two answers near the threshold, as a turn has it."""
    near = nearest_to_threshold(join(outcomes, weight=weight), THRESHOLDS, SETTINGS)
    chosen = {entry.candidate.id for entry in near[: SETTINGS.most_redrawn]}
    merged: list[Outcome] = []
    for outcome, score in zip(outcomes, second.tolist(), strict=True):
        if outcome.candidate.id in chosen and isinstance(outcome.result, Judgment):
            second_judgment = outcome.result._replace(score=score)
            mean = outcome.result.averaged_with(second_judgment)
            merged.append(outcome._replace(result=mean))
        else:
            merged.append(outcome)
    return merged


def after_final(outcomes: list[Outcome], final: Floats, weight: float) -> list[Ranked]:
    """Return the ranking in which the first 60 have another judge's scores, before all others."""
    ranked = nsmallest(FINALISTS, join(outcomes, weight=weight), key=by_rank)
    finalists = {entry.candidate.id for entry in ranked}
    rescored: list[Outcome] = []
    for outcome, score in zip(outcomes, final.tolist(), strict=True):
        result = outcome.result
        if outcome.candidate.id in finalists and isinstance(result, Judgment):
            result = result._replace(score=score)
        rescored.append(outcome._replace(result=result))
    by_final = join(rescored, weight=weight)
    return [entry for entry in by_final if entry.candidate.id in finalists]


def measure(case: Case, ranked: Sequence[Ranked]) -> Measured:
    """Measure one ranking."""
    wanted_ids = {
        candidate.id
        for candidate, is_wanted in zip(case.candidates, case.wanted, strict=True)
        if is_wanted
    }
    first = nsmallest(K, ranked, key=by_rank)
    kept = select(ranked, thresholds=THRESHOLDS, settings=SETTINGS, about_tests=True).kept
    passing = [entry for entry in ranked if THRESHOLDS.reached_by(entry.candidate, entry.score)]
    false = sum(entry.candidate.id not in wanted_ids for entry in passing)
    return Measured(
        recall=sum(entry.candidate.id in wanted_ids for entry in first) / len(wanted_ids),
        kept=sum(entry.candidate.id in wanted_ids for entry in kept) / len(wanted_ids),
        chosen=len(kept),
        false=1_000 * false / (len(case.candidates) - len(wanted_ids)),
    )


def auc(case: Case, scores: Floats) -> float:
    """Return the share of pairs of a wanted and an unwanted memory that are in order."""
    unwanted = numpy.sort(scores[~case.wanted])
    of_wanted = scores[case.wanted]
    below = numpy.searchsorted(unwanted, of_wanted, side="left")
    upto = numpy.searchsorted(unwanted, of_wanted, side="right")
    return float(((below + upto) / 2).mean() / len(unwanted))


def noise_for(cases: Sequence[Case], wished: float, echo: float) -> Errors:
    """Return the noise at which the mean AUC is as wished, by bisection."""
    if wished == 1.0:
        return Errors(0.0)
    low, high = 0.0, 12.0
    for _ in range(18):
        middle = (low + high) / 2
        if mean_auc(cases, Errors(middle, echo)) > wished:
            low = middle
        else:
            high = middle
    return Errors(low, echo)


def mean_auc(cases: Sequence[Case], errors: Errors) -> float:
    draw = numpy.random.default_rng(1)
    areas = [auc(case, answers(case, errors, draw).first) for case in cases for _ in range(4)]
    return float(numpy.mean(areas))


def show_words(cases: Sequence[Case]) -> None:
    """Print what words find by themselves."""
    area = numpy.mean([auc(case, case.words) for case in cases])
    draw = numpy.random.default_rng(0)
    recalls: list[float] = []
    for case in cases:
        order = numpy.lexsort((draw.random(len(case.words)), -case.words))[:K]
        recalls.append(case.wanted[order].sum() / case.wanted.sum())
    print(f"words alone: AUC {area:.3f}, recall@15 {numpy.mean(recalls):.3f}\n", flush=True)


def show_pools_as_they_are(cases: Sequence[Case], *, draws: int) -> bool:
    """Print the table of weights, and return whether the targets are met at the default."""
    heads = ("AUC", "echo", "judge alone", f"words ½ = {WORDS_WEIGHT:g}", "words 1")
    print(" | ".join(heads))
    print("  of each: recall@15 / wanted kept / kept / wrong above the threshold of 1,000")
    is_met = True
    for echo in ECHOES:
        for area in AUCS if echo == 0 else AUCS[2:4]:
            errors = noise_for(cases, area, echo)
            cells: list[str] = []
            for weight in (0.0, WORDS_WEIGHT, 1.0):
                rows = [
                    measure(case, join(outcomes_of(case, first), weight=weight))
                    for case, first in first_answers(cases, errors, draws)
                ]
                cells.append(in_words(rows))
                if weight == WORDS_WEIGHT and echo == 0 and area in TARGETS:
                    is_met = is_met and recall_of(rows) >= TARGETS[area]
            print(f"{area:.3f} | {echo:g} | {' | '.join(cells)}", flush=True)
    wished = ", ".join(f"{recall} at {area}" for area, recall in TARGETS.items())
    print(f"targets, joined: {wished}: {'met' if is_met else 'missed'}\n", flush=True)
    return is_met


def first_answers(
    cases: Sequence[Case], errors: Errors, draws: int
) -> Iterator[tuple[Case, Floats]]:
    """Yield each case with the same answers for every weight."""
    for number in range(draws if errors.noise else 1):
        draw = numpy.random.default_rng(number)
        for case in cases:
            yield case, answers(case, errors, draw).first


def show_rounds(cases: Sequence[Case], *, draws: int) -> None:
    """Print what second answers and a final round add."""
    finals = [noise_for(cases, area, 0.0) for area in FINAL_AUCS]
    names = [f"final round at {area}" for area in FINAL_AUCS]
    print(" | ".join(("AUC", "joined", "second draws", *names)))
    for area in AUCS[1:]:
        errors = Errors(noise_for(cases, area, 0.0).noise, fresh=0.5)
        columns: list[list[Measured]] = [[] for _ in range(2 + len(finals))]
        for number in range(draws):
            draw = numpy.random.default_rng(number)
            for case in cases:
                both = answers(case, errors, draw)
                once = outcomes_of(case, both.first)
                twice = drawn_twice(once, both.second, WORDS_WEIGHT)
                columns[0].append(measure(case, join(once, weight=WORDS_WEIGHT)))
                columns[1].append(measure(case, join(twice, weight=WORDS_WEIGHT)))
                for column, final in zip(columns[2:], finals, strict=True):
                    better = answers(case, final, draw).first
                    column.append(measure(case, after_final(twice, better, WORDS_WEIGHT)))
        print(f"{area:.3f} | {' | '.join(map(in_words, columns))}", flush=True)
    print()


def show_resized(cases: Sequence[Case], size: int, *, draws: int) -> None:
    """Print the judges over pools of this size, by the errors that they have over the real ones."""
    print(
        f"pools of {size:,}: AUC | judge alone | joined | joined, final round at {FINAL_AUCS[0]}"
    )
    final = noise_for(cases, FINAL_AUCS[0], 0.0)
    for area in AUCS:
        errors = noise_for(cases, area, 0.0)
        columns: list[list[Measured]] = [[], [], []]
        for number in range(draws):
            draw = numpy.random.default_rng(number)
            for case in cases:
                large = resized(case, size, draw)
                once = outcomes_of(large, answers(large, errors, draw).first)
                better = answers(large, final, draw).first
                columns[0].append(measure(large, join(once, weight=0.0)))
                columns[1].append(measure(large, join(once, weight=WORDS_WEIGHT)))
                columns[2].append(measure(large, after_final(once, better, WORDS_WEIGHT)))
        print(f"{area:.3f} | {' | '.join(map(in_words, columns))}", flush=True)
    print()


def recall_of(rows: Sequence[Measured]) -> float:
    return float(numpy.mean([row.recall for row in rows]))


def in_words(rows: Sequence[Measured]) -> str:
    """Return the means of some questions."""
    kept = numpy.mean([row.kept for row in rows])
    chosen = numpy.mean([row.chosen for row in rows])
    false = numpy.mean([row.false for row in rows])
    return f"{recall_of(rows):.3f} / {kept:.3f} / {chosen:.1f} / {false:.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
