"""Packs are marked at a host that charges for caching only while gaps between turns make it pay."""

from pathlib import Path

import pytest

from tests.pipeline.conftest import settings_for
from tests.servers.anthropic_server import AnthropicServer
from tests.servers.openai_server import OpenAIServer
from xscore.pipeline.build import Pipeline
from xscore.records.turn import Turn
from xscore.settings import AnthropicSettings, JudgeSettings, Settings

HOUR_S = 3_600.0


async def ask(root: Path, settings: Settings, task: str) -> str:
    """Ask once without an answer; return the turn."""
    async with Pipeline.open(root, settings) as pipeline:
        return (await pipeline.ask(Turn(task=task), answer=False)).turn_id


async def put_back(root: Path, settings: Settings, seconds: float) -> None:
    """Move all turns so far back in time."""
    async with Pipeline.open(root, settings) as pipeline:
        pipeline.parts.store.connection.execute(
            "UPDATE turn SET started_at = started_at - ?", (seconds,)
        )


@pytest.mark.parametrize("model", ["gpt-6-luna"])
async def test_marks_stop_where_turns_are_days_apart(
    shop: Path, server: OpenAIServer, model: str
) -> None:
    """The first turn marks; after a few isolated turns no mark is written, after consecutive turns
    it is again."""
    settings = settings_for(server, model=f"openai:{model}")
    marked = []
    for day in range(12):
        server.reset()
        await ask(shop, settings, f"the question of day {day}")
        marked.append(
            any("prompt_cache_breakpoint" in str(body) for body in server.counts.bodies)
        )
        await put_back(shop, settings, 24 * HOUR_S)
    assert marked[0] and not marked[-1]
    for number in range(12):
        server.reset()
        await ask(shop, settings, f"the question number {number}")
    assert any("prompt_cache_breakpoint" in str(body) for body in server.counts.bodies)


def _ttl_of(text: str) -> str:
    """Return how long a request asks its host to keep its prefix: an hour, five minutes, or not."""
    if "cache_control" not in text:
        return ""
    return "1h" if "'1h'" in text else "5m"


async def test_claude_is_asked_to_keep_packs_as_long_as_it_pays(shop: Path) -> None:
    """Turns minutes apart: five minutes; half an hour apart: an hour; days apart: no caching."""
    with AnthropicServer() as server:
        settings = Settings(
            judge=JudgeSettings(model="anthropic:claude-haiku-5-5", probe=False),
            anthropic=AnthropicSettings(base_url=server.url.removesuffix("/v1")),
        )
        kept = {}
        for gap_s in (120.0, 30 * 60.0, 24 * HOUR_S):
            for number in range(12):
                server.reset()
                await ask(shop, settings, f"question {number} at a pace of {gap_s}")
                await put_back(shop, settings, gap_s)
            controls = {
                str(body.get("messages")) + str(body.get("system"))
                for body in server.counts.bodies
            }
            kept[gap_s] = [_ttl_of(text) for text in controls]
    assert {gap_s: set(marks) for gap_s, marks in kept.items()} == {
        120.0: {"5m"},
        1_800.0: {"1h"},
        86_400.0: {""},
    }
