"""Documents that lie in files: where each is, and its bytes.

A file inside the repository is opened without following a link, since a clone decides what its
links lead to; one outside is opened as the person named it. Trade-off: a file that is named by way
of a link out of the repository has to be named where it lies.
"""

import os
from pathlib import Path

from msgspec import Struct

from xscore.platform.errors import NotFetched
from xscore.platform.files import FileRefused, opened_folder, read_file_under, read_named_file
from xscore.platform.paths import native_name, portable_name

_HOME = "~/"
TOO_LARGE = "`documents.max_bytes` sets how large a document may be."
_REFUSALS = {
    "outside": ("it leads out of the repository", "Name the file at its real place."),
    "not_a_file": ("it is not a regular file", "Name a file."),
}
"""Reason and hint for each refusal of `platform.files`."""


class DocumentFile(Struct, frozen=True):
    """A file that holds a document."""

    place: str
    """Path relative to the root of the repository, or absolute, with `~` for the home
    folder."""
    data: bytes
    size: int
    mtime_ns: int


def is_address(source: str) -> bool:
    """Whether what a person named is an address rather than a file."""
    return "://" in source


def place_of_file(root: Path, name: str, *, folder: Path) -> str:
    """Return the place of the file that a person named while in `folder`."""
    path = Path(os.path.normpath(folder / _expanded(name)))
    inside = _relative(path, root)
    if inside is not None:
        # `~` begins the home folder in a place, but may begin the name of a file as well.
        return portable_name(f"./{inside}" if inside.startswith("~") else inside)
    at_home = _relative(path, Path.home())
    if at_home:
        return f"~/{portable_name(at_home)}"
    return portable_name(str(path))


def path_of_place(root: Path, place: str) -> Path:
    """Return the path of a file by its place."""
    path = _expanded(native_name(place))
    if path.is_absolute():
        return path
    return root / path


def read_document_file(root: Path, place: str, *, max_bytes: int) -> DocumentFile:
    """Read a document. Raises NotFetched."""
    path = path_of_place(root, place)
    try:
        status = path.stat()
        if place.startswith(("/", _HOME)):
            data = read_named_file(path, max_bytes=max_bytes, follow=True)
        else:
            with opened_folder(root) as top:
                data = read_file_under(top, str(Path(native_name(place))), max_bytes=max_bytes)
    except FileRefused as error:
        why, hint = _REFUSALS.get(
            str(error), (f"it has more than {max_bytes:,} bytes", TOO_LARGE)
        )
        raise NotFetched(f"{place}: {why}", hint=hint) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "Name a file that you may read; links in a repository are not followed."
        raise NotFetched(f"{place} cannot be read: {reason}", hint=hint) from error
    return DocumentFile(place, data, status.st_size, status.st_mtime_ns)


def _expanded(name: str) -> Path:
    """Return the path of a name in which `~/` is the home folder, as a shell reads it."""
    if name.startswith(_HOME):
        return Path(name).expanduser()
    return Path(name)


def _relative(path: Path, folder: Path) -> str | None:
    """Return the path below a folder; None if it is elsewhere."""
    for above in (folder, folder.resolve()):
        if path.is_relative_to(above):
            return str(path.relative_to(above))
    return None
