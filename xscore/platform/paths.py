"""Where things are: the root of a repository, its store, the user's own files, and names that are not UTF-8.

It looks but creates nothing, and runs no git: the root is the nearest folder that holds a `.git`. Trade-off: a `.git`
is believed by its looks (a folder with a HEAD, a file that starts with `gitdir:`), which git would examine closer.
"""

import os
import re
from pathlib import Path

from msgspec import Struct

from xscore.platform.errors import UsageError
from xscore.platform.hashing import digest

STORE_DIR = ".xscore"
STORE_FILE = "memory.db"

_ESCAPED = re.compile(r"%(25|[89A-F][0-9A-F])")
_AMBIGUOUS = re.compile(r"%(?=25|[89A-F][0-9A-F])")
_SURROGATE = re.compile("[\udc80-\udcff]")


class RepositoryRoot(Struct, frozen=True):
    """A repository, worktree or plain folder, and where its store stands."""

    path: Path
    """Absolute, symlinks resolved."""
    is_git: bool
    git_dir: Path | None
    """The `.git` folder, or for a worktree or submodule the folder its `.git` file names."""
    store_dir: Path
    read_only: bool
    """The root cannot be written, so the store stands in the user's cache folder."""

    @property
    def store_file(self) -> Path:
        """The database."""
        return self.store_dir / STORE_FILE


def find_root(start: Path) -> RepositoryRoot:
    """Find what `start` (a file or folder) belongs to: the nearest git worktree, else a store above, else its folder.

    A store above counts only in plain folders and only when it is this user's. Never raises: a path that does not
    exist is its own root.
    """
    folder = Path(os.path.realpath(start))
    if folder.is_file():
        folder = folder.parent
    line = (folder, *folder.parents)
    for place in line:
        git_dir = _git_dir(place)
        if git_dir is not None:
            return _root(place, git_dir)
    for place in line:
        if _has_own_store(place):
            return _root(place, None)
    return _root(folder, None)


def user_data_dir(chosen: Path | None) -> Path:
    """Where the per-user secret and the user layer live: the setting, or the platform's place. Raises UsageError."""
    if chosen is not None:
        try:
            return chosen.expanduser().absolute()
        except RuntimeError as error:
            raise UsageError(
                f"store.user_data_dir: {chosen} names the home of no one", hint="Write the path without `~`."
            ) from error
    import platformdirs

    return Path(platformdirs.user_data_dir("xscore", appauthor=False))


def user_config_file() -> Path:
    """The user's settings file, whether or not it exists."""
    import platformdirs

    return Path(platformdirs.user_config_dir("xscore", appauthor=False)) / "config.toml"


def portable_name(name: str | bytes) -> str:
    """Write a file name as UTF-8 text: other bytes become `%XX`, a `%` that would read so becomes `%25`."""
    data = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    text = _AMBIGUOUS.sub("%25", data.decode("utf-8", "surrogateescape"))
    return _SURROGATE.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", text)


def native_name(name: str) -> str:
    """Undo `portable`: the name as Python's file functions take it (`os.fsencode` gives the bytes)."""
    return _ESCAPED.sub(_unescape, name)


def _unescape(match: re.Match[str]) -> str:
    value = int(match[1], 16)
    return "%" if value == 0x25 else chr(0xDC00 + value)


def _root(path: Path, git_dir: Path | None) -> RepositoryRoot:
    inside = path / STORE_DIR
    target = inside if inside.is_dir() else path
    writable = _may_write(target)
    store_dir = inside if writable else _cache_store(path)
    return RepositoryRoot(
        path=path, is_git=git_dir is not None, git_dir=git_dir, store_dir=store_dir, read_only=not writable
    )


def _git_dir(folder: Path) -> Path | None:
    marker = folder / ".git"
    if (marker / "HEAD").is_file():
        return marker
    if not marker.is_file():
        return None
    try:
        first = marker.read_bytes()[:4096].splitlines()[0]
    except (OSError, IndexError):
        return None
    if not first.startswith(b"gitdir:") or b"\0" in first:
        return None
    return Path(os.path.realpath(folder / os.fsdecode(first.removeprefix(b"gitdir:").strip())))


def _has_own_store(folder: Path) -> bool:
    try:
        return (folder / STORE_DIR / STORE_FILE).lstat().st_uid == os.geteuid()
    except OSError:
        return False


def _may_write(folder: Path) -> bool:
    effective = os.access in os.supports_effective_ids
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=effective)


def _cache_store(root: Path) -> Path:
    import platformdirs

    stores = Path(platformdirs.user_cache_dir("xscore", appauthor=False)) / "stores"
    return stores / digest("root", str(root))
