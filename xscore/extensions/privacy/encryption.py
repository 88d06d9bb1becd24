"""Encrypt or decrypt a store: a copy is written next to the old file and replaces it in one
step.

No other process may have the store open. A call that is killed leaves the old store or the new one,
and perhaps a scratch file, which the next call removes. The replaced file is overwritten. Keys come
from `store.encryption_key`. Trade-offs: it needs room for a second copy; what the disk keeps of
freed blocks is out of reach.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from itertools import product
from pathlib import Path

from msgspec import Struct

from xscore.cache.lease import refuse_busy_store
from xscore.platform import encrypted_sqlite, sqlite_drivers
from xscore.platform.encrypted_sqlite import key_literal, open_with_cipher
from xscore.platform.errors import StoreDamaged, StoreError
from xscore.platform.files import sync_to_disk
from xscore.store import copied_stores, encryption_key, opening, stated_copy, user_secret
from xscore.store.journals import FILE_SUFFIXES
from xscore.store.scrubbing import leftover_files

_ENCRYPTED, _PLAIN = ".sealed", ".plain"
_SCRATCH = (_ENCRYPTED, _PLAIN, ".new")
_CHUNK = 1_000_000


class Conversion(Struct, frozen=True, kw_only=True):
    """The result for one store."""

    path: str
    is_encrypted: bool
    changed: bool
    """Whether the form changed; if not, the store already was in that form."""
    bytes: int
    """Size of the database now."""
    key: str
    """Place of the key: `the keyring`, or a path."""
    removed: tuple[str, ...] = ()
    """Paths of readable set-aside stores and scratch files, now removed."""


def encrypt_store(path: Path, *, user_data_dir: Path, drop_asides: bool = False) -> Conversion:
    """Encrypt the database at `path` with the user's key, which is made at the first call.

    It must be closed in this process. drop_asides: remove set-aside stores next to it, which
    would stay readable. Raises StoreError when it is at work, there are such, or the key or
    sqlcipher3 is missing; StoreDamaged.
    """
    with user_secret.user_lock(user_data_dir):
        key = encryption_key.load_or_create_encryption_key(user_data_dir)
        removed = _leftovers(path)
        asides = []
        for place in leftover_files(path.parent):
            if place.is_dir() and not sqlite_drivers.note_path(place / path.name).exists():
                asides.append(place)
        if asides and not drop_asides:
            raise StoreError(
                f"{asides[0]} holds a store that was set aside and would stay readable",
                hint="Remove it with `--drop-asides`, or move it somewhere safe.",
            )
        changed = not _is_encrypted(path, key)
        if changed:
            refuse_busy_store(path, opening.key_source(user_data_dir))
            encrypted = _exported(path, None, path.with_name(path.name + _ENCRYPTED), key)
            # The note first: a kill in between leaves a note with a plain database, which
            # opens; an encrypted one without its note would not.
            encrypted_sqlite.write_note(path, key)
            _take_its_place(encrypted, path, path.with_name(path.name + _PLAIN))
        removed += _removed(asides)
    return _conversion(path, user_data_dir, changed=changed, removed=removed, is_encrypted=True)


def decrypt_store(path: Path, *, user_data_dir: Path) -> Conversion:
    """Write the database at `path` as plain again.

    The key stays, for other stores. Raises as `encrypt_store` does.
    """
    with user_secret.user_lock(user_data_dir):
        noted = sqlite_drivers.read_note(path)
        removed = _leftovers(path)
        changed = False
        if noted is not None:
            keys = opening.key_source(user_data_dir)
            key = encrypted_sqlite.key_of_note(path, noted, keys)
            changed = _is_encrypted(path, key)
            if changed:
                refuse_busy_store(path, keys)
                plain = _exported(path, key, path.with_name(path.name + _PLAIN), None)
                _take_its_place(plain, path, path.with_name(path.name + _ENCRYPTED))
            # The note last, for the same reason.
            sqlite_drivers.note_path(path).unlink()
    return _conversion(
        path, user_data_dir, changed=changed, removed=removed, is_encrypted=False
    )


def convert_copies(
    path: Path, convert: Callable[..., Conversion], *, user_data_dir: Path
) -> None:
    """Encrypt or decrypt the copies of what was stated in the store at `path`; a damaged copy
    is removed."""
    with stated_copy.locked(user_data_dir):
        for copy in copied_stores.copies_at(path, user_data_dir):
            try:
                convert(copy, user_data_dir=user_data_dir)
            except StoreDamaged:
                _removed([copy])
                stated_copy.remove_copy(copy)


def restore_note(path: Path, *, user_data_dir: Path) -> None:
    """Write the note of an encrypted database that lost it.

    Raises StoreError where the key is not the right one.
    """
    if sqlite_drivers.read_note(path) is None and encrypted_sqlite.looks_encrypted(path):
        key = encryption_key.load_encryption_key(user_data_dir)
        try:
            open_with_cipher(path, key, read_only=True).close()
        except StoreDamaged as error:
            raise StoreError(
                f"{path} seems to be encrypted, and your key does not open it",
                hint="Restore the right key.",
            ) from error
        encrypted_sqlite.write_note(path, key)


def _conversion(
    path: Path,
    user_data_dir: Path,
    *,
    changed: bool,
    removed: Iterable[Path],
    is_encrypted: bool,
) -> Conversion:
    return Conversion(
        path=str(path),
        is_encrypted=is_encrypted,
        changed=changed,
        bytes=path.stat().st_size,
        key=encryption_key.key_location(user_data_dir),
        removed=tuple(map(str, removed)),
    )


def _is_encrypted(path: Path, key: bytes) -> bool:
    """Whether this key opens the database; False if it is plain. Raises StoreError."""
    noted = sqlite_drivers.read_note(path)
    if noted is None:
        return False
    encrypted_sqlite.key_of_note(path, noted, lambda: key)
    try:
        open_with_cipher(path, key).close()
    except StoreDamaged:
        open_with_cipher(path, None).close()
        return False
    return True


def _exported(
    path: Path, key: bytes | None, target: Path, target_key: bytes | None
) -> tuple[Path, sqlite3.Connection]:
    """Write a copy of the database to `target`; return it with the connection that locks out other
    processes."""
    connection = open_with_cipher(path, key)
    try:
        _keep_others_out(connection, path)
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600))
        literal = "" if target_key is None else key_literal(target_key)
        connection.execute("ATTACH ? AS target KEY ?", (str(target), literal))
        # An unfinished copy is thrown away.
        connection.execute("PRAGMA target.journal_mode = OFF").fetchall()
        connection.execute("PRAGMA target.synchronous = OFF")
        connection.execute("SELECT sqlcipher_export('target')").fetchall()
        for fact in ("user_version", "application_id"):
            (value,) = connection.execute(f"PRAGMA main.{fact}").fetchone()
            connection.execute(f"PRAGMA target.{fact} = {int(value)}")
        connection.execute("DETACH target")
        # Otherwise the first process to open it would switch, by a journal that others take for
        # foreign.
        with closing(open_with_cipher(target, target_key)) as exported:
            exported.execute("PRAGMA journal_mode = WAL").fetchall()
        sync_to_disk(target)
    except BaseException:
        connection.close()
        target.unlink(missing_ok=True)
        raise
    return target, connection


def _keep_others_out(connection: sqlite3.Connection, path: Path) -> None:
    """Empty the journal and lock the file until the connection is closed."""
    # With an exclusive lock the journal's mode changes only where no other process has the file
    # open: the answer tells.
    connection.execute("PRAGMA busy_timeout = 3000").fetchall()
    connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    if mode != "delete":
        raise StoreError(
            f"{path} is open in another process", hint="End that process, then run it again."
        )
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute("COMMIT")


def _take_its_place(copy: tuple[Path, sqlite3.Connection], path: Path, former: Path) -> None:
    """Replace the old file by the new one, then overwrite the old one, so that no waiting process
    can use it."""
    target, connection = copy
    with closing(connection):
        try:
            # The journal of the lock holds nothing. It goes first: killed after the exchange,
            # it would stay with the new file, which is in another mode and never removes it.
            Path(f"{path}-journal").unlink(missing_ok=True)
            # The old file keeps a second name, under which it is overwritten once it is replaced.
            os.link(path, former)
            target.replace(path)
            sync_to_disk(path.parent)
        except OSError as error:
            target.unlink(missing_ok=True)
            former.unlink(missing_ok=True)
            raise StoreError(
                f"{path} cannot be replaced: {error.strerror}",
                hint="Check that its folder is yours.",
            ) from error
        _wipe(former)


def _leftovers(path: Path) -> list[Path]:
    """Remove the remains of a killed call."""
    files = [Path(f"{path}{end}{suffix}") for end, suffix in product(_SCRATCH, FILE_SUFFIXES)]
    return _removed(filter(os.path.lexists, files))


def _removed(places: Iterable[Path]) -> list[Path]:
    gone = []
    for place in places:
        if place.is_dir():
            for file in list(filter(Path.is_file, place.rglob("*"))):
                _wipe(file)
            with suppress(OSError):
                shutil.rmtree(place)
        else:
            _wipe(place)
        gone.append(place)
    return gone


def _wipe(file: Path) -> None:
    """Overwrite a file and remove it; another link to a file in use is only removed."""
    try:
        status = file.lstat()
        if status.st_nlink == 1 and not file.is_symlink():
            with file.open("r+b") as written:
                for start in range(0, status.st_size, _CHUNK):
                    written.write(bytes(min(_CHUNK, status.st_size - start)))
                written.flush()
                os.fsync(written.fileno())
        file.unlink()
    except OSError as error:
        raise StoreError(
            f"{file} cannot be removed: {error.strerror}", hint="Remove it by hand."
        ) from error
