"""Select from a ranking by the threshold: everything that reaches it, up to K.

If more reach it, tests take at most their share of K, because tests crowd out the code they test;
commits, fetched documents and what files show of conventions take a few places, unless the task
asks for them: the code is what most tasks are about. What a person stated is not limited. Pure.
Trade-off: what a task is about is inferred from its words alone.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from enum import Enum, auto
from heapq import nlargest, nsmallest

from xscore.pipeline.turn_stages import by_rank
from xscore.records.candidates import Candidate
from xscore.records.judgment import (
    SCORE_TOLERANCE,
    PlacedBy,
    Ranked,
    Selection,
    Thresholds,
    Unjudged,
)
from xscore.records.memory import PRODUCT_CODE_KINDS, Kind
from xscore.records.turn import Turn
from xscore.settings import SelectionSettings

FEWEST_NEAR_MISSES, MOST_NEAR_MISSES = 10, 500
"""How many near misses are listed, however far below the threshold, and however many passed."""
COMMIT_PLACES = 3
"""Most places that commits take where the task does not ask for them."""
COMMIT_SHARE = 0.2
"""Share of the best score of code that a commit needs for a place where the task does not ask
for commits."""
DOCUMENT_PLACES = 4
"""Most places that passages of fetched documents take where the task does not ask for them."""
CONVENTION_PLACES = 2
"""Most places that conventions and parts of the stack that files show take where the task does not
ask for them."""
_ASKS_FOR_HISTORY = (
    r"(?i)\b(?:why|who|since when|blame|commits?|history|when (?:was|were|did|has|have)"
    r"|(?:which|what) (?:change|release|version)|introduced (?:in|by)|regress\w*)\b"
)
_ASKS_HOW_WORK_IS_DONE = (
    r"(?i)\b(?:how|where|which|what|command|please)\b.{0,60}\b(?:run|runs|build|built|builds|test"
    r"|tests|tested|lint\w*|format\w*|type.?check\w*|install\w*|set ?up|named?|naming|deploy\w*)\b"
    r"|\b(?:conventions?|code style|coding style|tech stack|our stack|naming|project layout)\b"
    r"|\b(?:run|execute) (?:all |the )*(?:unit )?(?:tests|test suite|linters?)\b"
    r"|\b(?:test|build|lint|format|install) commands?\b"
)
_ASKS_FOR_DOCUMENTS = (
    r"(?i)https?://|\b(?:docs?|documents?|documentation|documented|manual|guide|handbook|pdf|docx"
    r"|specs?|specification|rfc|standard|paper|web ?page|wiki|according to|release notes)\b"
)
_CONVENTION_KINDS = frozenset({Kind.CONVENTION, Kind.TECH_STACK})
_ABOUT_TESTS = (
    r"(?i)\b(?:unit[ -]?tests?|tests?|testing|test["
    r" -]?suite|pytest|unittest|jest|vitest|mocha|conftest)\b"
)
_TEST_ENDINGS = r"(?:_test|\.test|\.spec|Tests?)\.\w+$"


class _LimitedGroup(Enum):
    """What shares a number of places."""

    COMMITS = auto()
    DOCUMENTS = auto()
    CONVENTIONS = auto()


def select(
    ranked: Sequence[Ranked],
    *,
    unjudged: Sequence[tuple[Candidate, Unjudged]] = (),
    thresholds: Thresholds,
    settings: SelectionSettings,
    about_tests: bool = False,
    finalists: AbstractSet[str] | None = None,
    turn: Turn | None = None,
) -> Selection:
    """Keep `score >= threshold` (inclusive), at most `top_k`; fill up to `min_keep` from the best
    of the others.

    thresholds: of `settings.threshold`, or the judge's own where its scale differs
        (`settings.lexical_threshold`).
    about_tests: the task is about tests, so their share is not limited.
    finalists: ids of what a final round looked at: nothing else is kept for its score. None: there
        was none.
    turn: decides how many places commits, documents and conventions may take; None: as many as they
        reach.
    """
    passing, below = split_at_threshold(ranked, thresholds)
    # First, or commits that it did not look at would take the places of those that it did.
    passing, unseen = _split_by_final_round(passing, finalists)
    passing, without_places = within_limited_places(passing, turn, top_k=settings.top_k)
    kept, over_quota, beyond = _split_top_k(passing, settings, about_tests=about_tests)
    over_quota = [*over_quota, *without_places]
    beyond += unseen
    not_kept = sorted([*over_quota, *beyond], key=by_rank)
    not_kept += _best_below(below, thresholds, settings)
    filled, not_kept = split_for_min_keep(not_kept, len(kept), settings)
    kept = sorted([*kept, *filled], key=by_rank)
    filled_ids = frozenset(ids_of(filled))
    # Fillers over the quota or beyond K passed all the same.
    _, fillers_below = split_at_threshold(filled, thresholds)
    below_ids = frozenset(ids_of(fillers_below))
    placed_by = dict.fromkeys(ids_of(kept), PlacedBy.THRESHOLD)
    placed_by |= dict.fromkeys(below_ids, PlacedBy.MIN_KEEP)
    return Selection(
        kept=tuple(kept),
        filled=below_ids,
        placed_by=placed_by,
        near_misses=near_misses_of(not_kept, thresholds, settings),
        thresholds=thresholds,
        near_margin=settings.near_margin,
        below_threshold=_count_without(below, filled_ids),
        over_quota=_count_without(over_quota, filled_ids),
        beyond_k=_count_without(beyond, filled_ids),
        unjudged=tuple(unjudged),
    )


def _best_below(
    below: Sequence[Ranked], thresholds: Thresholds, settings: SelectionSettings
) -> list[Ranked]:
    """Return the best below the threshold: all that are near it, and a few however far from it."""
    least_close = thresholds.lowest - SCORE_TOLERANCE - settings.near_margin
    close = [entry for entry in below if entry.score >= least_close]
    fewest = settings.min_keep + FEWEST_NEAR_MISSES
    if len(close) < fewest:
        return best_of(below, fewest)
    return nsmallest(settings.min_keep + MOST_NEAR_MISSES, close, key=by_rank)


def _split_by_final_round(
    passing: list[Ranked], finalists: AbstractSet[str] | None
) -> tuple[list[Ranked], list[Ranked]]:
    """Split what passed into what a final round looked at, and the others; None if there was
    none."""
    if finalists is None:
        return passing, []
    seen = [entry for entry in passing if entry.candidate.id in finalists]
    unseen = [entry for entry in passing if entry.candidate.id not in finalists]
    return seen, unseen


def split_for_min_keep(
    best_first: Sequence[Ranked], kept: int, settings: SelectionSettings
) -> tuple[list[Ranked], list[Ranked]]:
    """Split what was not kept into what fills up to `min_keep`, and the others. kept: how many
    were."""
    missing = max(0, min(settings.min_keep, settings.top_k) - kept)
    return list(best_first[:missing]), list(best_first[missing:])


def ids_of(entries: Sequence[Ranked]) -> list[str]:
    """Return the ids of their candidates."""
    return [entry.candidate.id for entry in entries]


def split_at_threshold(
    ranked: Sequence[Ranked], thresholds: Thresholds
) -> tuple[list[Ranked], list[Ranked]]:
    """Return what reached the threshold of its kind, best first, and the others."""
    least = thresholds.lowest - SCORE_TOLERANCE
    passing: list[Ranked] = []
    below: list[Ranked] = []
    for entry in ranked:
        # Few reach the lowest threshold: only they are compared by their kind.
        if entry.score >= least and thresholds.reached_by(entry.candidate, entry.score):
            passing.append(entry)
        else:
            below.append(entry)
    return sorted(passing, key=by_rank), below


def near_misses_of(
    not_kept: Sequence[Ranked], thresholds: Thresholds, settings: SelectionSettings
) -> tuple[Ranked, ...]:
    """Return the first of what was not kept: some however far below, then only what is near."""
    first = not_kept[:FEWEST_NEAR_MISSES]
    further = not_kept[FEWEST_NEAR_MISSES:MOST_NEAR_MISSES]
    near = [
        entry
        for entry in further
        if thresholds.reached_by(entry.candidate, entry.score + settings.near_margin)
    ]
    return (*first, *near)


def is_about_tests(turn: Turn) -> bool:
    """Return whether a task mentions tests or is asked from a test file."""
    name = turn.file.rpartition("/")[2]
    if name and (name.startswith(("test_", "tests.")) or re.search(_TEST_ENDINGS, name)):
        return True
    return bool(re.search(_ABOUT_TESTS, turn.task))


def _count_without(entries: Sequence[Ranked], ids: AbstractSet[str]) -> int:
    if not ids:
        return len(entries)
    return sum(entry.candidate.id not in ids for entry in entries)


def best_of(below: Sequence[Ranked], count: int) -> list[Ranked]:
    """Return the best of many, in order, without sorting them all."""
    scores = [entry.score for entry in below]
    least = min(nlargest(count, scores), default=0.0)
    best = [entry for entry in below if entry.score >= least]
    return nsmallest(count, best, key=by_rank)


def _split_top_k(
    passing: Sequence[Ranked], settings: SelectionSettings, *, about_tests: bool
) -> tuple[list[Ranked], list[Ranked], list[Ranked]]:
    """Split what passes into kept, over the tests' share, and beyond K."""
    k = settings.top_k
    if len(passing) <= k:
        return list(passing), [], []
    if about_tests:
        most_tests = k
    else:
        most_tests = math.floor(k * settings.tests_share + SCORE_TOLERANCE)
    kept: list[Ranked] = []
    over_quota: list[Ranked] = []
    beyond: list[Ranked] = []
    tests = 0
    for entry in passing:
        is_test = entry.candidate.kind is Kind.TEST
        if len(kept) == k:
            beyond.append(entry)
        elif is_test and tests == most_tests:
            over_quota.append(entry)
        else:
            tests += is_test
            kept.append(entry)
    free = k - len(kept)  # a share holds only while something else wants the places
    return sorted(kept + over_quota[:free], key=by_rank), over_quota[free:], beyond


