"""A replay sends nothing, needs no key, and finds what was paid for."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.observers import EventList
from tests.pipeline.conftest import TASK, ask, settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import UsageError
from xscore.records.judgment import UnjudgedCause
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import (
    JudgeSettings,
    Secret,
    Settings,
)
from xscore.store.turn_history import latest_judge

OTHER = Turn(task="Where does the cart ask for its sum?")
SCORES = {"shop/prices.py::total": 95, "shop/prices.py::discount": 80}
KEY = Secret("sk-0123456789")


class NeverAsked(EventList):
    """An observer that must not be asked."""

    can_confirm = True

    def confirm(self, estimate: object) -> bool:
        """Fail: there is nothing to confirm."""
        raise AssertionError("a replay asked for a price")


@pytest.fixture
def no_socket(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make any connection an error, loopback included."""

    def refuse(self: socket.socket, address: object) -> None:
        raise AssertionError(f"a replay reached for {address!r}")

    for way in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, way, refuse)
    yield


def replaying(settings: Settings) -> Settings:
    """The same settings, in replay."""
    return replace(settings, judge=replace(settings.judge, replay=True))


def chosen(answer: Answer) -> list[tuple[str, float, str]]:
    """Return what a turn kept, with scores and reasons, in order."""
    return [(memory.id, memory.score, memory.reason) for memory in answer.selected]


async def test_a_cached_turn_is_replayed_as_it_was_paid(
    shop: Path, server: OpenAIServer, request: pytest.FixtureRequest
) -> None:
    """The same selection without calls, sockets or resources; the bundle replaces the answer."""
    server.score = table(SCORES)
    paid = await ask(shop, settings_for(server))
    request.getfixturevalue("no_socket")
    async with Pipeline.open(
        shop, replaying(settings_for(server)), observer=NeverAsked()
    ) as pipeline:

        def open_none(parts: object, turn_id: str) -> object:
            raise AssertionError("a replay opened resources")

        pipeline.parts = replace(pipeline.parts, resources_opener=open_none)
        replayed = await pipeline.ask(TASK)
    assert chosen(replayed) == chosen(paid) and len(chosen(paid)) == 2
    assert replayed.exit_code == 0 and replayed.coverage.cached == paid.coverage.candidates
    assert replayed.answer is None
    assert replayed.primary is None
    assert replayed.bundle
    assert "def total" in replayed.bundle


async def test_what_the_cache_lacks_is_unjudged_and_can_be_continued(
    shop: Path, server: OpenAIServer
) -> None:
    """An edited memory has no score in a replay, which says so and exits with 1; `continue` pays
    for it."""
    server.score = table(SCORES)
    await ask(shop, settings_for(server))
    (shop / "README.md").write_text("# Shop\n\nSells other things.\n")
    server.reset()
    async with Pipeline.open(
        shop, replaying(settings_for(server)), observer=NeverAsked()
    ) as pipeline:
        replayed = await pipeline.ask(TASK)
    unjudged = replayed.coverage.unjudged
    assert server.counts.requests == 0
    assert replayed.exit_code == 1
    assert replayed.unjudged.by_cause == {"replay": unjudged}
    assert unjudged > 0
    assert all(
        absent.cause == UnjudgedCause.REPLAY and absent.detail
        for absent in replayed.unjudged.sample
    )
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        resumed = await pipeline.resume(replayed.turn_id, answer=False)
    assert resumed.coverage.judged == unjudged and resumed.exit_code == 0


async def test_nothing_of_it_in_the_cache_ends_with_3(shop: Path, server: OpenAIServer) -> None:
    """A replay of a new question has judged nothing, as with an unreachable host."""
    async with Pipeline.open(shop, replaying(settings_for(server))) as pipeline:
        answer = await pipeline.ask(OTHER)
    assert answer.exit_code == 3 and server.counts.requests == 0
    assert answer.coverage.unjudged == answer.coverage.candidates


async def test_without_name_and_key_it_is_the_judge_that_judged_last(
    shop: Path, tmp_path: Path
) -> None:
    """The newest turn with judgments counts; a later replay without any does not change that."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"rules": [{"entity": "total", "score": 0.9}]}))
    paid = Settings(judge=JudgeSettings(model=f"scripted:{script}"))
    first = await ask(shop, paid)
    async with Pipeline.open(
        shop, replaying(Settings(judge=JudgeSettings(model="openai:gpt-9")))
    ) as pipeline:
        assert (await pipeline.ask(TASK)).exit_code == 3
        assert latest_judge(pipeline.store.connection) == f"scripted:{script}"
    async with Pipeline.open(shop, replaying(Settings())) as pipeline:
        replayed = await pipeline.ask(TASK)
    assert chosen(replayed) == chosen(first) and replayed.exit_code == 0
    assert any(
        f"scripted:{script}, which judged here last" in warning for warning in replayed.warnings
    )


async def test_a_probe_is_refused_in_a_replay(shop: Path, server: OpenAIServer) -> None:
    """Anything that would send is stopped at the single point that all calls pass."""
    async with Pipeline.open(shop, replaying(settings_for(server))) as pipeline:
        with pytest.raises(UsageError, match="replay sends nothing"):
            await pipeline.doctor(probe=True)
    assert server.counts.requests == 0


def test_no_http_client_is_needed(shop: Path, own_home: Path) -> None:
    """Without any HTTP client a replay works, with everything unjudged."""
    program = (
        "import sys\nfor name in ('openai', 'anthropic', 'aiohttp', 'httpx2'): sys.modules[name] ="
        " None\nfrom xscore.cli.main import run_command_line\nsys.argv = ['xscore', 'ask', 'why?',"
        " '--replay', '--judge', 'anthropic:claude-haiku-5-5', '--json']\nrun_command_line()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=shop,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    body = json.loads(done.stdout)
    assert done.returncode == 3 and body["unjudged"]["by_cause"] == {
        "replay": body["coverage"]["candidates"]
    }
