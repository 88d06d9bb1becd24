"""What an answer without a key keeps: is what a commit changed among it, and is nothing kept where
nothing is?

    python benchmarks/keyless.py --bench DIR --repositories DIR [--every 3]

DIR/commits.jsonl has commit messages (without the names of what changed) and what changed;
DIR/OWNER+NAME is a clone. Each message is asked of the parent's tree without a key, by the real
pipeline at its defaults. The anchors of the same run are the same scores without filling: what
passed alone. The rule of filling is cross-validated by repository: for each, the best of a grid on
all others, at most as many kept. Questions about things that a repository does not have should keep
nothing, those of `keyless_questions` apart for the repositories that were kept back. Ends with 1
where a target is missed, or something that passed is lost.
"""

import argparse
import asyncio
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from commit_cases import (
    CommitCase,
    ask_all,
    asked,
    place_of,
    read_absent,
    read_cases,
    tree_of_case,
)
from keyless_questions import HELD_OUT, PARTS, show_questions
from msgspec import Struct

from xscore.pipeline.composition import aim_of
from xscore.pipeline.selection import MOST_NEAR_MISSES
from xscore.pipeline.selection_by_words import select_by_words, speaks_of_tests
from xscore.pipeline.turn_stages import Ranking
from xscore.records.judgment import FillRules, Ranked, Selection, Thresholds
from xscore.records.memory import PRODUCT_CODE_KINDS
from xscore.records.turn import Turn
from xscore.settings import SelectionSettings

ANY_GOLD, MOST_KEPT, MOST_ABSENT = 0.68, 12.0, 0.08
LEAST_OF_POOL = 0.002
"""Scores below it fill no place; they are not held."""
SETTINGS = SelectionSettings()
PASSED_ALONE = FillRules(target_places=0)
GRID = [
    FillRules(target_places=places, share=share, other_kinds=others)
    for places, share, others in itertools.product(
        (10, 12, 13, 14, 15), (0.2, 0.3, 0.4, 0.5), (2, 3)
    )
]


class Figures(Struct, frozen=True):
    """What a rule keeps of one case."""

    any_gold: bool
    gold: float
    """Share of what changed that is kept."""
    gold_file: bool
    kept: int
    other_kinds: int
    """Kept that are no code."""


class Scored(Struct, frozen=True):
    """A case with the scores of its pool, boosts and lent evidence included."""

    case: CommitCase
    ranked: tuple[Ranked, ...]

    def under(self, rules: FillRules) -> Selection:
        """Select by a rule."""
        turn = Turn(task=self.case.task)
        return select_by_words(
            self.ranked,
            thresholds=Thresholds(SETTINGS.lexical_threshold),
            settings=SETTINGS,
            aim=aim_of(turn, about_tests=speaks_of_tests(turn)),
            rules=rules,
        )


def main() -> int:
    options = read_options()
    if options.part:
        kept = show_questions(options.part, options.repositories, options.cache)
        return int(kept > MOST_ABSENT)
    cases = read_cases(options.bench, every=options.every)
    scored: list[Scored] = []
    filled: list[Figures] = []
    lost = 0
    for result in ask_all(cases, options.repositories, options.cache):
        ranked = tuple(
            memory for memory in result.ranking.ranked if memory.score >= LEAST_OF_POOL
        )
        scored.append(Scored(result.case, ranked))
        filled.append(figures_of(result.case, result.ranking.selection))
        lost += lost_of(result.ranking)
    show("passed alone", figures_under(PASSED_ALONE, scored))
    show("filled", filled)
    if options.grid:
        for rules in GRID:
            show(
                f"{rules.target_places} {rules.share} {rules.other_kinds}",
                figures_under(rules, scored),
            )
    held_out = list(cross_validated(scored))
    show("… cross-validated", held_out)
    print(f"passed, and neither kept nor named: {lost}")
    absent, asked_for = kept_of_absent(cases, options.repositories, options.cache)
    print(f"questions about what is not there: {absent} of {asked_for} keep something")
    worst = max(show_questions(part, options.repositories, options.cache) for part in PARTS)
    kept_wrongly = max(worst, absent / max(1, asked_for))
    return int(lost > 0 or misses_targets(held_out, kept_wrongly=kept_wrongly))


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(".cache/lexical"))
    parser.add_argument(
        "--every", type=int, default=3, help="ask only every n-th commit of each repository"
    )
    parser.add_argument(
        "--part",
        choices=(*PARTS, HELD_OUT),
        help="ask only the questions of one part, and no commits",
    )
    parser.add_argument("--grid", action="store_true", help="show every rule of the grid")
    return parser.parse_args()


