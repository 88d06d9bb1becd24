"""Find a repository's git folder, decide whether git may safely run there, and read its small files. Runs no git.

A `.git` from an unpacked archive can point git at any folder of this machine: by its `gitdir:` line, a link, shared
objects, or settings that include other files. So a git folder is accepted only if it is inside the root, or if its own
files name the root (a linked worktree or a submodule), and only if everything that git opens there lies inside it.
Trade-off: clones that share objects with another repository (`git clone --shared`) are read as plain folders.
"""

import os
import re
from functools import lru_cache
from pathlib import Path

from xscore.platform.git_config import config_values, includes_files
from xscore.platform.text import readable_text

DETACHED_HEAD = "detached HEAD"
"""Branch name when none is checked out; a real branch name cannot contain a space."""
MAX_CONFIG_BYTES = 1_000_000
_BEGAN_FROM = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")
_RENAMED = re.compile(r"\tBranch: renamed refs/heads/([^\t\n]+) to refs/heads/([^\t\n]+)$", re.MULTILINE)
"""No name of a branch has a tab, so a line is read once however often these words are in it."""
_TAIL_BYTES = 65_536
_COMMIT = "[0-9a-f]{40}|[0-9a-f]{64}"
_MOST_WORKTREES = 64
"""Linked worktrees that are looked at; each costs a few reads."""


def claims_git(root: Path) -> bool:
    """Whether a folder has a `.git` that looks like one of git's, wherever it leads."""
    return _stated_folder(root) is not None


def git_folder(root: Path) -> Path | None:
    """Return the git folder of a root if git may be asked there; None if there is none, or it leads elsewhere."""
    root = Path(os.path.realpath(root))
    found = _stated_folder(root)
    home = _home_of(found, root) if found is not None else None
    if found is None or home is None or not (found / "HEAD").is_file():
        return None
    return found if _stays_within(home, found, *map(_changed_at, (home, found, home / "objects"))) else None


def _stated_folder(root: Path) -> Path | None:
    """Return what is at `.git`: git's folder, or the one that a file there names."""
    if os.path.lexists(root / ".git" / "HEAD"):
        return Path(os.path.realpath(root / ".git"))
    first = _own_text(root, ".git").split("\n", 1)[0]
    if not first.startswith("gitdir:") or "\0" in first:
        return None
    return Path(os.path.realpath(root / first.removeprefix("gitdir:").strip()))


def _home_of(folder: Path, root: Path) -> Path | None:
    """Return the folder with the objects and settings of a git folder; None if it is not this root's own."""
    common = Path(os.path.realpath(folder / _own_text(folder, "commondir").strip()))
    if folder.is_relative_to(root):
        return common if common.is_relative_to(root) else None
    if folder.parent.name == "worktrees":  # a linked worktree: its git folder notes where the worktree is
        named, belongs = _own_text(folder, "gitdir").strip(), common == folder.parent.parent
        is_own = bool(named) and Path(os.path.realpath(folder / named)) == root / ".git"
    else:  # a submodule: its git folder lies in that of the repository around it, and its settings name the root
        (named,), belongs = config_values(_own_text(folder, "config"), "worktree")[-1:] or [""], common == folder
        is_own = bool(named) and Path(os.path.realpath(folder / named)) == root
    return common if is_own and belongs else None


def _changed_at(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=16)
def _stays_within(home: Path, own: Path, *_changed: int) -> bool:
    """Whether nothing that git opens in these folders is a link out of them, shared objects or an included file.

    All objects are looked at, because a link in place of one would let `git diff` print another repository's file.
    """
    for folder, name in ((home, "config"), (own, "config"), (own, "config.worktree")):
        settings = _own_text(folder, name, MAX_CONFIG_BYTES + 1)
        if len(settings) > MAX_CONFIG_BYTES or includes_files(settings):
            return False
    objects = home / "objects"
    if any(_own_text(objects, f"info/{name}").strip() for name in ("alternates", "http-alternates")):
        return False
    try:
        folders = list(map(str, (home, own, home / "info", home / "refs", home / "refs" / "heads", objects)))
        with os.scandir(objects) as entries:
            folders += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        return not any(_has_link_out(folder, home) for folder in folders)
    except OSError:
        return False


