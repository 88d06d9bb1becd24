"""Which turn `xscore continue` takes up again, and as what.

The turn as it was asked is asked again under a new id: what it judged is found in the cache and counts as carried, what
it left is judged. The receipt of the first turn stays as it was. Trade-off: the current file and the diff are not kept
with a turn, so the moment is that of today, and under `judge.context = full` it makes another question.
"""

from dataclasses import replace

from xscore.cache.keys import judge_key
from xscore.errors import UsageError
from xscore.memory import turns
from xscore.pipeline.parts import Parts
from xscore.records import Turn


def turn_to_finish(parts: Parts, turn_id: str, *, answer: bool) -> Turn:
    """Return the turn to run; an empty id names the latest. Raises UsageError where nothing is to be finished."""
    past = turns.past_turn(parts.store.connection, turn_id)
    if past is None:
        said = f"there is no turn {turn_id}" if turn_id else "there is no turn yet"
        raise UsageError(said, hint="The last line of `xscore ask` names its turn; `xscore status` names the latest.")
    wants_answer = answer and parts.answerer is not None and not past.answer
    if past.state is turns.TurnState.DONE and not wants_answer:
        raise UsageError(
            f"turn {past.turn.id} is done: every candidate was judged", hint="Ask again to see what has changed since."
        )
    if past.judge != judge_key(parts.judge.identity):
        parts.observer.note(f"turn {past.turn.id} was judged by another judge: nothing of it can be carried over")
    return replace(past.turn, id="", continues=past.turn.id)