def figures_under(rules: FillRules, scored: Sequence[Scored]) -> list[Figures]:
    """Count what each case would keep by a rule."""
    return [figures_of(result.case, result.under(rules)) for result in scored]


def misses_targets(held_out: Sequence[Figures], *, kept_wrongly: float) -> bool:
    """Print the targets, and return whether one is missed.

    kept_wrongly: share of the questions about what is not there that keep something.
    """
    print(
        f"targets: any gold at least {ANY_GOLD} at most {MOST_KEPT} kept; of what is not there"
        f" {MOST_ABSENT}"
    )
    any_gold = fmean(row.any_gold for row in held_out)
    mean_kept = fmean(row.kept for row in held_out)
    return any_gold < ANY_GOLD or mean_kept > MOST_KEPT or kept_wrongly > MOST_ABSENT


def figures_of(case: CommitCase, selection: Selection) -> Figures:
    """Count what a selection has of the gold; what is folded is named by the place that it is
    folded into."""
    kept = [memory.candidate for memory in selection.kept]
    return Figures(
        any_gold=any(case.is_gold(*place_of(memory)) for memory in kept),
        gold=case.share_of_gold([place_of(memory) for memory in kept]),
        gold_file=any(memory.path in case.gold_files for memory in kept),
        kept=len(kept),
        other_kinds=sum(memory.kind not in PRODUCT_CODE_KINDS for memory in kept),
    )


def lost_of(ranking: Ranking) -> int:
    """Count what passed, and is neither kept nor a near miss, unless more passed than are
    listed."""
    selection = ranking.selection
    if len(selection.near_misses) == MOST_NEAR_MISSES:
        return 0
    shown = {memory.candidate.id for memory in (*selection.kept, *selection.near_misses)}
    return sum(
        selection.passed(memory) and memory.candidate.id not in shown
        for memory in ranking.ranked
    )


def cross_validated(scored: Sequence[Scored]) -> Iterator[Figures]:
    """Yield what each case keeps by the rule that is best for all other repositories."""
    table = [
        [figures_of(scored_case.case, scored_case.under(rules)) for scored_case in scored]
        for rules in GRID
    ]
    for repository in sorted({scored_case.case.repository for scored_case in scored}):
        other_cases = [
            at
            for at, scored_case in enumerate(scored)
            if scored_case.case.repository != repository
        ]
        best = max(table, key=lambda rows: worth([rows[at] for at in other_cases]))
        print(f"  {repository:24} {GRID[table.index(best)]}")
        yield from (
            best[at]
            for at, scored_case in enumerate(scored)
            if scored_case.case.repository == repository
        )


def worth(rows: Sequence[Figures]) -> tuple[float, float]:
    """Order rules: those that keep few enough, by how often they keep any gold, then by how few
    they keep."""
    mean = fmean(row.kept for row in rows)
    return (fmean(row.any_gold for row in rows) if mean <= MOST_KEPT else -mean), -mean


def kept_of_absent(cases: Sequence[CommitCase], clones: Path, cache: Path) -> tuple[int, int]:
    """Return how many questions about what a repository does not have keep something, and how many
    were asked."""
    latest = {case.repository: case for case in cases}
    kept = total = 0
    for repository, questions in read_absent().items():
        for question in questions if repository in latest else ():
            _, answer, _ = asyncio.run(
                asked(tree_of_case(latest[repository], clones, cache), question)
            )
            total += 1
            kept += bool(answer.selected)
    return kept, total


def show(name: str, rows: Sequence[Figures]) -> None:
    """Print the figures of one rule."""
    kept = sum(row.kept for row in rows)
    print(
        f"{name:18} n {len(rows):3}  any gold kept {fmean(row.any_gold for row in rows):.3f}"
        f"  gold kept {fmean(row.gold for row in rows):.3f}"
        f"  gold file {fmean(row.gold_file for row in rows):.3f}"
        f"  kept {kept / len(rows):4.1f}  none {fmean(not row.kept for row in rows):.3f}"
        f"  no code among the kept {sum(row.other_kinds for row in rows) / max(1, kept):.2f}",
        flush=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
