"""An embedder changes the order of judging, never what is judged."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.observers import EventList
from tests.pipeline.conftest import settings_for
from tests.servers.embedding_server import EmbeddingServer
from xscore.extensions.vectors import local_search
from xscore.extensions.vectors.sign_blocks import ROW_BYTES
from xscore.pipeline.build import Pipeline
from xscore.records.calls import Stage
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import EmbeddingSettings, Settings

TASK = Turn(task="The discount of total is taken twice; take it once.")


@pytest.fixture
def embedding_server() -> Iterator[EmbeddingServer]:
    """A host that judges, answers and embeds."""
    with EmbeddingServer() as running:
        yield running


def judging_with(
    server: EmbeddingServer, judge: str = "lexical", *, embedder: str = "openai:vectors-1"
) -> Settings:
    """Return settings with this judge and an embedder."""
    plain = settings_for(server)
    return replace(
        plain,
        judge=replace(plain.judge, model=judge),
        embedding=EmbeddingSettings(model=embedder),
    )


async def ask(shop: Path, settings: Settings) -> Answer:
    """Ask in a new pipeline."""
    async with Pipeline.open(shop, settings) as pipeline:
        return await pipeline.ask(TASK, answer=False)


async def judged(shop: Path, settings: Settings, server: EmbeddingServer) -> set[str]:
    """Ask; return the ids of all judged memories. None may be left over."""
    server.counts.judgments.clear()
    answer = await ask(shop, settings)
    assert answer.coverage.judged == answer.coverage.candidates > 5
    return set(server.counts.judgments)


async def test_with_any_embedder_the_whole_pool_is_judged(
    shop: Path, embedding_server: EmbeddingServer
) -> None:
    """H07: an embedder changes which memories come first, but not which are judged."""
    without = await judged(shop, settings_for(embedding_server), embedding_server)
    assert embedding_server.embedded == []
    other_judge = judging_with(embedding_server, "openai:judge-3")
    assert await judged(shop, other_judge, embedding_server) == without
    assert len(embedding_server.embedded) > len(without)


def test_embedding_imports_no_vendors_sdk(
    shop: Path, embedding_server: EmbeddingServer
) -> None:
    """A turn that embeds spends no CPU second on an unused client."""
    imported = packages_imported(shop, embedding_server, "context", "the discount")
    assert embedding_server.embedded
    assert "aiohttp" in imported
    assert not {"openai", "anthropic"} & imported


def packages_imported(shop: Path, server: EmbeddingServer, *arguments: str) -> set[str]:
    """Run a command with an embedder; return the packages that it imported."""
    embedder = {
        "XSCORE_EMBEDDING_MODEL": "openai:vectors-1",
        "XSCORE_EMBEDDING_BASE_URL": server.url,
        "XSCORE_JUDGE_MODEL": "lexical",
        "OPENAI_API_KEY": "sk-test",
    }
    words = [sys.executable, "-X", "importtime", "-m", "xscore", *arguments]
    done = subprocess.run(
        words, cwd=shop, env=os.environ | embedder, capture_output=True, text=True, check=True
    )
    modules = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()]
    return {module.partition(".")[0] for module in modules}


def test_an_index_run_with_nothing_to_embed_loads_no_embedder(
    shop: Path, embedding_server: EmbeddingServer
) -> None:
    """The first embeds all; the next finds that, and one of an edit embeds what it changed."""
    assert "numpy" in packages_imported(shop, embedding_server, "index")
    embedded = len(embedding_server.embedded)
    assert not {"numpy", "aiohttp"} & packages_imported(shop, embedding_server, "index")
    assert len(embedding_server.embedded) == embedded > 5
    (shop / "added.py").write_text("def added():\n    return 1\n")
    assert "numpy" in packages_imported(shop, embedding_server, "index")
    assert embedded < len(embedding_server.embedded) < 2 * embedded


async def test_vectors_are_made_once_and_again_only_for_what_changed(
    shop: Path, embedding_server: EmbeddingServer
) -> None:
    """The second turn embeds only its task; an edited function is embedded again."""
    async with Pipeline.open(shop, judging_with(embedding_server)) as pipeline:
        await pipeline.context(TASK)
        first = len(embedding_server.embedded)
        await pipeline.context(TASK)
        assert len(embedding_server.embedded) == first + 1
        prices = shop / "shop" / "prices.py"
        prices.write_text(prices.read_text("utf-8").replace("9 // 10", "8 // 10"), "utf-8")
        embedding_server.embedded.clear()
        await pipeline.context(TASK)
    assert any("8 // 10" in text for text in embedding_server.embedded)
    assert len(embedding_server.embedded) < first


@pytest.mark.parametrize("judge", ["openai:judge-2", "lexical"])
async def test_a_host_that_fails_costs_the_likeness_and_no_more(
    shop: Path, embedding_server: EmbeddingServer, judge: str
) -> None:
    """The turn continues with words alone, with a warning."""
    embedding_server.statuses = [400] * 9
    answer = await ask(shop, judging_with(embedding_server, judge))
    assert answer.coverage.judged == answer.coverage.candidates
    assert any("by words only" in warning for warning in answer.warnings)


async def test_a_host_that_says_nothing_costs_some_seconds_and_no_more(
    shop: Path, embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task's own vector is awaited no longer than the memories'."""
    monkeypatch.setattr("xscore.extensions.vectors.turn_likeness.TURN_WAIT_S", 0.2)
    embedding_server.silent_s = 60.0
    answer = await ask(shop, judging_with(embedding_server))
    assert answer.coverage.judged == answer.coverage.candidates
    assert any("gave no vector for the task" in warning for warning in answer.warnings)
    assert answer.latency.judge < 30


