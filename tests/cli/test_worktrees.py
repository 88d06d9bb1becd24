"""A second worktree shares the store of the first; a clone reuses, by content, what was paid for,
without any text."""

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.basket import FILES, TASK
from tests.cli.conftest import Run, own_store
from tests.conftest import commit_all, git, store_dir, store_file
from tests.store.encrypted_stores import make_encrypted_store
from xscore.indexer.index import index_repository
from xscore.platform.paths import find_root, user_data_dir
from xscore.records.indexing import IndexReport
from xscore.settings import Settings
from xscore.store import index_rows
from xscore.store.siblings import sibling_stores
from xscore.store.store import Store

Spoil = Callable[[Path], object]
DECISION = "the basket is emptied before the card is charged, never after"
PARSED = (
    (
        "SELECT id, layer, kind, path, entity, start_line, end_line, language, content_hash,"
        " text_hash, terms FROM memory WHERE source = 'index' ORDER BY id"
    ),
    "SELECT path, size, file_hash, language, excluded FROM file ORDER BY path",
    "SELECT file.path, mentions, body FROM file JOIN file_version ON number = version ORDER BY 1",
    "SELECT path, name_crc FROM file JOIN mentioned_name USING (version) ORDER BY 1, 2",
    "SELECT * FROM edge WHERE path <> '' ORDER BY 1, 3, 2",
)
"""The rows of a parse."""
MANY_FILES = """
    INSERT INTO file_row (worktree, path, size, mtime_ns, file_hash, version)
    WITH RECURSIVE named (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM named WHERE n < 9000)
    SELECT 1, 'none/' || n, 0, 0, '', (SELECT min(number) FROM file_version) FROM named
"""
"""Enough rows that copying them checks the clock."""


def worktree(basket: Path, name: str = "second") -> Path:
    """Add a linked worktree."""
    git(basket, "worktree", "add", "-q", f"../{name}")
    return basket.parent / name


def clone(basket: Path, name: str = "second") -> Path:
    """Clone a repository next to it."""
    git(basket, "clone", "-q", str(basket), f"../{name}")
    return basket.parent / name


def parsed(root: Path) -> list[list[Any]]:
    """Return the rows of a parse."""
    with own_store(root) as store:
        return [store.connection.execute(query).fetchall() for query in PARSED]


def index(xscore: Run, root: Path) -> dict[str, Any]:
    """Index a root and return the report."""
    done = xscore("index", "--json", cwd=root)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def judged(xscore: Run, root: Path, *flags: str) -> dict[str, int]:
    """Ask in a root and return the coverage."""
    done = xscore("context", TASK, *flags, "--json", cwd=root)
    assert done.returncode == 0, done.stdout
    coverage: dict[str, int] = json.loads(done.stdout)["coverage"]
    return coverage


def test_index_of_a_worktree(xscore: Run, basket: Path, tmp_path: Path) -> None:
    """Files with the same bytes are not parsed again, and every row equals a parse here."""
    index(xscore, basket)
    second = worktree(basket)
    statement = json.loads(
        xscore(
            "memory", "add", f"{DECISION}: shop/till.py, shop/basket.py", "--json", cwd=second
        ).stdout
    )
    statement = statement.get("memory", statement)["id"]
    (second / "shop" / "checkout.py").write_text(
        FILES["shop/checkout.py"].replace("pay", "settle")
    )
    (second / "shop" / "till.py").write_text(
        "from shop.checkout import settle\n\n\ndef ring():\n    settle(None)\n"
    )
    (second / "README.md").unlink()
    indexed = xscore("index", "--json", cwd=second)
    report = json.loads(indexed.stdout)
    assert report["files"]["indexed"] == 2 and report["files"]["unchanged"] == 1
    assert "shared the index of 1 identical file with the main worktree" in indexed.stderr
    fresh = tmp_path / "fresh"
    shutil.copytree(second, fresh, ignore=shutil.ignore_patterns(".git", ".xscore"))
    git(fresh, "init", "-q")
    assert index(xscore, fresh)["files"]["indexed"] == 3
    with own_store(second) as store:
        linked = store.connection.execute(
            "SELECT target FROM edge WHERE source = ? ORDER BY 1", (statement,)
        ).fetchall()
    assert linked == [("f_shop/basket.py",), ("f_shop/till.py",)]
    assert xscore("memory", "delete", statement, "--yes", cwd=second).returncode == 0
    assert parsed(second) == parsed(fresh)
    assert index(xscore, second)["files"]["unchanged"] == 3


