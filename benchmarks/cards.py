"""Do cards (one line of purpose for files, classes and folders) help the judge without a model?

    python benchmarks/cards.py --bench DIR --repositories DIR --cards DIR

DIR/commits.jsonl has commit messages (without the names of what changed) and what changed;
DIR/OWNER+NAME is a clone. Cards are in DIR/OWNER+NAME.jsonl, a line each: path, kind (file,
class, module), name and card, written from one commit; a case has those whose path its tree
has, or whose file name where the file moved. A term of the task in a card adds a share of its
idf to the evidence of what the card is about: of a file to all its entities, of a class to its
methods, of a folder to all within it. Each share is compared to the same judge without cards,
its weights trained on all other repositories, without cards as those of the package are; the
share is the best of the others. Refitted weights, and cards as features of their own, are shown
as well. Ends with 1 where recall@15 does not rise by enough.
"""

import argparse
import json
import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from commit_cases import CommitCase, read_cases
from lexical_pools import CasePool, PoolLinks, read_pools
from linear_fit import Matrix, fit_ranking
from msgspec import Struct
from msgspec.structs import replace
from train_lexical import CLOSEST, ENTITIES, MAY_BE_NEGATIVE, RIDGE, is_wanted

from xscore.records.candidates import Candidate
from xscore.records.memory import PRODUCT_CODE_KINDS, Kind
from xscore.records.turn import Turn
from xscore.scorer.weighed_pool import WeighedPool
from xscore.scorer.word_features import FEATURES, shortlist_of
from xscore.store.term_vectors import text_terms

RISE = 0.02
PLACES = (15, 5)
DRAWS = 4_000
CARD_KINDS = ("file", "class", "module")
USES = (("file",), ("class",), ("file", "class"), CARD_KINDS)
SHARES = (0.25, 0.5, 1.0, 2.0)
WITHOUT = "without cards"
AS_FEATURES = "features"
LISTED_BY = 0.1
"""The share by which cards bring memories onto the short list where they are features."""

Terms = frozenset[int]


class Cards(Struct, frozen=True):
    """The terms of a repository's cards."""

    of_path: Mapping[tuple[str, str], Terms]
    """Terms by kind (file, module) and path."""
    of_last_name: Mapping[tuple[str, str], Terms]
    """Terms by kind and the last part of a path that only one of them has."""
    of_class: Mapping[tuple[str, str], Terms]
    """Terms by path and name."""
    of_moved_class: Mapping[tuple[str, str], Terms]
    """Terms by the last part of a path and name."""

    def of(self, candidate: Candidate, kind: str) -> Terms:
        """Return the terms of the card of this kind that a memory belongs to."""
        file_name = posixpath.basename(candidate.path)
        if kind == "class":
            if candidate.kind not in ENTITIES:
                return frozenset()
            name = candidate.entity
            if candidate.kind is not Kind.CLASS:
                name = name.rpartition(".")[0] or name.rpartition("::")[0]
            by_path = self.of_class.get((candidate.path, name))
            return by_path or self.of_moved_class.get((file_name, name), frozenset())
        path = candidate.path
        if kind == "module":
            path = posixpath.dirname(path) or "."
        last = posixpath.basename(path)
        by_path = self.of_path.get((kind, path))
        return by_path or self.of_last_name.get((kind, last), frozenset())


class Listed(Struct, frozen=True):
    """One task with its short list, in one way to use cards."""

    features: Matrix
    evidence: Matrix
    gold: Matrix
    is_code: Matrix
    is_entity: Matrix


class CardTask(Struct, frozen=True):
    """One question in every way to use cards."""

    repository: str
    is_first_line: bool
    total: int
    """How many memories the commit changed."""
    ways: Mapping[str, Listed]


