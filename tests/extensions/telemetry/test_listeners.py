"""Telemetry is off by default; a failing, slow or missing listener costs only a warning."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from xscore.extensions.telemetry.notify import trace_listener
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import UsageError
from xscore.records.calls import Stage
from xscore.records.turn import Turn
from xscore.settings.model import TelemetrySettings

TASK = Turn(task="The discount of total is taken twice; take it once.")


async def test_nobody_is_told_unless_it_is_set(
    shop: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `telemetry.otel` a collector named in the environment gets nothing."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        answer = await pipeline.ask(TASK, answer_anyway=True)
        assert pipeline.parts.listener is None
    assert server.counts.requests == answer.spent(Stage.JUDGE).attempts + 1


async def test_ctrl_c_while_spans_are_sent_loses_no_answer(
    shop: Path, server: OpenAIServer
) -> None:
    """The turn is over by then: its result is returned, with a warning about the spans."""
    began, may_end = threading.Event(), threading.Event()

    def send(turn: object) -> str:
        began.set()
        may_end.wait(10)
        return ""

    async with Pipeline.open(
        shop, settings_for(server), listener=trace_listener(send)
    ) as pipeline:
        work = asyncio.create_task(pipeline.ask(TASK, answer_anyway=True))
        await asyncio.to_thread(began.wait, 10)
        work.cancel()
        answer = await work
        may_end.set()
    assert answer.exit_code == 0 and answer.answer == server.answer
    assert "telemetry: interrupted before the spans were taken" in answer.warnings


def test_nothing_of_opentelemetry_is_imported_before_it_is_wanted() -> None:
    """Neither the command line nor the pipeline imports it, nor the listener."""
    program = (
        "import sys, xscore.cli.main, xscore.cli.ask, xscore.pipeline.build,"
        " xscore.extensions.telemetry.notify;print([name for name in sys.modules if"
        " name.startswith('opentelemetry')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


async def test_who_cannot_be_told_costs_one_warning(shop: Path, server: OpenAIServer) -> None:
    """An exporter that raises does not affect the turn or the stored receipt."""

    def fail(turn: object) -> str:
        raise ValueError("OTEL_EXPORTER_OTLP_TIMEOUT is not a number")

    async with Pipeline.open(
        shop, settings_for(server), listener=trace_listener(fail)
    ) as pipeline:
        answer = await pipeline.ask(TASK, answer=False)
        (body,) = pipeline.store.connection.execute("SELECT body FROM receipt").fetchone()
    assert answer.exit_code == 0
    assert answer.warnings == ("telemetry: OTEL_EXPORTER_OTLP_TIMEOUT is not a number",)
    assert json.loads(body)["warnings"] == []


async def test_a_missing_extra_is_said_before_anything_is_sent(
    shop: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the setting but without the packages, opening says what to install."""
    monkeypatch.setitem(sys.modules, "xscore.extensions.telemetry.spans", None)
    settings = replace(settings_for(server), telemetry=TelemetrySettings(otel=True))
    with pytest.raises(UsageError, match="not installed") as caught:
        async with Pipeline.open(shop, settings):
            pass
    assert "[otel]" in caught.value.hint
    assert server.counts.requests == 0
