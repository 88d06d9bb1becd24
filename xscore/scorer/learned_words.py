"""From what is known about a short list to probabilities: a linear model, trained on past
commits.

Each memory gets a rating, the sum of its features times their weights; its share of the ratings
of all code becomes the probability that a commit about this task would change it. So the same
number means the same in a short question and in a long message, in a small pool and in a large
one. The weights are in `learned_words.json`, made by `benchmarks/train_lexical.py`. Trade-off:
memories that are not code were not part of the training, so they are rated by their evidence
relative to that of the best code.
"""

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct, json

from xscore.records.candidates import Candidate
from xscore.records.memory import PRODUCT_CODE_KINDS
from xscore.scorer.bm25 import LexicalEvidence
from xscore.scorer.linear_model import LinearModel, log_sum, probability_of
from xscore.scorer.word_features import FEATURES, MAY_BE_NEGATIVE, Shortlist

FILE = Path(__file__).with_name("learned_words.json")
ODDS_TERMS = (
    "constant",
    "share",
    "share_by_words",
    "share_squared",
    "best",
    "code",
)
"""Names of what the log odds are a weighted sum of (`log_odds_terms`)."""


class LearnedWeights(Struct, frozen=True, forbid_unknown_fields=True):
    """The data file."""

    trained_on: str
    """Which cases the weights were trained on, in words."""
    code: LinearModel
    """Weight of each feature, for code of the product, in a task of `USUAL_WORDS`."""
    code_by_length: LinearModel
    """Weight that is added in a longer task, times its `task_length`."""
    probability: LinearModel
    """Weights of the terms of the log odds; see `log_odds_terms`."""
    presence: LinearModel
    """Weights of the terms of the log odds that the repository has what the task is about; see
    `presence_terms`."""
    present_from: float
    """The lowest log odds at which the repository is taken to have it."""


@cache
def load_weights() -> LearnedWeights:
    """Read the weights that ship with the package."""
    return json.decode(FILE.read_bytes(), type=LearnedWeights)


PRESENCE_TERMS = (
    "constant",
    "best",
    "strange",
    "held",
    "share_of_best",
    "margin",
    "words",
    "asked",
    "code",
    "first_line_held",
    "file_holds",
    "distinct_words",
)
"""Names of what tells whether anything is here (`presence_terms`)."""
OTHERS_BELOW, OTHERS_ABOVE = 6.0, 0.1
"""What is not code is rated as the best code, less this times the logarithm of what its evidence
lacks to that of the best: with half of it, a 64th of the odds. More evidence than any code has says
little: tests and documents repeat the words of what they are about. Of the first 15 of all kinds,
.69 had any gold with 3, and .79 with 6 (decision 0042)."""
USUAL_WORDS = 12
"""Words of a task for which the weights of features apply unchanged. A name says more in a task
of three words than in one of a hundred, which has many."""
LONGEST = 2.0
"""Highest logarithm of a task's length that counts: the training had few tasks that are shorter
or longer by more than seven times."""
MARGIN_TO = 5
"""How many places after the best the rating is that its margin is measured against."""


def task_length(words: int) -> float:
    """Return how much longer than usual a task of so many words is; below 0: shorter."""
    length = math.log(max(1, words) / USUAL_WORDS)
    return max(-LONGEST, min(LONGEST, length))


def code_model(weights: LearnedWeights, words: int) -> LinearModel:
    """Return the weights of each feature for a task of so many words."""
    length = task_length(words)
    by_name: dict[str, float] = {}
    for name, usual in weights.code.weights.items():
        weight = usual + length * weights.code_by_length.weights[name]
        by_name[name] = weight if name in MAY_BE_NEGATIVE else max(0.0, weight)
    return LinearModel(by_name)


def rate(
    candidates: Sequence[Candidate],
    shortlist: Shortlist,
    weights: LearnedWeights,
    *,
    words: int,
) -> list[float]:
    """Return the rating of each memory of a short list, for a task of so many words."""
    ratings = code_model(weights, words).sums(shortlist.features, FEATURES)
    of_code = [
        rating
        for row, rating in zip(shortlist.rows, ratings, strict=True)
        if candidates[row].kind in PRODUCT_CODE_KINDS
    ]
    best = max(of_code, default=0.0)
    share_of_best = FEATURES.index("evidence_of_best")
    for place, row in enumerate(shortlist.rows):
        if candidates[row].kind not in PRODUCT_CODE_KINDS:
            share = shortlist.features[place][share_of_best]
            ratings[place] = best + share * (OTHERS_BELOW if share < 0 else OTHERS_ABOVE)
    return ratings


