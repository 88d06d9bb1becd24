"""Whether a database is encrypted, and with which key: a note of one line in the file `<database>-key` beside it.

The note holds the id of a key and never where a key is, so that a planted one can at worst make a store refuse to open:
keys come from whoever opens the database. It stands where opening can see it without reading the database, since
closing a file that SQLite has open elsewhere in the process drops its locks. Trade-off: a note that was lost must be
written anew (`xscore encrypt`) before the store opens.
"""

import os
import re
import stat
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from xscore.errors import StoreError

KeySource = Callable[[], bytes]
"""Gives the user's key, 32 bytes; raises StoreError where there is none. Called only for an encrypted database."""

NOTE = "-key"
"""What the note's name ends in."""
_HEADER = b"SQLite format 3\0"
_PAGE = 4096
_FORM = re.compile(rb"encrypted with key ([0-9a-f]{16})\n?")
_DISTINCT = 240
"""Of the 256 values that a byte can have, a page of cipher text shows nearly all; a damaged page seldom does."""
_ANEW = "`xscore encrypt` writes it anew, if your key is the right one."


def key_id(key: bytes) -> str:
    """Name a key without telling anything of it."""
    return blake2b(key, digest_size=8, person=b"xscore-key").hexdigest()


def note_path(path: Path) -> Path:
    """Where the note of the database at `path` is, or would be."""
    return path.with_name(path.name + NOTE)


def note_of(path: Path) -> str | None:
    """Return the id of the key in the note of the database at `path`; None: it has no note. Raises StoreError."""
    place = note_path(path)
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{place} cannot be read: {error.strerror}", hint=f"Remove it; {_ANEW}") from error
    try:
        found = _FORM.fullmatch(os.read(descriptor, 100)) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)
    if found is None:
        raise StoreError(f"{place} is not a note of xscore", hint=f"Remove it; {_ANEW}")
    return found[1].decode()


def write_note(path: Path, key: bytes) -> None:
    """Note that the database at `path` is, or is about to be, encrypted with this key. Raises StoreError."""
    place = note_path(path)
    scratch = place.with_name(f"{place.name}.new")
    try:
        scratch.unlink(missing_ok=True)
        descriptor = os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(f"encrypted with key {key_id(key)}\n".encode())
            file.flush()
            os.fsync(descriptor)
        scratch.replace(place)
    except OSError as error:
        raise StoreError(
            f"{place} cannot be written: {error.strerror}", hint="Check that its folder is yours."
        ) from error


def key_for(path: Path, noted: str, keys: KeySource | None) -> bytes:
    """Return the key of a database whose note names this id. Raises StoreError where the user has none, or another."""
    if keys is None:
        raise StoreError(f"{path} is encrypted, and no key was given", hint="Open it with `Store.open`.")
    key = keys()
    if key_id(key) != noted:
        raise StoreError(
            f"{path} is encrypted with key {noted}, and your key is {key_id(key)}",
            hint="Put the right key back; nothing can be read without it, and nothing was changed.",
        )
    return key


def looks_sealed(path: Path) -> bool:
    """Whether this file could be an encrypted database. Ask only where it was refused as no database at all."""
    try:
        with path.open("rb") as file:
            page = file.read(_PAGE)
    except OSError:
        return False
    return len(page) == _PAGE and not page.startswith(_HEADER) and len(set(page)) >= _DISTINCT


def note_is_missing(path: Path) -> StoreError:
    """Return the error of an encrypted database whose note was lost."""
    return StoreError(f"{path} seems to be encrypted, and its note {note_path(path).name} is missing", hint=_ANEW)
