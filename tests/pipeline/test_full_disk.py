"""A disk that fills up at the worst moment."""

from pathlib import Path

from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from xscore.pipeline.build import Pipeline
from xscore.records import Turn

TASK = Turn(task="The discount of total is taken twice; take it once.")


async def test_a_receipt_that_finds_no_room_costs_no_answer(shop: Path, server: OpenAIServer) -> None:
    """A disk that fills up after the answering call: what was paid for is given, with a warning and exit code 6."""
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        connection = pipeline.parts.store.connection

        def fill_up(prompt: str) -> str:
            connection.execute("PRAGMA max_page_count = 1")  # taken as the pages there are now
            return "The answer. " * 10_000

        server.answer = fill_up
        answer = await pipeline.ask(TASK)
    assert answer.answer is not None and answer.answer.startswith("The answer.")
    assert answer.exit_code == 6
    assert any("this turn could not be kept" in warning for warning in answer.warnings)
