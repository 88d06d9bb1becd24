"""Turns as spans, read from the SDK's in-memory exporter."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_tracer

from tests.pipeline.conftest import settings_for
from tests.servers.faults import Fault
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.extensions.telemetry.attributes import SCHEMA_URL
from xscore.extensions.telemetry.notify import trace_listener
from xscore.extensions.telemetry.spans import provider_sender
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import ProviderError
from xscore.records.calls import Stage
from xscore.records.receipt import Answer
from xscore.records.turn import Scope, Turn
from xscore.settings import Settings

TASK = Turn(task="The discount of total is taken twice; take it once.")
LIVE = [
    "xscore index",
    "xscore pool",
    "xscore cache",
    "xscore judge",
    "xscore select",
    "xscore primary",
]


class SpanRecorder:
    """A tracer provider that keeps spans in memory."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.traces = provider_sender(self.provider)

    async def ask(
        self, shop: Path, settings: Settings, turn: Turn = TASK, *, answer: bool = True
    ) -> Answer:
        """Ask in a new pipeline that sends its spans here."""
        async with Pipeline.open(
            shop, settings, listener=trace_listener(self.traces)
        ) as pipeline:
            return await pipeline.ask(turn, answer=answer)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """Return all ended spans in starting order."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> ReadableSpan:
        """Return the one span of this name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def below(self, above: ReadableSpan) -> list[ReadableSpan]:
        """Return the children of a span."""
        assert above.context is not None
        return [
            span
            for span in self.spans
            if span.parent and span.parent.span_id == above.context.span_id
        ]


@pytest.fixture
def taken() -> SpanRecorder:
    """Spans in memory."""
    return SpanRecorder()


def told(span: ReadableSpan) -> dict[str, object]:
    """Return a span's attributes."""
    return dict(span.attributes or {})


def failed_stages(taken: SpanRecorder) -> dict[str, str | None]:
    """Stages that ended in an error -> its kind."""
    stages = taken.below(taken.named("xscore ask"))
    return {
        span.name: span.status.description
        for span in stages
        if span.status.status_code is StatusCode.ERROR
    }


async def test_a_turn_is_a_span_over_its_stages_and_they_over_their_calls(
    shop: Path, server: OpenAIServer, taken: SpanRecorder
) -> None:
    """One trace: the turn, six stages below it in order, each call below its stage."""
    server.score = table({"shop/prices.py::total": 95})
    answer = await taken.ask(shop, settings_for(server, pack_size=2))
    turn = taken.named("xscore ask")
    assert [span.name for span in taken.below(turn)] == LIVE
    judging, answering = (
        taken.below(taken.named("xscore judge")),
        taken.below(taken.named("xscore primary")),
    )
    assert len(judging) == answer.spent(Stage.JUDGE).attempts > 1
    assert {span.name for span in judging} == {"chat judge-2"}
    assert [span.name for span in answering] == ["chat strong-1"]
    assert all(span.kind is SpanKind.CLIENT for span in (*judging, *answering))
    assert len({span.context.trace_id for span in taken.spans if span.context}) == 1
    assert all((turn.start_time or 0) <= (span.start_time or 0) for span in taken.spans)
    assert all((span.end_time or 0) <= (turn.end_time or 0) for span in taken.spans)
    assert all(span.status.status_code is StatusCode.UNSET for span in taken.spans)
    assert turn.instrumentation_scope is not None
    assert turn.instrumentation_scope.schema_url == SCHEMA_URL


async def test_spans_say_what_the_receipt_says(
    shop: Path, server: OpenAIServer, taken: SpanRecorder
) -> None:
    """Coverage, kept, dollars and tokens of the spans match the receipt."""
    server.score = table({"shop/prices.py::total": 95})
    answer = await taken.ask(shop, settings_for(server, pack_size=2))
    turn = told(taken.named("xscore ask"))
    assert turn["xscore.turn.id"] == answer.turn_id
    assert turn["gen_ai.conversation.id"] == (answer.session.thread if answer.session else "")
    assert (
        turn["xscore.coverage.candidates"]
        == turn["xscore.coverage.judged"]
        == answer.coverage.candidates
    )
    assert turn["xscore.kept"] == len(answer.selected) == 1
    assert turn["xscore.cost_usd"] == 0.0 and turn["xscore.exit_code"] == 0
    calls = [told(span) for span in taken.below(taken.named("xscore judge"))]
    assert (
        sum(int(str(call["gen_ai.usage.input_tokens"])) for call in calls)
        == answer.spent(Stage.JUDGE).usage.input_tokens
    )
    assert sum(int(str(call["xscore.candidates"])) for call in calls) == answer.coverage.judged
    name, _, port = server.url.partition("//")[2].partition("/")[0].partition(":")
    assert {(call["server.address"], call["server.port"]) for call in calls} == {
        (name, int(port))
    }
    assert {call["gen_ai.provider.name"] for call in calls} == {"openai"}
    assert {call["gen_ai.operation.name"] for call in calls} == {"chat"}


