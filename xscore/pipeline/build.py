"""`Pipeline`, the Python interface: it opens a repository and puts the parts of a turn together.

It is the one module that names concrete classes. Opening costs no time or money: an SDK is imported at the first call,
numpy at the first lexical score, and what only some commands need when they run.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

from msgspec.structs import replace

from xscore.extension import implementations
from xscore.indexer.index import index_repository
from xscore.pipeline import factories
from xscore.pipeline.boosts import load_boosters
from xscore.pipeline.parts import PipelineParts, TurnListener, TurnResources
from xscore.pipeline.turn import TurnOptions, run_turn
from xscore.platform.paths import find_root, user_config_file, user_data_dir
from xscore.records import (
    Answer,
    Diagnosis,
    Estimate,
    Explanation,
    IndexReport,
    Observer,
    SilentObserver,
    StoreStatus,
    Turn,
)
from xscore.settings import LoadedSettings, Settings, load_settings
from xscore.settings.model import SettingsGroup
from xscore.store import evidence
from xscore.store.events import EventName, emit_event
from xscore.store.store import Store
from xscore.store.term_vectors import TERM_EMBEDDER
from xscore.store.turns import latest_judge

Clock = Callable[[], float]


class Pipeline:
    """One repository, opened. Used by one task at a time."""

    def __init__(self, parts: PipelineParts) -> None:
        self.parts = parts

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: Path | str = ".",
        settings: Settings | LoadedSettings | None = None,
        *,
        observer: Observer | None = None,
        clock: Clock = time.time,
        listener: TurnListener | None = None,
        make: bool = True,
    ) -> AsyncIterator[Self]:
        """Open the repository around `path`; its store is made where there is none.

        make: false, for who only reads, makes none and shows an empty one.
        settings: None reads the user's and the repository's files and the environment, as the command line does.
        clock: Unix seconds; all that is stamped or leased by a turn goes by it.
        listener: called with every turn that has ended; None: by `telemetry.otel`.
        Raises StoreUntrusted, StoreDamaged, StoreError, UsageError for settings that cannot be used, and NoUsableModel
        where a model was asked for by name and cannot be had.
        """
        root = find_root(Path(path))
        loaded = settings if isinstance(settings, LoadedSettings) else None
        if settings is None:
            import os

            loaded = load_settings(repo_root=root.path, user_file=user_config_file(), environ=os.environ)
        chosen = settings if isinstance(settings, Settings) else loaded.settings if loaded else Settings()
        data_dir = user_data_dir(chosen.store.user_data_dir)
        heard = listener or next((make_one() for make_one in implementations("turn_listener", chosen)), None)
        with closing(
            Store.open(
                root,
                user_data_dir=data_dir,
                trust=chosen.store.trust,
                create=make,
                settings=chosen.memory,
                clock=clock,
            )
        ) as store:
            yield cls(_assemble_parts(store, chosen, loaded, observer or SilentObserver(), clock, listener=heard))

    @property
    def store(self) -> Store:
        """The memories of all six layers, and what may be done with them."""
        return self.parts.store

    async def index(self) -> IndexReport:
        """Bring the index up to date with the files, and the vectors where an embedder is set."""
        report, parts = self.parts.index(), self.parts
        for finish in implementations("after_index", parts.settings):
            async with parts.open_resources(f"e_{token_hex(8)}") as resources:
                failed = await finish(parts.settings, store=parts.store, resources=resources)
            if failed:
                parts.observer.note(failed)
        return report

    async def ask(
        self, turn: Turn, *, answer: bool = True, all_scores: Path | None = None, started: float | None = None
    ) -> Answer:
        """Judge every memory against the turn, then make one call to the answering model, where there is one.

        started: `time.monotonic()` from which `budget.deadline_s` counts; None: from now.
        Unjudged candidates are no error, nor is an answering call that failed: both are in the receipt
        (`exit_code` says how the command would end). Raises UsageError, StoreError.
        """
        return await run_turn(self.parts, turn, TurnOptions(answer=answer, all_scores=all_scores, started=started))

    async def resume(
        self, turn_id: str = "", *, answer: bool = True, all_scores: Path | None = None, started: float | None = None
    ) -> Answer:
        """Finish an earlier turn, by default the latest: judge what it left unjudged, then answer.

        It goes on with its own judge, and what that judged is carried over. Raises UsageError where there is no such
        turn, nothing is left to do, or another judge is named, and NoUsableModel where its judge cannot be had.
        """
        from xscore.pipeline.past_turns import turn_to_continue

        parts, turn = turn_to_continue(self.parts, turn_id, answer=answer)
        wishes = TurnOptions(answer=answer, command="continue", all_scores=all_scores, started=started)
        return await run_turn(parts, turn, wishes)

    async def context(
        self,
        turn: Turn,
        *,
        form: str = "xml",
        max_tokens: int | None = None,
        all_scores: Path | None = None,
        started: float | None = None,
    ) -> Answer:
        """Do all but the answering call; `bundle` holds the chosen memories as `xml`, `markdown` or `json`."""
        wishes = TurnOptions(
            answer=False,
            command="context",
            bundle=form,
            max_tokens=max_tokens,
            all_scores=all_scores,
            started=started,
        )
        return await run_turn(self.parts, turn, wishes)

    async def estimate(self, turn: Turn) -> Estimate:
        """Say what a turn would take, by kind and folder; sends nothing."""
        from xscore.pipeline.prepare import estimate_turn

        return estimate_turn(self.parts, turn)

    async def explain(self, memory: str, *, turn_id: str = "") -> Explanation:
        """Say why a memory (id or `path::entity`) was or was not chosen in a turn, by default the latest."""
        from xscore.pipeline.past_turns import explain_choice

        return explain_choice(self.parts, memory, turn_id=turn_id)

    def status(self) -> StoreStatus:
        """Count what the store holds."""
        from xscore.pipeline.store_status import read_store_status

        return read_store_status(self.parts.store, self.parts.settings)

    async def doctor(self, *, probe: bool = False) -> Diagnosis:
        """Look at store, settings and models; `probe` sends one pack of two memories to the judge."""
        from xscore.pipeline.doctor import diagnose

        return await diagnose(self.parts, probe=probe)


def ask_sync(
    path: Path | str, turn: Turn, settings: Settings | LoadedSettings | None = None, *, observer: Observer | None = None
) -> Answer:
    """Ask once from code that is not async. Raises what `Pipeline.open` and `Pipeline.ask` raise."""

    async def once() -> Answer:
        async with Pipeline.open(path, settings, observer=observer) as pipeline:
            return await pipeline.ask(turn)

    return asyncio.run(once())


def _assemble_parts(
    store: Store,
    given: Settings,
    loaded: LoadedSettings | None,
    observer: Observer,
    clock: Clock,
    *,
    listener: TurnListener | None = None,
) -> PipelineParts:
    def again(**changed: SettingsGroup) -> PipelineParts:
        return _assemble_parts(store, replace(given, **changed), loaded, observer, clock, listener=listener)

    settings, remarks = _effective_settings(given, store)
    judge_spec, said = factories.choose_judge(settings)
    answerer = factories.choose_answerer(settings)
    return PipelineParts(
        root=store.root,
        settings=settings,
        store=store,
        observer=observer,
        warnings=(*(loaded.warnings if loaded else ()), *remarks, *said),
        judge=factories.judge_factory(judge_spec, settings, store=store, clock=clock),
        answerer=answerer,
        index=lambda: _update_index(store, settings, observer, now=clock()),
        open_resources=lambda turn_id: _open_resources(
            store, settings, answerer=answerer, turn_id=turn_id, clock=clock, note=observer.note
        ),
        boosters=load_boosters(settings.boosts.boosters),
        vectors=lambda: store.vectors(TERM_EMBEDDER),
        clock=clock,
        listener=listener,
        with_judge=None
        if _names_judge(given, loaded)
        else lambda spec: again(judge=replace(given.judge, model=spec, is_named=True)),
        with_cap=lambda max_usd: again(budget=replace(given.budget, max_usd=max_usd)),
    )


def _open_resources(store: Store, settings: Settings, **named: Any) -> AbstractAsyncContextManager[TurnResources]:
    from xscore.pipeline.resources import open_resources  # a turn that is all cached opens none

    return open_resources(store, settings, **named)


def _effective_settings(given: Settings, store: Store) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings that hold, and what is to be said of them: a replay sends nothing."""
    if not given.judge.replay:
        return given, ()
    return factories.replay_settings(given, newest=latest_judge(store.connection))


def _names_judge(settings: Settings, loaded: LoadedSettings | None) -> bool:
    """Whether whoever calls us named the judge: by a flag, or in settings that it made itself."""
    if loaded is not None:
        return loaded.origins["judge.model"] == "flag"
    return factories.is_model_named(settings.judge)


def _update_index(store: Store, settings: Settings, observer: Observer, *, now: float) -> IndexReport:
    """Bring the index up to date, tell what the user should know of it, and record that it changed where it did."""
    allow_pii = settings.memory.allow_pii
    report = index_repository(store.connection, store.root, settings.index, now=now, allow_pii=allow_pii)
    for note in report.notes:
        observer.note(note)
    changes = {"added": report.memories.added, "changed": report.memories.changed, "removed": report.memories.removed}
    if any(changes.values()):
        emit_event(store.connection, EventName.INDEXED, at=now, payload=changes)
    broken = len(evidence.refresh_evidence(store.connection, store.root, now=now).stale)
    if broken:
        observer.note(f"memories gone stale, since the code they cite has changed: {broken} (`xscore memory audit`)")
    return report
