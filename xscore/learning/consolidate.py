"""Consolidation: what the layers hold, brought into order, with nothing done twice (L01–L11, B11).

`consolidate` plans from records (`stages`) and then writes (`both_stores`): one transaction over both stores, then what
time has worn out goes, in transactions of its own, then the summaries of what is left. A run that was killed leaves
each store as it was or as it is to be at one of these steps, and the next run does the rest. Run again at the same
clock it does nothing. Memories of the index are never looked at. Trade-off: the summaries cost a second look at the
store, since what a session comes to depends on what is left of it.
"""

import sqlite3
from collections import Counter
from collections.abc import Collection

from xscore.learning import both_stores, rows, stages
from xscore.learning.actions import SCOPES, Action, ActionKind, Consolidation, Scope
from xscore.learning.both_stores import Work
from xscore.learning.users_share import COMPARED
from xscore.memory import erasure
from xscore.memory.databases import Databases
from xscore.memory.session_digest import summary_of
from xscore.settings import MemorySettings


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
    makes = not dry_run and "user" in wanted and rows.says_anything(store.connection, COMPARED)
    user = store.user_connection(make=makes)  # a store is made only for what there is to note
    with both_stores.held(store.connection, user, dry_run=dry_run):
        work = both_stores.read(store, user)
        considered = len(work.repository.before) + len(work.user.before)
        stages.time_and_learning(work, settings, wanted, now=now)
        if not dry_run:
            both_stores.write(store, user, work, wanted, now=now)
    actions = work.actions
    if not dry_run:
        _let_go(store, work, now=now)
    if "session" in wanted:
        actions += _sum_up(store, work, settings, now=now, dry_run=dry_run)
    counts = Counter(str(action.kind) for action in actions)
    return Consolidation(
        actions=tuple(actions),
        dry_run=dry_run,
        considered=considered,
        counts={str(kind): counts[kind] for kind in ActionKind if counts[kind]},
        skipped=skipped,
    )


def _sum_up(store: Databases, work: Work, settings: MemorySettings, *, now: float, dry_run: bool) -> list[Action]:
    """Plan and write the summaries of what is left, and return what that took; a dry run goes on with its drafts."""
    with both_stores.held(store.connection, None, dry_run=dry_run):
        if not dry_run:
            work = both_stores.read(store, None)
        work.repository.actions = []
        stages.summaries(work, settings, told=_Told(store.connection), now=now)
        if not dry_run:
            both_stores.write(store, None, work, (), now=now)
    if not dry_run:
        _let_go(store, work, now=now)
    return work.repository.actions


def _let_go(store: Databases, work: Work, *, now: float) -> None:
    if work.erased:
        erasure.let_go(store, work.erased, now=now)  # which remembers the ids of what was imported


class _Told:
    """What a session comes to, in words, read when it is wanted."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __call__(self, thread: str) -> str:
        return summary_of(self.connection, thread).text
