"""A list judged by actors of Ray Data, on this machine or a cluster; this process keeps what they bring.

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
from contextlib import aclosing, asynccontextmanager, contextmanager, redirect_stdout, suppress
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
from xscore.extensions.batch.list_plan import ListProgress
from xscore.extensions.batch.ray_actor import (
    ActorBudget,
    ActorContext,
    ChunkJudge,
    ChunkResult,
    PackChunk,
    chunks_of_question,
)
from xscore.pipeline.judging import Deadline, take_back_cancellation
from xscore.pipeline.list_judging import ENDS_ALL, ListResources, LiveEnd, QuestionEnd, judge_list
from xscore.pipeline.model_factory import ModelJudgeFactory
from xscore.pipeline.parts import PipelineParts, TurnResources
from xscore.pipeline.question_list import ListMemories, PreparedQuestion, list_caps_left, prepare_questions
from xscore.platform import sqlite_drivers
from xscore.platform.errors import StoreError, UsageError, XscoreError
from xscore.records import Candidate, Layer, Stage, Turn, UnjudgedCause
from xscore.records.batch import Question

LOCAL = "local"
CPUS = 0.25
"""Of one actor, which mostly waits: whole ones would leave none for the tasks that feed them, and a list would hang."""
BLOCKS_AN_ACTOR = 64


@asynccontextmanager
async def open_cluster(address: str) -> "AsyncIterator[RayCluster]":
    """Start a Ray of one's own, or join the one at this address, for as long as it is needed. Raises UsageError."""
    with redirect_stdout(sys.stderr):  # Ray tells there of a worker that died; what we print there is data
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
        self, library: ActorContext, chunks: Iterable[PackChunk], *, count: int, cap_usd: Decimal | None
    ) -> AsyncGenerator[ChunkResult, None]:
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
            scored: ChunkResult = pickle.loads(row["scored"])  # noqa: S301  it was pickled by our own actor
            yield scored

    def _stream(
        self, rows: list[dict[str, bytes]], library: ActorContext, count: int, cap_usd: Decimal | None
    ) -> Iterator[dict[str, bytes]]:
        ray = self._ray
        purse = None if cap_usd is None else ray.remote(num_cpus=0)(_BudgetActor).remote(cap_usd)
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
        self._scorer = self._runner.run(_made(ray.get(library), None if purse is None else _RemoteBudget(purse)))

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        import numpy as np

        found = np.empty(len(batch["chunk"]), dtype=object)
        found[:] = [pickle.dumps(self._scored(pickle.loads(chunk))) for chunk in batch["chunk"]]  # noqa: S301  our own
        return {"scored": found}

    def _scored(self, chunk: PackChunk) -> ChunkResult:
        return self._runner.run(self._scorer.score(chunk))


async def _made(library: ActorContext, purse: ActorBudget | None) -> ChunkJudge:
    return ChunkJudge(library, purse=purse)


class _BudgetActor:
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


class _RemoteBudget:
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


WAVE = 4_000_000
"""Candidates of one pass over the actors: 48 MB of numbers."""

OnQuestionEnd = Callable[[QuestionEnd], None]


def check_ray_usable(parts: PipelineParts) -> None:
    """Raise UsageError where actors cannot judge lists of this repository."""
    if find_spec("ray") is None:
        raise UsageError("--engine ray needs the extra `ray`", hint="pip install 'xscore[ray]'")
    if not parts.settings.shared.url.reveal():
        raise UsageError(
            "--engine ray needs a shared server, through which its actors know what is judged and paid for",
            hint="Set shared.url (XSCORE_SHARED_URL); or leave --engine out.",
        )
    if sqlite_drivers.read_note(parts.store.path) is not None:
        raise UsageError(
            "--engine ray would lay memories of an encrypted store open, in files of Ray",
            hint="Leave --engine out.",
        )


async def judge_by_ray(
    parts: PipelineParts,
    job: str,
    questions: Sequence[Question],
    found: ListMemories,
    *,
    count: int,
    told: OnQuestionEnd,
    progress: ListProgress,
    deadline: Deadline | None = None,
) -> LiveEnd:
    """Have actors judge what the cache lacks of a list; what they bring home is in the local store when it returns.

    count: of actors. Cancelled, it lets them go and returns; what they paid for is at the shared server. Raises what
    opening the judge raises, SharedUnavailable where the server cannot be asked, and StoreError.
    """
    assert isinstance(parts.judge, ModelJudgeFactory), "only a model is asked by actors"
    shared = found.of_repository()
    run = _RayRun(parts, job, shared.candidates, count, told, progress)
    try:
        await run.go(prepare_questions(parts, enumerate(questions), shared), deadline)
    except asyncio.CancelledError:
        take_back_cancellation(asyncio.current_task())
        run.end.cause = UnjudgedCause.INTERRUPTED
    if run.end.cause is None and any(one.layer is Layer.USER for one in found.candidates):
        await run.at_home(prepare_questions(parts, enumerate(questions), _user_memories(found)), deadline)
    return run.end


def _user_memories(found: ListMemories) -> ListMemories:
    return replace(found, candidates=tuple(one for one in found.candidates if one.layer is Layer.USER))


class _Wave(Struct):
    """Rows of one pass over the actors, and the questions they are of."""

    turns: dict[int, tuple[Turn, str]] = field(default_factory=dict)
    chunks: list[PackChunk] = field(default_factory=list)
    slots: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    size: int = 0


