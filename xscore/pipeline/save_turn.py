"""Save a finished turn: its receipt, its answer, what it used, and the memories that its answer
cited.

Trade-off: the user's own store is written after the repository's; a kill in between loses one count
of use.
"""

import json

from xscore.pipeline.json_form import receipt_to_store, to_json
from xscore.pipeline.parts import PipelineParts
from xscore.platform import database
from xscore.platform.errors import ExitCode, StoreError
from xscore.records.judgment import Selection
from xscore.records.memory import Kind, Layer
from xscore.records.receipt import Answer, TurnFigures
from xscore.store import turns


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
        receipt=json.dumps(receipt, ensure_ascii=False),
        answer=answer.answer,
        figures=figures,
        verdict=turns.SelectionOutcome(tuple(candidate.id for candidate in kept), rejected),
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
