"""What changed together before: commits with their files, and the figures mined from them.

git is asked once for a base commit; the store keeps what it said, so that the next check of the
same base asks nothing. Commits of more than 30 files say nothing about two of them and are left
out; a commit of few files says more than one of many (weight 1 / ln(1 + files)). Trade-off: only
the newest commits are read, so a pair that last changed together long ago is forgotten.
"""

import math
import sqlite3
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from xscore.platform.database import transaction
from xscore.platform.git_log import PastCommit, commits_with_files
from xscore.platform.paths import RepositoryRoot, folder_of, portable_name
from xscore.store.index_rows import read_index_meta, write_index_meta

MOST_COMMITS = 2_000
LARGEST_COMMIT = 30
"""Files of the largest commit that is learned from."""
LATELY = 100
"""How many of the newest commits count as recent."""
HALVED_AFTER = 200
"""Commits after which one weighs half in `recent`."""
PRIOR_WEIGHT = 1.0
"""Added to the weight of a file's commits, so that one commit proves little."""
_META_KEY = "check_history"


class CommitHistory(Struct, frozen=True):
    """Past commits, newest first, merges and huge ones left out."""

    base: str = ""
    commits: tuple[PastCommit, ...] = ()
    read: int = 0
    """Number of commits that git listed."""


class TogetherFigures(Struct, frozen=True):
    """How one file changed with the files of a change."""

    best: float = 0.0
    """Largest share, over the changed files, of a file's weighted commits that touched it too."""
    mean: float = 0.0
    """The same share on average."""
    recent: float = 0.0
    """The largest share if a commit weighs half after 200 later ones."""
    commits: int = 0
    """How many commits touched it and a changed file."""
    companion: str = ""
    """The changed file of the largest share."""
    companion_commits: int = 0
    """Number of commits that touched the companion."""
    companion_together: int = 0
    """Number of commits that touched both."""


class _Weight(NamedTuple):
    """Weight and number of some commits."""

    amount: float = 0.0
    recent: float = 0.0
    commits: int = 0

    def plus(self, amount: float, fading: float) -> "_Weight":
        """Return it with one commit more. fading: how much a commit of that age still counts."""
        return _Weight(self.amount + amount, self.recent + amount * fading, self.commits + 1)


class Completeness(Struct, frozen=True):
    """How past commits like the change went on: numbers of commits."""

    with_all: int = 0
    """Commits that touched every changed file."""
    with_all_alone: int = 0
    """Commits that touched every changed file and no other."""
    with_half: int = 0
    """Commits that touched at least half of the changed files."""
    with_half_alone: int = 0
    """Commits that touched at least half of the changed files and no other."""
    larger: int = 0
    """Commits of more files than the change."""
    as_large: int = 0


class HistoryFigures(Struct, frozen=True):
    """What the history says about a change."""

    together: Mapping[str, TogetherFigures] = {}
    """Figures by path; a file that never changed with one of the change is missing."""
    often: Mapping[str, float] = {}
    """Share of the commits that touched a file, by path."""
    lately: Mapping[str, int] = {}
    """How many of the newest commits touched it."""
    last: Mapping[str, int] = {}
    """How many commits came after the last that touched it."""
    folders: Mapping[str, float] = {}
    """Largest share, by folder, of a changed file's weighted commits that touched the folder
    too."""
    commits: int = 0
    completeness: Completeness = Completeness()


def read_history(
    connection: sqlite3.Connection, root: RepositoryRoot, base: str, *, keep: bool = True
) -> CommitHistory:
    """Return the commits that a base commit contains; empty without git.

    keep: store what git says, for the next check of this base.
    """
    if not (base and root.is_git):
        return CommitHistory()
    stored = _decode(read_index_meta(connection, _META_KEY))
    if stored is not None and stored.base == base:
        return stored
    listed = commits_with_files(root.path, base, limit=MOST_COMMITS)
    commits: list[PastCommit] = []
    for commit in listed:
        if 0 < len(commit.files) <= LARGEST_COMMIT:
            files = tuple(sorted({portable_name(name) for name in commit.files}))
            commits.append(PastCommit(commit.committed_at, files))
    history = CommitHistory(base, tuple(commits), len(listed))
    if keep:
        with transaction(connection):
            write_index_meta(connection, _META_KEY, _encode(history))
    return history


def _encode(history: CommitHistory) -> str:
    return b64encode(zlib.compress(msgspec.msgpack.encode(history))).decode()


