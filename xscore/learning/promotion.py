"""When what projects do becomes what the user does (L02): in at least 3 projects, and in half of them. Pure.

Support is the number of projects that say it over all projects that ever took part, so that 2 of 3 are too few, 3 of 5
enough, and 3 of 7 too thin. Confidence is proportional to support: an inferred memory's starting confidence at the
least support that suffices, at most 1. Trade-off: projects that say nothing of a key count against it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xscore.learning.choices import Chosen
from xscore.records import Observation
from xscore.settings import MemorySettings


@dataclass(frozen=True, slots=True)
class Promotion:
    """A value that enough projects choose."""

    key: str
    value: str
    """In the words of the project that was seen last."""
    kind: str
    """Of the memory that was seen last."""
    projects: int
    of: int
    """All projects that took part."""
    confidence: float

    @property
    def support(self) -> float:
        """Share of all projects."""
        return self.projects / self.of


def promotions(observed: Sequence[Chosen], of: int, rules: MemorySettings) -> list[Promotion]:
    """Return at most one promotion a topic, by topic; of two values with equal support the one seen last."""
    makers: dict[tuple[str, str], dict[str, Observation]] = {}
    for each in sorted(observed, key=lambda each: (each.observed.seen_at, each.observed.key)):
        makers.setdefault((each.topic, each.value), {})[each.observed.project] = each.observed
    best: dict[str, tuple[tuple[int, float, str], Promotion]] = {}
    for (about, value), by in makers.items():
        if not suffices(len(by), of, rules):
            continue
        newest = max(by.values(), key=lambda each: (each.seen_at, each.project))
        found = Promotion(newest.key, newest.value, newest.kind, len(by), of, confidence(len(by) / of, rules))
        rank = (len(by), newest.seen_at, value)
        if about not in best or rank > best[about][0]:
            best[about] = (rank, found)
    return [best[key][1] for key in sorted(best)]


def suffices(projects: int, of: int, rules: MemorySettings) -> bool:
    """Whether so many of so many projects make it the user's."""
    return projects >= rules.promote_projects and projects >= rules.promote_support * of


def confidence(support: float, rules: MemorySettings) -> float:
    """Return the confidence that a support gives: proportional, `inferred_confidence` at `promote_support`."""
    return min(1.0, rules.inferred_confidence * support / max(rules.promote_support, 1e-9))
