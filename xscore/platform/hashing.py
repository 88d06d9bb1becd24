"""Content identity: blake2b-128 over length-prefixed fields; no two field lists share a digest by
concatenation.

Judgments that cost money are stored under these keys. They do not protect against forgery: trust in
a store is an HMAC with a per-user secret (`store.user_secret`). Checksums are weaker still: they
detect damage only.
"""

import struct
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any
from zlib import crc32

DIGEST_BYTES = 16
_NUMBERS = struct.Struct("<ddq").pack


def digest(*fields: str) -> str:
    """Return 32 hex characters that identify these fields in this order.

    Lone surrogates (from file names that are not UTF-8) are hashed as their surrogate escape bytes.
    """
    parts: list[bytes] = []
    for field in fields:
        data = field.encode("utf-8", "surrogatepass")
        parts += len(data).to_bytes(8, "big"), data
    return blake2b(b"".join(parts), digest_size=DIGEST_BYTES).hexdigest()


def file_digest(data: bytes) -> str:
    """Return 32 hex characters that identify a file's bytes."""
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def integer_id(*fields: str) -> int:
    """Return a number that identifies these fields and fits SQLite's integers, for `memory_id`."""
    return int(digest(*fields)[:15], 16)


def memory_id(layer: str, path: str, kind: str, entity: str, ordinal: int = 0) -> str:
    """Return an id that survives edits of the text; `ordinal` distinguishes equal names in one
    file."""
    return "m_" + digest(layer, path, kind, entity, str(ordinal))[:20]


def file_id(path: str) -> str:
    """Return the id of a file as an end of an edge."""
    return "f_" + path


def content_hash(path: str, entity: str, text: str) -> str:
    """Identify exactly what a judging prompt shows of a memory: path, name and text."""
    return digest("content", path, entity, text)


def described_hash(content: str, purpose: str) -> str:
    """Identify a content that a judging prompt shows with the purpose of its file; without one it
    is the content itself."""
    return digest("described", content, purpose) if purpose else content


def row_checksum(*fields: str) -> int:
    """Return the CRC-32 of those fields of a row that must not change unnoticed."""
    return crc32("\x1f".join(fields).encode("utf-8", "surrogatepass"))


def turn_checksum(turn_key: str, judge: str, sample: int) -> int:
    """Return the start value for the checksums of one turn's judgments by one judge (its key)."""
    return crc32(digest("turn seal", turn_key, judge, str(sample)).encode())


def judgment_checksums(turn: int, judgments: Iterable[Sequence[Any]]) -> list[int]:
    """Return checksums of judgments, each of content hash, score, prior, pack, position; further
    fields are ignored.

    SQLite has no checksums, and a flipped byte can change a score. They cover hashes rather than
    row numbers, so a row moved to another turn or content fails too. Raises ValueError, TypeError,
    AttributeError or struct.error for values that no judgment has.
    """
    return [
        # A third less than unpacking.
        crc32(row[0].encode() + _NUMBERS(row[1], row[2], row[4]) + row[3].encode(), turn)
        for row in judgments
    ]


def has_judgment_checksum(turn: int, judgment: Sequence[Any], checksum: object) -> bool:
    """Whether this is the checksum of a judgment (as in `judgment_checksums`); False for values
    that none has."""
    try:
        return judgment_checksums(turn, [judgment]) == [checksum]
    except (ValueError, TypeError, AttributeError, struct.error):
        return False
