"""All that speaks for each file of a repository to change with a change, as one row of figures.

It gathers and weighs nothing: `learned_order` does. Every figure is the same in the benchmark that
learned the weights, which calls this module. Trade-off: a row for each tracked file, also where
nothing speaks for it, because the weights are those of whole lists.
"""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from xscore.extensions.checking.file_links import LinkedFile, linked_files
from xscore.extensions.checking.file_names import FileRole, NameLikeness, name_likeness, role_of
from xscore.extensions.checking.file_words import WordsOfFiles, weigh_files
from xscore.extensions.checking.history import (
    MOST_COMMITS,
    CommitHistory,
    HistoryFigures,
    TogetherFigures,
    history_figures,
)
from xscore.extensions.checking.records import Change
from xscore.platform.git import tracked_files
from xscore.platform.paths import folder_of, portable_name
from xscore.store.fetched_pool import FetchedPool
from xscore.store.index_rows import indexed_files
from xscore.store.store import Store

Figures = tuple[float, ...]
"""The figures of one file, in the order of `FIGURES`."""

FIGURES = (
    "together",
    "together_mean",
    "together_recent",
    "together_commits",
    "folder_together",
    "often",
    "lately",
    "last",
    "words",
    "words_removed",
    "words_place",
    "rarest",
    "like_name",
    "like_path",
    "same_folder",
    "tests",
    "tested",
    "calls",
    "called",
    "names",
    "named",
    "imports",
    "imported",
    "near",
    "is_test",
    "is_document",
    "is_settings",
)
"""What is known about each file."""


class Situation(Struct, frozen=True):
    """What holds for a change as a whole."""

    files: int
    """Files that it changes."""
    candidates: int
    commits: int
    """Past commits that were learned from."""
    companion_commits: int
    """The number of past commits of the changed file that has most."""
    best_together: float
    """Largest share of co-change of any file."""
    most_words: float
    """BM25 of the file with most words in common."""
    has_code: bool
    has_test: bool
    has_document: bool
    has_settings: bool
    more_with_all: float
    """Log odds that a past commit of all changed files had another file, too."""
    more_with_half: float
    """Log odds that a past commit of at least half of the changed files had another file,
    too."""
    more_of_size: float
    """Log odds that a past commit had more files, not as many."""


class ChangeEvidence(Struct, frozen=True):
    """The evidence of all files for one change."""

    paths: Sequence[str]
    values: Sequence[Figures]
    """One for each path."""
    situation: Situation
    history: HistoryFigures
    words: WordsOfFiles
    links: Mapping[str, LinkedFile]
    likeness: Mapping[str, NameLikeness]


def gather_evidence(
    store: Store, pool: FetchedPool, change: Change, history: CommitHistory
) -> ChangeEvidence:
    """Return what speaks for each file that the change leaves as it is.

    pool: with its term vectors.
    """
    paths = other_files(store, change)
    path_of: dict[str, str] = {}
    for candidate in pool.candidates:
        for id_ in (candidate.id, *candidate.duplicates):
            path_of[id_] = candidate.path
    figures = history_figures(history, change.paths)
    words = weigh_files(change, paths, path_of, pool.terms)
    links = linked_files(store, change, pool.candidates)
    likeness = name_likeness(paths, change.paths)
    situation = _situation(change, paths, figures, words)
    values = _rows(paths, change, figures=figures, words=words, links=links, likeness=likeness)
    return ChangeEvidence(paths, values, situation, figures, words, links, likeness)


def other_files(store: Store, change: Change) -> list[str]:
    """Return the files that the change does not touch, sorted: tracked ones, or those indexed."""
    paths = set(indexed_files(store.connection))
    if store.root.is_git:
        paths.update(map(portable_name, tracked_files(store.root.path)))
    return sorted(paths - change.paths)


def _situation(
    change: Change, paths: Sequence[str], figures: HistoryFigures, words: WordsOfFiles
) -> Situation:
    went_on = figures.completeness
    roles = {role_of(file.path) for file in change.files}
    shares = [together.best for together in figures.together.values()]
    companions = [together.companion_commits for together in figures.together.values()]
    return Situation(
        files=len(change.files),
        candidates=len(paths),
        commits=figures.commits,
        companion_commits=max(companions, default=0),
        best_together=max(shares, default=0.0),
        most_words=max(words.amounts.values(), default=0.0),
        has_code=FileRole.CODE in roles,
        has_test=FileRole.TEST in roles,
        has_document=FileRole.DOCUMENT in roles,
        has_settings=FileRole.SETTINGS in roles,
        more_with_all=_log_odds(
            went_on.with_all - went_on.with_all_alone, went_on.with_all_alone
        ),
        more_with_half=_log_odds(
            went_on.with_half - went_on.with_half_alone, went_on.with_half_alone
        ),
        more_of_size=_log_odds(went_on.larger, went_on.as_large),
    )


def _log_odds(count: int, opposite: int) -> float:
    return math.log((count + 1) / (opposite + 1))


def _rows(
    paths: Sequence[str],
    change: Change,
    *,
    figures: HistoryFigures,
    words: WordsOfFiles,
    links: Mapping[str, LinkedFile],
    likeness: Mapping[str, NameLikeness],
) -> list[Figures]:
    folders = set(map(folder_of, change.paths))
    of_words = _figures_of_words(words)
    no_words = (0.0, 0.0, 0.0, 0.0)
    rows: list[Figures] = []
    for path in paths:
        like = likeness.get(path, NameLikeness())
        role = role_of(path)
        rows.append(
            (
                *_figures_of_history(figures, path),
                *of_words.get(path, no_words),
                like.of_name,
                like.of_path,
                float(folder_of(path) in folders),
                *_figures_of_links(links.get(path, LinkedFile())),
                float(role is FileRole.TEST),
                float(role is FileRole.DOCUMENT),
                float(role is FileRole.SETTINGS),
            )
        )
    return rows


def _figures_of_history(figures: HistoryFigures, path: str) -> Figures:
    together = figures.together.get(path, TogetherFigures())
    return (
        together.best,
        together.mean,
        together.recent,
        math.log1p(together.commits),
        figures.folders.get(folder_of(path), 0.0),
        figures.often.get(path, 0.0),
        math.log1p(figures.lately.get(path, 0)),
        1 / (1 + figures.last.get(path, MOST_COMMITS) / 10),
    )


def _figures_of_words(words: WordsOfFiles) -> dict[str, Figures]:
    highest = max(words.amounts.values(), default=0.0) or 1.0
    highest_removed = max(words.amounts_removed.values(), default=0.0) or 1.0
    best_first = sorted(words.amounts, key=lambda path: (-words.amounts[path], path))
    figures: dict[str, Figures] = {}
    for place, path in enumerate(best_first):
        removed = words.amounts_removed.get(path, 0.0) / highest_removed
        rarest = words.rarest.get(path, 0.0)
        figures[path] = (words.amounts[path] / highest, removed, 1 / (1 + place), rarest)
    return figures


def _figures_of_links(linked: LinkedFile) -> Figures:
    return (
        math.log1p(linked.tests),
        math.log1p(linked.tested),
        math.log1p(linked.calls),
        math.log1p(linked.called),
        math.log1p(linked.names),
        math.log1p(linked.named),
        math.log1p(linked.imports),
        math.log1p(linked.imported),
        math.log1p(linked.near),
    )