class Figures(Struct, frozen=True):
    """What one way gives for one task."""

    repository: str
    recall: tuple[float, ...]
    """Recall at `PLACES`."""
    reciprocal_rank: float


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--cards", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(".cache/lexical"))
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    cards = {
        path.stem.replace("+", "/"): read_cards(path) for path in options.cards.glob("*.jsonl")
    }
    cases = [
        case
        for case in read_cases(options.bench, every=options.every)
        if case.repository in cards
    ]
    tasks: list[CardTask] = []
    covered: Counter[str] = Counter()
    for case, pool in read_pools(cases, options.repositories, options.cache):
        count_covered(covered, pool, cards[case.repository])
        tasks += tasks_of(case, pool, cards[case.repository])
    for kind in CARD_KINDS:
        share = covered[kind] / max(1, covered["all"])
        print(f"functions, methods and classes under a card of a {kind}: {share:.3f}")
    for way in tasks[0].ways:
        show(f"refitted weights, {way}", list(cross_validated(tasks, way, fitted_to=way)))
    figures: dict[str, list[Figures]] = {}
    for way in tasks[0].ways:
        # It has columns of its own, which the weights without cards lack.
        if way != AS_FEATURES:
            figures[way] = list(cross_validated(tasks, way, fitted_to=WITHOUT))
            show(way, figures[way])
    for way in tasks[0].ways:
        rows = [by_evidence(task, task.ways[way]) for task in messages(tasks)]
        show(f"evidence alone, {way}", rows)
    chosen = best_of_others(figures)
    show("cross-validated way", chosen)
    rise = show_difference(figures[WITHOUT], chosen)
    for repository in sorted({row.repository for row in chosen}):
        before = [row for row in figures[WITHOUT] if row.repository == repository]
        after = [row for row in chosen if row.repository == repository]
        gain = mean_recall(after) - mean_recall(before)
        print(
            f"  {repository:24} n {len(after):3} recall@15 {mean_recall(before):.3f} {gain:+.3f}"
        )
    print(f"target: recall@15 rises by {RISE}")
    return int(rise < RISE)


def read_cards(path: Path) -> Cards:
    """Read the cards of one repository."""
    of_path: dict[tuple[str, str], Terms] = {}
    of_class: dict[tuple[str, str], Terms] = {}
    by_last_name: dict[tuple[str, str], list[Terms]] = {}
    classes_by_last_name: dict[tuple[str, str], list[Terms]] = {}
    for line in path.read_text("utf-8").splitlines():
        card = json.loads(line)
        kind, card_path = card["kind"], card["path"].removesuffix("/")
        terms = text_terms(card["card"])
        last_name = posixpath.basename(card_path)
        if kind == "class":
            of_class[card_path, card["name"]] = terms
            classes_by_last_name.setdefault((last_name, card["name"]), []).append(terms)
        else:
            of_path[kind, card_path] = terms
            by_last_name.setdefault((kind, last_name), []).append(terms)
    return Cards(of_path, only_ones(by_last_name), of_class, only_ones(classes_by_last_name))


def only_ones(
    by_name: Mapping[tuple[str, str], Sequence[Terms]],
) -> dict[tuple[str, str], Terms]:
    """Return what has a name of its own."""
    return {name: terms[0] for name, terms in by_name.items() if len(terms) == 1}


def count_covered(covered: Counter[str], pool: CasePool, cards: Cards) -> None:
    """Count the entities that have a card of each kind."""
    for candidate in pool.candidates:
        if candidate.kind not in ENTITIES:
            continue
        covered["all"] += 1
        for kind in CARD_KINDS:
            covered[kind] += bool(cards.of(candidate, kind))


def tasks_of(case: CommitCase, pool: CasePool, cards: Cards) -> Iterator[CardTask]:
    """Yield a case's message and, where it has more lines, its first line."""
    message = case.task.strip()
    first_line = message.partition("\n")[0]
    total = sum(is_wanted(case, candidate) for candidate in pool.candidates)
    if not total:
        return
    for text in dict.fromkeys((message, first_line)):
        yield CardTask(
            case.repository, text != message, total, ways_to_list(case, text, pool, cards)
        )


