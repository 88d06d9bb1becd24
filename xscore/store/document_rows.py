"""Fetched documents: which there are, and how each is asked for again. SQL and nothing else.

A document is its passages, memories of kind `document` that share a place: the address, or the
file. What only a refresh needs (ETag, size of the file) is one value of `meta` for each document,
so it needs no table; it goes with the last passage. Trade-off: a document that was imported has no
such value, and is fetched whole when it is refreshed.
"""

import json
import sqlite3
from collections.abc import Collection, Iterator

import msgspec
from msgspec import Struct

from xscore.platform.database import damage_if_invalid
from xscore.platform.hashing import digest
from xscore.records.memory import WITHIN, Kind, Layer, Memory
from xscore.store.index_rows import read_meta, write_meta
from xscore.store.memory_rows import IN_JSON_LIST, select_memories

_PREFIX = "document:"
"""First part of a document's key in `meta`; the rest is a digest of its place."""
_BEHIND_PREFIX = "document;"
"""The first key after all of these, as `;` follows `:`."""
_OF_DOCUMENTS = (
    f"layer = '{Layer.VECTOR}' AND status = 'active' AND kind = "
    f"'{Kind.DOCUMENT}' AND version = 0"
)
"""SQL condition on `memory_row` that its index by layer answers."""
_OF_KIND = f"layer = '{Layer.VECTOR}' AND kind = '{Kind.DOCUMENT}'"
"""The same SQL condition on the view of memories."""
_LIST = f"""
    SELECT place, count(*), max(updated_at), min(entity) FROM memory_row
    WHERE {_OF_DOCUMENTS} GROUP BY place ORDER BY place
"""


class FetchRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a document was fetched."""

    place: str
    """Address of the document, or its file relative to the root; redacted."""
    title: str
    form: str
    """Format of the document: pdf, docx, html or text."""
    fetched_at: float
    """When it was fetched, in Unix seconds; also set by a refresh that found nothing new."""
    etag: str = ""
    last_modified: str = ""
    """`ETag` and `Last-Modified` as the host sent them."""
    size: int = 0
    mtime_ns: int = 0
    """Time of the latest change of a file."""
    note: str = ""
    """What was not read of the document."""
    is_address_redacted: bool = False
    """Whether the address contained a secret, so that it cannot be asked for again."""


class StoredDocument(Struct, frozen=True, kw_only=True):
    """A document with what is known about it."""

    place: str
    title: str
    passages: int
    fetched_at: float
    """Unix seconds."""
    record: FetchRecord | None = None
    """Record of the fetch; None if the document was imported."""


def stored_documents(connection: sqlite3.Connection) -> list[StoredDocument]:
    """Return all documents, by place. Raises StoreDamaged."""
    documents: list[StoredDocument] = []
    for place, passages, fetched_at, entity in connection.execute(_LIST).fetchall():
        record = read_record(connection, place)
        title = record.title if record else entity.partition(WITHIN)[0]
        document = StoredDocument(
            place=place, title=title, passages=passages, fetched_at=fetched_at, record=record
        )
        documents.append(document)
    return documents


def has_documents(connection: sqlite3.Connection) -> bool:
    """Whether anything was fetched."""
    query = f"SELECT EXISTS (SELECT 1 FROM memory_row WHERE {_OF_DOCUMENTS})"
    return bool(connection.execute(query).fetchone()[0])


def passages_of(connection: sqlite3.Connection, places: Collection[str]) -> list[Memory]:
    """Return the passages of the documents at these places."""
    where = f"{_OF_KIND} AND place {IN_JSON_LIST}"
    return select_memories(connection, where, (json.dumps(sorted(places)),))


def read_record(connection: sqlite3.Connection, place: str) -> FetchRecord | None:
    """Return how the document at this place was fetched; None if it was not, or was imported.

    Raises StoreDamaged.
    """
    written = read_meta(connection, _key(place))
    if not written:
        return None
    with damage_if_invalid("what is known of a document"):
        return msgspec.json.decode(written, type=FetchRecord)


def write_record(connection: sqlite3.Connection, record: FetchRecord) -> None:
    """Write how a document was fetched, in an open transaction."""
    write_meta(connection, _key(record.place), msgspec.json.encode(record).decode())


def date_document(connection: sqlite3.Connection, place: str, *, now: float) -> int:
    """Note that a document was looked at now, in an open transaction; return how many passages it
    has."""
    query = f"UPDATE memory_row SET updated_at = ? WHERE {_OF_DOCUMENTS} AND place = ?"
    return connection.execute(query, (now, place)).rowcount


def allow_again(connection: sqlite3.Connection, ids: Collection[str]) -> None:
    """Let memories come back that were erased, in an open transaction."""
    connection.execute(
        f"DELETE FROM erased_memory WHERE memory_id {IN_JSON_LIST}", (json.dumps(sorted(ids)),)
    )


def drop_unheld_records(connection: sqlite3.Connection) -> None:
    """Remove what is known about documents without a passage, in an open transaction."""
    records = dict(_records(connection))
    if not records:
        return
    places = {document.place for document in stored_documents(connection)}
    for key, record in records.items():
        if record.place not in places:
            write_meta(connection, key, "")


def _records(connection: sqlite3.Connection) -> Iterator[tuple[str, FetchRecord]]:
    rows = connection.execute(
        "SELECT key, value FROM meta WHERE key >= ? AND key < ?", (_PREFIX, _BEHIND_PREFIX)
    ).fetchall()
    for key, value in rows:
        with damage_if_invalid("what is known of a document"):
            yield key, msgspec.json.decode(value, type=FetchRecord)


def _key(place: str) -> str:
    return f"{_PREFIX}{digest(place)}"
