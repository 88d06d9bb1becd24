"""Read untrusted files: regular files only, up to a size limit, and without following links in a
repository.

A repository is untrusted: a folder on the path may be a link out of it, a file may be a pipe that
never ends. So each folder is opened relative to its parent; a file that a person named is opened as
named. What a file may be used for is decided elsewhere. Trade-off: one system call per folder, a
few microseconds per file.
"""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from xscore.platform.errors import UsageError
from xscore.platform.patterns import compiled_late
from xscore.platform.processes import random_hex

FINE_GRAIN_NS = 50_000_000
"""Two writes closer than this may get the same time on a file system with nanosecond
timestamps."""
COARSE_GRAIN_NS = 2_000_000_000
"""Two writes closer than this may get the same time on a file system with whole-second
timestamps."""
READER_S = 2.0
"""How long a program that is to read a named pipe may take to open it."""
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_NOT_PRIVATE = "others may open it"
_FOLDER_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | getattr(os, "O_CLOEXEC", 0)


_RESERVED = compiled_late(
    r"(?i)(?:\A|[/\\])(?:\.\.|(?:\.git|git~1)[ .]*(?::[^/\\]*)?)(?:[/\\]|\Z)"
)
"""Matches a part of a name that leads up, or into git's own folder, as any file system spells
it."""
IGNORED_IN_NAMES = "".join(
    map(chr, (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))
)
"""macOS ignores these characters in a file name: `.git` with one of them inside is `.git` there."""


def leads_out(name: str) -> bool:
    """Whether a name that should lie in a root is absolute, leads up, or leads into a `.git`.

    git prints what its index and trees hold, and an attacker who crafts them chooses the names. No
    honest name is one.
    """
    if name.startswith("/") or "\0" in name:
        return True
    if name.isascii():
        plain = name
    else:
        plain = name.translate(dict.fromkeys(map(ord, IGNORED_IN_NAMES)))
    # Most names: ten times as fast as the pattern.
    if ".." not in plain and "git" not in plain.lower():
        return False
    return _RESERVED.search(plain) is not None


def is_there(
    place: Path, is_kind: Callable[[int], bool] | None = None, *, follow: bool = True
) -> bool:
    """Whether something, or a file of this kind, can be seen there.

    Unlike `Path.exists` and `is_file`, it raises nothing where that is denied or the path is longer
    than the system takes.

    is_kind: such as `stat.S_ISREG`.
    follow: whether a link stands for what it leads to.
    """
    try:
        mode = place.stat(follow_symlinks=follow).st_mode
    except (OSError, ValueError):
        return False
    return is_kind is None or is_kind(mode)


class FileRefused(Exception):  # not an XscoreError: each caller decides what a refusal means
    """The file was not read; the argument is the reason."""


