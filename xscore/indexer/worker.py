"""A parsing process: jobs in over a pipe, finished files out, one by one.

Started by `workers` as a plain interpreter, not by multiprocessing, so that no caller's `__main__` is imported again.
A file that crashes a grammar takes this process with it; the parent knows which file it was on.
"""

import resource
import sys
from multiprocessing.connection import Connection

from xscore.indexer.memories import remember

MEMORY_BYTES = 2 << 30
"""A grammar that wants more is stopped: some inputs of 50 kB took gigabytes."""


def main(descriptor: int) -> None:
    """Serve until the parent closes the pipe."""
    _limit_memory()
    with Connection(descriptor) as pipe:
        while True:
            try:
                jobs = pipe.recv()
            except EOFError:
                return
            for job in jobs:
                pipe.send(remember(job))


def _limit_memory() -> None:
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    except (ValueError, OSError):
        return  # a system that cannot limit it, or allows less already


if __name__ == "__main__":
    main(int(sys.argv[1]))
