"""Tell of a turn that has ended, where it is wanted: its times, its figures, its calls; no text.

The calls are read back from the ledger, so judging pays nothing for them. Whoever takes it has a thread of its own and
`PATIENCE_S`; a collector that is not there costs the turn that much and one warning, never its result. Trade-off: a
turn that is killed outright tells nothing.
"""

import asyncio
import sqlite3
import threading
from contextlib import suppress
from time import monotonic

from xscore.costs.ledger import calls_of_turn
from xscore.extensions.telemetry.traced_turn import StageSpan, TracedTurn, TurnTracer
from xscore.pipeline.parts import ClosedTurn, Stopwatch, TurnListener
from xscore.platform.errors import StoreError, XscoreError
from xscore.records import TurnFigures, UnjudgedCause

IMPORT_S = 10.0
"""Most that the import of an exporter may take, …"""
PATIENCE_S = 1.0
"""… most that handing on a turn may take, …"""
MORE_S_A_CALL = 0.000_5
"""… and so much more for each of its calls, of which a collector takes some thousands a second."""
_ENDS = {3: "nothing_judged", 4: "budget", 6: "store", 7: "answer_failed", 130: "interrupted"}
"""Exit codes that are errors of a turn; 1, some unjudged, is none."""
_NOTHING_JUDGED, _NOT_KEPT, _INTERRUPTED = 3, 6, 130


def otlp_listener() -> TurnListener:
    """Return the listener that sends spans by OTLP. Raises UsageError where the extra is not installed."""
    from xscore.extensions.telemetry.spans import OtlpTracer, check_installed

    check_installed()
    return trace_listener(OtlpTracer())


def trace_listener(tracer: TurnTracer) -> TurnListener:
    """Return a listener that hands every turn to this tracer."""

    async def on_closed(closed: ClosedTurn) -> str:
        return await _trace(tracer, closed)

    return on_closed


async def _trace(tracer: TurnTracer, closed: ClosedTurn) -> str:
    if not isinstance(closed.error, Exception | asyncio.CancelledError | None):
        return ""
    ended = _error_kind(closed.error) if closed.error else _ENDS.get(closed.exit_code, "")
    try:
        calls = tuple(calls_of_turn(closed.connection, closed.turn.id))
    except (StoreError, sqlite3.Error):
        return "telemetry: the calls of this turn cannot be read"
    watch, shift = closed.watch, closed.now - monotonic()
    traced = TracedTurn(
        id=closed.turn.id,
        thread=closed.turn.thread,
        command=closed.command,
        began=watch.started + shift,
        ended=monotonic() + shift,
        laps=_laps(watch, shift, ended, _ended_in(watch, closed.figures, closed.exit_code)),
        calls=calls,
        figures=closed.figures,
        error=ended,
        exit_code=closed.exit_code,
    )
    said = await _send_in_thread(tracer, traced, patience_s=PATIENCE_S + MORE_S_A_CALL * len(calls))
    return f"telemetry: {said}" if said else ""


def _error_kind(error: BaseException) -> str:
    if isinstance(error, XscoreError):
        return error.kind
    return "cancelled" if isinstance(error, asyncio.CancelledError) else "internal"


def _ended_in(watch: Stopwatch, figures: TurnFigures | None, exit_code: int) -> str:
    """Name the stage that a turn ended in: without a receipt its last; none where it was only not kept."""
    if exit_code == _NOT_KEPT:
        return ""
    if figures is None:
        return next(reversed(watch.laps), "")
    if exit_code == _INTERRUPTED:
        return "primary" if "primary" in watch.laps else "judge"
    return "judge" if exit_code == _NOTHING_JUDGED or UnjudgedCause.BUDGET in figures.unjudged_by_cause else "primary"


def _laps(watch: Stopwatch, shift: float, error: str, ended_in: str) -> tuple[StageSpan, ...]:
    """Return the stages in their order, with what ended the turn at the stage it ended in."""
    return tuple(
        StageSpan(name, began + shift, ended + shift, error if name == ended_in else "")
        for name, (began, ended) in watch.laps.items()
    )


async def _send_in_thread(tracing: TurnTracer, turn: TracedTurn, *, patience_s: float) -> str:
    """Have a daemon thread do it, which the process need not wait for, and wait for it so long."""
    loop = asyncio.get_running_loop()
    prepared: asyncio.Future[None] = loop.create_future()
    done: asyncio.Future[str] = loop.create_future()

    def settle(future: asyncio.Future[str] | asyncio.Future[None], value: str | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if future.done() else future.set_result(value))  # type: ignore[arg-type]  # each has its own kind

    def work() -> None:
        try:
            tracing.prepare()
            settle(prepared, None)
            settle(done, tracing.send(turn))
        except (
            ImportError,
            OSError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as failed:  # of an exporter: variables, hosts
            settle(prepared, None)
            settle(done, str(failed))

    threading.Thread(target=work, name="tracing", daemon=True).start()
    late = f"the exporter was not imported within {IMPORT_S:.0f} s, so the spans of this turn were not waited for"
    try:
        async with asyncio.timeout(IMPORT_S):
            await prepared
        late = f"the collector did not take the spans of this turn within {patience_s:.1f} s"
        async with asyncio.timeout(patience_s):
            return await done
    except TimeoutError:
        return late
    except asyncio.CancelledError:  # Ctrl-C: the turn is over, and whoever waits for it gets it
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        return "interrupted before the spans were taken"
