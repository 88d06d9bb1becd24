"""The user's key for encrypted stores: in the keyring, or in a 0600 file where there is no keyring.

The file `store.key` in the user's data folder holds 64 hexadecimal digits, or the id of the key in
the keyring. This module encrypts nothing. Trade-offs: one key for all stores, so there is one thing
to keep safe; and anyone who can read a key file can read the stores, so only a keyring protects
against that.
"""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from xscore.platform.encrypted_sqlite import INSTALL_CRYPT_HINT, key_id
from xscore.platform.errors import StoreError
from xscore.platform.files import FileRefused, read_private_file, write_private_file

KEY_FILE = "store.key"
KEYRING_SERVICE = "xscore"
"""Service name in the keyring; the account is the key id."""
_KEY = "([0-9a-f]{64})\n?"
_IN_KEYRING = "keyring ([0-9a-f]{16})\n?"
_BACKUP_HINT = (
    "Restore it from a backup: without it the encrypted stores cannot be read, and nothing was"
    " changed."
)


def load_encryption_key(user_data_dir: Path) -> bytes:
    """Return the user's key. Raises StoreError if it is missing or unsafe."""
    key = _read(user_data_dir / KEY_FILE)
    if key is None:
        raise StoreError(
            f"the store is encrypted, and {user_data_dir / KEY_FILE} is missing",
            hint=_BACKUP_HINT,
        )
    return key


def load_or_create_encryption_key(user_data_dir: Path) -> bytes:
    """Return the user's key, created at the first call.

    Call it inside `user_lock`. Raises StoreError.
    """
    path = user_data_dir / KEY_FILE
    key = _read(path)
    if key is None:
        key = secrets.token_bytes(32)
        text = f"keyring {key_id(key)}\n" if _put_in_keyring(key) else f"{key.hex()}\n"
        try:
            write_private_file(path, text.encode())
        except OSError as error:
            raise StoreError(
                f"{path} cannot be written: {error.strerror}", hint="Check its folder."
            ) from error
    return key


def key_location(user_data_dir: Path) -> str:
    """Return where the key is: `the keyring` or the path of the file."""
    path = user_data_dir / KEY_FILE
    with suppress(OSError, UnicodeDecodeError):
        if re.fullmatch(_IN_KEYRING, path.read_text("ascii")):
            return "the keyring"
    return str(path)


def _read(path: Path) -> bytes | None:
    try:
        data = read_private_file(path)
    except FileRefused as error:
        chmod = (
            f"Run `chmod 600 {path}`. If others read it: decrypt all stores, delete it, encrypt"
            " them again."
        )
        hint = chmod if "others" in str(error) else _BACKUP_HINT
        raise StoreError(f"{path} should hold your key, but {error}", hint=hint) from error
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror}", hint=_BACKUP_HINT
        ) from error
    if data is None:
        return None
    text = data.decode("latin-1")
    if key := re.fullmatch(_KEY, text):
        return bytes.fromhex(key[1])
    if noted := re.fullmatch(_IN_KEYRING, text):
        return _from_keyring(noted[1])
    raise StoreError(
        f"{path} is not a key: it should be 64 hexadecimal digits", hint=_BACKUP_HINT
    )


def _put_in_keyring(key: bytes) -> bool:
    """Whether this machine has a keyring that stored the key and returns it."""
    try:
        with _keyring() as keyring:
            keyring.set_password(KEYRING_SERVICE, key_id(key), key.hex())
            return bool(keyring.get_password(KEYRING_SERVICE, key_id(key)) == key.hex())
    except StoreError:
        return False


def _from_keyring(identifier: str) -> bytes:
    with _keyring() as keyring:
        stored = keyring.get_password(KEYRING_SERVICE, identifier)
    if stored is None or not re.fullmatch(_KEY, stored):
        raise StoreError(
            f"the store is encrypted, and the keyring does not have key {identifier}",
            hint=(
                "Unlock the keyring that holds it; nothing can be read without it, and nothing was"
                " changed."
            ),
        )
    return bytes.fromhex(stored)


@contextmanager
def _keyring() -> Iterator[Any]:
    try:
        import keyring.errors  # an extra
    except ImportError as error:
        raise StoreError(
            "the store's key is in the keyring, and keyring is not installed",
            hint=INSTALL_CRYPT_HINT,
        ) from error
    try:
        yield keyring
    except (keyring.errors.KeyringError, OSError, RuntimeError) as error:
        raise StoreError(
            f"the keyring does not open: {error}",
            hint="Unlock it, then run it again; nothing was changed.",
        ) from error
