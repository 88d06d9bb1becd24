"""Consolidate the memories of both stores, and close working sessions (L01–L11, B11).

One transaction over both stores reads drafts, applies the rules in order and writes the changes back; then expired
memories are removed and closed sessions summarised. The user's store is locked first and committed last. A killed run
leaves each store before or after one of these steps, and the next run continues. Trade-off: the order of the rules is
part of the result, and every memory that is not the index's is read at each run, which keeps the rules pure.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from msgspec import Struct, field

from xscore.extensions.learning import user_preferences
from xscore.extensions.learning.draft import SCOPES, Action, ActionKind, Consolidation, ConsolidationDraft, Scope
from xscore.extensions.learning.rules import (
    archive_weak,
    carry_over,
    expire_unused,
    fade_confidence,
    is_due,
    keep_to_caps,
    merge_duplicates,
    summarise_sessions,
    summary_id,
)
from xscore.extensions.learning.stack import StackPart, erased_ids, note_stack, read_stack
from xscore.extensions.learning.user_preferences import COMPARED, ObservationChanges
from xscore.platform import database
from xscore.platform.errors import NothingMatched
from xscore.records.memory import Kind, Layer, Memory
from xscore.records.statement import Observation
from xscore.settings import MemorySettings
from xscore.store import events, lookup, memory_rows, memory_writer
from xscore.store.events import EventName, emit_event
from xscore.store.evidence import attach_citations
from xscore.store.lookup import delete_observations, record_observations, record_project
from xscore.store.redaction import redact
from xscore.store.removal import remove_expired
from xscore.store.session_summary import save_session_summary, summarise_session
from xscore.store.store import Store
from xscore.store.working_session import load_sessions, mark_session_closed

_STATE = (
    *("status", "content_hash", "text_hash", "superseded_by", "confidence", "importance", "evidence_count", "key"),
    *("updated_at", "source"),
)
_UPDATE = f"UPDATE memory SET {' = ?, '.join(_STATE)} = ?, attrs = json_patch(attrs, ?) WHERE id = ?"
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


def write_draft(connection: sqlite3.Connection, draft: ConsolidationDraft, *, now: float) -> None:
    """Make the store like the draft, but for what it erases, in a transaction that is open."""
    going = (json.dumps(draft.erased),)  # they go later; what takes their place may need their keys now
    connection.execute("UPDATE memory SET key = '' WHERE key <> '' AND id IN (SELECT value FROM json_each(?))", going)
    for memory in draft.changed:
        known = draft.before.get(memory.id)
        if known is None or known.text != memory.text:
            _put(connection, memory, known, thread=draft.threads.get(memory.id, ""), now=now)
        else:
            attrs = memory_rows.facts_to_json(memory.facts, memory.particulars)
            connection.execute(_UPDATE, (*(getattr(memory, name) for name in _STATE), attrs, memory.id))
    for summary, exchanges in draft.members.items():
        _link_summary(connection, summary, exchanges)
    for memory_id, cited in draft.citations.items():
        attach_citations(connection, memory_id, cited)
    if draft.actions:
        counts = Counter(str(action.kind) for action in draft.actions)
        emit_event(connection, EventName.UPDATED, at=now, payload={"consolidated": dict(sorted(counts.items()))})


def _mark_faded(connection: sqlite3.Connection, scopes: Iterable[Scope], *, now: float) -> None:
    """Note that confidence has fallen up to now; a clock that was set back changes nothing."""
    connection.executemany(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        " WHERE CAST(excluded.value AS REAL) > CAST(value AS REAL)",
        [(f"{_FADED}{scope}", repr(now)) for scope in scopes],
    )


def _put(connection: sqlite3.Connection, memory: Memory, known: Memory | None, *, thread: str, now: float) -> None:
    if thread:  # a summary stays with its session
        memory_writer.put_memories(connection, [memory], thread=thread)
        emit_event(connection, EventName.UPDATED if known else EventName.STORED, at=now, subject=memory.id)
    else:
        events.write_memory(connection, memory, before=known, now=now)


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
    stack: Sequence[StackPart] = ()
    removed: frozenset[str] = frozenset()
    """Ids that were removed from the repository's store."""
    observations: Sequence[Observation] = ()
    projects: Mapping[str, float] = field(default_factory=dict)
    """Every project that took part -> when it was last seen (unix seconds)."""
    forgotten: frozenset[str] = frozenset()
    """Ids that must not come back to the user's store."""
    changes: ObservationChanges | None = None


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
    closed = store.connection.execute("SELECT thread FROM session WHERE closed_at IS NOT NULL").fetchall()
    work = ConsolidationState(
        repository=read_draft(store.connection),
        user=ConsolidationDraft(),
        closed=frozenset(thread for (thread,) in closed),
        project=lookup.project_pseudonym(store.store_id),
        removed=erased_ids(store.connection),
    )
    if user is not None:
        work.user = read_draft(user)
        work.observations = lookup.list_observations(user)
        work.projects = lookup.list_projects(user)
        work.forgotten = frozenset(id_ for (id_,) in user.execute("SELECT memory_id FROM erased_memory").fetchall())
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
    _mark_faded(store.connection, due, now=now)
    if user is not None and work.changes is not None:
        write_draft(user, work.user, now=now)
        record_project(user, work.project, now=now)
        record_observations(user, work.changes.new)
        delete_observations(user, work.project, work.changes.ended)
        _mark_faded(user, ["user"] if is_due(work.user, "user", now=now) else [], now=now)


