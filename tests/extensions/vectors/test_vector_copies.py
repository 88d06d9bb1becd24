"""What the store notes of the vectors that a server was sent, and a server that is away."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from tests.extensions.shared.server_programs import free_port
from tests.extensions.vectors.conftest import EMBEDDER, clustered, fill, searching
from tests.pipeline.conftest import settings_for
from tests.servers.embedding_server import EmbeddingServer
from xscore.extensions.privacy.owed_erasures import LEFT_ON_PURPOSE, settle_owed_erasures
from xscore.extensions.recovery.salvage import salvage_store
from xscore.extensions.vectors import pool_search
from xscore.extensions.vectors.pool_search import nearest_memories, send_copies
from xscore.extensions.vectors.search_backends import open_search, search_server_name
from xscore.extensions.vectors.vector_search import VectorPartition, partition_of
from xscore.pipeline.build import Pipeline
from xscore.platform import database
from xscore.platform.errors import UsageError
from xscore.records.turn import Turn
from xscore.settings import EmbeddingSettings, Secret, Settings, load_settings
from xscore.store.opening import connect_store
from xscore.store.store import Store
from xscore.store.vector_copies import (
    confirm_copies,
    count_copies,
    drop_copies,
    forget_complete,
    gone_copies,
    mark_unsent,
    note_complete,
    note_copies,
    servers_with_gone_copies,
    uncopied_texts,
    vectors_to_copy,
)
from xscore.store.vector_rows import put_vectors

SERVER = "pgvector at somewhere"
NOBODY = VectorPartition(member="", repository="", embedder="")


def test_a_vector_is_sent_until_the_server_has_confirmed_it(store: Store) -> None:
    """A request that was cut off is made again; what may have arrived is erased with its text."""
    first, second = fill(store, clustered(2))
    both = sorted([first.text_hash, second.text_hash])
    assert uncopied_texts(store.connection, EMBEDDER, SERVER) == both
    copied = vectors_to_copy(store.connection, EMBEDDER, both)
    assert [vector.text_hash for vector in copied] == both
    note_copies(store.connection, EMBEDDER, SERVER, both)
    assert uncopied_texts(store.connection, EMBEDDER, SERVER) == both
    confirm_copies(store.connection, EMBEDDER, SERVER, [first.text_hash])
    assert uncopied_texts(store.connection, EMBEDDER, SERVER) == [second.text_hash]
    assert uncopied_texts(store.connection, EMBEDDER, "another") == both
    store.connection.execute("DELETE FROM memory_row")
    assert gone_copies(store.connection, SERVER) == {EMBEDDER: both}
    drop_copies(store.connection, EMBEDDER, SERVER, both)
    assert servers_with_gone_copies(store.connection) == []


def test_what_a_server_lost_is_sent_again(store: Store) -> None:
    """Marked unsent, a vector is missing there, and yet is erased with its text."""
    (memory,) = fill(store, clustered(1))
    note_copies(store.connection, EMBEDDER, SERVER, [memory.text_hash])
    assert count_copies(store.connection, EMBEDDER, SERVER) == 0
    confirm_copies(store.connection, EMBEDDER, SERVER, [memory.text_hash])
    assert count_copies(store.connection, EMBEDDER, SERVER) == 1
    mark_unsent(store.connection, EMBEDDER, SERVER)
    assert count_copies(store.connection, EMBEDDER, SERVER) == 0
    assert uncopied_texts(store.connection, EMBEDDER, SERVER) == [memory.text_hash]
    store.connection.execute("DELETE FROM memory_row")
    assert gone_copies(store.connection, SERVER) == {EMBEDDER: [memory.text_hash]}


def test_that_a_server_has_all_is_noted_until_it_changes(store: Store) -> None:
    """The note is used as it is; whatever adds vectors, or changes what a server has, removes
    it."""
    hashes = sorted(memory.text_hash for memory in fill(store, clustered(3)))
    note_copies(store.connection, EMBEDDER, SERVER, hashes)
    confirm_copies(store.connection, EMBEDDER, SERVER, hashes[:2])
    note_complete(store.connection, EMBEDDER, SERVER)
    # One is missing, so there is no note.
    assert uncopied_texts(store.connection, EMBEDDER, SERVER) == hashes[2:]
    assert count_copies(store.connection, EMBEDDER, SERVER) == 2
    confirm_copies(store.connection, EMBEDDER, SERVER, hashes[2:])
    note_complete(store.connection, EMBEDDER, SERVER)
    # Behind its back: the note is what is read.
    store.connection.execute("UPDATE vector_copy SET is_there = 0")
    assert uncopied_texts(store.connection, EMBEDDER, SERVER) == []
    assert count_copies(store.connection, EMBEDDER, SERVER) == 3
    assert uncopied_texts(store.connection, EMBEDDER, "another") == hashes
    confirm_copies(store.connection, EMBEDDER, SERVER, hashes[:1])
    assert uncopied_texts(store.connection, EMBEDDER, SERVER) == hashes[1:]


def test_a_new_vector_is_missing_where_all_were(store: Store) -> None:
    """Vectors that are added later are sent, and so is one that is made again."""
    memories = fill(store, clustered(2))
    hashes = [memory.text_hash for memory in memories]
    note_copies(store.connection, EMBEDDER, SERVER, hashes)
    confirm_copies(store.connection, EMBEDDER, SERVER, hashes)
    note_complete(store.connection, EMBEDDER, SERVER)
    with database.transaction(store.connection):
        store.connection.execute("DELETE FROM vec WHERE text_hash = ?", (hashes[0],))
        put_vectors(store.connection, EMBEDDER, [(memories[0], clustered(1)[0].tobytes())])
    assert uncopied_texts(store.connection, EMBEDDER, SERVER) == hashes[:1]
    confirm_copies(store.connection, EMBEDDER, SERVER, hashes)
    note_complete(store.connection, EMBEDDER, SERVER)
    (added,) = fill(store, clustered(1), first=2)
    assert uncopied_texts(store.connection, EMBEDDER, SERVER) == [added.text_hash]


def test_a_server_has_what_is_gone_here_until_it_is_told(store: Store) -> None:
    """The noted count holds until an erasure begins, which may then leave fewer."""
    hashes = [memory.text_hash for memory in fill(store, clustered(3))]
    note_copies(store.connection, EMBEDDER, SERVER, hashes)
    confirm_copies(store.connection, EMBEDDER, SERVER, hashes)
    note_complete(store.connection, EMBEDDER, SERVER)
    store.connection.execute("DELETE FROM memory_row")
    assert count_copies(store.connection, EMBEDDER, SERVER) == 3
    forget_complete(store.connection, EMBEDDER, SERVER)
    assert count_copies(store.connection, EMBEDDER, SERVER) == 0


def test_what_is_to_be_sent_again_has_no_noted_count(store: Store) -> None:
    """A noted count would have the server lose the same vectors at every search."""
    hashes = [memory.text_hash for memory in fill(store, clustered(3))]
    note_copies(store.connection, EMBEDDER, SERVER, hashes)
    confirm_copies(store.connection, EMBEDDER, SERVER, hashes)
    note_complete(store.connection, EMBEDDER, SERVER)
    mark_unsent(store.connection, EMBEDDER, SERVER)
    assert count_copies(store.connection, EMBEDDER, SERVER) == 0


def test_a_text_that_comes_back_is_not_erased(store: Store) -> None:
    """A vector that is gone and made again before the server was reached is sent again."""
    (memory,) = fill(store, clustered(1))
    note_copies(store.connection, EMBEDDER, SERVER, [memory.text_hash])
    confirm_copies(store.connection, EMBEDDER, SERVER, [memory.text_hash])
    store.connection.execute("DELETE FROM memory_row")
    assert servers_with_gone_copies(store.connection) == [SERVER]
    fill(store, clustered(1))
    assert servers_with_gone_copies(store.connection) == []
    assert uncopied_texts(store.connection, EMBEDDER, SERVER) == [memory.text_hash]


def test_a_vector_made_again_stays_with_the_server(store: Store) -> None:
    """Two memories of one text: that the second writes the same vector erases nothing."""
    (memory,) = fill(store, clustered(1))
    note_copies(store.connection, EMBEDDER, SERVER, [memory.text_hash])
    with database.transaction(store.connection):
        put_vectors(store.connection, EMBEDDER, [(memory, clustered(1)[0].tobytes())])
    assert gone_copies(store.connection, SERVER) == {}


def test_what_a_server_has_is_known_after_a_rebuild(store: Store, tmp_path: Path) -> None:
    """A rebuilt store has no vectors: the server erases its own, but those that are made again."""
    memories = fill(store, clustered(3))
    hashes = [memory.text_hash for memory in memories]
    note_copies(store.connection, EMBEDDER, SERVER, hashes)
    confirm_copies(store.connection, EMBEDDER, SERVER, hashes)
    with closing(connect_store(tmp_path / "rebuilt.db")) as rebuilt:
        salvage_store(store.root.store_file, rebuilt, None)
        assert gone_copies(rebuilt, SERVER) == {EMBEDDER: sorted(hashes)}


def test_an_erasure_stays_owed_until_its_server_is_named_or_given_up(store: Store) -> None:
    """Vectors at a server that the settings do not name are owed; `--here-only` gives them up."""
    (memory,) = fill(store, clustered(1))
    note_copies(store.connection, EMBEDDER, SERVER, [memory.text_hash])
    store.connection.execute("DELETE FROM memory_row")
    for _ in range(2):
        (owed,) = settle_owed_erasures(store.connection, Settings(), verify=True)
        assert owed.problem and owed.server == SERVER and owed.is_vectors
    (given_up,) = settle_owed_erasures(store.connection, Settings(), here_only=True)
    assert given_up.problem == LEFT_ON_PURPOSE
    assert settle_owed_erasures(store.connection, Settings()) == ()


async def test_a_server_that_is_away_costs_one_line(store: Store) -> None:
    """The store is searched instead; for a while after, nothing is asked of the server."""
    port = free_port()
    settings = searching(f"postgresql://ada@127.0.0.1:{port}/team")
    fill(store, clustered(30))
    query = clustered(1)[0].astype(np.float32)
    exact = await nearest_memories(store, Settings(), EMBEDDER, query, 10)
    assert await send_copies(store, settings, EMBEDDER, in_turn=True) != ""
    first = await nearest_memories(store, settings, EMBEDDER, query, 10)
    assert first.cosines == exact.cosines
    assert len(first.warnings) == 1
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        listener.listen()
        listener.setblocking(False)
        assert await send_copies(store, settings, EMBEDDER, in_turn=True) == ""
        assert await nearest_memories(store, settings, EMBEDDER, query, 10) == first
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


async def test_a_silent_server_costs_a_turn_one_line(
    shop: Path, silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole turn: every memory is judged, with one warning."""
    monkeypatch.setattr(pool_search, "SEARCH_S", 0.3)
    with EmbeddingServer() as server:
        embedding = EmbeddingSettings(
            model="openai:vectors-1", search=Secret(f"postgresql://ada@127.0.0.1:{silent}/team")
        )
        settings = replace(settings_for(server), embedding=embedding)
        async with Pipeline.open(shop, settings) as pipeline:
            answer = await pipeline.ask(Turn(task="the discount of total"), answer=False)
    assert answer.coverage.judged == answer.coverage.candidates > 5
    assert len([line for line in answer.warnings if "searched in the store" in line]) == 1


