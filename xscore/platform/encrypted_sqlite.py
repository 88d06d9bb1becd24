"""Open a database that SQLCipher encrypts, and write the note that names its key.

The caller supplies the key. A plain store needs none of this. Trade-off: a wrong key and a damaged
first page look the same; a lost note must be rewritten (`xscore store encrypt`) before the store
opens.
"""

import sqlite3
import stat
from hashlib import blake2b
from pathlib import Path
from typing import Any

from xscore.platform.database_files import SQLITE_MAGIC
from xscore.platform.errors import StoreDamaged, StoreError, install_hint
from xscore.platform.files import is_there, write_private_file
from xscore.platform.sqlite_drivers import REWRITE_NOTE_HINT, KeySource, note_path, open_with

INSTALL_CRYPT_HINT = install_hint("crypt")
_PAGE_BYTES = 4096
_DISTINCT_BYTES = 240
"""A page of ciphertext has nearly all 256 byte values; a damaged page rarely does."""


def open_encrypted(path: Path, key: bytes, *, read_only: bool = False) -> sqlite3.Connection:
    """Open an encrypted database with SQLCipher; key: 32 bytes. Raises StoreError.

    A plain database is opened as it is: a killed conversion can leave one. An empty one will be
    encrypted. Raises StoreDamaged for a wrong key or a damaged first page, which look the same.
    """
    try:
        return open_with_cipher(path, key, read_only=read_only)
    except StoreDamaged as error:
        try:
            return open_with_cipher(path, None, read_only=read_only)
        except StoreDamaged:
            raise error from None


def open_with_cipher(
    path: Path, key: bytes | None, *, read_only: bool = False
) -> sqlite3.Connection:
    """Open a database with SQLCipher and check that it is readable; key None: it is not
    encrypted."""
    connection = open_with(_cipher(), path, read_only=read_only)
    try:
        # It would write to stderr.
        connection.execute("PRAGMA cipher_log_level = NONE").fetchall()
        if key is not None:
            connection.execute(f'PRAGMA key = "{key_literal(key)}"').fetchall()
        # Otherwise sorting would write plain text to a temporary file.
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def key_literal(key: bytes) -> str:
    """Format a raw key for SQLCipher, so that it is not derived from a password."""
    return f"x'{key.hex()}'"


def _cipher() -> Any:
    try:
        import sqlcipher3.dbapi2  # an extra
    except ImportError as error:
        raise StoreError(
            "the store is encrypted, and sqlcipher3 is not installed", hint=INSTALL_CRYPT_HINT
        ) from error
    return sqlcipher3.dbapi2


def key_id(key: bytes) -> str:
    """Return an id that reveals nothing about the key."""
    return blake2b(key, digest_size=8, person=b"xscore-key").hexdigest()


def write_note(path: Path, key: bytes) -> None:
    """Write the note that the database at `path` is, or will be, encrypted with this key.

    Raises StoreError.
    """
    place = note_path(path)
    try:
        write_private_file(place, f"encrypted with key {key_id(key)}\n".encode())
    except OSError as error:
        raise StoreError(
            f"{place} cannot be written: {error.strerror}",
            hint="Check that its folder is yours.",
        ) from error


def key_of_note(path: Path, noted: str, keys: KeySource | None) -> bytes:
    """Return the key with this id. Raises StoreError if the user has none or another."""
    if keys is None:
        raise StoreError(
            f"{path} is encrypted, and no key was given", hint="Open it with `Store.open`."
        )
    key = keys()
    if key_id(key) != noted:
        raise StoreError(
            f"{path} is encrypted with key {noted}, and your key is {key_id(key)}",
            hint="Restore the right key; nothing can be read without it, and nothing was changed.",
        )
    return key


def looks_encrypted(path: Path) -> bool:
    """Whether a file that is not a readable database could be an encrypted one."""
    if not is_there(path, stat.S_ISREG):  # reading a pipe would never end
        return False
    try:
        with path.open("rb") as file:
            page = file.read(_PAGE_BYTES)
    except OSError:
        return False
    return (
        len(page) == _PAGE_BYTES
        and not page.startswith(SQLITE_MAGIC)
        and len(set(page)) >= _DISTINCT_BYTES
    )


def missing_note_error(path: Path) -> StoreError:
    """Return the error for an encrypted database without its note."""
    return StoreError(
        f"{path} seems to be encrypted, and its note {note_path(path).name} is missing",
        hint=REWRITE_NOTE_HINT,
    )
