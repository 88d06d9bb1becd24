"""Save a finished turn: its receipt, its answer, its figures, what it used, and the memories that
its answer cited.

Trade-off: the user's own store is written after the repository's; a kill in between loses one count
of use.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from xscore.pipeline.json_form import receipt_to_store, to_json
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.turn_stages import TurnStages
from xscore.platform import database
from xscore.platform.errors import ExitCode, StoreError
from xscore.records.estimates import JudgeEstimate
from xscore.records.judgment import SCORE_TOLERANCE, Ranked, Selection
from xscore.records.memory import Kind, Layer
from xscore.records.receipt import (
    BY_WORDS,
    NEAR_THRESHOLD,
    SCORE_BINS,
    Answer,
    Expected,
    TurnFigures,
)
from xscore.store import turns

_EDGES = tuple((at - SCORE_TOLERANCE) / SCORE_BINS for at in range(1, SCORE_BINS))
"""Lower bounds of all bins but the first, less float error."""


def save_turn(
    parts: PipelineParts,
    answer: Answer,
    selection: Selection,
    figures: TurnFigures,
    *,
    isolated: bool,
) -> tuple[str, ...]:
    """Save a turn, of an evaluation (`isolated`) only its receipt; return a warning if its use
    could not be counted.

    Raises StoreError.
    """
    rejected = {
        "below_threshold": selection.below_threshold,
        "over_quota": selection.over_quota,
        "beyond_k": selection.beyond_k,
        "unjudged": len(selection.unjudged),
    }
    is_new = turns.is_answered_first(parts.store.connection, answer.turn_id)
    receipt = to_json(receipt_to_store(answer))
    kept = [entry.candidate for entry in selection.kept]
    end = turns.TurnEnd(
        state=_state(answer),
        receipt=msgspec.json.encode(receipt).decode(),
        answer=answer.answer,
        figures=figures,
        selection_outcome=turns.SelectionOutcome(
            tuple(candidate.id for candidate in kept), rejected
        ),
        has_evidence=any(candidate.kind is not Kind.EXCHANGE for candidate in kept),
        isolated=isolated,
    )
    turns.finish_turn(parts.store.connection, answer.turn_id, end, now=parts.clock())
    if isolated:
        return ()
    try:
        _count_use(parts, answer, _cited_memories(answer) if is_new else [])
    except StoreError as error:  # the turn itself is kept
        return (f"what this turn used was not counted: {error.message}",)
    return ()


def _state(answer: Answer) -> turns.TurnState:
    match answer.exit_code:
        # partly: nothing reached the threshold, or something is left to judge.
        case ExitCode.DONE | ExitCode.PARTLY:
            return turns.TurnState.PARTIAL if answer.partial else turns.TurnState.DONE
        case ExitCode.BUDGET:
            return turns.TurnState.PARTIAL
        # `continue` has the model judge once its host is mended.
        case ExitCode.NOTHING_JUDGED if answer.ranked_by:
            return turns.TurnState.PARTIAL
        case ExitCode.INTERRUPTED:
            return turns.TurnState.INTERRUPTED
        case _:
            return turns.TurnState.FAILED


def _cited_memories(answer: Answer) -> list[str]:
    """Return the kept memories, other than code, that the answer cites."""
    if not answer.answer:
        return []
    from xscore.prompts.answer import cited_memory_ids  # only with an answer

    # An answer may cite only the beginning of an id.
    cited = tuple(cited_memory_ids(answer.answer))
    without_file = [memory.id for memory in answer.selected if not memory.path]
    return [id_ for id_ in without_file if id_.startswith(cited)]


def _count_use(parts: PipelineParts, answer: Answer, cited_ids: list[str]) -> None:
    """Count the use of the user's own memories, and those that the answer cited.

    Raises StoreError.
    """
    now = parts.clock()
    ids_of_user = [memory.id for memory in answer.selected if memory.layer == Layer.USER]
    user = parts.store.user_connection() if ids_of_user else None
    if user is not None:
        with database.transaction(user):
            turns.count_use(user, ids_of_user, now=now)
    if not cited_ids:
        return
    from xscore.extensions.learning.feedback import record_adoptions  # an extension

    amounts = parts.settings.memory.feedback
    for connection in parts.store.connections_of_a_turn():
        with database.transaction(connection):
            record_adoptions(connection, cited_ids, amounts=amounts, now=now)


def figures_of_stages(
    judge: JudgeDescription, stages: TurnStages, answer: Answer, *, command: str
) -> TurnFigures:
    """Return what reports count of the turn: scores of its own judge alone."""
    ranking = stages.ranking
    scores: list[float] = []
    threshold = None
    if ranking.ranked_by:
        # Words ranked in the judge's place: it has no score of its own, but its threshold
        # holds.
        threshold = judge.thresholds.default
    else:
        by_fallback = stages.judged.by_fallback
        judged_here: Sequence[Ranked] = ranking.ranked
        if by_fallback:
            judged_here = [
                entry
                for entry in judged_here
                if entry.candidate.content_hash not in by_fallback
            ]
        scores = [entry.score for entry in judged_here]
    return turn_figures(
        answer,
        scores,
        command=command,
        forecast=stages.prepared.forecast if judge.paid else None,
        threshold=threshold,
    )


def turn_figures(
    answer: Answer,
    scores: Iterable[float],
    *,
    command: str,
    forecast: JudgeEstimate | None = None,
    threshold: float | None = None,
) -> TurnFigures:
    """Return the figures of a finished turn.

    scores: final scores, 0..1, of every judged candidate.
    forecast: made before judging; None if none was made.
    threshold: of the judge, where words ranked by one of their own in its place; None: the
        answer's.
    """
    ascending = sorted(scores)  # sorted and bisected: a third of the time of a check per score
    judge = answer.judge
    if threshold is None:
        threshold = answer.threshold
    # Scores by words are probabilities, so what is near is a share of their threshold.
    width = NEAR_THRESHOLD if judge.by_model else NEAR_THRESHOLD * threshold
    near_from = threshold - width + SCORE_TOLERANCE
    near_to = threshold + width - SCORE_TOLERANCE
    expected = None
    if forecast is not None:
        expected = msgspec.convert(forecast, Expected, from_attributes=True)
    return TurnFigures(
        command=command,
        judge=f"{judge.provider}:{judge.model}" if judge.by_model else BY_WORDS,
        coverage=answer.coverage,
        unjudged_by_cause=dict(answer.unjudged.by_cause),
        kept=len(answer.selected),
        threshold=threshold,
        near=bisect_left(ascending, near_to) - bisect_left(ascending, near_from),
        scores=_bins(ascending),
        latency=answer.latency,
        expected=expected,
    )


def _bins(ascending: Sequence[float]) -> tuple[int, ...]:
    ends = [bisect_left(ascending, edge) for edge in _EDGES]
    bounds = [0, *ends, len(ascending)]
    return tuple(end - begin for begin, end in pairwise(bounds))
