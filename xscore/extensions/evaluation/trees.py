"""The files of a repository as they were at a commit, in a private repository of their own.

The user's checkout, index, branches and hooks are not touched. A private repository lies in the
user's data folder, one for each repository that is evaluated: it has the same objects (hard links,
copies on another disk), its HEAD is the commit that is searched, and git knows there only what
leads to it, so that nothing later can be found. Its store stays, so that each version of a file is
parsed once and each judgment is paid once; its files go when a run ends, or, after a run that was
killed, when the next begins. One process at a time uses it. Trade-off: objects that git packs away
in the original stay linked here.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from xscore.platform.errors import NothingMatched, StoreError
from xscore.platform.file_lock import hold_lock
from xscore.platform.git import fill_work_tree, run_git
from xscore.platform.git_folder import GitFolders, git_folders
from xscore.platform.hashing import digest
from xscore.platform.text import one_line

FOLDER = "evaluations"
"""Folder of the private repositories within the user's data folder."""
_LOCK = "lock"
_TREE = "tree"
_HINT = "Set store.user_data_dir to a folder that can be written."
_WAIT_S = 5.0
_CONFIG = """[core]
\trepositoryformatversion = {version}
\tbare = false
\tlogallrefupdates = false
[gc]
\tauto = 0
{extensions}"""
_NOT_OBJECTS = (".lock", ".promisor")
_AS_COMMITTED = "* -text -eol -filter -ident -working-tree-encoding -diff=\n"
"""Files are written byte for byte as they were committed, whatever their attributes say."""


class SourceRepository(Struct, frozen=True):
    """A repository whose past is searched."""

    root: Path
    folders: GitFolders

    @property
    def name(self) -> str:
        """Name of its private repository: one for all worktrees of a repository."""
        return digest("evaluation", os.fsencode(self.folders.common).hex())[:24]


def source_repository(root: Path) -> SourceRepository:
    """Return the repository at this root. Raises NothingMatched where git may not be asked."""
    folders = git_folders(root)
    if folders is None or not folders.is_contained:
        raise NothingMatched(
            f"{one_line(str(root))} is not a repository whose history can be read (no git, or a"
            " clone"
            " that shares objects with another)",
            hint="Name an independent clone.",
        )
    return SourceRepository(root, folders)


@contextmanager
def private_tree(source: SourceRepository, data_dir: Path) -> Iterator[Path]:
    """Hold the private repository of a source; yield its root.

    Raises StoreError if the folder cannot be written, or another process uses it.
    """
    place = data_dir / FOLDER / source.name
    with hold_lock(place / _LOCK, wait_s=_WAIT_S, hint=_HINT):
        tree = place / _TREE
        try:
            _make(source, tree)
        except OSError as error:
            raise StoreError(
                f"{tree} cannot be written: {error.strerror}", hint=_HINT
            ) from error
        yield tree


def check_out(tree: Path, commit: str) -> bool:
    """Write the files of a commit into a private repository; False: git does not have all of it."""
    git = tree / ".git"
    # We hold the only lock here, so a lock of git's was left by a dead process.
    (git / "index.lock").unlink(missing_ok=True)
    (git / "HEAD").write_text(f"{commit}\n")
    return fill_work_tree(tree, commit)


def remove_files(data_dir: Path) -> None:
    """Remove the files of all private repositories that no process uses; their stores stay."""
    with suppress(OSError):
        for place in sorted((data_dir / FOLDER).iterdir()):
            # In use: its process removes them.
            with suppress(StoreError), hold_lock(place / _LOCK, wait_s=0, hint=_HINT):
                _empty(place / _TREE)


def _empty(tree: Path) -> None:
    if not (tree / ".git").is_dir():
        return
    # Without its index git rewrites every file.
    (tree / ".git" / "index").unlink(missing_ok=True)
    for entry in tree.iterdir():
        if entry.name == ".git":
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _make(source: SourceRepository, tree: Path) -> None:
    """Make the private repository, or bring it the objects that are new. Raises OSError."""
    git = tree / ".git"
    for folder in (git / "refs" / "heads", git / "info", git / "objects"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    object_format = run_git(source.root, "rev-parse", "--show-object-format") or ""
    is_sha256 = object_format.strip() != "sha1"
    extensions = "[extensions]\n\tobjectformat = sha256\n" if is_sha256 else ""
    (git / "config").write_text(_CONFIG.format(version=int(is_sha256), extensions=extensions))
    (git / "info" / "attributes").write_text(_AS_COMMITTED)
    _link_objects(source.folders.common / "objects", git / "objects")
    shallow = source.folders.common / "shallow"
    (git / "shallow").unlink(missing_ok=True)
    if _is_file(shallow):
        shutil.copyfile(shallow, git / "shallow")


def _link_objects(objects: Path, private: Path) -> None:
    """Link every object, loose or packed, that is not there yet."""
    for folder in sorted(objects.iterdir()):
        if folder.is_symlink() or not folder.is_dir() or folder.name == "info":
            continue
        (private / folder.name).mkdir(mode=0o700, exist_ok=True)
        linked = {entry.name for entry in (private / folder.name).iterdir()}
        for entry in folder.iterdir():
            if entry.name.startswith(("tmp_", ".tmp")) or entry.suffix in _NOT_OBJECTS:
                continue  # not an object, or not a complete one
            if entry.name not in linked and _is_file(entry):
                _link(entry, private / folder.name / entry.name)


def _link(original: Path, place: Path) -> None:
    try:
        os.link(original, place)
    except FileExistsError:
        return
    except FileNotFoundError:  # git has packed it away in the meantime
        return
    except OSError:  # another disk, or one without links
        aside = place.with_name(f"tmp_{place.name}")
        shutil.copyfile(original, aside)
        aside.replace(place)


def _is_file(place: Path) -> bool:
    try:
        return stat.S_ISREG(place.lstat().st_mode)
    except OSError:
        return False
