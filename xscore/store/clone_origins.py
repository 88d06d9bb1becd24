"""Where the repositories of this user's stores were cloned from, each looked up once until its git
config changes.

Anyone may have written those configs, and a first index in one repository asks all of them, so the
looking ends after `PATIENCE_S`; what was found by then is in the user's folder for the next time.
Of a web address only a hash is kept, since it may hold a password. Trade-off: a clone that is not
reached in time is not a sibling until the next look.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from xscore.platform.files import FileRefused, read_private_file, write_private_file
from xscore.platform.git_folder import origin_url
from xscore.platform.hashing import digest

PATIENCE_S = 0.5
FILE = "clone-origins.json"


class _KnownOrigin(Struct, frozen=True):
    """The origin of one repository, and the config that stated it."""

    origin: str
    """See `origin_mark`."""
    config_bytes: int
    config_changed_ns: int


def origin_mark(origin: str) -> str:
    """Return what is kept of an origin and compared: a path as it is, of an address a hash; empty
    for none."""
    if not origin or origin.startswith("/"):
        return origin
    return digest("origin", origin)


def clone_origins(places: Iterable[Path], *, user_data_dir: Path) -> Iterator[tuple[Path, str]]:
    """Yield repositories and the marks of their origins, until the time is up. Never raises."""
    origins = _read(user_data_dir / FILE)
    before = dict(origins)
    until = time.monotonic() + PATIENCE_S
    try:
        for place in places:
            if time.monotonic() >= until:
                return
            yield place, _origin_of(place, origins)
    finally:
        if origins != before:
            with suppress(OSError, ValueError):  # no room, or a name that is not UTF-8
                write_private_file(user_data_dir / FILE, msgspec.json.encode(origins))


def _origin_of(place: Path, origins: dict[str, _KnownOrigin]) -> str:
    name = str(place)
    try:
        config = (place / ".git" / "config").lstat()
    except OSError:  # no repository any more, or a worktree, whose config lies elsewhere
        origins.pop(name, None)
        return origin_mark(origin_url(place))
    state = (config.st_size, config.st_mtime_ns)
    entry = origins.get(name)
    if entry is None or (entry.config_bytes, entry.config_changed_ns) != state:
        entry = origins[name] = _KnownOrigin(origin_mark(origin_url(place)), *state)
    return entry.origin


def _read(path: Path) -> dict[str, _KnownOrigin]:
    """Return what is known; nothing if the file is missing, unreadable or not the user's own."""
    try:
        return msgspec.json.decode(
            read_private_file(path) or b"{}", type=dict[str, _KnownOrigin]
        )
    except (FileRefused, OSError, msgspec.DecodeError):
        return {}