def _decode(written: str) -> CommitHistory | None:
    """Return what was stored; None if that is nothing, or not what this version writes."""
    if not written:
        return None
    try:
        data = zlib.decompress(b64decode(written, validate=True))
        return msgspec.msgpack.decode(data, type=CommitHistory)
    except (ValueError, zlib.error, msgspec.DecodeError):
        return None


def history_figures(history: CommitHistory, changed: Iterable[str]) -> HistoryFigures:
    """Return what the history says about a change of these files."""
    changed_paths = frozenset(changed)
    counts: dict[str, int] = {}
    lately: dict[str, int] = {}
    last: dict[str, int] = {}
    # For each changed file: its commits, and those with each other file and folder.
    weight_of = dict.fromkeys(changed_paths, _Weight())
    pairs: dict[str, dict[str, _Weight]] = {path: {} for path in changed_paths}
    folders: dict[str, dict[str, _Weight]] = {path: {} for path in changed_paths}
    commits_of: dict[str, int] = {}
    for place, commit in enumerate(history.commits):
        weight = 1 / math.log1p(len(commit.files))
        fading = 0.5 ** (place / HALVED_AFTER)
        touched = changed_paths.intersection(commit.files)
        for path in commit.files:
            counts[path] = counts.get(path, 0) + 1
            last.setdefault(path, place)
            if place < LATELY:
                lately[path] = lately.get(path, 0) + 1
            if touched:
                commits_of[path] = commits_of.get(path, 0) + 1
        for path in touched:
            weight_of[path] = weight_of[path].plus(weight, fading)
            companions = [name for name in commit.files if name != path]
            _add_all(pairs[path], companions, weight, fading)
            _add_all(folders[path], set(map(folder_of, companions)), weight, fading)
    total = max(len(history.commits), 1)
    often = {path: count / total for path, count in counts.items()}
    together = _together(weight_of, pairs, commits_of)
    by_folder = _best_shares(weight_of, folders)
    completeness = _completeness(history, changed_paths)
    commits = len(history.commits)
    return HistoryFigures(together, often, lately, last, by_folder, commits, completeness)


def _completeness(history: CommitHistory, changed: frozenset[str]) -> Completeness:
    with_all = with_all_alone = with_half = with_half_alone = larger = as_large = 0
    for commit in history.commits:
        files = len(commit.files)
        common = len(changed.intersection(commit.files))
        larger += files > len(changed)
        as_large += files == len(changed)
        if common == len(changed):
            with_all += 1
            with_all_alone += files == common
        if common and 2 * common >= len(changed):
            with_half += 1
            with_half_alone += files == common
    return Completeness(with_all, with_all_alone, with_half, with_half_alone, larger, as_large)


def _add_all(
    weights: dict[str, _Weight], names: Iterable[str], amount: float, fading: float
) -> None:
    for name in names:
        weights[name] = weights.get(name, _Weight()).plus(amount, fading)


def _best_shares(
    weight_of: Mapping[str, _Weight], together: Mapping[str, Mapping[str, _Weight]]
) -> dict[str, float]:
    best: dict[str, float] = {}
    for path, weights in together.items():
        for name, weight in weights.items():
            share = weight.amount / (weight_of[path].amount + PRIOR_WEIGHT)
            best[name] = max(best.get(name, 0.0), share)
    return best


def _together(
    weight_of: Mapping[str, _Weight],
    pairs: Mapping[str, Mapping[str, _Weight]],
    commits_of: Mapping[str, int],
) -> dict[str, TogetherFigures]:
    shares: dict[str, dict[str, float]] = {}
    recent: dict[str, float] = {}
    with_history = [path for path, weight in weight_of.items() if weight.commits]
    for path in with_history:
        for name, weight in pairs[path].items():
            share = weight.amount / (weight_of[path].amount + PRIOR_WEIGHT)
            shares.setdefault(name, {})[path] = share
            recent_share = weight.recent / (weight_of[path].recent + PRIOR_WEIGHT)
            recent[name] = max(recent.get(name, 0.0), recent_share)
    figures: dict[str, TogetherFigures] = {}
    for name, by_changed in shares.items():
        companion = max(sorted(by_changed), key=by_changed.__getitem__)
        figures[name] = TogetherFigures(
            best=by_changed[companion],
            mean=sum(by_changed.values()) / len(with_history),
            recent=recent[name],
            commits=commits_of.get(name, 0),
            companion=companion,
            companion_commits=weight_of[companion].commits,
            companion_together=pairs[companion][name].commits,
        )
    return figures
