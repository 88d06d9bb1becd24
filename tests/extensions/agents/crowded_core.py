"""A core that some processes keep busy, and how much busier than that the machine is meanwhile."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SHARE = """
import time
began, used = time.monotonic(), time.process_time()
while time.process_time() - used < 0.3:
    pass
print((time.monotonic() - began) / 0.3)
"""


@contextmanager
def crowded_core(spinners: int) -> Iterator[int]:
    """Keep a core busy with this many processes; give its number."""
    core = min(os.sched_getaffinity(0))
    spinning = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(spinners)
    ]
    try:
        for process in spinning:
            os.sched_setaffinity(process.pid, {core})
        yield core
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def outside_load(core: int, spinners: int) -> float:
    """Return how many times longer a process takes on this core than with the spinners alone;
    at least 1."""
    done = subprocess.run(
        [sys.executable, "-c", _SHARE],
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        capture_output=True,
        text=True,
        check=True,
    )
    return max(1.0, float(done.stdout) / (spinners + 1))


def deadline_under_load(core: int, spinners: int, *, deadline_s: float) -> str:
    """Return a deadline of a hook, longer by other work of the machine."""
    load = outside_load(core, spinners)
    # A little of it is chance.
    return str(min(60.0, deadline_s if load < 1.2 else 2 * load * deadline_s))
