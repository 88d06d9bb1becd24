"""What the answering model sees besides code: stale memories, the session and its tone; and what it
may cite."""

import re
from pathlib import Path

from msgspec.structs import replace

from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.pipeline.build import Pipeline
from xscore.platform import database
from xscore.records.memory import Kind, Layer, MemorySource
from xscore.records.statement import Statement
from xscore.records.turn import Turn
from xscore.settings import SessionSettings
from xscore.store import evidence, memory_writer
from xscore.store.citing import parse_citation
from xscore.store.remembering import remember

NOW = 1_800_000_000.0
WANTED = "quokka"


def systems(server: OpenAIServer) -> list[str]:
    """Return the system texts of all requests so far."""
    return [str(body["messages"][0]["content"]) for body in server.counts.bodies]


async def test_a_stale_decision_says_what_has_changed(shop: Path, server: OpenAIServer) -> None:
    """L12: the changed span is named above the decision that cites it."""
    server.score = lambda memory, turn: (90, "said so") if WANTED in memory.text else (2, "no")
    decision, _ = memory_writer.make_memory(
        layer=Layer.GOVERNANCE,
        kind=Kind.DECISION,
        title="the quokka discount",
        text="Every quokka gets a tenth off.",
        source=MemorySource.EXPLICIT,
        updated_at=NOW - 40 * 86_400,
    )
    prices = shop / "shop" / "prices.py"
    async with Pipeline.open(shop, settings_for(server), clock=lambda: NOW) as pipeline:
        connection = pipeline.store.connection
        cited = parse_citation(pipeline.store.root, "shop/prices.py:9-11")
        with database.transaction(connection):
            memory_writer.put_memories(connection, [decision])
            evidence.attach_citations(connection, decision.id, [cited])
        fresh = await pipeline.context(Turn(task="Take the discount once."))
        prices.write_text(prices.read_text().replace("100", "200"))
        stale = await pipeline.context(Turn(task="Take the discount once."))
    prior = (
        f"[{decision.id}] decision (said by the user 40 days ago; "
        "prior context, not immutable law"
    )
    assert f"{prior})" in (fresh.bundle or "")
    assert f"{prior}; stale: what it cites has changed in shop/prices.py:9-11)" in (
        stale.bundle or ""
    )


async def test_the_session_is_told_and_may_be_cited(shop: Path, server: OpenAIServer) -> None:
    """B09, B06b: summary and latest exchanges as configured, the tone in the system text, and no
    false alarm."""
    prompts: list[str] = []

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        earlier = re.findall(r'<exchange id="(m_\w+)">', prompt)
        return f"As before [{earlier[-1]}]." if earlier else "Done [m_00000000000000000000]."

    server.answer = answer
    server.score = table({"total": 90})
    settings = settings_for(server)
    session = SessionSettings(persona="formal", exchanges=2)
    settings = replace(settings, session=session)
    async with Pipeline.open(shop, settings, clock=lambda: NOW) as pipeline:
        answers = [await pipeline.ask(Turn(task=f"Take discount {n} once.")) for n in range(5)]
    assert any("was not shown" in warning for warning in answers[0].warnings)
    assert not any(
        "was not shown" in warning for later in answers[1:] for warning in later.warnings
    )
    assert [len(re.findall("<exchange id", prompt)) for prompt in prompts] == [0, 1, 2, 2, 2]
    assert ["<session_summary>" in prompt for prompt in prompts] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert sum("Keep a formal, impersonal tone" in system for system in systems(server)) == 5
    silent = replace(settings, session=SessionSettings(exchanges=0))
    async with Pipeline.open(shop, silent, clock=lambda: NOW) as pipeline:
        await pipeline.ask(Turn(task="Take discount 9 once."))
    assert "<exchange id" not in prompts[-1]
    assert not any("formal" in system for system in systems(server)[-1:])


async def test_a_stated_facet_is_told_with_the_task(shop: Path, server: OpenAIServer) -> None:
    """B04: a preference of `persona.*` that the user stated is in the answer's prompt; an inferred
    one, and another key, are not."""
    prompts: list[str] = []

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        return "Done."

    server.answer = answer
    server.score = table({"total": 90})
    async with Pipeline.open(shop, settings_for(server), clock=lambda: NOW) as pipeline:
        store = pipeline.parts.store
        stated = Statement(
            text="short sentences", kind=Kind.PREFERENCE, key="persona.verbosity"
        )
        remember(store, stated)
        guessed = replace(
            stated,
            text="rhymes",
            key="persona.tone",
            source=MemorySource.INFERRED,
            confidence=0.6,
        )
        remember(store, guessed)
        await pipeline.ask(Turn(task="Take the discount once."))
    assert "verbosity: short sentences" in prompts[-1]
    assert "rhymes" not in prompts[-1].partition("<answer_manner>")[2].partition("</answer_")[0]
