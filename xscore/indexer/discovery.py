"""Which files there are: git's own list, or a walk that keeps to .gitignore rules. Nothing is opened here.

Symbolic links are never followed; submodules and nested repositories keep their own stores. The walk is iterative.
Names come as the file system has them; `paths.portable` writes them as text.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from xscore.git import ask_git
from xscore.paths import Root, portable
from xscore.records import Excluded

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

PRUNED = frozenset(
    """
    .git .hg .svn .jj .xscore node_modules bower_components __pycache__ .venv venv .tox .nox .mypy_cache .pytest_cache
    .ruff_cache .hypothesis .eggs .gradle .terraform .next .nuxt .cache .parcel-cache site-packages
    """.split()  # noqa: SIM905  read as a list of words
)
"""Folders of dependencies, caches and version control, left out of plain folders without a look inside."""
_SILENT = frozenset({".git", ".hg", ".svn", ".jj", ".xscore", "__pycache__"})
_NEVER = frozenset({"..", ".git"})
"""Parts of a path that no honest index holds."""


@dataclass(slots=True)
class Listing:
    """Files found, and what was kept out whole."""

    paths: list[str] = field(default_factory=list)
    """As the file system names them, relative to the root."""
    excluded: list[Excluded] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def discover(root: Root, *, git: bool = True) -> Listing:
    """List the files of a root: by git where it is a worktree, else by walking."""
    if root.is_git and git:
        printed = ask_git(root.path, "ls-files", "-co", "--exclude-standard", "-z")
        if printed is not None:
            return _listed(printed)
    if _is_bare(root.path):
        return Listing(notes=["this is git's own folder, or a bare repository: it holds no files to remember"])
    listing = walk(root.path)
    if root.is_git and git:
        listing.notes.append("git could not list the files of this repository; its ignore rules were read without it")
    return listing


def _listed(printed: bytes) -> Listing:
    """Sort git's answer: a trailing slash is a repository within; a path may occur twice while a merge is open.

    An index made by hand can name files outside the root, or git's own: git prints them as they are, so we look.
    """
    listing = Listing()
    for name in dict.fromkeys(printed.decode("utf-8", "surrogateescape").split("\0")):
        if name.endswith("/"):
            listing.excluded.append(Excluded(portable(name), "nested_repository"))
        elif not _NEVER.isdisjoint(name.lower().split("/")):
            listing.excluded.append(Excluded(portable(name), "outside"))
        elif name and not name.startswith(".xscore/"):
            listing.paths.append(name)
    return listing


def walk(top: Path) -> Listing:
    """List a plain folder, keeping to the .gitignore files in it."""
    listing = Listing()
    todo: list[tuple[str, tuple[tuple[str, GitIgnoreSpec], ...]]] = [("", ())]
    while todo:
        folder, rules = todo.pop()
        entries = sorted(_entries(top, folder, listing), key=lambda entry: entry.name)
        rules += tuple(_rules(top, folder, entries))
        for entry in entries:
            name = f"{folder}{entry.name}"
            is_folder = entry.is_dir(follow_symlinks=False)
            if _is_ignored(name + "/" if is_folder else name, rules):
                continue
            if not is_folder:
                listing.paths.append(name)
            elif _may_enter(top, name, listing):
                todo.append((name + "/", rules))
    listing.paths.sort()
    return listing


def _entries(top: Path, folder: str, listing: Listing) -> "Iterator[os.DirEntry[str]]":
    try:
        with os.scandir(top / folder) as entries:
            yield from entries
    except OSError:
        listing.excluded.append(Excluded(portable(folder), "unreadable"))


def _may_enter(top: Path, name: str, listing: Listing) -> bool:
    base = name.rpartition("/")[2]
    if base in PRUNED or (top / name / "pyvenv.cfg").is_file():
        if base not in _SILENT:
            listing.excluded.append(Excluded(portable(name) + "/", "dependencies"))
        return False
    if os.path.lexists(top / name / ".git") or _is_bare(top / name):
        listing.excluded.append(Excluded(portable(name) + "/", "nested_repository"))
        return False
    return True


def _is_bare(folder: Path) -> bool:
    """Whether a folder is what git keeps for itself; its configuration and hooks are no one's memories."""
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()


def _rules(top: Path, folder: str, entries: "list[os.DirEntry[str]]") -> "Iterator[tuple[str, GitIgnoreSpec]]":
    """The folder's own ignore file, as (folder it speaks for, rules)."""
    for entry in entries:
        if entry.name == ".gitignore" and entry.is_file(follow_symlinks=False):
            from pathspec import GitIgnoreSpec

            try:
                lines = (top / folder / ".gitignore").read_text("utf-8", "replace").splitlines()
                yield folder, GitIgnoreSpec.from_lines(lines)
            except (OSError, ValueError, re.error):  # of the file, or of a glob in it
                return


def _is_ignored(name: str, rules: "tuple[tuple[str, GitIgnoreSpec], ...]") -> bool:
    """Deeper rules speak last; among them, the last that matches counts."""
    for folder, spec in reversed(rules):
        verdict = spec.check_file(name.removeprefix(folder)).include
        if verdict is not None:
            return verdict
    return False
