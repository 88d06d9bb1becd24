"""What a turn leaves besides its receipt: use is counted, and cited memories are adopted."""

from pathlib import Path

from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from tests.statements import say
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
