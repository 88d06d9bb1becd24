"""The process that reads one document, within bounds that the kernel keeps.

A document of a stranger may ask for any memory and time. Memory beyond the limit cannot be had; CPU
time beyond it ends the process by a signal that nothing handles. No file is written: the limit of a
file's size is 0. Trade-off: macOS keeps the limit of time only.
"""

import os
import resource
import signal
import sys
from contextlib import suppress

from xscore.extensions.documents.parsed import (
    CPU_SECONDS,
    ENCODER,
    JOB,
    MEMORY_BYTES,
    RobotsJob,
)
from xscore.indexer.parse_process import only_results, set_limits


def answer_one_job() -> None:
    """Read the document that comes through standard input, and write what was read."""
    results = only_results()
    set_limits(MEMORY_BYTES)
    # A parser that a document takes over can write no file; the pipe is none.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    job = JOB.decode(sys.stdin.buffer.read())
    # CPU time, not time: a busy machine must not make a document unreadable. The signal kills.
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    if isinstance(job, RobotsJob):
        # Each job has a library of its own.
        from xscore.extensions.documents.robots import read_rules

        document = read_rules(job)
    else:
        # Each job has a library of its own.
        from xscore.extensions.documents.readers import read_document

        document = read_document(job)
    signal.setitimer(signal.ITIMER_PROF, 0)
    with os.fdopen(results, "wb") as pipe:
        pipe.write(ENCODER.encode(document))
