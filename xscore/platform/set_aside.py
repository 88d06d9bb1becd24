"""Numbered folders next to a database (`aside-1`, `aside-2`, …) for databases that are kept and
no longer used.

A rebuild moves the damaged store into one, a migration copies the older one. Erasure and encryption
look into all of them, so nothing else may set a database aside. Trade-off: the number says only
which was free, not which is the latest.
"""

import re
from contextlib import suppress
from itertools import count
from pathlib import Path

_NAME = re.compile(r"aside-\d+")


def make_set_aside_folder(folder: Path) -> Path:
    """Make the next free one in this folder. Raises OSError."""
    for number in count(1):
        set_aside = folder / f"aside-{number}"
        with suppress(FileExistsError):
            set_aside.mkdir(mode=0o700)
            return set_aside
    raise AssertionError("numbers never end")


def set_aside_folders(folder: Path) -> list[Path]:
    """Return those in this folder, sorted by name; no links."""
    if not folder.is_dir():
        return []
    places = (place for place in folder.iterdir() if _NAME.fullmatch(place.name))
    return sorted(place for place in places if place.is_dir() and not place.is_symlink())
