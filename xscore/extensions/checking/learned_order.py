"""How likely each file is to be missing from a change: two small models with learned weights.

The first orders the files, as a softmax over all of them; it knows when history says something,
because its figures of words count less where co-change is sure. The second says from the best of
them whether anything is missing at all. A file's score is the product. The weights are data
(`weights.json`), fitted on withheld files of commits by `benchmarks/check_diff.py`; nothing is
learned here. Trade-off: linear in its figures, so that a reason can be read off them.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from xscore.extensions.checking.evidence import FIGURES, ChangeEvidence, Matrix, Situation

WEIGHTS = Path(__file__).with_name("weights.json")
FLOOR = 0.01
"""Added to a share before its logarithm is taken."""
MOST_TOLD = 1_000
Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
_PLACE = {name: place for place, name in enumerate(FIGURES)}
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
    "test_beside_test",
    "document_beside_document",
    "settings_beside_settings",
    "code_beside_code",
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
)
"""What the second model weighs, of a list as a whole."""


class LinearModel(Struct, frozen=True):
    """A weighted sum of standardized columns."""

    columns: tuple[str, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float = 0.0

    def __post_init__(self) -> None:
        sizes = {len(part) for part in (self.columns, self.mean, self.deviation, self.weights)}
        if len(sizes) != 1 or not all(self.deviation):
            raise ValueError("a model needs a mean, a deviation and a weight for each column")

    def sums(self, values: Matrix) -> Vector:
        """Return the sum of each row."""
        standardized = (values - np.array(self.mean)) / np.array(self.deviation)
        sums: Vector = standardized @ np.array(self.weights) + self.bias
        return sums


class OrderWeights(Struct, frozen=True):
    """What was learned."""

    order: LinearModel
    missing: LinearModel
    speaks_from: float
    """Probability that something is missing from which the check says so."""
    lists_from: float
    """Score from which a file is listed."""


def read_weights() -> OrderWeights:
    """Return the weights of the package."""
    return msgspec.json.decode(WEIGHTS.read_bytes(), type=OrderWeights)


def likely_missing(
    evidence: ChangeEvidence, *, limit: int, list_all: bool
) -> Iterator[tuple[int, float]]:
    """Yield row and score of the files that are likely to be missing, best first.

    list_all: also where nothing seems missing.
    """
    if not len(evidence.paths):
        return
    weights = read_weights()
    sums = weights.order.sums(columns_of(evidence.values, evidence.situation))
    telling = np.array([telling_of(sums, evidence.situation)])
    is_missing = 1 / (1 + math.exp(-float(weights.missing.sums(telling)[0])))
    if is_missing < weights.speaks_from and not list_all:
        return
    scores = is_missing * shares_of(sums)
    order = np.argsort(-scores, kind="stable")[: min(limit, MOST_TOLD)]
    for row in order.tolist():
        if scores[row] >= weights.lists_from or list_all:
            yield row, float(scores[row])


def shares_of(sums: Vector) -> Vector:
    """Return the probability that each file is the missing one, if one is."""
    powers = np.exp(sums - sums.max())
    shares: Vector = powers / powers.sum()
    return shares


def columns_of(values: Matrix, situation: Situation) -> Matrix:
    """Return `COLUMNS` of each file."""

    def figure(name: str) -> Vector:
        column: Vector = values[:, _PLACE[name]]
        return column

    logarithms = {name: np.log(figure(name) + FLOOR) for name in _LOGARITHMS}
    is_test, is_document, is_settings = map(figure, ("is_test", "is_document", "is_settings"))
    is_code = 1 - np.minimum(1, is_test + is_document + is_settings)
    without_history = 1 - situation.best_together
    commits = math.log1p(situation.companion_commits) / 5
    combined = (
        is_test * (situation.has_code and not situation.has_test),
        is_document * (not situation.has_document),
        is_code * (not situation.has_code),
        is_test * situation.has_test,
        is_document * situation.has_document,
        is_settings * situation.has_settings,
        is_code * situation.has_code,
        is_test * figure("like_name"),
        is_document * logarithms["together"],
        is_test * logarithms["together"],
        logarithms["words"] * without_history,
        logarithms["together"] * commits,
        figure("together") * figure("like_name"),
        figure("words_place") * without_history,
        figure("like_name") == 1,
        figure("tests") > 0,
        is_document * figure("together_commits"),
    )
    parts = [values, np.stack(list(logarithms.values()), 1), np.stack(combined, 1)]
    return np.concatenate(parts, 1).astype(np.float64)


def telling_of(sums: Vector, situation: Situation) -> tuple[float, ...]:
    """Return `TELLING` of a list whose files have these sums."""
    best_first = np.sort(sums)[::-1]
    second = float(best_first[1]) if len(best_first) > 1 else float(best_first[0])
    return (
        float(best_first[0]),
        float(best_first[0]) - second,
        float(shares_of(sums).max()),
        math.log(max(situation.candidates, 1)),
        math.log1p(situation.files),
        math.log1p(situation.companion_commits),
        situation.best_together,
        float(situation.has_code and not situation.has_test),
        float(situation.has_test),
        float(situation.has_document),
        float(situation.files == 1),
    )
