"""Consolidate the memories of both stores, and close working sessions.

One transaction over both stores reads drafts, applies the rules in order and writes the changes
back; then expired memories are removed. The user's store is locked first and committed last. A
killed run leaves each store before or after one of these steps, and the next run continues.
Trade-off: the order of the rules is part of the result, and every memory that is not the index's is
read at each run, which keeps the rules pure.
"""

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from xscore.extensions.learning import user_preferences
from xscore.extensions.learning.draft import (
    SCOPES,
    ActionKind,
    Consolidation,
    ConsolidationDraft,
    Scope,
    count_by_kind,
)
from xscore.extensions.learning.draft_storage import mark_faded, read_draft, write_draft
from xscore.extensions.learning.observed.noting import CitedFact
from xscore.extensions.learning.observed.observe import note_in_draft, read_observed
from xscore.extensions.learning.rules import (
    archive_weak,
    carry_over,
    expire_unused,
    expire_waiting,
    fade_confidence,
    keep_to_caps,
    merge_duplicates,
    summarise_sessions,
    summary_id,
)
from xscore.extensions.learning.user_preferences import COMPARED, ObservationChanges
from xscore.platform import database
from xscore.platform.errors import NothingMatched
from xscore.platform.git import run_git
from xscore.platform.text import readable_text
from xscore.records.memory import Kind
from xscore.records.statement import Observation
from xscore.settings import MemorySettings
from xscore.store import lookup
from xscore.store.lookup import delete_observations, record_observations, record_project
from xscore.store.memory_queries import has_keyed_memory
from xscore.store.redaction import redact
from xscore.store.removal import remove_expired
from xscore.store.session_summary import save_session_summary, summarise_session
from xscore.store.store import Store
from xscore.store.working_session import load_sessions, mark_session_closed


def consolidate(
    store: Store,
    settings: MemorySettings,
    *,
    now: float,
    scopes: Collection[Scope] = SCOPES,
    dry_run: bool = False,
) -> Consolidation:
    """Consolidate the layers of these scopes.

    now: Unix seconds.
    dry_run: only report.
    """
    ordered = sorted(scopes, key=SCOPES.index)
    skipped: tuple[str, ...] = ()
    if "user" in ordered and store.user_data_dir is None:
        ordered.remove("user")
        skipped = ("user: memory.user_learning is off",)
    # Read before the stores are locked: it opens files.
    observed: Sequence[CitedFact] = ()
    if "project" in ordered and settings.observe:
        observed = read_observed(store)
    may_create = "user" in ordered and not dry_run
    # The user's store is made only where there is something to note.
    user = store.user_connection(create=may_create and _has_news(store, observed))
    with ExitStack() as held:
        hold = database.read_snapshot if dry_run else database.transaction
        # The user's store is locked first, as everywhere: two runs cannot wait for each other.
        for connection in (user, store.connection):
            if connection is not None:
                held.enter_context(hold(connection))
        repository = read_draft(store.connection, settings, now=now)
        users = ConsolidationDraft((), settings, now=now)
        if user is not None:
            users = read_draft(user, settings, now=now)
        of_project = [scope for scope in ordered if scope != "user"]
        _apply_rules(store, repository, observed, of_project)
        changes = None
        if "user" in ordered:
            changes = _learn_of_user(store, user, repository, users)
        if not dry_run:
            _write_repository(store.connection, repository, of_project)
            if user is not None and changes is not None:
                _write_user(user, users, changes)
    erased = [*repository.erased, *users.erased]
    if erased and not dry_run:
        remove_expired(store, erased, now=now)
    return _consolidation_of(repository, users, dry_run=dry_run, skipped=skipped)


def _consolidation_of(
    repository: ConsolidationDraft,
    users: ConsolidationDraft,
    *,
    dry_run: bool,
    skipped: tuple[str, ...],
) -> Consolidation:
    actions = (*repository.actions, *users.actions)
    return Consolidation(
        actions=actions,
        dry_run=dry_run,
        considered=len(repository.before) + len(users.before),
        counts=count_by_kind(actions),
        skipped=skipped,
    )


def _has_news(store: Store, observed: Sequence[CitedFact]) -> bool:
    if observed:
        return True
    return has_keyed_memory(store.connection, COMPARED)


def _apply_rules(
    store: Store,
    draft: ConsolidationDraft,
    observed: Sequence[CitedFact],
    scopes: Sequence[Scope],
) -> None:
    """Carry over, note what files show, merge, fade, expire, apply the caps, and summarise closed
    sessions."""
    rows = store.connection.execute(
        "SELECT thread FROM session WHERE closed_at IS NOT NULL"
    ).fetchall()
    closed = frozenset(thread for (thread,) in rows)
    if "session" in scopes:
        carry_over(draft, closed)
    if "project" in scopes:
        note_in_draft(store, draft, observed)
    for scope in scopes:
        merge_duplicates(draft, scope)
        fade_confidence(draft, scope)
        _tidy(draft, scope)
    if "session" in scopes:
        summarise_sessions(
            draft,
            closed,
            summary_of=lambda thread: summarise_session(store.connection, thread).text,
        )
        _tidy(draft, "session")


