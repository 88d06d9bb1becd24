"""Commits of real repositories with one file withheld, and what the check gathers for each.

A commit is checked out over its parent, all but one of its files, in a clone of the given one;
the index and the evidence are those of the command. What was gathered is
kept in the cache folder, by repository. Not a benchmark itself.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple
from trees import check_out, clone_without_files, run_git

from xscore.extensions.checking.change import change_since
from xscore.extensions.checking.evidence import ChangeEvidence, Figures, gather_evidence
from xscore.extensions.checking.history import read_history
from xscore.indexer.index import index_repository
from xscore.platform.paths import find_root
from xscore.settings import IndexSettings
from xscore.store.store import Store

MOST_FILES = 30
LEAST_BEFORE = 100
"""Commits that must lie before one that is asked about."""
WITHHELD = 3
"""Most files of a commit that are withheld in turn: the first is measured, all are learned from."""


class CheckCase(Struct, frozen=True):
    """A commit, and the files of it that its parent has."""

    commit: str
    parent: str
    withheld: tuple[str, ...]


class CheckList(Struct, frozen=True):
    """The evidence of all files for a commit without one of its files."""

    repository: str
    commit: str
    turn: int
    """Which of the withheld files; −1: none is missing."""
    gold: int
    """Row of the withheld file; −1: none."""
    values: Sequence[Figures]
    situation: Sequence[float]
    """Fields of `Situation` in their order."""


def choose_cases(clone: Path, count: int, *, single: bool) -> list[CheckCase]:
    """Return commits of 2 to 30 files, evenly spread over the newest 2,000, oldest first.

    single: those of one file instead, of which nothing can be withheld.
    """
    form = ("--no-merges", "--no-renames", "--name-status", "--format=%x01%H %P")
    listed = run_git(clone, "log", "-n2000", *form, "HEAD").split("\x01")[1:]
    cases: list[CheckCase] = []
    for entry in listed[: max(len(listed) - LEAST_BEFORE, 0)]:
        head, *lines = entry.strip().split("\n")
        commit, *parents = head.split()
        fields = [line.split("\t") for line in lines if "\t" in line]
        modified = [
            name for status, name in fields if status == "M" and not name.startswith('"')
        ]
        if len(parents) != 1 or not modified:
            continue
        if single and len(fields) == 1:
            cases.append(CheckCase(commit, parents[0], ()))
        elif not single and 2 <= len(fields) <= MOST_FILES:
            in_turn = sorted(modified, key=lambda name: _hashed(commit, name))
            cases.append(CheckCase(commit, parents[0], tuple(in_turn[:WITHHELD])))
    step = max(len(cases) // count, 1)
    return cases[::step][:count][::-1]


def _hashed(commit: str, name: str) -> str:
    return hashlib.blake2b(f"{commit} {name}".encode(errors="replace")).hexdigest()


def gather_lists(
    clone: Path, count: int, cache: Path, *, single: bool = False
) -> list[CheckList]:
    """Return the lists of a repository, from the cache where they are there.

    single: see `choose_cases`.
    """
    kept = cache / f"{clone.name}-{'single-' * single}{count}.npz"
    if not kept.exists():
        lists = list(_gather(clone, choose_cases(clone, count, single=single), cache))
        arrays: dict[str, Any] = {}
        for number, entry in enumerate(lists):
            arrays[f"values{number}"] = np.array(entry.values, dtype=np.float32)
            arrays[f"about{number}"] = np.array([entry.turn, entry.gold, *entry.situation])
        commits = np.array([entry.commit for entry in lists])
        np.savez_compressed(kept, commits=commits, **arrays)
    return list(_read(kept, clone.name))


def _read(kept: Path, repository: str) -> Iterator[CheckList]:
    with np.load(kept) as arrays:
        for number, commit in enumerate(arrays["commits"]):
            turn, gold, *situation = arrays[f"about{number}"].tolist()
            values = [tuple(row) for row in arrays[f"values{number}"].tolist()]
            yield CheckList(
                repository, str(commit), int(turn), int(gold), values, tuple(situation)
            )


def _gather(clone: Path, cases: Sequence[CheckCase], cache: Path) -> Iterator[CheckList]:
    tree = cache / "trees" / f"{clone.name}-{os.getpid()}"
    shutil.rmtree(tree, ignore_errors=True)
    tree.parent.mkdir(parents=True, exist_ok=True)
    clone_without_files(clone, tree, reads_history=True)
    for case in cases:
        check_out(tree, case.commit)
        run_git(tree, "reset", "-q", "--soft", case.parent)
        yield _list_of(clone.name, tree, cache, (case, -1))
        for turn, name in enumerate(case.withheld):
            run_git(tree, "checkout", "-q", case.parent, "--", name)
            yield _list_of(clone.name, tree, cache, (case, turn))
            run_git(tree, "checkout", "-q", case.commit, "--", name)
    shutil.rmtree(tree, ignore_errors=True)


def _list_of(
    repository: str, tree: Path, cache: Path, case_and_turn: tuple[CheckCase, int]
) -> CheckList:
    case, turn = case_and_turn
    evidence = evidence_at(tree, cache)
    name = case.withheld[turn] if turn >= 0 else ""
    gold = list(evidence.paths).index(name) if name in evidence.paths else -1
    situation = tuple(map(float, astuple(evidence.situation)))
    return CheckList(repository, case.commit, turn, gold, evidence.values, situation)


def evidence_at(tree: Path, cache: Path) -> ChangeEvidence:
    """Index a tree and gather the evidence for what is not committed in it."""
    root = find_root(tree)
    with closing(Store.open(root, user_data_dir=cache / "user", user_learning=False)) as store:
        index_repository(store.connection, root, IndexSettings(), now=time.time())
        change = change_since(root, "HEAD")
        history = read_history(store.connection, root, change.base)
        pool = store.fetch(tests="full", with_terms=True)
        return gather_evidence(store, pool, change, history)