async def test_no_text_is_in_any_span(
    shop: Path, server: OpenAIServer, taken: SpanRecorder
) -> None:
    """Words planted in task, path, memory, reason, error and answer are in no exported span."""
    words = ("platypus", "quokka", "wombat", "numbat", "bilby", "potoroo")
    (shop / "quokka.py").write_text('def wombat() -> None:\n    """A bilby."""\n')
    server.answer = "numbat"
    server.score = table({"quokka.py::wombat": 95})
    turn = Turn(
        task="Where is the platypus?",
        errors="potoroo: line 3",
        scope=Scope(paths=("quokka.py", "shop/")),
    )
    answer = await taken.ask(shop, settings_for(server), replace(turn, file="quokka.py"))
    assert answer.answer == "numbat" and answer.selected[0].path == "quokka.py"
    assert len(taken.spans) >= 9
    for span in taken.spans:
        written = f"{span.to_json()} {span.resource.to_json()}"
        assert not [word for word in (*words, str(shop), "shop/") if word in written]


async def test_failed_attempts_are_spans_with_an_error(
    shop: Path, server: OpenAIServer, taken: SpanRecorder
) -> None:
    """A retried 429 is an ended span with its kind; the turn itself succeeded."""
    server.misbehave(Fault.RATE_LIMITED, times=1)
    answer = await taken.ask(shop, settings_for(server), answer=False)
    calls = taken.below(taken.named("xscore judge"))
    failed = [span for span in calls if span.status.status_code is StatusCode.ERROR]
    assert [told(span)["error.type"] for span in failed] == ["rate_limited"]
    assert len(calls) == answer.spent(Stage.JUDGE).attempts
    assert taken.named("xscore ask").status.status_code is StatusCode.UNSET


async def test_a_turn_without_a_receipt_is_a_span_with_an_error(
    shop: Path, server: OpenAIServer, taken: SpanRecorder
) -> None:
    """A turn whose host has no such model still raises, and its turn and last stage end in that
    error."""
    server.misbehave(Fault.UNKNOWN_MODEL, times=99)
    with pytest.raises(ProviderError) as caught:
        await taken.ask(shop, settings_for(server, probe=True))
    for name in ("xscore ask", "xscore judge"):
        span = taken.named(name)
        assert span.status.status_code is StatusCode.ERROR and span.end_time
        assert told(span)["error.type"] == span.status.description == caught.value.kind
    assert told(taken.named("xscore ask")).get("xscore.kept") is None


async def test_a_turn_that_was_interrupted_is_a_span_with_an_error(
    shop: Path, server: OpenAIServer, taken: SpanRecorder
) -> None:
    """Ctrl-C ends in a receipt and in ended spans; the turn's says why."""
    server.latency_s = 0.3
    settings = settings_for(server, pack_size=1, concurrency=2)
    work = asyncio.create_task(taken.ask(shop, settings))
    while server.counts.requests < 3:  # noqa: ASYNC110  the server counts in a thread of its own
        await asyncio.sleep(0.01)
    work.cancel()
    answer = await work
    assert answer.exit_code == 130
    assert told(taken.named("xscore ask"))["error.type"] == "interrupted"
    assert failed_stages(taken) == {"xscore judge": "interrupted"}
    assert all(span.end_time for span in taken.spans)


async def test_a_turn_stands_below_the_span_of_the_program_around_it(
    shop: Path, server: OpenAIServer
) -> None:
    """A program's own trace continues through a turn."""
    taken = SpanRecorder()
    tracer = get_tracer("program", tracer_provider=taken.provider)
    with tracer.start_as_current_span("program"):
        taken.traces = provider_sender(taken.provider)
        await taken.ask(shop, settings_for(server), answer=False)
    assert [span.name for span in taken.below(taken.named("program"))] == ["xscore ask"]
