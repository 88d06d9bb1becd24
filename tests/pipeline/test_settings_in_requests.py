"""Settings reach the request: the host gets what the user configured for judge and answering
model."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.pipeline.conftest import TASK, ask, settings_for
from tests.servers.openai_server import OpenAIServer
from xscore.pipeline.build import Pipeline
from xscore.settings import SelectionSettings, Settings


async def judging_bodies(
    shop: Path, server: OpenAIServer, settings: Settings
) -> list[dict[str, Any]]:
    """Ask once, and return the requests to the judge's host."""
    await ask(shop, settings)
    return server.counts.bodies


def said(body: dict[str, Any]) -> str:
    """Return the user message of a request."""
    return str(body["messages"][1]["content"])


async def test_the_order_of_the_prompt(shop: Path, server: OpenAIServer) -> None:
    """`judge.order`: the pack comes first, or the turn."""
    first = await judging_bodies(shop, server, settings_for(server))
    assert not said(first[-1]).startswith("<turn>")
    swapped = await judging_bodies(shop, server, settings_for(server, order="turn_first"))
    assert said(swapped[-1]).startswith("<turn>")


async def test_the_size_of_a_pack(shop: Path, server: OpenAIServer) -> None:
    """`judge.pack_tokens` and `judge.pack_size` limit a prompt's memories."""
    calls = []
    changes: tuple[dict[str, Any], ...] = ({}, {"pack_tokens": 200}, {"pack_size": 1})
    for change in changes:
        async with Pipeline.open(shop, settings_for(server, **change)) as pipeline:
            calls.append((await pipeline.estimate(TASK)).judge.calls)
    assert calls == sorted(set(calls))


@pytest.mark.parametrize(
    ("change", "instruction"),
    [
        ({}, "scored 30 or more"),
        ({"reasons_from": 0.6}, "scored 60 or more"),
        ({"reasons": "all"}, "a reason for every id."),
    ],
)
async def test_who_gets_a_reason(
    shop: Path, server: OpenAIServer, change: dict[str, Any], instruction: str
) -> None:
    """`judge.reasons_from` and `judge.reasons` are in the closing line."""
    bodies = await judging_bodies(shop, server, settings_for(server, **change))
    assert all(instruction in said(body) for body in bodies)


async def test_tests_are_shown_as_cards_or_whole(shop: Path, server: OpenAIServer) -> None:
    """`judge.tests`: the body of a test is sent only if configured."""
    cards = await judging_bodies(shop, server, settings_for(server))
    assert not any("total([100, 100]) == 180" in said(body) for body in cards)
    server.counts.bodies.clear()
    full_bodies = await judging_bodies(shop, server, settings_for(server, tests="full"))
    assert any("total([100, 100]) == 180" in said(body) for body in full_bodies)


async def test_the_answering_call_is_as_set(shop: Path, server: OpenAIServer) -> None:
    """`primary.max_output_tokens` and `primary.reasoning` reach the host, `bundle.max_tokens`
    limits the context."""
    settings = settings_for(server)
    primary = replace(settings.primary, max_output_tokens=321, reasoning="high")
    bundle = replace(settings.bundle, max_tokens=60)
    chosen = replace(
        settings,
        primary=primary,
        bundle=bundle,
        selection=SelectionSettings(threshold=0.0, top_k=12),
    )
    async with Pipeline.open(shop, chosen) as pipeline:
        answer = await pipeline.ask(TASK)
    sent = next(body for body in server.counts.bodies if body["model"] == "strong-1")
    assert (sent["max_completion_tokens"], sent["reasoning_effort"]) == (321, "high")
    assert "<left_out>" in said(sent)
    assert any("do not fit into 60 tokens" in warning for warning in answer.warnings)
