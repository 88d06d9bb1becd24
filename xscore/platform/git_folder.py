"""Find a repository's git folder, decide whether git may safely run there, and read its small
files. Runs no git.

A `.git` from an unpacked archive can point git at any folder of this machine: by its `gitdir:`
line, a link, shared objects, or settings that include other files. So a git folder is accepted only
if it is inside the root, or if its own files name the root (a linked worktree or a submodule), and
only if everything that git opens there lies inside it. Trade-off: clones that share objects with
another repository (`git clone --shared`) are read as plain folders.
"""

import os
import re
import stat
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from xscore.platform import link_free
from xscore.platform.files import is_there
from xscore.platform.git_config import config_values, includes_files
from xscore.platform.text import readable_text

DETACHED_HEAD = "detached HEAD"
"""Branch name when none is checked out; a real branch name cannot contain a space."""
MAX_CONFIG_BYTES = 1_000_000
_BEGAN_FROM = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")
_RENAMED = re.compile(
    r"\tBranch: renamed refs/heads/([^\t\n]+) to refs/heads/([^\t\n]+)$", re.MULTILINE
)
"""Matches a renamed branch. No name of a branch has a tab, so a line is read once however often
these words are in it."""
_TAIL_BYTES = 65_536
_COMMIT = "[0-9a-f]{40}|[0-9a-f]{64}"


def claims_git(root: Path) -> bool:
    """Whether a folder has a `.git` that looks like one of git's, wherever it leads."""
    return _stated_folder(root) is not None


class GitFolders(Struct, frozen=True):
    """The folders of git that belong to a root."""

    own: Path
    """The folder that `.git` is or names: of this worktree alone."""
    common: Path
    """The folder with the objects and settings, shared by all worktrees of the repository."""
    is_contained: bool
    """Whether nothing that git would open leads out of them, so that git may be asked."""

    @property
    def worktree(self) -> str:
        """The name that the repository has for a linked worktree; empty for the main one and for
        submodules."""
        if self.own != self.common:
            return self.own.name
        return ""


def git_folders(root: Path) -> GitFolders | None:
    """Return the git folders that belong to a root; None if there are none, or `.git` leads to
    those of another."""
    root = Path(os.path.realpath(root))
    stated = _stated_folder(root)
    common = _home_of(stated, root) if stated is not None else None
    if stated is None or common is None or not is_there(stated / "HEAD", stat.S_ISREG):
        return None
    is_contained = _stays_within(
        common, stated, *map(_changed_at, (common, stated, common / "objects"))
    )
    return GitFolders(stated, common, is_contained)


def git_folder(root: Path) -> Path | None:
    """Return the git folder of a root if git may be asked there; None if there is none, or it leads
    elsewhere."""
    folders = git_folders(root)
    if folders is not None and folders.is_contained:
        return folders.own
    return None


def bare_repository(folder: Path) -> bool:
    """Whether a folder looks like a bare repository: a git folder without a tree around it."""
    if not is_there(folder / "HEAD", stat.S_ISREG):
        return False
    return all(is_there(folder / name, stat.S_ISDIR) for name in ("objects", "refs"))


def _stated_folder(root: Path) -> Path | None:
    """Return git's folder: `.git` itself, or the folder that a file of this name points to."""
    if os.path.lexists(root / ".git" / "HEAD"):
        return Path(os.path.realpath(root / ".git"))
    first = _own_text(root, ".git").split("\n", 1)[0]
    if not first.startswith("gitdir:") or "\0" in first:
        return None
    return Path(os.path.realpath(root / first.removeprefix("gitdir:").strip()))


def _home_of(folder: Path, root: Path) -> Path | None:
    """Return the folder with the objects and settings of a git folder; None if it is not this
    root's own."""
    shared = _own_text(folder, "commondir").strip()
    # Without one it is the folder itself, whose links are resolved already.
    common = folder
    if shared:
        common = Path(os.path.realpath(folder / shared))
    if folder.is_relative_to(root):
        return common if common.is_relative_to(root) else None
    # A linked worktree: its git folder notes where the worktree is.
    if folder.parent.name == "worktrees":
        named = _own_text(folder, "gitdir").strip()
        belongs = common == folder.parent.parent
        expected = root / ".git"
    # A submodule: its git folder lies in that of the repository around it, and its settings name
    # the root.
    else:
        stated = config_values(_own_text(folder, "config"), "worktree")
        named = stated[-1] if stated else ""
        belongs = common == folder
        expected = root
    # Both ways: an unpacked archive can name our folder, but our folder does not name it.
    is_own = bool(named) and Path(os.path.realpath(folder / named)) == expected
    return common if is_own and belongs else None


