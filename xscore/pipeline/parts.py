"""What `build` puts together for a turn: one opened repository with its settings, its judge and its
answerer.

It also holds the options, deadline and stopwatch of a turn, and the record passed to a listener
when a turn has ended.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager, contextmanager
from decimal import Decimal
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.extension import implementations
from xscore.platform.paths import RepositoryRoot
from xscore.records.events import Observer
from xscore.records.memory import IndexReport
from xscore.records.receipt import Answer, Latency, TurnFigures
from xscore.records.turn import Turn
from xscore.settings import Settings

if TYPE_CHECKING:
    from xscore.pipeline.boosts import Booster
    from xscore.pipeline.lexical_factory import LexicalJudgeFactory
    from xscore.pipeline.model_factory import ModelJudgeFactory
    from xscore.pipeline.ranking import Ranking
    from xscore.pipeline.resources import TurnResources
    from xscore.store.store import Store


class Answerer(Struct, frozen=True):
    """The model that answers."""

    provider: str
    model: str
    host: str


class PipelineParts(Struct, frozen=True, kw_only=True):
    """One opened repository with its settings, its judge and its answerer."""

    root: RepositoryRoot
    settings: Settings
    store: "Store"
    observer: Observer
    warnings: tuple[str, ...]
    """Warnings about the settings, for every receipt."""
    judge: "LexicalJudgeFactory | ModelJudgeFactory"
    answerer: Answerer | None
    """None: no usable model to answer."""
    index: Callable[[float | None], IndexReport]
    """Bring the index up to date; stop at a moment (`time.monotonic`) with what is done by then.
    None: do all."""
    open_resources: "Callable[[str], AbstractAsyncContextManager[TurnResources]]"
    """Turn id -> resources of the turn."""
    boosters: "tuple[Booster, ...]"
    clock: Callable[[], float]
    """Unix seconds."""
    listener: "TurnListener | None" = None
    """Called with every turn that has ended."""
    with_models: "Callable[[str, str], PipelineParts] | None" = None
    """Judge and answering model (`provider:model`, empty: as they are) -> these parts with them,
    except for those that the caller has named."""
    with_cap: "Callable[[Decimal], PipelineParts] | None" = None
    """Dollars -> these parts with that cap on a turn, and a judge that knows its host's latest
    capability."""


class TurnOptions(Struct, frozen=True, kw_only=True):
    """Options of a turn besides the selection."""

    answer: bool
    """Make one call to the answering model, if there is one."""
    answer_anyway: bool = False
    """Call it even if no memory reached the threshold."""
    command: str = "ask"
    """What asks, as reports name it: `ask`, `context`, `hook`, `mcp`, `continue`, `eval`,
    `background`."""
    isolated: bool = False
    """Belongs to no session, counts no use, learns nothing (an evaluation); past answers only if
    `--layer` says so."""
    bundle: str = ""
    """Return the bundle in this form even if there is an answer: `xml`, `markdown`, `json` or
    `memory`."""
    max_tokens: int | None = None
    all_scores: Path | None = None
    """Write one JSON line for each candidate here."""
    ranked: "Callable[[Turn, Ranking], None] | None" = None
    """Called with the completed turn and the ranking, before the receipt is made."""
    deliver: Callable[[Answer], None] | None = None
    """Called with the receipt before it is saved: shows what was chosen at once."""
    judged: AbstractSet[str] = frozenset()
    """Contents just judged in prompts shared with other turns; they count as judged, not as
    cached."""
    started: float | None = None
    """`time.monotonic()` from which the deadline counts; None: now."""
    waits_from: float | None = None
    """The same for the seconds in the receipt; in a list of turns each waits from its own start."""

    def asked_at(self, moment: float | None) -> "TurnOptions":
        """Return the options of a turn that the user has been waiting for since then."""
        return replace(self, started=moment, waits_from=moment)


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

    def latency(self, *, since: float | None = None) -> Latency:
        """Return what has been measured so far. since: when the wait began, if before the start
        (`time.monotonic`)."""
        return Latency(
            **self.stages, total=monotonic() - (self.started if since is None else since)
        )


CLOSING_S = 0.2
"""Seconds reserved for selection, receipt and closing."""
ANSWER_SHARE = 1 / 3
"""Reserve at most this share of the time left for the answering call."""


class Deadline(Struct, frozen=True):
    """When a turn or a list must be over."""

    at: float = inf
    """Seconds of `time.monotonic`; infinite: there is no deadline."""
    answer_s: float = 0.0
    """Reserved for the answering call."""

    @classmethod
    def of(cls, started: float, seconds: float | None) -> "Deadline":
        """Return the deadline this long after the start (`time.monotonic`)."""
        return cls() if seconds is None else cls(started + seconds)

    def left_s(self) -> float:
        """Seconds left for judging and answering, at least 0."""
        return max(0.0, self.at - CLOSING_S - monotonic())

    def judging_left_s(self) -> float:
        """Seconds left for judging, at least 0."""
        return max(0.0, self.left_s() - self.answer_s)

    def with_answer(self, typical_s: float) -> "Deadline":
        """Reserve the time that an answering call typically takes."""
        return Deadline(self.at, min(typical_s, ANSWER_SHARE * self.left_s()))


class ClosedTurn(Struct, frozen=True, kw_only=True):
    """A turn that has ended, successfully or not."""

    turn: Turn
    command: str
    stopwatch: Stopwatch
    connection: sqlite3.Connection
    """The repository's store; the ledger holds the turn's calls."""
    now: float
    """Unix seconds."""
    figures: TurnFigures | None = None
    """None: the turn has no receipt."""
    exit_code: int = 0
    error: BaseException | None = None
    """The error that ended it without a receipt."""


TurnListener = Callable[[ClosedTurn], Awaitable[str]]
"""Takes a closed turn and returns a warning, or nothing. It must not raise."""


class Likeness(Struct, frozen=True):
    """Similarity of each memory to the task, for the order of judging and the lexical judge."""

    cosines: Mapping[str, float] = field(default_factory=dict)
    """By memory id."""
    warnings: tuple[str, ...] = ()


async def find_likeness(
    turn: Turn, settings: Settings, *, store: "Store", resources: "TurnResources"
) -> Likeness:
    """Ask the embedder of the settings; empty without one."""
    for likeness in implementations("likeness", settings):
        found: Likeness = await likeness(turn, settings, store=store, resources=resources)
        return found
    return Likeness()
