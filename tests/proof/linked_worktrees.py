"""A repository with linked worktrees over one store, and what a store of one worktree alone would
hold."""

import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.conftest import commit_all, git, write_files
from xscore.indexer.index import index_repository
from xscore.platform.paths import find_root
from xscore.settings import IndexSettings
from xscore.store.file_bodies import read_with_bodies
from xscore.store.index_rows import index_totals
from xscore.store.opening import connect_store
from xscore.store.store import Store

TEXTS = {
    "pkg/a.py": (
        "from pkg.b import run\n\n\ndef first(x):\n    return run(x)\n",
        (
            "from pkg.b import run, walk\n\n\n"
            "def first(x):\n"
            "    return walk(run(x))\n\n\n"
            "def other():\n"
            "    return 2\n"
        ),
        "LIMIT = 3\n\n\ndef run(x):\n    return LIMIT\n",
    ),
    "pkg/b.py": (
        "def run(x):\n    return x\n",
        (
            "class Base:\n    def go(self):\n        return run(1)\n\n\n"
            "def run(x):\n    return x + 1\n\n\ndef walk(x):\n    return x\n"
        ),
        "def walk(x):\n    return x\n",
    ),
    "pkg/c.py": (
        (
            "from pkg.a import first\nfrom pkg.b import Base\n\n\n"
            "class Heir(Base):\n    def go(self):\n        return first(2)\n"
        ),
        "def run(x):\n    return 3\n",
    ),
    "README.md": ("# Read me\n\nCall `first`.\n", "# Read me\n\nCall `run` of pkg/b.py.\n"),
}
MAIN, LINKED = "repo", ("second", "third")
_HELD = (
    (
        "SELECT id, layer, kind, status, path, entity, start_line, end_line, language,"
        " content_hash, text_hash, name_crc, overrides, hex(terms) FROM memory WHERE source ="
        " 'index' ORDER BY id"
    ),
    "SELECT path, size, file_hash, language, excluded FROM file ORDER BY path",
    (
        "SELECT file.path, file_version.file_hash, file_version.language, hex(mentions)"
        " FROM file JOIN file_version ON number = version ORDER BY 1"
    ),
    "SELECT path, name_crc FROM file JOIN mentioned_name USING (version) ORDER BY 1, 2",
    "SELECT * FROM edge WHERE path <> '' ORDER BY 1, 3, 2",
)
"""What an index holds; dates are left out, since a version that worktrees share has one."""
_SOUND = {
    "versions that no worktree lists": (
        "SELECT number FROM file_version WHERE number NOT IN (SELECT version FROM file_row)"
    ),
    "lists of versions that are not there": (
        "SELECT path FROM file_row WHERE version > 0 AND version NOT IN (SELECT number FROM"
        " file_version)"
    ),
    "memories without a version": (
        "SELECT id FROM memory_row WHERE version > 0 AND version NOT IN (SELECT number FROM"
        " file_version)"
    ),
    "memories without their full text": (
        "SELECT id FROM memory_row WHERE number NOT IN (SELECT memory FROM memory_view WHERE"
        " view = 'whole' AND worktree = 0)"
    ),
    "views of no memory": (
        "SELECT hash FROM memory_view WHERE memory NOT IN (SELECT number FROM memory_row)"
    ),
    "views of memories that are not stale there": (
        """
        SELECT id FROM memory_view JOIN memory_row ON number = memory
        WHERE worktree <> 0 AND (id, worktree) NOT IN (
            SELECT memory_id, worktree FROM stale_memory)
    """
    ),
    "names without a version": (
        "SELECT version FROM mentioned_name WHERE version NOT IN (SELECT number FROM file_version)"
    ),
    "rows of no worktree": (
        """
        SELECT worktree FROM file_row UNION SELECT worktree FROM edge_row WHERE worktree <> 0
        UNION SELECT worktree FROM worktree_meta UNION SELECT worktree FROM stale_memory
        UNION SELECT worktree FROM evidence_state EXCEPT SELECT number FROM worktree
    """
    ),
    "ends of edges of no memory": (
        "SELECT id FROM edge_end WHERE id GLOB 'm_*' AND id NOT IN (SELECT id FROM memory_row)"
    ),
    "edges without ends": (
        "SELECT source FROM edge_row WHERE source NOT IN (SELECT number FROM edge_end)"
    ),
    "uses that differ between versions": (
        "SELECT id FROM memory_row GROUP BY id"
        " HAVING count(DISTINCT access_count) > 1 OR count(DISTINCT created_at) > 1"
    ),
    "wrong counts of contents": (
        """
        SELECT hash FROM content WHERE memories <> (SELECT count(*) FROM memory_view
          WHERE memory_view.hash = content.hash)
    """
    ),
}


def index(store: Store) -> None:
    """Index a worktree, an hour from now, so that no file stamp is too recent to trust."""
    index_repository(store.connection, store.root, IndexSettings(), now=time.time() + 3600)


def held(connection: sqlite3.Connection) -> list[Any]:
    """Return what the index of the connection's worktree holds."""
    content: list[Any] = [connection.execute(query).fetchall() for query in _HELD]
    content.append(list(read_with_bodies(connection, "id", "source = 'index'")))
    content.append(index_totals(connection))
    return content


def held_alone(root: Path, folder: Path) -> list[Any]:
    """Return what a store of this worktree alone would hold."""
    file = folder / f"{time.monotonic_ns()}" / "memory.db"
    with closing(connect_store(file)) as connection:
        index_repository(connection, find_root(root), IndexSettings(), now=time.time() + 3600)
        return held(connection)


def unsound(connection: sqlite3.Connection) -> dict[str, list[Any]]:
    """Return what is wrong with a store: what it is, and the rows."""
    faulty_rows = {
        check: connection.execute(query).fetchall() for check, query in _SOUND.items()
    }
    return {check: rows for check, rows in faulty_rows.items() if rows}


class Worktrees:
    """The repository, its worktrees and its user."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.user_dir = folder, folder / "user"
        (folder / MAIN).mkdir()
        write_files(folder / MAIN, {path: texts[0] for path, texts in TEXTS.items()})
        commit_all(folder / MAIN)

    @property
    def names(self) -> Sequence[str]:
        """The worktrees that are there, the main one first."""
        return [name for name in (MAIN, *LINKED) if (self.folder / name).is_dir()]

    def open(self, name: str) -> Store:
        """Open the store from a worktree."""
        return Store.open(find_root(self.folder / name), user_data_dir=self.user_dir)

    def add(self, name: str) -> None:
        """Add a linked worktree."""
        git(self.folder / MAIN, "worktree", "add", "-q", "--detach", str(self.folder / name))

    def remove(self, name: str) -> None:
        """Remove a linked worktree, with what was not committed."""
        git(self.folder / MAIN, "worktree", "remove", "--force", str(self.folder / name))

    def write(self, name: str, path: str, text: str | None) -> None:
        """Write a file of a worktree; None removes it."""
        file = self.folder / name / path
        if text is None:
            file.unlink(missing_ok=True)
        else:
            write_files(self.folder / name, {path: text})

    def check(self, name: str, store: Store) -> None:
        """Raise AssertionError unless an indexed worktree holds what a store of it alone would."""
        in_worktree, alone = (
            held(store.connection),
            held_alone(self.folder / name, self.folder / "alone"),
        )
        for part, (own_part, expected) in enumerate(zip(in_worktree, alone, strict=True)):
            assert own_part == expected, (
                name,
                part,
                json.dumps([own_part, expected], default=repr)[:3000],
            )
        faults = unsound(store.connection)
        assert not faults, faults
