"""Parsing processes and their supervision: a file that is too much for its grammar loses its
entities, no command.

Every grammar runs in a `parse_process`, never here: it may take any memory and time, and holds the
interpreter's lock meanwhile. The kernel bounds each process; the parent watches the clock as well
and counts results, so it knows which file a process was at. That file is cut into windows of lines
by another process, or left out if it ends that one, too. Processes are plain interpreters, not
forks: the caller may have threads. Each has at most one bundle of jobs. Trade-off: a process takes
about 0.1 s to start, so a caller that indexes often keeps one, of 40 MB.
"""

import atexit
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from threading import Thread

from msgspec import Struct, field
from msgspec.msgpack import Decoder
from msgspec.structs import replace

from xscore.indexer.first_lines import language_of_file
from xscore.indexer.languages import Language, add_languages
from xscore.indexer.parse_jobs import (
    ENCODER,
    MEMORY_BYTES,
    FrameReader,
    ParseJob,
    cpu_limit_s,
    framed,
    write_all,
)
from xscore.store.encoded_files import EncodedFile, encode_file

BUNDLE = 16
"""How many files are sent to a process at once."""
HANG_SECONDS = 30.0
"""How long a file may take by the clock, in case its process waits rather than works."""
_LOOK_SECONDS = 1.0
"""Longest wait between two looks at the clock."""
_RESULT = Decoder(EncodedFile)
_CRASHED = f"the grammar crashed, or took more than {MEMORY_BYTES >> 20} MB"
_TOO_SLOW = "the grammar took more than {:.1f} s"
_NO_PROCESS = "no process could be started to parse"
_LEFT_OUT = "too slow or large even without the grammar; left out"
_START = """
import gc, signal, sys
gc.disable()  # until all is loaded
# Ctrl-C reaches the whole process group; the parent closes the pipe.
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.path[:] = sys.argv[1:]
# msgspec needs nothing of it, and it takes an eighth of the start.
sys.modules["typing_extensions"] = None
import msgspec
del sys.modules["typing_extensions"]
from xscore.indexer.parse_process import serve_jobs
serve_jobs()
"""


def parse_in_processes(
    jobs: Iterable[ParseJob],
    *,
    count: int,
    until: float | None = None,
    stopped: Callable[[str], None] = lambda _path: None,
) -> Iterator[EncodedFile]:
    """Parse jobs in `count` processes; yield one result per job as they finish.

    until: when to stop (`time.monotonic`), at once: the processes are killed, and each file that
    one was at is passed to `stopped`.
    """
    queue = iter(jobs)
    # The first outlives the run: a process takes longer to start than an edit takes to parse.
    workers = [_kept_worker(), *(_Worker() for _ in range(count - 1))]
    try:
        busy = [worker for worker in workers if worker.send_next(queue)]
        while busy:
            wait_s = _LOOK_SECONDS if until is None else until - time.monotonic()
            if wait_s <= 0:
                break
            _wait(busy, min(wait_s, _LOOK_SECONDS))
            for worker in busy:
                yield from worker.receive()
            busy = [worker for worker in busy if worker.jobs or worker.send_next(queue)]
        # The time is up: what has arrived is taken, and the file that each was at is named.
        for worker in busy:
            yield from worker.receive()
            if worker.jobs:
                stopped(worker.jobs[0].stamp.path)
    finally:
        for worker in workers:
            if worker.jobs or count > 1:
                worker.stop()
            else:
                _keep(worker)


def _wait(workers: Iterable["_Worker"], seconds: float) -> None:
    """Wait until one of these processes has written something, or has ended."""
    poll = select.poll()
    for worker in workers:
        # Its files are cut here, at once.
        if worker.process is None or worker.process.stdout is None:
            return
        poll.register(worker.process.stdout, select.POLLIN)
    poll.poll(seconds * 1_000)


def _send_all(descriptor: int, jobs: list[ParseJob]) -> None:
    with suppress(OSError):  # the process died early; `receive` sees the closed pipe
        write_all(descriptor, framed(ENCODER.encode(jobs)))


