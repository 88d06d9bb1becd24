"""What `xscore check --diff` finds when one file of a commit is withheld; makes its weights.

    python benchmarks/check_diff.py --repositories DIR --cache DIR [--commits 30] [--write]

Each commit is checked out over its parent without one of its files, indexed, and looked at as
the command does; history is that of the parent. The weights are fitted on these lists,
cross-validated by repository: the figures of a repository are made by weights that never saw
it. Co-change alone and BM25 alone are shown for the same lists. A whole commit lacks nothing:
there the check should be silent. Ends with 1 where a target is missed. Nothing in a clone is
run.
"""

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np
from check_cases import gather_lists
from check_fit import FittingList, Vector, fit, sums_of
from msgspec import Struct

from xscore.extensions.checking.evidence import FIGURES
from xscore.extensions.checking.learned_order import WEIGHTS, OrderWeights, missing_probability
from xscore.scorer.linear_model import shares_of

GAIN, AT_20, SILENT = 0.05, 0.60, 0.80
DRAWS = 2_000
_TOGETHER, _MEAN = FIGURES.index("together"), FIGURES.index("together_mean")
_WORDS = FIGURES.index("words")
Scores = Callable[[FittingList], Vector]


class CaseFigures(Struct, frozen=True):
    """What was found of one withheld file: its place in each order, from 0."""

    repository: str
    learned: int
    together: int
    words: int
    shown: bool
    """Whether the command lists it among its first five without being asked for more."""


class WholeCommit(Struct, frozen=True):
    """Whether the check was silent at a commit that lacks nothing."""

    repository: str
    is_silent: bool
    has_one_file: bool


class Figures(Struct, frozen=True):
    """All measured figures."""

    cases: tuple[CaseFigures, ...]
    whole: tuple[WholeCommit, ...]


def place_of(scores: Vector, gold: int) -> int:
    """Return how many files come before this one; of equals the first in the list."""
    before = (scores > scores[gold]).sum() + (scores[:gold] == scores[gold]).sum()
    return int(before)


def by_together(fitting: FittingList) -> Vector:
    """Return the order by co-change alone."""
    values = fitting.columns
    scores: Vector = values[:, _TOGETHER] + 1e-6 * values[:, _MEAN]
    return scores


def by_words(fitting: FittingList) -> Vector:
    """Return the order by BM25 alone."""
    scores: Vector = fitting.columns[:, _WORDS]
    return scores


def measure(
    lists: Sequence[FittingList], weights_for: Callable[[str], OrderWeights]
) -> Figures:
    """Measure lists, each by the weights for its repository."""
    cases: list[CaseFigures] = []
    complete: list[WholeCommit] = []
    for fitting in lists:
        entry = fitting.entry
        if entry.turn > 0:  # one withheld file a commit is measured
            continue
        weights = weights_for(entry.repository)
        sums = sums_of(weights.order, fitting.columns)
        missing = missing_probability(weights, sums.tolist(), fitting.situation)
        speaks = missing >= weights.speaks_from
        if entry.turn < 0:
            listed = speaks and missing * max(shares_of(sums.tolist())) >= weights.lists_from
            has_one_file = fitting.situation.files == 1
            complete.append(WholeCommit(entry.repository, not listed, has_one_file))
            continue
        place = len(sums)
        shown = False
        if entry.gold >= 0:
            place = place_of(sums, entry.gold)
            score = missing * shares_of(sums.tolist())[entry.gold]
            shown = bool(speaks and place < 5 and score >= weights.lists_from)
        cases.append(
            CaseFigures(
                entry.repository,
                place,
                place_of(by_together(fitting), entry.gold) if entry.gold >= 0 else place,
                place_of(by_words(fitting), entry.gold) if entry.gold >= 0 else place,
                shown,
            )
        )
    return Figures(tuple(cases), tuple(complete))


def within(places: Iterable[int], first: int) -> float:
    """Return the share of places among the first `first`."""
    return float(np.mean([place < first for place in places]))


