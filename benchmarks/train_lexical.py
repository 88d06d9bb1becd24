"""Trains the judge without a model on past commits: the weights of `scorer/learned_words.json`.

    python benchmarks/train_lexical.py --bench DIR --repositories DIR [--write]

DIR/commits.jsonl has commit messages (without the names of what changed) and what changed;
DIR/OWNER+NAME is a clone. Each message, and its first line alone, is asked of the parent's tree.
The ranking learns which code the commit changed among the code of the short list; the odds learn
how often that is right. Everything is printed cross-validated by repository, since weights that saw
a repository say nothing about others: recall@15 and MRR over functions, methods and classes, and
the calibration error of the first 50 of each case in ten bins of equal size. Tasks of other
repositories of the same language, asked here, teach when nothing is here. The cases are compared
with those in `learned_cases.csv`, and the weights of all of them with those in the package; with
--write they are put there. The same cases give the same file.
"""

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from pathlib import Path

import numpy as np
from commit_cases import CommitCase, place_of, read_cases
from learned_cases import differences, write_list
from lexical_pools import CasePool, read_pools
from linear_fit import Matrix, fit_odds, fit_ranking
from msgspec import Struct, json

from xscore.extensions.evaluation.statistics import calibration_error
from xscore.records.candidates import Candidate
from xscore.records.memory import PRODUCT_CODE_KINDS, Kind
from xscore.records.turn import Turn
from xscore.scorer.learned_words import (
    FILE,
    ODDS_TERMS,
    PRESENCE_TERMS,
    LearnedWeights,
    load_weights,
    log_odds_terms,
    presence_terms,
    task_length,
)
from xscore.scorer.linear_model import LinearModel
from xscore.scorer.weighed_pool import WeighedPool
from xscore.scorer.word_features import FEATURES, MAY_BE_NEGATIVE

ENTITIES = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.CLASS})
RIDGE, ODDS_RIDGE, PRESENCE_RIDGE = 0.1, 1e-4, 1e-3
LEAST_WEIGHTS = np.array([-np.inf if name in MAY_BE_NEGATIVE else 0.0 for name in FEATURES])
CLOSEST = 150
"""Rows of each case that the ranking is fitted to, in addition to the gold."""
JUDGED = 80
"""Rows of each case, best first, that the odds are fitted to."""
COUNTED = 50
"""Rows of each case over which the calibration error is measured."""
PLACES = 15
FARTHEST = 5
"""Weights that are told of, those farthest from the package's."""
SCRIPTS = frozenset({".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx"})
OWN_KEPT = 0.95
"""Share of a repository's own messages that must be taken to be about it."""


class TrainingTask(Struct, frozen=True):
    """One question with its short list."""

    repository: str
    is_first_line: bool
    features: Matrix
    gold: Matrix
    """1 for each row that the commit changed."""
    is_code: Matrix
    is_entity: Matrix
    total: int
    """How many memories the commit changed; some may be missing from the list."""
    context: Mapping[str, float]
    """The terms of the log odds that are the same for all rows."""
    evidence: Matrix
    """What each row scores by evidence alone."""
    weighed: WeighedPool
    code: int
    is_foreign: bool = False
    """Whether it was asked of another repository."""

    @property
    def length(self) -> float:
        """How much longer than usual it is."""
        return task_length(self.weighed.evidence.words)


class Model(Struct, frozen=True):
    """Fitted weights."""

    code: Matrix
    code_by_length: Matrix
    odds: Matrix
    presence: Matrix

    def here(self, task: TrainingTask) -> float:
        """Return the log odds that anything is here."""
        return float(presence_row(task, self.rate_as_usual(task)) @ self.presence)

    def rate(self, task: TrainingTask) -> Matrix:
        """Return the rating of each row of code; of the others nothing is counted."""
        weights = self.code + task.length * self.code_by_length
        return np.asarray(task.features @ np.maximum(weights, LEAST_WEIGHTS))

    def rate_as_usual(self, task: TrainingTask) -> Matrix:
        """Return the same by the weights of a task of usual length."""
        return np.asarray(task.features @ self.code)

    def judge(self, task: TrainingTask) -> Matrix:
        """Return the probability of each row."""
        odds = odds_rows(task, self.rate(task)) @ self.odds
        return np.asarray(1 / (1 + np.exp(-odds)))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(".cache/lexical"))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument(
        "--write", action="store_true", help="write the weights into the package"
    )
    options = parser.parse_args()
    cases = read_cases(options.bench, every=options.every)
    tasks: list[TrainingTask] = []
    for case, pool in read_pools(cases, options.repositories, options.cache):
        tasks += tasks_of(case, pool)
        for text in foreign_to(case, cases):
            tasks.append(task_of(case, text, pool, is_foreign=True))
    present_from = cross_validate(tasks)
    repositories = len({task.repository for task in tasks})
    about = f"{len(cases)} commits of {repositories} repositories"
    weights = written(fit(tasks), present_from, about)
    compare_with_package(cases, weights)
    if options.write:
        FILE.write_bytes(json.format(json.encode(weights), indent=2) + b"\n")
        write_list(cases)
    return 0


