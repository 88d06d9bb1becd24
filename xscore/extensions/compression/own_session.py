"""xscore's own working session as turns: tasks as the user's words, answers as the agent's.

It is read from the store, where everything is redacted already, and an erased turn has no words.
Trade-off: the context that an answer was given is not in it; `history show` has that.
"""

import sqlite3

from xscore.extensions.compression.session_turns import AgentSession, SessionTurn, Speaker
from xscore.platform import database, tokens
from xscore.store.session_summary import TurnContext, exchange_memory_id

ORIGIN = "xscore"
_TURNS = (
    "SELECT turn_key, task, answer, context FROM turn WHERE thread = ? AND task <> ''"
    " ORDER BY started_at, id"
)


def read_own_session(connection: sqlite3.Connection, thread: str) -> AgentSession:
    """Return the turns of a working session; a task that was repeated is in it as often."""
    turns: list[SessionTurn] = []
    rows = connection.execute(_TURNS, (thread,)).fetchall()
    with database.damage_if_invalid("a turn"):
        for turn_key, task, answer, context in rows:
            errors = TurnContext.from_json(context).errors
            memory_id = exchange_memory_id(turn_key)
            request = f"{task}\n{errors}" if errors else task
            for speaker, words in ((Speaker.USER, request), (Speaker.AGENT, answer)):
                if words:
                    turns.append(_turn(len(turns) + 1, speaker, words, memory_id))
    return AgentSession(
        origin=ORIGIN,
        session=thread,
        path="",
        turns=tuple(turns),
        tokens=sum(turn.tokens for turn in turns),
    )


def _turn(number: int, speaker: Speaker, words: str, memory_id: str) -> SessionTurn:
    return SessionTurn(
        number=number,
        speaker=speaker,
        words=words,
        memory_id=memory_id,
        tokens=tokens.estimate(tokens.size(words)),
    )
