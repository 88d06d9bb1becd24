"""From outcomes to a selection: judge and words joined, boosts, then threshold, tests' share and
top K.

Everything that passes is kept up to K; if more pass, tests take at most their share of K, because
tests crowd out the code they test. Where words ranked, `composition` gives the places. kept +
folded + below + over quota + beyond K + unjudged are all candidates. It does not order the bundle.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import nlargest, nsmallest
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.pipeline.boosts import BoostRules, boost, boosts_by_words
from xscore.pipeline.joining import join
from xscore.pipeline.judge_description import Scale
from xscore.pipeline.limited_places import within_limited_places
from xscore.pipeline.parts import JudgingParts, PipelineParts
from xscore.pipeline.pool import FILE_LAYERS
from xscore.pipeline.turn_stages import Judged, Opened, Ranking, by_rank
from xscore.platform.text import join_sentences
from xscore.records.judgment import (
    FILL,
    SCORE_TOLERANCE,
    FillRules,
    Judgment,
    Origin,
    Outcome,
    PlacedBy,
    Ranked,
    Selection,
    Thresholds,
    Unjudged,
)
from xscore.records.memory import Candidate, Kind
from xscore.records.turn import Turn
from xscore.settings import SelectionSettings

if TYPE_CHECKING:
    from xscore.pipeline.composition import TaskAim
    from xscore.pipeline.words_instead import WordsInstead
    from xscore.store.store import Store

FEWEST_NEAR_MISSES, MOST_NEAR_MISSES = 10, 500
"""How many near misses are listed, however far below the threshold, and however many passed."""

_ABOUT_TESTS = (
    r"(?i)\b(?:unit[ -]?tests?|tests?|testing|test["
    r" -]?suite|pytest|unittest|jest|vitest|mocha|conftest)\b"
)
_TEST_ENDINGS = r"(?:_test|\.test|\.spec|Tests?)\.\w+$"


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
    turn: decides how many places commits and conventions may take; None: as many as they reach.
    """
    passing, below = _split_at_threshold(ranked, thresholds)
    passing, without_places = within_limited_places(passing, turn, top_k=settings.top_k)
    passing, unseen = _split_by_final_round(passing, finalists)
    kept, over_quota, beyond = _within(passing, settings, about_tests=about_tests)
    over_quota = [*over_quota, *without_places]
    beyond += unseen
    not_kept = sorted([*over_quota, *beyond], key=by_rank)
    not_kept += _best_below(below, thresholds, settings)
    filled, not_kept = _split_for_min_keep(not_kept, len(kept), settings)
    kept = sorted([*kept, *filled], key=by_rank)
    filled_ids = frozenset(_ids_of(filled))
    # Fillers over the quota or beyond K passed all the same.
    _, fillers_below = _split_at_threshold(filled, thresholds)
    below_ids = frozenset(_ids_of(fillers_below))
    placed_by = dict.fromkeys(_ids_of(kept), PlacedBy.THRESHOLD)
    placed_by |= dict.fromkeys(below_ids, PlacedBy.MIN_KEEP)
    return Selection(
        kept=tuple(kept),
        filled=below_ids,
        placed_by=placed_by,
        near_misses=_near_misses(not_kept, thresholds, settings),
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
        return _best(below, fewest)
    return nsmallest(settings.min_keep + MOST_NEAR_MISSES, close, key=by_rank)


def select_by_words(
    ranked: Sequence[Ranked],
    *,
    unjudged: Sequence[tuple[Candidate, Unjudged]] = (),
    thresholds: Thresholds,
    settings: SelectionSettings,
    aim: "TaskAim | None" = None,
    texts: Callable[[Sequence[str]], Mapping[str, str]] | None = None,
    rules: FillRules = FILL,
    turn: Turn | None = None,
) -> Selection:
    """Keep what passed and fill free places from what came near; see `composition`.

    aim: None: a question about code.
    texts: reads the texts of memories by id, to tell copies; None: nothing is taken for one.
    turn: decides how many places commits and conventions may take; None: as many as they reach.
    """
    from xscore.pipeline import composition  # nothing else ranks by words

    # Margins are shares of the threshold: scores by words are probabilities, most of them small.
    settings = replace(settings, near_margin=settings.near_margin * thresholds.default)
    passing, not_passing = _split_at_threshold(ranked, thresholds)
    passing, without_places = within_limited_places(passing, turn, top_k=settings.top_k)
    below = _best(_with_words(not_passing), composition.CHOICE)
    places = composition.compose(
        passing,
        below,
        top_k=settings.top_k,
        thresholds=thresholds,
        aim=aim or composition.TaskAim(),
        words=composition.words_of_namesakes([*passing, *below], texts),
        rules=rules,
    )
    rest = composition.one_window_a_file(below, places)
    to_min_keep, rest = _split_for_min_keep(rest, len(places.taken), settings)
    folded = list(chain.from_iterable(places.behind.values()))
    passed_by = sorted([*folded, *places.beyond, *without_places], key=by_rank)
    filled = frozenset(_ids_of([*places.filled, *to_min_keep]))
    by_min_keep = dict.fromkeys(_ids_of(to_min_keep), PlacedBy.MIN_KEEP)
    return Selection(
        kept=composition.with_groups(sorted([*places.taken, *to_min_keep], key=by_rank), places),
        filled=filled,
        near_misses=_near_misses([*passed_by, *rest], thresholds, settings),
        thresholds=thresholds,
        near_margin=settings.near_margin,
        below_threshold=len(not_passing) - len(filled),
        over_quota=len(without_places),
        beyond_k=len(places.beyond),
        unjudged=tuple(unjudged),
        folded=len(folded),
        placed_by={**composition.placed_by(places), **by_min_keep},
    )


def _split_by_final_round(
    passing: list[Ranked], finalists: AbstractSet[str] | None
) -> tuple[list[Ranked], list[Ranked]]:
    """Split what passed into what a final round looked at, and the others; None: there was none."""
    if finalists is None:
        return passing, []
    seen = [entry for entry in passing if entry.candidate.id in finalists]
    unseen = [entry for entry in passing if entry.candidate.id not in finalists]
    return seen, unseen


def _split_for_min_keep(
    best_first: Sequence[Ranked], kept: int, settings: SelectionSettings
) -> tuple[list[Ranked], list[Ranked]]:
    """Split what was not kept into what fills up to `min_keep`, and the others. kept: how many
    were."""
    missing = max(0, min(settings.min_keep, settings.top_k) - kept)
    return list(best_first[:missing]), list(best_first[missing:])


def _ids_of(entries: Sequence[Ranked]) -> list[str]:
    return [entry.candidate.id for entry in entries]


def _with_words(not_passing: Sequence[Ranked]) -> Sequence[Ranked]:
    """Leave out what has no word of the task: as equals, most memories would have to be sorted."""
    with_words = [entry for entry in not_passing if entry.score > 0]
    return with_words if len(with_words) >= FEWEST_NEAR_MISSES else not_passing


def _split_at_threshold(
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


def _near_misses(
    not_kept: Sequence[Ranked], thresholds: Thresholds, settings: SelectionSettings
) -> tuple[Ranked, ...]:
    """Return the first of what was not kept: some however far below, then only what is near."""
    first, further = not_kept[:FEWEST_NEAR_MISSES], not_kept[FEWEST_NEAR_MISSES:MOST_NEAR_MISSES]
    near = [
        entry
        for entry in further
        if thresholds.reached_by(entry.candidate, entry.score + settings.near_margin)
    ]
    return (*first, *near)


def is_about_tests(turn: Turn) -> bool:
    """Return whether a task mentions tests or is asked from a test file."""
    name = turn.file.rpartition("/")[2]
    if name.startswith(("test_", "tests.")) or re.search(_TEST_ENDINGS, name):
        return True
    return bool(re.search(_ABOUT_TESTS, turn.task))


def speaks_of_tests(turn: Turn) -> bool:
    """Return whether the first line of a task mentions tests, or it is asked from a test file."""
    first_line = turn.task.strip().partition("\n")[0]
    return is_about_tests(replace(turn, task=first_line))


def _count_without(entries: Sequence[Ranked], ids: AbstractSet[str]) -> int:
    if not ids:
        return len(entries)
    return sum(entry.candidate.id not in ids for entry in entries)


def _best(below: Sequence[Ranked], count: int) -> list[Ranked]:
    """Return the best of many, in order, without sorting them all."""
    scores = [entry.score for entry in below]
    least = min(nlargest(count, scores), default=0.0)
    best = [entry for entry in below if entry.score >= least]
    return nsmallest(count, best, key=by_rank)


def _within(
    passing: Sequence[Ranked], settings: SelectionSettings, *, about_tests: bool
) -> tuple[list[Ranked], list[Ranked], list[Ranked]]:
    """Split what passes into kept, over the tests' share, and beyond K."""
    k = settings.top_k
    if len(passing) <= k:
        return list(passing), [], []
    share = k if about_tests else math.floor(k * settings.tests_share + SCORE_TOLERANCE)
    kept: list[Ranked] = []
    over_quota: list[Ranked] = []
    beyond: list[Ranked] = []
    tests = 0
    for entry in passing:
        is_test = entry.candidate.kind is Kind.TEST
        if len(kept) == k:
            beyond.append(entry)
        elif is_test and tests == share:
            over_quota.append(entry)
        else:
            tests += is_test
            kept.append(entry)
    free = k - len(kept)  # a share holds only while something else wants the places
    return sorted(kept + over_quota[:free], key=by_rank), over_quota[free:], beyond


def rank_turn(parts: PipelineParts, opened: Opened, judged: Judged, *, isolated: bool) -> Ranking:
    """Rank a turn by its judgments, or by words where its judge's host failed.

    isolated: words never stand in, since an evaluation measures one judge.
    """
    # An earlier judgment, carried over, says more than words.
    may_rank_by_words = judged.nothing_judged and not judged.left_by and not isolated
    if may_rank_by_words:
        from xscore.pipeline.words_instead import words_instead  # most turns are judged

        instead = words_instead(parts, judged)
        if instead is not None:
            return _rank_by_words_instead(parts, opened, judged, instead)
    return rank(parts, judged.outcomes, opened.turn, finalists=judged.finalists)


def _rank_by_words_instead(
    parts: PipelineParts, opened: Opened, judged: Judged, instead: "WordsInstead"
) -> Ranking:
    """Rank a turn by words, and say why no model judged it."""
    from xscore.pipeline.judging_by_words import lexical_outcomes  # only where no model could judge

    outcomes = lexical_outcomes(parts, opened.turn, judged.pool.candidates)
    thresholds = parts.settings.selection.thresholds_of_words
    ranking = rank(parts, outcomes, opened.turn, thresholds=thresholds, by_words=True)
    # What the judge failed with is a warning already; it is not said twice.
    why = "" if judged.no_judge else f"{instead.why}, so no model judged: "
    way_on = f"`xscore continue {opened.turn.id}` has the model judge."
    # The receipt still says what the model left unjudged, and why.
    unjudged = unjudged_pairs(judged.outcomes)
    return replace(
        ranking,
        selection=replace(ranking.selection, unjudged=unjudged),
        ranked_by="lexical",
        unjudged_exit=instead.exit_code,
        warnings=(join_sentences(f"{why}the lexical judge ranked instead", way_on),),
    )


def unjudged_pairs(outcomes: Sequence[Outcome]) -> tuple[tuple[Candidate, Unjudged], ...]:
    """Return the candidates without a judgment."""
    none = Origin.UNJUDGED  # compared first: a fifth of the time of asking each for its type
    return tuple(
        [
            (candidate, absent)
            for candidate, absent, origin in outcomes
            if origin is none and isinstance(absent, Unjudged)
        ]
    )


def rank(
    parts: PipelineParts,
    outcomes: Sequence[Outcome],
    turn: Turn,
    *,
    thresholds: Thresholds | None = None,
    by_words: bool | None = None,
    words_weight: float | None = None,
    finalists: AbstractSet[str] | None = None,
    now: float | None = None,
) -> Ranking:
    """Join, boost and select.

    thresholds: None: the judge's.
    by_words: whether words scored; None: where the judge is not a model.
    words_weight: of what words say beside a model; None: the judge's.
    finalists: see `select`.
    now: Unix seconds; None: the present.
    """
    settings = parts.settings.selection
    thresholds = thresholds or parts.judge.thresholds
    if by_words is None:
        by_words = parts.judge.scale is Scale.WORDS
    if by_words:
        words_weight = 0.0  # they are the score already
    elif words_weight is None:
        words_weight = parts.judge.words_weight
    unboosted = joined(parts, outcomes, turn, words_weight=words_weight)
    ranked = boosted(parts, unboosted, turn, thresholds=thresholds, by_words=by_words, now=now)
    ranked = _later_above_earlier(parts.store, ranked)
    unjudged = unjudged_pairs(outcomes)
    if not by_words:
        selection = select(
            ranked,
            unjudged=unjudged,
            thresholds=thresholds,
            settings=settings,
            about_tests=is_about_tests(turn),
            finalists=finalists,
            turn=turn,
        )
        return Ranking(ranked, selection, words_weight=words_weight)
    selection = _select_of_turn_by_words(parts, ranked, turn, unjudged, thresholds)
    return Ranking(ranked, selection, by_words=True)


def _select_of_turn_by_words(
    parts: PipelineParts,
    ranked: Sequence[Ranked],
    turn: Turn,
    unjudged: Sequence[tuple[Candidate, Unjudged]],
    thresholds: Thresholds,
) -> Selection:
    """Select in the lexical judge's own turn, or where words stand in a model's place."""
    from xscore.pipeline import composition  # nothing else ranks by words

    def texts_of(ids: Sequence[str]) -> dict[str, str]:
        memories = parts.store.memories(ids)
        return {id_: memory.text for id_, memory in memories.items()}

    return select_by_words(
        ranked,
        unjudged=unjudged,
        thresholds=thresholds,
        settings=parts.settings.selection,
        aim=composition.aim_of(turn, about_tests=speaks_of_tests(turn)),
        texts=texts_of,
        turn=turn,
    )


def _later_above_earlier(store: "Store", ranked: tuple[Ranked, ...]) -> tuple[Ranked, ...]:
    """Lift what amends an earlier word above it."""
    spoken = [
        entry for entry in ranked if entry.score > 0 and entry.candidate.layer not in FILE_LAYERS
    ]
    if len(spoken) < 2:
        return ranked
    # Many stores hold nothing that was said.
    from xscore.pipeline.amendments import place_later_words
    from xscore.store.memory_queries import SpokenWords  # nothing else of a turn asks for them

    placed = place_later_words(spoken, SpokenWords(store.connections_of_a_turn()))
    if not placed:
        return ranked
    return tuple([placed.get(entry.candidate.id, entry) for entry in ranked])


def joined(
    parts: JudgingParts, outcomes: Sequence[Outcome], turn: Turn, *, words_weight: float
) -> list[Ranked]:
    """Join what was judged with what words say of it."""
    if words_weight and _lacks_word_scores(outcomes):
        outcomes = _with_word_scores(parts, outcomes, turn)
    return join(outcomes, weight=words_weight)


def _lacks_word_scores(outcomes: Sequence[Outcome]) -> bool:
    """Whether no judgment has a word score: no memory shares a word with the task, or a vendor's
    Batch API judged, which is told no order."""
    priors = [result.prior for _, result, _ in outcomes if isinstance(result, Judgment)]
    return not any(priors)


def _with_word_scores(
    parts: JudgingParts, outcomes: Sequence[Outcome], turn: Turn
) -> list[Outcome]:
    from xscore.scorer.lexical import lexical_priors  # judgments nearly always have them
    from xscore.store.term_vectors import TERM_EMBEDDER

    candidates = [outcome.candidate for outcome in outcomes]
    scores = lexical_priors(turn, candidates, lambda: parts.store.vectors(TERM_EMBEDDER))
    scored: list[Outcome] = []
    for outcome in outcomes:
        result = outcome.result
        if isinstance(result, Judgment):
            result = result._replace(prior=scores[outcome.candidate.id])
        scored.append(outcome._replace(result=result))
    return scored


def boosted(
    parts: JudgingParts,
    unboosted: Sequence[Ranked],
    turn: Turn,
    *,
    thresholds: Thresholds,
    by_words: bool = False,
    now: float | None = None,
) -> tuple[Ranked, ...]:
    """Boost what was joined, reading only the links of candidates that can be boosted.

    by_words: words scored, which have counted the links already.
    """
    settings = parts.settings.boosts
    if by_words:
        settings = boosts_by_words(settings, thresholds)
    floor = settings.floor
    near = [entry.candidate.id for entry in unboosted if entry.score >= floor]
    edges = parts.store.edges_touching(near)
    linked: set[str] = set()
    for edge in edges:
        linked.update((edge.source, edge.target))
    degrees = parts.store.degrees(linked)
    if now is None:
        now = parts.clock()
    rules = BoostRules(
        settings=settings,
        thresholds=thresholds,
        boosters=parts.boosters,
        now=now,
        links_counted=by_words,
    )
    return boost(unboosted, turn, rules, edges=edges, degrees=degrees)
