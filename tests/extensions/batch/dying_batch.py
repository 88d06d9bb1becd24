"""A job taken to its end in a process that dies at the n-th commit of the store, or around the n-th
call of the vendor.

`ForkServer` is a process of its own that has imported everything and forks one child for each
run, so that hundreds of deaths take minutes. A child dies by `os._exit`, without closing or
reporting anything. Nothing of the program is replaced: commits are seen by a trace of the
connection, calls by what is around them.
"""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import asdict

from tests.extensions.batch.batch_vendor import settings_at
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.job_advance import advance_job, batch_host_of_job
from xscore.extensions.batch.records import BatchResult, VendorBatch
from xscore.extensions.batch.vendor_calls import BatchHost
from xscore.pipeline.build import Pipeline

DIED, CAME_THROUGH = 9, 0
PASSES = 60
HEAVY = (
    "openai",
    "openai.resources.chat.completions",
    "openai.resources.files",
    "openai.resources.batches",
    "anthropic",
    "anthropic.resources.messages",
    "aiohttp",
    "json_repair",
    "xscore.extensions.batch.vendor_batches",
)
"""What a life would import: a second or two each time."""


class JobRun(Struct, frozen=True, kw_only=True):
    """One run of a job, and where it ends."""

    root: str
    home: str
    vendor: str
    url: str
    job: str
    now: float
    batch: dict[str, Any]
    where: str = ""
    """`commit` or `call`; empty if it lives."""
    when: str = "before"
    n: int = 0


class Count:
    """Dies at the n-th."""

    def __init__(self, n: int) -> None:
        self.left = n

    def one_more(self) -> None:
        """Count."""
        self.left -= 1
        if self.left == 0:
            os._exit(DIED)


def mortal(host: BatchHost, *, before: int, after: int) -> BatchHost:
    """Have the process die around the n-th call of this host, or the n-th of its results."""
    early, late, results = Count(before), Count(after), host.results

    def counted(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def made(*arguments: Any, **named: Any) -> Any:
            early.one_more()
            result = await call(*arguments, **named)
            late.one_more()
            return result

        return made

    async def counted_results(
        seen: VendorBatch, *, model: str
    ) -> AsyncGenerator[BatchResult, None]:
        early.one_more()
        async for result in results(seen, model=model):
            yield result
            late.one_more()

    for name in ("upload", "create", "find", "look", "cancel"):
        setattr(host, name, counted(getattr(host, name)))
    host.results = counted_results  # type: ignore[method-assign]  # each result counts as two steps
    return host


async def live(life: JobRun) -> None:
    """Take a job to its end, a minute between two passes."""
    os.environ["HOME"] = life.home
    settings = settings_at(life.vendor, life.url, batch=life.batch)
    dies = {f"{life.where} {life.when}": life.n}
    now = [life.now]

    def clock() -> float:
        return now[0]

    async with Pipeline.open(life.root, settings, clock=clock) as pipeline:
        store = pipeline.store
        _watch(
            store.connection,
            before=dies.get("commit before", 0),
            after=dies.get("commit after", 0),
        )
        job = job_rows.read_job(store.connection, life.job)
        host = mortal(
            batch_host_of_job(store, settings, job),
            before=dies.get("call before", 0),
            after=dies.get("call after", 0),
        )
        try:
            for _ in range(PASSES):
                standing = await advance_job(
                    store, settings, life.job, host=host, chunk=2, clock=clock
                )
                if not standing.is_pending:
                    return
                now[0] += 60.0
        finally:
            await host.aclose()
    raise AssertionError(f"the job does not end: {standing}")


def _watch(connection: sqlite3.Connection, *, before: int, after: int) -> None:
    """Die at the n-th COMMIT: before it is done, or at the first statement after it."""
    early, late, committed = Count(before), Count(after), False

    def seen(statement: str) -> None:
        nonlocal committed
        if committed:
            late.one_more()
        committed = statement == "COMMIT"
        if committed:
            early.one_more()

    connection.set_trace_callback(seen)


class ForkServer:
    """A context manager: the process that forks lives."""

    def __enter__(self) -> Self:
        """Start it."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.extensions.batch.dying_batch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let it end."""
        self._process.communicate()

    def run(self, life: JobRun) -> bool:
        """Live once; whether it died where it was to."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(asdict(life)), file=self._process.stdin, flush=True)
        code = int(self._process.stdout.readline())
        assert code in (DIED, CAME_THROUGH), f"{life} ended with {code}"
        return code == DIED


def main() -> None:
    """Fork a child for each life that is asked for, and tell how it ended."""
    for name in HEAVY:
        import_module(name)
    for line in sys.stdin:
        life = JobRun(**json.loads(line))
        child = os.fork()
        if not child:
            asyncio.run(live(life))
            os._exit(CAME_THROUGH)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
