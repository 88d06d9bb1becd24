"""The repository's store and the user's as consolidation sees them: held together, read into drafts, made like them.

The user's is taken first and committed last, as erasure does, so that a run that was killed leaves each as it was or as
it is to be. It decides nothing. Trade-off: everything that is not the index's is read at each run (records, not
vectors), since that is what makes the plan a pure function.
"""

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from xscore import database
from xscore.learning import rows
from xscore.learning.actions import Action, Scope
from xscore.learning.draft import Draft
from xscore.learning.upkeep import is_due
from xscore.learning.users_share import Noted
from xscore.memory import observations
from xscore.memory.databases import Databases
from xscore.records import Observation


@dataclass(slots=True, kw_only=True)
class Work:
    """Both stores' drafts on the way, and what the rules ask beside them."""

    repository: Draft
    user: Draft
    closed: frozenset[str]
    """Threads of closed sessions."""
    project: str
    """How the user's store names this one."""
    known: Sequence[Observation] = ()
    projects: Mapping[str, float] = field(default_factory=dict)
    """Every project that took part -> when it was last seen (unix seconds)."""
    forgotten: frozenset[str] = frozenset()
    """Ids that must not come back to the user's store."""
    noted: Noted | None = None

    @property
    def actions(self) -> list[Action]:
        """What is done to either, the repository's first."""
        return [*self.repository.actions, *self.user.actions]

    @property
    def erased(self) -> list[str]:
        """Ids that are to go for good."""
        return [*self.repository.erased, *self.user.erased]


@contextmanager
def held(connection: sqlite3.Connection, user: sqlite3.Connection | None, *, dry_run: bool) -> Iterator[None]:
    """Hold both stores: to write, or to look at one and the same state."""
    hold = database.snapshot if dry_run else database.transaction
    with ExitStack() as stack:
        for each in (user, connection):
            if each is not None:
                stack.enter_context(hold(each))
        yield


def read(store: Databases, user: sqlite3.Connection | None) -> Work:
    """Read what is there, while both are held."""
    work = Work(
        repository=rows.read(store.connection),
        user=Draft(),
        closed=rows.closed_sessions(store.connection),
        project=observations.project_name(store.store_id),
    )
    if user is not None:
        work.user = rows.read(user)
        work.known = observations.observations(user)
        work.projects = observations.projects(user)
        work.forgotten = rows.forgotten(user)
    return work


def write(
    store: Databases, user: sqlite3.Connection | None, work: Work, wanted: Collection[Scope], *, now: float
) -> None:
    """Make both stores like their drafts, while they are held; what is to go for good goes later."""
    rows.write(store.connection, work.repository, now=now)
    due = [scope for scope in wanted if scope != "user" and is_due(work.repository, scope, now=now)]
    rows.mark_faded(store.connection, due, now=now)
    if user is not None and work.noted is not None:
        rows.write(user, work.user, now=now)
        rows.write_notes(user, work.noted, now=now)
        rows.mark_faded(user, ["user"] if is_due(work.user, "user", now=now) else [], now=now)
