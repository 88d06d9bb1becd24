"""A parsing process: jobs in over a pipe, finished files out, one by one.

Started by `workers` as a plain interpreter, not by multiprocessing, so that no caller's `__main__` is imported again.
A file that crashes a grammar takes this process with it; the parent knows which file it was on.
"""

import sys
from multiprocessing.connection import Connection

from xscore.indexer.memories import remember


def main(descriptor: int) -> None:
    """Serve until the parent closes the pipe."""
    with Connection(descriptor) as pipe:
        while True:
            try:
                jobs = pipe.recv()
            except EOFError:
                return
            for job in jobs:
                pipe.send(remember(job))


if __name__ == "__main__":
    main(int(sys.argv[1]))