@pytest.mark.parametrize("make", [worktree, clone])
def test_a_takeover_cut_short(make: Callable[[Path], Path], xscore: Run, basket: Path) -> None:
    """A copy cut short by a deadline is undone and started again; files it did not reach are not
    parsed."""
    index(xscore, basket)
    in_store(MANY_FILES)(basket)
    second = make(basket)
    root, settings = find_root(second), Settings()
    with Store.open(root, user_data_dir=user_data_dir(None)) as store:

        def run(until: float | None) -> IndexReport:
            return index_repository(
                store.connection,
                root,
                settings.index,
                now=time.time(),
                until=until,
                siblings=store.siblings,
            )

        assert run(time.monotonic()).files_left == 3
        assert not index_rows.file_stamps(store.connection)
        in_store("DELETE FROM file_row WHERE path LIKE 'none/%'")(basket)
        assert run(time.monotonic()).files_left == 3
        assert len(index_rows.file_stamps(store.connection)) == 3
        files = run(None).files
        assert (files.indexed, files.unchanged) == (0, 3)
    assert parsed(second) == parsed(basket)


def test_no_judgment_is_paid_twice(xscore: Run, basket: Path, judge: tuple[str, ...]) -> None:
    """The same task costs nothing in another worktree; an edited file is judged there and then
    known in the first."""
    first = judged(xscore, basket, *judge)
    assert first["judged"] == first["candidates"]
    second = worktree(basket)
    assert judged(xscore, second, *judge) == {
        **first,
        "judged": 0,
        "cached": first["candidates"],
    }
    (second / "shop" / "checkout.py").write_text(
        FILES["shop/checkout.py"].replace("pay", "settle")
    )
    edited = judged(xscore, second, *judge)
    assert 0 < edited["judged"] < first["candidates"]
    shutil.copy(second / "shop" / "checkout.py", basket / "shop" / "checkout.py")
    assert judged(xscore, basket, *judge)["judged"] == 0
    estimate = json.loads(
        xscore("estimate", TASK, *judge, "--json", cwd=worktree(basket, "third")).stdout
    )
    assert estimate["judge"]["to_judge"] == 0


@pytest.mark.parametrize("origin", ["path", "remote"])
def test_clones(
    origin: str, xscore: Run, basket: Path, judge: tuple[str, ...], tmp_path: Path
) -> None:
    """Another clone of the first, or of the same remote, reuses it too; another repository does
    not."""
    if origin == "remote":
        for folder in ("repo", "second"):
            git(tmp_path, "clone", "-q", "--bare", str(basket), f"{folder}.git")
        git(basket, "remote", "add", "origin", "ssh://git@example.invalid/shop.git")
    judged(xscore, basket, *judge)
    git(tmp_path, "clone", "-q", str(basket), "other")
    if origin == "remote":
        git(tmp_path / "other", "remote", "set-url", "origin", "ssh://git@example.invalid/shop")
    assert judged(xscore, tmp_path / "other", *judge)["judged"] == 0
    git(tmp_path / "other", "remote", "set-url", "origin", "ssh://git@example.invalid/else")
    shutil.rmtree(store_dir(tmp_path / "other"))
    assert judged(xscore, tmp_path / "other", *judge)["cached"] == 0


def test_what_files_show_is_judged_once(
    xscore: Run, basket: Path, judge: tuple[str, ...]
) -> None:
    """A clone shows the same conventions and commands, and pays for none of them."""
    (basket / "Makefile").write_text("test:\n\tpytest -q\n")
    (basket / "pyproject.toml").write_text('[project]\nname = "shop"\n\n[tool.ruff]\n')
    commit_all(basket)
    judged(xscore, basket, *judge)
    second = clone(basket)
    assert judged(xscore, second, *judge)["judged"] == 0
    listed = json.loads(xscore("memory", "list", "--json", cwd=second).stdout)
    assert {memory["kind"] for memory in listed["memories"]} == {"convention", "tech_stack"}


def test_no_words_cross(xscore: Run, basket: Path, judge: tuple[str, ...]) -> None:
    """Text of memories, questions, answers and reasons stays in its clone, so nothing erased comes
    back."""
    added = json.loads(
        xscore("memory", "add", DECISION, "--kind", "decision", "--json", cwd=basket).stdout
    )
    judged(xscore, basket, *judge)
    second = clone(basket)
    done = xscore("context", TASK, *judge, cwd=second)
    assert "came from other stores, without reasons" in done.stderr
    bytes_there = b"".join(file.read_bytes() for file in (store_dir(second)).glob("memory.db*"))
    assert b"sums the prices" not in bytes_there and DECISION.encode() not in bytes_there
    id_ = added["memory"]["id"] if "memory" in added else added["id"]
    erased = xscore("memory", "delete", id_, "--verify", "--yes", cwd=basket)
    assert erased.returncode == 0, erased.stderr
    shutil.rmtree(store_dir(second))
    judged(xscore, second, *judge)
    judged(xscore, basket, *judge)
    for root in (basket, second):
        assert all(
            DECISION.encode() not in file.read_bytes()
            for file in (store_dir(root)).glob("memory.db*")
        )


def in_store(*statements: str) -> Spoil:
    """Return what runs these statements in the store of a repository."""

    def run(root: Path) -> None:
        with closing(sqlite3.connect(store_file(root))) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    return run


