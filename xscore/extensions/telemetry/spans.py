"""Spans of one turn, made after it: the turn, below it its stages, below those their calls.

The only module that knows OpenTelemetry, which is an extra and costs a third of a second; so
`notify` imports it where a collector is asked for. Trade-off: spans are made of records, so nothing
is in flight while judging goes on, and no one sees a turn before it is over.
"""

import logging
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import requests
from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    set_span_in_context,
)

from xscore.extensions.telemetry.attributes import NAME, SCHEMA_URL, SpanRecord
from xscore.platform.text import one_line

BATCH = 512
"""Most spans of one request to the collector."""
TIMEOUT_S = 0.75
"""Timeout of a request to the collector, whatever `OTEL_EXPORTER_OTLP_TIMEOUT` says. Less than
the exporter's first pause, so that a collector which refuses is not asked again."""
NOT_TAKEN = "did not accept the spans of this turn"
LEFT_ALONE = "the collector failed before, so the spans of this turn were not sent"


def provider_sender(provider: trace.TracerProvider) -> Callable[[Sequence[SpanRecord]], str]:
    """Return what makes spans with a program's own tracer provider, below the span that is current
    now."""
    tracer = _tracer(provider)
    around = context.get_current()

    def send(spans: Sequence[SpanRecord]) -> str:
        write_spans(tracer, spans, around)
        return ""

    return send


class OtlpSender:
    """Exports spans by OTLP over HTTP, to where the standard `OTEL_…` variables say.

    A collector that has failed once is left alone; turns that end at the same time do not wait for
    each other.
    """

    def __init__(self) -> None:
        self._has_failed = False

    def send(self, spans: Sequence[SpanRecord]) -> str:
        """Export one turn; block until the collector has it or has failed.

        Return why it was not sent.
        """
        if self._has_failed:
            return LEFT_ALONE
        # What goes wrong is reported below.
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
        problems: list[str] = []
        exporter = OTLPSpanExporter(
            timeout=TIMEOUT_S, session=_recording_session(problems.append)
        )
        try:
            readable = readable_spans(spans)
            batches = (
                readable[start : start + BATCH] for start in range(0, len(readable), BATCH)
            )
            taken = all(exporter.export(batch) is SpanExportResult.SUCCESS for batch in batches)
        finally:
            exporter.shutdown()  # type: ignore[no-untyped-call]  # OpenTelemetry leaves it untyped
        self._has_failed = self._has_failed or not taken
        if taken:
            return ""
        return next(reversed(problems), f"the collector {NOT_TAKEN}")


def _recording_session(record: Callable[[str], None]) -> requests.Session:
    """Return a session that records host and result of each request; paths and headers may hold
    keys."""

    class RecordingSession(requests.Session):
        def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
            host = one_line(urlsplit(request.url or "").netloc.rpartition("@")[2])
            outcome = ""
            try:
                response = super().send(request, **kwargs)
                outcome = f"HTTP {response.status_code}"
                return response
            except requests.RequestException as error:
                outcome = type(error).__name__
                raise
            finally:
                record(f"the collector at {host} {NOT_TAKEN}: {outcome}")

    return RecordingSession()


def readable_spans(spans: Sequence[SpanRecord]) -> Sequence[ReadableSpan]:
    """Make the spans of a turn under a provider of our own, sampled as the environment says."""
    # no other detector: one of processes would tell the command line, and with it the task
    resource = Resource({"service.name": NAME}).merge(OTELResourceDetector().detect())
    ended = InMemorySpanExporter()
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(ended))
    write_spans(_tracer(provider), spans, None)
    return ended.get_finished_spans()


def write_spans(tracer: Tracer, spans: Sequence[SpanRecord], around: Context | None) -> None:
    """Start and end every span of a turn at its own times. around: the parent context; None:
    none."""
    written: list[Context] = []
    for readable in spans:
        if readable.below is None:
            above = around or Context()
        else:
            above = written[readable.below]
        kind = SpanKind.CLIENT if readable.is_call else SpanKind.INTERNAL
        span = tracer.start_span(
            readable.name,
            above,
            kind,
            readable.attributes,
            start_time=int(readable.began * 1e9),
        )
        if readable.error:
            span.set_status(Status(StatusCode.ERROR, readable.error))
        span.end(int(readable.ended * 1e9))
        written.append(set_span_in_context(span, above))


def _tracer(provider: trace.TracerProvider) -> Tracer:
    return provider.get_tracer(NAME, version(NAME), schema_url=SCHEMA_URL)
