"""What a turn leaves behind: its receipt and answer, what was used, and what the answer took up.

A memory that was kept is counted as used, in the store it lives in; a preference, pattern or convention that the answer
cites is counted as adopted, which is the only thing a turn learns by itself. Trade-off: the user's own store is written
after the repository's; a kill in between loses one count of use and nothing else.
"""

import json

from xscore import database
from xscore.memory import turns
from xscore.pipeline.parts import Parts
from xscore.pipeline.receipt import discreet, to_json
from xscore.prompts.answer import cited_ids
from xscore.records import Answer, Layer, Selected, Selection

_STATES = {0: turns.TurnState.DONE, 1: turns.TurnState.PARTIAL, 130: turns.TurnState.INTERRUPTED}


def keep(parts: Parts, answer: Answer, selection: Selection) -> None:
    """Write down what came of a turn. Raises StoreError."""
    rejected = {
        "below_threshold": selection.below_threshold,
        "over_quota": selection.over_quota,
        "beyond_k": selection.beyond_k,
        "unjudged": len(selection.unjudged),
    }
    now = parts.clock()
    turns.finish_turn(
        parts.store.connection,
        answer.turn_id,
        state=_STATES.get(answer.exit_code, turns.TurnState.FAILED),
        receipt=json.dumps(to_json(discreet(answer)), ensure_ascii=False),
        answer=answer.answer,
        verdict=turns.Verdict(tuple(entry.candidate.id for entry in selection.kept), rejected),
        now=now,
    )
    own = [memory for memory in answer.selected if memory.layer == Layer.USER]
    if own:
        user = parts.store.user_connection()
        if user is not None:
            turns.count_use(user, [memory.id for memory in own], now=now)
    _count_adopted(parts, _taken_up(answer), now)


def _taken_up(answer: Answer) -> list[Selected]:
    """The kept memories beside code that the answer cites."""
    cited = cited_ids(answer.answer) if answer.answer else ()
    return [memory for memory in answer.selected if not memory.path and any(map(memory.id.startswith, cited))]


def _count_adopted(parts: Parts, taken_up: list[Selected], now: float) -> None:
    if not taken_up:
        return
    from xscore.learning.feedback import adopted

    for connection in parts.store.connections():
        with database.transaction(connection):
            adopted(connection, [memory.id for memory in taken_up], amounts=parts.settings.memory.feedback, now=now)