def within_limited_places(
    passing: Sequence[Ranked], turn: Turn | None, *, top_k: int
) -> tuple[list[Ranked], list[Ranked]]:
    """Split what passed, best first, into what may have a place and what is beyond its group's
    places.

    turn: None: each group may take as many as it reaches.
    """
    if turn is None:
        return list(passing), []
    may_stay: list[Ranked] = []
    further: list[Ranked] = []
    taken = Counter[_LimitedGroup]()
    places: dict[_LimitedGroup, int] = {}
    least_of_commit = least_score_of_commit(
        _best_score_of_code(passing), turn.task, turn.scope.kinds
    )
    for ranked in passing:
        group = _group_of(ranked.candidate)
        if group is None:
            may_stay.append(ranked)
            continue
        if group not in places:
            places[group] = _places_of(group, turn, top_k=top_k)
        taken[group] += 1
        is_weak_commit = group is _LimitedGroup.COMMITS and ranked.score < least_of_commit
        if is_weak_commit or taken[group] > places[group]:
            further.append(ranked)
        else:
            may_stay.append(ranked)
    return may_stay, further


def least_score_of_commit(best_of_code: float, task: str, kinds: Sequence[str]) -> float:
    """Return the score that a commit needs for a place: one far below the code that passed says
    little about where to look. It is 0 where the task or its scope asks for commits.

    best_of_code: the best score of code that passed; 0: none did.
    kinds: those of the turn's scope.
    """
    if Kind.COMMIT in kinds or re.search(_ASKS_FOR_HISTORY, task):
        return 0.0
    return COMMIT_SHARE * best_of_code


