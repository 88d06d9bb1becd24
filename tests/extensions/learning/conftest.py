"""Stores under a fixed clock, and one-line memories."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store.conftest import put as write
from xscore.platform.clock import DAY_S
from xscore.platform.hashing import digest
from xscore.platform.paths import find_root
from xscore.records.memory import Kind, Layer, Memory, MemoryDetails, MemoryScope, MemorySource
from xscore.store import memory_writer
from xscore.store.store import Store

NOW = 1_700_000_000.0
"""The clock of these tests."""

OpenProject = Callable[[str], Store]


@pytest.fixture
def project(tmp_path: Path, user_dir: Path) -> Iterator[OpenProject]:
    """Open a new project of the same user by name; all are closed at the end."""
    opened: list[Store] = []

    def open_(name: str) -> Store:
        (tmp_path / name).mkdir(exist_ok=True)
        opened.append(Store.open(find_root(tmp_path / name), user_data_dir=user_dir))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()


@pytest.fixture
def store(project: OpenProject) -> Store:
    """Open a project."""
    return project("project")


def made(text: str, *, days_ago: float = 0.0, **fields: object) -> Memory:
    """Make a memory through the writer; by default a project's convention."""
    at = NOW - days_ago * DAY_S
    values: dict[str, object] = {
        "layer": Layer.PROJECT,
        "kind": Kind.CONVENTION,
        "title": text.splitlines()[0],
        "text": text,
        "ordinal": int(digest("test", text, str(fields.get("key", "")))[:15], 16),
        "source": MemorySource.INFERRED,
        "confidence": 0.6,
        "created_at": at,
        "updated_at": at,
    }
    memory, _ = memory_writer.make_memory(**(values | fields))  # type: ignore[arg-type]  # any field may be given
    return memory


def preference(text: str, **fields: object) -> Memory:
    """Make a user preference."""
    values: dict[str, Any] = {
        "layer": Layer.USER,
        "kind": Kind.PREFERENCE,
        "scope": MemoryScope.GLOBAL,
    }
    return made(text, **(values | fields))


def decision(text: str, **fields: object) -> Memory:
    """Make a project decision stated by a person."""
    explicit: dict[str, Any] = {
        "layer": Layer.GOVERNANCE,
        "kind": Kind.DECISION,
        "source": MemorySource.EXPLICIT,
        "confidence": 1.0,
    }
    alternatives = fields.pop("alternatives", ())
    details = MemoryDetails(alternatives=alternatives)  # type: ignore[arg-type]  # always a tuple of names
    return made(text, **(explicit | {"details": details} | fields))


def put(store: Store, *memories: Memory, thread: str = "") -> None:
    """Put memories in their layer's store."""
    for memory in memories:
        write(store.home_of(memory.layer), memory, thread=thread)


def held(store: Store) -> dict[str, Memory]:
    """Return everything in both stores except the index's rows."""
    from xscore.store import memory_rows

    memories_by_store = [
        memory_rows.select_memories(connection, "source <> 'index'", ())
        for connection in store.connections()
    ]
    return {memory.id: memory for memories in memories_by_store for memory in memories}
