"""All that is Ray's: a cluster, actors in Ray Data around our scorer, and a stream of what they bring.

A row that an actor was at work on when it was killed goes to another one. What travels is pickled by us, so that Ray
sees bytes alone. Nothing is judged or kept here. Trade-off: starting a Ray of one's own takes some seconds, and its
files (`/tmp/ray`) may hold memories while it runs, which is why encrypted stores do not come here.
"""

import asyncio
import atexit
import logging
import os
import pickle
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, redirect_stdout, suppress
from decimal import Decimal
from typing import Any

from xscore.errors import StoreError, UsageError, XscoreError
from xscore.offline.ray_work import Chunk, Library, Purse, Scored, Scorer

LOCAL = "local"
CPUS = 0.25
"""Of one actor, which mostly waits: whole ones would leave none for the tasks that feed them, and a list would hang."""
BLOCKS_AN_ACTOR = 64


@asynccontextmanager
async def opened(address: str) -> "AsyncIterator[Cluster]":
    """Start a Ray of one's own, or join the one at this address, for as long as it is needed. Raises UsageError."""
    with redirect_stdout(sys.stderr):  # Ray tells there of a worker that died; what we print there is data
        starting = asyncio.create_task(asyncio.to_thread(Cluster, address))
        try:
            cluster = await asyncio.shield(starting)
        except asyncio.CancelledError:
            with suppress(XscoreError):  # nothing was started then
                (await starting).close()
            raise
        try:
            yield cluster
        finally:
            cluster.close()


class Cluster:
    """A Ray of one's own, or one that runs already."""

    def __init__(self, address: str) -> None:
        """address: `local`, `auto`, or that of a cluster. Raises UsageError where there is none."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray reads it as it starts, and has no argument for it
        os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")  # what is let go after Ctrl-C would start another Ray
        import ray

        self._ray: Any = ray
        own: dict[str, Any] = {"include_dashboard": False} if address == LOCAL else {}
        try:
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **own)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            ray.shutdown()  # of what was started halfway
            raise UsageError(
                f"Ray cannot be started or reached at `{address}`",
                hint="Set batch.ray_address to `local`, or to a running cluster's; or leave --engine out.",
            ) from error
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False

    async def scored(
        self, library: Library, chunks: Iterable[Chunk], *, count: int, cap_usd: Decimal | None
    ) -> AsyncGenerator[Scored, None]:
        """Yield what became of each chunk, in any order. Raises StoreError where Ray fails.

        count: of actors. cap_usd: what they may spend altogether; None: as much as it takes.
        """
        rows = [{"chunk": pickle.dumps(chunk)} for chunk in chunks]
        if not rows:
            return
        with self._translated():
            stream = self._stream(rows, library, count, cap_usd)
        while True:
            with self._translated():
                row = await asyncio.to_thread(next, stream, None)
            if row is None:
                return
            scored: Scored = pickle.loads(row["scored"])  # noqa: S301  it was pickled by our own actor
            yield scored

    def _stream(
        self, rows: list[dict[str, bytes]], library: Library, count: int, cap_usd: Decimal | None
    ) -> Iterator[dict[str, bytes]]:
        ray = self._ray
        purse = None if cap_usd is None else ray.remote(num_cpus=0)(_Dollars).remote(cap_usd)
        blocks = min(len(rows), BLOCKS_AN_ACTOR * count)
        found = ray.data.from_items(rows, override_num_blocks=blocks).map_batches(
            _Actor,
            batch_size=1,
            batch_format="numpy",
            compute=ray.data.ActorPoolStrategy(size=count),
            num_cpus=CPUS,
            fn_constructor_args=(ray.put(library), purse),
        )
        return iter(found.iter_rows())

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise StoreError for whatever Ray fails with."""
        try:
            yield
        except self._ray.exceptions.RayError as error:
            said = str(error).strip().splitlines() or [type(error).__name__]
            raise StoreError(
                f"Ray failed: {type(error).__name__}: {said[-1][:200]}",
                hint="Run the same again: what was judged is kept. See Ray's own logs, or leave --engine out.",
            ) from error

    def close(self) -> None:
        """Let actors and, where it is our own, the whole of Ray go."""
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # of what it cannot tidy up once all of it is gone
        self._ray.shutdown()


class _Actor:
    """Our scorer as Ray Data calls it."""

    def __init__(self, library: Any, purse: Any) -> None:
        import ray

        atexit.register(os._exit, 0)  # Ray's worker is done by then; its destructors have been seen to hang for ever
        self._runner = asyncio.Runner()
        self._scorer = self._runner.run(_made(ray.get(library), None if purse is None else _Far(purse)))

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        import numpy as np

        found = np.empty(len(batch["chunk"]), dtype=object)
        found[:] = [pickle.dumps(self._scored(pickle.loads(chunk))) for chunk in batch["chunk"]]  # noqa: S301  our own
        return {"scored": found}

    def _scored(self, chunk: Chunk) -> Scored:
        return self._runner.run(self._scorer.score(chunk))


async def _made(library: Library, purse: Purse | None) -> Scorer:
    return Scorer(library, purse=purse)


class _Dollars:
    """What all actors may spend: an actor of its own, which outlives any of them."""

    def __init__(self, left: Decimal) -> None:
        self._left = left

    def take(self, usd: Decimal) -> bool:
        """Set a bound aside; False where it does not fit."""
        fits = usd <= self._left
        self._left -= usd if fits else Decimal(0)
        return fits

    def put_back(self, usd: Decimal) -> None:
        """Give back what a call did not cost."""
        self._left += usd


class _Far:
    """The purse as an actor sees it."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def take(self, usd: Decimal) -> bool:
        """Set a bound aside; False where it does not fit."""
        fits: bool = await self._handle.take.remote(usd)
        return fits

    async def put_back(self, usd: Decimal) -> None:
        """Give back what a call did not cost."""
        await self._handle.put_back.remote(usd)
