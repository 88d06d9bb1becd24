"""Where a session worked, and how the files that it names are called here."""

import os
import posixpath
from functools import lru_cache
from pathlib import Path

from xscore.extensions.sessions import session_lines
from xscore.extensions.sessions.session_reader import SessionFile
from xscore.platform.paths import RepositoryRoot, find_root, portable_name


@lru_cache(maxsize=1024)
def is_in_repository(root: RepositoryRoot, cwd: str) -> bool:
    """Whether a recorded folder is the root or inside it, and in no nested repository or worktree.

    A folder that no longer exists is judged by the nearest existing one above it.
    """
    if not cwd.startswith("/") or "\0" in cwd:
        return False
    real = os.path.realpath(cwd)
    root_path = str(root.path)
    return real == root_path or (
        real.startswith(f"{root_path}{os.sep}")
        and find_root(root.path / real).path == root.path
    )


def relative_path(root: RepositoryRoot, cwd: str, path: str) -> str:
    """Name a file relative to the root, as the index does; empty if it is elsewhere."""
    if not cwd.startswith("/") or "\0" in cwd + path:
        return ""
    prefix = f"{root.path}{os.sep}"
    full = posixpath.normpath(posixpath.join(cwd, path))
    if not full.startswith(prefix):
        full = os.path.realpath(full)
    if full.startswith(prefix):
        return portable_name(full.removeprefix(prefix))
    return ""


def is_of_repository(root: RepositoryRoot, file: SessionFile) -> bool:
    """Whether a session worked in this repository, by its place or by the folder that it records.

    Raises UnreadableSession for a bad compressed file.
    """
    if file.is_in_repository:
        return True
    cwds = [file.cwd]
    if not file.cwd:
        cwds = session_lines.recorded_folders(session_lines.read_head(file.path))
    return any(is_in_repository(root, cwd) for cwd in cwds)


def home_relative(path: Path, home: Path) -> str:
    """Write a path as the store keeps it, with `~` for the home folder."""
    text = str(path)
    return portable_name(
        f"~{text.removeprefix(str(home))}" if text.startswith(f"{home}{os.sep}") else text
    )
