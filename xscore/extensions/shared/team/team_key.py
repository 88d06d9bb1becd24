"""The key that an organisation's members share: it encrypts what goes to the server, and names its
rows.

The server never sees it. Rows are named by keyed digests, so a name tells nothing about a text,
and each text is bound to its row: a row that was moved or copied cannot be read. Equal texts of
one row encrypt to equal bytes (the nonce is a digest of the text), so that sending a row again
changes nothing. Trade-off: anyone who holds the key and a login can read all that the
organisation shares; a lost key makes the server's copy worthless, and every member's own copy
stays.
"""

import hmac
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from xscore.extensions.transfer.transfer_keys import transfer_key
from xscore.platform.errors import StoreDamaged, UsageError
from xscore.settings.model import SharedSettings

if TYPE_CHECKING:
    from xscore.extensions.shared.team.row_cipher import RowCipher

KEY_HINT = (
    "`xscore shared key` prints a new one, once for the whole team; each member keeps it in"
    " XSCORE_SHARED_KEY, or in a file that only they can read (shared.key_file)."
)
_FORM = b"\x01"
_ID_BYTES, _NONCE_BYTES = 4, 12
_HEAD_BYTES = len(_FORM) + _ID_BYTES + _NONCE_BYTES
_NAME_BYTES = 16


class RowPlace(Struct, frozen=True):
    """Where a row of the server belongs."""

    organisation: str
    project: str
    member: str
    name: str
    kind: str

    @property
    def bound(self) -> bytes:
        """What is authenticated with the row's text."""
        parts = (self.organisation, self.project, self.member, self.name, self.kind)
        return "\0".join(parts).encode()


class OtherKey(Exception):
    """A row was encrypted by another key."""


class TeamKey:
    """An organisation's key."""

    def __init__(self, secret: bytes) -> None:
        self._names = _derived(secret, b"names")
        self._nonces = _derived(secret, b"nonces")
        self._texts = _derived(secret, b"texts")
        self.id: bytes = _derived(secret, b"id")[:_ID_BYTES]
        """Id that tells keys apart and reveals nothing about them."""

    def __repr__(self) -> str:
        return f"TeamKey({self.id.hex()})"

    def name_of(self, *fields: str) -> str:
        """Name something by 32 hex characters that only holders of the key can compute."""
        message = b"".join(
            len(field.encode()).to_bytes(8, "big") + field.encode() for field in fields
        )
        return hmac.new(self._names, message, sha256).digest()[:_NAME_BYTES].hex()

    def _cipher(self) -> "RowCipher":
        from xscore.extensions.shared.team.row_cipher import RowCipher  # it needs an extra

        return RowCipher(self._texts)

    def encrypt(self, text: bytes, place: RowPlace) -> bytes:
        """Encrypt the text of a row."""
        bound = place.bound
        # AES-GCM breaks where one nonce meets two texts, so the nonce is made of the text.
        nonce = hmac.new(self._nonces, bound + b"\0" + text, sha256).digest()[:_NONCE_BYTES]
        return _FORM + self.id + nonce + self._cipher().encrypt(nonce, text, bound)

    def decrypt(self, content: bytes, place: RowPlace) -> bytes:
        """Return the text of a row.

        Raises OtherKey, and StoreDamaged for a row that was changed or belongs elsewhere.
        """
        if content[:1] == _FORM and content[1 : 1 + _ID_BYTES] != self.id:
            raise OtherKey
        text: bytes | None = None
        if content[:1] == _FORM:
            nonce = content[1 + _ID_BYTES : _HEAD_BYTES]
            text = self._cipher().decrypt(nonce, content[_HEAD_BYTES:], place.bound)
        if text is None:
            raise StoreDamaged(
                "a row of the team's server was changed, or belongs elsewhere",
                hint="Tell the administrator of the server.",
            )
        return text


def _derived(secret: bytes, purpose: bytes) -> bytes:
    return hmac.new(secret, b"xscore team " + purpose, sha256).digest()


def team_key(settings: SharedSettings) -> TeamKey:
    """Return the key of these settings. Raises UsageError where there is none, or a weak one."""
    path: Path | None = settings.key_file
    key = transfer_key(
        settings.key.reveal(), path, where="XSCORE_SHARED_KEY (shared.key)", hint=KEY_HINT
    )
    if key is None:
        raise UsageError("shared.memories needs the team's key", hint=KEY_HINT)
    return TeamKey(key.secret)
