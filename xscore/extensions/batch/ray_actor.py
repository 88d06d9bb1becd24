"""One judging actor: takes packs of a question and returns judgments, through the shared server and
without a store.

It knows nothing of Ray. Each judgment is at the shared server before the slot of its call is freed,
so an actor that is killed pays again at most for what was in flight. Dollars come from what all
actors may spend and from the tenant's day.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from math import inf

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.judgment_store import Claims, WriteJudgments
from xscore.cache.keys import FIRST_DRAW
from xscore.costs.ledger import UsageTotals
from xscore.costs.reservation import Budget, Reservation
from xscore.pipeline.live_judging import ENDS_ALL
from xscore.pipeline.resources import SpendingStores, TurnResources, joined_resources
from xscore.platform.errors import BudgetExhausted, XscoreError
from xscore.providers.prices import PriceList
from xscore.providers.provider import Adaptable
from xscore.providers.spec import ModelSpec, connect_provider, import_http_client
from xscore.records.calls import CallRecord, Capability
from xscore.records.candidates import Candidate, Slots
from xscore.records.judgment import JudgeIdentity, Judgment, Unjudged, UnjudgedCause
from xscore.records.turn import Turn
from xscore.scorer.claiming import NoClaims
from xscore.scorer.fanout import StopSignal, workers_for
from xscore.scorer.model_judge import JudgingPlan, ModelJudge
from xscore.scorer.prompt_builder import PromptBuilder
from xscore.settings import Settings

LEAST_TIMEOUT_S = 30.0
"""Deadline of an actor's request to the shared server, unless `shared.timeout_s` is longer."""


class ActorContext(Struct, frozen=True, kw_only=True):
    """What is the same for every actor and the whole list."""

    job: str
    spec: ModelSpec
    settings: Settings
    capability: Capability | None
    builder: PromptBuilder
    identity: JudgeIdentity
    concurrency: int
    candidates: tuple[Candidate, ...]
    texts: Mapping[str, str]
    slots: Slots
    turns: Mapping[int, tuple[Turn, str]]
    """Question -> how it is asked, and its turn key."""
    deadline_at: float
    """Unix seconds; infinite: there is no deadline."""


class PackChunk(Struct, frozen=True):
    """Some packs of one question."""

    question: int
    places: Sequence[int]
    """Places of the packs' members among the candidates of the context."""
    priors: Sequence[float]


class ChunkResult(Struct, kw_only=True):
    """The result of a chunk."""

    question: int
    unjudged: list[Unjudged] = field(default_factory=list)
    kept: list[Judgment] = field(default_factory=list)
    """Judgments of memories and parts, ready to store."""
    paid: int = 0
    """Number of memories paid for by a call here."""
    calls: list[CallRecord] = field(default_factory=list)
    charged_usd: Decimal = Decimal(0)
    remarks: tuple[str, ...] = ()
    error: XscoreError | None = None
    """The error that ended the work; earlier results are still included."""


TakeDollars = Callable[[Decimal], Awaitable[bool]]
"""Reserves dollars from the actors' shared cap, or returns negative ones. False: there is no
room."""


class _Carried(Struct):
    judgments: list[Judgment]

    def writer(
        self, turn_key: str, judge: JudgeIdentity, draw: int = FIRST_DRAW
    ) -> WriteJudgments:
        async def write(judgments: Sequence[Judgment]) -> None:
            self.judgments.extend(judgments)

        return write

    def claims(self, turn_key: str, judge: JudgeIdentity, draw: int = FIRST_DRAW) -> Claims:
        return NoClaims()


class _CommonDollars(Struct):
    take: TakeDollars | None
    charged: Decimal = Decimal(0)

    async def check(self) -> None:
        pass

    async def set_aside(self, reservation: Reservation, usd: Decimal) -> bool:
        if self.take is None:
            return False
        missing = usd - reservation.available
        if not await self.take(missing):
            raise BudgetExhausted(
                f"the next call may cost ${usd:f}, and less is left of the caps that held when the"
                " list was begun",
                hint="Raise --max-usd or the other caps, and run the same again.",
            )
        reservation.held += missing
        return True

    async def report(self, reservation: Reservation) -> None:
        spent = reservation.unreported
        freed = reservation.held - reservation.needed
        reservation.held = reservation.needed
        reservation.reported = reservation.spent
        self.charged += spent
        if self.take is not None and freed != spent:
            await self.take(spent - freed)


