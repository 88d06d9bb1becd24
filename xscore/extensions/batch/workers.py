"""Several processes of this machine at one list: started, heard, passed Ctrl-C on to, and waited for.

Each goes through all questions from its own place; claims in the store keep two from paying for the same, and what a
killed one leaves is taken over by the others, or by the next run. Limits that were set are divided among them; limits
of a shared server hold for all of them as they are. Dollars are those of one job. Trade-off: limits that only the host
states are learned by each process for itself, so a host that counts closely sends some 429s, which are waited out.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from multiprocessing.connection import Connection, Pipe

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.extensions.batch.list_plan import ListProgress
from xscore.extensions.batch.worker import LAST_S, STOP, Failed, Stands, Word, Work
from xscore.pipeline.judging import Deadline, take_back_cancellation
from xscore.pipeline.list_judging import LiveEnd, QuestionEnd
from xscore.pipeline.parts import PipelineParts
from xscore.platform.errors import StoreError, UsageError, XscoreError
from xscore.platform.text import counted
from xscore.records import Scope, StageUsage, UnjudgedCause, Usage
from xscore.records.batch import Question
from xscore.settings import Settings

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]);"
    " from xscore.extensions.batch.worker import main; main(int(sys.argv[1]))"
)
_ENDS = (UnjudgedCause.INTERRUPTED, UnjudgedCause.BUDGET, UnjudgedCause.DEADLINE, UnjudgedCause.PROVIDER)
"""Of several causes, the one that the list ended for."""


async def judge_by_workers(
    parts: PipelineParts,
    job: str,
    questions: Sequence[Question],
    scope: Scope,
    *,
    count: int,
    only: frozenset[str] | None = None,
    told: Callable[[QuestionEnd], None],
    progress: ListProgress,
    deadline: Deadline | None = None,
) -> LiveEnd:
    """Have `count` processes judge what the cache lacks of a list; return when all of them have ended.

    Cancelled, it has them stop as one process would, and returns. Raises what each of them raised, where none got
    anywhere, and StoreError where no process can be started.
    """
    shares = divided(parts.settings, concurrency=_concurrency(parts), count=count)
    crew = _Crew(parts, told, progress)
    try:
        whole = Work(
            root=str(parts.root.path), settings=parts.settings, job=job, questions=tuple(questions), start=0,
            scope=scope, only=only, deadline_at=deadline.at if deadline else None,
        )  # fmt: skip
        for number, settings in enumerate(shares):
            start = number * len(questions) // len(shares)
            crew.start(number, replace(whole, settings=settings, start=start))
        await crew.heard_out()
    except asyncio.CancelledError:
        take_back_cancellation(asyncio.current_task())
        crew.stop()
        await crew.heard_out(within_s=LAST_S)
        crew.ends.append(LiveEnd(UnjudgedCause.INTERRUPTED))
    finally:
        crew.kill()
    return crew.end()


def divided(settings: Settings, *, concurrency: int, count: int) -> list[Settings]:
    """Divide the limits among so many processes, to the last request; fewer where there is less than one for each.

    Raises UsageError for fewer than one process.
    """
    if count < 1:
        raise UsageError(f"--workers {count} is no number of processes", hint="Give 1 or more.")
    judge = settings.judge
    is_shared = bool(settings.shared.url.reveal())
    limits = {"concurrency": concurrency} | ({} if is_shared else {"rpm": judge.rpm, "tpm": judge.tpm})
    least = min(count, *(limit for limit in limits.values() if limit is not None))
    return [
        replace(
            settings,
            judge=replace(
                judge,
                **{
                    name: limit // least + (number < limit % least)
                    for name, limit in limits.items()
                    if limit is not None
                },
            ),
        )
        for number in range(least)
    ]


def _concurrency(parts: PipelineParts) -> int:
    return parts.judge.calls.concurrency if parts.judge.calls else 1


class _Worker(Struct):
    number: int
    process: "subprocess.Popen[bytes]"
    pipe: Connection
    stands: Stands = field(default_factory=lambda: Stands(0, 0, StageUsage()))
    has_ended: bool = False
    """It said so itself."""


class _Crew(Struct):
    """The processes at work, and what they told."""

    parts: PipelineParts
    told: Callable[[QuestionEnd], None]
    progress: ListProgress
    workers: list[_Worker] = field(default_factory=list)
    at_work: int = 0
    quiet: asyncio.Event = field(default_factory=asyncio.Event)
    ends: list[LiveEnd] = field(default_factory=list)
    errors: list[XscoreError] = field(default_factory=list)
    notes: set[str] = field(default_factory=set)

    def start(self, number: int, work: Work) -> None:
        """Start a process and hand it its work. Raises StoreError where none can be started."""
        ours, theirs = Pipe()
        places = [place for place in sys.path if place]
        command = [sys.executable, "-P", "-c", _START, str(theirs.fileno()), json.dumps(places)]
        try:
            process = subprocess.Popen(
                command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            ours.close()
            raise StoreError(
                f"process {number + 1} cannot be started: {error.strerror}", hint="Ask for fewer --workers."
            ) from error
        finally:
            theirs.close()
        worker = _Worker(number, process, ours)
        self.workers.append(worker)
        self.at_work += 1
        with suppress(OSError):  # it died before it was asked; its pipe says so
            ours.send(work)
        asyncio.get_running_loop().add_reader(ours.fileno(), self._hear, worker)

    async def heard_out(self, within_s: float | None = None) -> None:
        """Return when every process has ended, or the time is over."""
        while self.at_work:
            self.quiet.clear()
            try:
                async with asyncio.timeout(within_s):
                    await self.quiet.wait()
            except TimeoutError:
                return

    def stop(self) -> None:
        """Have every process send nothing more."""
        for worker in self.workers:
            with suppress(OSError):
                worker.pipe.send(STOP)

    def kill(self) -> None:
        """Let every process go; one that is still there is ended."""
        loop = asyncio.get_running_loop()
        for worker in self.workers:
            if not worker.pipe.closed:
                loop.remove_reader(worker.pipe.fileno())
                worker.pipe.close()
            if worker.process.poll() is None and not worker.has_ended:
                worker.process.kill()
            try:
                worker.process.wait(LAST_S)
            except subprocess.TimeoutExpired:
                worker.process.kill()  # it said that it had ended, and does not
                worker.process.wait()

    def end(self) -> LiveEnd:
        """Say how the list ended: as the whole did, or as what ended it first. Raises what ended all of them."""
        if self.errors and not self.ends:
            raise self.errors[0]
        causes = [one for one in self.ends if one.cause is not None]
        first = min(causes, key=lambda one: _ENDS.index(one.cause) if one.cause in _ENDS else 0, default=LiveEnd())
        remarks = [remark for one in self.ends for remark in one.remarks]
        remarks += [f"a process ended early: {error.message}" for error in self.errors]
        is_left = any(one.cause is None for one in self.ends)  # one of them went through the whole list
        killed = sum(not one.has_ended for one in self.workers)
        if killed and first.cause is not UnjudgedCause.INTERRUPTED:
            remarks.append(f"{counted(killed, 'process', 'processes')} ended without a word; {self._taken_over()}")
        if is_left and first.cause not in (UnjudgedCause.INTERRUPTED, UnjudgedCause.BUDGET):
            return LiveEnd(remarks=remarks)
        if not self.ends:
            return LiveEnd(UnjudgedCause.INTERRUPTED, "its process ended without a word", remarks)
        return replace(first, remarks=remarks)

    def _taken_over(self) -> str:
        others = any(one.has_ended for one in self.workers)
        return "the others took over its work" if others else "run the same again to go on from what was judged"

    def _hear(self, worker: _Worker) -> None:
        try:
            while worker.pipe.poll():
                self._take(worker, worker.pipe.recv())
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(worker.pipe.fileno())
            worker.pipe.close()
            self.at_work -= 1
            self.quiet.set()

    def _take(self, worker: _Worker, word: Word) -> None:
        match word:
            case Stands():
                worker.stands = word
                self._tell()
            case QuestionEnd():
                self.told(word)
            case LiveEnd():
                worker.has_ended = True
                self.ends.append(word)
            case Failed():
                worker.has_ended = True
                self.errors.append(word.error)
            case str():
                if word not in self.notes:
                    self.notes.add(word)
                    self.parts.observer.note(word)

    def _tell(self) -> None:
        each = [worker.stands for worker in self.workers]
        spent = [one.spent for one in each]
        costs = [one.cost_usd for one in spent]
        whole = StageUsage(
            calls=sum(one.calls for one in spent),
            attempts=sum(one.attempts for one in spent),
            usage=sum((one.usage for one in spent), Usage()),
            cost_usd=None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0)),
            estimated=any(one.estimated for one in spent),
        )
        self.progress.tell(sum(one.judged for one in each), sum(one.unjudged for one in each), whole)
