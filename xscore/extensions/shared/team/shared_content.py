"""What a memory or a checkpoint is on the server, before it is encrypted, and how it is read back.

The form of a memory is that of a line of `memory export`, so what a stranger may write is decided
there, field by field. Left out is what belongs to one machine: sessions, quotes of them, ids of
other memories, use counts. Secrets and personal data are redacted once more by today's rules.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.transfer.saved_records import NO_FACTS, SavedMemory, saved_memory
from xscore.records.memory import (
    TEAM_ORIGIN,
    Citation,
    Kind,
    Layer,
    Memory,
    MemoryOrigin,
    MemoryScope,
    MemorySource,
    MemoryStatus,
    member_key,
)
from xscore.store import memory_writer
from xscore.store.checkpoints import CheckpointContent, is_checkpoint_name
from xscore.store.composing import entity_for_key
from xscore.store.personal_data import redact_said

MEMORY, CHECKPOINT = "memory", "checkpoint"
MAX_CONTENT_BYTES = 900_000
"""Largest content that is sent; the server's own limit is above it."""
MAX_TRUSTED_COUNT = 1_000
"""Highest count trusted of another member; higher ones are reduced to it."""
SHARED_LAYERS = (Layer.PROJECT, Layer.GOVERNANCE)
_SHARED_SCOPES = (MemoryScope.REPOSITORY, MemoryScope.WORKSPACE)
_NAME_CHARS = 200


class SharedMemory(Struct, frozen=True, kw_only=True):
    """A memory as it goes to the server."""

    by: str
    """The member's name for itself."""
    repository: str
    memory: SavedMemory


class SharedCheckpoint(CheckpointContent, frozen=True, kw_only=True):
    """A checkpoint as it goes to the server."""

    by: str
    repository: str
    name: str
    created_at: float


class MemberProfile(Struct, frozen=True):
    """How a member is called."""

    by: str


def memory_content(
    memory: Memory, citations: Sequence[Citation], *, by: str, repository: str
) -> bytes:
    """Return the content of a memory; equal memories give equal bytes."""
    details = replace(
        memory.details,
        session="",
        quote="",
        quoted_in="",
        review="",
        exception_of="",
        imported_from="",
        author=memory.details.author or by,
    )
    remade, _ = memory_writer.remake_memory(memory, allow_pii=False, details=details)
    # As one is stale only where it cites changed code, each member finds out alone.
    active = replace(remade, superseded_by="", status=MemoryStatus.ACTIVE)
    unchanged = [replace(citation, is_changed=False) for citation in citations]
    line = saved_memory(active, unchanged)
    return msgspec.json.encode(SharedMemory(by=by, repository=repository, memory=line))


def read_memory(content: bytes, *, repository: str) -> SharedMemory:
    """Read a memory of another member. Raises ValueError for one that cannot be shared."""
    shared = msgspec.json.decode(content, type=SharedMemory)
    _check_origin(shared, repository)
    line = shared.memory
    if line.layer not in SHARED_LAYERS or line.kind in (Kind.EXCHANGE, Kind.SUMMARY):
        raise ValueError("a team shares only what was stated about a project")
    return shared


def local_memory(
    shared: SharedMemory, identifier: str, *, member: str, now: float, allow_pii: bool
) -> Memory:
    """Return a memory of another member as the store keeps it."""
    line = shared.memory
    details = replace(
        line.details,
        imported_from=TEAM_ORIGIN,
        author=line.details.author or shared.by,
        occurrences=min(line.details.occurrences, MAX_TRUSTED_COUNT),
    )
    remade, _ = memory_writer.remake_memory(
        line,
        allow_pii=allow_pii,
        origin=MemoryOrigin.STATED,
        place=shared.repository,
        path="",
        entity=entity_for_key(line.layer, line.key),
        start_line=0,
        end_line=0,
        language="",
        facts=NO_FACTS,
        card="",
        scope=line.scope if line.scope in _SHARED_SCOPES else MemoryScope.REPOSITORY,
        key=member_key(line.key, member),
        details=details,
        source=MemorySource.IMPORT,
        status=MemoryStatus.ACTIVE,
        evidence_count=min(line.evidence_count, MAX_TRUSTED_COUNT),
        # A member's clock may be wrong; nothing was said in the future.
        updated_at=min(line.updated_at, now),
    )
    # The newer of two opinions is the one stated later, not the one that came here later.
    return replace(
        remade,
        id=identifier,
        superseded_by="",
        created_at=min(line.created_at, now),
        accessed_at=remade.updated_at,
        access_count=0,
    )


def checkpoint_content(checkpoint: SharedCheckpoint) -> bytes:
    """Return the content of a checkpoint, redacted."""
    return msgspec.json.encode(_redacted(checkpoint))


def read_checkpoint(content: bytes, *, repository: str) -> SharedCheckpoint:
    """Read a checkpoint of another member, and redact it. Raises ValueError."""
    shared = _redacted(msgspec.json.decode(content, type=SharedCheckpoint))
    _check_origin(shared, repository)
    if not is_checkpoint_name(shared.name):
        raise ValueError("that is not a valid checkpoint name")
    return shared


def _check_origin(shared: SharedMemory | SharedCheckpoint, repository: str) -> None:
    """Refuse what claims to be of another repository, and a name that is none."""
    if shared.repository != repository:
        raise ValueError("it belongs to another repository")
    if len(shared.by) > _NAME_CHARS:
        raise ValueError("its author's name is too long")


def _redacted(checkpoint: SharedCheckpoint) -> SharedCheckpoint:
    plain = _redacted_values(msgspec.to_builtins(checkpoint))
    return msgspec.convert(plain, SharedCheckpoint)


def _redacted_values(value: Any) -> Any:
    """Redact every text of a plain structure, which is as deep as its type."""
    match value:
        case str():
            return redact_said(value).text
        case dict():
            return {name: _redacted_values(part) for name, part in value.items()}
        case list() | tuple():
            return [_redacted_values(part) for part in value]
    return value
