"""Spans of one turn, made after it: the turn, below it its stages, below those their calls.

The only module that knows OpenTelemetry, and it imports it where it is used: it is an extra, and costs a third of a
second. Trade-off: spans are made of records with the times these have, so nothing is in flight while judging goes on,
and nobody sees a turn before it is over.
"""

import logging
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING

from xscore.extensions.telemetry.attributes import (
    ANSWERED,
    OPERATIONS,
    SCHEMA_URL,
    Attributes,
    call_attributes,
    model_of,
    stage_attributes,
    turn_attributes,
)
from xscore.extensions.telemetry.traced_turn import TracedTurn
from xscore.platform.errors import UsageError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Span, SpanKind, Tracer, TracerProvider


NAME = "xscore"
EXPORTER = "opentelemetry.exporter.otlp.proto.http"
BATCH = 512
"""Spans a request to the collector."""
TIMEOUT_S = 0.75
"""A request to the collector takes no longer, whatever `OTEL_EXPORTER_OTLP_TIMEOUT` says. Less than the exporter's
first pause, so that a collector which refuses is not asked again."""
SLACK_S = 0.25
"""So much more, and a turn that is still being sent is overdue."""
LEFT_ALONE = "the collector failed before, so the spans of this turn were not sent"
_STAGE_OF_CALL = {"judge": "judge", "probe": "judge", "primary": "primary", "embed": "judge"}
"""Which stage of the turn a call belongs below."""


def check_installed() -> None:
    """Raise UsageError where the extra is not installed, before anything is sent."""
    try:
        found = find_spec(EXPORTER) and find_spec("opentelemetry.sdk")
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise UsageError(
            "telemetry.otel is set, and OpenTelemetry is not installed",
            hint="pip install 'xscore[otel]', or set telemetry.otel = false.",
        )


class ProviderTracer:
    """Makes spans with a tracer provider of the program's own: its processors, its exporter, its context."""

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry import context

        self._tracer = _tracer(provider)
        self._around = context.get_current()

    def prepare(self) -> None:
        """Everything is imported already."""

    def send(self, turn: TracedTurn) -> str:
        """Make the spans of a turn, below the span that was current when this was made."""
        write_spans(self._tracer, turn, self._around)
        return ""


class OtlpTracer:
    """Makes spans and exports them by OTLP over HTTP, to where the standard `OTEL_…` variables say.

    A collector that has failed once, or is overdue with a turn, is left alone for as long as this lives; turns that
    end at the same time do not wait for each other.
    """

    def __init__(self) -> None:
        self._has_failed = False
        self._due: dict[int, float] = {}
        """Thread that sends -> when it should be done, by the clock `monotonic`."""

    def prepare(self) -> None:
        """Import the SDK."""
        from opentelemetry.exporter.otlp.proto.http import trace_exporter  # noqa: F401  ahead of its use
        from opentelemetry.sdk import trace  # noqa: F401  ahead of its use

    def send(self, turn: TracedTurn) -> str:
        """Export one turn; blocks until the collector has it or has failed. Says of every turn that it was not sent."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import SpanExportResult

        from xscore.extensions.telemetry.collector import RecordingSession  # with it comes `requests`

        if self._has_failed or self._is_overdue():
            return LEFT_ALONE
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # what goes wrong is said below
        spans = spans_of(turn)
        batches = [spans[start : start + BATCH] for start in range(0, len(spans), BATCH)]
        taken, session = False, RecordingSession()
        self._due[get_ident()] = monotonic() + TIMEOUT_S * max(len(batches), 1) + SLACK_S
        try:
            exporter = OTLPSpanExporter(timeout=TIMEOUT_S, session=session)
            try:
                taken = all(exporter.export(batch) is SpanExportResult.SUCCESS for batch in batches)
            finally:
                exporter.shutdown()  # type: ignore[no-untyped-call]  # theirs has no types
        finally:
            del self._due[get_ident()]
            self._has_failed = self._has_failed or not taken
        return "" if taken else session.said()

    def _is_overdue(self) -> bool:
        """Whether a turn that was handed over earlier has not got through, and nobody waits for it any more."""
        now = monotonic()
        return any(due < now for due in tuple(self._due.values()))


def spans_of(turn: TracedTurn) -> "Sequence[ReadableSpan]":
    """Make the spans of a turn under a provider of our own, sampled as the environment says."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    # no other detector: one of processes would tell the command line, and with it the task
    resource = Resource({"service.name": NAME}).merge(OTELResourceDetector().detect())
    ended = InMemorySpanExporter()
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(ended))
    write_spans(_tracer(provider), turn, None)
    return ended.get_finished_spans()


def _tracer(provider: "TracerProvider") -> "Tracer":
    from importlib.metadata import version

    return provider.get_tracer(NAME, version(NAME), schema_url=SCHEMA_URL)


def write_spans(tracer: "Tracer", turn: TracedTurn, around: "Context | None") -> None:
    """Start and end every span of a turn at its own times. around: where the turn belongs; None: it stands alone."""
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanKind, set_span_in_context

    context = Context() if around is None else around
    inside, remote = SpanKind.INTERNAL, SpanKind.CLIENT
    begin = partial(_start, tracer)
    root = begin(f"{NAME} {turn.command}".strip(), turn_attributes(turn), at=turn.began, below=context, kind=inside)
    whole = set_span_in_context(root, context)
    below: dict[str, Context] = {}
    for lap in turn.laps:
        stage = begin(f"{NAME} {lap.stage}", stage_attributes(turn, lap), at=lap.began, below=whole, kind=inside)
        below[lap.stage] = set_span_in_context(stage, context)
        _end(stage, lap.ended, lap.error)
    for call in turn.calls:
        parent = below.get(_STAGE_OF_CALL[call.stage], whole)
        name = f"{OPERATIONS[call.stage]} {model_of(call.provider, call.model)}"
        one = begin(name, call_attributes(call, thread=turn.thread), at=call.started_at, below=parent, kind=remote)
        _end(one, call.started_at + call.duration_s, "" if call.outcome == ANSWERED else call.outcome)
    _end(root, turn.ended, turn.error)


def _start(
    tracer: "Tracer", name: str, attributes: Attributes, *, at: float, below: "Context", kind: "SpanKind"
) -> "Span":
    return tracer.start_span(name, below, kind, attributes, start_time=_nanoseconds(at))


def _end(span: "Span", at: float, error: str) -> None:
    if error:
        from opentelemetry.trace import Status, StatusCode

        span.set_status(Status(StatusCode.ERROR, error))
    span.end(_nanoseconds(at))


def _nanoseconds(at: float) -> int:
    return int(at * 1e9)
