"""The key that a person's machines share: it signs exports of a cache, and tells which imports are to be believed.

Whoever has it can make every machine believe any score, so it comes from the environment or from a file of the user's
alone, never from a repository. It is not the key of an encrypted store. Trade-off: one key for all who share, so that
nobody can tell who of them signed.
"""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path

from xscore.errors import UsageError

BYTES = 32
_DISTINCT = 12
"""Random keys show about 30 distinct bytes in 32, and fewer than this many never."""
_MAX_FILE_BYTES = 4_096
_THEIRS = (
    "Give the key that the file was exported with, as XSCORE_CACHE_KEY or with --key-file; or take it with --untrusted."
)
_NEW = "`xscore cache key` prints a new one; keep it in XSCORE_CACHE_KEY, or in a file of yours alone."


@dataclass(frozen=True, slots=True)
class ExchangeKey:
    """A key, and what it is called where it must not be seen."""

    secret: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """Name the key without telling anything of it, in 16 hex characters."""
        return hashlib.blake2b(self.secret, digest_size=8, person=b"xscore-cache").hexdigest()

    def signing(self, purpose: bytes) -> "hmac.HMAC":
        """Begin a signature, HMAC-SHA256."""
        return hmac.new(self.secret, purpose, hashlib.sha256)


def new_key() -> str:
    """Return a new key as text."""
    return secrets.token_hex(BYTES)


def key_of(text: str, *, where: str) -> ExchangeKey:
    """Read a key, 32 random bytes or more as hex or base64. Raises UsageError; the message never shows the text."""
    secret = _decoded(text.strip())
    if secret is None or len(secret) < BYTES:
        raise UsageError(f"{where} is no key: it takes {BYTES} bytes or more as hex or base64", hint=_NEW)
    if len(set(secret)) < _DISTINCT:
        raise UsageError(f"{where} is no key: its bytes are not random", hint=_NEW)
    return ExchangeKey(secret)


def key_in(path: Path) -> ExchangeKey:
    """Read the key in a file. Raises UsageError for one that others may read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=_NEW) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{path} is not a file", hint=_NEW)
        if found.st_mode & 0o077:
            raise UsageError(f"{path} holds a key and others may open it", hint=f"Run `chmod 600 {path}`.")
        text = os.read(descriptor, _MAX_FILE_BYTES)
    finally:
        os.close(descriptor)
    return key_of(text.decode("ascii", "replace"), where=str(path))


def chosen_key(text: str, path: Path | None) -> ExchangeKey | None:
    """Return the key in force: of the file where one is named, else the text; None where there is none."""
    if path is not None:
        return key_in(path)
    return key_of(text, where="XSCORE_CACHE_KEY (cache.key)") if text.strip() else None


def no_key_to_sign() -> UsageError:
    """Return the error of who exports without a key."""
    return UsageError("there is no key to sign with", hint=_NEW)


def no_key_to_check() -> UsageError:
    """Return the error of who imports without a key: a new one would fit no file."""
    return UsageError("there is no key to check the file with", hint=_THEIRS)


def _decoded(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        pass
    try:
        return base64.b64decode(text.translate({ord("-"): "+", ord("_"): "/"}) + "=" * (-len(text) % 4), validate=True)
    except (ValueError, binascii.Error):
        return None