def _damaged(root: Path) -> None:
    store = store_file(root)
    store.write_bytes(store.read_bytes()[: 3 * 4096].ljust(store.stat().st_size, b"\xa5"))


def _moved(root: Path) -> None:
    (store_dir(root)).rename(root.parent / "store")
    (store_dir(root)).symlink_to(root.parent / "store")


UNUSABLE: dict[str, Spoil] = {
    "damaged": _damaged,
    "changed text": in_store(
        "UPDATE memory_row SET text = 'run this'", "UPDATE judgment SET score = 1"
    ),
    "other schema": in_store("PRAGMA user_version = 99"),
    "moved": _moved,
    "another user's": lambda _: (user_data_dir(None) / "trust.json").unlink(),
    "encrypted": lambda root: make_encrypted_store(root, user_data_dir(None)),
    "gone": lambda root: shutil.rmtree(store_dir(root)),
}


@pytest.mark.parametrize("spoil", UNUSABLE.values(), ids=UNUSABLE)
def test_unusable_sibling(
    spoil: Spoil, xscore: Run, basket: Path, judge: tuple[str, ...], tmp_path: Path
) -> None:
    """A damaged, foreign, linked, encrypted or missing sibling lends nothing and breaks nothing."""
    judged(xscore, basket, *judge)
    second = clone(basket)
    spoil(basket)
    coverage = judged(xscore, second, *judge)
    assert coverage["judged"] == coverage["candidates"] > 0
    fresh = tmp_path / "fresh"
    shutil.copytree(second, fresh, ignore=shutil.ignore_patterns(".git", ".xscore"))
    git(fresh, "init", "-q")
    index(xscore, fresh)
    assert parsed(second) == parsed(fresh)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE file_version SET mentions = x'0102'",
        "DELETE FROM file_version",
        "UPDATE file_row SET path = CAST(x'ff' AS TEXT) WHERE path = 'README.md'",
    ],
    ids=["changed_mentions", "lost_mentions", "unreadable_path"],
)
def test_a_damaged_index_is_not_taken(damage: str, xscore: Run, basket: Path) -> None:
    """Damage that text and hashes do not show is not copied: a new worktree parses its files, and
    edits work."""
    index(xscore, basket)
    in_store(damage)(basket)
    second = clone(basket)
    assert index(xscore, second)["files"]["unchanged"] == 0
    for file in second.glob("shop/*.py"):
        file.write_text(file.read_text() + "\n\ndef more():\n    return 1\n")
    assert index(xscore, second)["files"]["unchanged"] == 1


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(sys.argv[2])
connection.execute("DELETE FROM file_version")
print("held", flush=True)
sys.stdin.read()
"""


def test_sibling_at_work(xscore: Run, basket: Path, judge: tuple[str, ...]) -> None:
    """A sibling that is being written lends what it has committed, without waiting."""
    judged(xscore, basket, *judge)
    store = str(store_file(basket))
    command = [sys.executable, "-c", HOLD, store, "BEGIN IMMEDIATE"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "held\n"
        second = clone(basket)
        assert index(xscore, second)["files"]["indexed"] == 0
        assert judged(xscore, second, *judge)["judged"] == 0
        writer.kill()
    assert parsed(second) == parsed(basket)


def test_planted_worktrees(
    xscore: Run, basket: Path, judge: tuple[str, ...], tmp_path: Path
) -> None:
    """A folder cannot claim the store of a repository that does not list it, by its lists or by
    `commondir`."""
    judged(xscore, basket, *judge)
    crafted = tmp_path / "crafted"
    shutil.copytree(basket, crafted, ignore=shutil.ignore_patterns("xscore"))
    (crafted / ".git" / "worktrees" / "x").mkdir(parents=True)
    (crafted / ".git" / "worktrees" / "x" / "gitdir").write_text(f"{basket / '.git'}\n")
    assert sibling_stores(find_root(crafted), user_data_dir=user_data_dir(None)) == []
    assert judged(xscore, crafted, *judge)["cached"] == 0
    (crafted / ".git" / "commondir").write_text(f"{basket / '.git'}\n")
    assert sibling_stores(find_root(crafted), user_data_dir=user_data_dir(None)) == []


def test_status_shows_its_own_head(xscore: Run, basket: Path) -> None:
    """`status` names branch and commit of its own worktree: loose, packed and detached."""
    second = worktree(basket)
    commit = git(basket, "rev-parse", "HEAD").strip()
    assert xscore("status", cwd=second).stdout.splitlines()[1].split() == [
        "head",
        "second",
        commit[:10],
    ]
    git(basket, "pack-refs", "--all")
    status = json.loads(xscore("status", "--json", cwd=basket).stdout)
    assert (status["branch"], status["commit"]) == ("main", commit)
    git(second, "checkout", "-q", "--detach")
    assert f"detached at {commit[:10]}" in xscore("status", cwd=second).stdout
