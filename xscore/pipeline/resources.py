"""What a turn spends through: a writer thread, budget, ledger, and each model in
`Retrying(Limited(Metered(…)))`.

A turn opens it only when something may be sent, a list of questions always; closing it commits the
queue and closes connections.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgment_store import Claims, JudgmentStore, StoredJudgments, WriteJudgments
from xscore.cache.keys import FIRST_DRAW
from xscore.costs.caps import Caps
from xscore.costs.ledger import Ledger, UsageTotals
from xscore.costs.reservation import turn_budget
from xscore.extension import Choice, Hook
from xscore.pipeline.turn_clock import Deadline
from xscore.platform.database import full_disk_error, require_room
from xscore.platform.errors import ProviderError, Unreachable, UsageError
from xscore.platform.event_loop import ensure_event_loop
from xscore.providers.attempts import Metered, Retrying
from xscore.providers.decision_hosts import DECISION_HOSTS, SECOND_BURST_S
from xscore.providers.limits import DollarBudget, Limited
from xscore.providers.prices import PriceFunction, PriceList
from xscore.providers.provider import Provider
from xscore.providers.rate_limits import BURST_S, LocalRates, RateBudget, bucket_name
from xscore.providers.spec import ModelSpec, connect_provider
from xscore.records.calls import Answerer, RateLimits, ServerCall, Stage, Traffic
from xscore.records.candidates import Candidate
from xscore.records.judgment import JudgeIdentity, Judgment
from xscore.records.memory import Layer
from xscore.scorer.claiming import claim_by_store
from xscore.scorer.fanout import StopSignal
from xscore.settings import Settings
from xscore.store.opening import user_store_path
from xscore.store.store import Store

if TYPE_CHECKING:
    from xscore.pipeline.server_contacts import BegunKnock
    from xscore.scorer.replies import ReplyFaults
    from xscore.settings.model import SharedSettings


@asynccontextmanager
async def open_resources(
    store: Store,
    settings: Settings,
    *,
    turn_id: str,
    note: Callable[[str], None] = lambda _: None,
    knock: "BegunKnock | None" = None,
) -> "AsyncIterator[TurnResources]":
    """Open the resources of one turn.

    note: tells the user that a silent host is being retried. knock: see `JudgingParts.knock`.
    """
    await ensure_event_loop()
    async with GroupCommit(store.path, store.keys, create=False) as commits:
        own_resources = TurnResources(
            store=store,
            settings=settings,
            spending=SpendingStores(
                StoredJudgments(commits, clock=store.clock),
                turn_budget(
                    commits, turn_id=turn_id, caps=Caps.of(settings.budget), clock=store.clock
                ),
            ),
            usage=UsageTotals(Ledger(commits).record),
            turn_id=turn_id,
            price_of=PriceList(settings.provider.price),
            clock=store.clock,
            note=note,
            knock=knock,
        )
        async with joined_resources(own_resources) as resources:
            yield resources


@asynccontextmanager
async def joined_resources(resources: "TurnResources") -> "AsyncIterator[TurnResources]":
    """Join the resources to those of other machines by `extensions.shared`; close them and their
    models at the end."""
    shared = resources.settings.shared
    clock = resources.clock
    async with resources.stack:
        for server_name in SHARED_SERVER_NAME.implementations(resources.settings):
            # Only where something is shared.
            from xscore.store.removal import note_shared_server

            if resources.store is not None:
                note_shared_server(resources.store.connection, server_name(shared))
        for open_shared in OPEN_SHARED.implementations(resources.settings):
            judgments = resources.spending.judgments
            budget = resources.spending.budget
            store = resources.store
            # What a store that somebody else made says of a server is not believed, nor sent there.
            connection: sqlite3.Connection | None = None
            if store is not None and store.is_users_own:
                connection = store.connection
            with_others = open_shared(
                shared,
                judgments=judgments,
                budget=budget,
                note=resources.note,
                clock=clock,
                connection=connection,
                knock=resources.knock,
            )
            resources.spending = await resources.stack.enter_async_context(with_others)
        try:
            yield resources
        finally:
            for provider in resources.opened:
                await provider.aclose()


class SpendingStores(Struct):
    """Where judgments, dollars and rate limits are kept: here.

    `extensions.shared` joins them to other machines'.
    """

    judgments: JudgmentStore
    budget: "DollarBudget"

    def rates(self, local_rates: "LocalRates", *, bucket: str) -> "RateBudget":
        """Return the rate limits of the judge's calls to this host and model (`bucket`)."""
        return local_rates

    async def judged_elsewhere(
        self, turn_key: str, judge: JudgeIdentity, hashes: Sequence[str], draw: int = FIRST_DRAW
    ) -> Mapping[str, Judgment]:
        """Return what others have judged of these contents, by content hash; it is in the store,
        too."""
        return {}

    def server_calls(self) -> list[ServerCall]:
        """Return the requests to a shared server so far."""
        return []

    def warnings(self) -> tuple[str, ...]:
        """Return warnings for the receipt about what could not be shared."""
        return ()


