"""A list judged by actors of Ray Data, on this machine or a cluster; this process keeps what they bring home.

Rows are packs of one question by their numbers; memories, texts and questions lie in Ray's object store once. Actors
share judgments, claims and limits through the server of `shared.url` (`ray_work`); here their judgments are written
into the local store, calls into its ledger and dollars into its caps, as a live run does. Memories of the user's own
stay here and are judged afterwards by this process. Trade-off: caps are looked at when the list is begun, and what
others spend meanwhile is not seen.
"""

import asyncio
from array import array
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from decimal import Decimal
from importlib.util import find_spec

from xscore import sealing
from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgment_store import StoredJudgments
from xscore.cost_reports.budget import TurnBudget
from xscore.cost_reports.caps import Caps
from xscore.cost_reports.ledger import Ledger
from xscore.errors import UsageError, XscoreError
from xscore.offline.agreeing import caps_left
from xscore.offline.job_desk import ENDS_ALL, JobDesk
from xscore.offline.job_progress import JobProgress
from xscore.offline.live import LiveEnd, QuestionEnd, judge_all
from xscore.offline.prepared import Memories, Prepared, prepare
from xscore.offline.ray_cluster import opened
from xscore.offline.ray_work import Chunk, Library, Scored
from xscore.pipeline.deadline import Deadline
from xscore.pipeline.judging import forgive
from xscore.pipeline.model_seat import ModelSeat
from xscore.pipeline.parts import Desk, Parts
from xscore.pipeline.tab import Tab
from xscore.records import Candidate, Cause, Layer, Stage, Turn
from xscore.records.offline import Question
from xscore.scorer.packs import Profile, to_send

CHUNK_CALLS = 512
"""Packs of one row: its calls end together, so a few of them would leave slots idle."""
WAVE = 4_000_000
"""Candidates of one pass over the actors: 48 MB of numbers."""

Told = Callable[[QuestionEnd], None]


def check(parts: Parts) -> None:
    """Raise UsageError where actors cannot judge lists of this repository."""
    if find_spec("ray") is None:
        raise UsageError("--engine ray needs the extra `ray`", hint="pip install 'xscore[ray]'")
    if not parts.settings.shared.url.get_secret_value():
        raise UsageError(
            "--engine ray needs a shared server, through which its actors know what is judged and paid for",
            hint="Set shared.url (XSCORE_SHARED_URL); or leave --engine out: --workers N is for this machine alone.",
        )
    if sealing.note_of(parts.store.path) is not None:
        raise UsageError(
            "--engine ray would lay memories of an encrypted store open, in files of Ray",
            hint="Leave --engine out; --workers N judges with several processes of this machine.",
        )


async def judge_by_ray(
    parts: Parts,
    job: str,
    questions: Sequence[Question],
    found: Memories,
    *,
    count: int,
    told: Told,
    progress: JobProgress,
    deadline: Deadline | None = None,
) -> LiveEnd:
    """Have actors judge what the cache lacks of a list; what they bring home is in the local store when it returns.

    count: of actors. Cancelled, it lets them go and returns; what they paid for is at the shared server. Raises what
    opening the judge raises, SharedUnavailable where the server cannot be asked, and StoreError.
    """
    assert isinstance(parts.judge, ModelSeat), "only a model is asked by actors"
    shared = found.of_repository()
    run = _RayRun(parts, job, shared.candidates, count, told, progress)
    try:
        await run.go(prepare(parts, enumerate(questions), shared), deadline)
    except asyncio.CancelledError:
        forgive(asyncio.current_task())
        run.end.cause = Cause.INTERRUPTED
    if run.end.cause is None and any(one.layer is Layer.USER for one in found.candidates):
        await run.at_home(prepare(parts, enumerate(questions), _of_user(found)), deadline)
    return run.end


def _of_user(found: Memories) -> Memories:
    return replace(found, candidates=tuple(one for one in found.candidates if one.layer is Layer.USER))


@dataclass(slots=True)
class _Wave:
    """Rows of one pass over the actors, and the questions they are of."""

    turns: dict[int, tuple[Turn, str]] = field(default_factory=dict)
    chunks: list[Chunk] = field(default_factory=list)
    slots: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    size: int = 0