def _changed_at(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=16)
def _stays_within(home: Path, worktree_home: Path, *_changed: int) -> bool:
    """Whether nothing that git opens in these folders is a link out of them, shared objects or an
    included file.

    All objects are looked at, because a link in place of one would let `git diff` print another
    repository's file; but once only while no folder changes (`link_free`).
    """
    configs = (
        (home, "config"),
        (worktree_home, "config"),
        (worktree_home, "config.worktree"),
    )
    for folder, name in configs:
        settings = _own_text(folder, name, MAX_CONFIG_BYTES + 1)
        if len(settings) > MAX_CONFIG_BYTES or includes_files(settings):
            return False
    objects = home / "objects"
    for name in ("alternates", "http-alternates"):
        if _own_text(objects, f"info/{name}").strip():
            return False
    folders = [
        home,
        worktree_home,
        home / "info",
        home / "refs",
        home / "refs" / "heads",
        objects,
    ]
    places = list(map(str, folders))
    try:
        with os.scandir(objects) as entries:
            places += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        # Taken before they are looked through: what changes meanwhile is looked at the next time.
        state = link_free.fingerprint(sorted(places))
        if link_free.is_noted(home, state):
            return True
        links: list[str] = []
        for place in places:
            links += _links_in(place)
    except OSError:
        return False
    # Where a link within leads to may change without a change of these folders.
    if not links:
        link_free.note(home, state)
    return all(Path(os.path.realpath(link)).is_relative_to(home) for link in links)


def _links_in(folder: str) -> list[str]:
    """Return the paths of the links in a folder.

    Plain strings: a repository may have 256 folders.
    """
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def origin_url(root: Path) -> str:
    """Return where a repository says that it was cloned from; empty if it does not say.

    Nothing of it is checked.
    """
    inside = _own_text(root, ".git/config", MAX_CONFIG_BYTES)
    folders = None if inside else git_folders(root)
    home = folders.common if folders is not None and folders.is_contained else None
    config = inside if home is None else _own_text(home, "config", MAX_CONFIG_BYTES)
    urls = config_values(config, "url", section='remote "origin"')
    if urls:
        return urls[0].rstrip("/").removesuffix(".git")
    return ""


def head_branch(folder: Path) -> str:
    """Return the branch that HEAD names, or the commit of a detached HEAD; bytes that are not UTF-8
    are replaced."""
    return readable_text(_own_text(folder, "HEAD").strip().removeprefix("ref: refs/heads/"))


def head_commit(folder: Path) -> str:
    """Return the commit of HEAD, read from git's files; empty if there is none yet, or the branches
    are not files."""
    head = _own_text(folder, "HEAD").strip()
    if re.fullmatch(_COMMIT, head):
        return head
    branch = head.removeprefix("ref: ")
    home = Path(os.path.realpath(folder / _own_text(folder, "commondir").strip()))
    # A file of its own is newer than what was packed.
    loose = _own_text(home, branch).strip()
    if loose:
        # A branch may name another one; which commit that has is not looked up.
        return loose if re.fullmatch(_COMMIT, loose) else ""
    packed_refs = _own_text(home, "packed-refs", MAX_CONFIG_BYTES)
    packed = re.search(rf"(?m)^({_COMMIT}) {re.escape(branch)}$", packed_refs)
    return packed[1] if packed else ""


def working_branch(folder: Path | None) -> str:
    """Return the branch being worked on; during a rebase or bisect, the branch it started from.

    None: no git, "".
    """
    if folder is None:
        return ""
    named = head_branch(folder)
    if not re.fullmatch(_COMMIT, named):
        return named
    for file in _BEGAN_FROM:
        began = readable_text(_own_text(folder, file)).strip().removeprefix("refs/heads/")
        if began and not re.fullmatch(_COMMIT, began) and began != DETACHED_HEAD:
            return began
    # Worktrees share one store, and none may go on with the session of another's detached head.
    is_linked = folder.parent.name == "worktrees"
    if is_linked:
        return f"{DETACHED_HEAD} of {folder.name}"
    return DETACHED_HEAD


def earlier_branch_names(folder: Path | None, name: str) -> tuple[str, ...]:
    """Return the earlier names of a renamed branch, latest first, from its reflog."""
    if folder is None:
        return ()
    log = readable_text(
        _own_text(folder / _own_text(folder, "commondir").strip(), f"logs/refs/heads/{name}")
    )
    names: list[str] = []
    for old, new in reversed(_RENAMED.findall(log)):
        if new == (names[-1] if names else name):
            names.append(old)
    return tuple(names)


def _own_text(folder: Path, name: str, limit: int = _TAIL_BYTES) -> str:
    """Return the last bytes of a file; empty if it is missing, not a regular file, or a link out of
    the folder."""
    try:
        # Most are not there, and each of the many commands of a turn looks: that costs one look,
        # and not one for every folder above it.
        os.lstat(folder / name)
        place = Path(os.path.realpath(folder / name))
        if not place.is_relative_to(os.path.realpath(folder)) or not place.is_file():
            return ""
        with place.open("rb") as opened:
            opened.seek(max(0, place.stat().st_size - limit))
            return opened.read(limit).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return ""
