"""Which files are found."""

import hashlib
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.conftest import MakeRepo, git, write_files
from tests.programs import run_without_root_powers
from xscore.indexer import discovery
from xscore.indexer.discovery import discover_files, walk_folder
from xscore.platform.paths import find_root
from xscore.records.indexing import Excluded

COUNT_FILES = """
import asyncio
from xscore.pipeline.build import Pipeline
from xscore.settings import Settings

async def count():
    async with Pipeline.open(".", Settings()) as pipeline:
        files = (await pipeline.index()).files
        print(files.indexed, files.excluded.by_reason)

asyncio.run(count())
"""


def found(root: Path) -> list[str]:
    """Return the paths of a root, sorted."""
    return sorted(discover_files(find_root(root)).paths)


FILES = {
    "a.py": "",
    "sub/b.py": "",
    "sub/.gitignore": "*.tmp\n!keep.tmp\n",
    "sub/x.tmp": "",
    "sub/keep.tmp": "",
    "build/out.js": "",
    ".gitignore": "/build/\n*.log\n",
    "deep/er/z.log": "",
    "deep/er/y.md": "",
}
SEEN = [".gitignore", "a.py", "deep/er/y.md", "sub/.gitignore", "sub/b.py", "sub/keep.tmp"]


def test_a_plain_folder_obeys_gitignore_files(tmp_path: Path) -> None:
    """Outside git the walk reads .gitignore files, nested and negated ones included, as git
    does."""
    write_files(tmp_path, FILES)
    plain = sorted(walk_folder(tmp_path).paths)
    assert plain == SEEN
    git(tmp_path, "init", "-q")
    assert found(tmp_path) == plain


def test_nested_repositories_and_dependencies_stay_out(tmp_path: Path) -> None:
    """Nested repositories, installed packages and caches are reported as excluded, and not
    entered."""
    names = (
        "inner/.git/HEAD",
        "inner/x.py",
        "node_modules/m/i.js",
        "env/pyvenv.cfg",
        "env/lib/y.py",
        "a.py",
    )
    write_files(tmp_path, dict.fromkeys(names, ""))
    listing = walk_folder(tmp_path)
    assert listing.paths == ["a.py"]
    assert sorted(listing.excluded, key=lambda e: e.path) == [
        Excluded("env/", "dependencies"),
        Excluded("inner/", "nested_repository"),
        Excluded("node_modules/", "dependencies"),
    ]


def test_a_bare_repository_has_no_files(make_repo: MakeRepo, tmp_path: Path) -> None:
    """Git's own files are neither indexed nor entered: hooks, and configuration that may hold
    passwords."""
    root = make_repo({"a.py": ""})
    git(root, "clone", "-q", "--bare", ".", str(tmp_path / "plain" / "bare.git"))
    (tmp_path / "plain" / "b.py").write_text("")
    assert discover_files(find_root(tmp_path / "plain" / "bare.git")).paths == []
    listing = walk_folder(tmp_path / "plain")
    assert listing.paths == ["b.py"]
    assert listing.excluded == [Excluded("bare.git/", "nested_repository")]


def test_an_index_made_by_hand_cannot_reach_outside(make_repo: MakeRepo) -> None:
    """Git prints whatever its index holds; a path outside the root, or into .git, is excluded."""
    root = make_repo({"a.py": "", "zz/up.py": "", "zzzz/config": ""})
    index = root / ".git" / "index"
    data = (
        index.read_bytes()[:-20]
        .replace(b"zz/up.py", b"../up.py")
        .replace(b"zzzz/config", b".git/config")
    )
    index.write_bytes(data + hashlib.sha1(data, usedforsecurity=False).digest())
    (root.parent / "up.py").write_text("outside = 1\n")
    listing = discover_files(find_root(root))
    assert {"../up.py", ".git/config"}.isdisjoint(listing.paths)
    assert {Excluded("../up.py", "outside"), Excluded(".git/config", "outside")} <= set(
        listing.excluded
    )


