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
from tests.indexer.conftest import FILES, Index
from xscore.indexer.index import index_repository
from xscore.platform.files import read_file_under
from xscore.platform.paths import find_root
from xscore.records.indexing import MemoryCounts
from xscore.settings import IndexSettings
from xscore.store import index_rows
from xscore.store.file_bodies import read_with_bodies
from xscore.store.store import Store


def test_a_first_run_fills_layers_and_counts(index: Index) -> None:
    """X14, X16: code goes to the graph layer, prose and configuration to the vector layer, with
    metadata."""
    report = index.run(index.make(FILES))
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
    (row,) = read_with_bodies(index.connection, columns, "entity = 'first'")
    assert row[:5] == ("graph", "function", "python", 4, 6)
    assert row[7] == 'def first(x):\n    """Say it."""\n    return os.fspath(x)'
    assert json.loads(str(row[5])) == {
        "signature": "def first(x):",
        "docstring": "Say it.",
        "imports": ["os"],
        "dependencies": ["os.fspath"],
        "complexity": 1,
    }
    layers = index.rows(
        "SELECT DISTINCT layer FROM memory WHERE kind IN ('doc', 'config', 'text')"
    )
    assert layers == [("vector",)]


def test_last_modified_is_the_files_time(index: Index) -> None:
    """X16: a memory's time is its file's last modification, also after a touch."""
    root = index.make(FILES)
    os.utime(root / "run.sh", (1000, 1000))
    index.run(root)
    assert index.rows("SELECT updated_at FROM memory WHERE path = 'run.sh'") == [(1000.0,)]
    os.utime(root / "run.sh", (2000, 2000))
    report = index.run(root)
    assert (report.files.indexed, report.files.unchanged) == (0, 5)
    assert index.rows("SELECT updated_at FROM memory WHERE path = 'run.sh'") == [(2000.0,)]


def test_an_edit_touches_its_own_memories_only(index: Index) -> None:
    """X28: after editing one function, no other memory has a new id or content hash, though lines
    moved."""
    root = index.of(FILES)
    before = dict(index.connection.execute("SELECT id, content_hash FROM memory").fetchall())
    path = root / "pkg/a.py"
    path.write_text(path.read_text().replace('"""Say it."""', '"""Say it."""\n    x = str(x)'))
    report = index.run(root)
    after = dict(index.connection.execute("SELECT id, content_hash FROM memory").fetchall())
    changed = [id_ for id_ in before if before[id_] != after[id_]]
    assert before.keys() == after.keys()
    assert index.rows(f"SELECT entity FROM memory WHERE id = '{changed[0]}'") == [("first",)]
    assert (len(changed), report.files.indexed, report.memories.changed) == (1, 1, 1)
    assert index.rows("SELECT start_line FROM memory WHERE entity = 'second'") == [(10,)]


def test_what_goes_from_disk_goes_from_the_store(index: Index) -> None:
    """Deleted files and entities leave no memory, vector, mention or edge behind."""
    root = index.of(FILES)
    (root / "pkg/a.py").unlink()
    (root / "pkg/b.js").write_text("export const x = 1\n")
    report = index.run(root)
    assert (report.files.removed, report.memories.removed, report.memories.added) == (1, 4, 1)
    remaining_ids = {str(row[0]) for row in index.rows("SELECT id FROM memory")}
    untied = (
        "SELECT name_crc FROM mentioned_name WHERE version NOT IN "
        "(SELECT number FROM file_version)"
    )
    assert index.rows(untied) == []
    assert {
        str(row[0]) for row in index.rows("SELECT id FROM edge_end WHERE id GLOB 'm_*'")
    } <= remaining_ids
    ends = {str(end) for row in index.rows("SELECT source, target FROM edge") for end in row}
    assert {end for end in ends if end.startswith("m_")} <= remaining_ids
    assert "f_pkg/a.py" not in ends
    assert index.rows("SELECT * FROM file_version WHERE path = 'pkg/a.py'") == []


