"""How likely each file is to be missing from a change: two small models with learned weights.

The first orders the files, as a softmax over all of them; it knows when history says something,
because its figures of words count less where co-change is sure. The second says from the best of
them whether anything is missing at all. A file's score is the product. The weights are data
(`weights.json`), fitted on withheld files of commits by `benchmarks/check_diff.py`; nothing is
learned here. Trade-off: linear in its figures, so that a reason can be read off them.
"""

import math
from collections.abc import Iterator, Sequence
from heapq import nlargest
from pathlib import Path

import msgspec
from msgspec import Struct

from xscore.extensions.checking.evidence import FIGURES, ChangeEvidence, Figures, Situation
from xscore.scorer.linear_model import LinearModel, probability_of, shares_of

WEIGHTS = Path(__file__).with_name("weights.json")
FLOOR = 0.01
"""Added to a share before its logarithm is taken."""
_LOGARITHMS = (
    "together",
    "together_mean",
    "together_recent",
    "folder_together",
    "often",
    "words",
    "words_removed",
)
COLUMNS = (
    *FIGURES,
    *(f"log_{name}" for name in _LOGARITHMS),
    "test_lacking",
    "document_lacking",
    "code_lacking",
    "test_with_test",
    "document_with_document",
    "settings_with_settings",
    "code_with_code",
    "test_like_name",
    "log_together_of_document",
    "log_together_of_test",
    "log_words_without_history",
    "log_together_by_commits",
    "together_and_like_name",
    "first_by_words_without_history",
    "same_name",
    "is_linked_test",
    "document_with_commits",
)
"""What the first model weighs: the figures, their logarithms, and what they mean together."""
TELLING = (
    "best",
    "lead",
    "share",
    "log_candidates",
    "log_files",
    "log_companion_commits",
    "best_together",
    "only_code",
    "has_test",
    "has_document",
    "single_file",
    "spread",
    "best_three",
    "has_settings",
    "more_with_all",
    "more_with_half",
    "more_of_size",
)
"""What the second model weighs: figures of a list as a whole."""


class OrderWeights(Struct, frozen=True):
    """What was learned."""

    order: LinearModel
    missing: LinearModel
    speaks_from: float
    """Lowest probability that something is missing at which the check says so."""
    lists_from: float
    """Lowest score at which a file is listed."""


def read_weights() -> OrderWeights:
    """Return the weights of the package."""
    return msgspec.json.decode(WEIGHTS.read_bytes(), type=OrderWeights)


def likely_missing(
    evidence: ChangeEvidence, *, limit: int, list_all: bool
) -> Iterator[tuple[int, float]]:
    """Yield row and score of the files that are likely to be missing, best first.

    list_all: also where nothing seems missing.
    """
    if not evidence.paths:
        return
    weights = read_weights()
    sums = weights.order.sums(columns_of(evidence.values, evidence.situation), COLUMNS)
    is_missing = missing_probability(weights, sums, evidence.situation)
    if is_missing < weights.speaks_from and not list_all:
        return
    scores = [is_missing * share for share in shares_of(sums)]
    best_first = sorted(range(len(scores)), key=lambda row: (-scores[row], row))
    for row in best_first[:limit]:
        if scores[row] >= weights.lists_from or list_all:
            yield row, scores[row]


def missing_probability(
    weights: OrderWeights, sums: Sequence[float], situation: Situation
) -> float:
    """Return how likely it is that anything is missing. sums: those of the first model."""
    (log_odds,) = weights.missing.sums([telling_of(sums, situation)], TELLING)
    return probability_of(log_odds)


def columns_of(values: Sequence[Figures], situation: Situation) -> list[list[float]]:
    """Return `COLUMNS` of each file."""
    return [_columns_of_file(figures, situation) for figures in values]


def _columns_of_file(figures: Figures, situation: Situation) -> list[float]:
    value = dict(zip(FIGURES, figures, strict=True))
    logarithm = {name: math.log(value[name] + FLOOR) for name in _LOGARITHMS}
    test = value["is_test"]
    document = value["is_document"]
    settings = value["is_settings"]
    code = 1 - min(1.0, test + document + settings)
    without_history = 1 - situation.best_together
    commits = math.log1p(situation.companion_commits) / 5
    return [
        *figures,
        *logarithm.values(),
        test * (situation.has_code and not situation.has_test),
        document * (not situation.has_document),
        code * (not situation.has_code),
        test * situation.has_test,
        document * situation.has_document,
        settings * situation.has_settings,
        code * situation.has_code,
        test * value["like_name"],
        document * logarithm["together"],
        test * logarithm["together"],
        logarithm["words"] * without_history,
        logarithm["together"] * commits,
        value["together"] * value["like_name"],
        value["words_place"] * without_history,
        float(value["like_name"] == 1),
        float(value["tests"] > 0),
        document * value["together_commits"],
    ]


def telling_of(sums: Sequence[float], situation: Situation) -> tuple[float, ...]:
    """Return `TELLING` of a list whose files have these sums."""
    best, second, third = (nlargest(3, sums) * 3)[:3]
    shares = shares_of(sums)
    # The entropy: how many files there are to choose from.
    spread = -sum(share * math.log(share) for share in shares if share > 0)
    return (
        best,
        best - second,
        max(shares),
        math.log(max(situation.candidates, 1)),
        math.log1p(situation.files),
        math.log1p(situation.companion_commits),
        situation.best_together,
        float(situation.has_code and not situation.has_test),
        float(situation.has_test),
        float(situation.has_document),
        float(situation.files == 1),
        spread,
        (best + second + third) / 3,
        float(situation.has_settings),
        situation.more_with_all,
        situation.more_with_half,
        situation.more_of_size,
    )
