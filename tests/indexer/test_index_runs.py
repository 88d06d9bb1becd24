"""Large, killed, crashed and concurrent index runs: the same result, and damage reported as
damage."""

import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import write_files
from tests.indexer.conftest import Index, rows
from xscore.indexer import changes
from xscore.indexer.index import index_repository
from xscore.platform.errors import StoreDamaged
from xscore.platform.paths import find_root
from xscore.settings import IndexSettings
from xscore.store.file_bodies import read_with_bodies
from xscore.store.opening import connect_store

RUN = """
import sys, time
from pathlib import Path
from xscore.store.opening import connect_store
from xscore.indexer.index import index_repository as index
from xscore.platform.paths import find_root
from xscore.settings import IndexSettings
store, root = Path(sys.argv[1]), Path(sys.argv[2])
index(connect_store(store), find_root(root), IndexSettings(), now=time.time() + 3600)
"""


def big_repository(root: Path, count: int) -> Path:
    """Write many small files, each of which calls the next, and return their folder."""
    files: dict[str, str] = {}
    for number in range(count):
        called = (number + 1) % count
        imported = f"    from d{called % 7}.m{called} import f{called}\n\n"
        files[f"d{number % 7}/m{number}.py"] = (
            f"def f{number}(x):\n{imported}    return f{called}(x)\n"
        )
    write_files(root, files)
    return root


