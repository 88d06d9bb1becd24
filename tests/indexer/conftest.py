"""A store of its own for each test, and the index run over a folder."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from xscore.indexer import index_repository
from xscore.indexer.memories import cut_file, source_file
from xscore.indexer.syntax import MemoryDraft
from xscore.platform.paths import find_root
from xscore.records.memory import IndexReport
from xscore.settings import IndexSettings
from xscore.store.opening import connect_store

FILES = {
    "pkg/a.py": (
        'import os\n\n\ndef first(x):\n    """Say it."""\n    return os.fspath(x)\n\n\n'
        "def second():\n    return first(1)\n"
    ),
    "pkg/b.js": "export function third() {\n  return 3\n}\n",
    "README.md": "# Read me\n\nAbout `first`.\n",
    "pyproject.toml": "# settings\n[tool.x]\na = 1\n",
    "run.sh": "echo hi\n",
}


def rows(connection: sqlite3.Connection, query: str) -> list[tuple[object, ...]]:
    """All rows of a query."""
    return connection.execute(query).fetchall()


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A store outside the indexed folder."""
    opened = connect_store(tmp_path / "store" / "memory.db")
    yield opened
    opened.close()


RunIndex = Callable[..., IndexReport]


@pytest.fixture
def run_index(connection: sqlite3.Connection) -> RunIndex:
    """Index a folder into the store, an hour from now, so that no file is too fresh to be believed."""

    def run(root: Path, **settings: Any) -> IndexReport:
        return index_repository(connection, find_root(root), IndexSettings(**settings), now=time.time() + 3600)

    return run


def pieces_of(path: str, text: str, *, window_lines: int = 60) -> dict[str, MemoryDraft]:
    """Cut one text and give its pieces by entity."""
    pieces, _, note = cut_file(source_file(path, text, window_lines=window_lines))
    assert not note
    return {piece.entity: piece for piece in pieces}


def unseen_lines(path: str, text: str) -> list[str]:
    """Lines that are not blank and stand in the text of no piece whose span holds them."""
    source = source_file(path, text, window_lines=60)
    pieces, _, _ = cut_file(source)
    lines = source.lines
    seen: set[int] = set()
    for piece in pieces:
        shown = {line.strip() for line in piece.text.split("\n")}
        seen.update(row for row in range(piece.start, piece.end + 1) if lines[row].strip() in shown)
    return [f"{row + 1}: {line}" for row, line in enumerate(lines) if line.strip() and row not in seen]