_LAYERS: dict[Scope, tuple[Layer, ...]] = {
    "session": (Layer.SESSION,),
    "project": (Layer.PROJECT, Layer.GOVERNANCE),
    "user": (Layer.USER,),
}


def apply_rules(work: ConsolidationState, settings: MemorySettings, wanted: Collection[Scope], *, now: float) -> None:
    """Carry over, note the stack, merge, fade, expire, keep to caps and, where the user is wanted, learn of them."""
    if "session" in wanted:
        carry_over(work.repository, work.closed)
    if "project" in wanted:
        note_stack(work.repository, work.stack, settings, erased=work.removed, now=now)
    for scope in (scope for scope in wanted if scope != "user"):
        merge_duplicates(work.repository, _LAYERS[scope], scope)
        fade_confidence(work.repository, _LAYERS[scope], scope, settings, now=now)
        _settle(work.repository, scope, settings, now=now)
    if "user" in wanted:
        _learn_of_user(work, settings, now=now)


def _settle(draft: ConsolidationDraft, scope: Scope, settings: MemorySettings, *, now: float) -> None:
    """Expire, merge and keep to the caps until nothing changes: each may make room for another."""
    before = -1
    while before != len(draft.actions):
        before = len(draft.actions)
        expire_unused(draft, _LAYERS[scope], scope, settings, now=now)
        merge_duplicates(draft, _LAYERS[scope], scope)
        keep_to_caps(draft, _LAYERS[scope], scope, settings)


def _learn_of_user(work: ConsolidationState, settings: MemorySettings, *, now: float) -> None:
    draft = work.user
    changes = work.changes = user_preferences.compare_observations(
        work.repository, draft, work.observations, project=work.project, projects=work.projects, now=now
    )
    user_preferences.promote_preferences(draft, changes, settings, forgotten=work.forgotten, now=now)
    user_preferences.mark_seen(draft, changes)
    merge_duplicates(draft, _LAYERS["user"], "user")
    drifting = user_preferences.drifting_preferences(draft, changes, settings)
    fade_confidence(draft, _LAYERS["user"], "user", settings, now=now, drifting=drifting)
    archive_weak(draft, settings)
    _settle(draft, "user", settings, now=now)
    user_preferences.mark_exceptions(work.repository, draft)