class ChunkJudge:
    """Judges chunk after chunk."""

    def __init__(
        self,
        context: ActorContext,
        *,
        take: TakeDollars | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """take: None without a cap.
        clock: Unix seconds.
        """
        self._context = context
        self._take = take
        self._clock = clock
        # Actors fill their machine, and only the server tells one what another has paid for, so
        # none goes on without it. The deadline of an `ask`, two seconds, would end a run of hours
        # because a busy actor reads an answer late.
        shared = context.settings.shared
        timeout_s = max(shared.timeout_s, LEAST_TIMEOUT_S)
        self._settings = replace(
            context.settings, shared=replace(shared, require=True, timeout_s=timeout_s)
        )
        self._ended: tuple[UnjudgedCause, str] | None = None

    async def score(self, chunk: PackChunk) -> ChunkResult:
        """Judge what has no judgment; every memory has a result, unless an error ended the
        chunk."""
        members = [self._context.candidates[place] for place in chunk.places]
        scored = ChunkResult(question=chunk.question)
        if self._ended is not None:
            scored.unjudged = [
                Unjudged(member.content_hash, *self._ended) for member in members
            ]
            return scored
        dollars = _CommonDollars(self._take)
        try:
            await import_http_client(self._context.spec.provider)
            budget = Budget(dollars, clock=self._clock)
            usage = UsageTotals(scored.calls.append)
            spending = SpendingStores(_Carried(scored.kept), budget)
            offered = TurnResources(
                settings=self._settings,
                spending=spending,
                usage=usage,
                turn_id=self._context.job,
                price_of=PriceList(self._settings.provider.price),
                clock=self._clock,
            )
            async with joined_resources(offered) as resources:
                judge = self._judge(resources, chunk, members)
                async for result in judge.judge(
                    self._context.turns[chunk.question][0], members
                ):
                    if isinstance(result, Unjudged):
                        scored.unjudged.append(result)
                    else:
                        scored.paid += result.content_hash not in judge.judged_elsewhere
                scored.remarks = judge.warnings()
        except XscoreError as error:
            scored.error = error
        scored.charged_usd = dollars.charged
        return scored

    def _judge(
        self, resources: TurnResources, chunk: PackChunk, members: Sequence[Candidate]
    ) -> ModelJudge:
        context = self._context
        key = self._context.turns[chunk.question][1]
        provider = connect_provider(context.spec, self._settings)
        capability = context.capability
        if isinstance(provider, Adaptable) and capability is not None:
            provider.adopt(capability)
        line = resources.judging_provider(
            provider,
            model=context.spec.model,
            concurrency=context.concurrency,
            stated=capability.limits if capability else None,
        )
        stop = StopSignal(lambda: self._stopped(stop, resources))
        if context.deadline_at < inf:
            left_s = max(0.0, context.deadline_at - self._clock())
            asyncio.get_running_loop().call_later(left_s, stop.set, UnjudgedCause.DEADLINE)
        judgments = resources.spending.judgments
        member_ids = [member.id for member in members]
        plan = JudgingPlan(
            texts=self._texts,
            write=judgments.writer(key, context.identity),
            slots=context.slots,
            priors=dict(zip(member_ids, chunk.priors, strict=True)),
            claims=judgments.claims(key, context.identity),
            concurrency=workers_for(context.concurrency),
            sees=self._settings.judge.sees,
            stop=stop,
        )
        return ModelJudge(line, context.builder, plan)

    def _texts(self, members: Sequence[Candidate]) -> dict[str, str]:
        texts = self._context.texts
        return {member.id: texts[member.id] for member in members if member.id in texts}

    def _stopped(self, stop: StopSignal, resources: TurnResources) -> None:
        if stop.cause in ENDS_ALL and self._ended is None:
            self._ended = (stop.cause, stop.detail)
            resources.halt_queued_calls()
