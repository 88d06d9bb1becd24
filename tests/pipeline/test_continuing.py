"""A turn is continued with its own judge and with the files it named that remain."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.observers import EventList
from tests.pipeline.conftest import ask, settings_for
from tests.servers.openai_server import OpenAIServer
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import UsageError
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import LoadedSettings, Settings, load_settings

TASK = Turn(task="The discount is taken twice; take it once.")


def at(server: OpenAIServer, **flags: object) -> LoadedSettings:
    """Settings as the command line reads them, with the judge only in flags."""
    environ = {
        "OPENAI_BASE_URL": server.url,
        "XSCORE_JUDGE_PROBE": "0",
        "OPENAI_API_KEY": "sk-0123456789",
    }
    return load_settings(repo_root=None, user_file=None, environ=environ, flags=flags)


async def begun(shop: Path, settings: Settings | LoadedSettings, turn: Turn = TASK) -> Answer:
    """Ask without an answer, leaving a turn to continue."""
    return await ask(shop, settings, turn)


async def test_files_that_are_gone_are_left_out(shop: Path, server: OpenAIServer) -> None:
    """If the current file and a recent one were deleted, the turn continues without them and says
    so."""
    named = replace(TASK, file="shop/cart.py", line=3, recent=("README.md", "pyproject.toml"))
    first = await begun(shop, settings_for(server), named)
    (shop / "shop" / "cart.py").unlink()
    (shop / "README.md").unlink()
    watch = EventList()
    async with Pipeline.open(shop, settings_for(server), observer=watch) as pipeline:
        second = await pipeline.resume(first.turn_id)
    assert second.coverage.carried > 0
    assert any("shop/cart.py, README.md" in note for note in watch.notes)


async def test_a_turn_goes_on_with_its_own_judge(shop: Path, server: OpenAIServer) -> None:
    """Without a named judge the turn's own continues, and nothing is paid twice."""
    first = await begun(shop, at(server, **{"judge.model": "openai:judge-2"}))
    paid = server.counts.judging_requests
    watch = EventList()
    async with Pipeline.open(shop, at(server), observer=watch) as pipeline:
        assert pipeline.parts.judge.identity.model != "judge-2"
        second = await pipeline.resume(first.turn_id)
    assert second.judge.model == "judge-2"
    assert second.coverage.carried == second.coverage.candidates
    assert server.counts.judging_requests == paid
    assert any("its own judge, openai:judge-2" in note for note in watch.notes)


async def test_a_killed_turn_goes_on_with_its_own_judge(
    shop: Path, server: OpenAIServer
) -> None:
    """Killed before any judgment or receipt, a turn still knows its judge."""
    first = await begun(shop, at(server, **{"judge.model": "openai:judge-2"}))
    async with Pipeline.open(shop, at(server)) as pipeline:
        connection = pipeline.parts.store.connection
        for statement in (
            "DELETE FROM judgment",
            "DELETE FROM receipt",
            "UPDATE turn SET state = 'running'",
        ):
            connection.execute(statement)
        second = await pipeline.resume(first.turn_id)
    assert (
        second.judge.model == "judge-2" and second.coverage.judged == second.coverage.candidates
    )


async def test_a_turn_goes_on_with_its_own_answering_model(
    shop: Path, server: OpenAIServer
) -> None:
    """It does even if nothing was judged yet, and for the lexical judge; a flag names
    another."""
    for judge in ("openai:judge-2", "lexical"):
        first = await begun(
            shop, at(server, **{"judge.model": judge, "primary.model": "openai:strong-2"})
        )
        async with Pipeline.open(shop, at(server)) as pipeline:
            for statement in (
                "DELETE FROM judgment",
                "UPDATE turn SET state = 'interrupted', answer = ''",
            ):
                pipeline.parts.store.connection.execute(statement)
            second = await pipeline.resume(first.turn_id)
        assert second.primary is not None and second.primary.model == "strong-2"
        assert second.judge.by_model is (judge != "lexical")
        assert second.answer == server.answer or not second.selected
    async with Pipeline.open(
        shop, at(server, **{"primary.model": "openai:strong-3"})
    ) as pipeline:
        third = await pipeline.resume(first.turn_id)
    assert third.primary is not None and third.primary.model == "strong-3"


@pytest.mark.parametrize("flags", [{"judge.model": "openai:other-1"}, {"judge.pack_size": 1}])
async def test_another_judge_is_refused(
    shop: Path, server: OpenAIServer, flags: dict[str, object]
) -> None:
    """With another judge, or options that change it, the turn is not paid again: exit 2 and a
    remedy."""
    first = await begun(shop, at(server, **{"judge.model": "openai:judge-2"}))
    server.reset()
    async with Pipeline.open(shop, at(server, **flags)) as pipeline:
        with pytest.raises(UsageError, match=r"openai:judge-2") as refused:
            await pipeline.resume(first.turn_id)
    assert refused.value.exit_code == 2 and "xscore ask" in refused.value.hint
    assert server.counts.requests == 0


async def test_a_turn_that_judged_nothing_may_have_another_judge(
    shop: Path, server: OpenAIServer
) -> None:
    """Nothing was paid, so nothing is lost: the current judge takes over."""
    first = await begun(shop, at(server, **{"judge.model": "lexical"}))
    watch = EventList()
    async with Pipeline.open(shop, settings_for(server), observer=watch) as pipeline:
        second = await pipeline.resume(first.turn_id)
    assert second.coverage.judged == second.coverage.candidates
    assert any("nothing of it was judged" in note for note in watch.notes)