async def test_each_call_is_in_the_ledger(
    shop: Path, embedding_server: EmbeddingServer
) -> None:
    """Embedding calls are recorded as `embed`, with tokens and price, and are in the turn's
    receipt."""
    async with Pipeline.open(
        shop, judging_with(embedding_server, "openai:judge-2")
    ) as pipeline:
        answer = await pipeline.ask(TASK, answer=False)
        rows = pipeline.parts.store.connection.execute(
            "SELECT outcome, input_tokens, cost FROM call WHERE stage = 'embed'"
        ).fetchall()
    assert len(rows) == len(embedding_server.batches) >= 2
    assert answer.spent(Stage.EMBED).calls == len(rows)
    assert answer.spent(Stage.EMBED).usage.input_tokens == sum(row[1] for row in rows)
    assert all(
        outcome == "ok" and tokens > 0 and float(cost) == 0 for outcome, tokens, cost in rows
    )


async def test_the_index_embeds_all_and_a_host_that_fails_is_told(
    shop: Path, embedding_server: EmbeddingServer
) -> None:
    """After `xscore index` a turn embeds only its task; if the host fails, the index is kept, with
    a warning."""
    embedding_server.statuses = [400]
    async with Pipeline.open(
        shop, judging_with(embedding_server), observer=(events := EventList())
    ) as pipeline:
        report = await pipeline.index()
        assert report.memories.total > 5
        assert any("have no vector yet" in message for message in events.notes)
        await pipeline.index()
        assert len(embedding_server.embedded) == report.memories.total
        await pipeline.context(TASK)
        assert len(embedding_server.embedded) == report.memories.total + 1


async def test_the_index_makes_the_signs_of_very_many_vectors(
    shop: Path, embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first turn after it has none to make."""
    monkeypatch.setattr(local_search, "EXACT_UP_TO", 0)
    async with Pipeline.open(shop, judging_with(embedding_server)) as pipeline:
        report = await pipeline.index()
    [path] = shop.rglob("memory.db")
    with closing(sqlite3.connect(path)) as store:
        [(signs,)] = store.execute("SELECT signs FROM sign_block").fetchall()
    assert len(signs) == report.memories.total * ROW_BYTES


async def test_without_an_embedder_nothing_changes(
    shop: Path, embedding_server: EmbeddingServer
) -> None:
    """`terms` is the default: no call, and the same scores and judge."""
    async with Pipeline.open(
        shop, judging_with(embedding_server, embedder="terms")
    ) as pipeline:
        plain = await pipeline.ask(TASK, answer=False)
        named = pipeline.parts.judge.identity.model
    async with Pipeline.open(shop, judging_with(embedding_server)) as pipeline:
        lifted = await pipeline.ask(TASK, answer=False)
        assert pipeline.parts.judge.identity.model == f"{named}+openai:vectors-1"
    assert named == "bm25-1"
    before = {memory.id: memory.score for memory in plain.selected}
    after = {memory.id: memory.score for memory in lifted.selected}
    assert before.keys() <= after.keys()
    assert all(after[identifier] >= score for identifier, score in before.items())
    assert after != before
