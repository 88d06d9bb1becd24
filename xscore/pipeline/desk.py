"""Where a turn spends: one writing thread, a budget, a ledger, and each model wrapped `Retrying(Limited(Metered(…)))`.

It is opened only when something may be sent or must be scored; closing it commits what is queued and lets the hosts go.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgment_store import Claims, JudgmentStore, StoredJudgments, Write
from xscore.cost_reports.budget import TurnBudget
from xscore.cost_reports.caps import caps_of
from xscore.cost_reports.ledger import Ledger
from xscore.errors import ProviderError, Unreachable, UsageError
from xscore.memory.store import Store
from xscore.memory.user_store import path_in
from xscore.pipeline.parts import AnswerSeat, Desk
from xscore.pipeline.tab import Tab
from xscore.providers.limits import Limited
from xscore.providers.metered import Metered
from xscore.providers.prices import Price, price
from xscore.providers.provider import Provider
from xscore.providers.rate_budget import RateBudget, bucket_of
from xscore.providers.rates import Rates
from xscore.providers.retrying import Retrying
from xscore.providers.spec import Spec, connect
from xscore.records import JudgeIdentity, RateLimits, Traffic
from xscore.scorer.fanout import Stop
from xscore.settings import Settings

if TYPE_CHECKING:
    from xscore.shared.joined import Joined


@asynccontextmanager
async def open_desk(
    store: Store,
    settings: Settings,
    *,
    answerer: AnswerSeat | None,
    turn_id: str,
    price_of: Price = price,
    clock: Callable[[], float] = time.time,
    note: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[Desk]:
    """Open what one turn spends through.

    clock: Unix seconds, for stamps and leases. note: tells the user of a host that is silent, while it is tried again.
    """
    async with GroupCommit(store.path, store.keys) as commits, AsyncExitStack() as stack:
        own = StoredJudgments(commits, clock=clock)
        budget = TurnBudget(commits, turn_id=turn_id, caps=caps_of(settings.budget), clock=clock)
        shared: Joined | _OfThisStore = _OfThisStore(own, budget)
        if settings.shared.url.get_secret_value() or settings.shared.require:
            from xscore.shared.joined import joined  # ten modules that a turn of one store never needs

            with_others = joined(settings.shared, judgments=own, budget=budget, note=note, clock=clock)
            shared = await stack.enter_async_context(with_others)
        tab = Tab(Ledger(commits).record)
        desk = _Desk(store, settings, answerer, shared, stack, tab, turn_id, price_of, clock, note)
        try:
            yield desk
        finally:
            for provider in desk.opened:
                await provider.aclose()


@dataclass(frozen=True, slots=True)
class _OfThisStore:
    """What a desk spends through where nothing is shared."""

    judgments: JudgmentStore
    budget: TurnBudget

    def rates(self, own: Rates, *, bucket: str) -> RateBudget:
        return own

    def remarks(self) -> tuple[str, ...]:
        return ()


@dataclass(slots=True)
class _Desk:
    store: Store
    settings: Settings
    answerer: AnswerSeat | None
    shared: "Joined | _OfThisStore"
    """Judgments, dollars and limits: those of the store and this process, or of all who share a server."""
    stack: AsyncExitStack
    """What is closed with the desk."""
    tab: Tab
    turn_id: str
    price_of: Price
    clock: Callable[[], float]
    note: Callable[[str], None]
    opened: list[Provider] = field(default_factory=list)
    judging: Limited | None = None
    judgments_of_user: JudgmentStore | None = None
    """Opened by the first turn that judges a memory of the user's own."""
    silent_hosts: set[str] = field(default_factory=set)
    """Those that the user was told of."""

    def writer(self, turn_key: str, judge: JudgeIdentity) -> Write:
        return self.shared.judgments.writer(turn_key, judge)

    def claims(self, turn_key: str, judge: JudgeIdentity) -> Claims:
        return self.shared.judgments.claims(turn_key, judge)

    async def of_user(self, turn_key: str, judge: JudgeIdentity) -> tuple[Write, Claims]:
        assert self.store.user_data_dir is not None
        if self.judgments_of_user is None:
            path = path_in(self.store.user_data_dir)
            commits = await self.stack.enter_async_context(GroupCommit(path, self.store.keys))
            self.judgments_of_user = StoredJudgments(commits, clock=self.clock)
        own = self.judgments_of_user
        return own.writer(turn_key, judge), own.claims(turn_key, judge)

    def primary(self) -> Provider:
        assert self.answerer is not None
        provider = connect(Spec(self.answerer.provider, self.answerer.model), self.settings)
        return self._retrying(Limited(self._metered(provider), budget=self.shared.budget, price_of=self.price_of))

    def wrap(
        self,
        provider: Provider,
        *,
        model: str,
        rpm: int | None = None,
        tpm: int | None = None,
        concurrency: int | None = None,
        stated: RateLimits | None = None,
    ) -> Provider:
        rates = Rates(rpm=rpm, tpm=tpm, remembered=stated)
        self.judging = Limited(
            self._metered(provider),
            concurrency=concurrency,
            budget=self.shared.budget,
            price_of=self.price_of,
            rates=self.shared.rates(rates, bucket=bucket_of(provider, model=model)),
        )
        return self._retrying(self.judging)

    def embedding(self, provider: Provider) -> Provider:
        return self._retrying(Limited(self._metered(provider), budget=self.shared.budget, price_of=self.price_of))

    def halt(self) -> None:
        if self.judging is not None:
            self.judging.halt()

    def new_stop(self) -> Stop:
        return Stop(self.halt)

    def remarks(self) -> tuple[str, ...]:
        return self.shared.remarks()

    def traffic(self) -> Traffic:
        return self.judging.traffic() if self.judging else Traffic()

    def _metered(self, provider: Provider) -> Provider:
        if self.settings.judge.replay:  # everything that is sent goes through here
            raise UsageError("a replay sends nothing", hint="Leave out --replay (judge.replay) to have models asked.")
        return Metered(provider, turn_id=self.turn_id, record=self.tab.add, price=self.price_of, clock=self.clock)

    def _tell(self, error: ProviderError) -> None:
        """Say once of each host that it cannot be reached; the tries take some seconds in which nothing is seen."""
        if isinstance(error, Unreachable) and error.message not in self.silent_hosts:
            self.silent_hosts.add(error.message)
            self.note(f"{error.message.rstrip('.')}; trying again for a moment")

    def _retrying(self, limited: Limited) -> Provider:
        """Retries outside the limits: each attempt takes its own tokens, dollars and record."""
        whole = Retrying(limited, attempts=self.settings.judge.attempts, sleep=limited.sleep, tell=self._tell)
        self.opened.append(whole)
        return whole
