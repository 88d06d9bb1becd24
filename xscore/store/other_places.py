"""Where another repository of this user is on this machine: by its folder, or by its name.

Only a store that this user made or accepted where it is counts, as for opening it. A name is the
one of its origin (`github.com/acme/lib`, `acme/lib`, `lib`) or that of its folder; of several
clones the one that was indexed last is meant. Nothing is written. Trade-off: names are looked for
in the user's list of stores, each of whose git config is read, for half a second at most.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from msgspec import Struct

from xscore.platform.errors import NothingMatched, StoreError
from xscore.platform.git_folder import origin_url
from xscore.platform.paths import (
    GIT_STORE_DIR,
    STORE_DIR,
    STORE_FILE,
    RepositoryRoot,
    find_root,
    is_folder_name,
)
from xscore.platform.repository_name import repository_name, short_name
from xscore.platform.text import ellipsize, one_line, readable_text
from xscore.store import opening, user_secret

FOLLOWED_DIR = "followed"
"""Folder in the user's folder for stores of repositories that have no clone here."""
BUSY_S = 0.5
"""How long to wait for another store that a program holds: a turn can do without it."""
PATIENCE_S = 0.5
NAME_CHARS = 80
_INDEX_IT = (
    "Run `xscore index` in its folder once, or name that folder. `xscore shared follow` gets what"
    " your team states about it."
)


class OtherPlace(Struct, frozen=True):
    """Another repository, and what its memories are named by."""

    name: str
    """Name of the repository, `acme/lib`, or of its folder where it has no origin."""
    root: RepositoryRoot
    namesakes: int = 0
    """How many others on this machine have the same name."""


def find_other(name: str, *, root: RepositoryRoot, user_data_dir: Path) -> OtherPlace | None:
    """Return where another repository is; None: this one is named.

    name: a name, or a folder, relative to the root.
    Raises NothingMatched where there is none, or none is indexed; StoreError.
    """
    namesakes = 0
    if is_folder_name(name):
        place = _root_of_folder(name, root)
    else:
        matching = list(_roots_by_name(name, user_data_dir))
        # A clone here has the code, too, and what the team states of it where it has joined.
        matching = matching or list(_followed_by_name(name, user_data_dir))
        if not matching:
            raise NothingMatched(
                f"{one_line(name)} is not indexed on this machine", hint=_INDEX_IT
            )
        place = max(matching, key=_last_written)
        namesakes = len(matching) - 1
    if place.store_file == root.store_file:
        return None
    if not opening.is_trusted(place.store_dir, user_data_dir=user_data_dir, busy_s=BUSY_S):
        raise StoreError(
            f"the store of {one_line(name)} was not made by you where it is now",
            hint=f"Run `xscore index` in {place.path}, which says what to do.",
        )
    return OtherPlace(name_of_root(place, user_data_dir), place, namesakes)


def name_of_root(root: RepositoryRoot, user_data_dir: Path) -> str:
    """Return what a repository is called here: by its origin, otherwise by its folder."""
    if is_followed(root, user_data_dir):
        return short_name(name_of_followed(root))
    name = repository_name(origin_url(root.path))
    return short_name(name) if name else _folder_name(root)


def followed_root(repository: str, user_data_dir: Path) -> RepositoryRoot:
    """Return where the team's memories of a repository without a clone here are kept."""
    folder = user_data_dir / FOLLOWED_DIR / quote(repository, safe="")
    # `find_root` is not used: the folder may lie within a repository, such as one of dotfiles.
    return RepositoryRoot(folder, None, folder / STORE_DIR)


def followed_roots(user_data_dir: Path) -> Iterator[RepositoryRoot]:
    """Yield the repositories that are followed (`xscore shared follow`)."""
    for store in sorted((user_data_dir / FOLLOWED_DIR).glob(f"*/{STORE_DIR}/{STORE_FILE}")):
        yield followed_root(unquote(store.parents[1].name), user_data_dir)


def is_followed(root: RepositoryRoot, user_data_dir: Path) -> bool:
    """Whether it has memories of the team alone, and no files."""
    return root.git_dir is None and root.path.parent == user_data_dir / FOLLOWED_DIR


def name_of_followed(root: RepositoryRoot) -> str:
    """Return the name by which the team knows it."""
    return unquote(root.path.name)


def known_roots(user_data_dir: Path) -> Iterator[RepositoryRoot]:
    """Yield the repositories of this user's stores that are still there, until the time is up."""
    until = time.monotonic() + PATIENCE_S
    for store in user_secret.known_user_secret(user_data_dir).trusted_stores:
        if time.monotonic() >= until:
            return
        place = Path(store)
        if place.parts[-3:] == (".git", GIT_STORE_DIR, STORE_FILE):
            folder = place.parents[2]
        elif place.parts[-2:] == (STORE_DIR, STORE_FILE):
            folder = place.parents[1]
        else:
            continue
        if os.path.lexists(place):
            root = find_root(folder)
            if root.store_file == place:
                yield root


def _root_of_folder(name: str, root: RepositoryRoot) -> RepositoryRoot:
    folder = Path(os.path.normpath(root.path / os.path.expanduser(name)))  # noqa: PTH111  `Path` raises without a home
    shown = one_line(name)
    if not folder.is_dir():
        raise NothingMatched(
            f"there is no folder {shown}: the repository was moved or removed",
            hint="Correct --repo or `index.also`.",
        )
    place = find_root(folder)
    if not opening.has_store(place.store_dir):
        raise NothingMatched(f"{shown} is not indexed on this machine", hint=_INDEX_IT)
    return place


def _roots_by_name(name: str, user_data_dir: Path) -> Iterator[RepositoryRoot]:
    lowered = name.casefold()
    for root in known_roots(user_data_dir):
        full_name = repository_name(origin_url(root.path)).casefold()
        is_by_origin = bool(full_name) and f"/{full_name}".endswith(f"/{lowered}")
        if is_by_origin or _folder_name(root).casefold() == lowered:
            yield root


def _followed_by_name(name: str, user_data_dir: Path) -> Iterator[RepositoryRoot]:
    for root in followed_roots(user_data_dir):
        if f"/{name_of_followed(root)}".casefold().endswith(f"/{name.casefold()}"):
            yield root


def _folder_name(root: RepositoryRoot) -> str:
    return ellipsize(readable_text(root.path.name), NAME_CHARS) or "root"


def _last_written(root: RepositoryRoot) -> float:
    try:
        return root.store_file.lstat().st_mtime
    except OSError:
        return 0.0
