"""Whom a turn tells of itself: nobody unless it is set, and one who fails, is slow or is missing costs a warning."""

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
from xscore.records import Turn
from xscore.settings.model import TelemetrySettings

TASK = Turn(task="The discount of total is taken twice; take it once.")


async def test_nobody_is_told_unless_it_is_set(
    shop: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `telemetry.otel` a collector named in the environment is sent nothing."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        answer = await pipeline.ask(TASK)
        assert pipeline.parts.listener is None
    assert server.counts.requests == answer.judge_usage.attempts + 1


class Broken:
    """Somebody to tell who cannot listen."""

    def prepare(self) -> None:
        """Nothing to prepare."""

    def send(self, turn: object) -> str:
        """Fail as an exporter does that reads its environment."""
        raise ValueError("OTEL_EXPORTER_OTLP_TIMEOUT is no number")


class Slow:
    """Somebody to tell who takes long."""

    def __init__(self) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()

    def prepare(self) -> None:
        """Nothing to prepare."""

    def send(self, turn: object) -> str:
        """Take until it is let go."""
        self.began.set()
        self.may_end.wait(10)
        return ""


async def test_ctrl_c_while_spans_are_sent_loses_no_answer(shop: Path, server: OpenAIServer) -> None:
    """The turn is over by then: what was paid for is given, with a word about the spans."""
    slow = Slow()
    async with Pipeline.open(shop, settings_for(server), listener=trace_listener(slow)) as pipeline:
        work = asyncio.create_task(pipeline.ask(TASK))
        await asyncio.to_thread(slow.began.wait, 10)
        work.cancel()
        answer = await work
        slow.may_end.set()
    assert answer.exit_code == 0 and answer.answer == server.answer
    assert "telemetry: interrupted before the spans were taken" in answer.warnings


class Heavy:
    """Somebody to tell whose import takes long."""

    def __init__(self) -> None:
        self.may_end = threading.Event()

    def prepare(self) -> None:
        """Take until it is let go."""
        self.may_end.wait(10)

    def send(self, turn: object) -> str:
        """Take it."""
        return ""


async def test_a_slow_import_is_not_blamed_on_the_collector(
    shop: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What took too long is said by its name."""
    monkeypatch.setattr("xscore.extensions.telemetry.notify.IMPORT_S", 0.2)
    heavy = Heavy()
    async with Pipeline.open(shop, settings_for(server), listener=trace_listener(heavy)) as pipeline:
        answer = await pipeline.ask(TASK, answer=False)
    heavy.may_end.set()
    (said,) = answer.warnings
    assert said.startswith("telemetry: the exporter was not imported within") and "collector" not in said


def test_a_turn_that_nobody_is_told_of_loads_nothing_for_it(shop: Path) -> None:
    """Neither the words of caps nor what reads calls back is imported by a turn that needs none."""
    program = (
        "import sys\nfrom xscore.cli.main import run_command_line\n"
        "sys.argv = ['xscore', 'context', 'the discount', '--judge', 'lexical', '--json']\n"
        "try:\n    run_command_line()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "unused = {'xscore.costs.budget_messages', 'xscore.pipeline.doctor', 'xscore.extensions.telemetry.notify'}\n"
        "print(sorted(unused & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=shop)
    assert done.stderr.splitlines()[-1] == "[]"


def test_nothing_of_opentelemetry_is_imported_before_it_is_wanted() -> None:
    """Neither the command line nor the pipeline loads it, nor the module that makes spans."""
    program = (
        "import sys, xscore.cli.main, xscore.cli.ask, xscore.pipeline.build, xscore.extensions.telemetry.spans;"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


async def test_who_cannot_be_told_costs_one_warning(shop: Path, server: OpenAIServer) -> None:
    """An exporter that raises takes nothing from the turn, and the stored receipt knows nothing of it."""
    async with Pipeline.open(shop, settings_for(server), listener=trace_listener(Broken())) as pipeline:
        answer = await pipeline.ask(TASK, answer=False)
        (body,) = pipeline.store.connection.execute("SELECT body FROM receipt").fetchone()
    assert answer.exit_code == 0
    assert answer.warnings == ("telemetry: OTEL_EXPORTER_OTLP_TIMEOUT is no number",)
    assert json.loads(body)["warnings"] == []


async def test_a_missing_extra_is_said_before_anything_is_sent(
    shop: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the setting and without the packages, opening says what to install."""
    monkeypatch.setattr("xscore.extensions.telemetry.spans.EXPORTER", "opentelemetry.exporter.not_there.at_all")
    settings = replace(settings_for(server), telemetry=TelemetrySettings(otel=True))
    with pytest.raises(UsageError, match="not installed") as caught:
        async with Pipeline.open(shop, settings):
            pass
    assert "pip install 'xscore[otel]'" in caught.value.hint
    assert server.counts.requests == 0
