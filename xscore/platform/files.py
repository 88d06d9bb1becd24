"""Files opened without believing them: regular ones alone, up to a bound, and in a repository without following a link.

A repository is a stranger: a folder on the way to a file may be a link out of it, a file may be a pipe that never ends.
So each folder is opened inside the one before it; a file that a person named is opened as named. It decides nothing
about what a file may be used for. Trade-off: one system call a folder, some microseconds a file.
"""

import os
import secrets
import stat
from pathlib import Path

from xscore.platform.errors import UsageError

FINE_GRAIN_NS = 50_000_000
"""Two writes closer than this may leave the same time on a file system that counts nanoseconds."""
COARSE_GRAIN_NS = 2_000_000_000
"""The same on one that counts seconds."""
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_FOLDER_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | getattr(os, "O_CLOEXEC", 0)


class FileRefused(Exception):  # not of the XscoreError tree: whoever reads files says what it means there
    """The file is not read; the argument is the reason."""


def read_file_under(top: int, name: str, *, max_bytes: int) -> bytes:
    """Read a regular file under the open folder `top` without following a link at any step. Raises Refused, OSError."""
    *folders, base = name.split("/")
    place = os.dup(top)
    try:
        for folder in folders:
            deeper = os.open(folder, _FOLDER_FLAGS, dir_fd=place)
            os.close(place)
            place = deeper
        descriptor = os.open(base, _READ_FLAGS, dir_fd=place)
    finally:
        os.close(place)
    return _whole(descriptor, max_bytes)


def read_named_file(path: Path, *, max_bytes: int, follow: bool) -> bytes:
    """Read the regular file that a person named; it neither waits nor reads on for ever. Raises Refused, OSError.

    follow: whether the name may be that of a link; folders on the way may be links in any case.
    """
    flags = _READ_FLAGS & ~os.O_NOFOLLOW if follow else _READ_FLAGS
    return _whole(os.open(path, flags), max_bytes)


def _whole(descriptor: int, max_bytes: int) -> bytes:
    """Read an open file to its end, and close it."""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileRefused("not_a_file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1)
    finally:
        os.close(descriptor)
    if len(data) > max_bytes:
        raise FileRefused("too_large")
    return data


def settled_mtime_ns(info: os.stat_result, *, now: float) -> int:
    """The time to remember of a file as it was read; 0 where a later write could leave the same. now: Unix seconds."""
    mtime = info.st_mtime_ns
    grain = FINE_GRAIN_NS if mtime % 1_000_000_000 else COARSE_GRAIN_NS
    return 0 if mtime > int(now * 1e9) - grain else mtime


def write_atomically(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Put a file into place whole; 0o600 makes it the user's alone. Links stay, and what they lead to is replaced.

    A pipe or a device is written into as it stands. Raises UsageError; what stood there is then as it was.
    """
    place = path.resolve()
    try:
        if place.exists() and not place.is_file():
            place.write_bytes(content)
            return
        aside = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
            aside.replace(place)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable_file(path, error.strerror) from error


def unwritable_file(path: Path, why: str | None) -> UsageError:
    """Return the error of a file that cannot be written."""
    return UsageError(f"{path} cannot be written: {why}", hint="Name a file that you may write.")


def read_private_file(path: Path, *, max_bytes: int = 1_000_000) -> bytes | None:
    """Read a file that must belong to this user alone (0600); None: there is none. Raises FileRefused, OSError."""
    try:
        descriptor = os.open(path, _READ_FLAGS)
    except FileNotFoundError:
        return None
    status = os.fstat(descriptor)
    reason = (
        "it is not a file of yours"
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid()
        else "others may open it"
        if status.st_mode & 0o077
        else ""
    )
    if reason:
        os.close(descriptor)
        raise FileRefused(reason)
    return _whole(descriptor, max_bytes)


def write_private_file(path: Path, data: bytes) -> None:
    """Replace a file of this user alone (0600) in one durable step. Raises OSError."""
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    scratch.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