def test_new_rules_mean_a_new_look_at_every_file(index: Index) -> None:
    """If settings change how bytes are read, unchanged files are read again, once, even those of
    the epoch."""
    root = index.make(FILES)
    for name in FILES:  # as packages of source have them
        os.utime(root / name, (0, 0))
    index.run(root)
    assert index.run(root, max_line_chars=24).files.excluded.by_reason == {"long_lines": 1}
    assert index.run(root).files.indexed == 5
    assert index.run(root).files.indexed == 0


def test_a_file_written_while_indexed_is_looked_at_again(
    make_repo: MakeRepo, connection: sqlite3.Connection
) -> None:
    """A stamp as recent as the run is not trusted: a later write of equal size and time is
    found."""
    root = make_repo(FILES)
    info = (root / "run.sh").stat()
    settings = IndexSettings()
    index_repository(connection, find_root(root), settings, now=info.st_mtime)
    (root / "run.sh").write_text("echo ho\n")
    os.utime(root / "run.sh", ns=(info.st_atime_ns, info.st_mtime_ns))
    later = index_repository(connection, find_root(root), settings, now=time.time() + 60)
    assert later.files.indexed == 1


def test_a_file_replaced_by_one_of_its_size_and_date_is_read(index: Index) -> None:
    """`rsync -t`, `cp -p` and `tar` keep dates: the content counts, also where size and mtime are
    the same."""
    root = index.make(FILES)
    file = root / "run.sh"
    os.utime(file, (10**9, 10**9))
    time.sleep(0.06)  # beyond the resolution of timestamps
    index.run(root)
    assert index.run(root).files.indexed == 0
    file.write_text("echo ho\n")
    os.utime(file, (10**9, 10**9))
    assert index.run(root).files.indexed == 1


def test_a_file_of_the_future_keeps_its_date(index: Index) -> None:
    """Where a clock was set back, files are read at each run, and their memories do not become
    those of 1970."""
    root = index.make(FILES)
    ahead = time.time() + 86_400
    os.utime(root / "run.sh", (ahead, ahead))
    index.run(root)
    index.run(root)
    assert index.rows("SELECT DISTINCT updated_at FROM memory WHERE path = 'run.sh'") == [
        (pytest.approx(ahead),)
    ]


def test_secrets_are_redacted_after_parsing(index: Index) -> None:
    """A secret in code, comment, heading or configuration reaches no column, and entities stay
    complete."""
    key = "ghp_" + "a8Kd93jfKq0dLs82mZx71bVt54nRw6YcPq3E"
    root = index.make(
        {
            "a.py": (
                f'TOKEN = "{key}"\n\n\ndef f(token="{key}"):\n    """Uses {key}."""\n    return 1\n'
            ),
            "b.md": f"# Key {key}\n\ntext\n",
            "c.toml": f'# {key}\ntoken = "{key}"\n',
        }
    )
    report = index.run(root)
    assert report.secrets_redacted > 0
    index.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file = Path(str(index.rows("PRAGMA database_list")[0][2]))
    assert key.encode() not in file.read_bytes()
    assert index.rows("SELECT start_line, end_line FROM memory WHERE entity = 'f'") == [(4, 6)]


def test_configuration_is_screened_and_documents_are_not(index: Index, tmp_path: Path) -> None:
    """P03: a config file loses the address, a document keeps it; changing the setting reads the
    file again."""
    address = "jane" + "@" + "corp-x.io"
    root = index.make(
        {
            "app.toml": f'[owner]\nmail = "{address}"\n',
            "README.md": f"# Who\n\nAsk {address}.\n",
        }
    )
    with Store.open(find_root(root), user_data_dir=tmp_path / "user") as store:
        for allowed in (False, True, False):
            index_repository(
                store.connection, store.root, IndexSettings(), now=1.0, allow_pii=allowed
            )
            text_by_path = {
                path: text
                for path, *_, text in read_with_bodies(store.connection, "path", "true")
            }
            assert (address in text_by_path["app.toml"]) == allowed
            assert ("<PII:email>" in text_by_path["app.toml"]) == (not allowed)
            assert address in text_by_path["README.md"]


