"""Make many records at once without the garbage collector walking them over and over.

A turn over 100,000 memories makes half a million small records, none of which is part of a circle; the collector, left
alone, spent a fifth of the turn to find that out, and a third of it under Python's own thresholds. Only for work that
awaits nothing. Trade-off: what else was young by then, circles too, waits for the next full collection.

Whether a process that left its mark in a store is still there.

A mark is the process id, the place where that id means anything, and the time of the latest sign of life. A runner
counts as living while that sign is younger than the lease and, where it runs in this very place (host and process
namespace), its process exists: so one that was killed is noticed at once, one that is stuck or elsewhere when its lease
is over. It keeps no marks itself. Trade-off: a wall clock that jumps by more than the lease makes a living runner look
gone for some seconds.
"""

import gc
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct


@contextmanager
def gc_paused() -> Iterator[None]:
    """Keep the collector away, and hand it what was made as old. Where it is switched off already, change nothing."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # else they are the host's, and thawing is not ours to do
            gc.freeze()  # to and fro, the records are old at once and none of them is looked at
            gc.unfreeze()
        gc.enable()


LEASE_S = 30.0
"""A runner without a sign of life for so long is taken for gone."""
ELSEWHERE_S = 3_600.0
"""So long a process of another machine is taken to be at work."""


class RunnerMark(Struct, frozen=True):
    """What a runner wrote of itself into table `runner`."""

    pid: int
    place: str
    seen_at: float
    """Unix seconds."""

    def lives(self, *, here: str, now: float, lease_s: float = LEASE_S) -> bool:
        """Whether its runner is still there, as far as can be seen from `here`."""
        if abs(now - self.seen_at) > lease_s:  # also a sign from the future: a clock was set back
            return False
        return self.place != here or is_alive(self.pid)


def process_place() -> str:
    """Name where a process id of this process means anything: its host and its process namespace."""
    space = ""
    with suppress(OSError):
        space = str(Path("/proc/self/ns/pid").readlink())
    return f"{socket.gethostname()} {space}".rstrip()


def process_identity() -> str:
    """Name this process, and behind a blank the terminal session, boot and place it runs in."""
    return f"{os.getpid()} {os.getsid(0)} {_boot()} {process_place()}"


def is_process_at_work(process: str, *, age_s: float) -> bool:
    """Whether the process that named itself so, `age_s` seconds ago, may still be there.

    One that ran elsewhere cannot be seen; it is believed for `ELSEWHERE_S`. What is no `process` is not there.
    """
    pid, _, boot, where = (process.split(" ", 3) + [""] * 4)[:4]
    if not pid.isdecimal():
        return False
    if where != process_place():
        return age_s < ELSEWHERE_S
    return boot == _boot() and is_alive(int(pid))


def _boot() -> str:
    """Name this start of the machine; empty where it does not tell."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:8]
    return ""


def is_alive(pid: int) -> bool:
    """Whether a process of this place is there and has not ended; one nobody has waited for yet has."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:1]
    except OSError:  # no such file system here, or it has just ended; the next look will tell
        return True
    return state not in ([b"Z"], [b"X"])
