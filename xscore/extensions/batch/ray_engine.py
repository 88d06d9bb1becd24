"""Judge a list with actors of Ray Data, on this machine or a cluster; this process stores their
results.

Rows are packs of one question by number; memories, texts and questions are in Ray's object store
once. Judgments go to the local store, calls to its ledger and dollars to its caps. The user's own
memories are judged here afterwards, and an encrypted store is refused: Ray's files may hold
memories. Trade-off: starting Ray takes seconds, and caps are read when the list begins, so what
others spend meanwhile is not seen.
"""

import asyncio
import logging
import os
import pickle
import sys
from array import array
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager, redirect_stdout, suppress
from decimal import Decimal
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgment_store import StoredJudgments
from xscore.costs.caps import Caps
from xscore.costs.ledger import Ledger, UsageTotals
from xscore.costs.reservation import turn_budget
from xscore.extensions.batch.ray_actor import ActorContext, ChunkResult, PackChunk
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.judge_prompts import caching_builder
from xscore.pipeline.judged_memories import judged_texts, judging_priors, pack_slots, packs_of
from xscore.pipeline.list_judging import LiveEnd, QuestionEnd, judge_list
from xscore.pipeline.live_judging import ENDS_ALL, JudgingProgress
from xscore.pipeline.model_opening import with_probed_host
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.question_list import (
    ListMemories,
    PreparedQuestion,
    Question,
    list_caps_left,
    prepare_questions,
)
from xscore.pipeline.resources import TurnResources
from xscore.pipeline.turn_clock import Deadline
from xscore.platform import sqlite_drivers
from xscore.platform.errors import StoreError, UsageError, XscoreError
from xscore.platform.event_loop import clear_cancellation
from xscore.platform.extras import require_extra
from xscore.records.calls import Stage
from xscore.records.candidates import Candidate, Slots
from xscore.records.judgment import UnjudgedCause
from xscore.records.memory import Layer
from xscore.records.turn import Turn
from xscore.scorer.packs import Pack

LOCAL = "local"
LOCAL_STARTS = 2
"""How many times Ray is started on this machine before giving up."""
CPUS = 0.25
"""CPUs of one actor, which mostly waits: if each took a whole one, none would be left for its
feeding tasks, and a list would hang."""
BLOCKS_AN_ACTOR = 64
CHUNK_CALLS = 512
"""Packs of one row. Its calls end together, so with few of them slots would be idle."""


@asynccontextmanager
async def _cluster(address: str) -> AsyncIterator[Any]:
    """Start Ray, or join the cluster at this address, while it is needed; yields its module.

    Raises UsageError.
    """
    # Ray reports dead workers on stdout, which is for our data.
    with redirect_stdout(sys.stderr):
        starting = asyncio.create_task(asyncio.to_thread(_start_ray, address))
        try:
            ray = await asyncio.shield(starting)
        except asyncio.CancelledError:
            with suppress(XscoreError):  # nothing was started then
                _stop_ray(await starting)
            raise
        try:
            yield ray
        finally:
            _stop_ray(ray)


def _start_ray(address: str) -> Any:
    # Ray reads it as it starts, and has no argument for it.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # What is released after Ctrl-C would start another Ray.
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    import ray  # an extra

    is_local = address == LOCAL
    options: dict[str, Any] = {"include_dashboard": False} if is_local else {}
    # Ray gives its own helper processes 15 s, which a busy machine exceeds
    # (https://github.com/ray-project/ray/issues/65983); the second start finds their files read.
    starts_left = LOCAL_STARTS if is_local else 1
    while True:
        starts_left -= 1
        try:
            ray.init(
                address=address, logging_level=logging.ERROR, log_to_driver=False, **options
            )
            break
        except Exception as error:  # Ray raises this very class for a node that starts too late
            ray.shutdown()  # of what was started halfway
            if not starts_left:
                raise UsageError(
                    f"Ray cannot be started or reached at `{address}`",
                    hint=(
                        "On a busy machine, try again. Otherwise set batch.ray_address to"
                        " `local` or to a running cluster's address, or leave --ray out."
                    ),
                ) from error
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    return ray


def _stop_ray(ray: Any) -> None:
    """Stop the actors, and Ray if it was started here."""
    # Ray logs what it cannot tidy up once all of it is gone.
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    ray.shutdown()


