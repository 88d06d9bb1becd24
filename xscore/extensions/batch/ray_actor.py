"""What one judging actor does: packs of a question in, judgments out, through the shared server and without a store.

It knows nothing of Ray. Each judgment is at the shared server before the slot of its call is freed, so an actor that is
killed pays again at most for what was in flight. Dollars come from a budget that all actors share and from the tenant's
day. Trade-off: near the cap a call is refused without waiting for those in flight, so a list may end some cents early.
"""

import asyncio
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

from msgspec import Struct

from xscore.cache.judgment_store import Claims, WriteJudgments
from xscore.cache.keys import judge_key
from xscore.extensions.shared.connect import server_factory
from xscore.extensions.shared.judgments import Outbox, SharedClaims
from xscore.extensions.shared.limits import SharedBudget, SharedRates
from xscore.extensions.shared.link import ServerLink
from xscore.pipeline.list_judging import ENDS_ALL
from xscore.pipeline.question_list import PreparedQuestion
from xscore.platform.errors import BudgetExhausted, XscoreError
from xscore.providers.attempts import Metered, Retrying
from xscore.providers.limits import DollarBudget, Limited
from xscore.providers.prices import call_price
from xscore.providers.provider import Adaptable
from xscore.providers.rate_limits import LocalRates, bucket_name
from xscore.providers.spec import ModelSpec, connect_provider, import_sdk
from xscore.records import CallRecord, Candidate, Capability, JudgeIdentity, Judgment, Turn, Unjudged, UnjudgedCause
from xscore.scorer.claiming import NoClaims
from xscore.scorer.drafts import PromptDrafts
from xscore.scorer.fanout import StopSignal, workers_for
from xscore.scorer.model_judge import ModelJudge
from xscore.scorer.packs import PackProfile, packs_to_send
from xscore.settings import Settings

ACTOR_LEASE_S = 15.0
"""Without a sign of life for so long the claims of an actor are taken over."""

CHUNK_CALLS = 512
"""Packs of one row: its calls end together, so a few of them would leave slots idle."""


class ActorContext(Struct, frozen=True, kw_only=True):
    """What every actor holds: the same for the whole list."""

    job: str
    spec: ModelSpec
    settings: Settings
    capability: Capability | None
    drafts: PromptDrafts
    identity: JudgeIdentity
    concurrency: int
    """Most calls in flight of one actor."""
    candidates: tuple[Candidate, ...]
    texts: Mapping[str, str]
    """By memory id."""
    slots: Mapping[str, tuple[str, int]]
    turns: Mapping[int, tuple[Turn, str]]
    """Question -> how it is asked, and its turn key."""
    deadline_at: float | None
    """Unix seconds."""


class PackChunk(Struct, frozen=True):
    """Some packs of one question."""

    question: int
    places: Sequence[int]
    """Of its members among the candidates of the library."""
    priors: Sequence[float]
    """Of each."""


class ChunkResult(Struct, frozen=True):
    """What became of a chunk."""

    question: int
    kept: tuple[Judgment, ...]
    """Of memories and of parts, as they are to be kept."""
    paid: int
    """Memories among them that a call was made for here."""
    unjudged: tuple[Unjudged, ...]
    calls: tuple[CallRecord, ...]
    remarks: tuple[str, ...]
    bounds_usd: Decimal = Decimal(0)
    """Of calls that did not tell what they cost: what was set aside for them stays charged."""
    error: XscoreError | None = None
    """What ended it; what was paid for until then is here all the same."""


class ActorBudget(Protocol):
    """Dollars that all actors take from."""

    async def take(self, usd: Decimal) -> bool:
        """Set a bound aside; False where it does not fit."""
        ...

    async def put_back(self, usd: Decimal) -> None:
        """Give back what a call did not cost."""
        ...


