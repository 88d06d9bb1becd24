"""Whether a process is still alive, what identifies it, and pausing the garbage collector.

Trade-off: a process of another machine cannot be checked, so it counts as alive for an hour.
"""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection for synchronous work that makes many records without reference
    cycles.

    A turn over 100,000 memories makes half a million; collecting them took a fifth of the turn and
    freed nothing.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not _host_has_frozen_objects():
            # Freeze and unfreeze moves the records to the oldest generation unscanned.
            gc.freeze()
            gc.unfreeze()
        gc.enable()


@cache
def _host_has_frozen_objects() -> bool:
    """Whether the program around us froze objects, which then stay frozen; asked once, because
    counting them walks them all."""
    return gc.get_freeze_count() > 0


ELSEWHERE_S = 3_600.0
"""How long a process of another machine counts as alive."""


def process_place() -> str:
    """Return where this process's id is valid: its host and pid namespace."""
    space = ""
    with suppress(OSError):
        space = str(Path("/proc/self/ns/pid").readlink())
    return f"{os.uname().nodename} {space}".rstrip()


def process_identity() -> str:
    """Return `pid session boot place` of this process, separated by spaces."""
    return f"{os.getpid()} {os.getsid(0)} {_boot()} {process_place()}"


def identity_parts(process: str) -> tuple[str, str, str, str]:
    """Return pid, session, boot and place of an identity; empty if it lacks that part."""
    parts = process.split(" ", 3)
    missing = 4 - len(parts)
    pid, session, boot, place = [*parts, *[""] * missing]
    return pid, session, boot, place


def is_process_at_work(process: str, *, age_s: float) -> bool:
    """Whether the process with this identity, recorded `age_s` seconds ago, may still be alive.

    A remote process cannot be checked and counts as alive for `ELSEWHERE_S`. An invalid identity is
    not alive.
    """
    pid, _, boot, where = identity_parts(process)
    if not pid.isdecimal():
        return False
    if where != process_place():
        return age_s < ELSEWHERE_S
    return boot == _boot() and is_alive(int(pid))


def _boot() -> str:
    """Identify this boot of the machine; empty if unknown."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:8]
    return ""


def is_alive(pid: int) -> bool:
    """Whether a local process is running; a zombie is not."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:1]
    except OSError:  # no /proc here, or it has just ended; the next check will tell
        return True
    return state not in ([b"Z"], [b"X"])


def random_hex(count: int) -> str:
    """Return `count` random bytes as hex. `secrets` does the same, and takes 5 ms to import."""
    return os.urandom(count).hex()