def show(figures: Figures) -> bool:
    """Print the figures; return whether the targets are met."""
    cases = figures.cases
    orders = {
        "learned": [case.learned for case in cases],
        "co-change alone": [case.together for case in cases],
        "BM25 alone": [case.words for case in cases],
    }
    print(f"{len(cases)} withheld files, {len(figures.whole)} whole commits")
    for name, places in orders.items():
        shares = [within(places, first) for first in (1, 5, 20)]
        print(f"{name:<16} R@1 {shares[0]:.3f}  R@5 {shares[1]:.3f}  R@20 {shares[2]:.3f}")
    at_5 = {name: within(places, 5) for name, places in orders.items()}
    better = max(at_5["co-change alone"], at_5["BM25 alone"])
    rival = "co-change alone" if at_5["co-change alone"] == better else "BM25 alone"
    low, high = interval(orders["learned"], orders[rival], [case.repository for case in cases])
    gain = at_5["learned"] - better
    print(f"gain at 5 over {rival}: {gain:+.3f} [{low:+.3f}, {high:+.3f}]")
    shown = float(np.mean([case.shown for case in cases]))
    silent = float(np.mean([commit.is_silent for commit in figures.whole]))
    of_one = [commit.is_silent for commit in figures.whole if commit.has_one_file]
    of_more = [commit.is_silent for commit in figures.whole if not commit.has_one_file]
    print(
        f"by default: {shown:.3f} listed among the first five; silent at {silent:.3f} of whole"
        f" commits ({np.mean(of_one):.3f} of one file, {np.mean(of_more):.3f} of several)"
    )
    by_repository(figures)
    at_20 = within(orders["learned"], 20)
    return gain >= GAIN and at_20 >= AT_20 and silent >= SILENT


def interval(
    ours: Sequence[int], theirs: Sequence[int], repositories: Sequence[str]
) -> tuple[float, float]:
    """Return the middle 95 % of the gain at 5 where repositories are drawn again."""
    gains: dict[str, list[int]] = {}
    for our_place, their_place, repository in zip(ours, theirs, repositories, strict=True):
        gains.setdefault(repository, []).append(int(our_place < 5) - int(their_place < 5))
    names = sorted(gains)
    draw = np.random.default_rng(0)
    means: list[float] = []
    for _ in range(DRAWS):
        chosen = draw.integers(0, len(names), len(names))
        drawn = [gain for place in chosen for gain in gains[names[place]]]
        means.append(float(np.mean(drawn)))
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def by_repository(figures: Figures) -> None:
    """Print the figures of each repository."""
    for name in sorted({case.repository for case in figures.cases}):
        cases = [case for case in figures.cases if case.repository == name]
        silent = [commit.is_silent for commit in figures.whole if commit.repository == name]
        learned = [case.learned for case in cases]
        at_5 = (
            within(learned, 5),
            within([case.together for case in cases], 5),
            within([case.words for case in cases], 5),
        )
        at_20 = within(learned, 20)
        print(
            f"  {name:<26} {len(cases):>3}  R@5 {at_5[0]:.2f} (co-change {at_5[1]:.2f}, BM25"
            f" {at_5[2]:.2f})  R@20 {at_20:.2f}  silent {np.mean(silent):.2f}"
        )


def main() -> int:
    """Gather, fit, measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--commits", type=int, default=30, help="of each repository")
    parser.add_argument("--write", action="store_true", help=f"write {WEIGHTS.name}")
    parser.add_argument(
        "--shipped", action="store_true", help="measure the weights as they are"
    )
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    lists: list[FittingList] = []
    for clone in sorted(options.repositories.iterdir()):
        if (clone / ".git").exists():
            entries = gather_lists(clone, options.commits, options.cache)
            entries += gather_lists(clone, options.commits, options.cache, single=True)
            lists += [FittingList(entry) for entry in entries]
    if options.shipped:
        shipped = msgspec.json.decode(WEIGHTS.read_bytes(), type=OrderWeights)
        return 0 if show(measure(lists, lambda _: shipped)) else 1
    fitted: dict[str, OrderWeights] = {}
    for repository in sorted({fitting.entry.repository for fitting in lists}):
        training = [fitting for fitting in lists if fitting.entry.repository != repository]
        fitted[repository] = fit(training)
    is_met = show(measure(lists, fitted.__getitem__))
    if options.write:
        encoded = msgspec.json.format(msgspec.json.encode(fit(lists)), indent=1)
        WEIGHTS.write_bytes(encoded + b"\n")
    return 0 if is_met else 1


if __name__ == "__main__":
    raise SystemExit(main())
