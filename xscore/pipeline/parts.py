"""The seams of the pipeline: protocols and records that `build` fills with concrete parts.

It also holds the stopwatch of a turn and what a listener is told when a turn has ended. It does no work of its own.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from decimal import Decimal
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from xscore.extension import implementations
from xscore.platform.paths import RepositoryRoot
from xscore.records import (
    Estimate,
    IndexReport,
    JudgeEstimate,
    JudgeIdentity,
    Latency,
    Observer,
    RateLimits,
    Traffic,
    Turn,
    TurnFigures,
)
from xscore.settings import Settings

if TYPE_CHECKING:
    from xscore.cache.judgment_store import Claims, WriteJudgments
    from xscore.costs.usage_totals import UsageTotals
    from xscore.pipeline.boosts import Booster
    from xscore.pipeline.pool import Pool
    from xscore.providers.provider import Provider
    from xscore.scorer.drafts import JudgeModel
    from xscore.scorer.fanout import StopSignal
    from xscore.scorer.judge import Judge
    from xscore.scorer.packs import PackProfile
    from xscore.store.store import Store


class TurnResources(Protocol):
    """What a turn needs to spend: a ledger, a budget, a writer, and the models behind them."""

    usage: "UsageTotals"

    def writer(self, turn_key: str, judge: JudgeIdentity) -> "WriteJudgments":
        """Return what keeps the judgments of a turn: awaited, they are committed."""
        ...

    def claims(self, turn_key: str, judge: JudgeIdentity) -> "Claims":
        """Return what keeps processes at work on one store from paying for the same candidates of a turn."""
        ...

    async def user_store_writer(self, turn_key: str, judge: JudgeIdentity) -> tuple["WriteJudgments", "Claims"]:
        """Return both of these for the user's own store, where judgments of the user's memories are kept."""
        ...

    def answering_provider(self) -> "Provider":
        """Return the answering model, within the turn's budget."""
        ...

    def judging_provider(
        self,
        provider: "Provider",
        *,
        model: str,
        rpm: int | None = None,
        tpm: int | None = None,
        concurrency: int | None = None,
        stated: RateLimits | None = None,
    ) -> "Provider":
        """Return a connected provider that judges, with retries, limits, budget and ledger around it.

        model: the one at work, whose limits others may share. stated: limits that its host named in earlier runs.
        """
        ...

    def embedding_provider(self, provider: "Provider") -> "Provider":
        """Return a connected provider of embeddings, with retries, budget and ledger around it."""
        ...

    def hold_back(self) -> None:
        """Have the judge's calls that wait for their turn not be sent; those in flight go on."""
        ...

    def new_stop(self) -> "StopSignal":
        """Return what ends one turn's judging; how far it reaches beyond that turn is the resources's to say."""
        ...

    def traffic(self) -> Traffic:
        """Return how the judge's calls went."""
        ...

    def warnings(self) -> tuple[str, ...]:
        """Say for the receipt what could not be shared with others."""
        ...


class JudgeCalls(Struct, frozen=True, kw_only=True):
    """How a model that judges is called: for the probe, and for the doctor."""

    provider: "Provider"
    """As connected, with nothing wrapped around it."""
    model: "JudgeModel"
    packs: "PackProfile"
    concurrency: int
    """Most calls in flight."""


