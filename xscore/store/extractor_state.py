"""When a model may be asked for facts again, and what came of it so far.

One row of the store: three replies in a row of which nothing can be read, or three failed calls,
end it for this model; a failed host is tried once a day after that. A call is counted as failed
before it is sent, and as answered when its facts are kept, so that no kill makes a call free.
Trade-off: a model that is named again starts over.
"""

import sqlite3

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xscore.platform.clock import DAY_S, day_of
from xscore.store.index_rows import read_meta, write_meta

MOST_CALLS_A_DAY = 24
"""Most calls in a day: one an hour, on average."""
MOST_FAILURES = 3
"""Most failures in a row."""
_KEY = "extractor"


class ExtractorState(Struct, frozen=True, kw_only=True):
    """What is known about the model that is asked for facts."""

    model: str = ""
    failures: int = 0
    """Failures in a row, a call in flight included."""
    is_unreadable: bool = False
    """Whether the last failure was a reply that could not be read: the host is there, the model
    is no use."""
    failed_at: float = 0.0
    day: str = ""
    """UTC day of `calls_today`."""
    calls_today: int = 0
    calls: int = 0
    answered: int = 0
    proposed: int = 0
    kept: int = 0
    """Number of new facts that the model gave."""
    dropped: dict[str, int] = {}
    """Proposed facts that were not kept, by the reason."""


def read_state(connection: sqlite3.Connection) -> ExtractorState:
    """Return what the store holds of it, whichever model it names; empty if nothing was asked."""
    try:
        return msgspec.json.decode(read_meta(connection, _KEY) or b"{}", type=ExtractorState)
    except ValueError:  # written by a newer version, or damaged
        return ExtractorState()


def load_state(connection: sqlite3.Connection, model: str) -> ExtractorState:
    """Return the state of this model; another one's failures are not its own."""
    state = read_state(connection)
    if state.model != model:
        return replace(state, model=model, failures=0, is_unreadable=False, failed_at=0.0)
    return state


def save_state(connection: sqlite3.Connection, state: ExtractorState) -> None:
    """Store the state, in a transaction that is open."""
    write_meta(connection, _KEY, msgspec.json.encode(state).decode())


def why_not(state: ExtractorState, *, now: float) -> str:
    """Return why the model is not asked now; empty if it may be."""
    if state.failures >= MOST_FAILURES and state.is_unreadable:
        return f"{state.model} gave {state.failures} replies in a row that cannot be read"
    # Whichever way a clock was set, a day has passed once.
    if state.failures >= MOST_FAILURES and abs(now - state.failed_at) < DAY_S:
        return f"the last {state.failures} calls of {state.model} failed"
    if state.day == day_of(now) and state.calls_today >= MOST_CALLS_A_DAY:
        return f"{state.model} was asked {state.calls_today} times today"
    return ""


def with_call(state: ExtractorState, *, now: float) -> ExtractorState:
    """Return the state with one more call, which counts as failed until it is answered."""
    today = day_of(now)
    before = state.calls_today if state.day == today else 0
    return replace(
        state,
        failures=state.failures + 1,
        failed_at=now,
        day=today,
        calls_today=before + 1,
        calls=state.calls + 1,
    )


def with_answer(
    state: ExtractorState, *, proposed: int, kept: int, dropped: dict[str, int]
) -> ExtractorState:
    """Return the state after a reply that could be read."""
    by_reason = dict(state.dropped)
    for why, count in dropped.items():
        by_reason[why] = by_reason.get(why, 0) + count
    return replace(
        state,
        failures=0,
        is_unreadable=False,
        answered=state.answered + 1,
        proposed=state.proposed + proposed,
        kept=state.kept + kept,
        dropped=by_reason,
    )
