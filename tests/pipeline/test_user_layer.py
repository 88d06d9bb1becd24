"""The user's own memories are part of every turn, and their judgments stay in the user's store."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conftest import store_dir
from tests.pipeline.conftest import ask, settings_for
from tests.pipeline.test_decision_turns import settings_for as decision_settings
from tests.servers.decision_server import DecisionServer
from tests.servers.openai_server import OpenAIServer
from tests.store.conftest import put
from xscore.cli.answer_account import render_routing
from xscore.cli.answer_text import render_selection
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import StoreError
from xscore.records.memory import Kind, Layer, MemoryScope, MemorySource
from xscore.records.turn import Turn
from xscore.settings import OpenAISettings, Settings
from xscore.store import memory_writer
from xscore.store.opening import open_user_store

TASK = Turn(task="add a discount for regular customers")
PREFERENCE = "Prefers xylophone-style commit messages for every discount"
REASON = "regular customers care for zebra-coloured commits"


def with_user(server: OpenAIServer, folder: Path, **judge: object) -> Settings:
    """Settings with the user store in a test folder."""
    settings = settings_for(server, max_usd="1", **judge)
    return replace(settings, store=replace(settings.store, user_data_dir=folder))


@pytest.fixture
def user_dir(tmp_path: Path) -> Path:
    """A user's data folder with one preference."""
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o700)
    connection = open_user_store(folder)
    preference, _ = memory_writer.make_memory(
        layer=Layer.USER,
        kind=Kind.PREFERENCE,
        title="commit style",
        text=PREFERENCE,
        entity="user commit-style",
        key="commit-style",
        scope=MemoryScope.GLOBAL,
        source=MemorySource.EXPLICIT,
        created_at=1.0,
        updated_at=1.0,
    )
    put(connection, preference)
    connection.close()
    return folder


def raw(folder: Path, name: str) -> bytes:
    """Return all bytes of a database and its journals."""
    return b"".join(file.read_bytes() for file in sorted(folder.glob(f"{name}*")))


async def test_the_user_layer_is_judged_and_kept_apart(
    shop: Path, server: OpenAIServer, user_dir: Path
) -> None:
    """P07: the second turn costs nothing; text, reason and judgment are only in the user's
    store."""
    server.score = lambda memory, turn: (
        (91, REASON) if "xylophone" in memory.text else (2, "no")
    )
    async with Pipeline.open(shop, with_user(server, user_dir)) as pipeline:
        first = await pipeline.ask(TASK, answer=False)
        repeated = await pipeline.ask(TASK, answer=False)
        counts = [
            connection.execute("SELECT count(*) FROM judgment").fetchone()[0]
            for connection in pipeline.store.connections()
        ]
        used = (
            pipeline.store.connections()[1]
            .execute("SELECT access_count FROM memory")
            .fetchone()[0]
        )
    assert [chosen.layer for chosen in first.selected] == ["user"]
    assert [chosen.layer for chosen in repeated.selected] == ["user"]
    assert first.selected[0].reason == REASON == repeated.selected[0].reason
    assert "commit style" in render_selection(first)
    assert repeated.coverage.judged == 0
    assert repeated.coverage.cached == repeated.coverage.candidates
    assert counts == [first.coverage.candidates - 1, 1]
    assert used == 2
    project_bytes, user_bytes = raw(store_dir(shop), "memory.db"), raw(user_dir, "user.db")
    for word in (b"xylophone", b"zebra", b"commit style"):
        assert word in user_bytes
        assert word not in project_bytes