def compare_with_package(cases: Sequence[CommitCase], weights: LearnedWeights) -> None:
    """Print how the cases and the weights differ from those of the package."""
    print("\n".join(differences(cases)) or f"the cases are the {len(cases)} of the package")
    shipped = load_weights()
    apart = {"present_from": abs(weights.present_from - shipped.present_from)}
    for part in ("code", "code_by_length", "probability", "presence"):
        for name, weight in getattr(weights, part).weights.items():
            apart[f"{part}.{name}"] = abs(
                weight - getattr(shipped, part).weights.get(name, 0.0)
            )
    for name in nlargest(FARTHEST, apart, key=lambda name: apart[name]):
        print(f"{name}: {apart[name]:.5f} from the package's")


def tasks_of(case: CommitCase, pool: CasePool) -> Iterator[TrainingTask]:
    """Yield a case's message and, where it has more lines, its first line."""
    message = case.task.strip()
    first_line = message.partition("\n")[0]
    yield task_of(case, message, pool)
    if first_line != message:
        yield task_of(case, first_line, pool, is_first_line=True)


def task_of(
    case: CommitCase,
    text: str,
    pool: CasePool,
    *,
    is_first_line: bool = False,
    is_foreign: bool = False,
) -> TrainingTask:
    """Ask a pool, and say which of its memories the commit changed."""
    candidates = pool.candidates
    weighed = WeighedPool(Turn(task=text), candidates, lambda: pool.column, links=pool.links())
    listed = [candidates[row] for row in weighed.shortlist.rows]
    code = sum(candidate.kind in PRODUCT_CODE_KINDS for candidate in candidates)
    context = log_odds_terms(0.0, weighed.evidence, best=weighed.shortlist.best, code=code)
    features = np.array(weighed.shortlist.features).reshape(len(listed), len(FEATURES))
    return TrainingTask(
        repository=case.repository,
        is_first_line=is_first_line,
        features=features,
        gold=np.array([not is_foreign and is_wanted(case, c) for c in listed], float),
        is_code=np.array([candidate.kind in PRODUCT_CODE_KINDS for candidate in listed], float),
        is_entity=np.array([candidate.kind in ENTITIES for candidate in listed], float),
        total=0 if is_foreign else sum(is_wanted(case, candidate) for candidate in candidates),
        context=context,
        evidence=features[:, FEATURES.index("evidence_of_best")],
        weighed=weighed,
        code=code,
        is_foreign=is_foreign,
    )


def foreign_to(case: CommitCase, cases: Sequence[CommitCase]) -> list[str]:
    """Return a message and a first line of other repositories whose code is in the same
    language."""
    ending = main_ending(case)
    elsewhere = [case_ for case_ in cases if case_.repository != case.repository]
    foreign_cases = [case_ for case_ in elsewhere if main_ending(case_) == ending] or elsewhere
    # Spread over them, and the same every time.
    at = cases.index(case) * 7
    message, second = (
        foreign_cases[place % len(foreign_cases)].task for place in (at, at + 101)
    )
    return [message, second.strip().partition("\n")[0]]


def main_ending(case: CommitCase) -> str:
    """Return the family of languages of what a case changed."""
    ending = Path(min(case.gold_files)).suffix
    return "script" if ending in SCRIPTS else ending


def presence_row(task: TrainingTask, rating: Matrix) -> Matrix:
    """Return the terms of the log odds that anything is here, in the order of `PRESENCE_TERMS`."""
    terms = presence_terms(
        list(rating[task.is_code > 0]),
        task.weighed.shortlist,
        task.weighed.evidence,
        code=task.code,
    )
    return np.array(list(terms.values()))


def is_wanted(case: CommitCase, candidate: Candidate) -> bool:
    """Whether the commit changed this function, method or class."""
    return candidate.kind in ENTITIES and case.is_gold(*place_of(candidate))


def odds_rows(task: TrainingTask, rating: Matrix) -> Matrix:
    """Return the terms of the log odds of each row, in the order of `log_odds_terms`."""
    of_code = rating[task.is_code > 0] if task.is_code.any() else rating
    share = rating - np.logaddexp.reduce(of_code)
    columns = dict.fromkeys(task.context, np.zeros(0))
    for name, value in task.context.items():
        columns[name] = np.full(len(rating), value)
    columns["share"] = share
    columns["share_by_words"] = share * math.log(max(1, task.weighed.evidence.words))
    columns["share_squared"] = share * share
    return np.column_stack(list(columns.values()))


