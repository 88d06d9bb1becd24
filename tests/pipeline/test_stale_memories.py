"""When cited code changes the memory is stale and judged lower; undone, it is as before."""

import json
from pathlib import Path

import pytest

from tests.conftest import git
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.extensions.learning.audit import AuditProblem, audit_memories
from xscore.pipeline.build import Pipeline
from xscore.platform import database
from xscore.records.memory import Kind, Layer, Memory, MemorySource, MemoryStatus
from xscore.records.receipt import Answer, Selected
from xscore.records.turn import Turn
from xscore.settings import JudgeSettings, Settings
from xscore.store import evidence, memory_views, memory_writer
from xscore.store.citing import parse_citation
from xscore.store.store import Store

TASK = Turn(task="Why is the discount rounded down, and not up?")
WORDS = (
    "We decided: the discount is rounded down, since customers must never pay more than the sum"
    " shown."
)


def decide(store: Store, *cited: str) -> Memory:
    """Remember why the discount is rounded down."""
    decision, _ = memory_writer.make_memory(
        layer=Layer.GOVERNANCE,
        kind=Kind.DECISION,
        title="Round down",
        text=WORDS,
        entity="Round down",
        source=MemorySource.EXPLICIT,
        updated_at=1.0,
    )
    spans = [
        parse_citation(store.root, reference, connection=store.connection)
        for reference in cited
    ]
    with database.transaction(store.connection):
        memory_writer.put_memories(store.connection, [decision])
        evidence.attach_citations(store.connection, decision.id, spans)
    return decision


def shown(answer: Answer, memory: Memory) -> Selected:
    """Return the memory from the chosen ones and near misses."""
    return next(
        chosen for chosen in (*answer.selected, *answer.near_misses) if chosen.id == memory.id
    )


def edit(shop: Path) -> None:
    """Change the cited function."""
    file = shop / "shop/prices.py"
    file.write_text(file.read_text().replace("* 9 // 10", "* 8 // 10"))


async def test_an_edit_makes_stale_and_its_undoing_is_a_cache_hit(
    shop: Path, server: OpenAIServer
) -> None:
    """Evidence: a stale memory has other content, so it is judged again with the mark; undone, the
    old judgment is used.
    """
    server.score = table({"Round down": 90}, default=10)
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        await pipeline.index()
        memory = decide(pipeline.store, "shop/prices.py::discount")
        first = await pipeline.ask(TASK, answer=False)
        assert (shown(first, memory).is_stale, shown(first, memory).cached) == (False, False)

        before = len(server.counts.bodies)
        edit(shop)
        second = await pipeline.ask(TASK, answer=False)
        assert (shown(second, memory).is_stale, shown(second, memory).cached) == (True, False)
        assert memory_views.STALE_MARK.strip() in json.dumps(
            server.counts.bodies[before:], ensure_ascii=False
        )
        audit = audit_memories(pipeline.store, pipeline.store.settings, now=2e9)
        assert [
            (finding.problem, finding.ids)
            for finding in audit.findings
            if finding.problem is AuditProblem.STALE
        ] == [(AuditProblem.STALE, (memory.id,))]
        assert "It is stale" in (await pipeline.explain(memory.id)).words

        git(shop, "checkout", "-q", "shop/prices.py")
        third = await pipeline.ask(TASK, answer=False)
        assert (shown(third, memory).is_stale, shown(third, memory).cached) == (False, True)
        assert third.coverage.judged == 0
        assert pipeline.store.memories([memory.id])[memory.id].status is MemoryStatus.ACTIVE


async def test_without_a_model_a_stale_memory_scores_a_band_lower(shop: Path) -> None:
    """The lexical judge deducts a quarter, and its reason says so."""
    async with Pipeline.open(shop, Settings(judge=JudgeSettings(model="lexical"))) as pipeline:
        await pipeline.index()
        memory = decide(pipeline.store, "shop/prices.py::discount")
        first = shown(await pipeline.ask(TASK), memory)
        edit(shop)
        second = shown(await pipeline.ask(TASK), memory)
    assert "stale" not in first.reason
    assert second.reason.startswith("stale, what it cites has changed; ")
    assert second.raw_score == pytest.approx(0.75 * first.raw_score, rel=0.05)
