"""Where things are: the root of a repository, its store, the user's own files, and names that are not UTF-8.

It creates nothing and runs no git: the root is the nearest folder that holds a `.git`. Trade-off: any folder with a
HEAD, or file that starts with `gitdir:`, counts as a `.git`; git would check more.
"""

import os
import re
import sys
from pathlib import Path
from typing import Literal

from msgspec import Struct

from xscore.platform.errors import UsageError
from xscore.platform.git_folder import claims_git, git_folder
from xscore.platform.hashing import digest
from xscore.platform.text import readable_text

STORE_DIR = ".xscore"
STORE_FILE = "memory.db"

_ESCAPED = re.compile(r"%(25|[89A-F][0-9A-F])")
_AMBIGUOUS = re.compile(r"%(?=25|[89A-F][0-9A-F])")
_SURROGATE = re.compile("[\udc80-\udcff]")


class RepositoryRoot(Struct, frozen=True):
    """A repository, worktree or plain folder, and the location of its store."""

    path: Path
    """Absolute, symlinks resolved."""
    is_git: bool
    git_dir: Path | None
    """The `.git` folder, or for a worktree or submodule the folder its `.git` file names."""
    store_dir: Path
    read_only: bool
    """The root cannot be written, so the store is in the user's cache folder."""

    @property
    def store_file(self) -> Path:
        """The database."""
        return self.store_dir / STORE_FILE


def find_root(start: Path) -> RepositoryRoot:
    """Find the root of `start` : the nearest folder with a `.git`, else one with a store, else its own folder.

    A `.git` that leads elsewhere makes a plain folder (see `git_folder`). A store above counts only in plain folders
    and only when this user owns it. Never raises: a path that does not exist is its own root.
    """
    folder = Path(os.path.realpath(start))
    if folder.is_file():
        folder = folder.parent
    line = (folder, *folder.parents)
    path = next(filter(claims_git, line), None) or next(filter(_has_own_store, line), folder)
    git_dir = git_folder(path)
    inside = path / STORE_DIR
    effective = os.access in os.supports_effective_ids
    read_only = not os.access(inside if inside.is_dir() else path, os.W_OK | os.X_OK, effective_ids=effective)
    store_dir = user_cache_dir() / "stores" / digest("root", str(path)) if read_only else inside
    return RepositoryRoot(path, git_dir is not None, git_dir, store_dir, read_only)


def user_data_dir(chosen: Path | None) -> Path:
    """Return the folder of the user secret and user layer: as set, or the platform's default. Raises UsageError."""
    if chosen is not None:
        try:
            return chosen.expanduser().absolute()
        except RuntimeError as error:
            raise UsageError(
                f"store.user_data_dir: {chosen} names an unknown user", hint="Write the path without `~`."
            ) from error
    return _users("data")


def user_config_file() -> Path:
    """The user's settings file, whether or not it exists."""
    return _users("config") / "config.toml"


def user_cache_dir() -> Path:
    """The user's cache folder, whether or not it exists."""
    return _users("cache")


_USERS_FOLDERS = {
    "data": ("XDG_DATA_HOME", "~/.local/share", "~/Library/Application Support"),
    "config": ("XDG_CONFIG_HOME", "~/.config", "~/Library/Application Support"),
    "cache": ("XDG_CACHE_HOME", "~/.cache", "~/Library/Caches"),
}
"""Kind -> environment variable, default by the XDG Base Directory Specification, place on macOS."""


def _users(kind: Literal["data", "config", "cache"]) -> Path:
    variable, default, on_macos = _USERS_FOLDERS[kind]
    chosen = Path(os.environ.get(variable, "").strip())
    if not chosen.is_absolute():  # the specification has relative paths ignored
        chosen = Path(on_macos if sys.platform == "darwin" else default).expanduser()
    return chosen / "xscore"


def portable_name(name: str | bytes) -> str:
    """Return a file name as UTF-8 text: other bytes become `%XX`, a `%` that could be mistaken for one `%25`."""
    if isinstance(name, str) and name.isascii() and "%" not in name:
        return name
    data = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    text = _AMBIGUOUS.sub("%25", data.decode("utf-8", "surrogateescape"))
    return _SURROGATE.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", text)


def decode_path_argument(name: str) -> str:
    """Escape bytes of a path typed on the command line that are not UTF-8, as listings do; other text stays."""
    return name if name.isascii() or name == readable_text(name) else portable_name(name)


def native_name(name: str) -> str:
    """Undo `portable_name`: the name as Python's file functions take it (`os.fsencode` gives the bytes)."""
    return _ESCAPED.sub(lambda match: "%" if match[1] == "25" else chr(0xDC00 + int(match[1], 16)), name)


def _has_own_store(folder: Path) -> bool:
    try:
        return (folder / STORE_DIR / STORE_FILE).lstat().st_uid == os.geteuid()
    except OSError:
        return False