@dataclass(slots=True)
class _RayRun:
    """One list under way."""

    parts: Parts
    job: str
    candidates: tuple[Candidate, ...]
    count: int
    told: Told
    progress: JobProgress
    end: LiveEnd = field(default_factory=LiveEnd)
    unjudged: int = 0

    async def go(self, questions: Iterator[Prepared], deadline: Deadline | None) -> None:
        """Judge by actors, a wave at a time."""
        parts = self.parts
        assert isinstance(parts.judge, ModelSeat)
        async with parts.open_desk(self.job) as desk:
            seat, _ = await parts.judge.acquainted(desk)
            wave = await self._wave(seat, desk, questions)
            if not wave.chunks:
                return
            cap = min((one.left_usd for one in caps_left(parts)), default=None)
            async with (
                opened(parts.settings.batch.ray_address) as cluster,
                GroupCommit(parts.store.path, parts.store.keys) as commits,
            ):
                home = _Home(parts, self.job, commits)
                while wave.chunks and self.end.cause is None:
                    left = None if cap is None else cap - home.cost_usd
                    library = self._library(seat, wave, deadline)
                    await self._judge(
                        cluster.scored(library, wave.chunks, count=self.count, cap_usd=left), library, home
                    )
                    wave = await self._wave(seat, desk, questions)

    async def _judge(self, stream: AsyncGenerator[Scored, None], library: Library, home: "_Home") -> None:
        """Take what comes; an error of one actor is raised once all that others have paid for is kept."""
        failed: XscoreError | None = None
        async with aclosing(stream):
            async for scored in stream:
                await home.keep(library, scored)
                self._took(scored, home)
                failed = failed or scored.error
        if failed is not None:
            raise failed

    async def at_home(self, questions: Iterator[Prepared], deadline: Deadline | None) -> None:
        """Judge what never leaves this process."""
        async with self.parts.open_desk(self.job) as desk:
            end = await judge_all(self.parts, JobDesk(desk), questions, told=self.told, deadline=deadline)
        self.end.cause, self.end.detail = end.cause, end.detail
        self.end.judged += end.judged
        self._remark(end.remarks)

    async def _wave(self, seat: ModelSeat, desk: Desk, questions: Iterator[Prepared]) -> _Wave:
        wave = _Wave()
        places = {one.id: place for place, one in enumerate(self.candidates)}
        for prepared in questions:
            await asyncio.sleep(0)
            if prepared.pool.misses:
                wave.turns[prepared.number] = (prepared.turn, prepared.key)
                wave.slots = seat.slots(prepared.pool)
                guesses, remarks = await seat.guesses(desk, prepared.turn, prepared.pool)
                self._remark(remarks)
                wave.chunks.extend(_chunks(prepared, wave.slots, seat.drafts.profile, guesses, places))
                wave.size += len(prepared.pool.misses)
            if wave.size >= WAVE:
                break
        return wave

    def _library(self, seat: ModelSeat, wave: _Wave, deadline: Deadline | None) -> Library:
        left_s = deadline.judging_left_s() if deadline else None
        return Library(
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

    def _took(self, scored: Scored, home: "_Home") -> None:
        own = tuple(one for one in scored.unjudged if one.cause not in ENDS_ALL)
        ended = next((one for one in scored.unjudged if one.cause in ENDS_ALL), None)
        if ended is not None and self.end.cause is None:
            self.end.cause, self.end.detail = ended.cause, ended.detail
        self.end.judged += scored.paid
        self.unjudged += len(scored.unjudged)
        self._remark(scored.remarks)
        self.told(QuestionEnd(scored.question, scored.paid, own))
        self.progress.tell(self.end.judged, self.unjudged, home.tab.spent(Stage.JUDGE))

    def _remark(self, remarks: Sequence[str]) -> None:
        self.end.remarks = list(dict.fromkeys([*self.end.remarks, *remarks]))


class _Home:
    """Where what actors bring is kept: judgments, calls and dollars, in the local store."""

    def __init__(self, parts: Parts, job: str, commits: GroupCommit) -> None:
        self.tab = Tab(Ledger(commits).record)
        self.cost_usd = Decimal(0)
        self._judgments = StoredJudgments(commits, clock=parts.clock)
        self._spending = TurnBudget(commits, turn_id=job, caps=Caps(), clock=parts.clock)

    async def keep(self, library: Library, scored: Scored) -> None:
        """Keep it; it is committed when this returns."""
        _, key = library.turns[scored.question]
        if scored.kept:
            await self._judgments.writer(key, library.identity)(scored.kept)
        for call in scored.calls:
            self.tab.add(call)
        for cost in (*(call.cost_usd for call in scored.calls), scored.bounds_usd):
            if cost:
                self.cost_usd += cost
                await self._spending.settle(await self._spending.reserve(cost), cost)


def _chunks(
    prepared: Prepared,
    slots: Mapping[str, tuple[str, int]],
    profile: Profile,
    guesses: Mapping[str, float],
    places: Mapping[str, int],
) -> Iterator[Chunk]:
    """Part a question's packs into rows, the most promising first, as one process would send them."""
    packs = to_send(prepared.pool.misses, slots, profile)
    packs.sort(key=lambda pack: -max(guesses.get(one.id, 0.0) for one in pack.members))
    for start in range(0, len(packs), CHUNK_CALLS):
        members = [one for pack in packs[start : start + CHUNK_CALLS] for one in pack.members]
        yield Chunk(
            prepared.number,
            array("I", [places[one.id] for one in members]),
            array("d", [guesses.get(one.id, 0.0) for one in members]),
        )