def ways_to_list(
    case: CommitCase, text: str, pool: CasePool, cards: Cards
) -> dict[str, Listed]:
    """Return the short list of a task without cards, and with them in each way."""
    links = pool.links()
    weighed = WeighedPool(Turn(task=text), pool.candidates, lambda: pool.column, links=links)
    listed = partial(list_task, case, pool, weighed, links)
    idf_of_term: dict[int, float] = {}
    for weighed_term, idf in zip(weighed.terms, weighed.evidence.terms.evidence, strict=True):
        idf_of_term[weighed_term.term.hash] = idf
    amounts = {kind: card_amounts(pool, cards, kind, idf_of_term) for kind in CARD_KINDS}
    ways = {WITHOUT: listed({}, 0.0)}
    for kinds, share in product(USES, SHARES):
        added = {kind: amounts[kind] for kind in kinds}
        ways[f"{'+'.join(kinds)} {share}"] = listed(added, share)
    ways[AS_FEATURES] = listed(amounts, LISTED_BY, as_features=True)
    return ways


def card_amounts(
    pool: CasePool, cards: Cards, kind: str, idf_of_term: Mapping[int, float]
) -> dict[int, float]:
    """Return the idf of the task's terms in the cards of one kind, by row; without cards none."""
    by_terms: dict[Terms, float] = {}
    amounts: dict[int, float] = {}
    for row, candidate in enumerate(pool.candidates):
        if candidate.kind not in PRODUCT_CODE_KINDS:
            continue
        terms = cards.of(candidate, kind)
        if not terms:
            continue
        if terms not in by_terms:
            by_terms[terms] = sum(
                idf_of_term[term] for term in sorted(terms & idf_of_term.keys())
            )
        if by_terms[terms]:
            amounts[row] = by_terms[terms]
    return amounts


def list_task(
    case: CommitCase,
    pool: CasePool,
    weighed: WeighedPool,
    links: PoolLinks,
    added: Mapping[str, Mapping[int, float]],
    share: float,
    *,
    as_features: bool = False,
) -> Listed:
    """Return the short list with this share of the idf in cards added to the evidence."""
    evidence = weighed.evidence
    amounts = dict(evidence.amounts)
    plain = dict(evidence.plain)
    for by_row in added.values():
        for row, amount in by_row.items():
            amounts[row] = amounts.get(row, 0.0) + share * amount
            plain.setdefault(row, 0.0)
    with_cards = replace(evidence, amounts=amounts, plain=plain)
    shortlist = shortlist_of(pool.candidates, with_cards, links)
    features = np.array(shortlist.features).reshape(len(shortlist.rows), len(FEATURES))
    if as_features:
        asked_idf = max(evidence.asked, 1e-9)
        columns = [
            [by_row.get(row, 0.0) / asked_idf for row in shortlist.rows]
            for by_row in added.values()
        ]
        features = np.column_stack([features, *map(np.array, columns)])
    candidates = [pool.candidates[row] for row in shortlist.rows]
    return Listed(
        features.astype(np.float32),
        np.array([amounts.get(row, 0.0) for row in shortlist.rows]),
        np.array([is_wanted(case, candidate) for candidate in candidates], float),
        np.array([candidate.kind in PRODUCT_CODE_KINDS for candidate in candidates], bool),
        np.array([candidate.kind in ENTITIES for candidate in candidates], bool),
    )


def messages(tasks: Sequence[CardTask]) -> list[CardTask]:
    """Return the tasks that are whole messages."""
    return [task for task in tasks if not task.is_first_line]


def cross_validated(
    tasks: Sequence[CardTask], way: str, *, fitted_to: str
) -> Iterator[Figures]:
    """Yield what each message gives with the weights of all other repositories.

    fitted_to: the way in which these had cards.
    """
    for repository in sorted({task.repository for task in tasks}):
        weights = fitted(
            [task.ways[fitted_to] for task in tasks if task.repository != repository]
        )
        for task in messages(tasks):
            if task.repository == repository:
                yield figures_of(task, task.ways[way], task.ways[way].features @ weights)


