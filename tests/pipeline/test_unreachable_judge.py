"""If a host fails or the deadline comes first, the lexical ranking replaces it and says so."""

import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.pipeline.conftest import settings_for
from tests.servers.decision_server import DecisionServer
from tests.servers.faults import Fault
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.pipeline.build import Pipeline
from xscore.records.turn import Turn
from xscore.settings import DecisionSettings, HostAccess, OpenAISettings, Settings

TASK = Turn(task="Where does the cart put one thing into its lines? Cart.add")


def nowhere() -> str:
    """A base URL of a closed port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


async def ranked_by_words(shop: Path, settings: Settings, *, exit_code: int = 1) -> str:
    """Ask, check the lexical ranking, and return the turn."""
    async with Pipeline.open(shop, settings) as pipeline:
        answer = await pipeline.ask(TASK)
        row = pipeline.store.connection.execute(
            "SELECT state FROM turn WHERE id = ?", (answer.turn_id,)
        ).fetchone()
        explained = await pipeline.explain("Cart.add", turn_id=answer.turn_id)
        (cut,) = pipeline.store.connection.execute(
            "SELECT threshold FROM turn_figures"
        ).fetchall()[-1]
    assert (answer.exit_code, answer.ranked_by, answer.answer) == (exit_code, "lexical", None)
    assert (
        answer.coverage.unjudged
        == answer.coverage.candidates
        == sum(answer.unjudged.by_cause.values())
        > 0
    )
    assert "Cart.add" in {memory.entity for memory in answer.selected}
    assert answer.threshold == settings.selection.lexical_threshold
    assert answer.bundle and "def add" in answer.bundle
    assert answer.bundle.count("No model judged this") == 1
    assert any(
        "the lexical judge ranked instead" in warning and "xscore continue" in warning
        for warning in answer.warnings
    )
    assert "from the judge" not in explained.words
    assert row == ("partial",)
    assert cut == 0.7, "the figures name the model, so the threshold is the model's"
    return answer.turn_id


@pytest.mark.parametrize("probe", [True, False])
async def test_without_a_network_words_rank(
    shop: Path, server: OpenAIServer, probe: bool
) -> None:
    """Exit 1, all unjudged with the cause, and `continue` finishes the turn with its own models."""
    away = replace(
        settings_for(server, probe=probe, attempts=1), openai=OpenAISettings(base_url=nowhere())
    )
    turn = await ranked_by_words(shop, away)
    server.score = table({"shop/prices.py::total": 95})
    async with Pipeline.open(shop, settings_for(server, probe=probe)) as pipeline:
        connection = pipeline.store.connection
        # The host's port is part of the judge's identity.
        connection.execute("UPDATE turn SET judge = ''")
        resumed = await pipeline.resume(turn)
    assert resumed.exit_code == 0
    assert resumed.ranked_by == ""
    assert resumed.coverage.judged == resumed.coverage.candidates


async def test_a_deadline_before_anything_is_judged_lets_words_rank(
    shop: Path, server: OpenAIServer
) -> None:
    """With a silent host and a short deadline the ranking is there in time."""
    server.latency_s = 60.0
    settings = settings_for(server)
    async with Pipeline.open(shop, settings) as pipeline:
        await pipeline.index()
    await ranked_by_words(
        shop, replace(settings, budget=replace(settings.budget, deadline_s=1.0))
    )


async def test_the_seconds_are_those_the_user_waited(shop: Path, server: OpenAIServer) -> None:
    """Time before the turn began is in the receipt's total."""
    import time

    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        answer = await pipeline.ask(TASK, answer=False, started=time.monotonic() - 100)
    assert answer.latency.total >= 100


@pytest.mark.parametrize("fault", [Fault.WRONG_KEY, Fault.PAYMENT, Fault.UNAVAILABLE])
@pytest.mark.parametrize("probe", [True, False])
async def test_a_host_that_refuses_this_user_lets_words_rank(
    shop: Path, server: OpenAIServer, fault: Fault, probe: bool
) -> None:
    """A wrong key, an empty account and an overloaded host give the ranking that a dead host gives,
    still exit 3."""
    server.misbehave(fault, times=999)
    await ranked_by_words(shop, settings_for(server, probe=probe, attempts=1), exit_code=3)


async def test_a_model_that_answers_prose_lets_words_rank(
    shop: Path, server: OpenAIServer
) -> None:
    """A host without a usable score in any form of reply leaves the ranking to words, or to the
    models named."""
    server.misbehave(Fault.MALFORMED_CONTENT, times=999)
    await ranked_by_words(shop, settings_for(server, probe=True, attempts=1), exit_code=3)
    with DecisionServer() as second:
        access = DecisionSettings(hosts={"systemone": HostAccess(second.url)})
        settings = settings_for(
            server, probe=True, attempts=1, fallback=("systemone:second-1", "lexical")
        )
        async with Pipeline.open(shop, replace(settings, decisions=access)) as pipeline:
            answer = await pipeline.ask(TASK, answer=False)
    assert (answer.coverage.judged, answer.ranked_by) == (answer.coverage.candidates, "")


@pytest.mark.parametrize("fault", [Fault.UNKNOWN_MODEL, Fault.ECHO])
async def test_a_mistake_in_the_settings_stays_an_error(
    shop: Path, server: OpenAIServer, fault: Fault
) -> None:
    """An unknown model, or one that takes no such request, is not hidden behind a ranking: exit
    3."""
    server.misbehave(fault, times=999)
    async with Pipeline.open(shop, settings_for(server, probe=False, attempts=1)) as pipeline:
        answer = await pipeline.ask(TASK, answer=False)
    assert (answer.ranked_by, answer.exit_code) == ("", 3)
