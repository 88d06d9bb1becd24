"""The per-user secret and the list of stores this user made or accepted: one 0600 file, changed under a lock.

It knows nothing of databases; `memory.trust` decides what its marks mean. Trade-off: whoever can read this file as the
user can forge trust, as they could run xscore itself.
"""

import fcntl
import hmac
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from xscore.platform.errors import StoreError

TRUST_FILE = "trust.json"
OTHER_FOLDER_HINT = "Name another folder with XSCORE_STORE_USER_DATA_DIR."


@dataclass(frozen=True, slots=True)
class UserSecret:
    """The secret with the marks made by it."""

    secret: bytes = field(repr=False)
    marks: dict[str, str]
    """Real path of a store -> HMAC over its id and that path."""

    def accepts(self, store_id: str, real_path: str) -> bool:
        """Whether this very store was marked at this very place."""
        return hmac.compare_digest(self.marks.get(real_path, ""), self.mark(store_id, real_path))

    def mark(self, store_id: str, real_path: str) -> str:
        """Return the mark of a store at a place."""
        return self.derive("trust", store_id, real_path).hex()

    def derive(self, *purpose: str) -> bytes:
        """Return 32 bytes that only this user can compute for this purpose."""
        message = b"".join(
            len(part).to_bytes(8, "big") + part
            for part in (text.encode("utf-8", "surrogateescape") for text in purpose)
        )
        return hmac.digest(self.secret, message, "sha256")


def load_user_secret(user_data_dir: Path) -> UserSecret:
    """Read the user's secret, making it at the first call; two processes at once end up with the same one."""
    found = _read(user_data_dir / TRUST_FILE)
    if found is not None:
        return found
    with user_lock(user_data_dir):
        found = _read(user_data_dir / TRUST_FILE)
        if found is None:
            found = UserSecret(secrets.token_bytes(32), {})
            _write(user_data_dir / TRUST_FILE, found)
    return found


def ephemeral_secret() -> UserSecret:
    """Make a secret for a store that is not kept; it believes no store, and nothing is written."""
    return UserSecret(secrets.token_bytes(32), {})


def add_trust_mark(user_data_dir: Path, store_id: str, real_path: str) -> None:
    """Remember a store at a place. Call it inside `locked`."""
    path = user_data_dir / TRUST_FILE
    known = _read(path) or UserSecret(secrets.token_bytes(32), {})
    _write(path, UserSecret(known.secret, known.marks | {real_path: known.mark(store_id, real_path)}))


@contextmanager
def user_lock(user_data_dir: Path) -> Iterator[None]:
    """Hold the user's lock, over threads and processes; it falls with the process that holds it."""
    try:
        user_data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(user_data_dir / "trust.lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreError(f"{user_data_dir} cannot be written: {error.strerror}", hint=OTHER_FOLDER_HINT) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> UserSecret | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}", hint=OTHER_FOLDER_HINT) from error
    with os.fdopen(descriptor, "rb") as file:
        _check_private(path, os.fstat(descriptor))
        data = file.read()
    return _parse(path, data)


def _check_private(path: Path, stat: os.stat_result) -> None:
    if stat.st_uid != os.geteuid():
        raise StoreError(f"{path} belongs to another user", hint=OTHER_FOLDER_HINT)
    if stat.st_mode & 0o077:
        raise StoreError(
            f"{path} holds your secret and others may open it",
            hint=f"Run `chmod 600 {path}`, or delete it if others did: your stores then ask for `xscore store trust`.",
        )


def _parse(path: Path, data: bytes) -> UserSecret:
    try:
        found = json.loads(data)
        return UserSecret(bytes.fromhex(found["secret"]), {str(k): str(v) for k, v in found["stores"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(
            f"{path} cannot be understood", hint="Delete it; your stores then ask once for `xscore store trust`."
        ) from error


def write_private(path: Path, text: str) -> None:
    """Write a file that is this user's alone (0600), in one step and for good. Raises StoreError."""
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        scratch.unlink(missing_ok=True)
        descriptor = os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        scratch.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}", hint=OTHER_FOLDER_HINT) from error


def _write(path: Path, secret: UserSecret) -> None:
    write_private(path, json.dumps({"secret": secret.secret.hex(), "stores": secret.marks}, indent=1))