class JudgeFactory(Protocol):
    """Who judges, before anything is opened."""

    @property
    def identity(self) -> JudgeIdentity:
        """Everything that may change its scores."""
        ...

    @property
    def is_model(self) -> bool:
        """Whether its judgments are cached, and may cost money."""
        ...

    @property
    def threshold(self) -> float:
        """The lowest final score that is kept, on this judge's scale."""
        ...

    @property
    def calls(self) -> JudgeCalls | None:
        """How its model is called; None: no model judges."""
        ...

    async def open(self, resources: TurnResources, turn: Turn, pool: "Pool", turn_key: str) -> "Judge":
        """Return the judge of this turn; a model's judgments are committed before it yields them.

        A host that is not known yet is probed first. Raises leaves of ProviderError, and NoUsableModel.
        """
        ...

    def with_shared_prompts(self) -> "JudgeFactory":
        """Return the same model as the judge whose prompts questions may share; itself, where no model judges."""
        ...

    def close(self) -> None:
        """Keep what the turn has shown of the judge's host."""
        ...

    def forecast(self, turn: Turn, pool: "Pool") -> JudgeEstimate:
        """Say about what judging will take, at once; sends nothing."""
        ...

    def estimate(self, turn: Turn, pool: "Pool") -> Estimate:
        """Say what judging would take; sends nothing. `primary` is left to `opening`."""
        ...


class AnswererFactory(Struct, frozen=True):
    """Who answers, before anything is opened."""

    provider: str
    model: str
    host: str


class PipelineParts(Struct, frozen=True, kw_only=True):
    """One opened repository with its settings and seats."""

    root: RepositoryRoot
    settings: Settings
    store: "Store"
    observer: Observer
    warnings: tuple[str, ...]
    """What the settings had to say, for every receipt."""
    judge: JudgeFactory
    answerer: AnswererFactory | None
    """None: no usable model to answer."""
    index: Callable[[], IndexReport]
    open_resources: Callable[[str], AbstractAsyncContextManager[TurnResources]]
    """Turn id -> what the turn spends through."""
    boosters: tuple["Booster", ...]
    """Who may lift a raw score."""
    vectors: Callable[[], Iterable[tuple[str, bytes]]]
    """Memory id and term vector of the pool, for lexical scores."""
    clock: Callable[[], float]
    """Unix seconds."""
    listener: "TurnListener | None" = None
    """Called with every turn that has ended."""
    with_judge: "Callable[[str], PipelineParts] | None" = None
    """Judge (`provider:model`) -> the same with that judge; None: the caller has named the judge."""
    with_cap: "Callable[[Decimal], PipelineParts] | None" = None
    """Dollars -> the same with that cap on a turn; its judge knows what was found out of its host meanwhile."""


class Stopwatch(Struct):
    """Started when made."""

    started: float = field(default_factory=monotonic)
    stages: dict[str, float] = field(default_factory=dict)
    laps: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Stage -> its first and its last moment so far, on the clock of `started`."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a stage, also when it ends in an error."""
        began = monotonic()
        try:
            yield
        finally:
            ended = monotonic()
            self.stages[name] = self.stages.get(name, 0.0) + ended - began
            self.laps[name] = (self.laps[name][0] if name in self.laps else began, ended)

    def latency(self) -> Latency:
        """Return what has been measured so far."""
        return Latency(**self.stages, total=monotonic() - self.started)


class ClosedTurn(Struct, frozen=True, kw_only=True):
    """A turn that has ended, well or not."""

    turn: Turn
    command: str
    watch: Stopwatch
    connection: sqlite3.Connection
    """The repository's store; the ledger holds the turn's calls."""
    now: float
    """Unix seconds."""
    figures: TurnFigures | None = None
    """None: the turn has no receipt."""
    exit_code: int = 0
    error: BaseException | None = None
    """What ended it without a receipt."""


TurnListener = Callable[[ClosedTurn], Awaitable[str]]
"""Takes a closed turn and returns a warning, or nothing. It must not raise."""


class Likeness(Struct, frozen=True):
    """How near each memory is to the task, for the order of judging and the lexical judge."""

    cosines: Mapping[str, float] = field(default_factory=dict)
    """By memory id."""
    warnings: tuple[str, ...] = ()


async def find_likeness(turn: Turn, settings: Settings, *, store: "Store", resources: TurnResources) -> Likeness:
    """Ask the embedder of the settings; without one, nothing is known."""
    for likeness in implementations("likeness", settings):
        found: Likeness = await likeness(turn, settings, store=store, resources=resources)
        return found
    return Likeness()
