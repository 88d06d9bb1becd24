"""Keep the passages of a document as memories, and bring them up to date when it is read again.

Everything is redacted before it is stored. A passage keeps its id while its heading or page stays,
so a refresh writes what differs and removes what is gone; what was erased by id does not come back.
Trade-off: a heading that is renamed is another passage, whose judgments must be made again.
"""

from collections import Counter

from msgspec import Struct

from xscore.extensions.documents.parsed import DocumentForm, ParsedDocument
from xscore.platform.database import transaction
from xscore.platform.text import ellipsize
from xscore.records.memory import (
    WITHIN,
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemoryOrigin,
    MemorySource,
)
from xscore.store.commit_rows import without_erased
from xscore.store.document_rows import FetchRecord, passages_of, write_record
from xscore.store.events import EventName, emit_event
from xscore.store.memory_writer import LINE_CHARS, make_memory, put_memories
from xscore.store.redaction import find_literals
from xscore.store.removal import remove_memory_rows
from xscore.store.store import Store

IMPORTED_FROM = "document"
CONFIDENCE = 0.8
"""Confidence of what a page says: lower than that of code, which is what it is."""


class FetchedDocument(Struct, frozen=True, kw_only=True):
    """A document as it was read."""

    place: str
    form: DocumentForm
    document: ParsedDocument
    etag: str = ""
    last_modified: str = ""
    size: int = 0
    mtime_ns: int = 0


class KeptDocument(Struct, frozen=True, kw_only=True):
    """What fetching a document did to the store."""

    place: str
    title: str
    form: str
    passages: int
    added: int = 0
    changed: int = 0
    removed: int = 0
    left_out: int = 0
    """Passages that were erased before, and stay so."""
    redacted: int = 0
    note: str = ""
    fetched_at: float = 0.0
    is_unchanged: bool = False
    """Whether the host or the file said that it has not changed."""


def keep_document(store: Store, fetched: FetchedDocument) -> KeptDocument:
    """Store a document's passages in place of those that it had. Raises StoreError."""
    now, connection = store.clock(), store.connection
    drafts, redacted = _make_passages(fetched, now=now, allow_pii=store.settings.allow_pii)
    place, title = drafts[0].place, drafts[0].entity.partition(WITHIN)[0]
    with transaction(connection):
        memories = without_erased(connection, drafts)
        stored = {memory.id: memory for memory in passages_of(connection, [place])}
        new_ids = {memory.id for memory in memories}
        gone = {id_: memory for id_, memory in stored.items() if id_ not in new_ids}
        put_memories(connection, memories)
        write_record(
            connection,
            FetchRecord(
                place=place,
                title=title,
                form=fetched.form,
                fetched_at=now,
                etag=fetched.etag,
                last_modified=fetched.last_modified,
                size=fetched.size,
                mtime_ns=fetched.mtime_ns,
                note=fetched.document.note,
                is_address_redacted=place != fetched.place,
            ),
        )
        if gone:
            remove_memory_rows(connection, gone, now=now)
        if memories:
            payload = {"document": len(memories)}
            emit_event(
                connection, EventName.STORED, at=now, subject=memories[0].id, payload=payload
            )
    changed = 0
    for memory in memories:
        before = stored.get(memory.id)
        changed += before is not None and before.text != memory.text
    return KeptDocument(
        place=place,
        title=title,
        form=fetched.form,
        passages=len(memories),
        added=len(new_ids - stored.keys()),
        changed=changed,
        removed=len(gone),
        left_out=len(drafts) - len(memories),
        redacted=redacted,
        note=fetched.document.note,
        fetched_at=now,
    )


def _make_passages(
    fetched: FetchedDocument, *, now: float, allow_pii: bool
) -> tuple[list[Memory], int]:
    """Return the memories of a document's passages, redacted, and how many secrets that took."""
    document = fetched.document
    entities: list[str] = []
    for passage in document.passages:
        # A page repeats its title as its first heading.
        inside = passage.place.removeprefix(document.title).removeprefix(WITHIN)
        entity = f"{document.title}{WITHIN}{inside}" if inside else document.title
        entities.append(ellipsize(entity, LINE_CHARS // 2))
    texts = [passage.text for passage in document.passages]
    # Searched at once: one by one it takes several times as long.
    literals = find_literals([fetched.place, *entities, *texts], prose=True)
    seen: Counter[str] = Counter()
    memories: list[Memory] = []
    redacted = document.redacted
    for entity, text in zip(entities, texts, strict=True):
        memory, secrets = make_memory(
            layer=Layer.VECTOR,
            kind=Kind.DOCUMENT,
            title=f"{fetched.place}: {entity}",
            text=text,
            origin=MemoryOrigin.DOCUMENT,
            place=fetched.place,
            entity=entity,
            ordinal=seen[entity],
            language="markdown",
            details=MemoryDetails(imported_from=IMPORTED_FROM),
            confidence=CONFIDENCE,
            source=MemorySource.IMPORT,
            updated_at=now,
            allow_pii=allow_pii,
            literals=literals,
        )
        seen[entity] += 1
        redacted += secrets
        memories.append(memory)
    return memories, redacted
