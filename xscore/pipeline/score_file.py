"""`--all-scores`: one JSON line a candidate, written aside and moved into place whole.

What stands there and is no file of its own (a link, a pipe, a device) is written into, never replaced. The place is
tried before the turn, so that a misspelt folder costs nothing.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from xscore.errors import UsageError
from xscore.pipeline.receipt import plain
from xscore.records import ScoreLine


def check_place(path: Path, *, store_dir: Path) -> None:
    """Raise UsageError where no file of this name can be written, before anything is spent; the store is no place."""
    folder = path.parent
    if path.resolve().is_relative_to(store_dir.resolve()):
        raise UsageError(f"--all-scores: {path} lies in the store's own folder", hint="Name a file elsewhere.")
    if not path.name or path.is_dir() or not folder.is_dir():
        raise UsageError(f"--all-scores: {path} names no file in a folder that is there", hint="Make the folder first.")
    written = path if path.exists() and not _is_replaceable(path) else folder
    if not os.access(written, os.W_OK):
        raise UsageError(f"--all-scores: {path} cannot be written", hint="Name a file in a folder of yours.")


def write_scores(path: Path, lines: Iterable[ScoreLine]) -> None:
    """Write the lines. Raises UsageError where the file cannot be written; the turn itself is kept."""
    whole = _is_replaceable(path)
    target = path.with_name(f".{path.name}.{os.getpid()}") if whole else path
    try:
        with target.open("w", encoding="utf-8") as file:
            for line in lines:
                file.write(json.dumps(plain(line), ensure_ascii=False) + "\n")
        if whole:
            target.replace(path)
    except OSError as error:
        if whole:
            target.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint="The turn itself is kept.") from error


def _is_replaceable(path: Path) -> bool:
    """Whether nothing stands there, or a plain file."""
    return not os.path.lexists(path) or (path.is_file() and not path.is_symlink())
