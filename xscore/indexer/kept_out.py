"""Find out why a path has no memories: the file was kept out, or the folder that it is in.

Files refused for what they hold or for their size are in the store with the reason. Folders
kept out as a whole, links and secret files are not, so the files are listed again. Only
`explain` asks, for a name that means nothing. Trade-off: it says what holds now, not what held
in an earlier turn.
"""

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

from xscore.indexer.admission import AdmissionRules
from xscore.indexer.discovery import ReincludedPaths, discover_files
from xscore.platform.errors import NothingMatched
from xscore.platform.files import is_there, leads_out
from xscore.platform.paths import RepositoryRoot, native_name, portable_name
from xscore.platform.text import one_line
from xscore.records.indexing import Excluded
from xscore.settings import IndexSettings

IGNORED = "ignored"
"""Reason of a file or folder that is there and that no list names: `.gitignore` leaves it
out."""
_TAKE_IN = '`index.exclude = ["!{place}"]` in .xscore.toml includes it.'
_ASK_THERE = "It has a store of its own: ask in that folder."
_MEANINGS = {
    "nested_repository": ("it is a repository of its own", _ASK_THERE),
    "submodule": ("it is a submodule", _ASK_THERE),
    "too_large": ("it is larger than index.max_file_bytes", "Raise that setting."),
    "long_lines": (
        "most of its text is in lines longer than index.max_line_chars",
        "Raise that setting.",
    ),
    "ignored": (
        "a .gitignore leaves it out",
        "Take it out of the .gitignore, or let git track it.",
    ),
    "not_included": ("index.include does not name it", "Add it there."),
    "excluded": ("index.exclude names it", "Take it out there."),
    "secret": ("its name says that it holds secrets, which are never read", ""),
    "symlink": (
        "it is a symbolic link, and links are not followed",
        "Name the file that it leads to.",
    ),
    "dependencies": ("it holds dependencies, not code of this project", ""),
    "lockfile": ("it is a lockfile, which a program writes", _TAKE_IN),
    "vendored": ("it is a copy of another project's code", _TAKE_IN),
    "binary": ("it is not text", ""),
    "unreadable": ("it cannot be read by this user", "Change its permissions."),
}
"""Reason -> what it means, and what to do, where the word alone does not say enough."""
_STORED = "SELECT path, excluded FROM file WHERE excluded <> '' AND path = ?"
_STORED_CUT = (
    "SELECT path, excluded FROM file WHERE excluded <> '' AND substr(path, -length(?1) - 1) = '/'"
    " || ?1"
)


def kept_out_error(
    connection: sqlite3.Connection, root: RepositoryRoot, settings: IndexSettings, path: str
) -> NothingMatched | None:
    """Return the error that says what was kept out and why; None: this path was not. path: see
    `find_kept_out`."""
    excluded = find_kept_out(connection, root, settings, path)
    if excluded is None:
        return None
    words, hint = _MEANINGS.get(excluded.reason, (excluded.reason.replace("_", " "), _TAKE_IN))
    place = one_line(excluded.path)
    message = f"{place} was kept out of the index, so no memory of it was judged: {words}"
    return NothingMatched(message, hint=hint.format(place=place))


def find_kept_out(
    connection: sqlite3.Connection, root: RepositoryRoot, settings: IndexSettings, path: str
) -> Excluded | None:
    """Return the file or folder that was kept out and that this path names or lies in; None if
    it was not kept out.

    path: as in the store, relative to the root; it may be cut at its front, if only one file ends
        so.
    """
    # The root itself is not part of it, and `.git` holds no files of it.
    if path in ("", ".") or leads_out(path):
        return None
    for query in (_STORED, _STORED_CUT):
        rows = connection.execute(query, (path,)).fetchall()
        if len(rows) == 1:
            return Excluded(*rows[0])
    listing = discover_files(root, git=settings.git)
    for excluded in listing.excluded:
        if f"{path}/".startswith(excluded.path):
            return excluded
    listed = {portable_name(name) for name in listing.paths}
    rules = AdmissionRules(settings, ReincludedPaths(root, git=settings.git).holds)
    for place in _with_parents(path):
        if place not in listed:
            continue
        try:
            reason = rules.refusal(place, os.lstat(root.path / native_name(place)))
        except OSError:
            return None  # git lists a file that it tracks and that was deleted
        return Excluded(place, reason) if reason else None
    # A folder with files, or with a nested repository, was not left out as a whole.
    listed |= {excluded.path for excluded in listing.excluded}
    is_partly_listed = any(name.startswith(f"{path}/") for name in listed)
    is_ignored = not is_partly_listed and _holds_file(root.path / native_name(path))
    return Excluded(path, IGNORED) if is_ignored else None


def _holds_file(place: Path) -> bool:
    """Whether it is a file, or a folder with one at any depth: git knows no empty folders."""
    if is_there(place, stat.S_ISREG, follow=False):
        return True
    if not is_there(place, stat.S_ISDIR, follow=False):
        return False
    return any(files for _, _, files in os.walk(place))


def _with_parents(path: str) -> Iterator[str]:
    """Yield a path and the folders above it: a submodule is listed as the folder that it is in."""
    while path:
        yield path
        path = path.rpartition("/")[0]
