"""Turns that are begun, ended, or recorded from begin to end in a store, without judge or host."""

from xscore.records.turn import Turn
from xscore.store import turns
from xscore.store.store import Store
from xscore.store.turns import SelectionOutcome, TurnEnd, TurnStart, TurnState

NOTHING = SelectionOutcome((), {})


def begin(store: Store, turn: Turn, key: str = "", *, now: float, process: str = "") -> str:
    """Begin a turn and return its id. key: of the turn; by default one for its task."""
    start = TurnStart(turn_key=key or f"key of {turn.task}", judge="j", process=process)
    return turns.begin_turn(store.connection, turn, start, now=now)


def finish(
    store: Store,
    turn_id: str,
    answer: str | None = None,
    *,
    now: float,
    selection_outcome: SelectionOutcome = NOTHING,
    receipt: str = "{}",
    state: TurnState = TurnState.DONE,
) -> None:
    """End a turn."""
    end = TurnEnd(
        state=state, receipt=receipt, answer=answer, selection_outcome=selection_outcome
    )
    turns.finish_turn(store.connection, turn_id, end, now=now)


def record_turn(
    store: Store,
    task: str,
    *,
    answer: str | None = "done",
    thread: str = "s_1",
    now: float = 100.0,
) -> str:
    """Record a whole turn."""
    identifier = begin(store, Turn(task=task, thread=thread), now=now)
    finish(store, identifier, answer, now=now + 1)
    return identifier
