"""Consolidate the memories of both stores, and close working sessions (L01–L11, B11).

One transaction over both stores applies the rules in order; then expired memories are removed, then closed sessions
are summarised from what is left. A run that was killed leaves each store before or after one of these steps, and the
next run continues; a second run at the same time changes nothing. Memories of the index are never read. Trade-off: the
order of the rules is part of the result, so it is stated here alone.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from xscore.extensions.learning import stored_drafts, user_preferences
from xscore.extensions.learning.draft import SCOPES, Action, ActionKind, Consolidation, ConsolidationDraft, Scope
from xscore.extensions.learning.rules import (
    archive_weak,
    carry_over,
    expire_unused,
    fade_confidence,
    keep_to_caps,
    merge_duplicates,
    summarise_sessions,
    summary_id,
)
from xscore.extensions.learning.stored_drafts import ConsolidationState
from xscore.extensions.learning.user_preferences import COMPARED
from xscore.platform import database
from xscore.platform.errors import NothingMatched
from xscore.records import Layer
from xscore.settings import MemorySettings
from xscore.store.near_duplicates import near_duplicates
from xscore.store.redaction import redact
from xscore.store.removal import remove_expired
from xscore.store.session_summary import save_session_summary, summarise_session
from xscore.store.store import Store
from xscore.store.working_session import load_sessions, mark_session_closed

_LAYERS: dict[Scope, tuple[Layer, ...]] = {
    "session": (Layer.SESSION,),
    "project": (Layer.PROJECT, Layer.GOVERNANCE),
    "user": (Layer.USER,),
}


def apply_rules(work: ConsolidationState, settings: MemorySettings, wanted: Collection[Scope], *, now: float) -> None:
    """Carry over, merge, fade, let go, keep to caps and, where the user is wanted, learn of them."""
    if "session" in wanted:
        carry_over(work.repository, work.closed)
    for scope in (scope for scope in wanted if scope != "user"):
        merge_duplicates(work.repository, _LAYERS[scope], scope, similar=near_duplicates)
        fade_confidence(work.repository, _LAYERS[scope], scope, settings, now=now)
        _settle(work.repository, scope, settings, now=now)
    if "user" in wanted:
        _user_layer(work, settings, now=now)


def apply_summaries(
    work: ConsolidationState, settings: MemorySettings, *, summary_of: Callable[[str], str], now: float
) -> None:
    """Sum up what is left of closed sessions, and make room for it. summary_of: the text of a session's summary."""
    summarise_sessions(work.repository, work.closed, summary_of=summary_of, now=now)
    _settle(work.repository, "session", settings, now=now)


def _settle(draft: ConsolidationDraft, scope: Scope, settings: MemorySettings, *, now: float) -> None:
    """Let go, merge and keep to the caps until nothing changes.

    What goes may have kept others apart, and what is merged may go.
    """
    before = -1
    while before != len(draft.actions):
        before = len(draft.actions)
        expire_unused(draft, _LAYERS[scope], scope, settings, now=now)
        merge_duplicates(draft, _LAYERS[scope], scope, similar=near_duplicates)
        keep_to_caps(draft, _LAYERS[scope], scope, settings)


def _user_layer(work: ConsolidationState, settings: MemorySettings, *, now: float) -> None:
    draft = work.user
    changes = work.changes = user_preferences.compare_observations(
        work.repository, draft, work.observations, project=work.project, projects=work.projects, now=now
    )
    user_preferences.promote_preferences(draft, changes, settings, forgotten=work.forgotten, now=now)
    user_preferences.mark_seen(draft, changes)
    merge_duplicates(draft, _LAYERS["user"], "user", similar=near_duplicates)
    drifting = user_preferences.drifting_preferences(draft, changes, settings)
    fade_confidence(draft, _LAYERS["user"], "user", settings, now=now, drifting=drifting)
    archive_weak(draft, "user", settings)
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
    makes = not dry_run and "user" in wanted and stored_drafts.has_keyed_memories(store.connection, COMPARED)
    user = store.user_connection(create=makes)  # a store is made only for what there is to note
    with stored_drafts.hold_both_stores(store.connection, user, dry_run=dry_run):
        work = stored_drafts.read_both_stores(store, user)
        considered = len(work.repository.before) + len(work.user.before)
        apply_rules(work, settings, wanted, now=now)
        if not dry_run:
            stored_drafts.write_both_stores(store, user, work, wanted, now=now)
    actions = work.actions
    if not dry_run:
        _remove_expired(store, work, now=now)
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
    """Plan and write the summaries of what is left, and return what that took; a dry run goes on with its drafts."""
    with stored_drafts.hold_both_stores(store.connection, None, dry_run=dry_run):
        if not dry_run:
            work = stored_drafts.read_both_stores(store, None)
        work.repository.actions = []
        apply_summaries(
            work, settings, summary_of=lambda thread: summarise_session(store.connection, thread).text, now=now
        )
        if not dry_run:
            stored_drafts.write_both_stores(store, None, work, (), now=now)
    if not dry_run:
        _remove_expired(store, work, now=now)
    return work.repository.actions


def _remove_expired(store: Store, work: ConsolidationState, *, now: float) -> None:
    if work.erased:
        remove_expired(store, work.erased, now=now)  # which remembers the ids of what was imported


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
        draft = stored_drafts.read_draft(connection)
        carry_over(draft, {thread})
        summarise_sessions(draft, {thread}, summary_of=lambda _: text, now=now)
        stored_drafts.write_draft(connection, draft, now=now)
    carried = tuple(action.memory_ids[0] for action in draft.actions if action.kind is ActionKind.CARRY)
    summary = summary_id(thread)
    members = [id_ for id_, memory in draft.after.items() if draft.threads.get(id_) == thread and id_ != summary]
    return ClosedSession(
        thread=thread,
        carried=carried,
        summary=summary if summary in draft.after else "",
        exchanges=sum(draft.after[id_].kind == "exchange" for id_ in members),
    )
