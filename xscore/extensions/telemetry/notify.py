"""Hand a closed turn to what makes spans of it: its times, figures and calls; no text.

The calls are read back from the ledger, so judging pays nothing for them. The sender runs in a daemon thread and has
`PATIENCE_S`; a collector that is not there costs the turn that much and one warning, never its result. Trade-off: a
turn that is killed outright is not traced.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from xscore.costs.ledger import calls_of_turn
from xscore.extensions.telemetry.attributes import StageSpan, TracedTurn
from xscore.pipeline.parts import ClosedTurn, TurnListener
from xscore.platform.errors import StoreError, XscoreError
from xscore.records.judgment import UnjudgedCause

PATIENCE_S = 1.0
"""Most that sending a turn may take, …"""
MORE_S_A_CALL = 0.000_5
"""… and this much more for each of its calls, of which a collector takes some thousands a second."""
_NOTHING_JUDGED, _NOT_KEPT, _INTERRUPTED = 3, 6, 130
_ENDS = {_NOTHING_JUDGED: "nothing_judged", 4: "budget", _NOT_KEPT: "store", 7: "answer_failed", 130: "interrupted"}
"""Exit codes that are errors of a turn; 1, some unjudged, is none."""
SendTurn = Callable[[TracedTurn], str]
"""Makes spans of a turn; may block. Returns what went wrong, or an empty string."""


def otlp_listener() -> TurnListener:
    """Return the listener that sends spans by OTLP. Raises UsageError where the extra is not installed."""
    from xscore.extensions.telemetry.spans import OtlpSender, import_exporter

    import_exporter()
    return trace_listener(OtlpSender().send)


def trace_listener(send: SendTurn) -> TurnListener:
    """Return a listener that hands every turn to this function, in a thread."""

    async def on_closed(closed: ClosedTurn) -> str:
        if not isinstance(closed.error, Exception | asyncio.CancelledError | None):
            return ""
        try:
            turn = _traced(closed)
        except (StoreError, sqlite3.Error):
            return "telemetry: the calls of this turn cannot be read"
        said = await _send_in_thread(send, turn)
        return f"telemetry: {said}" if said else ""

    return on_closed


def _traced(closed: ClosedTurn) -> TracedTurn:
    watch, shift = closed.stopwatch, closed.now - monotonic()
    error = _error_kind(closed)
    ended_in = _ended_in(closed)
    return TracedTurn(
        id=closed.turn.id,
        thread=closed.turn.thread,
        command=closed.command,
        began=watch.started + shift,
        ended=monotonic() + shift,
        laps=tuple(
            StageSpan(name, began + shift, ended + shift, error if name == ended_in else "")
            for name, (began, ended) in watch.laps.items()
        ),
        calls=tuple(calls_of_turn(closed.connection, closed.turn.id)),
        figures=closed.figures,
        error=error,
        exit_code=closed.exit_code,
    )


def _error_kind(closed: ClosedTurn) -> str:
    if closed.error is None:
        return _ENDS.get(closed.exit_code, "")
    if isinstance(closed.error, XscoreError):
        return closed.error.kind
    return "cancelled" if isinstance(closed.error, asyncio.CancelledError) else "internal"


def _ended_in(closed: ClosedTurn) -> str:
    """Name the stage that a turn ended in: without a receipt its last; none where it was only not kept."""
    laps, figures = closed.stopwatch.laps, closed.figures
    if closed.exit_code == _NOT_KEPT:
        return ""
    if figures is None:
        return next(reversed(laps), "")
    if closed.exit_code == _INTERRUPTED:
        return "primary" if "primary" in laps else "judge"
    is_judging = closed.exit_code == _NOTHING_JUDGED or UnjudgedCause.BUDGET in figures.unjudged_by_cause
    return "judge" if is_judging else "primary"


async def _send_in_thread(send: SendTurn, turn: TracedTurn) -> str:
    """Send in a daemon thread, which the process need not wait for; wait for it as long as patience holds."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[str] = loop.create_future()

    def work() -> None:
        try:
            said = send(turn)
        except (OSError, RuntimeError, TypeError, ValueError) as failed:  # of an exporter: variables, hosts
            said = str(failed)
        with suppress(RuntimeError):  # the loop is closed: no one is waiting
            loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(said))

    threading.Thread(target=work, name="tracing", daemon=True).start()
    patience_s = PATIENCE_S + MORE_S_A_CALL * len(turn.calls)
    try:
        async with asyncio.timeout(patience_s):
            return await done
    except TimeoutError:
        return f"the collector did not take the spans of this turn within {patience_s:.1f} s"
    except asyncio.CancelledError:  # Ctrl-C: the turn is over, and its result is still delivered
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        return "interrupted before the spans were taken"
