"""Note what files show in a draft: new, changed, and no longer shown. Drafts in, drafts out.

A person's word counts: a topic of which another memory speaks is not noted. What no file shows any
more is archived, and comes back when one does. Trade-off: worktrees of one repository share these
memories, so the latest that was indexed decides.
"""

import sqlite3
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from xscore.extensions.learning.draft import LIVE, ActionKind, ConsolidationDraft, as_superseded
from xscore.extensions.learning.observed.observed_fact import (
    ObservedFact,
    cited_places,
    memory_of_fact,
    says_the_same,
)
from xscore.pipeline.contradictions import topic_of_key
from xscore.platform.text import counted
from xscore.records.memory import Citation, Memory, MemoryStatus
from xscore.store import memory_writer
from xscore.store.events import EventName

NOT_SHOWN = 0
"""Evidence of a fact that no file shows any more."""


class CitedFact(ObservedFact, frozen=True, kw_only=True):
    """A fact with the lines that show it as they are now."""

    citations: tuple[Citation, ...] = ()


def note_observed(
    draft: ConsolidationDraft,
    facts: Sequence[CitedFact],
    *,
    erased: Collection[str],
    cited: Mapping[str, Sequence[Citation]],
) -> None:
    """Note facts that no memory contradicts, update changed ones, archive those no longer shown.

    erased: ids that were removed and do not come back.
    cited: what stored memories cite, by id.
    """
    noted: list[Memory] = []
    taken = set[str]()
    for memory in draft.of_scope("project"):
        if memory.is_shown_by_files:
            noted.append(memory)
        # Noted by a person, or inferred from something else: a file takes the place of neither.
        elif memory.key and memory.status is not MemoryStatus.SUPERSEDED:
            taken.add(topic_of_key(memory.key))
    current = set[str]()
    for fact in facts:
        topics = {fact.topic or fact.key, topic_of_key(fact.key)}
        memory = memory_of_fact(fact, confidence=draft.rules.inferred_confidence, now=draft.now)
        if taken & topics or memory.id in erased:
            continue
        current.add(memory.id)
        draft.seen[memory.id] = draft.now
        if cited_places(cited.get(memory.id, ())) != cited_places(fact.citations):
            draft.citations[memory.id] = fact.citations
        _note_one(draft, fact, memory, noted)
    for memory in noted:
        if memory.id not in current and draft.after[memory.id].status in LIVE:
            draft.archive(
                "project",
                replace(memory, evidence_count=NOT_SHOWN),
                why="no file shows it any more, or a memory says otherwise",
            )


def _note_one(
    draft: ConsolidationDraft, fact: CitedFact, memory: Memory, noted: Sequence[Memory]
) -> None:
    """Note one fact, if that changes anything; earlier notes of its key are superseded."""
    earlier = draft.after.get(memory.id)
    if earlier is not None:
        is_put_away = earlier.status is MemoryStatus.ARCHIVED
        if is_put_away and earlier.evidence_count != NOT_SHOWN:
            return
        is_current = earlier.status in LIVE and says_the_same(earlier.text, memory.text)
        if is_current and earlier.status is MemoryStatus.ACTIVE:
            return
        # Feedback may have changed its confidence since: keep that.
        memory = replace(
            memory,
            confidence=earlier.confidence,
            importance=earlier.importance,
            created_at=earlier.created_at,
            accessed_at=earlier.accessed_at,
            access_count=earlier.access_count,
        )
        if is_current:
            # Stale: its lines are cited again.
            memory = memory_writer.with_status(earlier, MemoryStatus.ACTIVE)
    rivals: list[Memory] = []
    for rival in noted:
        if rival.key == memory.key and rival.id != memory.id and rival.status in LIVE:
            rivals.append(as_superseded(rival, memory.id))
    draft.change(ActionKind.INFER, "project", memory, *rivals, why=_why(fact))
    draft.citations[memory.id] = fact.citations


def _why(fact: ObservedFact) -> str:
    shown_by: list[str] = []
    if fact.lines:
        shown_by.append(f"{fact.lines[0].place} names it")
    if fact.files:
        # Those of the stack import it; others show it by their names or places.
        shown_by.append(f"seen in {counted(len(fact.files), 'file')}")
    return f"{fact.key}: {fact.value}, {'; '.join(shown_by)}"


def erased_ids(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the ids of all memories that were removed."""
    rows = connection.execute(
        "SELECT DISTINCT subject FROM event WHERE name = ?", (EventName.REMOVED,)
    )
    return frozenset(memory_id for (memory_id,) in rows)
