"""Consolidation: what the layers hold, brought into order, with nothing done twice (L01–L11, B11).

`consolidate` plans from records and then writes: one transaction over both stores (the user's is taken first and
committed last), then what time has worn out goes, in transactions of its own, then summaries and caps, which depend on
what is left. A run that was killed leaves each store as it was or as it is to be at one of these steps, and the next
run does the rest. Run again at the same clock it does nothing. Memories of the index are never looked at. Trade-off:
everything else is read at each run (records, not vectors), since that is what makes the plan a pure function.
"""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from xscore import database
from xscore.learning import rows, users_share
from xscore.learning.actions import SCOPES, Action, ActionKind, Consolidation, Scope
from xscore.learning.carrying import carry, summarise
from xscore.learning.draft import Draft
from xscore.learning.merging import merge
from xscore.learning.upkeep import archive_weak, fade, is_due, keep_to_caps, retire
from xscore.memory import erasure, observations
from xscore.memory.databases import Databases
from xscore.memory.near_duplicates import near_duplicates
from xscore.memory.session_digest import summary_of
from xscore.records import Layer
from xscore.settings import MemorySettings

_LAYERS: dict[Scope, tuple[Layer, ...]] = {
    "session": (Layer.SESSION,),
    "project": (Layer.PROJECT, Layer.GOVERNANCE),
    "user": (Layer.USER,),
}


@dataclass(slots=True)
class _Work:
    """Both stores' drafts on the way."""

    repository: Draft
    user: Draft
    noted: users_share.Noted | None = None

    @property
    def actions(self) -> list[Action]:
        return [*self.repository.actions, *self.user.actions]


def consolidate(
    store: Databases,
    settings: MemorySettings,
    *,
    now: float,
    scopes: Collection[Scope] = SCOPES,
    dry_run: bool = False,
) -> Consolidation:
    """Bring the layers of these scopes into order, or with dry_run only tell what would be done. now: Unix seconds."""
    wanted = [scope for scope in SCOPES if scope in scopes]
    skipped: tuple[str, ...] = ()
    if "user" in wanted and store.user_data_dir is None:
        wanted.remove("user")
        skipped = ("user: memory.user_learning is off",)
    work = _time_and_learning(store, settings, wanted, now=now, dry_run=dry_run)
    considered = len(work.repository.before) + len(work.user.before)
    actions = work.actions
    gone = [*work.repository.erased, *work.user.erased]
    if gone and not dry_run:
        erasure.let_go(store, gone, now=now)  # which remembers the ids of what was imported
    actions += _what_is_left(store, work, settings, wanted, now=now, dry_run=dry_run)
    counts = Counter(str(action.kind) for action in actions)
    return Consolidation(
        actions=tuple(actions),
        dry_run=dry_run,
        considered=considered,
        counts={str(kind): counts[kind] for kind in ActionKind if counts[kind]},
        skipped=skipped,
    )


def _time_and_learning(
    store: Databases, settings: MemorySettings, wanted: Sequence[Scope], *, now: float, dry_run: bool
) -> _Work:
    user = store.user_connection(make=not dry_run and "user" in wanted and _says_something(store))
    with _both(store.connection, user, dry_run=dry_run):
        work = _read(store.connection, user)
        if "session" in wanted:
            carry(work.repository, rows.closed_sessions(store.connection))
        for scope in (scope for scope in wanted if scope != "user"):
            merge(work.repository, _LAYERS[scope], scope, similar=near_duplicates)
            fade(work.repository, _LAYERS[scope], scope, settings, now=now)
            _settle(work.repository, scope, settings, now=now)
        if "user" in wanted:
            _users_share(store, user, work, settings, now=now)
        if not dry_run:
            _write(store, user, work, wanted, now=now)
    return work


def _settle(draft: Draft, scope: Scope, settings: MemorySettings, *, now: float) -> None:
    """Let go and merge until nothing changes: what goes may have kept others apart, and what is merged may go."""
    before = -1
    while before != len(draft.actions):
        before = len(draft.actions)
        retire(draft, _LAYERS[scope], scope, settings, now=now)
        merge(draft, _LAYERS[scope], scope, similar=near_duplicates)


