"""A rebuild: rows that a damaged table holds twice, and other processes that use the store
meanwhile."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cache.conftest import NAMES, write_judgments
from tests.store.conftest import function, put
from tests.store.older_stores import write_older_store
from xscore.cache.judgments import read_judgments
from xscore.cache.lease import LEASE_S
from xscore.extensions.recovery import rebuild
from xscore.extensions.recovery.salvage import salvage_store
from xscore.platform.errors import StoreError
from xscore.platform.processes import process_place
from xscore.records.judgment import Judgment
from xscore.records.memory import MemorySource
from xscore.store import opening
from xscore.store.opening import connect_store
from xscore.store.worktrees import enter_worktree


@pytest.fixture
def store_dir(tmp_path: Path, user_dir: Path) -> Path:
    """Make a store."""
    folder = tmp_path / ".xscore"
    opening.open_store(folder, user_data_dir=user_dir, trust=False).close()
    return folder


def work(store_dir: Path, pid: int, *, where: str = "", idle_s: float = 0.0) -> None:
    """Leave a runner's mark."""
    with closing(connect_store(store_dir / "memory.db")) as connection:
        connection.execute(
            "INSERT INTO runner (id, pid, place, seen_at) VALUES ('r', ?, ?, ?)",
            (pid, where or process_place(), time.time() - idle_s),
        )


def test_a_store_at_work_is_not_rebuilt(store_dir: Path, user_dir: Path) -> None:
    """While a live process judges, a rebuild names it with a remedy, and changes nothing."""
    work(store_dir, os.getpid())
    before = sorted(store_dir.iterdir())
    with pytest.raises(StoreError, match=f"process {os.getpid()} is judging") as raised:
        rebuild.rebuild_store(store_dir, user_data_dir=user_dir)
    assert raised.value.exit_code == 6
    assert "Wait for it to end" in raised.value.hint
    assert sorted(store_dir.iterdir()) == before


def test_one_at_work_elsewhere_counts_until_its_lease_is_over(
    store_dir: Path, user_dir: Path
) -> None:
    """A process id of another machine means nothing here; its heartbeat counts."""
    work(store_dir, 1, where="far away")
    with pytest.raises(StoreError, match="process 1 on far"):
        rebuild.rebuild_store(store_dir, user_data_dir=user_dir)
    with closing(connect_store(store_dir / "memory.db")) as connection:
        connection.execute("UPDATE runner SET seen_at = seen_at - ?", (LEASE_S + 1,))
    assert rebuild.rebuild_store(store_dir, user_data_dir=user_dir).set_aside_at


def test_one_that_was_killed_does_not_stand_in_the_way(store_dir: Path, user_dir: Path) -> None:
    """A dead process's mark does not stop a rebuild."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    work(store_dir, ended.pid)
    assert rebuild.rebuild_store(store_dir, user_data_dir=user_dir).set_aside_at


@pytest.mark.parametrize(
    "damage", ["DROP TABLE runner", "INSERT INTO runner VALUES ('r', 'x', 'here', 'never')"]
)
def test_marks_that_cannot_be_read_do_not_stand_in_the_way(
    store_dir: Path, user_dir: Path, damage: str
) -> None:
    """A store damaged in that very table can be rebuilt."""
    with closing(connect_store(store_dir / "memory.db")) as connection:
        connection.execute(damage)
    assert rebuild.rebuild_store(store_dir, user_data_dir=user_dir).set_aside_at


def test_a_store_that_is_opened_while_it_is_rebuilt_stays_whole(
    store_dir: Path, user_dir: Path
) -> None:
    """Whoever opens it gets the old store or the new one, never an empty one in between that
    replaces both."""
    with closing(connect_store(store_dir / "memory.db")) as connection:
        name = connection.execute("SELECT value FROM meta WHERE key = 'store_id'").fetchone()
    ended = threading.Event()

    def open_again() -> int:
        opened = 0
        while not ended.is_set():
            with closing(
                opening.open_store(store_dir, user_data_dir=user_dir, trust=False)
            ) as connection:
                store_id = "SELECT value FROM meta WHERE key = 'store_id'"
                assert connection.execute(store_id).fetchone() == name
            opened += 1
        return opened

    with ThreadPoolExecutor(4) as pool:
        openers = [pool.submit(open_again) for _ in range(4)]
        for _ in range(10):
            rebuild.rebuild_store(store_dir, user_data_dir=user_dir)
        ended.set()
    assert all(opener.result() for opener in openers)


DOUBLED = """
    CREATE TABLE twice (id INTEGER PRIMARY KEY, turn_key TEXT, judge TEXT, sample INTEGER);
    INSERT INTO twice SELECT id, turn_key, judge, sample FROM query;
    INSERT INTO twice SELECT id + 1, turn_key, judge, sample FROM query;
    INSERT INTO judgment SELECT query_id + 1, content_id, score, prior, pack, position, checksum
      FROM judgment;
    DROP TABLE query;
    ALTER TABLE twice RENAME TO query;
