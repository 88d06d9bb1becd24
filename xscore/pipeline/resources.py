"""Where a turn spends: one writing thread, a budget, a ledger, and each model wrapped `Retrying(Limited(Metered(…)))`.

It is opened only when something may be sent or must be scored; closing it commits what is queued and lets the hosts go.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgment_store import Claims, JudgmentStore, StoredJudgments, WriteJudgments
from xscore.costs.caps import Caps
from xscore.costs.ledger import Ledger
from xscore.costs.reservation import turn_budget
from xscore.costs.usage_totals import UsageTotals
from xscore.extension import implementations
from xscore.pipeline.parts import AnswererFactory, TurnResources
from xscore.platform.errors import ProviderError, Unreachable, UsageError
from xscore.providers.prices import PriceFunction, call_price
from xscore.providers.provider import Provider
from xscore.providers.spec import ModelSpec, connect_provider
from xscore.records import JudgeIdentity, RateLimits, Traffic
from xscore.scorer.fanout import StopSignal
from xscore.settings import Settings
from xscore.store.opening import user_store_path
from xscore.store.store import Store

if TYPE_CHECKING:
    from xscore.providers.limits import DollarBudget, Limited
    from xscore.providers.rate_limits import LocalRates, RateBudget


@asynccontextmanager
async def open_resources(
    store: Store,
    settings: Settings,
    *,
    answerer: AnswererFactory | None,
    turn_id: str,
    price_of: PriceFunction = call_price,
    clock: Callable[[], float] = time.time,
    note: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[TurnResources]:
    """Open what one turn spends through.

    clock: Unix seconds, for stamps and leases. note: tells the user of a host that is silent, while it is tried again.
    """
    async with GroupCommit(store.path, store.keys) as commits, AsyncExitStack() as stack:
        own = StoredJudgments(commits, clock=clock)
        budget = turn_budget(commits, turn_id=turn_id, caps=Caps.of(settings.budget), clock=clock)
        shared: SharedResources = _Unshared(own, budget)
        for open_shared in implementations("shared_resources", settings):
            with_others = open_shared(settings.shared, judgments=own, budget=budget, note=note, clock=clock)
            shared = await stack.enter_async_context(with_others)
        tab = UsageTotals(Ledger(commits).record)
        resources = _Resources(store, settings, answerer, shared, stack, tab, turn_id, price_of, clock, note)
        try:
            yield resources
        finally:
            for provider in resources.opened:
                await provider.aclose()


class SharedResources(Protocol):
    """Judgments, dollars and rate limits, joined to those of other machines."""

    @property
    def judgments(self) -> JudgmentStore:
        """Where judgments are read and kept."""
        ...

    @property
    def budget(self) -> "DollarBudget":
        """What calls reserve dollars from."""
        ...

    def rates(self, own: "LocalRates", *, bucket: str) -> "RateBudget":
        """Return the limits that the judge's calls to this host and model (`bucket`) take from."""
        ...

    def warnings(self) -> tuple[str, ...]:
        """Say for the receipt what could not be shared."""
        ...


class _Unshared(Struct, frozen=True):
    judgments: JudgmentStore
    budget: "DollarBudget"

    def rates(self, own: "LocalRates", *, bucket: str) -> "RateBudget":
        return own

    def warnings(self) -> tuple[str, ...]:
        return ()


class _Resources(Struct):
    store: Store
    settings: Settings
    answerer: AnswererFactory | None
    shared: SharedResources
    """Judgments, dollars and limits: those of the store and this process, or of all who share a server."""
    stack: AsyncExitStack
    """What is closed with the resources."""
    usage: UsageTotals
    turn_id: str
    price_of: PriceFunction
    clock: Callable[[], float]
    note: Callable[[str], None]
    opened: list[Provider] = field(default_factory=list)
    judging: "Limited | None" = None
    judgments_of_user: JudgmentStore | None = None
    """Opened by the first turn that judges a memory of the user's own."""
    silent_hosts: set[str] = field(default_factory=set)
    """Those that the user was told of."""

    def writer(self, turn_key: str, judge: JudgeIdentity) -> WriteJudgments:
        return self.shared.judgments.writer(turn_key, judge)

    def claims(self, turn_key: str, judge: JudgeIdentity) -> Claims:
        return self.shared.judgments.claims(turn_key, judge)

    async def user_store_writer(self, turn_key: str, judge: JudgeIdentity) -> tuple[WriteJudgments, Claims]:
        assert self.store.user_data_dir is not None
        if self.judgments_of_user is None:
            path = user_store_path(self.store.user_data_dir)
            commits = await self.stack.enter_async_context(GroupCommit(path, self.store.keys))
            self.judgments_of_user = StoredJudgments(commits, clock=self.clock)
        own = self.judgments_of_user
        return own.writer(turn_key, judge), own.claims(turn_key, judge)

    def answering_provider(self) -> Provider:
        assert self.answerer is not None
        provider = connect_provider(ModelSpec(self.answerer.provider, self.answerer.model), self.settings)
        return self._retrying(self._limited(provider))

    def judging_provider(
        self,
        provider: Provider,
        *,
        model: str,
        rpm: int | None = None,
        tpm: int | None = None,
        concurrency: int | None = None,
        stated: RateLimits | None = None,
    ) -> Provider:
        from xscore.providers.limits import Limited  # the lexical judge makes no call
        from xscore.providers.rate_limits import LocalRates, bucket_name

        rates = LocalRates(rpm=rpm, tpm=tpm, remembered=stated)
        self.judging = Limited(
            self._metered(provider),
            concurrency=concurrency,
            budget=self.shared.budget,
            price_of=self.price_of,
            rates=self.shared.rates(rates, bucket=bucket_name(provider, model=model)),
        )
        return self._retrying(self.judging)

    def embedding_provider(self, provider: Provider) -> Provider:
        return self._retrying(self._limited(provider))

    def hold_back(self) -> None:
        if self.judging is not None:
            self.judging.halt()

    def new_stop(self) -> StopSignal:
        return StopSignal(self.hold_back)

    def warnings(self) -> tuple[str, ...]:
        return self.shared.warnings()

    def traffic(self) -> Traffic:
        return self.judging.traffic() if self.judging else Traffic()

    def _limited(self, provider: Provider) -> "Limited":
        from xscore.providers.limits import Limited

        return Limited(self._metered(provider), budget=self.shared.budget, price_of=self.price_of)

    def _metered(self, provider: Provider) -> Provider:
        if self.settings.judge.replay:  # everything that is sent goes through here
            raise UsageError("a replay sends nothing", hint="Leave out --replay (judge.replay) to have models asked.")
        from xscore.providers.attempts import Metered

        return Metered(provider, turn_id=self.turn_id, record=self.usage.add, price=self.price_of, clock=self.clock)

    def _tell(self, error: ProviderError) -> None:
        """Say once of each host that it cannot be reached; the tries take some seconds in which nothing is seen."""
        if isinstance(error, Unreachable) and error.message not in self.silent_hosts:
            self.silent_hosts.add(error.message)
            self.note(f"{error.message.rstrip('.')}; trying again for a moment")

    def _retrying(self, limited: "Limited") -> Provider:
        """Retries outside the limits: each attempt takes its own tokens, dollars and record."""
        from xscore.providers.attempts import Retrying

        whole = Retrying(limited, attempts=self.settings.judge.attempts, sleep=limited.sleep, tell=self._tell)
        self.opened.append(whole)
        return whole
