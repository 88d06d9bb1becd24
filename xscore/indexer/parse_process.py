"""A parsing process: it cuts the files that come through standard input, within bounds that the
kernel keeps.

A grammar holds the interpreter's lock, so no thread could stop it. Memory beyond the limit cannot
be had, and CPU time beyond a file's limit ends the process by a signal that nothing handles;
`workers` then knows which file it was. Trade-off: macOS keeps the limit of time only.
"""

import gc
import os
import resource
import signal
from contextlib import suppress

from xscore.indexer.first_lines import language_of_file
from xscore.indexer.grammars import has_grammar
from xscore.indexer.languages import add_languages
from xscore.indexer.memories import parse_file
from xscore.indexer.parse_jobs import (
    ENCODER,
    JOBS,
    MEMORY_BYTES,
    FrameReader,
    ParseJob,
    cpu_limit_s,
    framed,
    write_all,
)
from xscore.indexer.syntax import load_queries
from xscore.store.encoded_files import EncodedFile

GARBAGE_FROM = 50_000
"""Objects made between two collections of garbage: parsing makes many and leaves few cycles."""
READY = b""
"""The first message, before any result."""


def serve_jobs() -> None:
    """Parse what comes through standard input until the parent closes it."""
    set_limits()
    jobs = FrameReader(0)
    results = only_results()
    gc.freeze()
    gc.set_threshold(GARBAGE_FROM)
    gc.enable()
    # The parent is done or gone, or the file is too much.
    with suppress(EOFError, ConnectionError, MemoryError):
        write_all(results, framed(READY))
        while True:
            for job in JOBS.decode(jobs.read()):
                write_all(results, framed(ENCODER.encode(parse_within_limits(job))))


def set_limits(memory_bytes: int = MEMORY_BYTES) -> None:
    """Have the kernel bound this process, from now until it ends."""
    # The memory of a crash is of no use.
    limits = {resource.RLIMIT_DATA: memory_bytes, resource.RLIMIT_CORE: 0}
    for limit, bound in limits.items():
        with suppress(ValueError, OSError):  # unsupported, or the limit is already lower
            resource.setrlimit(limit, (bound, bound))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})


def parse_within_limits(job: ParseJob) -> EncodedFile:
    """Cut one file; the process ends if that takes too much."""
    add_languages(job.languages)
    language = language_of_file(job.stamp.path, job.text)
    if not job.without_grammar and has_grammar(language):
        load_queries(language)  # once a process, so it is not on the file's account
    signal.setitimer(signal.ITIMER_PROF, cpu_limit_s(job.stamp.size))
    try:
        return parse_file(job)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def only_results() -> int:
    """Return where results are written; whatever else is printed, by the package of a grammar, goes
    nowhere."""
    results = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return results
