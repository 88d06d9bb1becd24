"""A memory that is made from no file here: its place is shown, and nowhere taken for a path."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.cli.memory_text import memory_json, render_memory
from xscore.extensions.transfer.snapshots import import_snapshot, snapshot_file, take_snapshot
from xscore.pipeline.build import Pipeline
from xscore.platform.database import transaction
from xscore.records.memory import Kind, Layer, Memory, MemoryOrigin, MemorySource
from xscore.records.turn import Turn
from xscore.store.lookup import find_memories
from xscore.store.memory_writer import make_memory, write_memory
from xscore.store.store import Store

NOW = 1_790_000_000.0
COMMIT = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d"
TASK = Turn(task="Why is a tenth taken off above one hundred?")
PRICES = "shop/prices.py"


def elsewhere(place: str, text: str, *, origin: MemoryOrigin = MemoryOrigin.COMMIT) -> Memory:
    """A memory of a commit, or of something else that is no file."""
    memory, _ = make_memory(
        layer=Layer.PROJECT,
        kind=Kind.CONTEXT,
        title="Take a tenth off",
        text=text,
        origin=origin,
        place=place,
        source=MemorySource.IMPORT,
        updated_at=NOW,
    )
    return memory


def store_all(store: Store, *memories: Memory) -> None:
    """Write memories as a source of them would."""
    with transaction(store.connection):
        for memory in memories:
            write_memory(store.connection, memory, before=None, now=NOW)


def provenances(bundle: str) -> set[str]:
    """Return what a context says of commits."""
    return set(re.findall(r"commit [\w./]+", bundle))


async def test_a_commit_passes_through_a_whole_turn(shop: Path, server: OpenAIServer) -> None:
    """It is a candidate, judged, chosen, shown with its place, and in the receipt; it has no path
    and no lines, also where its place reads like a file that exists here."""
    commit = elsewhere(COMMIT, "Large orders get a discount of a tenth, as sales agreed.")
    misleading = elsewhere(PRICES, "A page about discounts that lies elsewhere.")
    server.score = table({"as sales agreed": 97, "lies elsewhere": 91, f"{PRICES}::total": 88})
    async with Pipeline.open(shop, settings_for(server), clock=lambda: NOW) as pipeline:
        await pipeline.index()
        store_all(pipeline.store, commit, misleading)
        answer = await pipeline.ask(TASK)
        explained = await pipeline.explain(commit.id, turn_id=answer.turn_id)
        repeated = await pipeline.context(replace(TASK, fresh=True))
    selected = {memory.id: memory for memory in answer.selected}
    assert {commit.id, misleading.id} <= selected.keys()
    for memory in (commit, misleading):
        chosen = selected[memory.id]
        assert (chosen.path, chosen.start_line, chosen.end_line) == ("", 0, 0)
        assert (chosen.title, chosen.is_stale) == (memory.title, False)
        assert {boost.name for boost in chosen.boosts} <= {"recency"}
    assert answer.coverage.unjudged == 0
    assert {f"commit {COMMIT[:7]}", f"commit {PRICES}"} <= provenances(repeated.bundle or "")
    assert explained.outcome == "selected"
    assert repeated.coverage.cached == answer.coverage.candidates
    assert repeated.coverage.judged == 0


async def test_its_place_outlives_the_file_of_that_name(
    shop: Path, server: OpenAIServer
) -> None:
    """An index run that finds the file gone, or ignored, leaves the memory alone; a path names the
    memories of the file and no other."""
    misleading = elsewhere(PRICES, "A page about discounts that lies elsewhere.")
    async with Pipeline.open(shop, settings_for(server), clock=lambda: NOW) as pipeline:
        await pipeline.index()
        store_all(pipeline.store, misleading)
        found_by_path = {memory.id for memory in find_memories(pipeline.store, PRICES)}
        assert found_by_path and misleading.id not in found_by_path
        (shop / PRICES).unlink()
        (shop / ".gitignore").write_text("prices.py\n", "utf-8")
        await pipeline.index()
        assert find_memories(pipeline.store, misleading.id) == [misleading]
        assert find_memories(pipeline.store, PRICES) == []
        assert misleading.id in {candidate.id for candidate in pipeline.store.pool()}


async def test_it_is_exported_and_shown_with_its_place(
    shop: Path, server: OpenAIServer
) -> None:
    """A snapshot brings it back as it was; text and JSON say where it is from."""
    commit = elsewhere(COMMIT, "Large orders get a discount of a tenth.")
    async with Pipeline.open(shop, settings_for(server), clock=lambda: NOW) as pipeline:
        store_all(pipeline.store, commit)
        taken = snapshot_file(take_snapshot(pipeline.store), secret=pipeline.store.secret)
        await pipeline.forget(commit.id)
        assert find_memories(pipeline.store, commit.id) == []
        pipeline.store.connection.execute("DELETE FROM erased_memory")
        import_snapshot(pipeline.store, taken, name="snapshot")
        assert find_memories(pipeline.store, commit.id) == [commit]
    body = memory_json(commit)
    assert (body["origin"], body["place"], body["path"]) == ("commit", COMMIT, "")
    assert COMMIT in render_memory(commit, (), now=NOW)


@pytest.mark.parametrize(
    "origin", [origin for origin in MemoryOrigin if origin.value != "file"]
)
def test_a_path_is_of_a_file_here(origin: MemoryOrigin) -> None:
    """No memory has both a path and another origin, or comes from the index and from elsewhere."""
    memory = elsewhere("somewhere", "text", origin=origin)
    wrongs: list[dict[str, object]] = [{"path": PRICES}, {"origin": MemoryOrigin.FILE}]
    # The index makes memories of commits too.
    if origin is not MemoryOrigin.COMMIT:
        wrongs.append({"source": MemorySource.INDEX})
    for wrong in wrongs:
        with pytest.raises(ValueError, match=memory.id):
            replace(memory, **wrong)


@given(st.text(max_size=20), st.text(max_size=20))
def test_memories_of_two_places_are_two(first: str, second: str) -> None:
    """Equal names of two documents are two memories; an edit keeps the id."""
    ids = {elsewhere(place, "text").id for place in (first, second)}
    assert len(ids) == len({first, second})
    assert elsewhere(first, "another text").id == elsewhere(first, "text").id
