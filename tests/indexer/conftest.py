"""A new store for each test, and the index run over a folder."""

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeRepo
from xscore.indexer.embedded import CELL, MARKDOWN_CELL
from xscore.indexer.index import index_repository
from xscore.indexer.memories import cut_file, source_file
from xscore.indexer.parse_jobs import ParseJob
from xscore.indexer.syntax import MemoryDraft, SourceFile
from xscore.indexer.workers import parse_in_processes
from xscore.platform.paths import find_root
from xscore.records.indexing import FileStamp, IndexReport
from xscore.settings import IndexSettings
from xscore.store.opening import connect_store
from xscore.store.worktrees import enter_worktree

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
    """Return all rows of a query."""
    return connection.execute(query).fetchall()


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A store outside the indexed folder."""
    opened = connect_store(tmp_path / "store" / "memory.db")
    enter_worktree(opened)
    yield opened
    opened.close()


class Index:
    """A repository to make, and a store to index it in."""

    def __init__(self, connection: sqlite3.Connection, make: MakeRepo) -> None:
        self.connection, self.make = connection, make

    def run(self, root: Path, **settings: Any) -> IndexReport:
        """Index a folder, an hour from now, so that no file stamp is too recent to trust."""
        return index_repository(
            self.connection, find_root(root), IndexSettings(**settings), now=time.time() + 3600
        )

    def of(self, files: Mapping[str, str]) -> Path:
        """Make a repository of these files and index it."""
        root = self.make(files)
        self.run(root)
        return root

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Return all rows of a query."""
        return rows(self.connection, query)

    def edges(self, relation: str) -> set[tuple[str, str]]:
        """Return the edges with readable ends."""
        memories = self.connection.execute("SELECT id, path, entity FROM memory").fetchall()
        names = {id_: f"{path.rpartition('/')[2]}:{entity}" for id_, path, entity in memories}
        ends = self.connection.execute(
            "SELECT source, target FROM edge WHERE relation = ?", (relation,)
        )
        return {(names.get(a, a), names.get(b, b)) for a, b in ends}


@pytest.fixture
def index(connection: sqlite3.Connection, make_repo: MakeRepo) -> Index:
    """An empty store, and no repository yet."""
    return Index(connection, make_repo)


def pieces_of(path: str, text: str, *, window_lines: int = 60) -> dict[str, MemoryDraft]:
    """Cut one text and return its pieces by entity."""
    pieces, _, note = cut_file(source_file(path, text, window_lines=window_lines))
    assert not note
    return {piece.entity: piece for piece in pieces}


def unseen_lines(path: str, text: str) -> list[str]:
    """Return the non-blank lines missing from every piece whose span covers them."""
    source = source_file(path, text, window_lines=60)
    return unseen_rows(source, cut_file(source)[0])


CPU_LIMIT_S = 0.5
"""CPU for a file that may be a bomb: a tenth of a second is enough for any other."""


def cut_within_limits(source: SourceFile) -> tuple[list[MemoryDraft], str]:
    """Cut a file whose grammar may not be able to read it; return the drafts and the note."""
    stamp = FileStamp(source.path, len(source.text), 1, "h")
    (result,) = parse_in_processes(
        [ParseJob(stamp, source.text, 1, source.window_lines, CPU_LIMIT_S)], count=1
    )
    drafts, _, note = cut_file(source, without_grammar=result.note)
    return drafts, note


def unseen_rows(source: SourceFile, pieces: Sequence[MemoryDraft]) -> list[str]:
    """The same for a file that was cut. Cell marks of a notebook do not count."""
    lines, seen = source.lines, set[int]()
    for piece in pieces:
        shown = {line.strip() for line in piece.text.split("\n")}
        seen.update(
            row for row in range(piece.start, piece.end + 1) if lines[row].strip() in shown
        )
    marks = {CELL, MARKDOWN_CELL} if source.language.name == "notebook" else set[str]()
    unseen = [
        row
        for row, line in enumerate(lines)
        if line.strip() and row not in seen and line not in marks
    ]
    return [f"{row + 1}: {lines[row]}" for row in unseen]


def arrows(*rows: str) -> set[tuple[str, str]]:
    """Return edges that are written as a source and its targets, `a -> b c`."""
    written = (row.split(" -> ") for row in rows)
    return {(source, target) for source, targets in written for target in targets.split()}
