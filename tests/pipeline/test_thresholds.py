"""Thresholds by kind in a whole turn: in selection, receipt, page and `explain`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.pipeline.conftest import TASK, settings_for
from tests.servers import OpenAIServer
from tests.servers.scoring import table
from xscore.cli.answer_account import render_near_misses
from xscore.cli.answer_text import render_selection
from xscore.pipeline.build import Pipeline
from xscore.pipeline.stored_receipt import read_receipt
from xscore.settings import SelectionSettings
from xscore.store.turn_history import past_turn


@pytest.fixture
def host() -> Iterator[OpenAIServer]:
    """A host that scores a function and a section of the README equally."""
    with OpenAIServer(
        score=table({"::total": 75, "::Shop > Discounts": 75, "::discount": 62}, default=4)
    ) as running:
        yield running


async def test_a_kind_is_kept_from_its_own_threshold_on(shop: Path, host: OpenAIServer) -> None:
    """With 0.8 for documents and 0.6 for code the section is a near miss, and every view shows the
    threshold."""
    selection = SelectionSettings(threshold={"code": 0.6, "doc": 0.8, "anthropic/doc": 0.1})
    settings = replace(settings_for(host), selection=selection)
    async with Pipeline.open(shop, settings) as pipeline:
        answer = await pipeline.ask(TASK, answer=False)
        explained = await pipeline.explain("README.md::Shop > Discounts")
        past = past_turn(pipeline.store.connection, answer.turn_id)
    assert [(memory.entity, memory.threshold) for memory in answer.selected] == [
        ("total", 0.6),
        ("discount", 0.6),
    ]
    section = next(memory for memory in answer.near_misses if memory.kind == "doc")
    assert (section.threshold, section.below_threshold) == (0.8, True)
    assert answer.threshold == 0.7
    assert answer.thresholds["doc"] == 0.8
    assert answer.thresholds["method"] == 0.6
    assert (explained.outcome, explained.threshold) == ("near_miss", 0.8)
    assert "below" not in render_selection(answer)
    assert "README.md:5-7 0.75" in render_near_misses(answer)
    assert past is not None and read_receipt(past.receipt).near_misses == answer.near_misses
