"""Content identity: blake2b-128 over length-prefixed fields; no two field lists share a digest by concatenation.

Keys built here name judgments that cost money. It does not protect against a forger: trust in a store is an HMAC with
a per-user secret, in `memory.trust`. Seals are weaker still: they tell damage, not forgery.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from struct import Struct
from typing import Any
from zlib import crc32

DIGEST_BYTES = 16
_NUMBERS = Struct("<ddq").pack


def digest(*fields: str) -> str:
    """Return 32 hex characters that identify these fields in this order.

    Lone surrogates (from file names that are not UTF-8) are hashed as their surrogate escape bytes.
    """
    state = blake2b(digest_size=DIGEST_BYTES)
    for field in fields:
        data = field.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()


def file_digest(data: bytes) -> str:
    """Return 32 hex characters that identify a file's bytes."""
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def integer_id(*fields: str) -> int:
    """Return a number that identifies these fields and fits SQLite's integers, for `memory_id`."""
    return int(digest(*fields)[:15], 16)


def memory_id(layer: str, path: str, kind: str, entity: str, ordinal: int = 0) -> str:
    """Name a memory so that the name survives edits of its text; `ordinal` tells equal names of one file apart."""
    return "m_" + digest(layer, path, kind, entity, str(ordinal))[:20]


def file_id(path: str) -> str:
    """Name a file as an end of an edge."""
    return "f_" + path


def content_hash(path: str, entity: str, text: str) -> str:
    """Identify exactly what a judging prompt shows of a memory: where it stands, its name, its text."""
    return digest("content", path, entity, text)


def row_checksum(*fields: str) -> int:
    """Seal the fields of a row in which a changed byte would do harm; a CRC-32, as for judgments. 1 µs."""
    return crc32("\x1f".join(fields).encode("utf-8", "surrogatepass"))


def turn_checksum(turn_key: str, judge: str, sample: int) -> int:
    """Begin the seals of one turn's judgments by one judge (its key)."""
    return crc32(digest("turn seal", turn_key, judge, str(sample)).encode())


def judgment_checksums(turn: int, judgments: Iterable[Sequence[Any]]) -> list[int]:
    """Seal judgments under their turn's seal, each of content hash, score, prior, pack, position; more is passed over.

    SQLite keeps no checksums, and a changed byte can turn a score into another. A seal covers names rather than row
    numbers, so a row that slipped to another turn or content does not fit either. CRC-32 misses one random change in
    four billion and none of up to 32 bits in a row. 0.5 µs each. Raises ValueError, TypeError, AttributeError or
    struct.error for values that no judgment has.
    """
    numbers = _NUMBERS
    return [
        crc32(row[0].encode() + numbers(row[1], row[2], row[4]) + row[3].encode(), turn)  # a third less than unpacking
        for row in judgments
    ]


def judgment_checksum(turn: int, *judgment: Any) -> int:
    """Seal one judgment; the form that SQL calls."""
    return judgment_checksums(turn, (judgment,))[0]
