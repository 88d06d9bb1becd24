"""AES-GCM over the text of one row; needs the extra of shared servers.

What is authenticated in addition to the text, and who holds the key, is decided in `team_key`.
Trade-off: its errors do not tell a changed row from one that belongs elsewhere.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12


class RowCipher:
    """Encrypts and decrypts by one key."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def encrypt(self, nonce: bytes, text: bytes, bound: bytes) -> bytes:
        """Return the encrypted text with its tag. bound: authenticated with it."""
        return self._cipher.encrypt(nonce, text, bound)

    def decrypt(self, nonce: bytes, content: bytes, bound: bytes) -> bytes | None:
        """Return the text; None if it was changed, or is bound to something else."""
        try:
            return self._cipher.decrypt(nonce, content, bound)
        except (InvalidTag, ValueError):
            return None