def fitted(lists: Sequence[Listed]) -> Matrix:
    """Return the weights of a ranking, as `train_lexical` fits them."""
    groups: list[tuple[Matrix, Matrix]] = []
    for list_ in lists:
        rows = np.flatnonzero(list_.is_code)[:CLOSEST]
        rows = np.union1d(rows, np.flatnonzero(list_.gold))
        if list_.gold.any():
            groups.append((list_.features[rows].astype(float), list_.gold[rows]))
    columns = groups[0][0].shape[1]
    least_zero = [name not in MAY_BE_NEGATIVE for name in FEATURES]
    least_zero += [True] * (columns - len(FEATURES))
    return fit_ranking(groups, least_zero=least_zero, ridge=RIDGE)


def by_evidence(task: CardTask, list_: Listed) -> Figures:
    """Return what the order of the evidence alone gives."""
    return figures_of(task, list_, list_.evidence)


def figures_of(task: CardTask, list_: Listed, rating: Matrix) -> Figures:
    """Return recall and reciprocal rank among functions, methods and classes."""
    entities = np.flatnonzero(list_.is_entity)
    order = entities[np.argsort(-rating[entities], kind="stable")]
    places = np.flatnonzero(list_.gold[order])
    recall = tuple(float((places < count).sum()) / task.total for count in PLACES)
    first = 0.0
    if len(places):
        first = 1 / (1 + int(places[0]))
    return Figures(task.repository, recall, first)


def mean_recall(rows: Sequence[Figures]) -> float:
    """Return the mean recall at the first of `PLACES`."""
    return float(np.mean([row.recall[0] for row in rows]))


def best_of_others(figures: Mapping[str, Sequence[Figures]]) -> list[Figures]:
    """Return each repository's figures in the way that is best for all others."""
    chosen: list[Figures] = []
    with_cards = [way for way in figures if way != WITHOUT]
    for repository in sorted({row.repository for row in figures[WITHOUT]}):
        recall_elsewhere: dict[str, float] = {}
        for way in with_cards:
            elsewhere = [row for row in figures[way] if row.repository != repository]
            recall_elsewhere[way] = mean_recall(elsewhere)
        best = max(with_cards, key=lambda way: recall_elsewhere[way])
        print(f"  {repository:24} {best}")
        chosen += [row for row in figures[best] if row.repository == repository]
    return chosen


def show(name: str, rows: Sequence[Figures]) -> None:
    """Print the means of one way."""
    recall = np.mean([row.recall for row in rows], 0)
    mrr = np.mean([row.reciprocal_rank for row in rows])
    text = "  ".join(f"recall@{k} {value:.3f}" for k, value in zip(PLACES, recall, strict=True))
    print(f"{name:40} n {len(rows):3}  {text}  MRR {mrr:.3f}", flush=True)


def show_difference(before: Sequence[Figures], after: Sequence[Figures]) -> float:
    """Print what cards add, with intervals of 95 % from paired draws of repositories and of their
    commits; return the gain of recall at the first of `PLACES`."""
    rng = np.random.default_rng(7)
    gains: dict[str, Matrix] = {}
    for number, places in enumerate(PLACES):
        gains[f"recall@{places}"] = np.array(
            [
                row.recall[number] - was.recall[number]
                for was, row in zip(before, after, strict=True)
            ]
        )
    gains["MRR"] = np.array(
        [
            row.reciprocal_rank - was.reciprocal_rank
            for was, row in zip(before, after, strict=True)
        ]
    )
    repositories = sorted({row.repository for row in before})
    rows_of = [
        np.flatnonzero([row.repository == repository for row in before])
        for repository in repositories
    ]
    for name, gain in gains.items():
        means: list[float] = []
        for _ in range(DRAWS):
            drawn = rng.integers(len(repositories), size=len(repositories))
            rows = np.concatenate(
                [rng.choice(rows_of[place], len(rows_of[place])) for place in drawn]
            )
            means.append(float(gain[rows].mean()))
        low, high = np.quantile(means, (0.025, 0.975))
        print(f"what cards add, {name}: {gain.mean():+.4f} [{low:+.4f}, {high:+.4f}]")
    return float(gains[f"recall@{PLACES[0]}"].mean())


if __name__ == "__main__":
    raise SystemExit(main())
