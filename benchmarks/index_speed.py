"""A first index of a source tree against the bare parse of its files, then a run without changes and one of an edit.

    python benchmarks/index_speed.py PATH [--runs 5]

The tree is copied and committed elsewhere. Each command runs in a fresh process, and CPU counts children. The anchor
of the first index reads the indexed files, parses them with the same grammars and runs the same queries, nothing else;
that of a run without changes is `git status`. Exits 1 beyond a target.
"""

import argparse
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BARE = """
import json, sys
from pathlib import Path
from tree_sitter import QueryCursor
from xscore.indexer.languages import has_grammar, language_of
from xscore.indexer.syntax import READ_BYTES, _loaded
root = Path(sys.argv[1])
for path in json.loads(Path(sys.argv[2]).read_text()):
    language = language_of(path)
    data = (root / path).read_bytes()
    if has_grammar(language.name):
        parser, query = _loaded(language)
        QueryCursor(query).matches(parser.parse(lambda at, _: data[at : at + READ_BYTES]).root_node)
"""
MOST_CPU, MOST_WALL, MOST_BYTES, MOST_STATUS, MOST_EDIT_S = 4.0, 0.6, 2.5, 3.0, 0.030


def measured(command: list[str], cwd: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Run a command; return CPU seconds, children counted, and wall seconds."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, check=False)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{command}: exit {done.returncode}: {done.stderr.decode()}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def commit(root: Path) -> None:
    """Make a committed repository of a folder."""
    identity = ("-c", "user.name=b", "-c", "user.email=b@example.invalid")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "sources")):
        subprocess.run(["git", *identity, *command], cwd=root, check=True, stdout=subprocess.DEVNULL)


def first_index(root: Path, folder: Path, environment: dict[str, str]) -> dict[str, float]:
    """Index a tree for the first time, and parse the same files barely."""
    index = [sys.executable, "-m", "xscore", "index", "--quiet"]
    cpu, wall = measured(index, root, environment)
    database = root / ".xscore" / "memory.db"
    with sqlite3.connect(database) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (text, memories) = store.execute("SELECT sum(length(CAST(text AS BLOB))), count(*) FROM memory").fetchone()
        paths = [row[0] for row in store.execute("SELECT path FROM file WHERE excluded = ''")]
    store.close()
    listing = folder / "files.json"
    listing.write_text(json.dumps(paths))
    bare, _ = min(measured([sys.executable, "-c", BARE, str(root), str(listing)], folder, environment) for _ in "12")
    size = database.stat().st_size
    print(f"{len(paths):,} files, {memories:,} memories with {text:,} bytes of text")
    print(f"first index: {cpu:.2f} s CPU, {wall:.2f} s wall, {len(paths) / wall:,.0f} files/s")
    print(f"bare parse and queries: {bare:.2f} s CPU; ratio {cpu / bare:.1f} (target {MOST_CPU:g})")
    print(f"wall / CPU {wall / cpu:.2f} (target {MOST_WALL:g} on two idle cores)")
    print(f"store: {size:,} bytes, {size / text:.2f} a byte of text (target {MOST_BYTES:g})")
    return {"cpu": cpu / bare / MOST_CPU, "bytes": size / text / MOST_BYTES}


def later_runs(root: Path, environment: dict[str, str], *, runs: int) -> dict[str, float]:
    """Index again without a change and after an edit, each beside `git status`."""
    index = [sys.executable, "-m", "xscore", "index", "--quiet"]
    edited = max(root.rglob("*.py"), key=lambda file: (file.stat().st_size < 30_000) * file.stat().st_size)
    same, edits, status = [], [], []
    for number in range(runs):
        status.append(measured(["git", "status", "--porcelain"], root, environment)[0])
        same.append(measured(index, root, environment)[0])
        edited.write_text(edited.read_text() + f"\n\ndef added_{number}() -> int:\n    return {number}\n")
        edits.append(measured(index, root, environment)[0])
    start, _ = min(measured([sys.executable, "-m", "xscore", "--version"], root, environment) for _ in range(runs))
    without, edit, git = (min(times) for times in (same, edits, status))
    print(f"`git status` {git:.3f} s CPU, `xscore --version` {start:.3f}")
    print(f"nothing changed: {without:.3f} s CPU, {without / git:.1f} times `git status` (target {MOST_STATUS:g})")
    print(f"one file edited: {(edit - without) * 1000:.0f} ms CPU beyond that (target {MOST_EDIT_S * 1000:.0f})")
    return {"nothing changed": without / git / MOST_STATUS, "edit": (edit - without) / MOST_EDIT_S}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--first", action="store_true", help="the first index only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "tree")
        shutil.copytree(options.path, root, symlinks=True, ignore=shutil.ignore_patterns(".git", ".xscore"))
        commit(root)
        environment = {**os.environ, "HOME": str(Path(folder, "home")), "PYTHONDONTWRITEBYTECODE": ""}
        found = first_index(root, Path(folder), environment)
        found |= {} if options.first else later_runs(root, environment, runs=options.runs)
    missed = [name for name, share in found.items() if share > 1]
    print(f"missed: {', '.join(missed) or 'nothing'}; load {os.getloadavg()[0]:.1f}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
