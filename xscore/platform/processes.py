"""Whether a process that registered in a store is still alive; and pausing the garbage collector.

A runner registers its process id, where that id is valid (host and pid namespace) and its last heartbeat. It is alive
while the heartbeat is younger than the lease and, on this host, its process exists: a killed runner is noticed at once,
a stuck or remote one when its lease expires.
Trade-off: a wall clock that jumps by more than the lease makes a live runner look gone for some seconds.
"""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection for synchronous work that makes many records without reference cycles.

    A turn over 100,000 memories makes half a million; collecting them took a fifth of the turn and freed nothing.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # otherwise the host application froze objects; leave them frozen
            gc.freeze()  # freeze and unfreeze moves the records to the oldest generation unscanned
            gc.unfreeze()
        gc.enable()


LEASE_S = 30.0
"""A runner without a heartbeat for this long counts as gone."""
ELSEWHERE_S = 3_600.0
"""How long a process of another machine counts as alive."""


class RunnerMark(Struct, frozen=True):
    """A runner's row in table `runner`."""

    pid: int
    place: str
    seen_at: float
    """Unix seconds."""

    def lives(self, *, here: str, now: float) -> bool:
        """Whether the runner is still alive, as far as `here` can tell."""
        if abs(now - self.seen_at) > LEASE_S:  # also a heartbeat from the future: a clock was set back
            return False
        return self.place != here or is_alive(self.pid)


def process_place() -> str:
    """Return where this process's id is valid: its host and pid namespace."""
    space = ""
    with suppress(OSError):
        space = str(Path("/proc/self/ns/pid").readlink())
    return f"{os.uname().nodename} {space}".rstrip()


def process_identity() -> str:
    """Return `pid session boot place` of this process, separated by spaces."""
    return f"{os.getpid()} {os.getsid(0)} {_boot()} {process_place()}"


def is_process_at_work(process: str, *, age_s: float) -> bool:
    """Whether the process with this identity, recorded `age_s` seconds ago, may still be alive.

    A remote process cannot be checked and counts as alive for `ELSEWHERE_S`. An invalid identity is not alive.
    """
    pid, _, boot, where = (process.split(" ", 3) + [""] * 4)[:4]
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
