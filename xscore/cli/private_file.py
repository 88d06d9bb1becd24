"""A file for the user alone: written aside with mode 0600 and moved into place whole.

What was readable by others before is not afterwards, and what stood there stays until all is written. It makes no
folders. Trade-off: what is no plain file (a pipe, a device) has no second name, and is written into as it stands; a
link stays, and the file that it leads to is replaced.
"""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from xscore.errors import UsageError


def write_private(path: Path, lines: Iterable[str]) -> None:
    """Write the lines, each with its end. Raises UsageError where that cannot be; what stood there is as it was."""
    place = path.resolve()
    try:
        if place.exists() and not place.is_file():
            with place.open("w", encoding="utf-8") as file:
                file.writelines(lines)
            return
        aside = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.writelines(lines)
            aside.replace(place)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", hint="Name a file that you may write."
        ) from error
