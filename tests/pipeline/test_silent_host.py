"""A host that cannot be reached is told of while it is tried again, not after."""

import socket
from pathlib import Path

import pytest

from xscore.pipeline.build import Pipeline
from xscore.records import SilentObserver, Turn
from xscore.settings import JudgeSettings, OpenAISettings, Settings

pytestmark = pytest.mark.verify


class Hears(SilentObserver):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        """Keep it."""
        self.notes.append(message)


async def test_a_host_that_cannot_be_reached_is_named_once(shop: Path) -> None:
    """Many calls are refused and tried again; the user is told at the first, and once."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings = Settings(
        judge=JudgeSettings(model="openai:judge-2", attempts=2, pack_size=1, probe=False),
        openai=OpenAISettings(base_url=f"http://127.0.0.1:{port}/v1"),
    )
    async with Pipeline.open(shop, settings, observer=(watch := Hears())) as pipeline:
        answer = await pipeline.ask(Turn(task="the discount is taken twice"), answer=False)
    assert answer.exit_code == 3
    assert len(watch.notes) == 1
    assert f"127.0.0.1:{port}" in watch.notes[0] and "trying again" in watch.notes[0]
