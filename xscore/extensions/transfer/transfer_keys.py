"""The keys that sign saved files: the one that a user's machines share, and a store's own secret.

A key comes from the environment or from a file that only the user can read, and no message shows
it. Anyone with the machines' key can make every machine that holds it believe any score, so a weak
key is refused. Trade-off: a key is named by a hash of it, so two keys with one name are possible,
and only the signature tells them apart.
"""

import hashlib
from pathlib import Path

from msgspec import Struct

from xscore.platform.errors import UsageError
from xscore.platform.files import read_input_file

KEY_BYTES = 32
_DISTINCT = 12
"""Fewest distinct values of a key: 32 random bytes have about 30, and never fewer than this."""
_MAX_KEY_FILE_BYTES = 4_096
NEW_KEY_HINT = (
    "`xscore store key` prints a new one; keep it in XSCORE_CACHE_KEY, or in a file that only you"
    " can read."
)


class TransferKey(Struct, frozen=True):
    """A key, and a displayable name for it."""

    secret: bytes

    def __repr__(self) -> str:
        return f"TransferKey({self.id})"

    @property
    def id(self) -> str:
        """Name the key in 16 hex characters that reveal nothing about it."""
        return hashlib.blake2b(self.secret, digest_size=8, person=b"xscore-cache").hexdigest()


def parse_transfer_key(text: str, *, where: str, hint: str = NEW_KEY_HINT) -> TransferKey:
    """Read a key, 32 random bytes or more as hex. hint: where to get one, for errors.

    Raises UsageError; the message never shows the text.
    """
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        secret = b""
    if len(secret) < KEY_BYTES:
        raise UsageError(
            f"{where} is not a key: a key has at least {KEY_BYTES} bytes, in hex", hint=hint
        )
    if len(set(secret)) < _DISTINCT:
        raise UsageError(f"{where} is not a key: its bytes are not random", hint=hint)
    return TransferKey(secret)


def transfer_key(
    text: str,
    path: Path | None,
    *,
    where: str = "XSCORE_CACHE_KEY (cache.key)",
    hint: str = NEW_KEY_HINT,
) -> TransferKey | None:
    """Return the key in force: from the named file, otherwise the text; None without either.

    where: the setting that holds the text; hint: where to get a key; both for errors.
    Raises UsageError for a file that others may read.
    """
    if path is not None:
        content = read_input_file(path, max_bytes=_MAX_KEY_FILE_BYTES, hint=hint, private=True)
        return parse_transfer_key(
            content.decode("ascii", "replace"), where=str(path), hint=hint
        )
    if text.strip():
        return parse_transfer_key(text, where=where, hint=hint)
    return None
