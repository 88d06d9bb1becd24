"""The user's secret and the list of stores this user made or accepted: one 0600 file, changed under
a lock.

It knows nothing of databases; `opening` decides what an entry means. Trade-off: any process that
can read this file as the user can forge trust, but it could also run xscore itself.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from xscore.platform.errors import StoreError
from xscore.platform.file_lock import hold_lock
from xscore.platform.files import FileRefused, read_private_file, write_private_file
from xscore.platform.hashing import are_equal, hmac_sha256

TRUST_FILE = "trust.json"
OTHER_FOLDER_HINT = "Name another folder with XSCORE_STORE_USER_DATA_DIR."


class UserSecret(Struct, frozen=True):
    """The secret and the trust marks made with it."""

    secret: bytes
    trusted_stores: dict[str, str]
    """Real path of a store -> HMAC over its id and that path."""

    def __repr__(self) -> str:
        return f"UserSecret({len(self.trusted_stores)} stores)"

    def accepts(self, store_id: str, real_path: str) -> bool:
        """Whether this store was accepted at this path."""
        return are_equal(self.trusted_stores.get(real_path, ""), self.mark(store_id, real_path))

    def mark(self, store_id: str, real_path: str) -> str:
        """Return the mark of a store at a path."""
        return self.derive("trust", store_id, real_path).hex()

    def derive(self, *purpose: str) -> bytes:
        """Return 32 bytes that only this user can compute for this purpose."""
        parts = (text.encode("utf-8", "surrogateescape") for text in purpose)
        message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac_sha256(self.secret, message)


def load_user_secret(user_data_dir: Path) -> UserSecret:
    """Read the user's secret; create it at the first call.

    Concurrent processes get the same one.
    """
    user = _read(user_data_dir / TRUST_FILE)
    if user is None:
        with user_lock(user_data_dir):
            user = _read(user_data_dir / TRUST_FILE)
            if user is None:
                user = ephemeral_secret()
                _write(user_data_dir / TRUST_FILE, user)
    return user


def known_user_secret(user_data_dir: Path) -> UserSecret:
    """Read the user's secret; without one, return a secret that trusts nothing.

    Writes nothing. Raises StoreError.
    """
    return _read(user_data_dir / TRUST_FILE) or ephemeral_secret()


def ephemeral_secret() -> UserSecret:
    """Return a secret for a store in memory: nothing is written, no store is trusted."""
    return UserSecret(os.urandom(32), {})


def add_trust_mark(user_data_dir: Path, store_id: str, real_path: str) -> None:
    """Trust a store at a path. Call it inside `user_lock`."""
    path = user_data_dir / TRUST_FILE
    user = _read(path) or ephemeral_secret()
    trusted_stores = user.trusted_stores | {real_path: user.mark(store_id, real_path)}
    _write(path, UserSecret(user.secret, trusted_stores))


@contextmanager
def user_lock(user_data_dir: Path) -> Iterator[None]:
    """Hold the user's lock across threads and processes. Raises StoreError."""
    with hold_lock(user_data_dir / "trust.lock", hint=OTHER_FOLDER_HINT):
        yield


def _read(path: Path) -> UserSecret | None:
    try:
        state = path.lstat()
    except OSError:
        return _parse(path)
    return _parse_once(path, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


@lru_cache(maxsize=4)
def _parse_once(path: Path, *_state: int) -> UserSecret | None:
    """Read the file once while it stays as it is: opening a store asks four times.

    A change of its mode counts.
    """
    return _parse(path)


def _parse(path: Path) -> UserSecret | None:
    try:
        data = read_private_file(path)
        if data is None:
            return None
        stored = json.loads(data)
        return UserSecret(
            bytes.fromhex(stored["secret"]),
            {str(k): str(v) for k, v in stored["stores"].items()},
        )
    except FileRefused as error:
        raise StoreError(
            f"{path} holds your secret, and {error}",
            hint=(
                f"Run `chmod 600 {path}`. If others could read it, delete it: stores then ask for"
                " trust once more."
            ),
        ) from error
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror}", hint=OTHER_FOLDER_HINT
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(
            f"{path} cannot be understood",
            hint="Delete it; your stores then ask for trust once more.",
        ) from error


def _write(path: Path, secret: UserSecret) -> None:
    text = json.dumps(
        {"secret": secret.secret.hex(), "stores": secret.trusted_stores}, indent=1
    )
    try:
        write_private_file(path, text.encode())
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written: {error.strerror}", hint=OTHER_FOLDER_HINT
        ) from error
