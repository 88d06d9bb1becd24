"""The signature of an exported cache, and the key that a person's machines share for it.

The signature covers every byte of the file but itself and is checked on a private copy before anything is parsed: so
nothing unsigned reaches the Parquet reader, and no statistic or padding can change unseen. It is in the footer's
metadata, so one file is all there is. Whoever has the key can make every machine believe any score, so it comes from
the environment or from a file of the user's alone. Trade-off: a file that another tool wrote again is refused.
"""

import base64
import binascii
import hashlib
import hmac
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from msgspec import Struct

from xscore.platform.errors import StoreError, StoreUntrusted, UsageError

KEY_BYTES = 32
_DISTINCT = 12
"""Random keys show about 30 distinct bytes in 32, and fewer than this many never."""
_MAX_FILE_BYTES = 4_096
_NEW = "`xscore store key` prints a new one; keep it in XSCORE_CACHE_KEY, or in a file of yours alone."


class ExchangeKey(Struct, frozen=True):
    """A key, and a name for it that may be shown."""

    secret: bytes

    def __repr__(self) -> str:
        return f"ExchangeKey({self.id})"

    @property
    def id(self) -> str:
        """Name the key in 16 hex characters that reveal nothing of it."""
        return hashlib.blake2b(self.secret, digest_size=8, person=b"xscore-cache").hexdigest()

    def signing(self, purpose: bytes) -> "hmac.HMAC":
        """Begin a signature, HMAC-SHA256."""
        return hmac.new(self.secret, purpose, hashlib.sha256)


def new_exchange_key() -> str:
    """Return a new key as text."""
    return secrets.token_hex(KEY_BYTES)


def parse_exchange_key(text: str, *, where: str) -> ExchangeKey:
    """Read a key, 32 random bytes or more as hex or base64. Raises UsageError; the message never shows the text."""
    secret = _decoded(text.strip())
    if secret is None or len(secret) < KEY_BYTES:
        raise UsageError(f"{where} is no key: it takes {KEY_BYTES} bytes or more as hex or base64", hint=_NEW)
    if len(set(secret)) < _DISTINCT:
        raise UsageError(f"{where} is no key: its bytes are not random", hint=_NEW)
    return ExchangeKey(secret)


def read_exchange_key(path: Path) -> ExchangeKey:
    """Read the key in a file. Raises UsageError for one that others may read."""
    with _open_regular(path, hint=_NEW) as (file, found):
        if found.st_mode & 0o077:
            raise UsageError(f"{path} holds a key and others may open it", hint=f"Run `chmod 600 {path}`.")
        text = file.read(_MAX_FILE_BYTES)
    return parse_exchange_key(text.decode("ascii", "replace"), where=str(path))


def exchange_key(text: str, path: Path | None) -> ExchangeKey | None:
    """Return the key in force: of the file where one is named, else the text; None where there is none."""
    if path is not None:
        return read_exchange_key(path)
    return parse_exchange_key(text, where="XSCORE_CACHE_KEY (cache.key)") if text.strip() else None


def no_key_to_sign() -> UsageError:
    """Return the error of an export without a key."""
    return UsageError("there is no key to sign with", hint=_NEW)


