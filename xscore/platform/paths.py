"""Where things are: the root of a repository, its store, the user's own files, and names that are
not UTF-8.

A repository's store is in its common git folder, where no checkout, pull, stash or clean writes; a
plain folder's is in the folder itself. Nothing is created here and git is not run: the root is the
nearest folder that holds a `.git`. Trade-off: any folder with a HEAD, or file that starts with
`gitdir:`, counts as a `.git`; git would check more.
"""

import os
import stat
from pathlib import Path

from msgspec import Struct

from xscore.platform.errors import UsageError
from xscore.platform.files import is_there
from xscore.platform.git_folder import bare_repository, claims_git, git_folders
from xscore.platform.hashing import digest
from xscore.platform.patterns import compiled_late
from xscore.platform.text import readable_text
from xscore.platform.users_folders import USERS_FOLDERS, users_folder

STORE_DIR = ".xscore"
"""Folder of the store of a plain folder; in a repository, where versions before schema 2 had it."""
GIT_STORE_DIR = "xscore"
"""Folder of the store within a repository's common git folder."""
STORE_FILE = "memory.db"

_ESCAPED = compiled_late(r"%(25|[89A-F][0-9A-F])")
_AMBIGUOUS = compiled_late(r"%(?=25|[89A-F][0-9A-F])")
_SURROGATE = compiled_late("[\udc80-\udcff]")


class RepositoryRoot(Struct, frozen=True):
    """A repository, worktree or plain folder, and the location of its store."""

    path: Path
    """Absolute path, with symlinks resolved."""
    git_dir: Path | None
    """The `.git` folder, or for a worktree or submodule the folder its `.git` file names. None: git
    is not used."""
    store_dir: Path
    worktree: str = ""
    """Name of a linked worktree in its repository; empty for the main worktree and for plain
    folders."""
    claims_git: bool = False
    """Whether there is a `.git`, or GIT_DIR is set: other people's commits may write here, so
    no store is used in the tree."""
    read_only: bool = False
    """Whether the store's folder cannot be written: what the store holds is read, and nothing
    is kept."""

    @property
    def is_git(self) -> bool:
        """Whether git is asked about this root."""
        return self.git_dir is not None

    @property
    def store_file(self) -> Path:
        """The database."""
        return self.store_dir / STORE_FILE

    @property
    def earlier_store_dir(self) -> Path | None:
        """The folder in the tree of a repository that versions before schema 2 used; None: a plain
        folder."""
        if self.claims_git:
            return self.path / STORE_DIR
        return None


def find_root(start: Path) -> RepositoryRoot:
    """Find the root of `start`: the nearest folder with a `.git`, otherwise a bare repository,
    otherwise a folder with a store.

    A `.git` that leads elsewhere is not asked (see `git_folder`). A store above counts only in
    plain folders and only when this user owns it. Never raises: a path that does not exist is its
    own root.
    """
    folder = Path(os.path.realpath(start))
    if is_there(folder, stat.S_ISREG):
        folder = folder.parent
    line = (folder, *folder.parents)
    path = next(filter(claims_git, line), None)
    if path is not None:
        folders = git_folders(path)
        if folders is None:  # it leads elsewhere: nothing of ours is put there
            store_dir, read_only = _store_place(path, None)
            return RepositoryRoot(path, None, store_dir, claims_git=True, read_only=read_only)
        store_dir, read_only = _store_place(path, folders.common / GIT_STORE_DIR)
        git_dir = folders.own if folders.is_contained else None
        return RepositoryRoot(
            path, git_dir, store_dir, folders.worktree, claims_git=True, read_only=read_only
        )
    bare = next(filter(bare_repository, line), None)
    if bare is not None:
        store_dir, read_only = _store_place(bare, bare / GIT_STORE_DIR)
        return RepositoryRoot(bare, None, store_dir, claims_git=True, read_only=read_only)
    path = next(filter(_has_own_store, line), folder)
    is_claimed = bool(os.environ.get("GIT_DIR"))
    store_dir, read_only = _store_place(path, None if is_claimed else path / STORE_DIR)
    return RepositoryRoot(path, None, store_dir, claims_git=is_claimed, read_only=read_only)


def refuse_wide_folder(root: RepositoryRoot) -> None:
    """Raise UsageError for a plain folder that is the user's home, or holds it, and has no store
    yet.

    A user who wants one names the folder: `xscore index PATH` is the only command that makes a
    store there. A repository there (dotfiles) says by its ignore rules what belongs to it.
    """
    if root.is_git or os.path.lexists(root.store_file) or not _holds_home(root.path):
        return
    import shlex  # only for this error

    command = f"xscore index {shlex.quote(str(root.path))}"
    raise UsageError(
        f"{root.path} is not a project: all files of your home folder are in it",
        hint=f"Go to the folder of a project. If you mean all of it, run `{command}` first.",
    )