def _users_share(
    store: Databases, user: sqlite3.Connection | None, work: _Work, settings: MemorySettings, *, now: float
) -> None:
    draft = work.user
    noted = work.noted = _note(store, user, work, now=now)
    users_share.promote(draft, noted, settings, forgotten=rows.forgotten(user) if user else (), now=now)
    users_share.see(draft, noted)
    merge(draft, _LAYERS["user"], "user", similar=near_duplicates)
    drifting = users_share.drifting(draft, noted, settings)
    fade(draft, _LAYERS["user"], "user", settings, now=now, drifting=drifting)
    archive_weak(draft, "user", settings)
    _settle(draft, "user", settings, now=now)
    users_share.mark_exceptions(work.repository, draft)


def _note(store: Databases, user: sqlite3.Connection | None, work: _Work, *, now: float) -> users_share.Noted:
    return users_share.note(
        work.repository,
        work.user,
        observations.observations(user) if user else (),
        project=observations.project_name(store.store_id),
        projects=observations.projects(user) if user else {},
        now=now,
    )


def _write(
    store: Databases, user: sqlite3.Connection | None, work: _Work, wanted: Sequence[Scope], *, now: float
) -> None:
    rows.write(store.connection, work.repository, now=now)
    due = [scope for scope in wanted if scope != "user" and is_due(work.repository, scope, now=now)]
    rows.mark_faded(store.connection, due, now=now)
    if user is not None and work.noted is not None:
        rows.write(user, work.user, now=now)
        rows.write_notes(user, work.noted, now=now)
        rows.mark_faded(user, ["user"] if is_due(work.user, "user", now=now) else [], now=now)


def _what_is_left(
    store: Databases, work: _Work, settings: MemorySettings, wanted: Sequence[Scope], *, now: float, dry_run: bool
) -> list[Action]:
    """Summaries of what is left, caps, and again the notes, since what is gone says nothing any more."""
    user = store.user_connection() if "user" in wanted else None
    with _both(store.connection, user, dry_run=dry_run):
        if not dry_run:
            work = _read(store.connection, user)
            noted = _note(store, user, work, now=now)
        work.repository.actions, work.user.actions = [], []
        if "session" in wanted:
            told = _Told(store.connection)
            summarise(work.repository, rows.closed_sessions(store.connection), told=told, now=now)
        for scope in wanted:
            draft = work.user if scope == "user" else work.repository
            keep_to_caps(draft, _LAYERS[scope], scope, settings)
        if not dry_run:
            rows.write(store.connection, work.repository, now=now)
            if user is not None:
                rows.write(user, work.user, now=now)
                rows.write_notes(user, noted, now=now)
    return work.actions


class _Told:
    """What a session comes to, in words, read when it is wanted."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __call__(self, thread: str) -> str:
        return summary_of(self.connection, thread).text


def _says_something(store: Databases) -> bool:
    """Whether there is anything of this project to note of its user; else no store is made for them."""
    kinds = ", ".join(f"'{kind}'" for kind in sorted(users_share.COMPARED))
    found = store.connection.execute(
        f"SELECT 1 FROM memory WHERE source <> 'index' AND key <> '' AND kind IN ({kinds}) LIMIT 1"  # noqa: S608  words are ours
    )
    return found.fetchone() is not None


def _read(connection: sqlite3.Connection, user: sqlite3.Connection | None) -> _Work:
    return _Work(rows.read(connection), rows.read(user) if user is not None else Draft())


@contextmanager
def _both(connection: sqlite3.Connection, user: sqlite3.Connection | None, *, dry_run: bool) -> Iterator[None]:
    """Hold both stores, the user's first, as erasure does: to write, or to look at one and the same state."""
    held = database.snapshot if dry_run else database.transaction
    with ExitStack() as stack:
        for each in (user, connection):
            if each is not None:
                stack.enter_context(held(each))
        yield