def _decoded(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        pass
    try:
        return base64.b64decode(text.translate({ord("-"): "+", ord("_"): "/"}) + "=" * (-len(text) % 4), validate=True)
    except (ValueError, binascii.Error):
        return None


SIGNATURE_ENTRY = "xscore.signature"
"""Name of its entry in the metadata."""
MAX_BYTES = 4_000_000_000
_PURPOSE = b"xscore cache export 1\0"
_SIGNATURE_PATTERN = re.compile(rb"xscore-hmac-sha256:([0-9a-f]{16}):([0-9a-f]{64})(?![0-9a-f])")
_FOOTER_BYTES = 16_000_000
_BLOCK = 1 << 20
_MAGIC = b"PAR1"
_LEAST = 12
"""Bytes of a Parquet file without its footer."""
USE_ITS_KEY = (
    "Give the key that it was exported with, as XSCORE_CACHE_KEY or with --key-file; or take it with --untrusted into"
    " quarantine, where it orders work and never scores."
)
_ASK = "Have it exported again, or take it with --untrusted into quarantine, where it orders work and never scores."


def unsigned_entry(key: ExchangeKey) -> str:
    """Return the entry as it is written first: of this key, not signed yet."""
    return f"xscore-hmac-sha256:{key.id}:{'0' * 64}"


def sign_file(file: IO[bytes], key: ExchangeKey) -> None:
    """Put the signature in its place in a file that was written with `unsigned_entry`."""
    found = _find_signature(file)
    assert found is not None
    _, _, at = found
    told = _compute_signature(file, key, at)
    file.seek(at)
    file.write(told.encode())


def check_signature(file: IO[bytes], key: ExchangeKey, *, name: Path) -> None:
    """Verify that someone with this key wrote the whole file as it is. Raises StoreUntrusted with the reason."""
    found = _find_signature(file)
    if found is None:
        raise StoreUntrusted(f"{name} is not signed", hint=_ASK)
    by, told, at = found
    if by != key.id:
        raise StoreUntrusted(f"{name} is signed with another key ({by}; yours is {key.id})", hint=USE_ITS_KEY)
    if not hmac.compare_digest(told, _compute_signature(file, key, at)):
        raise StoreUntrusted(f"{name} was altered after it was signed, or damaged on its way", hint=_ASK)


def may_replace_export(path: Path) -> bool:
    """Whether there is nothing at the path, or an export, whoever signed it."""
    try:
        with path.open("rb") as file:
            head = file.read(4)
            return not head or (
                head == _MAGIC and file.seek(0, os.SEEK_END) > _LEAST and _find_signature(file) is not None
            )
    except FileNotFoundError:
        return True
    except OSError:
        return False


@contextmanager
def private_copy(path: Path, *, beside: Path) -> Iterator[IO[bytes]]:
    """Copy a file into a nameless one in the folder `beside`, which nobody else can change.

    Raises UsageError for what is no Parquet file of up to `MAX_BYTES`, StoreError where there is no room for it.
    """
    with _open_regular(path, hint="Name what `xscore store export` wrote.") as (source, found):
        if found.st_size > MAX_BYTES:
            raise UsageError(f"{path} is larger than {MAX_BYTES:,} bytes", hint="Export less at a time: --since.")
        try:
            copy = tempfile.TemporaryFile(dir=beside)  # noqa: SIM115  closed below, where its errors are not this one
        except OSError as error:
            raise StoreError(f"{beside} cannot be written: {error.strerror}", hint="Make room there.") from error
        with copy:
            try:
                shutil.copyfileobj(source, copy, _BLOCK)
                copy.flush()
            except OSError as error:
                raise StoreError(f"{path} cannot be copied: {error.strerror}", hint="Make room on the disk.") from error
            size = copy.tell()
            copy.seek(0)
            head = copy.read(4)
            copy.seek(max(size - 4, 0))
            if size < 12 or head != _MAGIC or copy.read(4) != _MAGIC:
                raise UsageError(
                    f"{path} is no Parquet file, or was cut off", hint="Name what `xscore store export` wrote."
                )
            copy.seek(0)
            yield copy


@contextmanager
def _open_regular(path: Path, *, hint: str) -> Iterator[tuple[IO[bytes], os.stat_result]]:
    """Open a regular file without waiting for a pipe. Raises UsageError for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{path} is not a file", hint=hint)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file, found
    finally:
        os.close(descriptor)


def _find_signature(file: IO[bytes]) -> tuple[str, str, int] | None:
    """Return key id, signature and its offset; None unless the footer holds exactly one."""
    size = file.seek(0, os.SEEK_END)
    file.seek(size - 8)
    length = int.from_bytes(file.read(4), "little")
    if not 0 < length <= min(_FOOTER_BYTES, size - 12):
        return None
    start = file.seek(size - 8 - length)
    found = list(_SIGNATURE_PATTERN.finditer(file.read(length)))
    if len(found) != 1:
        return None
    return found[0][1].decode(), found[0][2].decode(), start + found[0].start(2)


def _compute_signature(file: IO[bytes], key: ExchangeKey, at: int) -> str:
    """Sign the file with zeros in the place of the signature."""
    signing = key.signing(_PURPOSE)
    file.seek(0)
    place = 0
    while block := file.read(_BLOCK):
        begin, end = max(at - place, 0), min(at + 64 - place, len(block))
        if begin < end:
            block = block[:begin] + b"0" * (end - begin) + block[end:]
        signing.update(block)
        place += len(block)
    signing.update(place.to_bytes(8, "big"))
    return signing.hexdigest()