class ChunkJudge:
    """Judges chunk after chunk."""

    def __init__(
        self, library: ActorContext, *, purse: ActorBudget | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """purse: None where no cap holds. clock: Unix seconds."""
        settings = library.settings
        self._library, self._clock = library, clock
        self._calls: list[CallRecord] = []
        self._ended: tuple[UnjudgedCause, str] | None = None
        link = ServerLink(server_factory(settings.shared), require=True, timeout_s=settings.shared.timeout_s)
        self._link, self._store = link, _SharedJudgments(link)
        provider = connect_provider(library.spec, settings)
        if isinstance(provider, Adaptable) and library.capability is not None:
            provider.adopt(library.capability)
        judging, stated = settings.judge, library.capability.limits if library.capability else None
        self._rates = SharedRates(
            LocalRates(rpm=judging.rpm, tpm=judging.tpm, remembered=stated),
            link,
            bucket=bucket_name(provider, model=library.spec.model),
        )
        metered = Metered(provider, turn_id=library.job, record=self._calls.append, price=call_price, clock=clock)
        self._caps, cap_usd = _BudgetOfActors(purse), settings.shared.max_usd_day
        self._dollars = None if cap_usd is None else SharedBudget(self._caps, link, cap_usd=cap_usd, clock=clock)
        budget: DollarBudget = self._dollars or self._caps
        self._limited = Limited(
            metered,
            concurrency=library.concurrency,
            budget=budget,
            rates=self._rates,
        )
        self._line = Retrying(self._limited, attempts=judging.attempts, sleep=self._limited.sleep)

    async def score(self, chunk: PackChunk) -> ChunkResult:
        """Judge what nobody has judged yet; every memory has its result, unless an error ended it."""
        library = self._library
        members = [library.candidates[place] for place in chunk.places]
        if self._ended is not None:
            cause, detail = self._ended
            lost = tuple(Unjudged(member.content_hash, cause, detail) for member in members)
            return ChunkResult(chunk.question, (), 0, lost, (), ())
        turn, key = library.turns[chunk.question]
        stop = StopSignal(lambda: self._heard(stop))
        judge = self._judge(chunk, members, key, stop)
        timer = self._timer(stop)
        unjudged: list[Unjudged] = []
        judged: set[str] = set()
        ended: XscoreError | None = None
        try:
            await import_sdk(library.spec.provider)
            async for result in judge.judge(turn, members):
                if isinstance(result, Unjudged):
                    unjudged.append(result)
                else:
                    judged.add(result.content_hash)
        except XscoreError as error:
            ended = error
        finally:
            if timer is not None:
                timer.cancel()
        await self._give_back()  # nobody runs here until the next chunk
        calls, self._calls[:] = tuple(self._calls), ()
        return ChunkResult(
            chunk.question,
            self._store.taken(),
            len(judged - judge.judged_elsewhere),
            tuple(unjudged),
            calls,
            judge.warnings(),
            self._caps.taken(),
            ended,
        )

    async def aclose(self) -> None:
        """Give back what is held, and release connections."""
        await self._store.aclose()
        await self._give_back()
        await self._line.aclose()
        await self._link.aclose()

    async def _give_back(self) -> None:
        """Tell the server what was spent, and hold nothing more that was taken ahead."""
        await self._rates.aclose()
        if self._dollars is not None:
            await self._dollars.aclose()

    def _judge(self, chunk: PackChunk, members: Sequence[Candidate], key: str, stop: StopSignal) -> ModelJudge:
        library = self._library
        texts = library.texts
        return ModelJudge(
            self._line,
            library.drafts,
            texts=lambda found: {member.id: texts[member.id] for member in found if member.id in texts},
            write=self._store.writer(key, library.identity),
            slots=library.slots,
            priors=dict(zip((member.id for member in members), chunk.priors, strict=True)),
            claims=self._store.claims(key, library.identity),
            concurrency=workers_for(library.concurrency),
            context=library.settings.judge.context,
            stop=stop,
        )

    def _timer(self, stop: StopSignal) -> asyncio.TimerHandle | None:
        if self._library.deadline_at is None:
            return None
        left_s = max(0.0, self._library.deadline_at - self._clock())
        return asyncio.get_running_loop().call_later(left_s, stop.set, UnjudgedCause.DEADLINE)

    def _heard(self, stop: StopSignal) -> None:
        if stop.cause in ENDS_ALL and self._ended is None:
            self._ended = (stop.cause, stop.detail)
            self._limited.halt()


@dataclass(slots=True)
class _SharedJudgments:
    """A `JudgmentStore` of the shared server alone; what it keeps is carried home as well."""

    link: ServerLink
    _carried: list[Judgment] = field(default_factory=list)
    _outbox: Outbox = field(init=False)

    def __post_init__(self) -> None:
        self._outbox = Outbox(self.link)

    def writer(self, turn_key: str, judge: JudgeIdentity) -> WriteJudgments:
        """Return what keeps judgments at the server before it returns."""
        names = (turn_key, judge_key(judge), 0)

        async def write(judgments: Sequence[Judgment]) -> None:
            await self.link.ask(lambda server: server.keep(names, judgments), otherwise=None)
            self._carried.extend(judgments)

        return write

    def claims(self, turn_key: str, judge: JudgeIdentity) -> Claims:
        """Return claims at the server alone."""
        names = (turn_key, judge_key(judge), 0)
        return SharedClaims(
            NoClaims(), self._carry, link=self.link, outbox=self._outbox, names=names, lease_s=ACTOR_LEASE_S
        )

    def taken(self) -> tuple[Judgment, ...]:
        """Return what is to be carried home since the last time."""
        found, self._carried[:] = tuple(self._carried), ()
        return found

    async def aclose(self) -> None:
        """Tell the server what it was not told of yet."""
        await self._outbox.aclose()

    async def _carry(self, judgments: Sequence[Judgment]) -> None:
        self._carried.extend(judgments)


class _BudgetOfActors:
    """A `Budget` on a purse that others take from too; without one, whatever is asked for is there."""

    def __init__(self, purse: ActorBudget | None) -> None:
        self._purse = purse
        self._untold = Decimal(0)
        self._open: dict[str, Decimal] = {}
        self._reserved = 0

    async def reserve(self, usd: Decimal | None) -> str:
        """Set aside an upper bound (None: unpriced). Raises BudgetExhausted."""
        if not usd:
            return ""
        if self._purse is not None and not await self._purse.take(usd):
            raise BudgetExhausted(
                f"the next call may cost ${usd:f}, and less is left of the caps that held when the list was begun",
                hint="Raise --max-usd or the other caps, and run the same again.",
            )
        self._reserved += 1
        name = str(self._reserved)
        self._open[name] = usd
        return name

    async def settle(self, reservation: str, actual: Decimal | None) -> None:
        """Replace the reservation by what the call cost; None: its bound stays charged."""
        bound = self._open.pop(reservation, None)
        if bound is not None and actual is None:
            self._untold += bound
        elif bound is not None and actual is not None and self._purse is not None:
            await self._purse.put_back(bound - actual)

    def taken(self) -> Decimal:
        """Return the bounds of calls that did not tell their cost, since the last time."""
        found, self._untold = self._untold, Decimal(0)
        return found


def chunks_of_question(
    prepared: PreparedQuestion,
    slots: Mapping[str, tuple[str, int]],
    profile: PackProfile,
    guesses: Mapping[str, float],
    places: Mapping[str, int],
) -> Iterator[PackChunk]:
    """Part a question's packs into rows, the most promising first, as one process would send them."""
    packs = packs_to_send(prepared.pool.misses, slots, profile)
    packs.sort(key=lambda pack: -max(guesses.get(one.id, 0.0) for one in pack.members))
    for start in range(0, len(packs), CHUNK_CALLS):
        members = [one for pack in packs[start : start + CHUNK_CALLS] for one in pack.members]
        yield PackChunk(
            prepared.number,
            array("I", [places[one.id] for one in members]),
            array("d", [guesses.get(one.id, 0.0) for one in members]),
        )
