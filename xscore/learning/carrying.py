"""What a closed session learned, carried over to the project (L01), and its exchanges brought to one summary.

Decisions become governance, the rest the project's; what the session had noted steps back, superseded by it. What the
project was told by a person is never replaced by what a session inferred. The summary's words come from
`memory.session_digest`: no model is asked. Trade-off: everything of those kinds is carried over, since nobody but the
user can tell what was worth it; what turns out useless fades and goes like any other memory.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from xscore.hashing import digest
from xscore.learning.actions import ActionKind
from xscore.learning.draft import Draft, superseded
from xscore.learning.retention import LIVE, was_said
from xscore.memory import door
from xscore.memory.spoken import words_of
from xscore.records import Kind, Layer, Memory, MemoryScope, Particulars, Source, Status

CARRIED = frozenset(
    {
        *(Kind.DECISION, Kind.FAILURE, Kind.CONVENTION, Kind.PATTERN),
        *(Kind.TECH_STACK, Kind.ARCHITECTURE, Kind.TODO),
    }
)
"""Kinds that outlive the session that noted them."""
SUMMARY_IMPORTANCE = 0.6
"""A little above the exchanges it stands for."""
_TITLE_CHARS = 80

_Place = tuple[Layer, MemoryScope, str]
"""Where two memories cannot be active at once, if it has a key."""


def carry(draft: Draft, closed: Collection[str]) -> None:
    """Give the project what these closed sessions noted."""
    active = {_place(memory): memory.id for memory in draft.after.values() if memory.status is Status.ACTIVE}
    for noted in draft.of((Layer.SESSION,)):
        thread = draft.threads.get(noted.id) or noted.particulars.session
        if noted.status in LIVE and noted.kind in CARRIED and thread in closed:
            _carry_one(draft, noted, thread, active)


def summarise(draft: Draft, closed: Collection[str], *, told: Callable[[str], str], now: float) -> None:
    """Make the summaries of closed sessions that have none, or none of their latest exchanges (B11).

    told: what a session comes to, in words; empty: nothing.
    """
    exchanges: dict[str, list[Memory]] = {}
    for memory in draft.of((Layer.SESSION,)):
        thread = draft.threads.get(memory.id, "")
        if memory.kind is Kind.EXCHANGE and thread in closed:
            exchanges.setdefault(thread, []).append(memory)
    for thread in sorted(exchanges):
        newest = max(memory.updated_at for memory in exchanges[thread])
        known = draft.after.get(summary_id(thread))
        if known is None or newest > known.updated_at:
            _summarise_one(draft, thread, exchanges[thread], told(thread), now=now)


def summary_id(thread: str) -> str:
    """Name the summary of a session."""
    return _summary(thread, "", "-", now=0.0).id


def _carry_one(draft: Draft, noted: Memory, thread: str, active: dict[_Place, str]) -> None:
    """active: place -> id of the memory that stands there; a place with a key has room for one."""
    memory = _of_the_project(noted, thread)
    standing = active.get(_place(memory), memory.id) if memory.key else memory.id
    rival = draft.after[standing] if standing != memory.id else None
    if rival is not None and was_said(rival) and not was_said(memory):
        return
    known = draft.after.get(memory.id)
    if known is not None and known.status in LIVE:
        memory = replace(known, evidence_count=known.evidence_count + noted.evidence_count)
    stepping_back = [superseded(each, memory.id) for each in (rival, noted) if each is not None]
    draft.act(ActionKind.CARRY, "session", memory, *stepping_back, why=f"noted in the closed session {thread}")
    active[_place(memory)] = memory.id


def _of_the_project(noted: Memory, thread: str) -> Memory:
    memory, _ = door.make(
        layer=Layer.GOVERNANCE if noted.kind is Kind.DECISION else Layer.PROJECT,
        kind=noted.kind,
        title=noted.title,
        text=noted.text,
        path=noted.path,
        entity=noted.entity,
        ordinal=int(digest("said", noted.key, words_of(noted))[:15], 16),
        language=noted.language,
        particulars=replace(noted.particulars, session=thread),
        key=noted.key,
        scope=MemoryScope.REPOSITORY,
        importance=noted.importance,
        confidence=noted.confidence,
        evidence_count=noted.evidence_count,
        source=noted.source,
        created_at=noted.created_at,
        updated_at=noted.updated_at,
        allow_pii=True,  # it came through the door before
    )
    return memory


def _place(memory: Memory) -> _Place:
    return (memory.layer, memory.scope, memory.key)


def _summarise_one(draft: Draft, thread: str, exchanges: list[Memory], text: str, *, now: float) -> None:
    if not text.strip():
        return
    first = min(exchanges, key=lambda memory: (memory.created_at, memory.id))
    count = f"{len(exchanges)} exchange" + "s" * (len(exchanges) != 1)
    title = f"Session of {count}: {first.title}"[:_TITLE_CHARS]
    summary = _summary(thread, title, text, now=now)
    known = draft.after.get(summary.id)
    if known is not None:
        summary = replace(summary, created_at=known.created_at, importance=known.importance)
        summary = replace(summary, accessed_at=known.accessed_at, access_count=known.access_count)
    draft.threads[summary.id] = thread
    draft.members[summary.id] = tuple(memory.id for memory in exchanges)
    why = f"{count} of a closed session, in their own words"
    draft.act(ActionKind.SUMMARISE, "session", summary, why=why)


def _summary(thread: str, title: str, text: str, *, now: float) -> Memory:
    memory, _ = door.make(
        layer=Layer.SESSION,
        kind=Kind.SUMMARY,
        title=title,
        text=text,
        ordinal=int(digest("summary", thread)[:15], 16),
        particulars=Particulars(session=thread),
        scope=MemoryScope.SESSION,
        importance=SUMMARY_IMPORTANCE,
        source=Source.INFERRED,
        created_at=now,
        updated_at=now,
    )
    return memory
