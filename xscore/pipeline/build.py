"""The pipeline, put together: store, index, seats and desk (`seats` and `desk` name judges and what spending needs).

`Pipeline` is the Python interface, and every command but `trust` and `config` is one call to it. Opening it opens the
store and nothing that costs time or money: an SDK is imported at the first call, numpy at the first lexical score.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from secrets import token_hex
from typing import Self

from xscore.cost_reports import ledger
from xscore.indexer.index import index
from xscore.memory import evidence, trust
from xscore.memory.events import EventName, emit
from xscore.memory.latest_judge import latest_judge
from xscore.memory.likeness.terms import EMBEDDER
from xscore.memory.store import Store
from xscore.paths import find_root, user_config_file, user_data_dir
from xscore.pipeline import embedding, seats
from xscore.pipeline.ask import run_turn
from xscore.pipeline.boosters import boosters
from xscore.pipeline.desk import open_desk
from xscore.pipeline.doctor import diagnose
from xscore.pipeline.explain import explain
from xscore.pipeline.finishing import turn_to_finish
from xscore.pipeline.opening import estimate_turn
from xscore.pipeline.parts import Parts
from xscore.pipeline.wishes import Wishes
from xscore.records import (
    Answer,
    Diagnosis,
    Estimate,
    Explanation,
    IndexReport,
    Observer,
    Silent,
    StoreStatus,
    Turn,
)
from xscore.settings import Loaded, Settings, load
from xscore.settings.part import Part
from xscore.telemetry.traced import Tracing

Clock = Callable[[], float]


class Pipeline:
    """One repository, opened. Used by one task at a time."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: Path | str = ".",
        settings: Settings | Loaded | None = None,
        *,
        observer: Observer | None = None,
        clock: Clock = time.time,
        tracing: Tracing | None = None,
        make: bool = True,
    ) -> AsyncIterator[Self]:
        """Open the repository around `path`; its store is made where there is none.

        make: false, for who only reads, makes none and shows an empty one.
        settings: None reads the user's and the repository's files and the environment, as the command line does.
        clock: Unix seconds; all that is stamped or leased by a turn goes by it.
        tracing: told of turns that have ended, as `xscore.telemetry.spans.Traces(provider)`; None: by `telemetry.otel`.
        Raises StoreUntrusted, StoreDamaged, StoreError, UsageError for settings that cannot be used, and NoUsableModel
        where a model was asked for by name and cannot be had.
        """
        root = find_root(Path(path))
        loaded = settings if isinstance(settings, Loaded) else None
        if settings is None:
            import os

            loaded = load(repo_root=root.path, user_file=user_config_file(), environ=os.environ)
        chosen = settings if isinstance(settings, Settings) else loaded.settings if loaded else Settings()
        data_dir = user_data_dir(chosen.store.user_data_dir)
        told = tracing or (_own_traces() if chosen.telemetry.otel else None)
        with closing(
            Store.open(
                root,
                user_data_dir=data_dir,
                trust_it=chosen.store.trust,
                make=make,
                settings=chosen.memory,
                clock=clock,
            )
        ) as store:
            yield cls(_parts(store, chosen, loaded, observer or Silent(), clock, tracing=told))

    @property
    def store(self) -> Store:
        """The memories of all six layers, and what may be done with them."""
        return self.parts.store

    async def index(self) -> IndexReport:
        """Bring the index up to date with the files, and the vectors where an embedder is set."""
        report, parts = self.parts.index(), self.parts
        if embedding.label(parts.settings) != embedding.TERMS:
            async with parts.open_desk(f"e_{token_hex(8)}") as desk:
                failed = await embedding.bring_up_to_date(parts.settings, store=parts.store, desk=desk)
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
        return await run_turn(self.parts, turn, Wishes(answer=answer, all_scores=all_scores, started=started))

    async def resume(
        self, turn_id: str = "", *, answer: bool = True, all_scores: Path | None = None, started: float | None = None
    ) -> Answer:
        """Finish an earlier turn, by default the latest: judge what it left unjudged, then answer.

        It goes on with its own judge, and what that judged is carried over. Raises UsageError where there is no such
        turn, nothing is left to do, or another judge is named, and NoUsableModel where its judge cannot be had.
        """
        parts, turn = turn_to_finish(self.parts, turn_id, answer=answer)
        wishes = Wishes(answer=answer, command="continue", all_scores=all_scores, started=started)
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
        wishes = Wishes(
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
        return estimate_turn(self.parts, turn)

    async def explain(self, memory: str, *, turn_id: str = "") -> Explanation:
        """Say why a memory (id or `path::entity`) was or was not chosen in a turn, by default the latest."""
        return explain(self.parts, memory, turn_id=turn_id)

    def status(self) -> StoreStatus:
        """Count what the store holds."""
        store, settings = self.parts.store, self.parts.settings
        trusted = trust.is_trusted(store.root.store_dir, user_data_dir=user_data_dir(settings.store.user_data_dir))
        usd, estimated = ledger.spent(store.connection), ledger.is_estimated(store.connection)
        return store.status(trusted=trusted, spent_usd=usd, spent_estimated=estimated)

    async def doctor(self, *, probe: bool = False) -> Diagnosis:
        """Look at store, settings and models; `probe` sends one pack of two memories to the judge."""
        return await diagnose(self.parts, probe=probe)


def ask_sync(
    path: Path | str, turn: Turn, settings: Settings | Loaded | None = None, *, observer: Observer | None = None
) -> Answer:
    """Ask once from code that is not async. Raises what `Pipeline.open` and `Pipeline.ask` raise."""

    async def once() -> Answer:
        async with Pipeline.open(path, settings, observer=observer) as pipeline:
            return await pipeline.ask(turn)

    return asyncio.run(once())


def _own_traces() -> Tracing:
    from xscore.telemetry.spans import OwnTraces, check_installed  # for those alone who asked for it

    check_installed()
    return OwnTraces()


def _parts(
    store: Store,
    given: Settings,
    loaded: Loaded | None,
    observer: Observer,
    clock: Clock,
    *,
    tracing: Tracing | None = None,
) -> Parts:
    def again(**changed: Part) -> Parts:
        return _parts(store, given.model_copy(update=changed), loaded, observer, clock, tracing=tracing)

    settings, remarks = _for_use(given, store)
    judge_spec, said = seats.choose_judge(settings)
    answerer = seats.choose_answerer(settings)
    return Parts(
        root=store.root,
        settings=settings,
        store=store,
        observer=observer,
        warnings=(*(loaded.warnings if loaded else ()), *remarks, *said),
        judge=seats.judge_seat(judge_spec, settings, store=store, clock=clock),
        answerer=answerer,
        index=lambda: _index(store, settings, observer, now=clock()),
        open_desk=lambda turn_id: open_desk(
            store, settings, answerer=answerer, turn_id=turn_id, clock=clock, note=observer.note
        ),
        boosters=boosters(settings.boosts.boosters),
        vectors=lambda: store.vectors(EMBEDDER),
        clock=clock,
        tracing=tracing,
        judged_by=None
        if _names_judge(given, loaded)
        else lambda spec: again(judge=given.judge.model_copy(update={"model": spec})),
        capped_at=lambda max_usd: again(budget=given.budget.model_copy(update={"max_usd": max_usd})),
    )


def _for_use(given: Settings, store: Store) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings that hold, and what is to be said of them: a replay sends nothing."""
    if not given.judge.replay:
        return given, ()
    return seats.for_replay(given, newest=latest_judge(store.connection))


def _names_judge(settings: Settings, loaded: Loaded | None) -> bool:
    """Whether whoever calls us named the judge: by a flag, or in settings that it made itself."""
    if loaded is not None:
        return loaded.origins["judge.model"] == "flag"
    return "model" in settings.judge.model_fields_set


def _index(store: Store, settings: Settings, observer: Observer, *, now: float) -> IndexReport:
    """Bring the index up to date, tell what the user should know of it, and record that it changed where it did."""
    allow_pii = settings.memory.allow_pii
    report = index(store.connection, store.root, settings.index, now=now, allow_pii=allow_pii)
    for note in report.notes:
        observer.note(note)
    changes = {"added": report.memories.added, "changed": report.memories.changed, "removed": report.memories.removed}
    if any(changes.values()):
        emit(store.connection, EventName.INDEXED, at=now, payload=changes)
    broken = len(evidence.refresh(store.connection, store.root, now=now).stale)
    if broken:
        observer.note(f"memories gone stale, since the code they cite has changed: {broken} (`xscore memory audit`)")
    return report