def _has_link_out(folder: str, home: Path) -> bool:
    """Whether an entry of a folder is a link out of `home`. Plain strings: a repository may have 256 folders."""
    try:
        with os.scandir(folder) as entries:
            links = [entry.path for entry in entries if entry.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        return False
    return any(not Path(os.path.realpath(link)).is_relative_to(home) for link in links)


def other_worktrees(root: Path) -> tuple[Path, ...]:
    """Return the other worktrees of this root's repository, the main one first.

    Each must say itself that it belongs to the same repository (see `git_folder`): a planted list names nothing else.
    """
    root = Path(os.path.realpath(root))
    home = _own_home(root)
    if home is None:
        return ()
    try:
        with os.scandir(home / "worktrees") as entries:
            folders = sorted(entry.path for entry in entries)[:_MOST_WORKTREES]
    except OSError:
        folders = []
    named = [Path(folder, _own_text(Path(folder), "gitdir").strip()) for folder in folders]
    places = dict.fromkeys([home.parent, *(Path(os.path.realpath(place)).parent for place in named)])
    return tuple(place for place in places if place != root and _stated_home(place) == home)


def origin_url(root: Path) -> str:
    """Return where a repository says that it was cloned from; empty if it does not say. Nothing of it is checked."""
    inside = _own_text(root, ".git/config", MAX_CONFIG_BYTES)
    home = None if inside else _own_home(Path(os.path.realpath(root)))
    config = inside if home is None else _own_text(home, "config", MAX_CONFIG_BYTES)
    urls = config_values(config, "url", section='remote "origin"')
    return urls[0].rstrip("/").removesuffix(".git") if urls else ""


def _own_home(root: Path) -> Path | None:
    return None if git_folder(root) is None else _stated_home(root)


def _stated_home(root: Path) -> Path | None:
    """Return the home of a root's git folder as both state it, without looking at its objects: git is not run there."""
    folder = _stated_folder(root)
    return None if folder is None else _home_of(folder, root)


def head_branch(folder: Path) -> str:
    """Return the branch that HEAD names, or the commit of a detached HEAD; bytes that are not UTF-8 are replaced."""
    return readable_text(_own_text(folder, "HEAD").strip().removeprefix("ref: refs/heads/"))


def head_commit(folder: Path) -> str:
    """Return the commit of HEAD, read from git's files; empty if there is none yet, or the branches are no files."""
    head = _own_text(folder, "HEAD").strip()
    if re.fullmatch(_COMMIT, head):
        return head
    branch = head.removeprefix("ref: ")
    home = Path(os.path.realpath(folder / _own_text(folder, "commondir").strip()))
    packed = re.search(rf"(?m)^({_COMMIT}) {re.escape(branch)}$", _own_text(home, "packed-refs", MAX_CONFIG_BYTES))
    own = _own_text(home, branch).strip()
    return own if re.fullmatch(_COMMIT, own) else packed[1] if packed else ""


def working_branch(folder: Path | None) -> str:
    """Return the branch being worked on; during a rebase or bisect, the branch it started from. None: no git, ""."""
    if folder is None:
        return ""
    named = head_branch(folder)
    if not re.fullmatch(_COMMIT, named):
        return named
    for file in _BEGAN_FROM:
        began = readable_text(_own_text(folder, file)).strip().removeprefix("refs/heads/")
        if began and not re.fullmatch(_COMMIT, began) and began != DETACHED_HEAD:
            return began
    return DETACHED_HEAD


def earlier_branch_names(folder: Path | None, name: str) -> tuple[str, ...]:
    """Return the earlier names of a renamed branch, latest first, from its reflog."""
    if folder is None:
        return ()
    log = readable_text(_own_text(folder / _own_text(folder, "commondir").strip(), f"logs/refs/heads/{name}"))
    found: list[str] = []
    for old, new in reversed(_RENAMED.findall(log)):
        if new == (found[-1] if found else name):
            found.append(old)
    return tuple(found)


def _own_text(folder: Path, name: str, limit: int = _TAIL_BYTES) -> str:
    """Return the last bytes of a file; empty if it is missing, not a regular file, or a link out of the folder."""
    try:
        place = Path(os.path.realpath(folder / name))
        if not place.is_relative_to(os.path.realpath(folder)) or not place.is_file():
            return ""
        with place.open("rb") as opened:
            opened.seek(max(0, place.stat().st_size - limit))
            return opened.read(limit).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return ""