async def _scored(
    ray: Any,
    context: ActorContext,
    chunks: Iterable[PackChunk],
    *,
    count: int,
    cap_usd: Decimal | None,
) -> AsyncGenerator[ChunkResult, None]:
    """Yield the result of each chunk, in any order. Raises StoreError if Ray fails.

    count: number of actors.
    cap_usd: what they may spend altogether; None: as much as it takes.
    """
    from xscore.extensions.batch.ray_worker import ListActor  # it imports Ray, an extra

    rows = [{"chunk": pickle.dumps(chunk)} for chunk in chunks]
    try:
        if cap_usd is None:
            dollars = None
        else:
            dollars = ray.remote(num_cpus=0)(_SharedCap).remote(cap_usd)
        dataset = ray.data.from_items(
            rows, override_num_blocks=min(len(rows), BLOCKS_AN_ACTOR * count)
        ).map_batches(
            ListActor,
            batch_size=1,
            batch_format="numpy",
            compute=ray.data.ActorPoolStrategy(size=count),
            num_cpus=CPUS,
            fn_constructor_args=(ray.put(context), dollars),
        )
        stream = iter(dataset.iter_rows())
        while (row := await asyncio.to_thread(next, stream, None)) is not None:
            yield pickle.loads(row["scored"])  # noqa: S301  it was pickled by our own actor
    except ray.exceptions.RayError as error:
        message_lines = str(error).strip().splitlines() or [type(error).__name__]
        raise StoreError(
            f"Ray failed: {type(error).__name__}: {message_lines[-1][:200]}",
            hint=(
                "Run the same again: what was judged is kept. See Ray's own logs, or leave --ray"
                " out."
            ),
        ) from error


class _SharedCap:
    def __init__(self, left_usd: Decimal) -> None:
        self._left = left_usd

    def take(self, usd: Decimal) -> bool:
        """Reserve dollars, or return them if negative; False if they do not fit."""
        fits = usd <= max(self._left, Decimal(0))
        self._left -= usd if fits else Decimal(0)
        return fits


def check_ray_usable(parts: PipelineParts) -> None:
    """Raise UsageError if actors cannot judge lists of this repository."""
    require_extra("ray", "ray", purpose="--ray")
    if not parts.settings.shared.url.reveal():
        raise UsageError(
            "--ray needs a shared server, through which its actors know what is judged and"
            " paid for",
            hint="Set shared.url (XSCORE_SHARED_URL); or leave --ray out.",
        )
    if sqlite_drivers.read_note(parts.store.path) is not None:
        raise UsageError(
            "--ray would write memories of an encrypted store to Ray's plain files",
            hint="Leave --ray out.",
        )


async def judge_by_ray(
    parts: PipelineParts,
    job: str,
    questions: Sequence[Question],
    memories: ListMemories,
    *,
    count: int,
    on_end: Callable[[QuestionEnd], None],
    progress: JudgingProgress,
    deadline: Deadline,
) -> LiveEnd:
    """Let actors judge a list's uncached candidates; their results are in the local store on
    return.

    count: number of actors. Cancelled, it lets them go and returns; what they paid for is at
        the shared server. Raises what opening the judge raises, SharedUnavailable where the
        server cannot be asked, and StoreError.
    """
    shared = memories.of_repository()
    end = LiveEnd()
    run = _RayRun(parts, job, shared.candidates, count, on_end, progress, end)
    try:
        await run.judge(prepare_questions(parts, enumerate(questions), shared), deadline)
    except asyncio.CancelledError:
        clear_cancellation()
        end.cause = UnjudgedCause.INTERRUPTED
    user_memories = tuple(
        candidate for candidate in memories.candidates if candidate.layer is Layer.USER
    )
    if end.cause is not None or not user_memories:
        return end
    # the user's own memories never leave this process
    local = prepare_questions(
        parts, enumerate(questions), replace(memories, candidates=user_memories)
    )
    last = await judge_list(
        parts, job, local, progress=progress, on_end=on_end, deadline=deadline
    )
    last.remarks = list(dict.fromkeys([*end.remarks, *last.remarks]))
    last.judged = end.judged + last.judged
    last.spent = end.spent + last.spent
    return last


