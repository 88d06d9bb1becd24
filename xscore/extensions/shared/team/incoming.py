"""Write what was pulled from the team's server into this store.

What another member shares becomes a memory of its own here, with its author, repository, time and
citations; its id is made of the member and the row, so nobody can replace another's, or one of this
user's. What was erased there is removed here, with its judgments. Citations are checked against
this checkout: a memory may be stale here and fresh there. What this user forgot stays forgotten.
Trade-off: rows that cannot be read (another key, a newer form, damage) are counted and skipped.
"""

import sqlite3
from collections.abc import Collection, Sequence

from msgspec import Struct, structs

from xscore.extensions.shared.team.shared_content import (
    CHECKPOINT,
    SharedCheckpoint,
    SharedMemory,
    local_memory,
)
from xscore.platform import database
from xscore.platform.hashing import digest
from xscore.records.memory import MEMBER_CHARS, Citation, Memory
from xscore.store import evidence, memory_rows
from xscore.store.checkpoints import (
    CheckpointContent,
    CheckpointPayload,
    checkpoints_of_team,
    delete_checkpoints_of_team,
    has_checkpoint,
    write_checkpoint,
)
from xscore.store.memory_writer import write_memory
from xscore.store.mention_links import link_mentions
from xscore.store.removal import remove_memory_rows
from xscore.store.store import Store

ID_CHARS = 20


class Incoming(Struct, frozen=True, kw_only=True):
    """An entry of another member, or of another machine of this one, as it was read."""

    member: str
    name: str
    """Name of the row."""
    kind: str
    memory: SharedMemory | None = None
    checkpoint: SharedCheckpoint | None = None
    """Its checkpoint. An entry with neither a memory nor a checkpoint was erased."""


class Arrivals(Struct):
    """What arrived."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    checkpoints: int = 0
    forgotten: int = 0
    """Entries not taken, since the user had erased them here."""

    @property
    def total(self) -> int:
        """How many rows of the store were changed."""
        return self.added + self.changed + self.removed + self.checkpoints


def local_id(organisation: str, project: str, member: str, name: str) -> str:
    """Return the id that a row of the server has in a store."""
    return f"m_{digest('team', organisation, project, member, name)[:ID_CHARS]}"


def apply_incoming(
    store: Store,
    entries: Sequence[Incoming],
    *,
    organisation: str,
    project: str,
    kinds: Sequence[str],
    now: float,
) -> Arrivals:
    """Write pulled entries into the store, in order; call it inside a transaction.

    kinds: kinds of memories that the user takes.
    """
    latest: dict[str, Incoming] = {}
    for entry in entries:
        latest[local_id(organisation, project, entry.member, entry.name)] = entry
    stored: dict[str, Memory] = {}
    for memory in memory_rows.memories_with_ids(store.connection, latest):
        stored[memory.id] = memory
    cited = evidence.citations_of(store.connection, stored)
    arrivals = Arrivals()
    added: list[str] = []
    for identifier, entry in latest.items():
        if entry.kind == CHECKPOINT:
            _apply_checkpoint(store.connection, identifier, entry, arrivals)
            continue
        before = stored.get(identifier)
        pulled, citations = _memory_of(store, identifier, entry, kinds=kinds, now=now)
        if pulled is None:
            _remove(store.connection, before, arrivals, now=now)
        elif memory_rows.is_erased(store.connection, identifier):
            arrivals.forgotten += 1
        elif before is None or not _is_same(
            before, pulled, cited.get(identifier, ()), citations
        ):
            write_memory(store.connection, pulled, before=before, now=now, link=False)
            evidence.attach_citations(store.connection, identifier, citations)
            arrivals.added += before is None
            arrivals.changed += before is not None
            added.append(identifier)
    link_mentions(store.connection, added)
    return arrivals


def _memory_of(
    store: Store, identifier: str, entry: Incoming, *, kinds: Sequence[str], now: float
) -> tuple[Memory | None, tuple[Citation, ...]]:
    """Return the memory of an entry with its citations; None if there is to be none."""
    shared = entry.memory
    if shared is None or shared.memory.kind not in kinds:
        return None, ()
    memory = local_memory(
        shared, identifier, member=entry.member, now=now, allow_pii=store.settings.allow_pii
    )
    return memory, shared.memory.citations


def _is_same(
    before: Memory,
    pulled: Memory,
    cited: Sequence[Citation],
    citations: Sequence[Citation],
) -> bool:
    """Whether a memory is here as it was pulled, apart from what this store noted about it."""
    as_here = structs.replace(
        pulled,
        details=before.details,
        # They say whether it is stale here; all that they are made of is compared.
        views=before.views,
        status=before.status,
        superseded_by=before.superseded_by,
        accessed_at=before.accessed_at,
        access_count=before.access_count,
    )
    # Their lines are followed here as the code moves.
    spans_here = {(citation.path, citation.span_hash) for citation in cited}
    spans = {(citation.path, citation.span_hash) for citation in citations}
    has_same_details = structs.asdict(pulled.details) == structs.asdict(before.details)
    return as_here == before and has_same_details and spans_here == spans


def _remove(
    connection: sqlite3.Connection, before: Memory | None, arrivals: Arrivals, *, now: float
) -> None:
    if before is not None and before.is_from_team:
        remove_memory_rows(connection, {before.id: before}, now=now)
        arrivals.removed += 1


def _apply_checkpoint(
    connection: sqlite3.Connection, identifier: str, entry: Incoming, arrivals: Arrivals
) -> None:
    """Store a checkpoint under its name, or with its author's where a checkpoint of the user has
    that name."""
    deleted = delete_checkpoints_of_team(connection, identifier)
    shared = entry.checkpoint
    if shared is None:
        arrivals.removed += deleted
        return
    content = {field: getattr(shared, field) for field in CheckpointContent.__struct_fields__}
    author = shared.by or entry.member[:MEMBER_CHARS]
    payload = CheckpointPayload(**content, from_team=identifier, by=author)
    name = shared.name
    if has_checkpoint(connection, name):
        name = f"{shared.name} ({payload.by})"
    write_checkpoint(connection, name, payload, created_at=shared.created_at)
    arrivals.checkpoints += 1


def remove_missing(
    store: Store,
    present: Collection[tuple[str, str]],
    *,
    organisation: str,
    project: str,
    now: float,
) -> int:
    """Remove what came from the team and is not on the server any more; return how much.

    present: member and name of every entry that is there.
    Call it inside a transaction.
    """
    present_ids = {local_id(organisation, project, member, name) for member, name in present}
    missing: dict[str, Memory] = {}
    for memory in _of_team(store.connection):
        if memory.id not in present_ids:
            missing[memory.id] = memory
    remove_memory_rows(store.connection, missing, now=now)
    removed = len(missing)
    for sent_as in checkpoints_of_team(store.connection):
        if sent_as not in present_ids:
            removed += delete_checkpoints_of_team(store.connection, sent_as)
    return removed


def remove_team_memories(store: Store, *, now: float) -> int:
    """Remove every memory of other members from the store; return how many there were."""
    with database.transaction(store.connection):
        of_team = {memory.id: memory for memory in _of_team(store.connection)}
        remove_memory_rows(store.connection, of_team, now=now)
        delete_checkpoints_of_team(store.connection)
    return len(of_team)


def _of_team(connection: sqlite3.Connection) -> list[Memory]:
    return memory_rows.select_memories(
        connection, "source = 'import' AND json_extract(attrs, '$.origin') = 'team'", ()
    )
