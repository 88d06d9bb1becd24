"""Parsing processes and their supervision: a grammar that crashes or hangs costs its one file, never the run.

tree-sitter holds the GIL, so threads would not help. Processes are plain interpreters rather than multiprocessing's, so
that the caller's `__main__` is not imported again. Each has at most one bundle of jobs; the parent counts results to
know which job is running. Trade-off: a process takes about 0.15 s to start.
"""

import gc
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection, Pipe, wait
from threading import Thread

from msgspec import Struct, field
from msgspec.msgpack import Decoder, Encoder

from xscore.indexer.memories import ParseJob, parse_file
from xscore.store.encoded_files import EncodedFile

MEMORY_BYTES = 384 << 20
"""Memory limit of a process: some inputs of 50 kB took gigabytes."""
GARBAGE_FROM = 50_000
"""Objects made between two collections of garbage: parsing makes many and leaves few cycles."""
BUNDLE = 16
"""Files sent to a process at once."""
HANG_SECONDS = 30.0
"""A file that takes longer is given up, and its process is killed."""
SLOW_SECONDS = 10.0
"""The same for a file that a process is at when the deadline passes."""
_ENCODER, _JOBS, _RESULT = Encoder(), Decoder(list[ParseJob]), Decoder(EncodedFile)
_CRASHED = f"its grammar crashed, or took more than {MEMORY_BYTES >> 20} MB"
_TOO_SLOW = "its grammar took more than {:g} s"
_START = (  # Ctrl-C reaches the whole process group; the parent closes the pipe
    "import json, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.path[:] = json.loads(sys.argv[2]);"
    " from xscore.indexer.workers import serve_jobs; serve_jobs(int(sys.argv[1]))"
)


def serve_jobs(descriptor: int) -> None:
    """Parse what comes through the pipe until the parent closes it."""
    import resource  # not on Windows, where no such process is started

    with suppress(ValueError, OSError):  # unsupported, or the limit is already lower
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    gc.freeze()
    gc.set_threshold(GARBAGE_FROM)
    with Connection(descriptor) as pipe:
        try:
            while True:
                for job in _JOBS.decode(pipe.recv_bytes()):
                    pipe.send_bytes(_ENCODER.encode(parse_file(job)))
        except (EOFError, ConnectionError, MemoryError):  # the parent closed it or is gone, or the file is too much
            return


def parse_in_processes(
    jobs: Iterable[ParseJob],
    *,
    count: int,
    until: float | None = None,
    stopped: Callable[[str], None] = lambda _path: None,
) -> Iterator[EncodedFile]:
    """Parse jobs in `count` processes; yield one result per job as they finish.

    until: when to stop (`time.monotonic`), at once: the processes are killed, and each file that one was at is passed
    to `stopped`, or cut into windows if it took long.
    """
    queue = iter(jobs)
    workers = [_Worker() for _ in range(count)]
    try:
        busy = [worker for worker in workers if worker.send_next(queue)]
        while busy:
            left = 1.0 if until is None else until - time.monotonic()
            if left <= 0:
                break
            wait([worker.pipe for worker in busy if worker.pipe is not None], timeout=min(left, 1.0))
            for worker in busy:
                yield from worker.receive()
            busy = [worker for worker in busy if worker.jobs or worker.send_next(queue)]
        for worker in busy:
            yield from worker.abandon(stopped)
    finally:
        for worker in workers:
            worker.stop()


def _send_all(pipe: Connection, jobs: list[ParseJob]) -> None:
    with suppress(OSError):  # the process died early; `receive` sees the closed pipe
        pipe.send_bytes(_ENCODER.encode(jobs))


class _Worker(Struct):
    jobs: deque[ParseJob] = field(default_factory=deque)
    """Sent and not yet answered, in order."""
    pipe: Connection | None = None
    process: "subprocess.Popen[bytes] | None" = None
    since: float = 0.0
    """When the current job began."""
    sender: Thread | None = None
    """Sends the jobs, since a process that hangs before it reads them would stop us too."""

    def send_next(self, queue: Iterator[ParseJob]) -> bool:
        """Send the next bundle; return whether there was one."""
        bundle = list(islice(queue, BUNDLE))
        if not bundle:
            return False
        self.jobs.extend(bundle)
        self._send()
        return True

    def receive(self) -> list[EncodedFile]:
        """Return the results so far, including a crashed or hanging job."""
        finished: list[EncodedFile] = []
        try:
            while self.jobs and self.pipe is not None and self.pipe.poll():
                finished.append(_RESULT.decode(self.pipe.recv_bytes()))
                self.jobs.popleft()
                self.since = time.monotonic()
        except (EOFError, OSError):
            finished += self._give_up(_CRASHED)
        if self.jobs and self.pipe is None:
            finished += [parse_file(self.jobs.popleft()) for _ in range(len(self.jobs))]
        if self.jobs and time.monotonic() - self.since > HANG_SECONDS:
            finished += self._give_up(_TOO_SLOW.format(HANG_SECONDS))
        return finished

    def abandon(self, stopped: Callable[[str], None]) -> list[EncodedFile]:
        """Return what has arrived, end the process, and pass on or give up the file that it was at."""
        finished = self.receive() if self.pipe is not None else []
        self.stop()
        if self.jobs and time.monotonic() - self.since > SLOW_SECONDS:
            finished.append(parse_file(self.jobs.popleft(), without_grammar=_TOO_SLOW.format(SLOW_SECONDS)))
        elif self.jobs:
            stopped(self.jobs[0].stamp.path)
        return finished

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        if self.sender is not None:
            self.sender.join()
        if self.pipe is not None:
            self.pipe.close()
        self.pipe = self.process = self.sender = None

    def _give_up(self, why: str) -> list[EncodedFile]:
        self.stop()
        lost = parse_file(self.jobs.popleft(), without_grammar=why)
        if self.jobs:
            self._send()
        return [lost]

    def _send(self) -> None:
        if self.pipe is None:
            self._start()
        self.since = time.monotonic()
        if self.pipe is not None:
            self.sender = Thread(target=_send_all, args=(self.pipe, list(self.jobs)), daemon=True)
            self.sender.start()

    def _start(self) -> None:
        """Start a process; if that fails, `receive` parses here."""
        ours, theirs = Pipe()
        places = [place for place in sys.path if place]
        command = [sys.executable, "-P", "-c", _START, str(theirs.fileno()), json.dumps(places)]
        quiet = subprocess.DEVNULL  # the note of the file says that it crashed, not tree-sitter's own line
        try:
            self.process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=quiet, stderr=quiet)
            self.pipe = ours
        except (OSError, ValueError):
            ours.close()
        finally:
            theirs.close()
