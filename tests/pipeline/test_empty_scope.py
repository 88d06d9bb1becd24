"""A filter without matches is reported before anything is sent."""

from pathlib import Path

import pytest

from tests.extensions.batch.question_lists import QUESTIONS
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from xscore import Pipeline, Turn
from xscore.extensions.batch.ask_list import ask_list
from xscore.pipeline.parts import TurnOptions
from xscore.pipeline.pool import narrow_to_scope, refuse_empty_scope
from xscore.platform.errors import NothingMatched
from xscore.records.candidates import Candidate
from xscore.records.memory import Kind, Layer
from xscore.records.turn import Scope

NOWHERE = Scope(paths=("src/*",))


async def test_a_turn_about_nothing_is_not_taken(shop: Path, server: OpenAIServer) -> None:
    """A glob or kind without matches ends the command with a message, alone or in a list, and no
    model is called."""
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        with pytest.raises(NothingMatched, match=r"--glob src/\*") as caught:
            await pipeline.ask(Turn(task="where is the discount?", scope=NOWHERE))
        assert ".gitignore" in caught.value.hint
        with pytest.raises(NothingMatched, match="--layer user"):
            await pipeline.ask(
                Turn(task="where is the discount?", scope=Scope(layers=("user",)))
            )
        with pytest.raises(NothingMatched, match="no memory matches"):
            await ask_list(
                pipeline.parts,
                QUESTIONS,
                TurnOptions(answer=True),
                like=Turn(task="", scope=NOWHERE),
            )
    assert not server.counts.requests


def test_a_memory_without_a_path_does_not_satisfy_a_glob() -> None:
    """It passes every glob among others; alone it would hide that the glob matches no file."""
    note = Candidate("m", "h", Layer.PROJECT, Kind.DECISION, "", "", 0, 0, "", 1, 0.0)
    code = Candidate(
        "c", "h", Layer.GRAPH, Kind.FUNCTION, "src/a.py", "a", 1, 2, "python", 1, 0.0
    )
    with pytest.raises(NothingMatched):
        refuse_empty_scope(
            [note, code], narrow_to_scope((note, code), Scope(paths=("nosuch/**",))), NOWHERE
        )
    refuse_empty_scope([note, code], narrow_to_scope((note, code), NOWHERE), NOWHERE)
    refuse_empty_scope([note], [note], Scope(layers=("project",)))
