"""Puts the parts of a pipeline together: judge, answering model, index, boosters.

With other models or another cap they are put together again, from the settings that the caller
gave; what a caller has replaced (its observer, an index that is already up to date, resources with
prices of their own) stays. Trade-off: a new cap describes the judge again, which costs a look-up of
its host in the store; so the later turns of a list know what the first one learned of the host.
"""

import time
from collections.abc import Callable
from decimal import Decimal

from msgspec.structs import replace

from xscore.extension import enabled_plugins
from xscore.indexer.index import index_repository
from xscore.pipeline import factories
from xscore.pipeline.boosts import load_boosters
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.parts import PipelineParts, TurnListener
from xscore.platform.database import is_busy, lock_wait_until
from xscore.platform.errors import StoreError
from xscore.records.events import IndexProgress, Observer
from xscore.records.indexing import IndexReport
from xscore.settings import LoadedSettings, Settings
from xscore.settings.values import SettingsGroup
from xscore.store.events import EventName, emit_event
from xscore.store.index_rows import OBSERVED, read_index_meta
from xscore.store.store import Store


def assemble_parts(
    store: Store,
    given_settings: Settings,
    loaded: LoadedSettings | None,
    observer: Observer,
    *,
    listener: TurnListener | None = None,
) -> PipelineParts:
    """Put the parts of an opened repository together; nothing is sent.

    loaded: where the settings come from; None if the caller built them. Raises NoUsableModel.
    """
    settings, warnings = _usable_settings(store, given_settings)
    judge_spec, judge_warnings = factories.choose_judge(settings)
    if loaded is not None:
        warnings = (*loaded.warnings, *warnings)

    def update_index(until: float | None) -> IndexReport:
        return _update_index(store, settings, observer, now=store.clock(), until=until)

    return PipelineParts(
        root=store.root,
        given=given_settings,
        loaded=loaded,
        settings=settings,
        store=store,
        observer=observer,
        warnings=(*warnings, *judge_warnings),
        judge=factories.describe_judge(judge_spec, settings, store=store),
        answerer=factories.choose_answerer(settings),
        index=update_index,
        boosters=load_boosters(settings),
        clock=store.clock,
        listener=listener,
    )


def with_models(parts: PipelineParts, judge: str, primary: str) -> PipelineParts:
    """Return the parts with this judge and answering model, except for those that the caller has
    named.

    judge: `provider:model`; empty: as it is.
    primary: `provider:model`; empty: as it is.
    """
    given_settings = parts.given
    changed: dict[str, SettingsGroup] = {}
    if judge and not _is_named_by_caller(parts, "judge"):
        changed["judge"] = replace(given_settings.judge, model=judge, is_named=True)
    if primary and not _is_named_by_caller(parts, "primary"):
        changed["primary"] = replace(given_settings.primary, model=primary, is_named=True)
    return _with_settings(parts, replace(given_settings, **changed))


def _is_named_by_caller(parts: PipelineParts, group: str) -> bool:
    """Whether the caller named the model of these settings: by a flag, or in its own settings."""
    if parts.loaded is not None:
        return parts.loaded.origins[f"{group}.model"] == "flag"
    return factories.is_model_named(getattr(parts.given, group))


def with_cap(parts: PipelineParts, max_usd: Decimal) -> PipelineParts:
    """Return the parts with that cap on a turn. The judge is described again, with what has been
    learned of its host meanwhile."""
    budget = replace(parts.given.budget, max_usd=max_usd)
    return _with_settings(parts, replace(parts.given, budget=budget))


def described_again(parts: PipelineParts) -> PipelineParts:
    """Return the parts with the judge as its host is known now."""
    return _with_settings(parts, parts.given)


def judging_changes(parts: PipelineParts) -> PipelineParts:
    """Return the parts whose judge is asked what a diff leaves undone: by the rubric for that, and
    with the diff in sight. Words count nothing: those of its task are the same for every diff."""
    judge = replace(parts.given.judge, rubric="check", sees="full")
    selection = replace(parts.given.selection, words=0.0)
    return _with_settings(parts, replace(parts.given, judge=judge, selection=selection))


def _with_settings(parts: PipelineParts, given_settings: Settings) -> PipelineParts:
    reassembled = assemble_parts(
        parts.store, given_settings, parts.loaded, parts.observer, listener=parts.listener
    )
    reassembled = replace(
        reassembled, index=parts.index, resources_opener=parts.resources_opener
    )
    if parts.adapt_judge is None:
        return reassembled
    return with_adapted_judge(reassembled, parts.adapt_judge)


def with_adapted_judge(
    parts: PipelineParts, adapt: Callable[[JudgeDescription], JudgeDescription]
) -> PipelineParts:
    """Return the parts with the judge's description changed, now and whenever it is made again."""
    return replace(parts, judge=adapt(parts.judge), adapt_judge=adapt)


def _usable_settings(
    store: Store, given_settings: Settings
) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings that choose the models, and warnings. Those of a replay are changed so
    that it needs no key."""
    if not given_settings.judge.replay:
        return given_settings, ()
    return factories.replay_settings(given_settings, store=store)


def _update_index(
    store: Store, settings: Settings, observer: Observer, *, now: float, until: float | None
) -> IndexReport:
    """Bring the index up to date, notify the user, and record that it changed if it did.

    until: see `index_repository`.
    """
    began = time.monotonic()

    def show_progress(files: int, of: int) -> None:
        observer.on(IndexProgress(files, of, time.monotonic() - began))

    report = index_repository(
        store.connection,
        store.root,
        settings.index,
        now=now,
        allow_pii=settings.memory.allow_pii,
        until=until,
        siblings=store.siblings,
        languages=tuple(enabled_plugins("languages", settings).values()),
        progress=show_progress,
    )
    for note in report.notes:
        observer.note(note)
    changes = {
        "added": report.memories.added,
        "changed": report.memories.changed,
        "removed": report.memories.removed,
    }
    if any(changes.values()):
        emit_event(store.connection, EventName.INDEXED, at=now, payload=changes)
    if settings.memory.observe:
        _observe(store, report, now=now, until=until)
    has_evidence = store.connection.execute("SELECT EXISTS (SELECT 1 FROM evidence)")
    if has_evidence.fetchone()[0]:
        _check_citations(store, observer, now=now)
    return report


def _observe(store: Store, report: IndexReport, *, now: float, until: float | None) -> None:
    """Note what files show, if any has changed since they were last looked at."""
    # What a deadline left unread would seem to be gone.
    if report.files_left:
        return
    has_changed = report.files.indexed or report.files.removed
    if not has_changed and read_index_meta(store.connection, OBSERVED):
        return
    # Only after a change.
    from xscore.extensions.learning.observed.observe import observe_repository

    try:
        with lock_wait_until(store.connection, until):
            observe_repository(store, now=now, is_hurried=until is not None)
    except StoreError as error:
        # Another process is writing: the next change is looked at with this one.
        if not is_busy(error):
            raise


def _check_citations(store: Store, observer: Observer, *, now: float) -> None:
    from xscore.store.evidence import refresh_evidence  # only where a memory cites code

    broken = len(refresh_evidence(store.connection, store.root, now=now).stale)
    if broken:
        observer.note(
            f"memories gone stale, since the code they cite has changed: {broken} (`xscore memory"
            " audit`)"
        )