@pytest.mark.parametrize(
    "place",
    [
        "nonsense",
        "mysql://host/x",
        "qdrant:relative/folder",
        "qdrant://x:KEY@host:9",
        "qdrant:/x:KEY@host:9",
        "qdrant:https://host:port",
        "postgresql://[::1",
        "qdrant:http://vectors.example:6333",
        "postgresql://ada@vectors.example/team?sslmode=require",
        "postgresql://ada@vectors.example/team?host=other",
    ],
)
def test_what_names_no_search_or_an_open_one_is_refused(place: str) -> None:
    """Vectors go nowhere unencrypted, and a wrong setting is a wrong use."""
    with pytest.raises(UsageError) as refused:
        open_search(searching(place), NOBODY, timeout_s=1)
    assert refused.value.hint
    assert "KEY" not in f"{refused.value.message} {refused.value.hint}"


def test_a_password_is_shown_nowhere() -> None:
    """The name of a server, which is stored and shown, has neither password nor API key."""
    for place in (
        "postgresql://ada:s3cret@127.0.0.1/team",
        "qdrant:https://:s3cret@127.0.0.1:6333",
    ):
        assert "s3cret" not in search_server_name(searching(place))


def test_a_repository_cannot_have_vectors_sent(tmp_path: Path) -> None:
    """A clone's own settings file names no server."""
    (tmp_path / ".xscore.toml").write_text('[embedding]\nsearch = "qdrant:/tmp/x"\n')
    loaded = load_settings(repo_root=tmp_path, user_file=None, environ={})
    assert loaded.settings.embedding.search.reveal() == ""
    assert any("embedding.search" in warning for warning in loaded.warnings)


def test_partitions_differ_by_user_and_repository(store: Store, second_store: Store) -> None:
    """One user's hashed id, two hashed repositories, and nothing of either in the clear."""
    first, second = (partition_of(opened, EMBEDDER) for opened in (store, second_store))
    assert first.member == second.member
    assert first.repository != second.repository
    assert store.store_id not in repr(first)
