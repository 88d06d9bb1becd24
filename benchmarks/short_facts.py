"""Short facts about a person and a project: is only the right one shown?

    python benchmarks/short_facts.py --bench DIR [--tree DIR] [--threshold 0.5] [--half 0|1]
        [--without-aliases] [--cases]

DIR holds `beliefs.json` and `cases.json` of tenurehq/precisionMemBench, or a part of them.
Every belief is stated as its owner would: its name is the key, its other names are aliases,
what it replaces had its key before, what is settled was deleted; a scope is a repository, the
universal one and what another user said are in that user's own store. Each query is asked by
words alone (`context`). As its publishers do, beliefs that are pinned do not count, places are
capped by the budget of a case, precision is averaged over cases that expect or show something,
recall over those that expect something. `--tree` copies a source tree into each repository, so
that the facts compete with code. Trade-off: the benchmark decides by names alone; what only the
text of a belief answers counts as wrong.
"""

import argparse
import asyncio
import json
import shutil
import statistics
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, convert
from msgspec.structs import replace

from xscore.pipeline.build import Pipeline
from xscore.platform.errors import UsageError
from xscore.platform.paths import find_root
from xscore.records.memory import Kind, Layer
from xscore.records.statement import Statement
from xscore.records.turn import Turn
from xscore.settings import (
    IndexSettings,
    JudgeSettings,
    MemorySettings,
    SelectionSettings,
    Settings,
    StoreSettings,
)
from xscore.store.remembering import remember
from xscore.store.store import Store

USER = "test-user"
UNIVERSAL = "user:universal"
KINDS = {
    "preference": Kind.CONVENTION,
    "decision": Kind.DECISION,
    "entity": Kind.CONTEXT,
    "relation": Kind.ARCHITECTURE,
    "open_question": Kind.TODO,
}
"""Kind of a belief about a project, by its type."""
MOST_SHOWN = 20
"""Most beliefs of a query without a budget of its own."""


class Belief(Struct, frozen=True):
    """A belief, as far as it is stated."""

    id: str
    user: str
    type: str
    name: str
    aliases: tuple[str, ...]
    content: str
    why: str
    scopes: tuple[str, ...]
    is_pinned: bool
    is_settled: bool
    superseded_by: str

    @property
    def is_listed(self) -> bool:
        """Whether it is shown with every query of its scope, so that finding it counts nothing."""
        is_open = not (self.superseded_by or self.is_settled)
        return self.is_pinned and is_open and self.type != "open_question"


class Case(Struct, frozen=True):
    """A query with what it must show."""

    id: str
    user: str
    scopes: tuple[str, ...]
    query: str
    most: int
    expected: frozenset[str]


class Shown(Struct, frozen=True):
    """What a query showed."""

    case: Case
    ids: tuple[str, ...]

    @property
    def precision(self) -> float | None:
        """Share of the shown that was expected; None if nothing was, and nothing was shown."""
        if not self.ids:
            return 0.0 if self.case.expected else None
        return len(self.case.expected.intersection(self.ids)) / len(self.ids)

    @property
    def recall(self) -> float | None:
        """Share of the expected that was shown; None if nothing was expected."""
        if not self.case.expected:
            return None
        return len(self.case.expected.intersection(self.ids)) / len(self.case.expected)


def read_beliefs(path: Path) -> dict[str, Belief]:
    """Return the beliefs by id, each after what it replaces."""
    beliefs: dict[str, Belief] = {}
    for raw in json.loads(path.read_text()):
        beliefs[raw["_id"]] = Belief(
            id=raw["_id"],
            user=raw["user_id"],
            type=raw["type"],
            name=raw["canonical_name"],
            aliases=tuple(raw["aliases"]),
            content=raw["content"],
            why=raw["why_it_matters"],
            scopes=tuple(raw["scope"]),
            is_pinned=raw["pinned"],
            is_settled=bool(raw["resolved_at"]),
            superseded_by=raw["superseded_by"] or "",
        )
    return dict(sorted(beliefs.items(), key=lambda pair: -len(successors(beliefs, pair[1]))))


def successors(beliefs: Mapping[str, Belief], belief: Belief) -> list[Belief]:
    """Return what replaced a belief, and what replaced that."""
    chain: list[Belief] = []
    while belief.superseded_by in beliefs and len(chain) < len(beliefs):
        belief = beliefs[belief.superseded_by]
        chain.append(belief)
    return chain


def read_cases(path: Path, beliefs: Mapping[str, Belief]) -> list[Case]:
    """Return the cases that say what the beliefs that a query finds are."""
    cases: list[Case] = []
    for raw in json.loads(path.read_text()):
        relevant = raw["expect"].get("relevantBeliefs", {})
        expected = relevant.get("shouldOnlyInclude")
        if expected is None:
            expected = [
                id_ for id_ in relevant.get("mustInclude", ()) if not is_listed(beliefs, id_)
            ]
        budget: Mapping[str, Any] = raw.get("budget", {})
        cases.append(
            Case(
                raw["caseId"],
                raw.get("userId", USER),
                tuple(raw["scope"]),
                raw["query"],
                budget.get("maxBeliefs", MOST_SHOWN),
                frozenset(expected),
            )
        )
    return cases


def is_listed(beliefs: Mapping[str, Belief], id_: str) -> bool:
    """Return whether a belief is shown with every query of its scope."""
    return id_ in beliefs and beliefs[id_].is_listed


