"""Content identity: blake2b-128 over length-prefixed fields; no two field lists share a digest by concatenation.

Keys built here name judgments that cost money. It does not protect against a forger: trust in a store is an HMAC with
a per-user secret, in `memory.trust`.
"""

from hashlib import blake2b

DIGEST_BYTES = 16


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


def memory_id(layer: str, path: str, kind: str, entity: str, ordinal: int = 0) -> str:
    """Name a memory so that the name survives edits of its text; `ordinal` tells equal names of one file apart."""
    return "m_" + digest(layer, path, kind, entity, str(ordinal))[:20]


def file_id(path: str) -> str:
    """Name a file as an end of an edge."""
    return "f_" + path


def content_hash(path: str, entity: str, text: str) -> str:
    """Identify exactly what a judging prompt shows of a memory: where it stands, its name, its text."""
    return digest("content", path, entity, text)