def _best_score_of_code(best_first: Sequence[Ranked]) -> float:
    for ranked in best_first:
        if ranked.candidate.kind in PRODUCT_CODE_KINDS:
            return ranked.score
    return 0.0


def _group_of(candidate: Candidate) -> _LimitedGroup | None:
    if candidate.kind is Kind.COMMIT:
        return _LimitedGroup.COMMITS
    if candidate.kind is Kind.DOCUMENT:
        return _LimitedGroup.DOCUMENTS
    if candidate.is_inferred and candidate.kind in _CONVENTION_KINDS:
        return _LimitedGroup.CONVENTIONS
    return None


def _places_of(group: _LimitedGroup, turn: Turn, *, top_k: int) -> int:
    """Return how many places a group may take."""
    match group:
        case _LimitedGroup.COMMITS:
            return _places(turn, {Kind.COMMIT}, _ASKS_FOR_HISTORY, COMMIT_PLACES, top_k=top_k)
        case _LimitedGroup.DOCUMENTS:
            return _places(
                turn, {Kind.DOCUMENT}, _ASKS_FOR_DOCUMENTS, DOCUMENT_PLACES, top_k=top_k
            )
        case _LimitedGroup.CONVENTIONS:
            return _places(
                turn, _CONVENTION_KINDS, _ASKS_HOW_WORK_IS_DONE, CONVENTION_PLACES, top_k=top_k
            )


def _places(
    turn: Turn, kinds: "frozenset[Kind] | set[Kind]", asks_for: str, few: int, *, top_k: int
) -> int:
    """Return how many places these kinds may take: few, half where the task asks for them, all
    where its scope names them."""
    if not kinds.isdisjoint(turn.scope.kinds):
        return top_k
    if re.search(asks_for, turn.task):
        return max(few, top_k // 2)
    return few
