"""Pass a closed turn to the span sender: its times, figures and calls; no text.

The calls are read back from the ledger, so judging pays nothing for them. The sender runs in a
daemon thread and has `PATIENCE_S`; a collector that is not there costs the turn that much and one
warning, never its result. Trade-off: a turn that is killed outright is not traced.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic

from xscore.costs.ledger import calls_of_turn
from xscore.extension import implements
from xscore.extensions.telemetry.attributes import (
    ANSWERED,
    NAME,
    SpanRecord,
    call_attributes,
    model_name,
    server_call_attributes,
    stage_attributes,
    turn_attributes,
)
from xscore.pipeline.parts import TURN_LISTENER, ClosedTurn, TurnListener
from xscore.platform.errors import ExitCode, StoreError, UsageError, XscoreError, install_hint
from xscore.records.calls import EXCHANGE, CallRecord, ServerCall
from xscore.records.judgment import UnjudgedCause

PATIENCE_S = 1.0
"""Seconds that sending a turn may take, however few spans it has."""
MORE_S_A_SPAN = 0.000_5
"""Seconds that are added for each of its spans, of which a collector takes some thousands a
second."""
_ENDS: dict[int, str] = {
    ExitCode.NOTHING_JUDGED: "nothing_judged",
    ExitCode.BUDGET: "budget",
    ExitCode.STORE: "store",
    ExitCode.NO_ANSWER: "answer_failed",
    ExitCode.INTERRUPTED: "interrupted",
}
"""Exit codes that count as errors of a turn; 1 (some unjudged) does not."""
SendSpans = Callable[[Sequence[SpanRecord]], str]
"""Writes the spans of a turn; may block. Returns what went wrong, or an empty string."""


@implements(TURN_LISTENER)
def otlp_listener() -> TurnListener:
    """Return the listener that sends spans by OTLP.

    Raises UsageError where the extra is not installed.
    """
    try:
        # An extra, and a third of a second.
        from xscore.extensions.telemetry.spans import OtlpSender
    except ImportError as error:
        raise UsageError(
            "telemetry.otel is set, and OpenTelemetry is not installed",
            hint=f"{install_hint('otel')} Or set telemetry.otel = false.",
        ) from error
    return trace_listener(OtlpSender().send)


def trace_listener(send: SendSpans) -> TurnListener:
    """Return a listener that hands every turn to this function, in a thread."""

    async def on_closed(closed: ClosedTurn) -> str:
        if not isinstance(closed.error, Exception | asyncio.CancelledError | None):
            return ""
        try:
            spans = spans_of_turn(closed)
        except (StoreError, sqlite3.Error):
            return "telemetry: the calls of this turn cannot be read"
        problem = await _send_in_thread(send, spans)
        if problem:
            return f"telemetry: {problem}"
        return ""

    return on_closed


def spans_of_turn(closed: ClosedTurn) -> list[SpanRecord]:
    """Return the span of the turn, those of its stages below it, and those of its calls below their
    stages."""
    shift = closed.now - monotonic()
    error = _error_kind(closed)
    ended_in = _ended_in(closed)
    calls = calls_of_turn(closed.connection, closed.turn.id)
    turn_fields = turn_attributes(closed, calls, error=error)
    began = closed.stopwatch.started + shift
    name = f"{NAME} {closed.command}".strip()
    spans = [
        SpanRecord(
            name=name,
            attributes=turn_fields,
            began=began,
            ended=monotonic() + shift,
            error=error,
        )
    ]
    places: dict[str, int] = {}
    for stage, (begun, ended) in closed.stopwatch.laps.items():
        places[stage] = len(spans)
        failed = error if stage == ended_in else ""
        spans.append(
            SpanRecord(
                name=f"{NAME} {stage}",
                attributes=stage_attributes(closed.turn.id, stage, error=failed),
                began=begun + shift,
                ended=ended + shift,
                error=failed,
                below=0,
            )
        )
    for call in calls:
        below = places.get(call.stage.part, 0)
        spans.append(_call_span(call, thread=closed.turn.thread, below=below))
    for server_call in closed.stopwatch.server_calls:
        spans.append(_server_span(server_call, closed, places))
    return spans


def _call_span(call: CallRecord, *, thread: str, below: int) -> SpanRecord:
    """Return the span of a call to a model, below the span at this place."""
    return SpanRecord(
        name=f"{call.stage.operation} {model_name(call.provider, call.model)}",
        attributes=call_attributes(call, thread=thread),
        began=call.started_at,
        ended=call.started_at + call.duration_s,
        error="" if call.outcome == ANSWERED else call.outcome,
        below=below,
        is_call=True,
    )


def _server_span(call: ServerCall, closed: ClosedTurn, places: Mapping[str, int]) -> SpanRecord:
    """Return the span of a request to a shared server, below the stage that it was made in."""
    stage = "judge"
    if call.operation == EXCHANGE:
        stage = "index"
    return SpanRecord(
        name=f"{call.operation} {call.system}",
        attributes=server_call_attributes(call, turn_id=closed.turn.id),
        began=call.started_at,
        ended=call.started_at + call.duration_s,
        error=call.error,
        below=places.get(stage, 0),
        is_call=True,
    )


def _error_kind(closed: ClosedTurn) -> str:
    if closed.error is None:
        return _ENDS.get(closed.exit_code, "")
    if isinstance(closed.error, XscoreError):
        return closed.error.kind
    if isinstance(closed.error, asyncio.CancelledError):
        return "cancelled"
    return "internal"


def _ended_in(closed: ClosedTurn) -> str:
    """Return the stage that a turn ended in: without a receipt its last; none if it was just not
    stored."""
    laps = closed.stopwatch.laps
    figures = closed.figures
    if closed.exit_code == ExitCode.STORE:
        return ""
    if figures is None:
        return next(reversed(laps), "")
    if closed.exit_code == ExitCode.INTERRUPTED:
        if "primary" in laps:
            return "primary"
        return "judge"
    is_judging = (
        closed.exit_code == ExitCode.NOTHING_JUDGED
        or UnjudgedCause.BUDGET in figures.unjudged_by_cause
    )
    if is_judging:
        return "judge"
    return "primary"


async def _send_in_thread(send: SendSpans, spans: Sequence[SpanRecord]) -> str:
    """Send in a daemon thread, so that the process need not wait; wait at most `PATIENCE_S`."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[str] = loop.create_future()

    def work() -> None:
        try:
            problem = send(spans)
        # Exporters raise these for variables and hosts.
        except (OSError, RuntimeError, TypeError, ValueError) as failed:
            problem = str(failed)
        with suppress(RuntimeError):  # the loop is closed: no one is waiting
            loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(problem))

    threading.Thread(target=work, name="tracing", daemon=True).start()
    patience_s = PATIENCE_S + MORE_S_A_SPAN * len(spans)
    try:
        async with asyncio.timeout(patience_s):
            return await done
    except TimeoutError:
        return f"the collector did not accept the spans of this turn within {patience_s:.1f} s"
    except asyncio.CancelledError:
        # Ctrl-C: the turn is over, and its result is still delivered.
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        return "interrupted before the spans were taken"
