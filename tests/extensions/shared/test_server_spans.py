"""Spans of requests to a shared server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from opentelemetry.trace import SpanKind, StatusCode

from tests.extensions.shared.server_programs import free_port
from tests.extensions.telemetry.test_tracing import SpanRecorder, told
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.settings import Secret
from xscore.settings.model import SharedSettings

NAMES = {
    "db.system.name",
    "db.operation.name",
    "server.address",
    "server.port",
    "xscore.turn.id",
    "error.type",
}


@pytest.fixture
def host() -> Iterator[OpenAIServer]:
    """A host that judges."""
    with OpenAIServer() as running_host:
        running_host.score = table({"shop/prices.py::total": 95})
        yield running_host


@pytest.mark.parametrize("scheme", ["redis", "postgresql"])
async def test_requests_to_a_server_that_is_away_are_failed_spans(
    shop: Path, host: OpenAIServer, scheme: str
) -> None:
    """The turn goes on, and its trace says which server was asked for what, and that it failed."""
    port = free_port()
    url = Secret(f"{scheme}://user:hidden@127.0.0.1:{port}/0")
    settings = replace(settings_for(host), shared=SharedSettings(url=url, timeout_s=0.3))
    recorder = SpanRecorder()
    answer = await recorder.ask(shop, settings, answer=False)
    assert answer.coverage.judged == answer.coverage.candidates
    spans = [span for span in recorder.spans if "db.system.name" in told(span)]
    assert spans
    for span in spans:
        assert span.kind is SpanKind.CLIENT and span.status.status_code is StatusCode.ERROR
        assert told(span).keys() <= NAMES
        assert told(span)["db.system.name"] == scheme
        assert told(span)["server.port"] == port
    assert "hidden" not in str([(span.name, told(span)) for span in recorder.spans])


async def test_each_request_to_a_server_is_a_span_below_its_stage(
    shop: Path, host: OpenAIServer, shared: SharedSettings
) -> None:
    """Claims, judgments and what closing sends: each by name, with its times, and no content."""
    settings = replace(settings_for(host), shared=shared)
    recorder = SpanRecorder()
    await recorder.ask(shop, settings, answer=False)
    judging = recorder.below(recorder.named("xscore judge"))
    spans = [span for span in judging if "db.system.name" in told(span)]
    operations = {told(span)["db.operation.name"] for span in spans}
    assert {"claim", "store_judgments", "release_runner"} <= operations
    assert all(told(span).keys() <= NAMES for span in spans)
    assert all(span.status.status_code is StatusCode.UNSET for span in spans)
    assert all((span.end_time or 0) >= (span.start_time or 0) for span in spans)
