"""A narrowing that leaves nothing is said to, before anything is sent."""

from pathlib import Path

import pytest

from tests.extensions.batch.lists import QUESTIONS, judged
from tests.pipeline.conftest import server, settings_for, shop
from tests.servers.openai_server import OpenAIServer
from xscore import Pipeline, Turn
from xscore.extensions.batch.ask_list import AskListOptions, ask_list
from xscore.platform.errors import NothingMatched
from xscore.records import Scope

__all__ = ["server", "shop"]
NOWHERE = Scope(paths=("src/*",))


async def test_a_turn_about_nothing_is_not_taken(shop: Path, server: OpenAIServer) -> None:
    """A glob or a kind that nothing has ends it with words about them, alone or in a list, and no model is called."""
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        with pytest.raises(NothingMatched, match=r"no memory matches --path src/\*") as told:
            await pipeline.ask(Turn(task="where is the discount?", scope=NOWHERE))
        assert ".gitignore" in told.value.hint
        with pytest.raises(NothingMatched, match="no memory matches --layer user"):
            await pipeline.ask(Turn(task="where is the discount?", scope=Scope(layers=("user",))))
        with pytest.raises(NothingMatched, match="no memory matches"):
            await ask_list(pipeline.parts, QUESTIONS, AskListOptions(scope=NOWHERE))
    assert not server.counts.requests


async def test_a_list_about_no_file_is_not_judged(shop: Path, server: OpenAIServer) -> None:
    """What was said in sessions has no path and passes every glob; a list is not about that alone."""
    settings = settings_for(server)
    async with Pipeline.open(shop, settings) as pipeline:
        await pipeline.ask(Turn(task="where is the discount?"))
    sent = server.counts.requests
    with pytest.raises(NothingMatched, match=r"no memory matches --path src/\*"):
        await judged(shop, settings, scope=NOWHERE)
    assert server.counts.requests == sent