def fit(tasks: Sequence[TrainingTask]) -> Model:
    """Return the weights for these tasks."""
    groups: list[tuple[Matrix, Matrix]] = []
    for task in tasks:
        rows = np.flatnonzero(task.is_code)[:CLOSEST]
        rows = np.union1d(rows, np.flatnonzero(task.gold))
        if task.gold.any():
            features = task.features[rows]
            # A constant within a group changes no order, and would make the column look wide.
            by_length = task.length * (features - features.mean(0))
            groups.append((np.hstack([features, by_length]), task.gold[rows]))
    least_zero = [name not in MAY_BE_NEGATIVE for name in FEATURES]
    may_all = [False] * len(FEATURES)
    fitted_code = fit_ranking(groups, least_zero=[*least_zero, *may_all], ridge=RIDGE)
    code, code_by_length = np.split(fitted_code, 2)
    ranking = Model(code, code_by_length, np.zeros(0), np.zeros(0))
    odds: list[Matrix] = []
    gold: list[Matrix] = []
    for task in tasks:
        if task.is_foreign:
            continue
        rating = ranking.rate(task)
        best = best_entities(task, rating, JUDGED)
        odds.append(odds_rows(task, rating)[best])
        gold.append(task.gold[best])
    # The constant is the first of the terms.
    fitted = fit_odds(np.concatenate(odds)[:, 1:], np.concatenate(gold), ridge=ODDS_RIDGE)
    with_code = [task for task in tasks if task.is_code.any()]
    presence_rows = np.array(
        [presence_row(task, ranking.rate_as_usual(task)) for task in with_code]
    )
    is_own = np.array([not task.is_foreign for task in with_code], float)
    presence = fit_odds(presence_rows[:, 1:], is_own, ridge=PRESENCE_RIDGE)
    return Model(code, code_by_length, fitted, presence)


def best_entities(task: TrainingTask, rating: Matrix, count: int) -> Matrix:
    """Return the rows of the best functions, methods and classes, best first."""
    entities = np.flatnonzero(task.is_entity)
    order = np.argsort(-rating[entities], kind="stable")
    return np.asarray(entities[order[:count]])


def cross_validate(tasks: Sequence[TrainingTask]) -> float:
    """Print how the weights of all other repositories do on each; return the log odds from which
    something is taken to be here."""
    own_here: list[float] = []
    first_here: list[float] = []
    foreign_here: list[float] = []
    by_evidence: list[tuple[float, float, bool]] = []
    learned: list[tuple[float, float, bool]] = []
    probable: list[Matrix] = []
    gold: list[Matrix] = []
    for repository in sorted({task.repository for task in tasks}):
        model = fit([task for task in tasks if task.repository != repository])
        of_repository: list[tuple[float, float, bool]] = []
        for task in tasks:
            if task.repository != repository:
                continue
            if task.is_code.any():
                group = first_here if task.is_first_line else own_here
                (foreign_here if task.is_foreign else group).append(model.here(task))
            if not task.total:
                continue
            rating = model.rate(task)
            by_evidence.append((*recall_and_rank(task, task.evidence), task.is_first_line))
            of_repository.append((*recall_and_rank(task, rating), task.is_first_line))
            counted = best_entities(task, rating, COUNTED)
            probable.append(model.judge(task)[counted])
            gold.append(task.gold[counted])
        learned += of_repository
        show(repository, of_repository)
    show("evidence alone", by_evidence)
    show("learned", learned)
    error = calibration_error(np.concatenate(probable).tolist(), np.concatenate(gold).tolist())
    print(f"calibration error, first {COUNTED} of each task: {error:.4f}")
    for kept in (0.92, OWN_KEPT, 0.97):
        cut = float(np.quantile(own_here, 1 - kept))
        silent = np.mean(np.array(foreign_here) < cut)
        firsts = np.mean(np.array(first_here) >= cut)
        print(
            f"own messages {kept}, first lines {firsts:.3f}, of other repositories {silent:.3f}"
        )
    return float(np.quantile(own_here, 1 - OWN_KEPT))


def show(name: str, rows: Sequence[tuple[float, float, bool]]) -> None:
    """Print recall and MRR of messages and of first lines."""
    text = f"{name:24}"
    for label, first in (("messages", False), ("first lines", True)):
        chosen = [row[:2] for row in rows if row[2] is first]
        if chosen:
            recall, mrr = np.mean(chosen, 0)
            text += f"  {label} n {len(chosen):3} recall@{PLACES} {recall:.3f} MRR {mrr:.3f}"
    print(text, flush=True)


def recall_and_rank(task: TrainingTask, rating: Matrix) -> tuple[float, float]:
    """Return recall of the first places, and the reciprocal of the first rank, among entities."""
    order = best_entities(task, rating, len(rating))
    places = np.flatnonzero(task.gold[order])
    first = 1 / (1 + int(places[0])) if len(places) else 0.0
    return float((places < PLACES).sum()) / task.total, first


def written(model: Model, present_from: float, about: str) -> LearnedWeights:
    """Return the weights as the package reads them."""
    return LearnedWeights(
        trained_on=about,
        code=named(FEATURES, model.code),
        code_by_length=named(FEATURES, model.code_by_length),
        probability=named(ODDS_TERMS, model.odds),
        presence=named(PRESENCE_TERMS, model.presence),
        present_from=round(present_from, 5),
    )


def named(names: Sequence[str], weights: Matrix) -> LinearModel:
    """Return weights by name, rounded: more digits than the cases can tell."""
    by_name = {name: round(float(value), 5) for name, value in zip(names, weights, strict=True)}
    return LinearModel(by_name)


if __name__ == "__main__":
    raise SystemExit(main())