def statement_of(beliefs: Mapping[str, Belief], belief: Belief) -> Statement:
    """Return a belief as its owner states it."""
    last = [belief, *successors(beliefs, belief)][-1]
    kind, layer = KINDS[belief.type], None
    if UNIVERSAL in belief.scopes:
        kind = Kind.PREFERENCE if belief.type == "preference" else Kind.CONTEXT
        layer = Layer.USER
    return Statement(
        text=belief.content,
        kind=kind,
        layer=layer,
        key=last.name,
        because=belief.why,
        aliases=belief.aliases,
    )


class Stores:
    """The repositories of all users and scopes, each with what was stated in it."""

    def __init__(self, folder: Path, tree: Path | None, selection: SelectionSettings) -> None:
        self._folder, self._tree, self._selection = folder, tree, selection
        self._id_of_memory: dict[str, str] = {}

    def settings(self, user: str) -> Settings:
        """Return the settings of a user: no model, a store of their own."""
        return Settings(
            judge=JudgeSettings(model="lexical"),
            selection=self._selection,
            index=IndexSettings(git=False),
            store=StoreSettings(user_data_dir=self._folder / user / "own"),
            memory=MemorySettings(),
        )

    def root(self, user: str, scope: str) -> Path:
        """Return the repository of a scope, made at first."""
        name = "anywhere" if scope == UNIVERSAL else scope.replace(":", "-")
        root = self._folder / user / name
        if not root.exists():
            if self._tree is None:
                root.mkdir(parents=True)
            else:
                shutil.copytree(self._tree, root, ignore=shutil.ignore_patterns(".git"))
            (root / ".git").mkdir(exist_ok=True)
        return root

    def state(self, beliefs: Mapping[str, Belief]) -> None:
        """State every belief that is not settled."""
        for belief in beliefs.values():
            if belief.is_settled:
                continue
            for scope in belief.scopes:
                self._state(belief, statement_of(beliefs, belief), scope)

    def _state(self, belief: Belief, statement: Statement, scope: str) -> None:
        settings = self.settings(belief.user)
        root = find_root(self.root(belief.user, scope))
        with Store.open(root, user_data_dir=settings.store.user_data_dir) as store:
            stored = remember(store, statement)
        self._id_of_memory[stored.memory.id] = belief.id

    async def ask(self, case: Case, beliefs: Mapping[str, Belief]) -> Shown:
        """Return what a query shows in its scopes, the best first, without what is pinned."""
        score_of_id: dict[str, float] = {}
        for scope in case.scopes:
            root = self.root(case.user, scope)
            try:
                async with Pipeline.open(root, self.settings(case.user)) as pipeline:
                    answer = await pipeline.context(Turn(task=case.query))
            except UsageError:
                continue  # an empty query is refused
            for entry in answer.selected:
                belief_id = self._id_of_memory.get(entry.id)
                if belief_id is not None:
                    score_of_id[belief_id] = max(score_of_id.get(belief_id, 0.0), entry.score)
        pinned = [belief for belief in beliefs.values() if belief.is_listed]
        with_query = [belief for belief in pinned if set(belief.scopes) & set(case.scopes)]
        room = max(0, case.most - len(with_query))
        best = sorted(score_of_id, key=lambda id_: (-score_of_id[id_], id_))
        ranked = [id_ for id_ in best if not is_listed(beliefs, id_)]
        return Shown(case, tuple(ranked[:room]))


def mean(values: Iterable[float | None]) -> float:
    """Return the mean of what there is; 0 of nothing."""
    present = [value for value in values if value is not None]
    return statistics.fmean(present) if present else 0.0


def report(shown: Sequence[Shown], *, with_cases: bool) -> None:
    """Print the figures, and what is missed or wrong."""
    if with_cases:
        for result in shown:
            if set(result.ids) == result.case.expected:
                continue
            wrong = sorted(set(result.ids) - result.case.expected)
            missed = sorted(result.case.expected - set(result.ids))
            print(f"{result.case.id}: {result.case.query!r}")
            print(f"    wrong {', '.join(wrong) or '-'}; missed {', '.join(missed) or '-'}")
    expecting = [result for result in shown if result.case.expected]
    silent = [result for result in shown if not result.case.expected]
    print(f"{len(shown)} cases, of which {len(expecting)} expect something")
    print(f"precision {mean(result.precision for result in shown):.3f}")
    print(f"recall {mean(result.recall for result in shown):.3f}")
    where_expected = mean(result.precision for result in expecting)
    print(f"precision where something is expected {where_expected:.3f}")
    nothing = sum(not result.ids for result in silent)
    print(f"nothing shown where nothing is expected: {nothing} of {len(silent)}")


async def measure(options: argparse.Namespace) -> list[Shown]:
    """State the beliefs and ask all queries."""
    beliefs = read_beliefs(options.bench / "beliefs.json")
    cases = read_cases(options.bench / "cases.json", beliefs)
    if options.half is not None:
        cases = cases[options.half :: 2]
    if options.without_aliases:
        beliefs = {id_: replace(belief, aliases=()) for id_, belief in beliefs.items()}
    selection = SelectionSettings()
    if options.threshold is not None:
        selection = convert({"lexical_facts_threshold": options.threshold}, SelectionSettings)
    with tempfile.TemporaryDirectory() as folder:
        stores = Stores(Path(folder), options.tree, selection)
        stores.state(beliefs)
        return [await stores.ask(case, beliefs) for case in cases]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--tree", type=Path)
    parser.add_argument("--threshold", type=float)
    parser.add_argument("--cases", action="store_true", help="print what is missed or wrong")
    parser.add_argument("--without-aliases", action="store_true", help="state none")
    parser.add_argument(
        "--half", type=int, choices=(0, 1), help="every second case, from this one"
    )
    options = parser.parse_args()
    shown = asyncio.run(measure(options))
    report(shown, with_cases=options.cases)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
