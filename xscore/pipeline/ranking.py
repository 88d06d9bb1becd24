"""From outcomes to a ranking: judge and words joined, boosts, and what amends an earlier word above
it; then a selection.

Which of them are kept is decided in `selection`, or where words ranked in `selection_by_words`.
kept + folded + below + over quota + beyond K + unjudged are all candidates. It does not order the
bundle.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.pipeline.boosts import BoostRules, boost, boosts_by_words
from xscore.pipeline.joining import join
from xscore.pipeline.judge_description import Scale
from xscore.pipeline.parts import JudgingParts, PipelineParts
from xscore.pipeline.pool import FILE_LAYERS
from xscore.pipeline.selection import is_about_tests, select
from xscore.pipeline.turn_stages import Judged, PreparedTurn, Ranking
from xscore.platform.text import join_sentences
from xscore.records.candidates import Candidate
from xscore.records.judgment import (
    Judgment,
    Origin,
    Outcome,
    Ranked,
    Thresholds,
    Unjudged,
    has_unjudged,
)
from xscore.records.memory import Relation
from xscore.records.turn import Turn

if TYPE_CHECKING:
    from xscore.pipeline.words_instead import WordsInstead
    from xscore.store.store import Store


def rank_turn(
    parts: PipelineParts, prepared: PreparedTurn, judged: Judged, *, isolated: bool
) -> Ranking:
    """Rank a turn by its judgments, or by words where its judge's host failed.

    isolated: words never replace the judge, since an evaluation measures one judge.
    """
    # An earlier judgment, carried over, says more than words.
    may_rank_by_words = judged.nothing_judged and not judged.unreached_causes and not isolated
    if may_rank_by_words:
        from xscore.pipeline.words_instead import words_instead  # most turns are judged

        instead = words_instead(parts, judged)
        if instead is not None:
            return _rank_by_words_instead(parts, prepared, judged, instead)
    return rank(parts, judged.outcomes, prepared.turn, finalists=judged.finalists)


def _rank_by_words_instead(
    parts: PipelineParts, prepared: PreparedTurn, judged: Judged, instead: "WordsInstead"
) -> Ranking:
    """Rank a turn by words, and say why no model judged it."""
    # Only where no model could judge.
    from xscore.pipeline.judging_by_words import lexical_outcomes

    outcomes = lexical_outcomes(parts, prepared.turn, judged.pool.candidates)
    thresholds = parts.settings.selection.thresholds_of_words
    ranking = rank(parts, outcomes, prepared.turn, thresholds=thresholds, by_words=True)
    # What the judge failed with is a warning already; it is not said twice.
    why = "" if judged.no_judge else f"{instead.why}, so no model judged: "
    way_on = f"`xscore continue {prepared.turn.id}` has the model judge."
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
    if not has_unjudged(outcomes):
        return ()
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
    words_weight: of what words say relative to a model; None: the judge's.
    finalists: ids of what a final round looked at; None if there was none.
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
    if by_words:
        # No model judged.
        from xscore.pipeline.selection_by_words import select_of_turn_by_words

        selection = select_of_turn_by_words(parts, ranked, turn, unjudged, thresholds)
        return Ranking(ranked, selection, by_words=True)
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


def _later_above_earlier(store: "Store", ranked: tuple[Ranked, ...]) -> tuple[Ranked, ...]:
    """Lift a statement that amends an earlier one above it."""
    spoken = [
        entry
        for entry in ranked
        if entry.score > 0 and entry.candidate.layer not in FILE_LAYERS
    ]
    if len(spoken) < 2:
        return ranked
    # Many stores hold nothing that was said.
    from xscore.pipeline.amendments import place_later_words

    placed = place_later_words(spoken, store.connections_of_a_turn())
    if not placed:
        return ranked
    return tuple([placed.get(entry.candidate.id, entry) for entry in ranked])


def joined(
    parts: JudgingParts, outcomes: Sequence[Outcome], turn: Turn, *, words_weight: float
) -> list[Ranked]:
    """Join what was judged with what words say about it."""
    if words_weight and _lacks_word_scores(outcomes):
        outcomes = _with_word_scores(parts, outcomes, turn)
    return join(outcomes, weight=words_weight)


def _lacks_word_scores(outcomes: Sequence[Outcome]) -> bool:
    """Whether no judgment has a word score: no memory shares a word with the task, or a vendor's
    Batch API judged, which gets no order."""
    # It ends at the first that has one, which nearly always is among the first hundreds.
    return not any(isinstance(result, Judgment) and result.prior for _, result, _ in outcomes)


def _with_word_scores(
    parts: JudgingParts, outcomes: Sequence[Outcome], turn: Turn
) -> list[Outcome]:
    from xscore.scorer.lexical import lexical_priors  # judgments nearly always have them

    candidates = [outcome.candidate for outcome in outcomes]
    scores = lexical_priors(
        turn, candidates, parts.store.term_vectors, purposes=parts.store.purposes
    )
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
    # Only calls are damped by how many there are, and words have counted them already.
    called: set[str] = set()
    if not by_words:
        for edge in edges:
            if edge.relation is Relation.CALLS:
                called.update((edge.source, edge.target))
    degrees = parts.store.degrees(called) if called else {}
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