@contextmanager
def opened_folder(path: Path) -> Iterator[int]:
    """Hold a folder open for `read_file_under`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_file_under(top: int, name: str, *, max_bytes: int, start_only: bool = False) -> bytes:
    """Read a regular file under the open folder `top`, following no link on the way. Raises
    FileRefused, OSError.

    start_only: return the first `max_bytes` of a larger file, which is refused otherwise.
    """
    if leads_out(name):
        raise FileRefused("outside")
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
    return _whole(descriptor, max_bytes, start_only=start_only)


def read_named_file(
    path: Path, *, max_bytes: int, follow: bool, private: bool = False
) -> bytes:
    """Read the regular file that a person named, without blocking on a pipe. Raises FileRefused,
    OSError.

    follow: whether the file may be a link; folders on the path may be links in any case.
    private: refuse it if others may open it.
    """
    flags = _READ_FLAGS & ~os.O_NOFOLLOW if follow else _READ_FLAGS
    return _whole(os.open(path, flags), max_bytes, private=private)


def read_input_file(path: Path, *, max_bytes: int, hint: str, private: bool = False) -> bytes:
    """Read the regular file, or what a link leads to, that a person named. Raises UsageError.

    private: refuse it if others may open it.
    """
    try:
        return read_named_file(path, max_bytes=max_bytes, follow=True, private=private)
    except FileRefused as error:
        if str(error) == _NOT_PRIVATE:
            raise UsageError(
                f"{path} is private and {error}", hint=f"Run `chmod 600 {path}`."
            ) from error
        why = (
            "is not a regular file"
            if str(error) == "not_a_file"
            else f"has more than {max_bytes:,} bytes"
        )
        raise UsageError(f"{path} {why}", hint=hint) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=hint) from error


def _whole(
    descriptor: int,
    max_bytes: int,
    *,
    private: bool = False,
    own: bool = False,
    start_only: bool = False,
) -> bytes:
    try:
        status = os.fstat(descriptor)
        is_file = stat.S_ISREG(status.st_mode)
        if own and not (is_file and status.st_uid == os.geteuid()):
            raise FileRefused("it is not a file of yours")
        if not is_file:
            raise FileRefused("not_a_file")
        if private and status.st_mode & 0o077:
            raise FileRefused(_NOT_PRIVATE)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1)
    finally:
        os.close(descriptor)
    if len(data) > max_bytes and not start_only:
        raise FileRefused("too_large")
    return data[:max_bytes]


def changed_ns(info: os.stat_result) -> int:
    """Return when a file last changed: its ctime, too, since `cp -p`, `rsync` and `tar` set the
    mtime as they like."""
    return max(info.st_mtime_ns, info.st_ctime_ns)


def settled_ns(info: os.stat_result, *, now: float) -> int:
    """Return the time of change to store for a file; 0 if a later write could leave the same. now:
    Unix seconds."""
    changed = changed_ns(info)
    grain = FINE_GRAIN_NS if changed % 1_000_000_000 else COARSE_GRAIN_NS
    if changed > int(now * 1e9) - grain:
        return 0
    return changed


def write_atomically(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Replace a file in one step; mode 0o600 makes it private. A link stays, and its target is
    replaced.

    A pipe or device is written to directly. Raises UsageError and leaves the old file unchanged;
    also for a named pipe without a reader.
    """
    place = path.resolve()
    try:
        if place.is_fifo():
            _write_to_pipe(place, content)
        elif place.exists() and not place.is_file():
            place.write_bytes(content)
        else:
            _replace(place, content, mode)
    except OSError as error:
        raise unwritable_file(path, error.strerror) from error


def _write_to_pipe(place: Path, content: bytes) -> None:
    """Write to a named pipe. Raises UsageError if no reader comes in time: a blocking open would
    wait for ever."""
    until = time.monotonic() + READER_S
    while True:
        try:
            descriptor = os.open(place, os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        if time.monotonic() > until:
            raise UsageError(
                f"{place} is a pipe without a reader",
                hint="Name a file, or start the program that reads the pipe first.",
            )
        time.sleep(0.05)
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "wb") as pipe:
        pipe.write(content)


def write_private_file(path: Path, data: bytes) -> None:
    """Replace a private file (0600) in one durable step. Raises OSError."""
    _replace(path, data, 0o600)


def _replace(place: Path, content: bytes, mode: int) -> None:
    aside = place.with_name(f".{place.name}.{random_hex(4)}")
    try:
        with os.fdopen(
            os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb"
        ) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(place)
    finally:
        aside.unlink(missing_ok=True)
    sync_to_disk(place.parent)


def sync_to_disk(place: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk. Raises OSError."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unwritable_file(path: Path, why: str | None) -> UsageError:
    """Return the error for a file that cannot be written."""
    return UsageError(
        f"{path} cannot be written: {why}", hint="Name a file that you may write."
    )


def read_private_file(path: Path, *, max_bytes: int = 1_000_000) -> bytes | None:
    """Read a file that must be private to this user (0600); None if it is missing.

    Raises FileRefused, OSError.
    """
    try:
        return _whole(os.open(path, _READ_FLAGS), max_bytes, private=True, own=True)
    except FileNotFoundError:
        return None
