"""A first index of a source tree against the bare parse of its files, then a run without changes
and one of an edit.

    python benchmarks/index_speed.py PATH [--runs 5] [--first] [--growth 1000,10000,100000]

The tree is copied and committed elsewhere. Each command runs in a fresh process, and CPU counts
children. The anchor of the first index reads the indexed files, parses them with the same grammars
and runs the same queries, nothing else; that of a run without changes is `git status`. With
--growth, trees of the given numbers of files are indexed instead: copies of the tree's small files,
with function and class names of their own in each copy, and what an empty tree takes is subtracted,
since it is a large part of a small tree's time. Exits 1 beyond a target.
"""

import argparse
import json
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from measuring import XSCORE, commit_tree, take

from xscore.platform.paths import find_root
from xscore.store.file_bodies import read_with_bodies

BARE = """
import json, sys
from pathlib import Path
from tree_sitter import QueryCursor
from xscore.indexer.grammars import has_grammar
from xscore.indexer.languages import language_of
from xscore.indexer.syntax import load_queries
root = Path(sys.argv[1])
for path in json.loads(Path(sys.argv[2]).read_text()):
    language = language_of(path)
    data = (root / path).read_bytes()
    if has_grammar(language):
        parser, query = load_queries(language)
        QueryCursor(query).matches(parser.parse(data).root_node)
"""
MOST_GROWTH = 1.15
SMALL_BYTES = 3_000
"""Size below which a file is copied for --growth."""
MOST_CPU, MOST_WALL, MOST_BYTES, MOST_STATUS, MOST_EDIT_S = 8.0, 0.6, 2.5, 3.0, 0.25
INDEX = [*XSCORE, "index", "--quiet"]


class FirstIndex(NamedTuple):
    """What a first index took."""

    cpu_s: float
    bare_s: float
    """CPU of the bare parse of the same files."""
    bytes_a_byte: float
    """Size of the store for each byte of text."""


def first_index(root: Path, folder: Path, environment: dict[str, str]) -> FirstIndex:
    """Index a tree for the first time, and parse the same files barely."""
    cpu, wall, *_ = take(INDEX, root, environment)
    database = find_root(root).store_file
    with sqlite3.connect(database) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        texts = [text for *_, text in read_with_bodies(store, "id", "true")]
        text, memories = sum(len(text.encode()) for text in texts), len(texts)
        paths = [row[0] for row in store.execute("SELECT path FROM file WHERE excluded = ''")]
    store.close()
    bare = bare_parse_s(root, paths, folder, environment)
    size = database.stat().st_size
    print(f"{len(paths):,} files, {memories:,} memories with {text:,} bytes of text")
    print(f"first index: {cpu:.2f} s CPU, {wall:.2f} s wall, {len(paths) / wall:,.0f} files/s")
    print(
        f"bare parse and queries: {bare:.2f} s CPU; ratio {cpu / bare:.1f} (target {MOST_CPU:g})"
    )
    print(f"wall / CPU {wall / cpu:.2f} (target {MOST_WALL:g} on two idle cores)")
    print(f"store: {size:,} bytes, {size / text:.2f} a byte of text (target {MOST_BYTES:g})")
    return FirstIndex(cpu, bare, size / text)


def bare_parse_s(
    root: Path, paths: list[str], folder: Path, environment: dict[str, str]
) -> float:
    """Parse these files and run their queries, nothing else; return the CPU seconds."""
    listing = folder / "files.json"
    listing.write_text(json.dumps(paths))
    parse = [sys.executable, "-c", BARE, str(root), str(listing)]
    return min(take(parse, folder, environment).cpu_s for _ in "12")


