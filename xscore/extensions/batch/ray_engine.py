"""Judge a list with actors of Ray Data, on this machine or a cluster; this process stores their results.

Rows are packs of one question by number; memories, texts and questions are in Ray's object store once. Judgments go to
the local store, calls to its ledger and dollars to its caps. The user's own memories are judged here afterwards, and an
encrypted store is refused: Ray's files may hold memories. Trade-off: starting Ray takes seconds, and caps are read when
the list begins, so what others spend meanwhile is not seen.
"""

import asyncio
import atexit
import logging
import os
import pickle
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, redirect_stdout, suppress
from decimal import Decimal
from importlib.util import find_spec
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgment_store import StoredJudgments
from xscore.costs.caps import Caps
from xscore.costs.ledger import Ledger
from xscore.costs.reservation import turn_budget
from xscore.costs.usage_totals import UsageTotals
from xscore.extensions.batch.ray_actor import (
    ActorContext,
    ChunkJudge,
    ChunkResult,
    PackChunk,
    chunks_of_question,
)
from xscore.pipeline.judging import ENDS_ALL, Deadline, take_back_cancellation
from xscore.pipeline.list_judging import ListProgress, LiveEnd, QuestionEnd, judge_list
from xscore.pipeline.model_factory import ModelJudgeFactory
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.question_list import ListMemories, PreparedQuestion, Question, list_caps_left, prepare_questions
from xscore.pipeline.resources import TurnResources
from xscore.platform import sqlite_drivers
from xscore.platform.errors import StoreError, UsageError, XscoreError, install_hint
from xscore.records.calls import Stage
from xscore.records.judgment import UnjudgedCause
from xscore.records.memory import Candidate, Layer
from xscore.records.turn import Turn

LOCAL = "local"
CPUS = 0.25
"""Of one actor, which mostly waits: whole ones would leave none for the tasks that feed them, and a list would hang."""
BLOCKS_AN_ACTOR = 64


@asynccontextmanager
async def open_cluster(address: str) -> "AsyncIterator[RayCluster]":
    """Start Ray, or join the cluster at this address, for as long as it is needed. Raises UsageError."""
    with redirect_stdout(sys.stderr):  # Ray reports dead workers on stdout, which is for our data
        starting = asyncio.create_task(asyncio.to_thread(RayCluster, address))
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


class RayCluster:
    """A Ray started here, or one that is already running."""

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
                hint="Set batch.ray_address to `local`, or to a running cluster's; or leave --ray out.",
            ) from error
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False

    async def scored(
        self, context: ActorContext, chunks: Iterable[PackChunk], *, count: int, cap_usd: Decimal | None
    ) -> AsyncGenerator[ChunkResult, None]:
        """Yield the result of each chunk, in any order. Raises StoreError if Ray fails.

        count: of actors. cap_usd: what they may spend altogether; None: as much as it takes.
        """
        ray, rows = self._ray, [{"chunk": pickle.dumps(chunk)} for chunk in chunks]
        try:
            dollars = None if cap_usd is None else ray.remote(num_cpus=0)(_SharedCap).remote(cap_usd)
            found = ray.data.from_items(rows, override_num_blocks=min(len(rows), BLOCKS_AN_ACTOR * count)).map_batches(
                _Actor,
                batch_size=1,
                batch_format="numpy",
                compute=ray.data.ActorPoolStrategy(size=count),
                num_cpus=CPUS,
                fn_constructor_args=(ray.put(context), dollars),
            )
            stream = iter(found.iter_rows())
            while (row := await asyncio.to_thread(next, stream, None)) is not None:
                yield pickle.loads(row["scored"])  # noqa: S301  it was pickled by our own actor
        except ray.exceptions.RayError as error:
            said = str(error).strip().splitlines() or [type(error).__name__]
            raise StoreError(
                f"Ray failed: {type(error).__name__}: {said[-1][:200]}",
                hint="Run the same again: what was judged is kept. See Ray's own logs, or leave --ray out.",
            ) from error

    def close(self) -> None:
        """Stop the actors, and Ray if it was started here."""
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # of what it cannot tidy up once all of it is gone
        self._ray.shutdown()


