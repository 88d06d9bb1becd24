"""What `build` puts together for a turn: one opened repository with its settings, its judge and its
answerer.

It also holds the options of a turn, the record passed to a listener when a turn has ended, and what
settings add around turns: after an index, in `doctor`, at the end of a turn, and the exchange of
memories with a team. Hooks for likeness and shared resources are declared in `likeness` and
`resources`.
"""

import sqlite3
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from xscore.extension import Choice, Hook
from xscore.platform.paths import RepositoryRoot
from xscore.records.calls import Answerer
from xscore.records.events import Observer
from xscore.records.indexing import IndexReport
from xscore.records.receipt import Answer, TurnFigures
from xscore.records.turn import Turn
from xscore.settings import LoadedSettings, Settings
from xscore.settings.model import SharedSettings
from xscore.settings.values import NO_FINAL_ROUND

if TYPE_CHECKING:
    from xscore.pipeline.boosts import Booster
    from xscore.pipeline.judge_description import JudgeDescription
    from xscore.pipeline.resources import TurnResources
    from xscore.pipeline.server_contacts import BegunKnock, TurnSyncResult
    from xscore.pipeline.turn_clock import Stopwatch
    from xscore.pipeline.turn_stages import Ranking
    from xscore.records.reports import DoctorFinding
    from xscore.store.store import Store


def _open_turn_resources(
    parts: "JudgingParts", turn_id: str
) -> "AbstractAsyncContextManager[TurnResources]":
    from xscore.pipeline.resources import open_resources  # a turn that is all cached opens none

    return open_resources(
        parts.store,
        parts.settings,
        turn_id=turn_id,
        note=parts.observer.note,
        knock=parts.knock,
    )


class JudgingParts(Struct, frozen=True, kw_only=True):
    """What judging takes, of a turn or of a list of texts: a store, settings and a judge."""

    settings: Settings
    store: "Store"
    observer: Observer
    warnings: tuple[str, ...]
    """Warnings about the settings, for every receipt."""
    judge: "JudgeDescription"
    boosters: "tuple[Booster, ...]" = ()
    clock: Callable[[], float]
    """Unix seconds."""
    resources_opener: "ResourcesOpener" = _open_turn_resources
    """Opens what a turn spends through; tests open one with prices of their own."""
    knock: "BegunKnock | None" = None
    """How a turn has begun to look for a shared server; None if it has none, or it is no
    turn."""

    @property
    def may_pay_judge(self) -> bool:
        """Whether judging may cost money; a replay sends nothing."""
        return self.judge.paid and not self.settings.judge.replay

    @property
    def has_final_round(self) -> bool:
        """Whether another model looks once more at what a model put first."""
        # Words alone are not a first round.
        return not self.judge.by_words and self.settings.selection.final != NO_FINAL_ROUND

    def open_resources(self, turn_id: str) -> "AbstractAsyncContextManager[TurnResources]":
        """Open the resources of one turn or list, under the caps of the settings."""
        return self.resources_opener(self, turn_id)


ResourcesOpener = Callable[[JudgingParts, str], "AbstractAsyncContextManager[TurnResources]"]
"""Parts and the id of a turn or list -> its resources."""


class PipelineParts(JudgingParts, frozen=True, kw_only=True):
    """One opened repository with its settings, its judge and its answerer."""

    root: RepositoryRoot
    given: Settings
    """The settings as the caller gave them; `settings` may differ, in a replay."""
    loaded: LoadedSettings | None
    """Where each setting comes from; None if the caller built the settings."""
    answerer: Answerer | None
    """The answering model; None: no usable one."""
    adapt_judge: "Callable[[JudgeDescription], JudgeDescription] | None" = None
    """Changes the judge's description whenever it is made again; None if it stays as settings
    make it. `eval compare` keeps the judgments of two variants apart by it."""
    index: Callable[[float | None], IndexReport]
    """Bring the index up to date; stop at a moment (`time.monotonic`) with what is done by then.
    None: do all."""
    listener: "TurnListener | None" = None
    """Called with every turn that has ended."""