class Learned(Struct, frozen=True):
    """What the model says about a short list."""

    probabilities: list[float]
    """How likely it is that each memory is meant."""
    log_odds_here: float | None
    """Log odds that the repository has anything that the task is about; None: without code they
    cannot be told."""


def judge_shortlist(
    candidates: Sequence[Candidate],
    evidence: LexicalEvidence,
    shortlist: Shortlist,
) -> Learned:
    """Return how likely it is that each memory of a short list is meant, and that any is."""
    weights = load_weights()
    ratings = rate(candidates, shortlist, weights, words=evidence.words)
    of_code = [
        rating
        for row, rating in zip(shortlist.rows, ratings, strict=True)
        if candidates[row].kind in PRODUCT_CODE_KINDS
    ]
    rating_of_all = log_sum(of_code or ratings)
    code = sum([candidate.kind in PRODUCT_CODE_KINDS for candidate in candidates])
    terms = log_odds_terms(0.0, evidence, best=shortlist.best, code=code)
    shares = [rating - rating_of_all for rating in ratings]
    probable = _probabilities(weights.probability, terms, shares, words=evidence.words)
    if not of_code:
        return Learned(probable, log_odds_here=None)
    # Whether anything is here was told better by the usual weights, whatever the task's length:
    # of other repositories' tasks .574 keep nothing, and .546 by those of its length.
    usual_ratings = weights.code.sums(shortlist.features[: len(of_code)], FEATURES)
    presence = presence_terms(usual_ratings, shortlist, evidence, code=code)
    return Learned(probable, log_odds_here=weights.presence.sum_of(presence))


def _probabilities(
    model: LinearModel, terms: dict[str, float], shares: Sequence[float], *, words: int
) -> list[float]:
    """Return the probability of each row of a short list.

    terms: the log odds of a row whose share is 0: only what a share adds differs between rows.
    """
    without_share = model.sum_of(terms)
    log_words = math.log(max(1, words))
    by_share = model.weights["share"] + model.weights["share_by_words"] * log_words
    by_square = model.weights["share_squared"]
    return [
        probability_of(without_share + share * (by_share + share * by_square))
        for share in shares
    ]


def presence_terms(
    ratings: Sequence[float],
    shortlist: Shortlist,
    evidence: LexicalEvidence,
    *,
    code: int,
) -> dict[str, float]:
    """Return what the log odds that anything is here are a weighted sum of.

    ratings: those of the code, which comes first in a short list.
    """
    ordered = sorted(ratings, reverse=True)
    best_row = max(range(len(ratings)), key=lambda place: (ratings[place], -place))
    best = dict(zip(FEATURES, shortlist.features[best_row], strict=True))
    return {
        "constant": 1.0,
        "best": math.log(max(evidence.amounts_here.values()) / evidence.half),
        "strange": evidence.strange,
        "held": evidence.held,
        "share_of_best": ordered[0] - log_sum(ratings),
        "margin": ordered[0] - ordered[min(MARGIN_TO, len(ordered) - 1)],
        "words": math.log(max(1, evidence.words)),
        "asked": math.log1p(evidence.asked),
        "code": math.log1p(code),
        "first_line_held": best["first_line_held"],
        "file_holds": best["file_holds"],
        "distinct_words": best["distinct_words"],
    }


def log_odds_terms(
    share: float, evidence: LexicalEvidence, *, best: float, code: int
) -> dict[str, float]:
    """Return what the log odds of a memory are a weighted sum of.

    share: log of its share of the ratings of all code.
    best: the most evidence of any code.
    code: how many memories are code.
    """
    words = math.log(max(1, evidence.words))
    return {
        "constant": 1.0,
        "share": share,
        "share_by_words": share * words,
        "share_squared": share * share,
        "best": math.log(best / evidence.half),
        "code": math.log1p(code),
    }