def _holds_home(folder: Path) -> bool:
    if folder == folder.parent:
        return True
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  `Path.home` raises where there is none
    # A user without a home, such as any id in a container, gets `~` back: it would lie in the
    # working folder.
    return home.is_absolute() and Path(os.path.realpath(home)).is_relative_to(folder)


def _store_place(root: Path, inside: Path | None) -> tuple[Path, bool]:
    """Return the folder of a root's store, and whether it cannot be written.

    inside: where the store belongs; None if the root has no place that is its own. A store that
    is there is used though it cannot be written. One that could not be made there is in the
    user's own folder, never in the tree.
    """
    if inside is not None:
        exists = os.path.lexists(inside / STORE_FILE)
        if _is_no_folder(inside):  # opening it says what is in the way
            return inside, False
        if can_write(inside):
            return inside, exists and not can_write(inside / STORE_FILE, os.W_OK)
        if exists:
            return inside, True
    fallback = fallback_store_dir(root)
    return fallback, not can_write(fallback)


def fallback_store_dir(root: Path) -> Path:
    """Return the folder in the user's own for the store of a root that has no place for it."""
    name = digest("root", str(root))
    earlier = user_cache_dir() / "stores" / name  # where versions before schema 2 had it
    if os.path.lexists(earlier / STORE_FILE):
        return earlier
    return user_stores_dir() / name


def can_write(folder: Path, mode: int = os.W_OK | os.X_OK) -> bool:
    """Whether a folder, or the nearest one above it that exists, can be written by this user."""
    effective = os.access in os.supports_effective_ids
    return os.access(nearest_folder(folder), mode, effective_ids=effective)


def nearest_folder(folder: Path) -> Path:
    """Return a folder, or the nearest one above it that exists."""
    effective = os.access in os.supports_effective_ids
    while not os.access(folder, os.F_OK, effective_ids=effective) and folder != folder.parent:
        folder = folder.parent
    return folder


def _is_no_folder(place: Path) -> bool:
    """Whether something else than a folder is at this place, such as a link or a pipe."""
    try:
        return not stat.S_ISDIR(place.lstat().st_mode)
    except OSError:
        return False


def user_stores_dir() -> Path:
    """The folder of the stores that have no place of their own, whether or not it exists."""
    return users_folder("data") / "stores"


def user_data_dir(chosen: Path | None) -> Path:
    """Return the folder of the user secret and user layer: as set, or the platform's default.

    Raises UsageError.
    """
    if chosen is not None:
        try:
            return chosen.expanduser().absolute()
        except RuntimeError as error:
            raise UsageError(
                f"store.user_data_dir: {chosen} names an unknown user",
                hint="Write the path without `~`.",
            ) from error
    return users_folder("data")


def user_config_file() -> Path:
    """The user's settings file, whether or not it exists."""
    return users_folder("config") / "config.toml"


def user_cache_dir() -> Path:
    """The user's cache folder, whether or not it exists."""
    return users_folder("cache")


def own_folders_in(folder: Path) -> list[str]:
    """Return the folders of xscore's own files for this user that are inside another, relative to
    it."""
    inside = set[str]()
    for kind in USERS_FOLDERS:
        try:
            users_place = Path(os.path.realpath(users_folder(kind)))
        except UsageError:  # a user without a home has no folder of this kind
            continue
        if users_place != folder and users_place.is_relative_to(folder):
            inside.add(os.fspath(users_place.relative_to(folder)))
    return sorted(inside)


def is_folder_name(name: str) -> bool:
    """Whether an argument names a folder by its path, and not a repository by its name."""
    return name in (".", "..") or name.startswith(("./", "../", "/", "~"))


def folder_of(path: str) -> str:
    """Return the folder of a file of a repository; empty: the root."""
    return path.rpartition("/")[0]


def portable_name(name: str | bytes) -> str:
    """Return a file name as UTF-8 text: other bytes become `%XX`, a `%` that could be mistaken for
    one `%25`."""
    if isinstance(name, str) and name.isascii() and "%" not in name:
        return name
    if isinstance(name, bytes):
        data = name
    else:
        data = name.encode("utf-8", "surrogateescape")
    text = _AMBIGUOUS.sub("%25", data.decode("utf-8", "surrogateescape"))
    return _SURROGATE.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", text)


def decode_path_argument(name: str) -> str:
    """Escape bytes of a path typed on the command line that are not UTF-8, as listings do; other
    text stays."""
    if name.isascii() or name == readable_text(name):
        return name
    return portable_name(name)


def native_name(name: str) -> str:
    """Undo `portable_name`: the name as Python's file functions take it (`os.fsencode` gives the
    bytes)."""
    return _ESCAPED.sub(
        lambda match: "%" if match[1] == "25" else chr(0xDC00 + int(match[1], 16)), name
    )


def _has_own_store(folder: Path) -> bool:
    try:
        return (folder / STORE_DIR / STORE_FILE).lstat().st_uid == os.geteuid()
    except OSError:
        return False
