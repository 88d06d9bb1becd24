"""List the files of a repository; which of them are indexed is `admission`'s.

The list comes from git, or from a walk that obeys .gitignore; symbolic links are never followed,
submodules and nested repositories keep their own stores. What is left out has a reason:
nested_repository · outside · unreadable · dependencies · system. Every look on the way is guarded:
a folder may be closed to this user, or its path longer than the system takes. Trade-off: a plain
folder is walked whole before its first file is read.
"""

import os
import re
import stat
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct, field

from xscore.platform.files import IGNORED_IN_NAMES, is_there, leads_out
from xscore.platform.git import run_git
from xscore.platform.git_folder import bare_repository, claims_git
from xscore.platform.paths import RepositoryRoot, own_folders_in, portable_name
from xscore.records.indexing import Excluded

if TYPE_CHECKING:
    from xscore.platform.globs import GlobList

MAX_RULES, MAX_RULES_BYTES = 1_000, 100_000
"""Most lines and bytes read of one .gitignore file."""
LISTING_S = 10.0
"""How long git may take to list files: it matches a glob of many stars in exponential time."""
PRUNED = frozenset(
    """
    .git .hg .svn .jj .xscore node_modules bower_components __pycache__ .venv venv .tox .nox
    .mypy_cache .pytest_cache .ruff_cache .hypothesis .eggs .gradle .terraform .next .nuxt .cache
    .parcel-cache site-packages
    """.split()
)
"""Folders of dependencies, caches and version control, skipped in plain folders."""
_SILENT = frozenset({".git", ".hg", ".svn", ".jj", ".xscore", "__pycache__"})
SYSTEM_FOLDERS = frozenset({"proc", "sys", "dev", "run"})
"""Folders below `/` in which the kernel shows itself and its devices as endless files."""
_UNUSUAL = (  # plain search is fast
    "../",
    "..\0",
    ".git/",
    ".git\0",
    ".git ",
    ".git.",
    ".git:",
    "git~1",
    "\\",
    "\0/",
    *IGNORED_IN_NAMES,
    "/\0",
    "\0.xscore/",
)
"""A list contains one of these if a path in it leads out, or is a nested repository or our own
folder."""


class FileListing(Struct):
    """Files found, and folders excluded as a whole."""

    paths: list[str] = field(default_factory=list)
    """Paths as the file system names them, relative to the root."""
    excluded: list[Excluded] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_whole: bool = True
    """Whether the walk ended before its deadline."""


_too_slow: set[Path] = set()
"""Roots where git ran out of time; this process does not ask it there again."""


def discover_files(
    root: RepositoryRoot, *, git: bool = True, until: float | None = None
) -> FileListing:
    """List the files of a root: by git where it is a worktree, otherwise by walking; none of
    xscore's own.

    until: when to stop walking, in seconds of `time.monotonic`; git has a limit of its own
        (`LISTING_S`).
    """
    listing = _list_files(root, git=git, until=until)
    # A home folder, or a repository of dotfiles, holds the user's secret file, stores and copies.
    own_folders = tuple(f"{folder}/" for folder in own_folders_in(root.path))
    if own_folders:
        listing.paths = [path for path in listing.paths if not path.startswith(own_folders)]
    return listing


def _list_files(root: RepositoryRoot, *, git: bool, until: float | None) -> FileListing:
    if root.is_git and git and root.path not in _too_slow:
        began = monotonic()
        printed = run_git(
            root.path, "ls-files", "-co", "--exclude-standard", "-z", timeout_s=LISTING_S
        )
        if printed is not None:
            return _listed(printed)
        if monotonic() - began >= LISTING_S:
            _too_slow.add(root.path)
    if bare_repository(root.path):
        note = "this is git's own folder, or a bare repository: it holds no files to remember"
        return FileListing(notes=[note])
    listing = walk_folder(root.path, until=until)
    if not listing.is_whole:
        listing.notes.append(
            "time ran out before all files were listed, so the index was not updated"
        )
    if root.is_git and git:
        failed = f"took more than {LISTING_S:g} s to" if root.path in _too_slow else "could not"
        listing.notes.append(
            f"git {failed} list the files of this repository; its ignore rules were read without it"
        )
    elif git and claims_git(root.path):
        listing.notes.append(
            "the .git here leads out of this folder (by a link, shared objects or an included"
            " file): git is not used, and the folder was read as a plain one"
        )
    return listing


def _listed(printed: str) -> FileListing:
    """Parse git's list: a trailing slash is a nested repository; a path may occur twice during a
    merge.

    A crafted index can name files outside the root or inside `.git`, and git prints them, so they
    are checked here.
    """
    names = list(filter(None, dict.fromkeys(printed.split("\0"))))
    # Nearly always: checking every name takes longer.
    if not any(map(f"\0{printed}".lower().__contains__, _UNUSUAL)):
        return FileListing(names)
    listing = FileListing()
    for name in names:
        if name.endswith("/"):
            listing.excluded.append(Excluded(portable_name(name), "nested_repository"))
        elif leads_out(name):
            listing.excluded.append(Excluded(portable_name(name), "outside"))
        elif not name.startswith(".xscore/"):
            listing.paths.append(name)
    return listing