def test_without_git_the_rules_are_read_by_hand(
    make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If git cannot answer, the walk takes over with a note."""
    root = make_repo({"a.py": "", ".gitignore": "*.log\n"})
    (root / "x.log").write_text("")
    monkeypatch.setenv("PATH", str(root))
    listing = discover_files(find_root(root))
    assert listing.paths == [".gitignore", "a.py"]
    assert len(listing.notes) == 1


def test_rules_that_keep_git_busy_are_read_by_hand(
    make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git matches stars in exponential time: it gets one time limit, and a note says what was
    done."""
    monkeypatch.setattr(discovery, "LISTING_S", 0.3)
    stars = "\n".join(["a*" * 30 + "b", "*.log"])
    root = make_repo({"a" * 120 + ".py": "", ".gitignore": "*.log\n"})
    (root / ".gitignore").write_text(stars)
    for name in ("a" * 121 + ".py", "x.log"):
        (root / name).write_text("")
    listing = discover_files(find_root(root))
    assert [name for name in listing.paths if name.startswith("a")] == [
        "a" * 120 + ".py",
        "a" * 121 + ".py",
    ]
    assert "x.log" not in listing.paths and "took more than 0.3 s" in listing.notes[0]
    monkeypatch.setattr(discovery, "LISTING_S", 60)
    began = time.monotonic()
    assert len(discover_files(find_root(root)).paths) == len(listing.paths)
    assert time.monotonic() - began < 30  # it was not asked again


def test_a_rule_that_is_cut_off_is_no_rule(tmp_path: Path) -> None:
    """Only whole lines of an oversized .gitignore are read: half a glob may match
    everything."""
    (tmp_path / ".gitignore").write_text("#" * (discovery.MAX_RULES_BYTES - 2) + "\n*.log\n")
    (tmp_path / "a.py").write_text("")
    assert walk_folder(tmp_path).paths == [".gitignore", "a.py"]


RULES = (
    ["build/*", "!build/keep.py"],
    ["*.log", "!keep/"],
    ["*.py/", "!*/x.py/*"],
    ["**/", "!src/"],
    ["src/**/", "*.log"],
    ["src/**", "!src/a.py"],
    ["/[!s]*", "!a b"],
    ["**/x", "!keep/x", "s?c"],
    ["***/x", "src/***"],
    ["[z-a]", "a\\", "!", "*.log"],
)
_PATHS = "build/a.py build/keep.py keep/b.log keep/x/y src/a.py src/x/a.log s.py/x.py/b x/y.log"
TREE = ("a b", *_PATHS.split())


@pytest.mark.parametrize("rules", RULES, ids=" ".join)
def test_the_walk_lists_what_git_lists(make_repo: MakeRepo, rules: list[str]) -> None:
    """Negations inside and below ignored folders behave as in git."""
    root = make_repo({"a.py": ""})
    write_files(root, {**dict.fromkeys(TREE, ""), ".gitignore": "\n".join(rules)})
    git(root, "rm", "-q", "--cached", "a.py")
    assert sorted(walk_folder(root).paths) == found(root)


def test_a_path_longer_than_the_system_takes_is_counted(tmp_path: Path) -> None:
    """Folders are made below each other until no path reaches them; the rest is found all the
    same."""
    write_files(tmp_path, {"a.py": ""})
    before = Path.cwd()
    try:
        os.chdir(tmp_path)
        for _ in range(20):
            Path("n" * 250).mkdir()
            os.chdir("n" * 250)
        Path("deep.py").touch()
    finally:
        os.chdir(before)
    listing = walk_folder(tmp_path)
    assert "a.py" in listing.paths
    assert {exclusion.reason for exclusion in listing.excluded} == {"unreadable"}
    # It goes by open folders, so it reaches what no path does.
    shutil.rmtree(tmp_path / ("n" * 250))


def test_folders_closed_to_this_user_are_counted_and_the_rest_is_remembered(
    tmp_path: Path,
) -> None:
    """A folder that may not be listed, one that may not be searched, and a file that may not be
    read."""
    write_files(tmp_path, {"a.py": "A = 1\n", "closed/b.py": "", "half/c.py": "", "d.py": ""})
    modes = {"closed": 0o000, "half": 0o444, "d.py": 0o000}
    for name, mode in modes.items():
        (tmp_path / name).chmod(mode)
    try:
        ended = run_without_root_powers(COUNT_FILES, cwd=tmp_path)
    finally:
        for name in modes:
            (tmp_path / name).chmod(0o755)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["1", "{'unreadable':", "3}"]


def test_the_kernels_own_folders_are_left_out(tmp_path: Path) -> None:
    """Below `/` neither processes nor devices are entered; elsewhere a folder of such a name is an
    ordinary one."""
    listing = discovery.FileListing()
    assert not any(
        discovery._may_enter(Path("/"), name, listing) for name in ("proc", "sys", "dev")
    )
    assert {exclusion.reason for exclusion in listing.excluded} == {"system"}
    write_files(tmp_path, {"proc/a.py": ""})
    assert walk_folder(tmp_path).paths == ["proc/a.py"]
