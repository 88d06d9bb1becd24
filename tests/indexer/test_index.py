"""The index run: what it reads, writes and skips."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from tests.conftest import MakeRepo
from tests.indexer.conftest import FILES, RunIndex, rows
from xscore.indexer import index_repository
from xscore.platform.files import read_file_under
from xscore.platform.paths import find_root
from xscore.records.memory import MemoryCounts
from xscore.settings import IndexSettings
from xscore.store import index_rows
from xscore.store.file_bodies import read_with_bodies


def test_a_first_run_fills_layers_and_counts(
    make_repo: MakeRepo, run_index: RunIndex, connection: sqlite3.Connection
) -> None:
    """X14, X16: code goes to the graph layer, prose and configuration to the vector layer, with metadata."""
    report = run_index(make_repo(FILES))
    assert report.files.indexed == report.files.seen == 5
    assert report.memories == MemoryCounts(
        total=7,
        added=7,
        changed=0,
        removed=0,
        by_kind={"block": 2, "config": 1, "doc": 1, "function": 3},
        by_language={"javascript": 1, "markdown": 1, "python": 3, "shell": 1, "toml": 1},
    )
    columns = "layer, kind, language, start_line, end_line"
    (row,) = read_with_bodies(connection, columns, "entity = 'first'")
    assert row[:5] == ("graph", "function", "python", 4, 6)
    assert row[7] == 'def first(x):\n    """Say it."""\n    return os.fspath(x)'
    assert json.loads(str(row[5])) == {
        "signature": "def first(x):",
        "docstring": "Say it.",
        "imports": ["os"],
        "dependencies": ["os.fspath"],
        "complexity": 1,
    }
    layers = rows(connection, "SELECT DISTINCT layer FROM memory WHERE kind IN ('doc', 'config', 'text')")
    assert layers == [("vector",)]


def test_last_modified_is_the_files_time(
    make_repo: MakeRepo, run_index: RunIndex, connection: sqlite3.Connection
) -> None:
    """X16: a memory's time is its file's last modification, also after a touch."""
    root = make_repo(FILES)
    os.utime(root / "run.sh", (1000, 1000))
    run_index(root)
    assert rows(connection, "SELECT updated_at FROM memory WHERE path = 'run.sh'") == [(1000.0,)]
    os.utime(root / "run.sh", (2000, 2000))
    report = run_index(root)
    assert (report.files.indexed, report.files.unchanged) == (0, 5)
    assert rows(connection, "SELECT updated_at FROM memory WHERE path = 'run.sh'") == [(2000.0,)]


def test_an_edit_touches_its_own_memories_only(
    make_repo: MakeRepo, run_index: RunIndex, connection: sqlite3.Connection
) -> None:
    """X28: after editing one function, no other memory has a new id or content hash, though lines moved."""
    root = make_repo(FILES)
    run_index(root)
    before = dict(connection.execute("SELECT id, content_hash FROM memory").fetchall())
    path = root / "pkg/a.py"
    path.write_text(path.read_text().replace('"""Say it."""', '"""Say it."""\n    x = str(x)'))
    report = run_index(root)
    after = dict(connection.execute("SELECT id, content_hash FROM memory").fetchall())
    changed = [id_ for id_ in before if before[id_] != after[id_]]
    assert before.keys() == after.keys()
    assert rows(connection, f"SELECT entity FROM memory WHERE id = '{changed[0]}'") == [("first",)]
    assert (len(changed), report.files.indexed, report.memories.changed) == (1, 1, 1)
    assert rows(connection, "SELECT start_line FROM memory WHERE entity = 'second'") == [(10,)]


def test_what_goes_from_disk_goes_from_the_store(
    make_repo: MakeRepo, run_index: RunIndex, connection: sqlite3.Connection
) -> None:
    """Deleted files and entities leave no memory, vector, mention or edge behind."""
    root = make_repo(FILES)
    run_index(root)
    (root / "pkg/a.py").unlink()
    (root / "pkg/b.js").write_text("export const x = 1\n")
    report = run_index(root)
    assert (report.files.removed, report.memories.removed, report.memories.added) == (1, 4, 1)
    left = {str(row[0]) for row in rows(connection, "SELECT id FROM memory")}
    untied = "SELECT name_crc FROM mentioned_name WHERE file NOT IN (SELECT number FROM file_mention)"
    assert rows(connection, untied) == []
    assert {str(row[0]) for row in rows(connection, "SELECT id FROM edge_end WHERE id GLOB 'm_*'")} <= left
    ends = {str(end) for row in rows(connection, "SELECT source, target FROM edge") for end in row}
    assert {end for end in ends if end.startswith("m_")} <= left
    assert "f_pkg/a.py" not in ends
    assert rows(connection, "SELECT * FROM file_mention WHERE path = 'pkg/a.py'") == []


def test_new_rules_mean_a_new_look_at_every_file(make_repo: MakeRepo, run_index: RunIndex) -> None:
    """If settings change how bytes are read, unchanged files are read again, once, even those of the epoch."""
    root = make_repo(FILES)
    for name in FILES:  # as packages of source have them
        os.utime(root / name, (0, 0))
    run_index(root)
    assert run_index(root, max_line_chars=24).files.excluded.by_reason == {"long_lines": 1}
    assert run_index(root).files.indexed == 5
    assert run_index(root).files.indexed == 0


def test_a_file_written_while_indexed_is_looked_at_again(make_repo: MakeRepo, connection: sqlite3.Connection) -> None:
    """A stamp as recent as the run is not trusted: a later write of equal size and time is found."""
    root = make_repo(FILES)
    info = (root / "run.sh").stat()
    settings = IndexSettings()
    index_repository(connection, find_root(root), settings, now=info.st_mtime)
    (root / "run.sh").write_text("echo ho\n")
    os.utime(root / "run.sh", ns=(info.st_atime_ns, info.st_mtime_ns))
    assert index_repository(connection, find_root(root), settings, now=time.time() + 60).files.indexed == 1


def test_a_file_replaced_by_one_of_its_size_and_date_is_read(make_repo: MakeRepo, run_index: RunIndex) -> None:
    """`rsync -t`, `cp -p` and `tar` keep dates: the content counts, also where size and mtime are the same."""
    root = make_repo(FILES)
    file = root / "run.sh"
    os.utime(file, (10**9, 10**9))
    time.sleep(0.06)  # beyond the resolution of timestamps
    run_index(root)
    assert run_index(root).files.indexed == 0
    file.write_text("echo ho\n")
    os.utime(file, (10**9, 10**9))
    assert run_index(root).files.indexed == 1


def test_a_file_of_the_future_keeps_its_date(
    make_repo: MakeRepo, run_index: RunIndex, connection: sqlite3.Connection
) -> None:
    """Where a clock was set back, files are read at each run, and their memories do not become those of 1970."""
    root = make_repo(FILES)
    ahead = time.time() + 86_400
    os.utime(root / "run.sh", (ahead, ahead))
    run_index(root)
    run_index(root)
    assert rows(connection, "SELECT DISTINCT updated_at FROM memory WHERE path = 'run.sh'") == [(pytest.approx(ahead),)]


def test_secrets_are_redacted_after_parsing(
    make_repo: MakeRepo, run_index: RunIndex, connection: sqlite3.Connection
) -> None:
    """A secret in code, comment, heading or configuration reaches no column, and entities stay complete."""
    key = "ghp_" + "a8Kd93jfKq0dLs82mZx71bVt54nRw6YcPq3E"
    root = make_repo(
        {
            "a.py": f'TOKEN = "{key}"\n\n\ndef f(token="{key}"):\n    """Uses {key}."""\n    return 1\n',
            "b.md": f"# Key {key}\n\ntext\n",
            "c.toml": f'# {key}\ntoken = "{key}"\n',
        }
    )
    report = run_index(root)
    assert report.secrets_redacted > 0
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file = Path(str(rows(connection, "PRAGMA database_list")[0][2]))
    assert key.encode() not in file.read_bytes()
    assert rows(connection, "SELECT start_line, end_line FROM memory WHERE entity = 'f'") == [(4, 6)]


def test_names_that_are_not_utf8_are_kept_as_text(
    make_repo: MakeRepo, run_index: RunIndex, connection: sqlite3.Connection
) -> None:
    """A file whose name is not UTF-8 is indexed under its percent-escaped name."""
    root = make_repo({"a.py": "x = 1\n"})
    descriptor = os.open(os.fsencode(root) + b"/b\xff.py", os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, b"y = 2\n")
    os.close(descriptor)
    run_index(root)
    assert sorted(rows(connection, "SELECT path FROM memory")) == [("a.py",), ("b%FF.py",)]


def test_a_no_change_run_loads_no_parser(make_repo: MakeRepo, tmp_path: Path) -> None:
    """A run without changes imports neither a grammar nor anything else that only parsing needs."""
    root = make_repo(FILES)
    script = dedent(
        f"""
        import sys, time
        from pathlib import Path
        from types import SimpleNamespace
        from xscore.store.opening import connect_store
        from xscore.indexer import index_repository as index
        from xscore.platform.paths import find_root
        settings = SimpleNamespace(include=(), exclude=(), max_file_bytes=10**6, max_line_chars=5000, window_lines=60,
                                   git=True, workers=None)
        report = index(connect_store(Path({str(tmp_path / "s" / "m.db")!r})), find_root(Path({str(root)!r})), settings,
                       now=time.time() + 60)
        print(report.files.indexed, *[m for m in sys.modules if m.partition(".")[0] in
              ("tree_sitter", "numpy", "pydantic", "multiprocessing")])
        """
    )
    run = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True) for _ in "12"]
    assert run[0].stdout.startswith("5 ")
    assert run[1].stdout.strip() == "0"


def test_totals_stay_right_without_counting(
    make_repo: MakeRepo, run_index: RunIndex, connection: sqlite3.Connection
) -> None:
    """An edit, a rename, a new file and a removed one update the cached totals to match a count."""
    root = make_repo(FILES)
    run_index(root)
    (root / "pkg/a.py").write_text(
        "import os\n\n\ndef first(x):\n    return second(x)\n\n\ndef third(x):\n    first(x)\n"
    )
    run_index(root)
    (root / "pkg/new.py").write_text("from pkg.a import third\n\n\nclass Held:\n    def go(self):\n        third(1)\n")
    run_index(root)
    (root / "pkg/a.py").rename(root / "pkg/moved.py")
    (root / "run.sh").unlink()
    report = run_index(root)
    kept = index_rows.index_totals(connection)
    index_rows.write_meta(connection, index_rows.TOTALS, "")
    assert kept == index_rows.index_totals(connection)
    assert kept == (report.memories.by_kind, report.memories.by_language, report.edges)


def test_a_file_excluded_by_name_is_remembered(
    make_repo: MakeRepo, run_index: RunIndex, connection: sqlite3.Connection
) -> None:
    """Its stamp saves the next run the check; a secret file's name is not stored; a new setting checks again."""
    root = make_repo({**FILES, "logo.png": "x", "id_rsa": "k"})
    reasons = run_index(root).files.excluded.by_reason
    stamps = rows(connection, "SELECT path, excluded FROM file WHERE excluded <> ''")
    assert (reasons, stamps) == ({"binary": 1, "secret": 1}, [("logo.png", "binary")])
    assert run_index(root).files.excluded.by_reason == reasons
    assert run_index(root, exclude=("!logo.png",)).files.excluded.by_reason == {"secret": 1}
    (root / "logo.png").unlink()
    run_index(root)
    assert rows(connection, "SELECT path FROM file WHERE path = 'logo.png'") == []


def test_a_file_that_changes_while_it_is_read_is_read_again(
    make_repo: MakeRepo, run_index: RunIndex, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read is kept complete, and the next run reads what was written meanwhile."""
    root = make_repo({"a.py": "def first():\n    return 1\n"})

    def read_then_write(top: int, name: str, *, max_bytes: int) -> bytes:
        data = read_file_under(top, name, max_bytes=max_bytes)
        (root / name).write_text("def second():\n    return 22\n")
        return data

    monkeypatch.setattr("xscore.indexer.changes.read_file_under", read_then_write)
    run_index(root)
    assert rows(connection, "SELECT entity FROM memory") == [("first",)]
    monkeypatch.undo()
    run_index(root)
    assert rows(connection, "SELECT entity FROM memory") == [("second",)]
