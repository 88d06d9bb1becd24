"""PostgreSQL with pgvector, and Qdrant in a folder: both find what the store finds, erase, and keep
partitions apart."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
import pytest

from tests.extensions.shared.postgres_process import PostgresProcess, run_postgres
from tests.extensions.shared.server_programs import free_port
from tests.extensions.vectors.conftest import DIMENSIONS, EMBEDDER, clustered, fill, searching
from xscore.extensions.privacy.owed_erasures import settle_owed_erasures
from xscore.extensions.shared.team.address import team_address
from xscore.extensions.shared.team.setup import apply_setup
from xscore.extensions.vectors import pgvector
from xscore.extensions.vectors.pool_search import nearest_memories, send_copies
from xscore.extensions.vectors.projection import PROJECTED
from xscore.extensions.vectors.search_backends import search_server_name
from xscore.extensions.vectors.turn_likeness import check_embedder
from xscore.extensions.vectors.vector_search import noted_partition
from xscore.pipeline.parts import DOCTOR_CHECKS
from xscore.platform import database
from xscore.records.reports import DoctorFinding
from xscore.settings import EmbeddingSettings, Secret, Settings
from xscore.store.store import Store
from xscore.store.vector_copies import uncopied_texts


@pytest.mark.parametrize("dimensions", [DIMENSIONS, 2 * PROJECTED])
async def test_a_server_finds_what_the_store_finds(
    store: Store, server_place: str, dimensions: int
) -> None:
    """Ten of a thousand: the same memories, but for one that an approximate index may miss, with
    the same cosines; also where the server has projections."""
    settings = searching(server_place)
    rows = clustered(1_000, dimensions)
    fill(store, rows)
    assert await send_copies(store, settings, EMBEDDER, in_turn=False) == ""
    assert uncopied_texts(store.connection, EMBEDDER, search_server_name(settings)) == []
    for row in rows[:5].astype(np.float32):
        exact = await nearest_memories(store, Settings(), EMBEDDER, row, 10)
        by_server = await nearest_memories(store, settings, EMBEDDER, row, 10)
        assert by_server.warnings == ()
        in_both = exact.cosines.keys() & by_server.cosines.keys()
        assert len(in_both) >= 9
        for identifier in in_both:
            assert abs(exact.cosines[identifier] - by_server.cosines[identifier]) < 1e-3


async def test_each_repository_has_a_partition(
    store: Store, second_store: Store, server_place: str
) -> None:
    """Two repositories of equal content: what one has erased, the other still finds."""
    settings = searching(server_place)
    rows = clustered(60)
    for filled in (store, second_store):
        fill(filled, rows)
        assert await send_copies(filled, settings, EMBEDDER, in_turn=False) == ""
    query = rows[0].astype(np.float32)
    store.connection.execute("DELETE FROM memory_row")
    assert await send_copies(store, settings, EMBEDDER, in_turn=False) == ""
    assert (await nearest_memories(store, settings, EMBEDDER, query, 10)).cosines == {}
    of_other = await nearest_memories(second_store, settings, EMBEDDER, query, 10)
    assert of_other.warnings == ()
    assert len(of_other.cosines) == 10


def test_what_is_erased_here_is_erased_there(
    store: Store, server_place: str, tmp_path: Path
) -> None:
    """An erasure names the server, says how many vectors went, and that none is left; no row and no
    byte of Qdrant's files has the text's hash."""
    settings = searching(server_place)
    memories = fill(store, clustered(20))
    assert asyncio.run(send_copies(store, settings, EMBEDDER, in_turn=False)) == ""
    erased = memories[3]
    with database.transaction(store.connection):
        store.connection.execute("DELETE FROM memory_row WHERE id = ?", (erased.id,))
    (erasure,) = settle_owed_erasures(store.connection, settings, verify=True)
    assert erasure.problem == ""
    assert (erasure.removed, erasure.left, erasure.is_vectors) == (1, 0, True)
    assert erasure.server == search_server_name(settings)
    assert settle_owed_erasures(store.connection, settings, verify=True) == ()
    partition = noted_partition(store.connection, EMBEDDER)
    hashes = _hashes_at(server_place, tmp_path, partition.repository)
    assert bytes.fromhex(memories[4].text_hash) in hashes
    assert bytes.fromhex(erased.text_hash) not in hashes


def _hashes_at(place: str, folder: Path, repository: str) -> bytes:
    """Return what a server has, with the bytes of the hashes of texts in it."""
    if place.startswith("qdrant:"):
        files = [file for file in (folder / "qdrant").rglob("*") if file.is_file()]
        return b"".join(file.read_bytes() for file in files)
    with psycopg.connect(place) as connection:
        query = "SELECT text_hash FROM xscore_vectors.vector WHERE repository = %s"
        rows = connection.execute(query, (repository,)).fetchall()
    return b" ".join(bytes.fromhex(text_hash) for (text_hash,) in rows)


async def test_doctor_names_the_server(server_place: str) -> None:
    """The finding says what answers, and shows no password."""
    embedding = EmbeddingSettings(model="openai:m", search=Secret(server_place))
    findings = await check_embedder(Settings(embedding=embedding))
    (finding,) = [finding for finding in findings if finding.name == "vector search"]
    assert finding.ok
    assert search_server_name(searching(server_place)) in finding.detail


@pytest.mark.verify
async def test_doctor_says_that_a_server_lacks_pgvector(tmp_path: Path) -> None:
    """It is said before the first vectors are sent; a server that has it is sound without them."""
    server = run_postgres(tmp_path)
    try:
        with psycopg.connect(server.url) as connection:
            query = "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"
            (offered,) = connection.execute(query).fetchone() or (0,)
        embedding = EmbeddingSettings(model="openai:m", search=Secret(server.url))
        findings = await check_embedder(Settings(embedding=embedding))
    finally:
        server.kill()
    (finding,) = [finding for finding in findings if finding.name == "vector search"]
    assert finding.ok == bool(offered)
    assert ("has no pgvector" in finding.detail) is not finding.ok


async def test_doctor_says_that_a_search_without_an_embedder_finds_nothing() -> None:
    """Such a setting would be ignored in silence."""
    searched = Settings(embedding=EmbeddingSettings(search=Secret("qdrant:/q")))
    findings = [finding async for finding in _findings_of(searched)]
    (finding,) = [finding for finding in findings if finding.name == "vector search"]
    assert not finding.ok
    assert "embedding.model" in finding.hint


async def _findings_of(settings: Settings) -> AsyncIterator[DoctorFinding]:
    """Yield what all checks of `doctor` find that these settings call for."""
    for check in DOCTOR_CHECKS.implementations(settings):
        for finding in await check(settings):
            yield finding


def _lose_vectors(place: str) -> None:
    """Remove what the server has, behind the store's back."""
    if place.startswith("qdrant:"):
        shutil.rmtree(place.removeprefix("qdrant:"))
        return
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("DROP TABLE xscore_vectors.vector")
        connection.execute("DROP SCHEMA xscore_vectors CASCADE")