class OpenShared(Protocol):
    """Opens what a turn spends through, joined to other machines."""

    def __call__(
        self,
        settings: "SharedSettings",
        *,
        judgments: JudgmentStore,
        budget: "DollarBudget",
        note: Callable[[str], None],
        clock: Callable[[], float],
        connection: sqlite3.Connection | None,
        knock: "BegunKnock | None",
    ) -> AbstractAsyncContextManager[SpendingStores]:
        """Return the joined stores, to be entered.

        note: tells the user when the server goes away, and when it is back.
        connection: that of the store that remembers whether the server was away; None if
            nothing does.
        knock: of a turn that has begun to look for the server.
        """
        ...


OPEN_SHARED: Hook[OpenShared] = Hook(
    Choice(
        "xscore.extensions.shared.connect:open_shared_resources",
        lambda settings: settings.shared.is_used,
    )
)
SHARED_SERVER_NAME: "Hook[Callable[[SharedSettings], str]]" = Hook(
    Choice(
        "xscore.extensions.shared.connect:accepted_server_name",
        lambda settings: settings.shared.is_used,
    )
)
"""Names the server and the tenant that judgments are shared through; raises UsageError where it is
refused."""


class TurnResources(Struct, kw_only=True):
    """What a turn needs to spend money: a ledger, a budget, writers of judgments, and the models
    behind them."""

    store: Store | None = None
    """The user's own store; None if no memory of it is judged."""
    settings: Settings
    spending: SpendingStores
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    """Closed with the resources."""
    usage: UsageTotals
    turn_id: str
    price_of: PriceFunction
    clock: Callable[[], float]
    note: Callable[[str], None] = lambda _: None
    opened: list[Provider] = field(default_factory=list)
    wrapped_judges: list[tuple[Provider, Provider]] = field(default_factory=list)
    """Unwrapped providers, each with its limiter."""
    judging: "Limited | None" = None
    judgments_of_user: JudgmentStore | None = None
    """Opened by the first turn that judges a memory of the user's own."""
    silent_hosts: set[str] = field(default_factory=set)
    """Hosts that were already announced to the user."""
    last_failure: ProviderError | None = None
    """The latest failure of a judging call that was to be tried again."""
    faults: "ReplyFaults | None" = None
    """Faults of a whole list's replies; None: each judge reports its own."""
    deadline: Deadline = Deadline()
    around: Callable[[Provider], Provider] = lambda provider: provider
    """Puts a provider around each that calls are paid through; `eval compare` records replies by
    it."""
    knock: "BegunKnock | None" = None
    """See `JudgingParts.knock`."""
    stop_source: Callable[[], StopSignal] | None = None
    """Makes the stop of each question of a list, which all stop together; None for a turn,
    which stops alone."""

    async def judgment_access(
        self,
        misses: Sequence[Candidate],
        turn_key: str,
        judge: JudgeIdentity,
        draw: int = FIRST_DRAW,
    ) -> tuple[WriteJudgments, Claims]:
        """Return writer and claims of a turn's judgments; the user's own memories have theirs in
        the user's store."""
        of_turn = (turn_key, judge, draw)
        judgments = self.spending.judgments
        repository_access = judgments.writer(*of_turn), judgments.claims(*of_turn)
        hashes_of_user = {miss.content_hash for miss in misses if miss.layer is Layer.USER}
        if not hashes_of_user:
            return repository_access
        assert self.store is not None and self.store.user_data_dir is not None
        if self.judgments_of_user is None:
            path = user_store_path(self.store.user_data_dir)
            commits = await self.stack.enter_async_context(GroupCommit(path, self.store.keys))
            self.judgments_of_user = StoredJudgments(commits, clock=self.clock)
        user_judgments = self.judgments_of_user
        return claim_by_store(
            repository_access,
            (user_judgments.writer(*of_turn), user_judgments.claims(*of_turn)),
            hashes_of_user,
        )

    def answering_provider(self, answerer: Answerer) -> Provider:
        """Return the answering model, within the turn's budget."""
        spec = ModelSpec(answerer.provider, answerer.model)
        return self._retrying(connect_provider(spec, self.settings))

    def judging_provider(
        self,
        provider: Provider,
        *,
        model: str,
        concurrency: int | None = None,
        handled: int = 0,
        stated: RateLimits | None = None,
    ) -> Provider:
        """Wrap a judging provider, once each, with retries, limits, budget and ledger.

        model: its limits may be shared with others.
        handled: calls that its host has just answered at once.
        stated: limits that its host named in earlier runs.
        """
        for connected, wrapped in self.wrapped_judges:
            if connected is provider:
                return wrapped
        self._require_room()
        limits = self.settings.judge
        burst_s = SECOND_BURST_S if provider.name in DECISION_HOSTS else BURST_S
        local_rates = LocalRates(
            rpm=limits.rpm, tpm=limits.tpm, remembered=stated, burst_s=burst_s
        )
        rates = self.spending.rates(local_rates, bucket=bucket_name(provider, model=model))
        wrapped = self._retrying(provider, concurrency=concurrency, start=handled, rates=rates)
        self.wrapped_judges.append((provider, wrapped))
        return wrapped

    def metered_provider(self, provider: Provider) -> Provider:
        """Wrap a provider of embeddings or reasons with retries, budget and ledger."""
        self._require_room()
        return self._retrying(provider)

    def _require_room(self) -> None:
        """Raise StoreError if what a model is to be paid for could not be kept."""
        if self.store is None:
            return
        if self.store.disk_is_full:  # what is open is a copy, on another disk
            raise full_disk_error(self.store.original_path, 0)
        require_room(self.store.path)

    def halt_queued_calls(self) -> None:
        """Cancel the judge's queued calls; calls in flight continue."""
        if self.judging is not None:
            self.judging.halt()

    def new_stop(self) -> StopSignal:
        """Return the stop of one turn's, or one question's, judging."""
        if self.stop_source is not None:
            return self.stop_source()
        return StopSignal(self.halt_queued_calls)

    def why_unanswered(self) -> str:
        """Say what the last failure was if the judge's host has answered no call; empty if it
        has."""
        if self.last_failure is None or self.usage.spent(Stage.JUDGE).calls:
            return ""
        return f"no judging call was answered; the last failed: {self.last_failure.message}"

    def traffic(self) -> Traffic:
        """Return the traffic of the judge's calls."""
        if self.judging:
            return self.judging.traffic()
        return Traffic()

    def _retrying(
        self,
        provider: Provider,
        *,
        concurrency: int | None = None,
        start: int = 0,
        rates: "RateBudget | None" = None,
    ) -> Provider:
        """Wrap a provider. Retries are outside the limits: each attempt takes its own tokens,
        dollars and record.

        rates: given for a judge, whose calls are tracked and can be cancelled.
        """
        if self.settings.judge.replay:  # everything that is sent goes through here
            raise UsageError(
                "a replay sends nothing",
                hint="Leave out --replay (judge.replay) to have models asked.",
            )
        limited = Limited(
            Metered(
                provider,
                turn_id=self.turn_id,
                record=self.usage.add,
                price=self.price_of,
                clock=self.clock,
            ),
            budget=self.spending.budget,
            price_of=self.price_of,
            concurrency=concurrency,
            start=start,
            rates=rates,
        )
        if rates is not None:
            self.judging = limited
        retrying = Retrying(
            limited, attempts=self.settings.judge.attempts, sleep=limited.sleep, tell=self._tell
        )
        wrapped = self.around(retrying)
        self.opened.append(wrapped)
        return wrapped

    def _tell(self, error: ProviderError) -> None:
        """Report once per host that it cannot be reached, since retries show nothing for some
        seconds."""
        self.last_failure = error
        if isinstance(error, Unreachable) and error.message not in self.silent_hosts:
            self.silent_hosts.add(error.message)
            self.note(f"{error.message.rstrip('.')}; retrying briefly")
