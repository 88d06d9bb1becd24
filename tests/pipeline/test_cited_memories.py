"""What a turn leaves besides its receipt: use is counted, and cited memories are adopted."""

from pathlib import Path

import pytest

from tests.cost_reports.page_reports import memory
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from tests.statements import say
from xscore.pipeline.answer_citations import cited_of
from xscore.pipeline.build import Pipeline
from xscore.records.memory import Kind
from xscore.records.turn import Turn

TASK = Turn(task="add a discount for regular customers")


async def test_what_the_answer_cites_is_adopted(shop: Path, server: OpenAIServer) -> None:
    """L08: an inferred convention gains confidence only when an answer cites it."""
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        cited, passed_over = (
            say(pipeline.store, text, kind=Kind.CONVENTION, confidence=0.6).memory
            for text in ("discounts are whole percents", "discounts are named in the changelog")
        )
        server.score = lambda memory, turn: (
            (95, "fits") if "discounts are" in memory.text else (1, "no")
        )
        server.answer = f"Whole percents it is [{cited.id}]."
        answer = await pipeline.ask(TASK)
        memories = pipeline.store.memories([cited.id, passed_over.id])
        await pipeline.ask(TASK)
        repeated = pipeline.store.memories([cited.id])
    assert {memory.id for memory in answer.selected} == {cited.id, passed_over.id}
    assert memories[cited.id].confidence > 0.6 == memories[passed_over.id].confidence
    assert [memory.access_count for memory in memories.values()] == [1, 1]
    assert repeated[cited.id].confidence == memories[cited.id].confidence, (
        "the same question again proves nothing"
    )


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("It is [m_aaaaaaaa].", "m_aaaaaaaa"),
        ("See shop.py:3.", "m_aaaaaaaa"),
        ("`Store.open` reads it.", "m_aaaaaaaa"),
        ("`open(path)` reads it.", "m_aaaaaaaa"),
        ("`store.open` reads it.", "m_aaaaaaaa"),
        ("`Other.close` and `Store.close`.", "m_bbbbbbbb m_cccccccc"),
        ("`close` is called.", ""),  # two have it
        ("It may open it.", ""),
        ("`id` is its id.", ""),
        ("`opens a store` shows it.", "m_eeeeeeee"),
    ],
)
def test_an_answer_cites_by_id_lines_or_name(answer: str, cited: str) -> None:
    """A last part counts where one chosen memory alone has it, and where it is no short word."""
    entities = {
        "m_aaaaaaaa": "Store.open",
        "m_bbbbbbbb": "Store.close",
        "m_cccccccc": "Other.close",
        "m_dddddddd": "Store.id",
        "m_eeeeeeee": "store > opens a store",
    }
    chosen = [
        memory(
            id=id_, path="shop.py", entity=entity, start_line=3 if id_ == "m_aaaaaaaa" else 90
        )
        for id_, entity in entities.items()
    ]
    assert cited_of(answer, chosen) == tuple(cited.split())