def test_names_that_are_not_utf8_are_kept_as_text(index: Index) -> None:
    """A file whose name is not UTF-8 is indexed under its percent-escaped name."""
    root = index.make({"a.py": "x = 1\n"})
    descriptor = os.open(os.fsencode(root) + b"/b\xff.py", os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, b"y = 2\n")
    os.close(descriptor)
    index.run(root)
    assert sorted(index.rows("SELECT path FROM memory")) == [("a.py",), ("b%FF.py",)]


def test_a_no_change_run_loads_no_parser(make_repo: MakeRepo, tmp_path: Path) -> None:
    """No run imports a grammar, and one without changes nothing else that only parsing needs."""
    root = make_repo(FILES)
    script = dedent(f"""
        import sys, time
        from pathlib import Path
        from types import SimpleNamespace
        from xscore.store.opening import connect_store
        from xscore.indexer.index import index_repository as index
        from xscore.platform.paths import find_root
        settings = SimpleNamespace(include=(), exclude=(), max_file_bytes=10**6,
                                   max_line_chars=5000, window_lines=60, git=True,
                                   commits=5000, workers=None)
        store = connect_store(Path({str(tmp_path / "s" / "m.db")!r}))
        root = find_root(Path({str(root)!r}))
        report = index(store, root, settings, now=time.time() + 60)
        print(report.files.indexed, *[m for m in sys.modules if m.partition(".")[0] in
              ("tree_sitter", "numpy", "pydantic", "multiprocessing")])
        """)
    run = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        for _ in "12"
    ]
    assert run[0].stdout.strip() == "5"
    assert run[1].stdout.strip() == "0"


def test_totals_stay_right_without_counting(index: Index) -> None:
    """An edit, a rename, a new file and a removed one update the cached totals to match a count."""
    root = index.of(FILES)
    (root / "pkg/a.py").write_text(
        "import os\n\n\ndef first(x):\n    return second(x)\n\n\ndef third(x):\n    first(x)\n"
    )
    index.run(root)
    (root / "pkg/new.py").write_text(
        "from pkg.a import third\n\n\nclass Held:\n    def go(self):\n        third(1)\n"
    )
    index.run(root)
    (root / "pkg/a.py").rename(root / "pkg/moved.py")
    (root / "run.sh").unlink()
    report = index.run(root)
    kept = index_rows.index_totals(index.connection)
    index_rows.write_meta(index.connection, index_rows.TOTALS, "")
    assert kept == index_rows.index_totals(index.connection)
    assert kept == (report.memories.by_kind, report.memories.by_language, report.edges)


def test_a_file_excluded_by_name_is_remembered(index: Index) -> None:
    """Its stamp saves the next run the check; a secret file's name is not stored; a new setting
    checks again."""
    root = index.make({**FILES, "logo.png": "x", "id_rsa": "k"})
    reasons = index.run(root).files.excluded.by_reason
    stamps = index.rows("SELECT path, excluded FROM file WHERE excluded <> ''")
    assert (reasons, stamps) == ({"binary": 1, "secret": 1}, [("logo.png", "binary")])
    assert index.run(root).files.excluded.by_reason == reasons
    assert index.run(root, exclude=("!logo.png",)).files.excluded.by_reason == {"secret": 1}
    (root / "logo.png").unlink()
    index.run(root)
    assert index.rows("SELECT path FROM file WHERE path = 'logo.png'") == []


def test_a_file_that_changes_while_it_is_read_is_read_again(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read is kept complete, and the next run reads what was written meanwhile."""
    root = index.make({"a.py": "def first():\n    return 1\n"})

    def read_then_write(top: int, name: str, *, max_bytes: int) -> bytes:
        data = read_file_under(top, name, max_bytes=max_bytes)
        (root / name).write_text("def second():\n    return 22\n")
        return data

    monkeypatch.setattr("xscore.indexer.changes.read_file_under", read_then_write)
    index.run(root)
    assert index.rows("SELECT entity FROM memory") == [("first",)]
    monkeypatch.undo()
    index.run(root)
    assert index.rows("SELECT entity FROM memory") == [("second",)]