"""


def test_rows_that_a_damaged_table_holds_twice_come_over_once(tmp_path: Path) -> None:
    """A page copied over another repeats its rows: they are kept and counted once, and nothing is
    refused."""
    damaged = tmp_path / "damaged" / "memory.db"
    with closing(connect_store(damaged)) as connection:
        write_judgments(connection, [Judgment("a", 0.9, "why"), Judgment("b", 0.1)])
    with closing(sqlite3.connect(damaged)) as plain:
        plain.executescript(
            "PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON;" + DOUBLED
        )
    with closing(connect_store(tmp_path / "new" / "memory.db")) as target:
        salvaged = salvage_store(damaged, target)
        judgments = read_judgments(target, NAMES)
    assert {content: judgment.score for content, judgment in judgments.items()} == {
        "a": 0.9,
        "b": 0.1,
    }
    assert (salvaged.kept["judgments"], salvaged.kept["tasks"]) == (2, 1)


def test_a_memory_outlives_the_rows_of_its_views(tmp_path: Path) -> None:
    """They are in a table of their own, whose damage is not that of the text; a text that was
    altered is still refused, since no content has its hash."""
    damaged = tmp_path / "damaged" / "memory.db"
    with closing(connect_store(damaged)) as connection:
        enter_worktree(connection, "")
        sound, altered = function("sound"), function("altered")
        stated = [replace(memory, source=MemorySource.EXPLICIT) for memory in (sound, altered)]
        put(connection, *stated)
    with closing(sqlite3.connect(damaged)) as plain:
        plain.executescript("PRAGMA writable_schema = ON; DROP TRIGGER content_of_gone_view;")
        plain.execute("DELETE FROM memory_view")
        plain.execute("UPDATE memory_row SET text = text || '7' WHERE id = ?", (altered.id,))
        plain.commit()
    with closing(connect_store(tmp_path / "new" / "memory.db")) as target:
        salvaged = salvage_store(damaged, target)
        kept = target.execute("SELECT id FROM memory_row").fetchall()
    assert kept == [(sound.id,)]
    assert (salvaged.kept["memories"], salvaged.rejected_rows) == (1, 1)


def test_a_store_that_no_migration_can_open_is_salvaged(tmp_path: Path) -> None:
    """Rows of a store of schema 1 are read as it has them, so its damage costs no more than that of
    a new one."""
    write_older_store(tmp_path / "older.db", 1)
    with closing(connect_store(tmp_path / "new.db")) as target:
        report = salvage_store(tmp_path / "older.db", target)
        (turns,) = target.execute("SELECT count(*) FROM turn").fetchone()
    assert report.damaged_places == 0
    assert report.kept["turns"] == turns > 0
    assert report.kept["judgments"] > 0
    assert report.kept["memories"] > 0


def damage_the_id(store_dir: Path) -> None:
    """Overwrite the page that holds the id of a store."""
    path = store_dir / "memory.db"
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        of_meta = "SELECT rootpage FROM sqlite_master WHERE name = 'meta'"
        (page,) = plain.execute(of_meta).fetchone()
        (page_bytes,) = plain.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as damaged:
        damaged.seek((page - 1) * page_bytes)
        damaged.write(b"\xff" * page_bytes)


@pytest.mark.parametrize("trust", [False, True])
def test_rows_of_a_store_without_a_readable_id_come_over_on_the_users_word(
    store_dir: Path, user_dir: Path, *, trust: bool
) -> None:
    """The place alone shows nothing, since an archive could have been unpacked there."""
    judgment = Judgment("a" * 64, 0.9, "", "p1", 0)
    with closing(connect_store(store_dir / "memory.db")) as connection:
        write_judgments(connection, [judgment])
    damage_the_id(store_dir)
    rebuilt = rebuild.rebuild_store(store_dir, user_data_dir=user_dir, trust=trust)
    assert (rebuilt.salvaged is not None) is trust
    with closing(
        opening.open_store(store_dir, user_data_dir=user_dir, trust=False)
    ) as connection:
        kept = read_judgments(connection, NAMES)
    assert bool(kept) is trust


@pytest.mark.parametrize("trust", [False, True])
def test_a_journal_of_others_costs_no_judgment(
    store_dir: Path, user_dir: Path, *, trust: bool
) -> None:
    """The rows of the file itself come over; what the journal would write into it does not, and
    is next to the old store."""
    paid, planted = Judgment("a" * 64, 0.9, "", "p1", 0), Judgment("b" * 64, 0.9, "", "p1", 0)
    path = store_dir / "memory.db"
    with closing(connect_store(path)) as connection:
        write_judgments(connection, [paid])
    journal = journal_with(path, [planted])
    # Truncated within its last page, and copied: no process noted this inode.
    (store_dir / "memory.db-wal").write_bytes(journal[:-100])
    rebuilt = rebuild.rebuild_store(store_dir, user_data_dir=user_dir, trust=trust)
    assert rebuilt.left_out_journal
    assert rebuilt.salvaged is not None
    assert rebuilt.salvaged.kept["judgments"] == 1
    aside = rebuilt.set_aside_at
    assert aside is not None
    assert (aside / "memory.db-wal").read_bytes() == journal[:-100]
    assert (aside / "memory.db").exists()
    with closing(
        opening.open_store(store_dir, user_data_dir=user_dir, trust=False)
    ) as connection:
        assert list(read_judgments(connection, NAMES)) == [paid.content_hash]


def journal_with(path: Path, judgments: list[Judgment]) -> bytes:
    """Return a journal of a copy of the store, with these judgments, which SQLite would replay."""
    copy = path.parent.parent / "copy" / path.name
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    with closing(connect_store(copy)) as connection:
        write_judgments(connection, judgments)
        return Path(f"{copy}-wal").read_bytes()


def test_a_pipe_in_the_place_of_a_journal_costs_no_judgment(
    store_dir: Path, user_dir: Path
) -> None:
    """It is moved away like a journal of others, and never opened."""
    with closing(connect_store(store_dir / "memory.db")) as connection:
        write_judgments(connection, [Judgment("a" * 64, 0.9, "", "p1", 0)])
    os.mkfifo(store_dir / "memory.db-wal")
    rebuilt = rebuild.rebuild_store(store_dir, user_data_dir=user_dir)
    assert rebuilt.salvaged is not None
    assert rebuilt.salvaged.kept["judgments"] == 1


def test_a_users_word_is_not_for_a_journal_of_others(store_dir: Path, user_dir: Path) -> None:
    """What a stranger's journal would write into the store is not taken over, also where damage
    took the id."""
    path = store_dir / "memory.db"
    damage_the_id(store_dir)
    Path(f"{path}-wal").write_bytes(b"planted" * 1_000)
    rebuilt = rebuild.rebuild_store(store_dir, user_data_dir=user_dir, trust=True)
    assert rebuilt.left_out_journal
    assert rebuilt.set_aside_at is not None
    assert (rebuilt.set_aside_at / "memory.db-wal").read_bytes() == b"planted" * 1_000