def consolidate(
    store: Store,
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
    stack = read_stack(store) if "project" in wanted else ()
    is_news = bool(stack) or has_keyed_memories(store.connection, COMPARED)
    user = store.user_connection(
        create=is_news and not dry_run and "user" in wanted
    )  # a store is made only for what there is to note
    with hold_both_stores(store.connection, user, dry_run=dry_run):
        work = read_both_stores(store, user)
        work.stack = stack
        considered = len(work.repository.before) + len(work.user.before)
        apply_rules(work, settings, wanted, now=now)
        if not dry_run:
            write_both_stores(store, user, work, wanted, now=now)
    if not dry_run:
        _erase(store, work, now=now)
    actions = [*work.repository.actions, *work.user.actions]
    if "session" in wanted:
        actions += _summarise(store, work, settings, now=now, dry_run=dry_run)
    counts = Counter(str(action.kind) for action in actions)
    return Consolidation(
        actions=tuple(actions),
        dry_run=dry_run,
        considered=considered,
        counts={str(kind): counts[kind] for kind in ActionKind if counts[kind]},
        skipped=skipped,
    )


def _summarise(
    store: Store, work: ConsolidationState, settings: MemorySettings, *, now: float, dry_run: bool
) -> list[Action]:
    """Sum up what is left of closed sessions, make room for it, and return what that took; a dry run plans it alone."""
    with hold_both_stores(store.connection, None, dry_run=dry_run):
        if not dry_run:
            work = read_both_stores(store, None)
        work.repository.actions = []
        summarise_sessions(
            work.repository,
            work.closed,
            summary_of=lambda name: summarise_session(store.connection, name).text,
            now=now,
        )
        _settle(work.repository, "session", settings, now=now)
        if not dry_run:
            write_both_stores(store, None, work, (), now=now)
    if not dry_run:
        _erase(store, work, now=now)
    return work.repository.actions


def _erase(store: Store, work: ConsolidationState, *, now: float) -> None:
    erased = [*work.repository.erased, *work.user.erased]
    if erased:
        remove_expired(store, erased, now=now)


class ClosedSession(Struct, frozen=True, kw_only=True):
    """What closing a session came to."""

    thread: str
    carried: tuple[str, ...] = ()
    """Ids of what the project was given; empty: the session noted nothing to keep."""
    summary: str = ""
    """Id of the summary of its exchanges; empty: it had none."""
    exchanges: int = 0
    """Exchanges that the summary stands for."""


def close_branches(store: Store, branches: Iterable[str], *, now: float) -> tuple[ClosedSession, ...]:
    """Close all open sessions of these branches, last at work first. now: Unix seconds."""
    named = {redact(branch).text for branch in branches}
    over = [one for one in load_sessions(store.connection, limit=-1) if one.branch in named and one.closed_at is None]
    return tuple(close_session(store, one.thread, now=now) for one in over)


def close_session(store: Store, thread: str, *, now: float) -> ClosedSession:
    """Close a working session and keep what it learned. now: Unix seconds.

    Raises NothingMatched where there is no session of that name.
    """
    connection = store.connection
    with database.transaction(connection):
        if connection.execute("SELECT 1 FROM session WHERE thread = ?", (thread,)).fetchone() is None:
            raise NothingMatched(f"there is no session {thread}", hint="See `xscore session show` for the current one.")
        mark_session_closed(connection, thread, now=now)
        text = save_session_summary(connection, thread).text
        draft = read_draft(connection)
        carry_over(draft, {thread})
        summarise_sessions(draft, {thread}, summary_of=lambda _: text, now=now)
        write_draft(connection, draft, now=now)
    carried = tuple(action.memory_ids[0] for action in draft.actions if action.kind is ActionKind.CARRY)
    summary = summary_id(thread)
    members = [id_ for id_, memory in draft.after.items() if draft.threads.get(id_) == thread and id_ != summary]
    return ClosedSession(
        thread=thread,
        carried=carried,
        summary=summary if summary in draft.after else "",
        exchanges=sum(draft.after[id_].kind == "exchange" for id_ in members),
    )