async def test_oversized_memories_of_the_user_leave_nothing_behind(
    shop: Path, server: OpenAIServer, user_dir: Path
) -> None:
    """P07: for a memory judged in parts, the parts' judgments are in the user's store too."""
    connection = open_user_store(user_dir)
    long, _ = memory_writer.make_memory(
        layer=Layer.USER,
        kind=Kind.PREFERENCE,
        title="long",
        text="\n\n".join(f"paragraph {number} " + "words " * 100 for number in range(30)),
        entity="user long",
        source=MemorySource.EXPLICIT,
    )
    put(connection, long)
    connection.close()
    async with Pipeline.open(shop, with_user(server, user_dir, pack_tokens=400)) as pipeline:
        answer = await pipeline.ask(TASK, answer=False)
        in_project, in_user_store = (
            connection.execute("SELECT count(*) FROM judgment").fetchone()[0]
            for connection in pipeline.store.connections()
        )
        entries = pipeline.store.connection.execute(
            "SELECT count(*) FROM content WHERE memories = 0"
        ).fetchone()[0]
    assert answer.coverage.unjudged == 0
    assert in_project == answer.coverage.candidates - 2
    assert in_user_store > 5
    assert entries == 0


async def test_a_user_store_that_is_broken_does_not_stop_a_turn(
    shop: Path, server: OpenAIServer, user_dir: Path
) -> None:
    """A11: the receipt names the layer; `strict` makes it an error."""
    (user_dir / "user.db").write_bytes(b"nothing of the kind" * 50)
    for journal in user_dir.glob("user.db-*"):
        journal.unlink()
    settings = with_user(server, user_dir)
    answer = await ask(shop, settings, TASK)
    assert answer.coverage.unjudged == 0
    assert any("the user layer" in warning for warning in answer.warnings)
    assert "not read" in render_routing(answer)
    strict = replace(settings, routing=replace(settings.routing, strict=True))
    async with Pipeline.open(shop, strict) as pipeline:
        with pytest.raises(StoreError, match="user layer"):
            await pipeline.ask(TASK, answer=False)


async def test_two_turns_at_once_share_the_judging_of_the_user_layer(
    shop: Path, server: OpenAIServer, user_dir: Path
) -> None:
    """X05: claims work in the user's store too, so each candidate is paid for once."""
    async with Pipeline.open(shop, with_user(server, user_dir)) as first:
        await first.index()
    settings = with_user(server, user_dir)
    async with Pipeline.open(shop, settings) as first, Pipeline.open(shop, settings) as second:
        answers = await asyncio.gather(
            first.ask(TASK, answer=False), second.ask(TASK, answer=False)
        )
    assert sum(answer.coverage.judged for answer in answers) == answers[0].coverage.candidates
    assert all(answer.coverage.unjudged == 0 for answer in answers)


async def test_second_answers_and_reasons_of_the_users_memories_stay_in_their_store(
    shop: Path, server: OpenAIServer, user_dir: Path
) -> None:
    """P07: a second answer and the chat model's reason are stored with the first answer, and
    nowhere else."""
    server.score, server.reasons_from = (lambda *_: (7, REASON)), 0
    scores = iter((72, 74))
    with DecisionServer(
        score=lambda memory, _: next(scores) if "xylophone" in memory.text else 4
    ) as judge:
        settings = replace(
            decision_settings(judge, reason_model="openai:judge-2"),
            openai=OpenAISettings(base_url=server.url),
        )
        settings = replace(settings, store=replace(settings.store, user_data_dir=user_dir))
        async with Pipeline.open(shop, settings) as pipeline:
            first = await pipeline.ask(TASK, answer=False)
            repeated = await pipeline.ask(TASK, answer=False)
            project, user = pipeline.store.connections()
            samples = (
                "SELECT sample, count(*) FROM judgment JOIN query ON query.id = query_id GROUP BY"
                " sample"
            )
            samples_by_store = [
                connection.execute(samples).fetchall() for connection in (project, user)
            ]
            reasons = [
                connection.execute("SELECT text FROM reason").fetchall()
                for connection in (project, user)
            ]
    assert [(chosen.layer, chosen.draws, chosen.reason) for chosen in first.selected] == [
        ("user", (0.72, 0.74), REASON)
    ]
    assert [(chosen.score, chosen.reason) for chosen in repeated.selected] == [
        (first.selected[0].score, REASON)
    ]
    assert (samples_by_store[1], reasons) == ([(0, 1), (1, 1)], [[], [(REASON,)]]) and dict(
        samples_by_store[0]
    ).keys() == {0}
