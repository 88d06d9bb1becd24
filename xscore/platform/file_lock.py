"""A lock that is a file: held by one thread or process at a time, released by the system when its
process ends.

Trade-off: it holds among those that ask for it, and on network file systems only as far as these
know `flock`.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xscore.platform.errors import StoreError

_STEP_S = 0.01


@contextmanager
def hold_lock(file: Path, *, wait_s: float | None = None, hint: str) -> Iterator[None]:
    """Hold the lock; its file and folder are made if they are missing.

    wait_s: how long to wait for the process that holds it; None: until it is free.
    hint: what to do if the folder cannot be written.
    Raises StoreError.
    """
    folder = file.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror}", hint=hint) from error
    try:
        if wait_s is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        elif not _lock_until(descriptor, time.monotonic() + wait_s):
            raise StoreError(f"{folder} is in use by another process", hint="Run it again.")
        yield
    finally:
        os.close(descriptor)


def _lock_until(descriptor: int, until: float) -> bool:
    """Lock an open file; False: another process held it until then."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(_STEP_S)
