"""Which memories and checkpoints of this store its team is sent, and which are taken back.

Sent is what the user stated or accepted in a review, of the kinds that the settings name: never
exchanges, never what was inferred and not reviewed, nothing of the user layer or of one
session, and nothing that came from elsewhere. Taken back is what was removed or no longer holds
here; what another clone of the same member sent stays, since only this store's own log says
what was removed. The log also says what may have changed since the last exchange, so that one
statement among thousands costs little. Trade-off: lines of a citation that moved go with the
memory's next change.
"""

import sqlite3
from collections.abc import Collection, Sequence

from msgspec import Struct, structs

from xscore.extensions.shared.team.membership import Membership
from xscore.extensions.shared.team.shared_content import (
    CHECKPOINT,
    MAX_CONTENT_BYTES,
    MEMORY,
    SHARED_LAYERS,
    SharedCheckpoint,
    checkpoint_content,
    memory_content,
)
from xscore.records.memory import Memory, MemoryScope, MemorySource
from xscore.store import evidence, memory_rows
from xscore.store.checkpoints import retracted_checkpoints, shared_checkpoints
from xscore.store.copied_stores import NEWEST_EVENT
from xscore.store.events import EventName
from xscore.store.lookup import LIVE_STATUSES

_STATED = "source = 'explicit' AND layer IN ('project', 'governance')"
_REMOVED = f"""
    SELECT subject FROM event WHERE name = '{EventName.REMOVED}' AND subject <> ''
    UNION SELECT memory_id FROM erased_memory
"""
_CHANGED = f"""
    SELECT DISTINCT subject, subject = '' AND (
        json_extract(payload, '$.consolidated') IS NOT NULL
        OR name = '{EventName.STORED}' AND json_extract(payload, '$.kind') IS NOT 'exchange')
    FROM event WHERE id > ?
        AND name IN ('{EventName.STORED}', '{EventName.UPDATED}', '{EventName.REMOVED}')
"""
"""SQL of the memories that events are about; consolidation writes one event for all that it
changed."""


class OutgoingText(Struct, frozen=True):
    """A text that the team is sent, before it is encrypted."""

    identity: str
    """Id of the memory, or name of the checkpoint."""
    kind: str
    content: bytes


class Outgoing(Struct, frozen=True):
    """What the server should have of this store, or of what has changed in it."""

    texts: tuple[OutgoingText, ...] = ()
    retracted: frozenset[str] = frozenset()
    """Ids of memories, and names of checkpoints, that may have been sent before."""
    retracted_checkpoints: tuple[str, ...] = ()
    event: int = 0
    """The newest event of the store when this was read."""
    too_long: int = 0
    is_whole: bool = True
    """Whether these are all entries that the server should have."""


def newest_event(connection: sqlite3.Connection) -> int:
    """Return the id of the store's newest event."""
    (newest,) = connection.execute(NEWEST_EVENT).fetchone()
    return int(newest)


def read_outgoing(
    connection: sqlite3.Connection, membership: Membership, *, kinds: Sequence[str]
) -> Outgoing:
    """Read what the team is sent. It must be called within one snapshot or transaction."""
    event = newest_event(connection)
    changed = _changed_since(connection, membership, kinds)
    if changed is None:
        stated = memory_rows.select_memories(connection, _STATED, ())
        removed = {id_ for (id_,) in connection.execute(_REMOVED).fetchall()}
    else:
        stated = memory_rows.memories_with_ids(connection, changed)
        removed = changed - {memory.id for memory in stated}
    shareable = [memory for memory in stated if is_shareable(memory, kinds)]
    shareable_ids = {memory.id for memory in shareable}
    texts, too_long = _texts_of(connection, shareable, membership)
    texts += _checkpoints(connection, membership)
    withdrawn = {memory.id for memory in stated if not may_be_shared(memory)}
    withdrawn = (withdrawn | removed) - shareable_ids
    names = retracted_checkpoints(connection)
    sent = {text.identity for text in texts}
    withdrawn.update({checkpoint_identity(name) for name in names} - sent)
    return Outgoing(
        texts=tuple(texts),
        retracted=frozenset(withdrawn),
        retracted_checkpoints=tuple(names),
        event=event,
        too_long=too_long,
        is_whole=changed is None,
    )


def _changed_since(
    connection: sqlite3.Connection, membership: Membership, kinds: Sequence[str]
) -> set[str] | None:
    """Return the ids of memories that may have changed since the last exchange; None: any may."""
    if membership.event < 0 or membership.kinds != kinds:
        return None
    changed: set[str] = set()
    for subject, is_of_many in connection.execute(_CHANGED, (membership.event,)).fetchall():
        if is_of_many:
            return None
        changed.add(subject)
    return changed - {""}


def is_shareable(memory: Memory, kinds: Collection[str]) -> bool:
    """Whether the team is sent a memory, under these settings."""
    return memory.kind in kinds and may_be_shared(memory)


def may_be_shared(memory: Memory) -> bool:
    """Whether a memory holds, and its user stated it or accepted it in a review."""
    return (
        memory.source is MemorySource.EXPLICIT
        and memory.layer in SHARED_LAYERS
        and memory.scope is not MemoryScope.SESSION
        and memory.status in LIVE_STATUSES
        and not memory.details.review
    )


def _texts_of(
    connection: sqlite3.Connection, memories: Sequence[Memory], membership: Membership
) -> tuple[list[OutgoingText], int]:
    cited = evidence.citations_of(connection, [memory.id for memory in memories])
    texts: list[OutgoingText] = []
    too_long = 0
    for memory in memories:
        content = memory_content(
            memory,
            cited.get(memory.id, ()),
            by=membership.by,
            repository=membership.repository,
        )
        if len(content) > MAX_CONTENT_BYTES:
            too_long += 1
        else:
            texts.append(OutgoingText(memory.id, MEMORY, content))
    return texts, too_long


def _checkpoints(connection: sqlite3.Connection, membership: Membership) -> list[OutgoingText]:
    texts: list[OutgoingText] = []
    for row in shared_checkpoints(connection):
        checkpoint = SharedCheckpoint(
            by=membership.by,
            repository=membership.repository,
            name=row.name,
            created_at=row.created_at,
            **structs.asdict(row.content),
        )
        content = checkpoint_content(checkpoint)
        if len(content) <= MAX_CONTENT_BYTES:
            texts.append(OutgoingText(checkpoint_identity(row.name), CHECKPOINT, content))
    return texts


def checkpoint_identity(name: str) -> str:
    """Return what identifies a checkpoint where memories have their ids."""
    return f"checkpoint {name}"
