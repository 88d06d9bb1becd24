"""Read a draft of a store's memories, and make the store match it again.

Which memories are drafted is the caller's choice; rules change the draft in between. Trade-off: a
memory that changed is written whole.
"""

import sqlite3
from collections.abc import Collection, Iterable

from xscore.extensions.learning.draft import (
    LEAST_DAYS,
    ConsolidationDraft,
    Scope,
    count_by_kind,
)
from xscore.records.memory import Relation
from xscore.settings import MemorySettings
from xscore.store import memory_rows
from xscore.store.events import EventName, emit_event
from xscore.store.evidence import attach_citations
from xscore.store.link_rows import delete_members, state_edges
from xscore.store.memory_queries import unindexed_threads
from xscore.store.memory_updates import release_keys
from xscore.store.memory_writer import for_all_worktrees, note_staleness, write_memory
from xscore.store.written_rows import set_facts

_FADED = "faded_at:"


def read_draft(
    connection: sqlite3.Connection, rules: MemorySettings, *, now: float
) -> ConsolidationDraft:
    """Read every memory that is neither indexed nor fetched."""
    where = "source <> 'index' AND kind <> 'document'"
    memories = memory_rows.select_memories(connection, where, ())
    threads: dict[str, str] = {}
    for memory_id, thread in unindexed_threads(connection).items():
        if thread:
            threads[memory_id] = thread
    marks = connection.execute(
        "SELECT key, value FROM meta WHERE key LIKE ?", (f"{_FADED}%",)
    ).fetchall()
    faded_at: dict[str, float] = {}
    for key, at in marks:
        faded_at[key.removeprefix(_FADED)] = float(at)
    cited = {id_ for (id_,) in connection.execute("SELECT DISTINCT memory_id FROM evidence")}
    return ConsolidationDraft(
        memories, rules, now=now, threads=threads, faded_at=faded_at, cited=cited
    )


def write_draft(connection: sqlite3.Connection, draft: ConsolidationDraft) -> None:
    """Make the store match the draft, except for erasures, within an open transaction."""
    # They go later; what takes their place may need their keys now.
    release_keys(connection, draft.erased)
    for memory in draft.changed:
        earlier = draft.before.get(memory.id)
        if earlier is None or earlier.text != memory.text:
            thread = draft.threads.get(memory.id)  # a summary stays with its session
            write_memory(
                connection,
                memory,
                before=earlier,
                now=draft.now,
                thread=thread,
                link=thread is None,
            )
        else:
            (stored,) = for_all_worktrees(connection, [memory])
            set_facts(connection, memory, stored)
            note_staleness(connection, [memory], [stored])
    for summary, exchanges in draft.members.items():
        _link_summary(connection, summary, exchanges)
    for memory_id, cited in draft.citations.items():
        attach_citations(connection, memory_id, cited)
    if draft.actions:
        payload = {"consolidated": dict(sorted(count_by_kind(draft.actions).items()))}
        emit_event(connection, EventName.UPDATED, at=draft.now, payload=payload)


def mark_faded(
    connection: sqlite3.Connection, draft: ConsolidationDraft, scopes: Iterable[Scope]
) -> None:
    """Record that confidence has faded up to now; ignored if the clock was set back."""
    for scope in scopes:
        if draft.days_unfaded(scope) >= LEAST_DAYS:
            connection.execute(
                "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value"
                " = excluded.value WHERE CAST(excluded.value AS REAL) > CAST(value AS REAL)",
                (f"{_FADED}{scope}", repr(draft.now)),
            )


def _link_summary(
    connection: sqlite3.Connection, summary: str, exchanges: Collection[str]
) -> None:
    delete_members(connection, summary, but=exchanges)
    edges = [(exchange, summary, Relation.BELONGS_TO, 1.0) for exchange in exchanges]
    state_edges(connection, edges)
