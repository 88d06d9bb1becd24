"""Write a `.git/index` by hand, with names that git itself refuses to add."""

import hashlib
import struct
from collections.abc import Iterable
from pathlib import Path

from tests.conftest import git

VERSIONS = (2, 3, 4)
_EXTENDED = 0x4000


def _entry(name: bytes, blob: str, *, version: int, previous: bytes) -> bytes:
    """Return one entry: a regular file of unknown size and date, so that git compares its text."""
    times_and_owner = struct.pack(">10I", 0, 0, 0, 0, 0, 0, 0o100644, 0, 0, 0)
    flags = min(len(name), 0xFFF) | (_EXTENDED if version == 3 else 0)
    head = times_and_owner + bytes.fromhex(blob) + struct.pack(">H", flags)
    # "intent to add": the flags may not all be zero.
    head += struct.pack(">H", 0x2000) if version == 3 else b""
    if version == 4:
        # How much of the previous name to drop (all of it; below 128 that is one byte), then what
        # follows.
        return head + _varint(len(previous)) + name + b"\0"
    return head + name + b"\0" * (8 - (len(head) + len(name)) % 8)


def _varint(number: int) -> bytes:
    """Encode an offset as git does."""
    data = [number & 0x7F]
    number >>= 7
    while number:
        number -= 1
        data.insert(0, 0x80 | (number & 0x7F))
        number >>= 7
    return bytes(data)


def add_to_index(root: Path, names: Iterable[str], *, version: int = 2) -> None:
    """Add names to the index of a repository, whatever they are; what is there stays."""
    blobs: dict[bytes, str] = {}
    for line in git(root, "ls-files", "-s", "-z").split("\0"):
        if line:
            head, listed = line.split("\t")
            blobs[listed.encode()] = head.split()[1]
    empty = git(root, "hash-object", "-w", "-t", "blob", "/dev/null").strip()
    blobs |= {name.encode(): empty for name in names}
    entries, previous = b"", b""
    for name in sorted(blobs):
        entries += _entry(name, blobs[name], version=version, previous=previous)
        previous = name
    data = b"DIRC" + struct.pack(">II", version, len(blobs)) + entries
    (root / ".git" / "index").write_bytes(
        data + hashlib.sha1(data, usedforsecurity=False).digest()
    )