def _tidy(draft: ConsolidationDraft, scope: Scope) -> None:
    """Expire, merge and apply the caps until nothing changes, since each may enable another."""
    before = -1
    while before != len(draft.actions):
        before = len(draft.actions)
        expire_unused(draft, scope)
        expire_waiting(draft, scope)
        merge_duplicates(draft, scope)
        keep_to_caps(draft, scope)


def _learn_of_user(
    store: Store,
    user: sqlite3.Connection | None,
    repository: ConsolidationDraft,
    draft: ConsolidationDraft,
) -> ObservationChanges:
    """Compare this project with the user's others, and consolidate the user's layer."""
    observations: Sequence[Observation] = ()
    projects: dict[str, float] = {}
    forgotten = set[str]()
    if user is not None:
        observations = lookup.list_observations(user)
        projects = lookup.list_projects(user)
        forgotten.update(id_ for (id_,) in user.execute("SELECT memory_id FROM erased_memory"))
    changes = user_preferences.compare_observations(
        repository,
        draft,
        observations,
        project=lookup.project_pseudonym(store.store_id),
        projects=projects,
    )
    user_preferences.promote_preferences(draft, changes, forgotten=forgotten)
    user_preferences.mark_seen(draft, changes)
    merge_duplicates(draft, "user")
    fade_confidence(draft, "user", user_preferences.drifting_preferences(draft, changes))
    archive_weak(draft)
    _tidy(draft, "user")
    user_preferences.mark_exceptions(repository, draft)
    return changes


def _write_repository(
    connection: sqlite3.Connection, draft: ConsolidationDraft, scopes: Sequence[Scope]
) -> None:
    write_draft(connection, draft)
    mark_faded(connection, draft, scopes)


def _write_user(
    user: sqlite3.Connection, draft: ConsolidationDraft, changes: ObservationChanges
) -> None:
    write_draft(user, draft)
    record_project(user, changes.project, now=draft.now)
    record_observations(user, changes.new)
    delete_observations(user, changes.project, changes.ended)
    mark_faded(user, draft, ["user"])


class ClosedSession(Struct, frozen=True, kw_only=True):
    """The result of closing a session."""

    thread: str
    carried: tuple[str, ...] = ()
    """Ids of memories given to the project; empty if the session noted none."""
    summary: str = ""
    """Id of the summary of its exchanges; empty if there is none."""
    exchanges: int = 0
    """Number of exchanges in the summary."""


def merged_branches(root: Path) -> tuple[str, ...]:
    """Return the local branches that the last merge or pull brought into HEAD, without the current
    one.

    They are in HEAD and were not in ORIG_HEAD, so a branch just created does not count as merged.
    Squashed and rebased branches cannot be detected.
    """
    form = "--format=%(HEAD)%(refname:lstrip=2)"
    printed = run_git(
        root, "for-each-ref", "--merged=HEAD", "--no-merged=ORIG_HEAD", form, "refs/heads"
    )
    branches: list[str] = []
    for line in readable_text(printed or "").split("\n"):
        # The first character marks the branch that is checked out.
        if line and not line.startswith("*"):
            branches.append(line[1:])
    return tuple(branches)


def close_branches(
    store: Store, branches: Iterable[str], *, now: float
) -> tuple[ClosedSession, ...]:
    """Close all open sessions of these branches, latest first. now: Unix seconds."""
    named = {redact(branch).text for branch in branches}
    closed: list[ClosedSession] = []
    for session in load_sessions(store.connection, limit=-1):
        if session.branch in named and session.closed_at is None:
            closed.append(close_session(store, session.thread, now=now))
    return tuple(closed)


def close_session(store: Store, thread: str, *, now: float) -> ClosedSession:
    """Close a working session and keep what it learned. now: Unix seconds.

    Raises NothingMatched if there is no such session.
    """
    connection = store.connection
    with database.transaction(connection):
        row = connection.execute("SELECT 1 FROM session WHERE thread = ?", (thread,)).fetchone()
        if row is None:
            raise NothingMatched(
                f"there is no session {thread}",
                hint="See `xscore session show` for the current one.",
            )
        mark_session_closed(connection, thread, now=now)
        text = save_session_summary(connection, thread).text
        draft = read_draft(connection, store.settings, now=now)
        carry_over(draft, {thread})
        summarise_sessions(draft, {thread}, summary_of=lambda _: text)
        write_draft(connection, draft)
    carried: list[str] = []
    for action in draft.actions:
        if action.kind is ActionKind.CARRY:
            carried.append(action.memory_ids[0])
    exchanges = 0
    for memory_id, memory in draft.after.items():
        if draft.threads.get(memory_id) == thread and memory.kind is Kind.EXCHANGE:
            exchanges += 1
    summary = summary_id(thread)
    if summary not in draft.after:
        summary = ""
    return ClosedSession(
        thread=thread, carried=tuple(carried), summary=summary, exchanges=exchanges
    )
