"""Whether a working tree is as it was: one fingerprint of the names, sizes and change times of its
files.

No file is read and no clock is asked: two fingerprints are equal or they are not, so a clock set
back changes nothing. Folders that tools write while they run (caches, dependencies) count by a few
telling entries, not by their files. Trade-off: a tree of more than `MOST_ENTRIES` entries has no
fingerprint.

A hook uses it before a tool runs, so it imports nothing that takes time to load.
"""

import os
from _blake2 import blake2b  # `hashlib` would load OpenSSL first, which takes 2 ms
from collections.abc import Sequence

MOST_ENTRIES = 10_000
GIT_FILES = ("HEAD", "index", "FETCH_HEAD", "MERGE_HEAD", "logs/HEAD", "config", "packed-refs")
"""Files in a git folder that a command of git changes."""
_SUMMARIZED = frozenset(
    """
    .cache .git .gradle .hypothesis .idea .mypy_cache .next .nox .nuxt .pytest_cache .ruff_cache
    .svelte-kit .terraform .tox .turbo .venv .xscore __pycache__ env node_modules target venv
    """.split()
)
"""Folders whose files are not listed: caches that a command writes, and dependencies."""
_MARKED = {"env": "pyvenv.cfg", "target": "CACHEDIR.TAG"}
"""Names among these that folders of sources have, too -> the file by which a folder of caches or
dependencies is known."""
_TELLING = (".package-lock.json", "pyvenv.cfg", "CACHEDIR.TAG")
"""Files in such a folder that say when its content changed."""


def tree_fingerprint(root: str, git_files: Sequence[str] = ()) -> str:
    """Return a fingerprint of the files below a folder; "" where they are too many or cannot be
    listed.

    git_files: paths of files outside it that count, too.
    """
    state = blake2b(digest_size=16)
    for path in git_files:
        state.update(file_state(path).encode())
    waiting = [root]
    entries = 0
    while waiting:
        folder = waiting.pop()
        try:
            lines, folders = _listing(folder)
        except OSError:
            return ""
        entries += len(lines)
        if entries > MOST_ENTRIES:
            return ""
        waiting += folders
        state.update("\n".join([folder, *lines]).encode("utf-8", "surrogateescape"))
    return state.hexdigest()


def _listing(folder: str) -> tuple[list[str], list[str]]:
    """Return a line for each entry of a folder, and the paths of the folders to list. Raises
    OSError."""
    lines: list[str] = []
    folders: list[str] = []
    # Thousands of files may be looked at here: no call that the loop can do without.
    with os.scandir(folder) as listing:
        for entry in listing:
            if not entry.is_dir(follow_symlinks=False):
                info = entry.stat(follow_symlinks=False)
                # The ctime alone: it changes with every write, and no program sets it as it likes.
                lines.append(f"{entry.name} {info.st_size} {info.st_ctime_ns}")
                if entry.is_symlink():
                    lines.append(f"{entry.name} leads to {_target_state(entry.path)}")
            elif entry.name in _SUMMARIZED and _is_marked(entry.name, entry.path):
                lines.append(_summary(entry.path))
            else:
                lines.append(entry.name)
                folders.append(entry.path)
    lines.sort()
    folders.sort()
    return lines, folders


def file_state(path: str) -> str:
    """Return what changes when a file does; "absent" if it is not there or cannot be looked at."""
    return _state_of(path, follow_links=False) or "absent"


def _is_marked(name: str, folder: str) -> bool:
    """Whether a folder of such a name holds what a tool has written, as far as its name may mean
    something else."""
    mark = _MARKED.get(name)
    return mark is None or os.path.lexists(f"{folder}/{mark}")


def _target_state(link: str) -> str:
    """Return what changes when the file or folder that a link leads to does."""
    return _state_of(link, follow_links=True) or "nothing"


def _state_of(path: str, *, follow_links: bool) -> str:
    try:
        info = os.stat(path, follow_symlinks=follow_links)  # noqa: PTH116  `pathlib` takes 3 ms to load
    except (OSError, ValueError):
        return ""
    return f"{info.st_size} {info.st_ctime_ns} {info.st_ino}"


def _summary(folder: str) -> str:
    """Return what says whether such a folder has changed."""
    # Each run of the program may write it, and nothing that the program does depends on it.
    if folder.endswith("/__pycache__"):
        return folder
    parts = [folder, file_state(folder)]
    parts += [file_state(f"{folder}/{name}") for name in _TELLING]
    if folder.endswith("env"):
        # A virtual environment: installing a package changes its `site-packages`.
        library = f"{folder}/lib"
        for python in _names_in(library):
            parts.append(file_state(f"{library}/{python}/site-packages"))
    return " ".join(parts)


def _names_in(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208  `pathlib` takes 3 ms to load
    except OSError:
        return []
