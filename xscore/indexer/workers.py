"""A parsing process: jobs in over a pipe, finished files out, one by one.

Started by `workers` as a plain interpreter, not by multiprocessing, so that no caller's `__main__` is imported again.
A file that crashes a grammar takes this process with it; the parent knows which file it was on.

Parsing processes and their supervision: a grammar that crashes or hangs costs its one file, never the run.

tree-sitter holds the interpreter's lock, so threads would not help. Each process has at most one bundle of jobs; the
parent knows which job it is on by counting what came back. Trade-off: a process costs about 0.15 s to start, which only
large runs pay.
"""

import json
import resource
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from multiprocessing.connection import Connection, Pipe, wait

from msgspec import Struct, field

from xscore.indexer.memories import ParsedFile, ParseJob, parse_file, parse_file_by_windows

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
                pipe.send(parse_file(job))


def _limit_memory() -> None:
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    except (ValueError, OSError):
        return  # a system that cannot limit it, or allows less already


if __name__ == "__main__":
    main(int(sys.argv[1]))


BUNDLE = 16
"""Files sent to a process at once."""
HANG_SECONDS = 30.0
"""A file that takes longer is taken from its process, and the process ended."""
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]);"
    " from xscore.indexer.workers import main; main(int(sys.argv[1]))"
)


def parse_in_processes(jobs: Iterable[ParseJob], *, count: int) -> Iterator[ParsedFile]:
    """Parse jobs in `count` processes; results come as they settle, one for each job."""
    queue = iter(jobs)
    crew = [_Worker() for _ in range(count)]
    try:
        busy = [worker for worker in crew if worker.feed(queue)]
        while busy:
            wait([worker.pipe for worker in busy if worker.pipe is not None], timeout=1.0)
            for worker in busy:
                yield from worker.collect()
            busy = [worker for worker in busy if worker.jobs or worker.feed(queue)]
    finally:
        for worker in crew:
            worker.end()


class _Worker(Struct):
    jobs: deque[ParseJob] = field(default_factory=deque)
    """Sent and not yet answered, in order."""
    pipe: Connection | None = None
    process: "subprocess.Popen[bytes] | None" = None
    since: float = 0.0
    """When the job now worked on began."""

    def feed(self, queue: Iterator[ParseJob]) -> bool:
        """Send the next bundle; False when there is none."""
        bundle = list(islice(queue, BUNDLE))
        if not bundle:
            return False
        self.jobs.extend(bundle)
        self._send()
        return True

    def collect(self) -> list[ParsedFile]:
        """What has been finished by now, a crashed or hanging job included."""
        finished: list[ParsedFile] = []
        try:
            while self.jobs and self.pipe is not None and self.pipe.poll():
                finished.append(self.pipe.recv())
                self.jobs.popleft()
                self.since = time.monotonic()
        except (EOFError, OSError):
            finished += self._give_up("its grammar crashed")
        if self.jobs and self.pipe is None:
            finished += [parse_file(self.jobs.popleft()) for _ in range(len(self.jobs))]
        if self.jobs and time.monotonic() - self.since > HANG_SECONDS:
            finished += self._give_up(f"its grammar took more than {HANG_SECONDS:g} s")
        return finished

    def end(self) -> None:
        """Let the process go."""
        if self.pipe is not None:
            self.pipe.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.pipe = self.process = None

    def _give_up(self, why: str) -> list[ParsedFile]:
        self.end()
        lost = parse_file_by_windows(self.jobs.popleft(), why)
        if self.jobs:
            self._send()
        return [lost]

    def _send(self) -> None:
        if self.pipe is None:
            self._start()
        self.since = time.monotonic()
        if self.pipe is not None:
            try:
                self.pipe.send(list(self.jobs))
            except OSError:  # it died before it was asked; `collect` sees the closed pipe
                return

    def _start(self) -> None:
        """Start a process; where none can be started, `collect` parses here."""
        ours, theirs = Pipe()
        places = [place for place in sys.path if place]
        command = [sys.executable, "-P", "-c", _START, str(theirs.fileno()), json.dumps(places)]
        try:
            self.process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
            self.pipe = ours
        except (OSError, ValueError):
            ours.close()
        finally:
            theirs.close()
