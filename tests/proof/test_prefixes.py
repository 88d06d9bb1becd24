"""Packs keep their bytes over turns, so that a provider's prefix cache serves rubric and pack."""

import json
from pathlib import Path

from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.prefix_cache import FLOOR_TOKENS, STEP_TOKENS, tokens
from xscore.pipeline.build import Pipeline
from xscore.prompts.rubric import CODE_RUBRIC
from xscore.records.calls import Stage
from xscore.records.turn import Turn


def cacheable(body: dict[str, object]) -> int:
    """Return the cacheable steps of rubric + pack in one request; below the floor nothing is
    cached."""
    messages = body["messages"]
    assert isinstance(messages, list)
    user = messages[-1]["content"]
    text = user if isinstance(user, str) else user[0]["text"]
    pack = text[: text.rindex("<turn>")] if isinstance(user, str) else text
    size = tokens(str(messages[0]["content"]) + pack)
    return size // STEP_TOKENS * STEP_TOKENS if size >= FLOOR_TOKENS else 0


async def test_another_task_is_served_from_the_prefix_cache(
    click_tree: Path, server: OpenAIServer
) -> None:
    """Another task over the same packs: at least 95 % of the cacheable prefix is served."""
    server.keep_bodies = True
    async with Pipeline.open(click_tree, settings_for(server)) as pipeline:
        await pipeline.ask(
            Turn(task="Why does a prompt repeat its default twice?"), answer=False
        )
        server.reset()
        second = await pipeline.ask(
            Turn(task="Show the option's environment variable in its help."), answer=False
        )
    bodies = [json.loads(json.dumps(body)) for body in server.counts.bodies]
    possible = sum(cacheable(body) for body in bodies)
    assert possible > 50_000
    assert server.counts.cached_tokens >= 0.95 * possible
    assert second.spent(Stage.JUDGE).usage.cached_input_tokens == server.counts.cached_tokens
    assert 300 <= tokens(CODE_RUBRIC.text()) <= 560


async def test_a_host_with_breakpoints_serves_them_too(
    click_tree: Path, server: OpenAIServer
) -> None:
    """At a host with explicit cache marks, the mark follows the pack; temporary packs write
    nothing."""
    settings = settings_for(server, model="openai:gpt-6-luna")
    async with Pipeline.open(click_tree, settings) as pipeline:
        await pipeline.ask(
            Turn(task="Why does a prompt repeat its default twice?"), answer=False
        )
        written = server.counts.written_tokens
        server.reset()
        await pipeline.ask(
            Turn(task="Show the option's environment variable in its help."), answer=False
        )
        assert server.counts.cached_tokens >= 0.95 * written > 50_000
        server.reset()
        source = click_tree / "click" / "termui.py"
        source.write_text(
            source.read_text().replace("def clear() -> None:", "def clear( ) -> None:")
        )
        await pipeline.ask(
            Turn(task="Show the option's environment variable in its help."), answer=False
        )
    assert server.counts.judging_requests == 1
    assert server.counts.written_tokens == 0