@pytest.mark.parametrize("new_vectors", [0, 5])
async def test_a_server_that_lost_its_vectors_gets_them_again(
    store: Store, server_place: str, new_vectors: int
) -> None:
    """Until it has them, the store is searched, with a warning; vectors that are sent in between
    do not hide that others are missing."""
    settings = searching(server_place)
    rows = clustered(60)
    sent_before = 60 - new_vectors
    fill(store, rows[:sent_before])
    query = rows[0].astype(np.float32)
    assert await send_copies(store, settings, EMBEDDER, in_turn=False) == ""
    _lose_vectors(server_place)
    if new_vectors:
        fill(store, rows[sent_before:], first=sent_before)
    exact = await nearest_memories(store, Settings(), EMBEDDER, query, 10)
    if not new_vectors:
        found_in_store = await nearest_memories(store, settings, EMBEDDER, query, 10)
        assert found_in_store.cosines == exact.cosines
        assert len(found_in_store.warnings) == 1
    assert await send_copies(store, settings, EMBEDDER, in_turn=True) == ""
    by_server = await nearest_memories(store, settings, EMBEDDER, query, 10)
    assert by_server.warnings == ()
    assert by_server.cosines.keys() == exact.cosines.keys()


def _lose_one_vector(place: str, text_hash: str) -> None:
    """Remove one vector of what the server has, behind the store's back."""
    if not place.startswith("qdrant:"):
        with psycopg.connect(place, autocommit=True) as connection:
            statement = "DELETE FROM xscore_vectors.vector WHERE text_hash = %s"
            connection.execute(statement, (text_hash,))
        return
    edge = pytest.importorskip("qdrant_edge")
    (path,) = Path(place.removeprefix("qdrant:")).glob(f"xscore_*_{DIMENSIONS}")
    shard = edge.EdgeShard.load(str(path))
    shard.update(edge.UpdateOperation.delete_points([UUID(hex=text_hash)]))
    shard.flush()
    shard.close()


