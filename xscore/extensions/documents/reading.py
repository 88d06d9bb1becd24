"""Has a document read by another process: it may be anything, and this one goes on.

The libraries are loaded there alone. Trade-off: a process a document, 0.3 s to start.
"""

import signal
import subprocess
import sys

import msgspec

from xscore.extensions.documents.parsed import (
    CLOCK_SECONDS,
    CPU_SECONDS,
    ENCODER,
    MEMORY_BYTES,
    PARSED,
    ParsedDocument,
    ReadingJob,
    RobotsJob,
)

_START = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.path[:] = sys.argv[1:]
from xscore.extensions.documents.read_process import answer_one_job
answer_one_job()
"""
_TOO_SLOW = f"reading it took more than {CPU_SECONDS:.0f} s"
_CRASHED = f"reading it crashed, or took more than {MEMORY_BYTES >> 20} MB"
_HUNG = f"reading it did not finish within {CLOCK_SECONDS:.0f} s"


def read_in_process(job: ReadingJob | RobotsJob) -> ParsedDocument:
    """Read a document in a process of its own; what is wrong with it is in the result."""
    command = [sys.executable, "-P", "-c", _START, *filter(None, sys.path)]
    try:
        done = subprocess.run(
            command,
            input=ENCODER.encode(job),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=CLOCK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ParsedDocument(problem=_HUNG)
    except OSError as error:
        return ParsedDocument(
            problem=f"no process could be started to read it: {error.strerror}"
        )
    if done.returncode == -signal.SIGPROF:
        return ParsedDocument(problem=_TOO_SLOW)
    try:
        return PARSED.decode(done.stdout)
    except msgspec.DecodeError:
        return ParsedDocument(problem=_CRASHED)
