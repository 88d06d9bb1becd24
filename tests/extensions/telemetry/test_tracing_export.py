"""Exporting spans to a collector: a real one on loopback, a silent one, and none."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.pipeline.conftest import settings_for
from tests.servers.collector import Collector
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.extensions.telemetry import notify
from xscore.extensions.telemetry.spans import LEFT_ALONE, NOT_TAKEN
from xscore.pipeline.build import Pipeline
from xscore.records.calls import Stage
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import Settings
from xscore.settings.model import TelemetrySettings

pytestmark = pytest.mark.verify

TASK = Turn(task="The platypus discount of total is taken twice; take it once.")


def traced(server: OpenAIServer) -> Settings:
    """Settings that send spans."""
    return replace(settings_for(server, pack_size=2), telemetry=TelemetrySettings(otel=True))


@pytest.fixture(autouse=True)
def to_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the machine's proxies."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that the environment names."""
    with Collector() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        yield running


async def ask(shop: Path, server: OpenAIServer, *, times: int = 1) -> list[Answer]:
    """Ask N times in one pipeline."""
    async with Pipeline.open(shop, traced(server)) as pipeline:
        return [await pipeline.ask(TASK, answer_anyway=True) for _ in range(times)]


async def test_a_collector_gets_every_span_of_a_turn(
    shop: Path, server: OpenAIServer, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OTLP over HTTP: a span for turn, stages and attempts, with our service name and the
    environment's attributes."""
    server.score = table({"shop/prices.py::total": 95})
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=ci")
    (answer,) = await ask(shop, server)
    assert not [warning for warning in answer.warnings if warning.startswith("telemetry")]
    assert len(collector.spans) == 1 + 6 + answer.spent(Stage.JUDGE).attempts + 1
    resources = set()
    for request in collector.requests:
        for spans_of_one in request.resource_spans:
            attributes = spans_of_one.resource.attributes
            resources.add(tuple((a.key, a.value.string_value) for a in attributes))
    (resource,) = resources
    assert dict(resource) == {"service.name": "xscore", "deployment.environment.name": "ci"}
    assert not [body for body in collector.bodies if b"platypus" in body or b"shop/" in body]


async def test_the_command_line_is_not_told(
    shop: Path, server: OpenAIServer, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process detector, which would reveal the arguments and so the task, is not run."""
    monkeypatch.setenv("OTEL_EXPERIMENTAL_RESOURCE_DETECTORS", "otel,process")
    await ask(shop, server)
    assert collector.bodies and not [body for body in collector.bodies if b"process." in body]


async def test_a_collector_that_is_not_there_costs_one_warning(
    shop: Path,
    server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The turn succeeds with a warning; the next one does not connect again, and warns about its
    spans too."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        free_port = free.getsockname()[1]
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port}")
        first, second = await ask(shop, server, times=2)
    telemetry_warnings = [
        warning
        for answer in (first, second)
        for warning in answer.warnings
        if "telemetry" in warning
    ]
    where = f"the collector at 127.0.0.1:{free_port}"
    assert telemetry_warnings == [
        f"telemetry: {where} {NOT_TAKEN}: ConnectionError",
        f"telemetry: {LEFT_ALONE}",
    ]
    assert first.exit_code == second.exit_code == 0 and first.answer == server.answer
    assert capfd.readouterr().err == "", "the exporter's own log stays quiet"


async def test_a_silent_collector_is_not_waited_for(
    shop: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collector that accepts and never answers gets one second."""
    monkeypatch.setattr(notify, "PATIENCE_S", 0.2)
    with Collector(silent=True) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        (answer,) = await ask(shop, server)
    assert [warning for warning in answer.warnings if "did not accept" in warning]
    assert answer.exit_code == 0
