"""A linear model whose weights are data, and how its sums become shares and probabilities. Pure.

Both learned judgments are of this kind: which memory a task means (`learned_words`), and which file
a change lacks (`extensions.checking.learned_order`). Nothing is learned here. Trade-off: columns go
by name, so a renamed column has no weight until the data file has its new name; tests compare both.
"""

import math
from collections.abc import Sequence
from operator import mul

from msgspec import Struct

SURE = 30.0
"""Log odds beyond which a probability is 0 or 1 in any print."""


class LinearModel(Struct, frozen=True, forbid_unknown_fields=True):
    """A weighted sum of columns, by name."""

    weights: dict[str, float]
    bias: float = 0.0

    def sums(self, rows: Sequence[Sequence[float]], columns: Sequence[str]) -> list[float]:
        """Return the sum of each row, whose values are these columns."""
        in_order = [self.weights.get(name, 0.0) for name in columns]
        return [self.bias + sum(map(mul, row, in_order)) for row in rows]

    def sum_of(self, values: dict[str, float]) -> float:
        """Return the sum of one row by name."""
        return self.sums([tuple(values.values())], tuple(values))[0]


def log_sum(sums: Sequence[float]) -> float:
    """Return the logarithm of the sum of their exponentials, without overflow."""
    highest = max(sums)
    return highest + math.log(sum([math.exp(amount - highest) for amount in sums]))


def shares_of(sums: Sequence[float]) -> list[float]:
    """Return the share that each has of all their exponentials: a softmax."""
    highest = max(sums)
    powers = [math.exp(amount - highest) for amount in sums]
    total = sum(powers)
    return [power / total for power in powers]


def probability_of(log_odds: float) -> float:
    """Return the probability with these log odds."""
    return 1 / (1 + math.exp(-max(-SURE, min(SURE, log_odds))))
