"""The user's secret and the list of stores this user made or accepted: one 0600 file, changed under
a lock.

It knows nothing of databases; `opening` decides what an entry means. A damaged file is set aside,
and what can be read of it goes on: a mark is a checksum with the secret, so none that the user did
not make can come of damage. Trade-off: any process that can read this file as the user can forge
trust, but it could also run xscore itself.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform.errors import StoreError
from xscore.platform.file_lock import hold_lock
from xscore.platform.files import FileRefused, read_private_file, write_private_file
from xscore.platform.hashing import are_equal, hmac_sha256
from xscore.platform.paths import can_write

TRUST_FILE = "trust.json"
_SET_ASIDE = f"{TRUST_FILE}.damaged"
"""Name of the copy of a damaged file; later copies get a number after the name."""
OTHER_FOLDER_HINT = "Name another folder with XSCORE_STORE_USER_DATA_DIR."
_SECRET_BYTES = 32
_READABLE_SECRET = re.compile(r'\s*\{\s*"secret":\s*"([0-9a-f]{64})"')
_READABLE_MARK = re.compile(
    r'^[ ]*("(?:[^"\\\x00-\x1f]|\\[^\x00-\x1f])*"): "([0-9a-f]{64})"', re.MULTILINE
)
"""Matches a readable mark; each is on a line of its own."""


class UserSecret(Struct, frozen=True):
    """The secret and the trust marks made with it."""

    secret: bytes
    trusted_stores: dict[str, str]
    """Real path of a store -> HMAC over its id and that path."""
    is_damaged: bool = False
    """Whether this is what could be read of a damaged file."""

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
    if user is None or user.is_damaged:
        with user_lock(user_data_dir):
            user = _read_undamaged(user_data_dir / TRUST_FILE)
            if user is None:
                user = ephemeral_secret()
                _write(user_data_dir / TRUST_FILE, user)
    return user


def set_damaged_aside(user_data_dir: Path) -> str:
    """Set a damaged file aside and go on with what can be read of it; return what to tell the user
    about it, or an empty string.

    Where the folder cannot be written, nothing changes. Raises StoreError.
    """
    path = user_data_dir / TRUST_FILE
    user = _read(path)
    if user is None or not user.is_damaged or not can_write(user_data_dir):
        return ""
    with user_lock(user_data_dir):
        before = set(_damaged_files(user_data_dir))
        user = _read_undamaged(path)
        set_aside = set(_damaged_files(user_data_dir)) - before
    if not set_aside:  # another process was first
        return ""
    kept = len(user.trusted_stores) if user else 0
    return (
        f"{path} was damaged: it is now {set_aside.pop()}, and {kept} of the stores that it named"
        " are still trusted; any other asks for trust once more"
    )


def explain_lost_marks(user_data_dir: Path) -> str:
    """Return why a store of the user may be unknown, where a damaged file was set aside;
    otherwise an empty string."""
    for damaged in _damaged_files(user_data_dir):
        return f", or its mark was lost with {damaged}"
    return ""


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
    user = _read_undamaged(path) or ephemeral_secret()
    marks = user.trusted_stores | {real_path: user.mark(store_id, real_path)}
    _write(path, replace(user, trusted_stores=marks))


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
    if data is None:
        return None
    try:
        stored = json.loads(data)
        secret = bytes.fromhex(stored["secret"])
        marks = {str(place): str(mark) for place, mark in stored["stores"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return _readable_part(data)
    # A shorter secret could be guessed.
    return UserSecret(secret, marks) if len(secret) == _SECRET_BYTES else _readable_part(data)


def _readable_part(data: bytes) -> UserSecret:
    """Return the secret and marks that a damaged file still shows; without the secret a new one,
    which trusts nothing."""
    text = data.decode("utf-8", "replace")
    secret = _READABLE_SECRET.match(text)
    if secret is None:
        return replace(ephemeral_secret(), is_damaged=True)
    marks = {}
    for place, mark in _READABLE_MARK.findall(text, secret.end()):
        with suppress(ValueError):
            marks[json.loads(place)] = mark
    return UserSecret(bytes.fromhex(secret[1]), marks, is_damaged=True)


def _read_undamaged(path: Path) -> UserSecret | None:
    """Read the file; if it is damaged, set it aside and write what can be read of it. Call it
    inside `user_lock`."""
    user = _read(path)
    if user is None or not user.is_damaged:
        return user
    user = replace(user, is_damaged=False)
    try:
        # The copy first: a kill in between leaves the damaged file, which is set aside again.
        write_private_file(_free_name(path.parent), read_private_file(path) or b"")
    except OSError as error:
        raise StoreError(
            f"{path} is damaged and cannot be set aside: {error.strerror}",
            hint=OTHER_FOLDER_HINT,
        ) from error
    _write(path, user)
    return user


def _free_name(user_data_dir: Path) -> Path:
    for number in count(1):
        suffix = f"-{number}" if number > 1 else ""
        place = user_data_dir / f"{_SET_ASIDE}{suffix}"
        if not os.path.lexists(place):
            return place
    raise AssertionError("numbers never end")


def _damaged_files(user_data_dir: Path) -> list[Path]:
    return sorted(user_data_dir.glob(f"{_SET_ASIDE}*"))


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