class _Actor:
    def __init__(self, library: Any, dollars: Any) -> None:
        import ray

        atexit.register(os._exit, 0)  # Ray's worker is done by then, and its destructors have been seen to hang
        self._runner, take = asyncio.Runner(), None
        if dollars is not None:

            async def take(usd: Decimal) -> bool:
                return bool(await dollars.take.remote(usd))

        self._judge = ChunkJudge(ray.get(library), take=take)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        import numpy as np

        found = np.empty(len(batch["chunk"]), dtype=object)
        chunks = [pickle.loads(chunk) for chunk in batch["chunk"]]  # noqa: S301  our own
        found[:] = [pickle.dumps(self._runner.run(self._judge.score(chunk))) for chunk in chunks]
        return {"scored": found}


class _SharedCap:
    def __init__(self, left: Decimal) -> None:
        self._left = left

    def take(self, usd: Decimal) -> bool:
        """Reserve dollars, or return them if negative; False if they do not fit."""
        fits = usd <= max(self._left, Decimal(0))
        self._left -= usd if fits else Decimal(0)
        return fits


def check_ray_usable(parts: PipelineParts) -> None:
    """Raise UsageError where actors cannot judge lists of this repository."""
    if find_spec("ray") is None:
        raise UsageError("--ray needs the extra `ray`", hint=install_hint("ray"))
    if not parts.settings.shared.url.reveal():
        raise UsageError(
            "--ray needs a shared server, through which its actors know what is judged and paid for",
            hint="Set shared.url (XSCORE_SHARED_URL); or leave --ray out.",
        )
    if sqlite_drivers.read_note(parts.store.path) is not None:
        raise UsageError(
            "--ray would write memories of an encrypted store to Ray's plain files", hint="Leave --ray out."
        )


async def judge_by_ray(
    parts: PipelineParts,
    job: str,
    questions: Sequence[Question],
    found: ListMemories,
    *,
    count: int,
    on_end: Callable[[QuestionEnd], None],
    progress: ListProgress,
    deadline: Deadline | None = None,
) -> LiveEnd:
    """Have actors judge a list's candidates missing from the cache; their results are in the local store on return.

    count: of actors. Cancelled, it lets them go and returns; what they paid for is at the shared server. Raises what
    opening the judge raises, SharedUnavailable where the server cannot be asked, and StoreError.
    """
    assert isinstance(parts.judge, ModelJudgeFactory), "only a model is asked by actors"
    shared = found.of_repository()
    run = _RayRun(parts, job, shared.candidates, count, on_end, progress)
    try:
        await run.judge(prepare_questions(parts, enumerate(questions), shared), deadline)
    except asyncio.CancelledError:
        take_back_cancellation(asyncio.current_task())
        run.end.cause = UnjudgedCause.INTERRUPTED
    own = tuple(one for one in found.candidates if one.layer is Layer.USER)
    if run.end.cause is None and own:  # these never leave this process
        local = prepare_questions(parts, enumerate(questions), replace(found, candidates=own))
        end = await judge_list(parts, job, local, progress=progress, on_end=on_end, deadline=deadline)
        remarks = list(dict.fromkeys([*run.end.remarks, *end.remarks]))
        return LiveEnd(end.cause, end.detail, remarks, run.end.judged + end.judged, run.end.spent + end.spent)
    return run.end


class _Work(Struct):
    turns: dict[int, tuple[Turn, str]] = field(default_factory=dict)
    chunks: list[PackChunk] = field(default_factory=list)
    slots: Mapping[str, tuple[str, int]] = field(default_factory=dict)