class _Worker(Struct):
    jobs: deque[ParseJob] = field(default_factory=deque)
    """Jobs sent and not yet answered, in order."""
    languages: tuple[Language, ...] = ()
    """Languages of other packages that the process knows."""
    process: "subprocess.Popen[bytes] | None" = None
    results: FrameReader | None = None
    is_ready: bool = False
    """Whether the process has said that it has started."""
    since: float = 0.0
    """When the current job began."""
    sender: Thread | None = None
    """Thread that sends the jobs, since a process that hangs before it reads them would stop us
    too."""

    def send_next(self, queue: Iterator[ParseJob]) -> bool:
        """Send the next bundle; return whether there was one."""
        first = next(queue, None)
        if first is None:
            return False
        if first.languages != self.languages:
            self.stop()
            self.languages = first.languages
        self._start()  # it starts while the other files are read
        self.jobs += [first, *islice(queue, BUNDLE - 1)]
        self._send()
        return True

    def receive(self) -> list[EncodedFile]:
        """Return the results so far, including that of a file that ended its process or hangs."""
        finished: list[EncodedFile] = []
        is_open = self._read(finished)
        if not self.jobs:
            return finished
        if not is_open:
            finished += self._retry_without_grammar(self._cause_of_death())
        elif time.monotonic() - self.since > HANG_SECONDS:
            finished += self._retry_without_grammar(_TOO_SLOW.format(HANG_SECONDS))
        return finished

    @property
    def has_process(self) -> bool:
        """Whether its process is alive, for all that is known."""
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            # This process has become another user's: that one ends with its input.
            with suppress(PermissionError):
                self.process.kill()
            if self.process.stdin is not None:
                with suppress(OSError):
                    self.process.stdin.close()
            self.process.wait()
            if self.sender is not None:
                self.sender.join()
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    pipe.close()
        self.process = self.results = self.sender = None
        self.is_ready = False

    def _read(self, finished: list[EncodedFile]) -> bool:
        """Receive the results that have arrived; return False once the process has ended."""
        if self.results is None:
            return False
        is_open = True
        with suppress(BlockingIOError):
            while is_open:
                is_open = self.results.fill()
        while (frame := self.results.next_frame()) is not None:
            # The first message only says that the process has started.
            if self.is_ready:
                finished.append(_RESULT.decode(frame))
                self.jobs.popleft()
            self.is_ready = True
            self.since = time.monotonic()
        return is_open

    def _cause_of_death(self) -> str:
        if self.process is not None and self.process.wait() == -signal.SIGPROF:
            return _TOO_SLOW.format(cpu_limit_s(len(self.jobs[0].text)))
        return _CRASHED

    def _retry_without_grammar(self, why: str) -> list[EncodedFile]:
        """Try the file that the process was at without its grammar, in a new process."""
        had_started = self.is_ready
        self.stop()
        # It never said that it had started: no file is to blame, and a second one would end alike.
        if not had_started:
            return [_cut_here(self.jobs.popleft()) for _ in range(len(self.jobs))]
        lost = self.jobs.popleft()
        finished = []
        if lost.without_grammar:
            finished.append(_left_out(lost))
        else:
            self.jobs.appendleft(replace(lost, without_grammar=why))
        if self.jobs:
            self._send()
        return finished

    def _send(self) -> None:
        self._start()
        self.since = time.monotonic()
        if self.process is not None and self.process.stdin is not None:
            self.sender = Thread(
                target=_send_all,
                args=(self.process.stdin.fileno(), list(self.jobs)),
                daemon=True,
            )
            self.sender.start()

    def _start(self) -> None:
        """Start a process unless there is one; if that fails, `receive` cuts the files here,
        without a grammar."""
        if self.process is not None:
            return
        command = [sys.executable, "-P", "-c", _START, *filter(None, sys.path)]
        # The note says that it crashed, not tree-sitter's own line.
        pipe = subprocess.PIPE
        quiet = subprocess.DEVNULL
        with suppress(OSError, ValueError):
            self.process = subprocess.Popen(
                command, bufsize=0, stdin=pipe, stdout=pipe, stderr=quiet
            )
        if self.process is not None and self.process.stdout is not None:
            os.set_blocking(self.process.stdout.fileno(), False)
            self.results = FrameReader(self.process.stdout.fileno())


_kept: list[_Worker] = []
"""At most one process, without jobs, for the next run of this process."""


def _kept_worker() -> _Worker:
    """Return the worker that an earlier run left, or one without a process."""
    with suppress(IndexError):  # another thread has it
        worker = _kept.pop()
        if worker.has_process:
            return worker
        worker.stop()
    return _Worker()


def _keep(worker: _Worker) -> None:
    _kept.append(worker)
    while len(_kept) > 1:
        _kept.pop().stop()


@atexit.register
def _stop_kept_workers() -> None:
    """End the idle process that waits for the next index run."""
    while _kept:
        _kept.pop().stop()


os.register_at_fork(after_in_child=_kept.clear)  # the process answers one parent


def _cut_here(job: ParseJob) -> EncodedFile:
    """Cut a file into windows of lines, for which it needs no grammar, and stamp it so that the
    next run parses it."""
    from xscore.indexer.memories import parse_file  # elsewhere only the processes need it

    cut = parse_file(replace(job, without_grammar=_NO_PROCESS))
    return replace(cut, stamp=replace(cut.stamp, size=-1, file_hash=""))


def _left_out(job: ParseJob) -> EncodedFile:
    """Return a file without memories."""
    add_languages(job.languages)
    path = job.stamp.path
    stamp = replace(job.stamp, language=language_of_file(path, job.text).name)
    return encode_file(stamp, [], note=_LEFT_OUT)
