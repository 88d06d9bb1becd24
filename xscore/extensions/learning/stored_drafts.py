"""Read drafts from the stores and write them back.

New memories and new texts go through the memory writer; other changes update the row, so that use counts, vectors and
sessions stay. The user's store is locked first and committed last, everywhere. Trade-off: every memory that is not the
index's is read at each run, which keeps the rules pure.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from msgspec import Struct, field

from xscore.extensions.learning.draft import Action, ConsolidationDraft, Scope
from xscore.extensions.learning.rules import is_due
from xscore.extensions.learning.user_preferences import ObservationChanges
from xscore.platform import database
from xscore.records import Kind, Memory, Observation
from xscore.store import events, lookup, memory_rows, memory_writer
from xscore.store.events import EventName, emit_event
from xscore.store.lookup import delete_observations, record_observations, record_project
from xscore.store.store import Store

_UPDATE = (
    "UPDATE memory SET status = ?, content_hash = ?, text_hash = ?, superseded_by = ?, confidence = ?, importance = ?,"
    " evidence_count = ?, key = ?, updated_at = ?, source = ?, attrs = json_patch(attrs, ?) WHERE id = ?"
)
_FADED = "faded_at:"


def read_draft(connection: sqlite3.Connection) -> ConsolidationDraft:
    """Read everything that is not the index's."""
    found = memory_rows.select_memories(connection, "source <> 'index'", ())
    threads = connection.execute("SELECT id, thread FROM memory WHERE thread <> '' AND source <> 'index'").fetchall()
    marks = connection.execute("SELECT key, value FROM meta WHERE key LIKE ?", (f"{_FADED}%",)).fetchall()
    faded_at = {key.removeprefix(_FADED): float(at) for key, at in marks}
    return ConsolidationDraft(found, threads=dict(threads), faded_at=faded_at)


def has_keyed_memories(connection: sqlite3.Connection, kinds: Collection[Kind]) -> bool:
    """Whether anything of these kinds was said under a key."""
    found = connection.execute(
        "SELECT 1 FROM memory WHERE source <> 'index' AND key <> ''"
        " AND kind IN (SELECT value FROM json_each(?)) LIMIT 1",
        (json.dumps(sorted(kinds)),),
    )
    return found.fetchone() is not None