class _RayRun(Struct):
    parts: PipelineParts
    job: str
    candidates: tuple[Candidate, ...]
    count: int
    on_end: Callable[[QuestionEnd], None]
    progress: ListProgress
    end: LiveEnd = field(default_factory=LiveEnd)
    unjudged: int = 0

    async def judge(self, questions: Iterator[PreparedQuestion], deadline: Deadline | None) -> None:
        parts = self.parts
        assert isinstance(parts.judge, ModelJudgeFactory)
        async with parts.open_resources(self.job) as resources:
            factory, _ = await parts.judge.with_probed_host(resources)
            work = await self.work_of(factory, resources, questions)
            if not work.chunks:
                return
            cap = min((one.left_usd for one in list_caps_left(parts)), default=None)
            async with (
                open_cluster(parts.settings.batch.ray_address) as cluster,
                GroupCommit(parts.store.path, parts.store.keys) as commits,
            ):
                context = self.context(factory, work, deadline)
                stream = cluster.scored(context, work.chunks, count=self.count, cap_usd=cap)
                home = _LocalStore(parts, self.job, commits)
                try:
                    await self._keep_all(stream, context, home)
                finally:
                    self.end.spent = resources.usage.whole() + home.usage.whole()

    async def _keep_all(
        self, stream: AsyncGenerator[ChunkResult, None], context: ActorContext, home: "_LocalStore"
    ) -> None:
        failed: XscoreError | None = None
        async with aclosing(stream):
            async for scored in stream:
                await home.keep(context, scored)
                self._count(scored, home)
                failed = failed or scored.error  # raised after all paid results are stored
        if failed is not None:
            raise failed

    async def work_of(
        self, factory: ModelJudgeFactory, resources: TurnResources, questions: Iterator[PreparedQuestion]
    ) -> _Work:
        work = _Work()
        places = {one.id: place for place, one in enumerate(self.candidates)}
        for prepared in questions:
            await asyncio.sleep(0)
            if prepared.pool.misses:
                work.turns[prepared.number] = (prepared.turn, prepared.key)
                work.slots = factory.slots(prepared.pool)
                guesses, remarks = await factory.guesses(resources, prepared.turn, prepared.pool)
                self._remark(remarks)
                work.chunks.extend(chunks_of_question(prepared, work.slots, factory.drafts.profile, guesses, places))
        return work

    def context(self, factory: ModelJudgeFactory, work: _Work, deadline: Deadline | None) -> ActorContext:
        left_s = deadline.judging_left_s() if deadline else None
        return ActorContext(
            job=self.job,
            spec=factory.spec,
            settings=self.parts.settings,
            capability=factory.capability,
            drafts=factory.drafts,
            identity=factory.identity,
            concurrency=max(1, factory.concurrency // self.count),
            candidates=self.candidates,
            texts=factory.texts(self.candidates),
            slots=work.slots,
            turns=work.turns,
            deadline_at=None if left_s is None else self.parts.clock() + left_s,
        )

    def _count(self, scored: ChunkResult, home: "_LocalStore") -> None:
        own = tuple(one for one in scored.unjudged if one.cause not in ENDS_ALL)
        ended = next((one for one in scored.unjudged if one.cause in ENDS_ALL), None)
        if ended is not None and self.end.cause is None:
            self.end.cause, self.end.detail = ended.cause, ended.detail
        self.end.judged += scored.paid
        self.unjudged += len(scored.unjudged)
        self._remark(scored.remarks)
        self.on_end(QuestionEnd(scored.question, scored.paid, own))
        self.progress.report(self.end.judged, self.unjudged, home.usage.spent(Stage.JUDGE))

    def _remark(self, remarks: Sequence[str]) -> None:
        self.end.remarks = list(dict.fromkeys([*self.end.remarks, *remarks]))


class _LocalStore:
    def __init__(self, parts: PipelineParts, job: str, commits: GroupCommit) -> None:
        self.usage = UsageTotals(Ledger(commits).record)
        self._judgments = StoredJudgments(commits, clock=parts.clock)
        self._budget = turn_budget(commits, turn_id=job, caps=Caps(), clock=parts.clock)

    async def keep(self, library: ActorContext, scored: ChunkResult) -> None:
        _, key = library.turns[scored.question]
        await self._judgments.writer(key, library.identity)(scored.kept)
        for call in scored.calls:
            self.usage.add(call)
        await self._budget.settle(await self._budget.reserve(scored.charged_usd), scored.charged_usd)
