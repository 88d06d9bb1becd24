"""The key that a person's machines share, and the signature of the file of judgments that travels between them.

The signature (HMAC-SHA256) stands in the first line and covers every byte after it, so nothing unsigned is unpacked or
parsed. Anyone with the key can make every machine believe any score, so it comes from the environment or from a file of
the user's alone. Trade-off: the file is held in memory, so that it cannot change between check and use.
"""

import hashlib
import hmac
import re
import secrets
from pathlib import Path

from msgspec import Struct

from xscore.platform.errors import StoreUntrusted, UsageError
from xscore.platform.files import read_input_file

KEY_BYTES = 32
MAX_BYTES = 1_000_000_000
_DISTINCT = 12
"""Random keys show about 30 distinct bytes in 32, and fewer than this many never."""
_MAX_KEY_FILE_BYTES = 4_096
NEW_KEY_HINT = "`xscore store key` prints a new one; keep it in XSCORE_CACHE_KEY, or in a file of yours alone."
_PURPOSE = b"xscore cache export 2\0"
_HEADER = re.compile(rb"xscore-cache 2 ([0-9a-f]{16}) ([0-9a-f]{64})\n")
USE_ITS_KEY = (
    "Give the key that it was exported with, as XSCORE_CACHE_KEY or with --key-file; or take it with --untrusted into"
    " quarantine, where it orders work and never scores."
)
_ASK = "Have it exported again, or take it with --untrusted into quarantine, where it orders work and never scores."
EXPORT_HINT = "Name what `xscore store export` of this version wrote."


class ExchangeKey(Struct, frozen=True):
    """A key, and a name for it that may be shown."""

    secret: bytes

    def __repr__(self) -> str:
        return f"ExchangeKey({self.id})"

    @property
    def id(self) -> str:
        """Name the key in 16 hex characters that reveal nothing of it."""
        return hashlib.blake2b(self.secret, digest_size=8, person=b"xscore-cache").hexdigest()


def new_exchange_key() -> str:
    """Return a new key as text."""
    return secrets.token_hex(KEY_BYTES)


def parse_exchange_key(text: str, *, where: str) -> ExchangeKey:
    """Read a key, 32 random bytes or more as hex. Raises UsageError; the message never shows the text."""
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        secret = b""
    if len(secret) < KEY_BYTES:
        raise UsageError(f"{where} is no key: it takes {KEY_BYTES} bytes or more as hex", hint=NEW_KEY_HINT)
    if len(set(secret)) < _DISTINCT:
        raise UsageError(f"{where} is no key: its bytes are not random", hint=NEW_KEY_HINT)
    return ExchangeKey(secret)


def exchange_key(text: str, path: Path | None) -> ExchangeKey | None:
    """Return the key in force: of the file where one is named, else the text; None where there is none.

    Raises UsageError for a file that others may read.
    """
    if path is not None:
        found = read_input_file(path, max_bytes=_MAX_KEY_FILE_BYTES, hint=NEW_KEY_HINT, private=True)
        return parse_exchange_key(found.decode("ascii", "replace"), where=str(path))
    return parse_exchange_key(text, where="XSCORE_CACHE_KEY (cache.key)") if text.strip() else None


def signed(body: bytes, key: ExchangeKey) -> bytes:
    """Return a file: the header line, then the body."""
    return f"xscore-cache 2 {key.id} {_signature(body, key)}\n".encode() + body


def read_signed(path: Path, key: ExchangeKey) -> bytes:
    """Return the body of a file that someone with this key wrote as it stands.

    Raises StoreUntrusted with the reason, UsageError for what is no export.
    """
    header, body = _split(path)
    by, signature = header[1].decode(), header[2].decode()
    if by != key.id:
        raise StoreUntrusted(f"{path} is signed with another key ({by}; yours is {key.id})", hint=USE_ITS_KEY)
    if not hmac.compare_digest(signature, _signature(body, key)):
        raise StoreUntrusted(f"{path} was altered after it was signed, or damaged on its way", hint=_ASK)
    return body


def read_unsigned(path: Path) -> bytes:
    """Return the body of an export, signed or not. Raises UsageError for what is no export."""
    return _split(path)[1]


def may_replace_export(path: Path) -> bool:
    """Whether there is nothing at the path, or an export, signed by any key."""
    try:
        with path.open("rb") as file:
            head = file.read(128)
        return not head or _HEADER.match(head) is not None
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _signature(body: bytes, key: ExchangeKey) -> str:
    return hmac.new(key.secret, _PURPOSE + body, hashlib.sha256).hexdigest()


def _split(path: Path) -> tuple[re.Match[bytes], bytes]:
    data = read_input_file(path, max_bytes=MAX_BYTES, hint=EXPORT_HINT)
    header = _HEADER.match(data)
    if header is None:
        raise UsageError(f"{path} is no export of a cache", hint=EXPORT_HINT)
    return header, data[header.end() :]
