"""From outcomes to a selection: boosts on raw scores, then the threshold, the quota and K.

The rules are `boosts` and `selection`, both pure; this file fetches the links they look at.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xscore.pipeline import account
from xscore.pipeline.boosts import boost
from xscore.pipeline.parts import Parts
from xscore.pipeline.selection import by_rank, is_about_tests, select
from xscore.records import Judgment, Outcome, Ranked, Selection, Turn


@dataclass(frozen=True, slots=True)
class Ranking:
    """Every judged candidate with its boosts, and what was kept of them."""

    ranked: tuple[Ranked, ...]
    selection: Selection

    def in_order(self) -> list[Ranked]:
        """All judged candidates, best first, ties as the selection breaks them."""
        return sorted(self.ranked, key=by_rank)


def rank(parts: Parts, outcomes: Sequence[Outcome], turn: Turn) -> Ranking:
    """Boost and select. Only links of candidates that can be boosted are read."""
    settings = parts.settings
    floor = settings.boosts.floor
    near = [
        candidate.id
        for candidate, judgment, _ in outcomes
        if isinstance(judgment, Judgment) and judgment.score >= floor
    ]
    edges = parts.store.edges_touching(near)
    ranked = boost(
        outcomes,
        edges=edges,
        degrees=parts.store.degrees({end for edge in edges for end in (edge.source, edge.target)}),
        turn=turn,
        settings=settings.boosts,
        threshold=parts.judge.threshold,
        now=parts.clock(),
        boosters=parts.boosters,
    )
    selection = select(
        ranked,
        unjudged=tuple(account.unjudged_pairs(outcomes)),
        threshold=parts.judge.threshold,
        settings=settings.selection,
        about_tests=is_about_tests(turn),
    )
    return Ranking(ranked, selection)
