"""What a turn leaves behind: its receipt and answer, what was used, and what the answer took up.

A memory that was kept is counted as used, in the store it lives in; a preference, pattern or convention that the answer
to a new task cites is counted as adopted, which is the only thing a turn learns by itself: asking the same again proves
nothing. Trade-off: the user's own store is written after the repository's; a kill in between loses one count of use.
"""

import json

from xscore import database
from xscore.errors import StoreError
from xscore.memory import turns
from xscore.pipeline.parts import Parts
from xscore.pipeline.receipt import discreet, to_json
from xscore.prompts.answer import cited_ids
from xscore.records import Answer, Layer, Selection, TurnFigures

_STATES = {
    0: turns.TurnState.DONE,
    1: turns.TurnState.PARTIAL,
    4: turns.TurnState.PARTIAL,
    130: turns.TurnState.INTERRUPTED,
}


def keep(
    parts: Parts, answer: Answer, selection: Selection, figures: TurnFigures, *, apart: bool = False
) -> tuple[str, ...]:
    """Write down what came of a turn; return what could not be noted beside it. Raises StoreError.

    apart: it was an evaluation, so only its receipt is kept.
    """
    rejected = {
        "below_threshold": selection.below_threshold,
        "over_quota": selection.over_quota,
        "beyond_k": selection.beyond_k,
        "unjudged": len(selection.unjudged),
    }
    is_new = turns.is_answered_first(parts.store.connection, answer.turn_id)
    turns.finish_turn(
        parts.store.connection,
        answer.turn_id,
        state=_STATES.get(answer.exit_code, turns.TurnState.FAILED),
        receipt=json.dumps(to_json(discreet(answer)), ensure_ascii=False),
        answer=answer.answer,
        figures=figures,
        verdict=turns.Verdict(tuple(entry.candidate.id for entry in selection.kept), rejected),
        now=parts.clock(),
        apart=apart,
    )
    if apart:
        return ()
    try:
        _count(parts, answer, _taken_up(answer) if is_new else [])
    except StoreError as error:  # the turn itself is kept
        return (f"what this turn used was not counted: {error.message}",)
    return ()


def _taken_up(answer: Answer) -> list[str]:
    """The kept memories beside code that the answer cites."""
    cited = cited_ids(answer.answer) if answer.answer else ()
    return [memory.id for memory in answer.selected if not memory.path and any(map(memory.id.startswith, cited))]


def _count(parts: Parts, answer: Answer, taken_up: list[str]) -> None:
    """Count the use of the user's own memories, and what the answer took up. Raises StoreError."""
    now = parts.clock()
    own = [memory.id for memory in answer.selected if memory.layer == Layer.USER]
    user = parts.store.user_connection() if own else None
    if user is not None:
        with database.transaction(user):
            turns.count_use(user, own, now=now)
    if not taken_up:
        return
    from xscore.learning.feedback import adopted

    for connection in parts.store.connections_of_a_turn():
        with database.transaction(connection):
            adopted(connection, taken_up, amounts=parts.settings.memory.feedback, now=now)