async def test_the_loss_of_one_vector_is_noticed(store: Store, server_place: str) -> None:
    """With the next vectors that are sent, what is missing is sent as well."""
    settings = searching(server_place)
    rows = clustered(30)
    memories = fill(store, rows[:29])
    assert await send_copies(store, settings, EMBEDDER, in_turn=False) == ""
    _lose_one_vector(server_place, memories[7].text_hash)
    fill(store, rows[29:], first=29)
    assert await send_copies(store, settings, EMBEDDER, in_turn=False) == ""
    by_server = await nearest_memories(store, settings, EMBEDDER, rows[7].astype(np.float32), 1)
    assert by_server.warnings == ()
    assert list(by_server.cosines) == [memories[7].id]


@pytest.mark.verify
@pytest.mark.skipif(find_spec("qdrant_client") is None, reason="needs qdrant-client")
async def test_a_warning_of_the_client_is_not_shown(
    store: Store, recwarn: pytest.WarningsRecorder
) -> None:
    """It warns of a key without TLS, which only this machine's own servers get."""
    settings = searching(f"qdrant:http://:s3cret@127.0.0.1:{free_port()}")
    fill(store, clustered(3))
    assert await send_copies(store, settings, EMBEDDER, in_turn=False) != ""
    assert [str(warning.message) for warning in recwarn] == []


def _rows_seen_by(url: str, login: str, statement: str) -> list[Any]:
    with psycopg.connect(url.replace("tester@", f"{login}@"), autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


async def test_a_login_sees_no_row_of_another(store: Store, postgres: PostgresProcess) -> None:
    """Row-level security holds for reads and writes of a login that may use the table, whatever
    partition it names."""
    settings = searching(postgres.url)
    fill(store, clustered(10))
    assert await send_copies(store, settings, EMBEDDER, in_turn=False) == ""
    # A superuser passes by row-level security, so two plain logins are compared.
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        for login in ("ada", "eve"):
            connection.execute(f"CREATE ROLE {login} LOGIN".encode())
            connection.execute(f"GRANT USAGE ON SCHEMA xscore_vectors TO {login}".encode())
            connection.execute(
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON xscore_vectors.vector TO {login}".encode()
            )
    as_ada = searching(postgres.url.replace("tester@", "ada@"))
    assert await send_copies(store, as_ada, EMBEDDER, in_turn=False) == ""
    count = "SELECT count(*) FROM xscore_vectors.vector"
    assert _rows_seen_by(postgres.url, "ada", count) == [(10,)]
    assert _rows_seen_by(postgres.url, "eve", count) == [(0,)]
    zeros = "repeat('0', 32)"
    values = f"'ada', {zeros}, {zeros}, 'e', {zeros}, '[1]'"
    forged = f"INSERT INTO xscore_vectors.vector VALUES ({values})"
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        _rows_seen_by(postgres.url, "eve", f"{forged} RETURNING 1")
    gone = (
        "WITH gone AS (DELETE FROM xscore_vectors.vector RETURNING 1) SELECT count(*) FROM gone"
    )
    assert _rows_seen_by(postgres.url, "eve", gone) == [(0,)]
    assert _rows_seen_by(postgres.url, "ada", count) == [(10,)]


async def test_a_member_of_a_team_stores_and_searches_vectors(
    store: Store, postgres: PostgresProcess
) -> None:
    """A login that `shared init` has made finds the types of pgvector, and creates nothing where
    they are."""
    url = postgres.url.rpartition("/")[0] + "/of_a_team"
    with closing(psycopg.connect(postgres.url, autocommit=True)) as admin:
        admin.execute("CREATE DATABASE of_a_team")
    address = team_address(url, timeout_s=30, setting="shared.admin_url")
    apply_setup(address, "acme", ["zoe"])
    with closing(psycopg.connect(url, autocommit=True)) as admin:
        admin.execute((Path(pgvector.__file__).with_suffix(".sql")).read_bytes())
    as_zoe = searching(url.replace("tester@", "zoe@"))
    rows = clustered(30)
    fill(store, rows)
    assert await send_copies(store, as_zoe, EMBEDDER, in_turn=False) == ""
    query = rows[0].astype(np.float32)
    nearest = await nearest_memories(store, as_zoe, EMBEDDER, query, 10)
    assert (nearest.warnings, len(nearest.cosines)) == ((), 10)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        _rows_seen_by(url, "zoe", "CREATE TABLE public.planted (a int)")
