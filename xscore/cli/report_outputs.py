"""The files that `xscore report` writes: all are looked at before one is written, then each is put into place whole.

A file that is not an earlier output of the same kind is never replaced: a name given in haste must not cost a source
file. What stands in them is made elsewhere. Trade-off: an earlier output is known by how it begins, so one that was
edited at its head must be removed by hand.
"""

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from xscore.errors import UsageError
from xscore.paths import STORE_DIR

STDOUT = Path("-")
BASELINE = "--baseline"
TO_STDOUT = frozenset({"--html", "--csv"})
_HEAD_BYTES = 4_096
_EARLIER = {
    "--html": re.compile(rb"<!doctype html>.*<title>xscore report", re.DOTALL),
    "--csv": re.compile(rb"(turn,at|[a-z]+,(turns|candidates)),"),
    "--parquet": re.compile(rb"PAR1"),
}
"""How what was written earlier by this option begins."""


def check(outputs: Mapping[str, Path], *, writes_baseline: bool) -> None:
    """Raise UsageError where not all of these files can be written, before one is. outputs: option -> its file."""
    taken: dict[Path, str] = {}
    for option, path in outputs.items():
        if path == Path():
            raise UsageError(f"{option} names no file", hint="Name a file.")
        if path == STDOUT:
            if option not in TO_STDOUT:
                raise UsageError(f"{option} is not written to stdout", hint=f"Name a file: `{option} report.out`.")
            continue
        place = real(path)
        other = taken.setdefault(place, option)
        if other != option:
            raise UsageError(f"{other} and {option} name the same file: {path}", hint="Give each a file of its own.")
        if option != BASELINE:
            _refuse(option, path, place)
        elif writes_baseline:
            refuse_the_store(path)


def real(path: Path) -> Path:
    """Follow every link, also of folders; a loop of links is left as it is."""
    return Path(os.path.realpath(path))


def refuse_the_store(path: Path) -> None:
    """Raise UsageError for a file inside a store's folder, where nothing but the store belongs."""
    if STORE_DIR in real(path).parts:
        raise UsageError(f"{path} lies in a store's folder", hint="Name a file elsewhere.")


def write_whole(path: Path, content: bytes) -> None:
    """Put a file into place whole, as any file of the user's. Raises UsageError; what stood there is as it was."""
    refuse_the_store(path)
    place = real(path)
    try:
        if place.exists() and not place.is_file():
            place.write_bytes(content)  # a pipe or a device has no second name
            return
        aside = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
                file.write(content)
            aside.replace(place)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error.strerror) from error


def _refuse(option: str, path: Path, place: Path) -> None:
    refuse_the_store(path)
    if not place.parent.is_dir():
        raise _unwritable(path, "there is no such folder")
    if not place.is_file():
        return
    try:
        with place.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise _unwritable(path, error.strerror) from error
    if head and not _EARLIER[option].match(head):
        raise UsageError(
            f"{path} is there and was not written by {option}", hint="Name another file, or remove this one first."
        )


def _unwritable(path: Path, why: str | None) -> UsageError:
    return UsageError(f"{path} cannot be written: {why}", hint="Name a file that you may write.")
