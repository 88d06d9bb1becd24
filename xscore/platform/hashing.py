"""Content identity: blake2b-128 over length-prefixed fields; no two field lists share a digest by
concatenation.

Judgments that cost money are stored under these keys. They do not protect against forgery: trust in
a store is an HMAC with a per-user secret (`hmac_sha256`, `store.user_secret`). Checksums are weaker
still: they detect damage only.
"""

# `hashlib` and `hmac` would load OpenSSL first, which every prompt would wait 3 ms for.
import struct
import sys
from _blake2 import blake2b
from _operator import _compare_digest
from collections.abc import Sequence
from itertools import repeat
from operator import add
from typing import Any, AnyStr
from zlib import crc32

if sys.version_info >= (3, 12):
    from _sha2 import sha256
else:
    from _sha256 import sha256  # type: ignore[import-not-found]  # not in typeshed

DIGEST_BYTES = 16
_HMAC_BLOCK = 64
_INNER_PAD = bytes(byte ^ 0x36 for byte in range(256))
_OUTER_PAD = bytes(byte ^ 0x5C for byte in range(256))
_NUMBERS = struct.Struct("<ddq").pack
_CHECKED_FIELDS = 5
"""Fields of a judgment that its checksum covers."""


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


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    """Return the 32 bytes of a message's HMAC-SHA-256 (RFC 2104), as `hmac` makes it."""
    if len(key) > _HMAC_BLOCK:
        key = sha256(key).digest()
    key = key.ljust(_HMAC_BLOCK, b"\0")
    inner = sha256(key.translate(_INNER_PAD) + message).digest()
    return bytes(sha256(key.translate(_OUTER_PAD) + inner).digest())


def are_equal(text: AnyStr, other_text: AnyStr) -> bool:
    """Compare two texts in a time that does not tell where they differ."""
    return bool(_compare_digest(text, other_text))


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


def judgment_checksums(turn: int, judgments: Sequence[Sequence[Any]]) -> list[int]:
    """Return checksums of judgments, each of content hash, score, prior, pack, position; further
    fields are ignored.

    SQLite has no checksums, and a flipped byte can change a score. They cover hashes rather than
    row numbers, so a row moved to another turn or content fails too. Raises ValueError, TypeError,
    AttributeError or struct.error for values that no judgment has.
    """
    columns = list(zip(*judgments, strict=True))[:_CHECKED_FIELDS]
    return judgment_column_checksums(turn, columns) if judgments else []


def judgment_column_checksums(turn: int, columns: Sequence[Sequence[Any]]) -> list[int]:
    """Return the same of judgments that are given by column, as many of them as are checked.

    A cached turn checks every memory of the pool: row by row it took half as long again.
    """
    hashes, scores, priors, packs, positions = columns
    numbers = map(_NUMBERS, scores, priors, positions)
    hashes_and_numbers = map(add, map(str.encode, hashes), numbers)
    contents = map(add, hashes_and_numbers, map(str.encode, packs))
    return list(map(crc32, contents, repeat(turn)))


def has_judgment_checksum(turn: int, judgment: Sequence[Any], checksum: object) -> bool:
    """Whether this is the checksum of a judgment (as in `judgment_checksums`); False for values
    that none has."""
    try:
        return judgment_checksums(turn, [judgment]) == [checksum]
    except (ValueError, TypeError, AttributeError, struct.error):
        return False