class _RayRun(Struct):
    parts: PipelineParts
    job: str
    candidates: tuple[Candidate, ...]
    count: int
    on_end: Callable[[QuestionEnd], None]
    progress: JudgingProgress
    end: LiveEnd
    unjudged: int = 0

    async def judge(self, questions: Iterator[PreparedQuestion], deadline: Deadline) -> None:
        parts = self.parts
        assert parts.judge.batches_memories, "actors only ask models"
        async with parts.open_resources(self.job) as resources:
            judge, _ = await with_probed_host(parts.judge, resources)
            context, chunks = await self.prepared(judge, resources, questions, deadline)
            if not chunks:
                return
            cap = min((cap_left.left_usd for cap_left in list_caps_left(parts)), default=None)
            async with (
                _cluster(parts.settings.batch.ray_address) as ray,
                GroupCommit(parts.store.path, parts.store.keys, create=False) as commits,
                aclosing(
                    _scored(ray, context, chunks, count=self.count, cap_usd=cap)
                ) as stream,
            ):
                usage = UsageTotals(Ledger(commits).record)
                failed = None
                try:
                    async for scored in stream:
                        await self._keep(scored, context, commits, usage)
                        # Raised after all paid results are stored.
                        failed = failed or scored.error
                finally:
                    self.end.spent = resources.usage.whole() + usage.whole()
        if failed is not None:
            raise failed

    async def prepared(
        self,
        judge: JudgeDescription,
        resources: TurnResources,
        questions: Iterator[PreparedQuestion],
        deadline: Deadline,
    ) -> tuple[ActorContext, list[PackChunk]]:
        """Return the actors' common context, and the rows: packs of one question, the most
        promising first."""
        turns: dict[int, tuple[Turn, str]] = {}
        chunks: list[PackChunk] = []
        slots: Slots = {}
        places = {candidate.id: place for place, candidate in enumerate(self.candidates)}
        for prepared in questions:
            # A list may have thousands of questions: Ctrl-C is handled between two of them.
            await asyncio.sleep(0)
            if not prepared.pool.misses:
                continue
            turns[prepared.number] = (prepared.turn, prepared.key)
            slots = pack_slots(judge, prepared.pool)
            priors = await judging_priors(judge, resources, prepared.turn, prepared.pool)
            self._remark(priors.warnings)
            packs = packs_of(judge, prepared.pool)
            chunks += _chunks_of(prepared.number, packs, priors.words, places)
        context = ActorContext(
            job=self.job,
            spec=judge.spec,
            settings=self.parts.settings,
            capability=judge.capability,
            builder=caching_builder(judge),
            identity=judge.identity,
            concurrency=max(1, judge.concurrency // self.count),
            candidates=self.candidates,
            texts=judged_texts(judge, self.candidates),
            slots=slots,
            turns=turns,
            deadline_at=self.parts.clock() + deadline.judging_left_s(),
        )
        return context, chunks

    async def _keep(
        self,
        scored: ChunkResult,
        context: ActorContext,
        commits: GroupCommit,
        usage: UsageTotals,
    ) -> None:
        """Store an actor's judgments and costs, and count them."""
        clock = self.parts.clock
        end = self.end
        _, key = context.turns[scored.question]
        await StoredJudgments(commits, clock=clock).writer(key, context.identity)(scored.kept)
        for call in scored.calls:
            usage.add(call)
        # The actor has spent these within its own share of the caps: they are charged in any case.
        budget = turn_budget(commits, turn_id=self.job, caps=Caps(), clock=clock)
        await budget.settle(await budget.reserve(scored.charged_usd), scored.charged_usd)
        ended = next((miss for miss in scored.unjudged if miss.cause in ENDS_ALL), None)
        if ended is not None and end.cause is None:
            end.cause = ended.cause
            end.detail = ended.detail
        end.judged += scored.paid
        self.unjudged += len(scored.unjudged)
        self._remark(scored.remarks)
        unjudged = tuple(miss for miss in scored.unjudged if miss.cause not in ENDS_ALL)
        self.on_end(QuestionEnd(scored.question, scored.paid, unjudged))
        self.progress.report(end.judged, self.unjudged, usage.spent(Stage.JUDGE))

    def _remark(self, remarks: Sequence[str]) -> None:
        self.end.remarks = list(dict.fromkeys([*self.end.remarks, *remarks]))


def _chunks_of(
    question: int,
    packs: Sequence[Pack],
    guesses: Mapping[str, float],
    places: Mapping[str, int],
) -> Iterator[PackChunk]:
    """Yield the packs of a question in rows of `CHUNK_CALLS`, the most promising first."""

    def best_guess(pack: Pack) -> float:
        return max(guesses.get(member.id, 0.0) for member in pack.members)

    ordered = sorted(packs, key=best_guess, reverse=True)
    for start in range(0, len(ordered), CHUNK_CALLS):
        members: list[str] = []
        for pack in ordered[start : start + CHUNK_CALLS]:
            members += [member.id for member in pack.members]
        chunk_places = array("I", [places[member] for member in members])
        priors = array("d", [guesses.get(member, 0.0) for member in members])
        yield PackChunk(question, chunk_places, priors)
