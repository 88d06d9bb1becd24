"""The user's key for encrypted stores: one for all of them, in the keyring, or in a 0600 file where there is none.

The file `store.key` in the user's data folder holds the key as 64 hexadecimal digits, or says that the keyring has it.
It encrypts nothing. Trade-offs: one key, not one for each store, so that there is one thing to keep safe; and beside a
key in a file whoever reads the user's files reads the stores too: against them only a keyring helps.
"""

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from xscore.platform.errors import StoreError
from xscore.platform.sqlite_drivers import INSTALL_CRYPT_HINT, KeySource, key_id
from xscore.store import user_secret

KEY_FILE = "store.key"
KEYRING_SERVICE = "xscore"
"""The name in the keyring; the account is the key's id."""
_KEY = re.compile(rb"([0-9a-f]{64})\n?")
_IN_KEYRING = re.compile(rb"keyring ([0-9a-f]{16})\n?")
_BACK = "Put it back from a backup: without it the encrypted stores cannot be read, and nothing was changed."


def key_source(user_data_dir: Path) -> KeySource:
    """Return what reads this user's key when it is asked for, and not before."""
    return partial(load_encryption_key, user_data_dir)


def load_encryption_key(user_data_dir: Path) -> bytes:
    """Return the user's key. Raises StoreError where there is none, or it is not kept as it should be."""
    found = _read(user_data_dir / KEY_FILE)
    if found is None:
        raise StoreError(f"the store is encrypted, and {user_data_dir / KEY_FILE} is missing", hint=_BACK)
    return found


def load_or_create_encryption_key(user_data_dir: Path) -> bytes:
    """Return the user's key, made at the first call. Call it inside `user_secret.locked`. Raises StoreError."""
    found = _read(user_data_dir / KEY_FILE)
    if found is None:
        found = secrets.token_bytes(32)
        user_secret.write_private(
            user_data_dir / KEY_FILE, f"keyring {key_id(found)}\n" if _put_in_keyring(found) else f"{found.hex()}\n"
        )
    return found


def key_location(user_data_dir: Path) -> str:
    """Say where the key is, for people: `the keyring` or the path of the file."""
    path = user_data_dir / KEY_FILE
    with suppress(OSError):
        if _IN_KEYRING.fullmatch(path.read_bytes()):
            return "the keyring"
    return str(path)


def _read(path: Path) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}", hint=_BACK) from error
    try:
        _check_private(path, os.fstat(descriptor))
        data = os.read(descriptor, 200)
    finally:
        os.close(descriptor)
    if key := _KEY.fullmatch(data):
        return bytes.fromhex(key[1].decode())
    if noted := _IN_KEYRING.fullmatch(data):
        return _from_keyring(noted[1].decode())
    raise StoreError(f"{path} is not a key: it should be 64 hexadecimal digits", hint=_BACK)


def _check_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        raise StoreError(f"{path} is not a file of yours", hint=_BACK)
    if status.st_mode & 0o077:
        raise StoreError(
            f"{path} holds your key and others may open it",
            hint=f"Run `chmod 600 {path}`. If others did: `xscore store decrypt --all`, delete it, `xscore store encrypt --all`.",
        )


def _put_in_keyring(key: bytes) -> bool:
    """Whether this machine has a keyring that kept the key and gave it back."""
    try:
        with _keyring() as keyring:
            keyring.set_password(KEYRING_SERVICE, key_id(key), key.hex())
            return bool(keyring.get_password(KEYRING_SERVICE, key_id(key)) == key.hex())
    except StoreError:
        return False


def _from_keyring(noted: str) -> bytes:
    with _keyring() as keyring:
        found = keyring.get_password(KEYRING_SERVICE, noted)
    if found is None or not _KEY.fullmatch(found.encode()):
        raise StoreError(
            f"the store is encrypted, and the keyring does not have key {noted}",
            hint="Unlock the keyring it was put in; nothing can be read without it, and nothing was changed.",
        )
    return bytes.fromhex(found)


@contextmanager
def _keyring() -> Iterator[Any]:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError as error:
        raise StoreError(
            "the store's key is in the keyring, and keyring is not installed", hint=INSTALL_CRYPT_HINT
        ) from error
    try:
        yield keyring
    except (KeyringError, OSError, RuntimeError) as error:
        raise StoreError(
            f"the keyring does not open: {error}", hint="Unlock it, then run it again; nothing was changed."
        ) from error