def closed_sessions(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the threads of all closed sessions."""
    found = connection.execute("SELECT thread FROM session WHERE closed_at IS NOT NULL").fetchall()
    return frozenset(thread for (thread,) in found)


def forgotten(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the ids that must not come back."""
    return frozenset(id_ for (id_,) in connection.execute("SELECT memory_id FROM erased_memory").fetchall())


def write_draft(connection: sqlite3.Connection, draft: ConsolidationDraft, *, now: float) -> None:
    """Make the store like the draft, but for what it erases, in a transaction that is open."""
    going = (json.dumps(draft.erased),)  # they go later; what takes their place may need their keys now
    connection.execute("UPDATE memory SET key = '' WHERE key <> '' AND id IN (SELECT value FROM json_each(?))", going)
    for memory in draft.changed:
        known = draft.before.get(memory.id)
        if known is None or known.text != memory.text:
            _put(connection, memory, known, thread=draft.threads.get(memory.id, ""), now=now)
        else:
            connection.execute(_UPDATE, _update_values(memory))
    for summary, exchanges in draft.members.items():
        _link_summary(connection, summary, exchanges)
    if draft.actions:
        counts = Counter(str(action.kind) for action in draft.actions)
        emit_event(connection, EventName.UPDATED, at=now, payload={"consolidated": dict(sorted(counts.items()))})


def mark_faded(connection: sqlite3.Connection, scopes: Iterable[Scope], *, now: float) -> None:
    """Note that confidence has fallen up to now; a clock that was set back changes nothing."""
    connection.executemany(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        " WHERE CAST(excluded.value AS REAL) > CAST(value AS REAL)",
        [(f"{_FADED}{scope}", repr(now)) for scope in scopes],
    )


def write_observations(user: sqlite3.Connection, noted: ObservationChanges, *, now: float) -> None:
    """Note in the user's store what this project says, in a transaction that is open."""
    record_project(user, noted.project, now=now)
    record_observations(user, noted.new)
    delete_observations(user, noted.project, noted.ended)


def _put(connection: sqlite3.Connection, memory: Memory, known: Memory | None, *, thread: str, now: float) -> None:
    if thread:  # a summary stays with its session
        memory_writer.put_memories(connection, [memory], thread=thread)
        emit_event(connection, EventName.UPDATED if known else EventName.STORED, at=now, subject=memory.id)
    else:
        events.write_memory(connection, memory, before=known, now=now)


def _update_values(memory: Memory) -> tuple[object, ...]:
    said = memory_writer.facts_to_json(memory.facts, memory.particulars)
    state = (memory.status, memory.content_hash, memory.text_hash, memory.superseded_by)
    weight = (memory.confidence, memory.importance, memory.evidence_count)
    return (*state, *weight, memory.key, memory.updated_at, memory.source, said, memory.id)


def _link_summary(connection: sqlite3.Connection, summary: str, exchanges: Collection[str]) -> None:
    among = "source NOT IN (SELECT value FROM json_each(?))"
    connection.execute(
        f"DELETE FROM edge WHERE target = ? AND relation = 'belongs_to' AND {among}",
        (summary, json.dumps(list(exchanges))),
    )
    connection.executemany(
        "INSERT INTO edge (source, target, relation) VALUES (?, ?, 'belongs_to') ON CONFLICT DO NOTHING",
        [(exchange, summary) for exchange in exchanges],
    )


class ConsolidationState(Struct, kw_only=True):
    """Both stores' drafts on the way, and what the rules ask beside them."""

    repository: ConsolidationDraft
    user: ConsolidationDraft
    closed: frozenset[str]
    """Threads of closed sessions."""
    project: str
    """How the user's store names this one."""
    observations: Sequence[Observation] = ()
    projects: Mapping[str, float] = field(default_factory=dict)
    """Every project that took part -> when it was last seen (unix seconds)."""
    forgotten: frozenset[str] = frozenset()
    """Ids that must not come back to the user's store."""
    changes: ObservationChanges | None = None

    @property
    def actions(self) -> list[Action]:
        """What is done to either, the repository's first."""
        return [*self.repository.actions, *self.user.actions]

    @property
    def erased(self) -> list[str]:
        """Ids that are to go for good."""
        return [*self.repository.erased, *self.user.erased]


@contextmanager
def hold_both_stores(
    connection: sqlite3.Connection, user: sqlite3.Connection | None, *, dry_run: bool
) -> Iterator[None]:
    """Hold both stores: to write, or to look at one and the same state."""
    hold = database.read_snapshot if dry_run else database.transaction
    with ExitStack() as stack:
        for each in (user, connection):
            if each is not None:
                stack.enter_context(hold(each))
        yield


def read_both_stores(store: Store, user: sqlite3.Connection | None) -> ConsolidationState:
    """Read what is there, while both are held."""
    work = ConsolidationState(
        repository=read_draft(store.connection),
        user=ConsolidationDraft(),
        closed=closed_sessions(store.connection),
        project=lookup.project_pseudonym(store.store_id),
    )
    if user is not None:
        work.user = read_draft(user)
        work.observations = lookup.list_observations(user)
        work.projects = lookup.list_projects(user)
        work.forgotten = forgotten(user)
    return work


def write_both_stores(
    store: Store,
    user: sqlite3.Connection | None,
    work: ConsolidationState,
    wanted: Collection[Scope],
    *,
    now: float,
) -> None:
    """Make both stores like their drafts, while they are held; what is to go for good goes later."""
    write_draft(store.connection, work.repository, now=now)
    due = [scope for scope in wanted if scope != "user" and is_due(work.repository, scope, now=now)]
    mark_faded(store.connection, due, now=now)
    if user is not None and work.changes is not None:
        write_draft(user, work.user, now=now)
        write_observations(user, work.changes, now=now)
        mark_faded(user, ["user"] if is_due(work.user, "user", now=now) else [], now=now)