class _RayRun(Struct):
    """One list under way."""

    parts: PipelineParts
    job: str
    candidates: tuple[Candidate, ...]
    count: int
    told: OnQuestionEnd
    progress: ListProgress
    end: LiveEnd = field(default_factory=LiveEnd)
    unjudged: int = 0

    async def go(self, questions: Iterator[PreparedQuestion], deadline: Deadline | None) -> None:
        """Judge by actors, a wave at a time."""
        parts = self.parts
        assert isinstance(parts.judge, ModelJudgeFactory)
        async with parts.open_resources(self.job) as resources:
            seat, _ = await parts.judge.with_probed_host(resources)
            wave = await self._wave(seat, resources, questions)
            if not wave.chunks:
                return
            cap = min((one.left_usd for one in list_caps_left(parts)), default=None)
            async with (
                open_cluster(parts.settings.batch.ray_address) as cluster,
                GroupCommit(parts.store.path, parts.store.keys) as commits,
            ):
                home = _LocalStore(parts, self.job, commits)
                while wave.chunks and self.end.cause is None:
                    left = None if cap is None else cap - home.cost_usd
                    library = self._library(seat, wave, deadline)
                    await self._judge(
                        cluster.scored(library, wave.chunks, count=self.count, cap_usd=left), library, home
                    )
                    wave = await self._wave(seat, resources, questions)

    async def _judge(
        self, stream: AsyncGenerator[ChunkResult, None], library: ActorContext, home: "_LocalStore"
    ) -> None:
        """Take what comes; an error of one actor is raised once all that others have paid for is kept."""
        failed: XscoreError | None = None
        async with aclosing(stream):
            async for scored in stream:
                await home.keep(library, scored)
                self._took(scored, home)
                failed = failed or scored.error
        if failed is not None:
            raise failed

    async def at_home(self, questions: Iterator[PreparedQuestion], deadline: Deadline | None) -> None:
        """Judge what never leaves this process."""
        async with self.parts.open_resources(self.job) as resources:
            end = await judge_list(self.parts, ListResources(resources), questions, told=self.told, deadline=deadline)
        self.end.cause, self.end.detail = end.cause, end.detail
        self.end.judged += end.judged
        self._remark(end.remarks)

    async def _wave(
        self, seat: ModelJudgeFactory, resources: TurnResources, questions: Iterator[PreparedQuestion]
    ) -> _Wave:
        wave = _Wave()
        places = {one.id: place for place, one in enumerate(self.candidates)}
        for prepared in questions:
            await asyncio.sleep(0)
            if prepared.pool.misses:
                wave.turns[prepared.number] = (prepared.turn, prepared.key)
                wave.slots = seat.slots(prepared.pool)
                guesses, remarks = await seat.guesses(resources, prepared.turn, prepared.pool)
                self._remark(remarks)
                wave.chunks.extend(chunks_of_question(prepared, wave.slots, seat.drafts.profile, guesses, places))
                wave.size += len(prepared.pool.misses)
            if wave.size >= WAVE:
                break
        return wave

    def _library(self, seat: ModelJudgeFactory, wave: _Wave, deadline: Deadline | None) -> ActorContext:
        left_s = deadline.judging_left_s() if deadline else None
        return ActorContext(
            job=self.job,
            spec=seat.spec,
            settings=self.parts.settings,
            capability=seat.capability,
            drafts=seat.drafts,
            identity=seat.identity,
            concurrency=max(1, seat.concurrency // self.count),
            candidates=self.candidates,
            texts=seat.texts(self.candidates),
            slots=wave.slots,
            turns=wave.turns,
            deadline_at=None if left_s is None else self.parts.clock() + left_s,
        )

    def _took(self, scored: ChunkResult, home: "_LocalStore") -> None:
        own = tuple(one for one in scored.unjudged if one.cause not in ENDS_ALL)
        ended = next((one for one in scored.unjudged if one.cause in ENDS_ALL), None)
        if ended is not None and self.end.cause is None:
            self.end.cause, self.end.detail = ended.cause, ended.detail
        self.end.judged += scored.paid
        self.unjudged += len(scored.unjudged)
        self._remark(scored.remarks)
        self.told(QuestionEnd(scored.question, scored.paid, own))
        self.progress.report(self.end.judged, self.unjudged, home.usage.spent(Stage.JUDGE))

    def _remark(self, remarks: Sequence[str]) -> None:
        self.end.remarks = list(dict.fromkeys([*self.end.remarks, *remarks]))


class _LocalStore:
    """Where what actors bring is kept: judgments, calls and dollars, in the local store."""

    def __init__(self, parts: PipelineParts, job: str, commits: GroupCommit) -> None:
        self.usage = UsageTotals(Ledger(commits).record)
        self.cost_usd = Decimal(0)
        self._judgments = StoredJudgments(commits, clock=parts.clock)
        self._spending = turn_budget(commits, turn_id=job, caps=Caps(), clock=parts.clock)

    async def keep(self, library: ActorContext, scored: ChunkResult) -> None:
        """Keep it; it is committed when this returns."""
        _, key = library.turns[scored.question]
        if scored.kept:
            await self._judgments.writer(key, library.identity)(scored.kept)
        for call in scored.calls:
            self.usage.add(call)
        for cost in (*(call.cost_usd for call in scored.calls), scored.bounds_usd):
            if cost:
                self.cost_usd += cost
                await self._spending.settle(await self._spending.reserve(cost), cost)