class TurnOptions(Struct, frozen=True, kw_only=True):
    """Options of a turn besides the selection."""

    answer: bool
    """Whether to make one call to the answering model, if there is one."""
    answer_anyway: bool = False
    """Whether to call it even if no memory reached the threshold."""
    command: str = "ask"
    """The command that asks, as reports name it: `ask`, `context`, `hook`, `mcp`, `continue`,
    `eval`, `background`."""
    isolated: bool = False
    """Whether it belongs to no session, counts no use and learns nothing (an evaluation); past
    answers and commits are candidates only if `--layer` or `sees_past` says so."""
    sees_past: bool = False
    """Whether past answers and commits are candidates of an isolated turn, as they are of any
    other."""
    bundle: str = ""
    """Form of the bundle to return even if there is an answer: `xml`, `markdown`, `json` or
    `memory`."""
    max_tokens: int | None = None
    all_scores: Path | None = None
    """File for one JSON line about each candidate."""
    ranked: "Callable[[Turn, Ranking], None] | None" = None
    """Called with the completed turn and the ranking, before the receipt is made."""
    deliver: Callable[[Answer], None] | None = None
    """Called with the receipt before it is saved: shows what was chosen at once."""
    just_judged_hashes: AbstractSet[str] = frozenset()
    """Contents just judged in prompts shared with other turns; they count as judged, not as
    cached."""
    started: float | None = None
    """`time.monotonic()` from which the deadline counts; None: now."""
    waits_from: float | None = None
    """`time.monotonic()` from which the seconds in the receipt count; in a list of turns each
    waits from its own start."""

    def asked_at(self, moment: float | None) -> "TurnOptions":
        """Return the options of a turn that the user has been waiting for since then."""
        return replace(self, started=moment, waits_from=moment)


class ClosedTurn(Struct, frozen=True, kw_only=True):
    """A turn that has ended, successfully or not."""

    turn: Turn
    command: str
    stopwatch: "Stopwatch"
    connection: sqlite3.Connection
    """The repository's store; the ledger holds the turn's calls."""
    now: float
    """Unix seconds."""
    figures: TurnFigures | None = None
    """Figures of the turn; None if it has no receipt."""
    exit_code: int = 0
    error: BaseException | None = None
    """The error that ended it without a receipt."""


TurnListener = Callable[[ClosedTurn], Awaitable[str]]
"""Takes a closed turn and returns a warning, or nothing. It must not raise."""


class FinishIndex(Protocol):
    """Runs after the index was brought up to date."""

    async def __call__(
        self, settings: "Settings", *, store: "Store", resources: "TurnResources"
    ) -> str:
        """Return a warning, or nothing."""
        ...


AFTER_INDEX: "Hook[FinishIndex]" = Hook(
    Choice(
        "xscore.extensions.sources:read_sources",
        lambda settings: bool(settings.plugins.enabled),
    ),
    Choice(
        "xscore.extensions.vectors.turn_likeness:embed_all",
        lambda settings: settings.embedding.by_model,
    ),
)


class BeginTeamSync(Protocol):
    """Begins to synchronise memories with a team's server, during the turn's own work."""

    def __call__(
        self, settings: "Settings", *, store: "Store"
    ) -> "Callable[[], TurnSyncResult]":
        """Return what takes the result, waiting a little for it."""
        ...


TEAM_SYNC: "Hook[BeginTeamSync]" = Hook(
    Choice(
        "xscore.extensions.shared.team.turn_sync:begin_turn_sync",
        lambda settings: settings.shared.shares_memories,
    )
)


KNOCK: "Hook[Callable[[SharedSettings], BegunKnock]]" = Hook(
    Choice(
        "xscore.extensions.shared.knock:knock_early",
        lambda settings: settings.shared.is_used,
    )
)
"""Begins to look for the server that judgments are shared through."""


class KeepSession(Protocol):
    """Keeps the latest exchanges of a session for the user's other machines."""

    async def __call__(self, settings: Settings, *, store: "Store", thread: str) -> str:
        """Return what is wrong with a setting, or ""."""
        ...


SESSION_BUFFER: "Hook[KeepSession]" = Hook(
    Choice(
        "xscore.extensions.shared.team.session_buffer:keep_session",
        lambda settings: settings.shared.keeps_sessions,
    )
)
DOCTOR_CHECKS: "Hook[Callable[[Settings], Awaitable[list[DoctorFinding]]]]" = Hook(
    Choice(
        "xscore.extensions.vectors.turn_likeness:check_embedder",
        lambda settings: (
            settings.embedding.by_model or bool(settings.embedding.search.reveal())
        ),
    ),
    Choice(
        "xscore.extensions.shared.connect:check_shared_server",
        lambda settings: settings.shared.is_used,
    ),
    Choice(
        "xscore.extensions.shared.team.privileges:check_team_server",
        lambda settings: settings.shared.shares_memories,
    ),
)
TURN_LISTENER: Hook[Callable[[], TurnListener]] = Hook(
    Choice(
        "xscore.extensions.telemetry.notify:otlp_listener",
        lambda settings: settings.telemetry.otel,
    )
)
"""An implementation makes the listener."""
