"""Large, killed, crashed and simultaneous index runs: the same result, and damage told as damage."""

import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import MakeRepo
from tests.indexer.conftest import FILES, RunIndex, rows
from xscore.indexer import index_repository
from xscore.platform.errors import StoreDamaged
from xscore.platform.paths import find_root
from xscore.settings import IndexSettings
from xscore.store.opening import connect_store

RUN = """
import sys, time
from pathlib import Path
from xscore.store.opening import connect_store
from xscore.indexer import index_repository as index
from xscore.platform.paths import find_root
from xscore.settings import IndexSettings
index(connect_store(Path(sys.argv[1])), find_root(Path(sys.argv[2])), IndexSettings(), now=time.time() + 3600)
"""


def big_repository(root: Path, count: int) -> None:
    """Many small files."""
    for number in range(count):
        folder = root / f"d{number % 7}"
        folder.mkdir(exist_ok=True)
        (folder / f"m{number}.py").write_text(f"def f{number}(x):\n    return f{(number + 1) % count}(x)\n")


def test_large_runs_parse_in_processes_with_the_same_result(
    tmp_path: Path, run_index: RunIndex, connection: sqlite3.Connection
) -> None:
    """Above a few hundred files, parsing happens in processes of its own, and nothing else is different."""
    root = tmp_path / "many"
    root.mkdir()
    big_repository(root, 450)
    report = run_index(root, workers=2)
    assert (report.files.indexed, report.memories.total, report.edges["calls"]) == (450, 450, 450)
    apart = rows(connection, "SELECT id, content_hash, text FROM memory ORDER BY id")
    other = connect_store(tmp_path / "other" / "memory.db")
    for number in range(0, 450, 150):  # three runs of 150 files stay in this process
        names = {f"m{n}.py" for n in range(number + 150)}
        keep = IndexSettings(include=tuple(sorted(names)))
        index_repository(other, find_root(root), keep, now=time.time() + 3600)
    assert rows(other, "SELECT id, content_hash, text FROM memory ORDER BY id") == apart
    other.close()


def test_large_files_are_parsed_apart(make_repo: MakeRepo, run_index: RunIndex, connection: sqlite3.Connection) -> None:
    """A single large file goes to a process of its own, and one that nests beyond reason is noted in the report."""
    functions = "".join(f"def f{i}(x):\n    return x + {i}\n\n\n" for i in range(3000))
    root = make_repo({"large.py": functions, "deep.json": "[" * 300 + "]" * 300, "small.py": "def g():\n    pass\n"})
    report = run_index(root)
    assert report.memories.by_kind == {"function": 3001, "text": 1}
    assert report.notes == ("deep.json: it nests more than 200 deep; cut into windows of lines",)


def test_after_a_crash_files_are_parsed_apart(
    make_repo: MakeRepo, run_index: RunIndex, connection: sqlite3.Connection
) -> None:
    """A run that died while parsing leaves its mark; the next parses in processes, and takes the mark away."""
    root = make_repo(FILES)
    connection.execute("INSERT INTO meta VALUES ('index_parsing', '1')")
    assert run_index(root).memories.total == 7
    assert rows(connection, "SELECT * FROM meta WHERE key = 'index_parsing'") == []


@pytest.mark.verify
def test_a_killed_run_is_taken_up_where_it_stopped(
    tmp_path: Path, run_index: RunIndex, connection: sqlite3.Connection
) -> None:
    """A run killed at any moment leaves a sound store; the next indexes the rest only and links everything."""
    root = tmp_path / "many"
    root.mkdir()
    big_repository(root, 390)
    database = tmp_path / "store" / "memory.db"
    child = subprocess.Popen([sys.executable, "-c", RUN, str(database), str(root)])
    give_up = time.monotonic() + 60
    while not connection.execute("SELECT 1 FROM file").fetchone() and time.monotonic() < give_up:
        time.sleep(0.002)
    child.send_signal(signal.SIGKILL)
    child.wait()
    kept = int(str(rows(connection, "SELECT count(*) FROM file")[0][0]))
    assert rows(connection, "PRAGMA integrity_check") == [("ok",)]
    report = run_index(root)
    assert kept > 0
    assert (report.files.unchanged, report.files.indexed, report.edges["calls"]) == (kept, 390 - kept, 390)


@pytest.mark.verify
def test_two_runs_at_once_agree(tmp_path: Path, connection: sqlite3.Connection, run_index: RunIndex) -> None:
    """Two runs over one store at the same time both end well, and the store is that of a single run."""
    root = tmp_path / "many"
    root.mkdir()
    big_repository(root, 200)
    database = tmp_path / "store" / "memory.db"
    children = [subprocess.Popen([sys.executable, "-c", RUN, str(database), str(root)]) for _ in "12"]
    assert [child.wait(60) for child in children] == [0, 0]
    report = run_index(root)
    assert (report.files.unchanged, report.memories.total, report.edges["calls"]) == (200, 200, 200)


def test_a_folder_swapped_for_a_link_leads_nowhere(make_repo: MakeRepo, run_index: RunIndex, tmp_path: Path) -> None:
    """A tracked file whose folder has become a link to elsewhere is not read through it, and the run goes on."""
    root = make_repo({"d/a.py": "x = 1\n", "b.py": "y = 1\n"})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.py").write_text("stolen = 1\n")
    (root / "d" / "a.py").unlink()
    (root / "d").rmdir()
    (root / "d").symlink_to(tmp_path / "elsewhere")
    report = run_index(root)
    assert report.files.indexed == 1
    assert report.files.excluded.by_reason == {"symlink": 1, "unreadable": 1}


def test_totals_that_make_no_sense_are_damage(
    make_repo: MakeRepo, run_index: RunIndex, connection: sqlite3.Connection
) -> None:
    """Totals are kept between runs; torn ones are not believed."""
    root = make_repo({"a.py": "a = 1\n"})
    run_index(root)
    connection.execute("UPDATE meta SET value = '[{' WHERE key = 'index_totals'")
    with pytest.raises(StoreDamaged, match="a total is invalid"):
        run_index(root)
