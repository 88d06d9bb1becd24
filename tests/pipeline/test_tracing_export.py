"""Spans on their way to a collector: a real one on loopback, one that is silent, and none at all."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.pipeline.conftest import settings_for
from tests.servers.collector import Collector
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.extensions.telemetry import notify, spans
from xscore.extensions.telemetry.collector import NOT_TAKEN, collector_host
from xscore.extensions.telemetry.spans import LEFT_ALONE, OtlpTracer
from xscore.extensions.telemetry.traced_turn import StageSpan, TracedTurn
from xscore.pipeline.build import Pipeline
from xscore.records import Answer, Turn
from xscore.settings import Settings
from xscore.settings.model import TelemetrySettings

pytestmark = pytest.mark.verify

TASK = Turn(task="The platypus discount of total is taken twice; take it once.")


def traced(server: OpenAIServer) -> Settings:
    """Settings that send spans."""
    return replace(settings_for(server, pack_size=2), telemetry=TelemetrySettings(otel=True))


@pytest.fixture(autouse=True)
def to_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy of the machine's own stands between."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


async def ask(shop: Path, server: OpenAIServer, *, times: int = 1) -> list[Answer]:
    """Ask so often in one pipeline."""
    async with Pipeline.open(shop, traced(server)) as pipeline:
        return [await pipeline.ask(TASK) for _ in range(times)]


async def test_a_collector_gets_every_span_of_a_turn(
    shop: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OTLP over HTTP: a span for the turn, each stage and each attempt, under our name and the environment's words."""
    server.score = table({"shop/prices.py::total": 95})
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=ci")
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        (answer,) = await ask(shop, server)
    assert not [warning for warning in answer.warnings if warning.startswith("telemetry")]
    assert len(collector.spans) == 1 + 6 + answer.judge_usage.attempts + 1
    (resource,) = {
        tuple((a.key, a.value.string_value) for a in r.resource.attributes)
        for r in [one for request in collector.requests for one in request.resource_spans]
    }
    assert dict(resource) == {"service.name": "xscore", "deployment.environment.name": "ci"}
    assert not [body for body in collector.bodies if b"platypus" in body or b"shop/" in body]


async def test_the_command_line_is_not_told(shop: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A detector of processes, which would tell the arguments and with them the task, is not asked."""
    monkeypatch.setenv("OTEL_EXPERIMENTAL_RESOURCE_DETECTORS", "otel,process")
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        await ask(shop, server)
    assert collector.bodies and not [body for body in collector.bodies if b"process." in body]


async def test_a_collector_that_is_not_there_costs_one_warning(
    shop: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The turn ends as ever and says so; the next one does not knock again, and says that of its spans too."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        free_port = free.getsockname()[1]
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port}")
        first, second = await ask(shop, server, times=2)
    said = [warning for answer in (first, second) for warning in answer.warnings if "telemetry" in warning]
    where = f"the collector at 127.0.0.1:{free_port}"
    assert said == [f"telemetry: {where} {NOT_TAKEN}: no connection", f"telemetry: {LEFT_ALONE}"]
    assert first.exit_code == second.exit_code == 0 and first.answer == server.answer
    assert capfd.readouterr().err == "", "the exporter's own log stays quiet"


async def test_a_silent_collector_is_not_waited_for(
    shop: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who accepts and never answers gets its second and no more."""
    monkeypatch.setattr(notify, "PATIENCE_S", 0.2)
    with Collector(silent=True) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        (answer,) = await ask(shop, server)
    assert [warning for warning in answer.warnings if "did not take" in warning]
    assert answer.exit_code == 0


def turn_of(number: int) -> TracedTurn:
    """A turn of one stage."""
    lap = StageSpan("judge", 1_790_000_000.0, 1_790_000_001.0)
    return TracedTurn(
        id=f"t_{number}",
        thread="s_1",
        command="ask",
        began=lap.began,
        ended=lap.ended,
        laps=(lap,),
        calls=(),
        figures=None,
        error="",
    )


def test_turns_that_end_together_are_all_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one turn is being sent others are sent too: none is dropped, and nobody is warned."""
    traces = OtlpTracer()
    with Collector(together=4) as collector, ThreadPoolExecutor(4) as threads:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        said = list(threads.map(traces.send, map(turn_of, range(4))))
    assert said == [""] * 4
    assert len(collector.spans) == 8


def test_a_collector_that_is_overdue_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who still has not taken an earlier turn is not asked to take another, and each turn says what became of it."""
    monkeypatch.setattr(spans, "SLACK_S", -9.0)
    traces, said = OtlpTracer(), []
    with Collector(silent=True) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        first = threading.Thread(target=lambda: said.append(traces.send(turn_of(1))))
        first.start()
        while not collector.bodies:
            time.sleep(0.001)
        second = traces.send(turn_of(2))
        first.join()
    assert (second, said) == (LEFT_ALONE, [f"the collector at {collector.host} {NOT_TAKEN}: no answer in time"])
    assert traces.send(turn_of(3)) == LEFT_ALONE


def test_the_warning_names_the_host_and_the_cause_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal is told by its status; name, password, query, path and headers of the address are not told."""
    with OpenAIServer() as other:  # it knows no `/v1/traces`
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer hidden")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"http://me:hidden@{other.host}/hidden?key=hidden")
        said = OtlpTracer().send(turn_of(1))
    assert said == f"the collector at {other.host} {NOT_TAKEN}: HTTP 404"


def test_a_proxy_that_fails_is_named_as_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables of proxies hold; where the proxy is what fails, the warning says how to go without."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free.getsockname()[1]}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.example:4318")
        said = OtlpTracer().send(turn_of(1))
    assert said.startswith(f"the collector at collector.example:4318 {NOT_TAKEN}: the proxy failed; NO_PROXY")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://a:4318/v1/traces", "a:4318"),
        ("https://me:key@a.example/?k=key", "a.example"),
        ("http://[::1]:4318", "[::1]:4318"),
        ("http://a:b", ""),
        ("collector", ""),
    ],
)
def test_of_an_address_its_host_alone_is_shown(url: str, host: str) -> None:
    """Host and port, or nothing where there is none."""
    assert collector_host(url) == host


async def test_a_disabled_sdk_sends_nothing(shop: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """`OTEL_SDK_DISABLED` holds, as everywhere."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        (answer,) = await ask(shop, server)
    assert collector.bodies == []
    assert not [warning for warning in answer.warnings if warning.startswith("telemetry")]