def walk_folder(top: Path, *, until: float | None = None) -> FileListing:
    """List a plain folder, obeying its .gitignore files. until: see `discover_files`."""
    listing = FileListing()
    todo: list[tuple[str, tuple[tuple[str, GlobList], ...]]] = [("", ())]
    while todo:
        if until is not None and monotonic() >= until:
            listing.is_whole = False
            break
        folder, rules = todo.pop()
        spec = _ignore_rules(top / folder / ".gitignore")
        if spec is not None:
            rules += ((folder, spec),)
        try:
            with os.scandir(top / folder) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError:
            listing.excluded.append(Excluded(portable_name(folder) or "./", "unreadable"))
            continue
        for entry in entries:
            name = f"{folder}{entry.name}"
            is_folder = _is_folder(entry)
            if _is_ignored(name + "/" if is_folder else name, rules):
                continue
            if not is_folder and entry.name != ".git":
                listing.paths.append(name)
            elif is_folder and _may_enter(top, name, listing):
                todo.append((name + "/", rules))
    listing.paths.sort()
    return listing


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    """Return whether it is a folder; one that cannot be looked at is taken for a file, and refused
    as one."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _may_enter(top: Path, name: str, listing: FileListing) -> bool:
    """Whether a folder is walked; if not, note why."""
    base = name.rpartition("/")[2]
    if name in SYSTEM_FOLDERS and top == Path("/"):
        reason = "system"
    elif base in PRUNED or is_there(top / name / "pyvenv.cfg", stat.S_ISREG):
        if base in _SILENT:
            return False
        reason = "dependencies"
    elif os.path.lexists(top / name / ".git") or bare_repository(top / name):
        reason = "nested_repository"
    else:
        return True
    listing.excluded.append(Excluded(portable_name(name) + "/", reason))
    return False


def read_ignore_rules(file: Path) -> list[str]:
    """Return the lines of a .gitignore file, as many as may be read; none of a link or what cannot
    be read."""
    if not is_there(file, stat.S_ISREG, follow=False):
        return []
    try:
        with file.open("rb") as opened:
            read = opened.read(MAX_RULES_BYTES + 1)
    except OSError:
        return []
    # Without the line that was cut: the rest of it would be another rule.
    if len(read) > MAX_RULES_BYTES:
        read = read[:MAX_RULES_BYTES].rpartition(b"\n")[0]
    return read.decode("utf-8", "replace").splitlines()[:MAX_RULES]


def _ignore_rules(file: Path) -> "GlobList | None":
    lines = read_ignore_rules(file)
    if not lines:
        return None
    return _glob_list(lines, below=False)


def _glob_list(lines: Sequence[str], *, below: bool = True) -> "GlobList":
    from xscore.platform.globs import (  # few repositories have rules of these kinds
        GlobList,
        is_glob,
    )

    try:
        return GlobList(lines, below=below)
    except (ValueError, re.error):
        # As in git, a line that is not a glob says nothing.
        return GlobList(filter(is_glob, lines), below=below)


def _is_ignored(name: str, rules: "tuple[tuple[str, GlobList], ...]") -> bool:
    """Whether a path is ignored: the deepest rule file with a match decides."""
    for folder, spec in reversed(rules):
        verdict = spec.verdict(name.removeprefix(folder))
        if verdict is not None:
            return verdict
    return False


class ReincludedPaths:
    """Paths that a repository's `.gitignore` takes back: own code in a folder whose name says
    vendored.

    `!vendor/mine/` is a choice to keep it. Only the file at the top is read, and only
    what git tracks counts.
    """

    def __init__(self, root: RepositoryRoot, *, git: bool) -> None:
        self._root = root
        self._has_git = git and root.is_git

    @cached_property
    def rules(self) -> tuple[str, ...]:
        """The rules that take back a vendored folder, in order."""
        if self._has_git:
            lines = read_ignore_rules(self._root.path / ".gitignore")
        else:
            lines = []
        reincluded = [line for line in lines if line.startswith("!")]
        if not reincluded:
            return ()
        from xscore.indexer.admission import is_vendored  # in most turns no file is admitted

        return tuple(line for line in reincluded if is_vendored(f"{line[1:].strip('/')}/x"))

    def holds(self, path: str) -> bool:
        """Whether a file is taken back, and tracked."""
        return bool(self.rules) and self._globs.verdict(path) is False and path in self._tracked

    @cached_property
    def _globs(self) -> "GlobList":
        return _glob_list(read_ignore_rules(self._root.path / ".gitignore"))

    @cached_property
    def _tracked(self) -> frozenset[str]:
        printed = run_git(self._root.path, "ls-files", "-c", "-z", timeout_s=LISTING_S) or ""
        return frozenset(map(portable_name, printed.split("\0")))