def test_large_runs_parse_in_processes_with_the_same_result(
    tmp_path: Path, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worker processes parse more than a few hundred files and report each; the result is the
    same."""
    monkeypatch.setattr(changes, "PROGRESS_SECONDS", 0)
    root = big_repository(tmp_path / "many", 450)
    progress_steps: list[tuple[int, int]] = []
    report = index_repository(
        connection,
        find_root(root),
        IndexSettings(workers=2),
        now=time.time() + 3600,
        progress=lambda files, of: progress_steps.append((files, of)),
    )
    assert list(dict.fromkeys(progress_steps)) == [(files, 450) for files in range(1, 451)]
    assert report.files.indexed == 450
    assert report.memories.total == 450
    assert report.edges["calls"] == 450
    apart = sorted(read_with_bodies(connection, "id, content_hash", "true"))
    second = connect_store(tmp_path / "other" / "memory.db")
    for number in range(0, 450, 150):  # three runs of 150 files start one process each
        names = {f"m{n}.py" for n in range(number + 150)}
        keep = IndexSettings(include=tuple(sorted(names)))
        index_repository(second, find_root(root), keep, now=time.time() + 3600)
    assert sorted(read_with_bodies(second, "id, content_hash", "true")) == apart
    second.close()


def test_large_files_are_parsed_apart(index: Index) -> None:
    """A large file is parsed in a separate process, and an excessively nested one is in the
    report."""
    functions = "".join(f"def f{i}(x):\n    return x + {i}\n\n\n" for i in range(3000))
    root = index.make(
        {
            "large.py": functions,
            "deep.json": "[" * 300 + "]" * 300,
            "small.py": "def g():\n    pass\n",
        }
    )
    report = index.run(root)
    assert report.memories.by_kind == {"function": 3001, "text": 1}
    assert report.notes == ("deep.json: nested more than 200 deep; cut into windows of lines",)


@pytest.mark.verify
def test_a_killed_run_is_taken_up_where_it_stopped(tmp_path: Path, index: Index) -> None:
    """A run killed at any time leaves an intact store; the next indexes only the rest and links
    everything."""
    root = big_repository(tmp_path / "many", 390)
    database = tmp_path / "store" / "memory.db"
    child = subprocess.Popen([sys.executable, "-c", RUN, str(database), str(root)])
    give_up = time.monotonic() + 60
    while (
        not index.connection.execute("SELECT 1 FROM file").fetchone()
        and time.monotonic() < give_up
    ):
        time.sleep(0.002)
    child.send_signal(signal.SIGKILL)
    child.wait()
    kept = int(str(index.rows("SELECT count(*) FROM file")[0][0]))
    assert index.rows("PRAGMA integrity_check") == [("ok",)]
    report = index.run(root)
    assert kept > 0
    assert report.files.unchanged == kept
    assert report.files.indexed == 390 - kept
    assert report.edges["calls"] == 390


@pytest.mark.verify
def test_two_runs_at_once_agree(tmp_path: Path, index: Index) -> None:
    """Two concurrent runs over one store both succeed, and the store equals that of a single
    run."""
    root = big_repository(tmp_path / "many", 200)
    database = tmp_path / "store" / "memory.db"
    children = [
        subprocess.Popen([sys.executable, "-c", RUN, str(database), str(root)]) for _ in "12"
    ]
    assert [child.wait(60) for child in children] == [0, 0]
    report = index.run(root)
    assert report.files.unchanged == 200
    assert report.memories.total == 200
    assert report.edges["calls"] == 200


def test_a_folder_swapped_for_a_link_leads_nowhere(index: Index, tmp_path: Path) -> None:
    """A tracked file whose folder has become a link to elsewhere is not read, and the run
    continues."""
    root = index.make({"d/a.py": "x = 1\n", "b.py": "y = 1\n"})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.py").write_text("stolen = 1\n")
    (root / "d" / "a.py").unlink()
    (root / "d").rmdir()
    (root / "d").symlink_to(tmp_path / "elsewhere")
    report = index.run(root)
    assert report.files.indexed == 1
    assert report.files.excluded.by_reason == {"symlink": 1}


def test_totals_that_make_no_sense_are_damage(index: Index) -> None:
    """Totals are kept between runs; damaged ones are recomputed."""
    root = index.of({"a.py": "a = 1\n"})
    index.connection.execute("UPDATE worktree_meta SET value = '[{' WHERE key = 'index_totals'")
    with pytest.raises(StoreDamaged, match="a total is invalid"):
        index.run(root)


MEASURED = (
    RUN.replace("IndexSettings()", "IndexSettings(max_file_bytes=20_000_000)")
    + """
import resource
# `ru_maxrss` begins with that of the process that started this one.
status = open("/proc/self/status").read().split()
own = int(status[status.index("VmHWM:") + 1])
of_children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print([kilobytes // 1024 for kilobytes in (own, of_children)])
"""
)
LARGE_FILES = {
    "million_rows.py": "x = 1\n" * 1_000_000,
    "million_names.rb": "x\n" * 500_000,
    "million_marks.md": "#\n" * 400_000,
    "functions.go": "func f() { return g() }\n" * 20_000,
    "on_few_rows.js": ("function f() { return g() } " * 170 + "\n") * 200,
    "chained.java": "class A {{ int x = a{}; }}".format("\n.b()" * 60_000),
    "assigned.js": "a =\n" * 100_000 + "1",
}


@pytest.mark.verify
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
def test_no_file_takes_much_memory(tmp_path: Path, connection: sqlite3.Connection) -> None:
    """A million lines, dense lines, endless chains: every file is indexed, each line in a memory,
    within 400 MB."""
    root = tmp_path / "large"
    root.mkdir()
    for name, text in LARGE_FILES.items():
        (root / name).write_text(text)
    command = [sys.executable, "-c", MEASURED, str(tmp_path / "store" / "memory.db"), str(root)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=360)
    assert max(json.loads(done.stdout)) < 400
    spans = rows(
        connection,
        "SELECT path, start_line, end_line FROM memory WHERE path != '' ORDER BY path, start_line",
    )
    for name, text in LARGE_FILES.items():
        seen = {
            row
            for path, start, end in spans
            if path == name
            for row in range(int(str(start)), int(str(end)) + 1)
        }
        assert len(seen) == len(text.splitlines()), name


def test_files_with_one_note_share_a_line(index: Index) -> None:
    """Hundreds of files of one kind (colored output, minified data) do not fill a terminal."""
    nested = "[" * 300 + "]" * 300
    root = index.make({f"deep_{number}.json": nested for number in range(3)})
    report = index.run(root)
    assert report.notes == (
        "deep_0.json and 2 more files: nested more than 200 deep; cut into windows of lines",
    )
