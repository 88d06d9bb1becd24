"""An erasure reaches the shared server, or reports that it did not and is retried."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conftest import MakeRepo
from tests.extensions.privacy.test_erasure import judge, play
from tests.extensions.shared.server_processes import ServerProcess
from tests.pipeline.conftest import FILES, settings_for
from tests.servers.openai_server import OpenAIServer
from tests.statements import say
from tests.store.conftest import put, said
from xscore.extensions.privacy import erasure
from xscore.extensions.privacy.owed_erasures import owed_erasures, settle_owed_erasures
from xscore.extensions.shared.connect import server_factory, shared_server_name
from xscore.extensions.shared.server import SharedServer
from xscore.pipeline.build import Pipeline
from xscore.platform.hashing import digest
from xscore.platform.paths import find_root, user_data_dir
from xscore.records.judgment import Judgment
from xscore.records.reports import ErasureRequest
from xscore.records.turn import Turn
from xscore.settings import Settings
from xscore.settings.model import SharedSettings
from xscore.store.removal import note_shared_server, shared_servers
from xscore.store.store import Store

WORDS = "The walrus keeps the discount ledger under the pier"
TURN, OTHER, THIRD = ("turn", "judge", 0), ("other", "judge", 0), ("third", "judge", 0)
BOTH = [Judgment("a" * 32, 0.5, "of a"), Judgment("b" * 32, 0.6, "of b")]


async def known(server: SharedServer, names: tuple[str, str, int]) -> str:
    """Return which of two contents are judged in a turn, by first letter."""
    (result,) = await server.claim(
        names, [["a" * 32, "b" * 32]], at_most=0, runner="one", lease_s=30
    )
    return "".join(sorted(content[0] for content in result.known))


async def test_a_server_erases_by_content_by_turn_and_single_judgments(
    server: SharedServer, shared: SharedSettings
) -> None:
    """Erased in every turn of this tenant only; missing rows are not counted."""
    neighbour = server_factory(replace(shared, tenant=f"{shared.tenant}-2"))()
    for names in (TURN, OTHER, THIRD):
        await server.store_judgments(names, BOTH)
    await neighbour.store_judgments(TURN, BOTH)
    request = ErasureRequest(turns=((*OTHER, ()), (*THIRD, ("b" * 32,)), (*THIRD, ("c" * 32,))))
    assert [await server.erase(request) for _ in range(2)] == [3, 0]
    assert [await known(server, names) for names in (TURN, OTHER, THIRD)] == ["ab", "", "a"]
    request = ErasureRequest(
        contents=("a" * 32, *(f"{number:032x}" for number in range(3_000)))
    )
    assert [await server.erase(request) for _ in range(2)] == [2, 0]
    assert [await known(server, names) for names in (TURN, OTHER, THIRD)] == ["b", "", ""]
    assert await known(neighbour, TURN) == "ab"
    await neighbour.aclose()


@pytest.mark.parametrize("running", ["redis"], indirect=True)
async def test_many_turns_are_erased_in_steps(server: SharedServer) -> None:
    """A content judged by hundreds of turns is left in none of them."""
    turns = [(f"turn {number}", "judge", 0) for number in range(450)]
    for names in turns:
        await server.store_judgments(names, BOTH)
    assert await server.erase(ErasureRequest(contents=("a" * 32,))) == 450
    assert {await known(server, names) for names in turns} == {"b"}


def test_what_a_memory_was_judged_by_is_gone_from_the_server_too(
    make_repo: MakeRepo, shared: SharedSettings, running: ServerProcess
) -> None:
    """Scores and reasons of the erased content are gone, checked by a second request; all others
    stay."""
    root = make_repo(FILES)

    async def ask(settings: Settings) -> str:
        async with Pipeline.open(root, settings) as pipeline:
            say(pipeline.store, WORDS)
            return (
                await pipeline.ask(Turn(task="where is the discount taken?"), answer=False)
            ).turn_id

    with OpenAIServer() as host:
        settings = replace(settings_for(host), shared=shared)
        asyncio.run(ask(settings))
    with Store.open(find_root(root), user_data_dir=user_data_dir(None)) as store:
        assert shared_servers(store.connection) == (shared_server_name(shared),)
        (memory,) = (
            candidate
            for candidate in store.memories(c.id for c in store.pool()).values()
            if candidate.text == WORDS
        )
        (names,) = store.connection.execute(
            "SELECT turn_key, judge, sample FROM query"
        ).fetchall()
        other_hashes = [c.content_hash for c in store.pool() if c.id != memory.id]
        erasure.erase_memories(store, [memory.id], now=1.0)
        (done,) = settle_owed_erasures(store.connection, settings, verify=True)
        assert (done.removed, done.left, done.problem) == (1, 0, "")
        assert owed_erasures(store.connection) == {}

    async def still_there() -> set[str]:
        server = server_factory(shared)()
        packs = [[memory.content_hash, *other_hashes]]
        (result,) = await server.claim(names, packs, at_most=0, runner="one", lease_s=30)
        await server.aclose()
        return set(result.known)

    assert asyncio.run(still_there()) == set(other_hashes)


def test_what_a_server_could_not_be_told_is_owed_to_it(tmp_path: Path) -> None:
    """Hashes outlive the text: by content unless another memory shows it, by turn if a question is
    erased."""
    (tmp_path / "project").mkdir()
    with Store.open(find_root(tmp_path / "project"), user_data_dir=tmp_path / "user") as store:
        gone, twin, same = (
            said(WORDS),
            said("Said by two memories alike", ordinal=1),
            said("Said by two memories alike", ordinal=2),
        )
        put(store.connection, gone, twin, same)
        judge(store.connection, twin, f"as the note says: {WORDS}")
        turn = play(store, "why is the umber walrus late?", "It is low tide.")
        store.connection.execute(
            "INSERT INTO query (turn_key, judge) VALUES (?, 'j')",
            (digest("why is the umber walrus late?"),),
        )
        erasure.erase_memories(store, [twin.id], now=1.0)
        assert owed_erasures(store.connection) == {}, "nothing was ever shared"
        note_shared_server(store.connection, "redis://gone, tenant t")
        erasure.erase_memories(store, [gone.id], turns=[turn], now=1.0)
        (owed,) = owed_erasures(store.connection).values()
        assert gone.content_hash in owed.contents and same.content_hash not in owed.contents
        assert owed.turns == (
            (digest("why is the umber walrus late?"), "j", 0, ()),
            ("tk", "j", 0, (twin.content_hash,)),
        )
        put(store.connection, later := said("Another one that goes later", ordinal=3))
        erasure.erase_memories(store, [later.id], now=2.0)
        (owed,) = owed_erasures(store.connection).values()
        assert {gone.content_hash, later.content_hash} <= set(owed.contents), (
            "it adds up until it is told"
        )
