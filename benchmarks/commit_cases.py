"""Commits of real repositories as questions: the message asks, the functions that the commit
changed are the answer.

Given DIR/commits.jsonl and clones of the repositories, each tree is written once into the
cache, with its store, and asked by the pipeline without a key. Questions about things that a
repository does not have are in a data file, so that no index of this repository contains them.
Not a benchmark itself.
"""

import asyncio
import csv
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from trees import as_repository, checked_out

from xscore.pipeline.build import Pipeline
from xscore.pipeline.parts import TurnOptions
from xscore.pipeline.turn import run_turn
from xscore.pipeline.turn_stages import Ranking
from xscore.records.candidates import Candidate
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import JudgeSettings, Settings, StoreSettings

Asked = TypeVar("Asked")
Place = tuple[str, int, int, str]
"""Path, first and last line, and name."""
ABSENT = Path(__file__).with_name("keyless_absent.csv")
"""Repository and question, a line each."""


class CommitCase(Struct, frozen=True):
    """One commit, at its parent."""

    id: str
    repository: str
    commit: str
    task: str
    gold: tuple[Mapping[str, Any], ...]
    """`{path, name, start, end}` of each function or class that changed."""

    @property
    def gold_files(self) -> frozenset[str]:
        """Paths of what changed."""
        return frozenset(place["path"] for place in self.gold)

    def is_gold(self, path: str, start: int, end: int, name: str = "") -> bool:
        """Whether a place is one of them: by name, or where each covers half of the other."""
        return any(is_same_place(place, path, start, end, name) for place in self.gold)

    def share_of_gold(self, places: Sequence[Place]) -> float:
        """Return the share of what changed that is among these places."""
        gold_there = 0
        for entity in self.gold:
            gold_there += any(is_same_place(entity, *place) for place in places)
        return gold_there / len(self.gold)


class CaseResult(Struct, frozen=True):
    """A case with what the pipeline gave for it."""

    case: CommitCase
    tree: Path
    ranking: Ranking
    answer: Answer
    texts: Mapping[str, str]
    """Whole texts of the chosen memories, by id."""


def is_same_place(
    gold: Mapping[str, Any], path: str, start: int, end: int, name: str = ""
) -> bool:
    """Whether a place is this gold entity."""
    if path != gold["path"]:
        return False
    common = min(end, gold["end"]) - max(start, gold["start"]) + 1
    if name and name.partition("#")[0].replace("::", ".") == gold["name"].partition("#")[
        0
    ].replace("::", "."):
        return common > 0
    return 2 * common >= max(end - start, gold["end"] - gold["start"]) + 1


def read_cases(bench: Path, *, every: int) -> list[CommitCase]:
    """Return every n-th commit of each repository."""
    by_repository: dict[str, list[CommitCase]] = {}
    for line in (bench / "commits.jsonl").open():
        commit = json.loads(line)
        case = CommitCase(
            commit["id"],
            commit["repo"],
            commit["base_commit"],
            commit["query"],
            tuple(commit["gold_entities"]),
        )
        by_repository.setdefault(commit["repo"], []).append(case)
    return [case for cases in by_repository.values() for case in cases[::every]]


def read_absent() -> dict[str, list[str]]:
    """Return the questions about what is not there, by repository."""
    questions: dict[str, list[str]] = {}
    with ABSENT.open(newline="", encoding="utf-8") as lines:
        for repository, question in csv.reader(lines):
            questions.setdefault(repository, []).append(question)
    return questions


def ask_all(cases: Sequence[CommitCase], clones: Path, cache: Path) -> Iterator[CaseResult]:
    """Ask each case of its own tree."""
    for number, case in enumerate(cases):
        tree = tree_of_case(case, clones, cache)
        ranking, answer, texts = asyncio.run(asked(tree, case.task))
        yield CaseResult(case, tree, ranking, answer, texts)
        if sys.stderr.isatty():
            print(f"\r{number + 1} of {len(cases)}", end="", file=sys.stderr)


def tree_of_case(case: CommitCase, clones: Path, cache: Path) -> Path:
    """Return the tree of a case, a repository of its own with one commit: nothing in it is being
    edited."""
    return as_repository(
        checked_out(clones, case.repository, case.commit, cache.resolve() / "commits" / case.id)
    )


Reply = tuple[Ranking, Answer, Mapping[str, str]]
"""The ranking, the answer, and the whole texts of what it kept, by id."""


async def asked(tree: Path, task: str) -> Reply:
    """Ask without a key, as `xscore context` does at its defaults."""
    replies = [reply async for _, reply in answers(tree, [task], task=str)]
    return replies[0]


async def answers(
    tree: Path,
    questions: Sequence[Asked],
    *,
    task: Callable[[Asked], str],
    exchanges: bool = False,
) -> AsyncIterator[tuple[Asked, Reply]]:
    """Ask each question as `asked` does, and open the tree once.

    exchanges: what was asked earlier may be among the answers.
    """
    rankings: list[Ranking] = []
    user = StoreSettings(user_data_dir=tree.parent / "user")
    settings = replace(Settings(), judge=JudgeSettings(model="lexical"), store=user)
    options = TurnOptions(
        answer=False,
        isolated=not exchanges,
        command="context",
        ranked=lambda _turn, ranking: rankings.append(ranking),
    )
    async with Pipeline.open(tree, settings) as pipeline:
        for question in questions:
            answer = await run_turn(pipeline.parts, Turn(task=task(question)), options)
            memories = pipeline.store.memories([chosen.id for chosen in answer.selected])
            yield (
                question,
                (rankings[-1], answer, {id_: memory.text for id_, memory in memories.items()}),
            )


def place_of(candidate: Candidate) -> Place:
    """Return path, lines and name of a candidate, as `CommitCase.is_gold` takes them."""
    return candidate.path, candidate.start_line, candidate.end_line, candidate.entity
