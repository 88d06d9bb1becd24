"""Turns gathered into few steps, so that a plot of a thousand turns is as small and as readable as one of fifty.

A step holds turns that follow each other; a plot shows its mean a turn, or its share. Pure.
Trade-off: the axis runs by turns, not by the clock: an idle week takes no room, a busy hour is not one line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil

from xscore.records.cost_report import TurnLine
from xscore.wording import counted, moment

MOST = 50
"""Steps in one plot."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What had not to be paid again, as shares; None where there was nothing to share."""

    judgments: float | None
    """Of candidates: their score was known already."""
    prefixes: float | None
    """Of input tokens: hosts served them from their prefix caches."""


@dataclass(frozen=True, slots=True)
class Tried:
    """Attempts a turn."""

    answered: float
    failed: float
    """Without an answer, for another reason than a 429."""
    limited: float
    """429s."""


@dataclass(frozen=True, slots=True)
class Step:
    """Turns that follow each other, oldest first; never empty."""

    turns: tuple[TurnLine, ...]

    @property
    def at(self) -> float:
        """Return the moment of the first."""
        return self.turns[0].at

    @property
    def name(self) -> str:
        """Return its moment, and how many turns it holds where they are several."""
        said = moment(self.at)
        return said if len(self.turns) == 1 else f"{said}, {counted(len(self.turns), 'turn')}"

    def cost(self, models: frozenset[str] | None = None) -> Decimal:
        """Return dollars a turn, of some models or all."""
        bills = (turn.cost_by_model.items() for turn in self.turns)
        paid = (usd for bill in bills for model, usd in bill if models is None or model in models)
        return sum(paid, Decimal(0)) / len(self.turns)

    def rates(self) -> Rates:
        """Return what had not to be paid again."""
        coverage = [turn.coverage for turn in self.turns if turn.coverage]
        usage = [turn.spent.usage for turn in self.turns]
        return Rates(
            _share(sum(one.cached + one.carried for one in coverage), sum(one.candidates for one in coverage)),
            _share(sum(one.cached_input_tokens for one in usage), sum(one.input_tokens for one in usage)),
        )

    def tried(self) -> Tried:
        """Return the attempts a turn."""
        spent, turns = [turn.spent for turn in self.turns], len(self.turns)
        return Tried(
            answered=sum(one.calls for one in spent) / turns,
            failed=sum(one.failed for one in spent) / turns,
            limited=sum(one.rate_limited for one in spent) / turns,
        )


def steps(turns: Sequence[TurnLine]) -> list[Step]:
    """Gather turns, given newest first, into at most `MOST` steps, oldest first; the last may be smaller."""
    ordered = tuple(reversed(turns))
    size = ceil(len(ordered) / MOST) or 1
    return [Step(ordered[start : start + size]) for start in range(0, len(ordered), size)]


def each(gathered: Sequence[Step]) -> str:
    """Say what one mark of the plot stands for."""
    size = len(gathered[0].turns) if gathered else 1
    return "each turn" if size == 1 else f"means of {size} turns"


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