def later_runs(root: Path, environment: dict[str, str], *, runs: int) -> dict[str, float]:
    """Index again without a change and after an edit, each compared with `git status`."""
    edited = max(
        root.rglob("*.py"),
        key=lambda file: (file.stat().st_size < 30_000) * file.stat().st_size,
    )
    same, edits, status = [], [], []
    for number in range(runs):
        status.append(take(["git", "status", "--porcelain"], root, environment).cpu_s)
        same.append(take(INDEX, root, environment).cpu_s)
        edited.write_text(
            edited.read_text() + f"\n\ndef added_{number}() -> int:\n    return {number}\n"
        )
        edits.append(take(INDEX, root, environment).cpu_s)
    start = min(take([*XSCORE, "--version"], root, environment).cpu_s for _ in range(runs))
    without, edit, git = (min(times) for times in (same, edits, status))
    print(f"`git status` {git:.3f} s CPU, `xscore --version` {start:.3f}")
    print(
        f"nothing changed: {without:.3f} s CPU, {without / git:.1f} times `git status` (target"
        f" {MOST_STATUS:g})"
    )
    print(
        f"one file edited: {(edit - without) * 1000:.0f} ms CPU beyond that (target"
        f" {MOST_EDIT_S * 1000:.0f})"
    )
    return {
        "nothing changed": without / git / MOST_STATUS,
        "edit": (edit - without) / MOST_EDIT_S,
    }


def write_copies(sources: Path, root: Path, count: int) -> None:
    """Write `count` files below `root`."""
    files = [
        file
        for file in sorted(sources.rglob("*.py"))
        if 100 < file.stat().st_size < SMALL_BYTES
    ]
    texts = {file.relative_to(sources): file.read_text("utf-8", "replace") for file in files}
    names = {
        name
        for text in texts.values()
        for name in re.findall(r"^ *(?:def|class) (\w{5,})", text, re.MULTILINE)
    }
    own_names = re.compile(rf"\b({'|'.join(sorted(names))})\b")
    for number, path in zip(range(count), cycle(texts), strict=False):
        copy = number // len(texts)
        target = root / f"copy_{copy}" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(own_names.sub(rf"\1_{copy}", texts[path]))


def growth(sources: Path, sizes: list[int], environment: dict[str, str]) -> dict[str, float]:
    """Index trees of these sizes; return how the CPU to the bare parse grows from the first to each
    other."""
    ratios: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder, "empty")
        empty.mkdir()
        (empty / "README").write_text("Nothing yet.\n")
        commit_tree(empty)
        start_s = min(take(INDEX, empty, environment).cpu_s for _ in "123")
        bare_start_s = bare_parse_s(empty, [], Path(folder), environment)
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder, "tree")
            write_copies(sources, root, size)
            commit_tree(root)
            taken = first_index(root, Path(folder), environment)
            ratios[size] = (taken.cpu_s - start_s) / (taken.bare_s - bare_start_s)
        print(
            f"{size:,} files: CPU to bare parse {ratios[size] / ratios[sizes[0]]:.2f} of that at"
            f" {sizes[0]:,}\n"
        )
    return {
        f"growth to {size:,}": ratios[size] / ratios[sizes[0]] / MOST_GROWTH
        for size in sizes[1:]
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--first", action="store_true", help="the first index only")
    parser.add_argument(
        "--growth", default="", metavar="N,N", help="numbers of files, the smallest first"
    )
    options = parser.parse_args()
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    if options.growth:
        with tempfile.TemporaryDirectory() as home:
            sizes = [int(size) for size in options.growth.split(",")]
            return verdict(growth(options.path, sizes, environment | {"HOME": home}))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "tree")
        shutil.copytree(
            options.path, root, symlinks=True, ignore=shutil.ignore_patterns(".git", ".xscore")
        )
        commit_tree(root)
        environment["HOME"] = str(Path(folder, "home"))
        taken = first_index(root, Path(folder), environment)
        shares = {
            "cpu": taken.cpu_s / taken.bare_s / MOST_CPU,
            "bytes": taken.bytes_a_byte / MOST_BYTES,
        }
        if not options.first:
            shares |= later_runs(root, environment, runs=options.runs)
    return verdict(shares)


def verdict(shares: dict[str, float]) -> int:
    """Say which targets were missed; return the exit code. shares: of each target."""
    missed = [name for name, share in shares.items() if share > 1]
    print(f"missed: {', '.join(missed) or 'nothing'}; load {os.getloadavg()[0]:.1f}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
