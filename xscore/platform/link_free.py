"""Folders of a git folder in which no link was found, noted for the next process.

Looking through the 256 folders of a repository's objects took 5 to 9 ms of each hook. The note is a
private file in the user's cache folder: a digest of where these folders are, and of the time each
changed. No program sets that time, and whatever is added to a folder or replaced in it changes it.
Nothing is noted of folders that changed a moment ago, since a change within the same tick of the
clock would look the same. Trade-off: a clock that was set back, or a file system that keeps no such
times, is not noticed.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from xscore.platform.errors import UsageError
from xscore.platform.files import FileRefused, read_private_file, write_private_file
from xscore.platform.hashing import digest
from xscore.platform.users_folders import users_folder

FEWEST_FOLDERS = 60
"""Fewest folders that are worth a note; fewer are looked through again, which takes no
longer."""
SETTLED_S = 2.0
"""How long ago the latest change must be: more than the tick of any file system's clock."""
_FOLDER = "git-folders"


def fingerprint(folders: Sequence[str]) -> str:
    """Return what changes when an entry of these folders does; empty for few folders, and where one
    changed a moment ago or cannot be looked at."""
    if len(folders) < FEWEST_FOLDERS:
        return ""
    states: list[str] = []
    latest_ns = 0
    for folder in folders:
        try:
            info = os.stat(folder)  # noqa: PTH116  a third of the time of `Path.stat`
        except FileNotFoundError:
            states.append(f"{folder} is absent")
            continue
        except OSError:
            return ""
        states.append(f"{folder} {info.st_dev} {info.st_ino} {info.st_ctime_ns}")
        latest_ns = max(latest_ns, info.st_ctime_ns)
    is_settled = time.time_ns() - latest_ns > SETTLED_S * 1e9
    return digest(*states) if is_settled else ""


def is_noted(home: Path, state: str) -> bool:
    """Whether these folders of a git folder were free of links when they had this fingerprint."""
    if not state:
        return False
    with suppress(OSError, FileRefused, UsageError):
        return read_private_file(_note_of(home), max_bytes=100) == state.encode()
    return False


def note(home: Path, state: str) -> None:
    """Note that they are; a user whose cache cannot be written has no note."""
    if not state:
        return
    with suppress(OSError, UsageError):
        place = _note_of(home)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private_file(place, state.encode())


def _note_of(home: Path) -> Path:
    return users_folder("cache") / _FOLDER / digest("link free", os.fspath(home))
