"""An index run with a deadline stops cleanly, says what is left, and the next run continues."""

import os
import signal
import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

from tests.conftest import MakeRepo, write_files
from tests.indexer.conftest import FILES, rows
from tests.indexer.test_index_runs import big_repository
from tests.indexer.test_workers import children_of, job
from xscore.indexer.index import index_repository
from xscore.indexer.workers import parse_in_processes
from xscore.platform.database import transaction
from xscore.platform.paths import find_root
from xscore.records.indexing import IndexReport
from xscore.settings import IndexSettings
from xscore.store.opening import connect_store

GRACE_S = 10.0
"""What a busy machine may take beyond a deadline; without one, a writer is waited for 30 s."""
"""How far a run may exceed its deadline on a busy machine."""
TABLES = (
    "SELECT id, content_hash, text_hash, terms, start_line, tokens FROM memory ORDER BY id",
    "SELECT path, body FROM file_version ORDER BY path",
    "SELECT source, target, relation, weight, path FROM edge ORDER BY source, relation, target",
    "SELECT path, file_hash, language, excluded FROM file ORDER BY path",
)


def run_until(connection: sqlite3.Connection, root: Path, seconds: float | None) -> IndexReport:
    """Index with a deadline in seconds; None: no deadline."""
    until = None if seconds is None else time.monotonic() + seconds
    return index_repository(
        connection, find_root(root), IndexSettings(), now=time.time() + 3600, until=until
    )


def test_a_deadline_that_has_passed_leaves_all_files(
    make_repo: MakeRepo, connection: sqlite3.Connection
) -> None:
    """Nothing is read, the report counts the files left, and the next run reads everything."""
    root = make_repo(FILES)
    report = run_until(connection, root, 0.0)
    assert report.files_left == len(FILES)
    assert report.files.indexed == 0
    assert report.memories.total == 0
    report = run_until(connection, root, None)
    assert report.files_left == 0
    assert report.files.indexed == len(FILES)
    assert report.memories.total == 7


def test_a_folder_that_could_not_be_listed_in_time_keeps_its_index(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    """What a walk has not reached when the time is up is not taken for deleted, and the report says
    so."""
    write_files(tmp_path, FILES)
    listed = run_until(connection, tmp_path, None)
    cut = run_until(connection, tmp_path, 0.0)
    assert (cut.memories.total, cut.files.removed) == (listed.memories.total, 0) and cut.notes
    assert run_until(connection, tmp_path, None).files.unchanged == len(FILES)


def test_runs_with_deadlines_end_in_the_index_of_one_run(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    """Each run keeps its commits, and together they make the same memories and edges as a single
    run."""
    root = big_repository(tmp_path / "many", 250)
    indexed_before, shares = 0, list[int]()
    while not shares or shares[-1]:
        report = run_until(connection, root, 0.4 + 0.2 * len(shares))
        assert report.files.unchanged == indexed_before
        assert indexed_before + report.files.indexed + report.files_left == 250
        files_left = rows(
            connection, "SELECT value FROM worktree_meta WHERE key = 'index_files_left'"
        )
        assert files_left == (
            [(str(report.files_left),)]
            if report.files_left and report.files.indexed
            else files_left
        )
        indexed_before += report.files.indexed
        shares.append(report.files_left)
    run_until(connection, root, None)
    due = "SELECT * FROM worktree_meta WHERE key LIKE 'index_files_left' OR key = 'links_due'"
    assert rows(connection, due) == []
    with closing(connect_store(tmp_path / "other" / "memory.db")) as single_run:
        run_until(single_run, root, None)
        assert all(rows(connection, query) == rows(single_run, query) for query in TABLES)


def test_a_file_that_hangs_does_not_hold_the_deadline() -> None:
    """The worker on it is killed at the deadline, and the file is recorded, so that it comes last
    next time."""

    def stop_children() -> None:
        give_up = time.monotonic() + 30
        while not (children := children_of(os.getpid())) and time.monotonic() < give_up:
            time.sleep(0.02)
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)  # as a grammar that never returns

    stopper, stopped = threading.Thread(target=stop_children), list[str]()
    stopper.start()
    until = time.monotonic() + 1.5
    big = "\n".join(f"def f{i}(x):\n    return x + {i}\n" for i in range(20_000))
    done = list(
        parse_in_processes(
            iter([job(0, big), job(1)]), count=1, until=until, stopped=stopped.append
        )
    )
    assert until <= time.monotonic() < until + GRACE_S
    stopper.join()
    assert (done, stopped, children_of(os.getpid())) == ([], ["m0.py"], [])


def test_what_a_deadline_stopped_at_comes_last(
    make_repo: MakeRepo, connection: sqlite3.Connection
) -> None:
    """Other files do not wait behind it again."""
    root = make_repo({f"m{n}.py": f"def f{n}():\n    return {n}\n" for n in range(40)})
    connection.execute("INSERT INTO worktree_meta VALUES (1, 'index_slow', 'm0.py\nm1.py')")
    connection.execute("CREATE TEMP TABLE came (path); ")
    watch = (
        "CREATE TEMP TRIGGER watch AFTER INSERT ON file_row BEGIN INSERT INTO came VALUES"
        " (NEW.path); END"
    )
    connection.execute(watch)
    run_until(connection, root, None)
    assert rows(connection, "SELECT path FROM came")[-2:] == [("m0.py",), ("m1.py",)]
    assert rows(connection, "SELECT * FROM worktree_meta WHERE key = 'index_slow'") == []


def test_a_second_indexer_does_not_wait_past_its_deadline(
    make_repo: MakeRepo, tmp_path: Path, connection: sqlite3.Connection
) -> None:
    """While another process writes, the run ends in time with a message, and leaves the files to
    the next."""
    root = make_repo(FILES)
    with closing(connect_store(tmp_path / "store" / "memory.db")) as second:
        with transaction(connection):
            began = time.monotonic()
            report = run_until(second, root, 0.3)
            assert time.monotonic() - began < 0.3 + 2 * GRACE_S
        assert report.files.indexed == 0
        assert report.notes == (
            "another process is writing to the store, so the index was left as it is",
        )
        assert run_until(second, root, None).files.indexed == len(FILES)
        assert second.execute("PRAGMA busy_timeout").fetchone() == (30_000,)
