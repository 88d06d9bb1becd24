"""Move the store that versions before schema 2 kept in a repository's tree, where other people's
commits write.

The first command that opens the repository moves it, whole or not at all: only if this user
made it there, git tracks nothing under its folder, it has no journal, and no other process has
it open. The new place is trusted before the file is moved, so a killed command leaves one
usable store, at either place. If the repository has a store already (another worktree's was
moved first), the rows of this one are added to it. A store in the tree is never opened for
anything else. Trade-off: a store that was left with a journal waits for `xscore store trust`.
"""

import os
import shutil
import unicodedata
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from xscore.platform import database, sqlite_drivers
from xscore.platform.errors import StoreError, StoreUntrusted, XscoreError
from xscore.platform.files import sync_to_disk
from xscore.platform.git import run_git
from xscore.platform.hashing import digest
from xscore.platform.paths import STORE_DIR, STORE_FILE, RepositoryRoot, fallback_store_dir
from xscore.platform.set_aside import make_set_aside_folder, set_aside_folders
from xscore.platform.text import one_line
from xscore.store import opening, user_secret
from xscore.store.journals import FILE_SUFFIXES, accept_journals, has_journal

ACCEPT_HINT = f"If it is yours, run `xscore store trust`; otherwise remove {STORE_DIR}/."
_MOVING = ".moving"
"""Suffix of a copy while it is moved from another file system."""


def take_over_earlier_store(
    root: RepositoryRoot, *, user_data_dir: Path, is_accepted: bool = False
) -> list[str]:
    """Move the store in the tree to the repository's git folder; return what to tell the user.

    So is a store that was made in the user's own folder while the git folder could not be written.
    is_accepted: the user has just said that the store in the tree is theirs, with its journal. A
    problem is then an error (StoreUntrusted, StoreError). Otherwise the store stays where it is,
    and the reason is returned the first time.
    """
    notes = []
    fallback = fallback_store_dir(root.path)
    if (
        not root.read_only
        and root.store_dir != fallback
        and os.path.lexists(fallback / STORE_FILE)
    ):
        notes += _move_or_merge(
            root,
            fallback,
            user_data_dir,
            check=lambda: _check_fallback(fallback, user_data_dir),
        )
    earlier = root.earlier_store_dir
    if earlier is None or root.read_only or not os.path.lexists(earlier / STORE_FILE):
        return notes

    def check() -> None:
        _check_owner(root, earlier, user_data_dir, is_accepted=is_accepted)

    return notes + _move_or_merge(root, earlier, user_data_dir, check=check, raises=is_accepted)


def _move_or_merge(
    root: RepositoryRoot,
    earlier: Path,
    user_data_dir: Path,
    *,
    check: Callable[[], None],
    raises: bool = False,
) -> list[str]:
    """Move the store in this folder to where it belongs, or add its rows to the one there; return
    what to say."""
    try:
        with user_secret.user_lock(user_data_dir):
            if not os.path.lexists(earlier / STORE_FILE):
                return []  # another process moved it while this one waited for the lock
            check()
            is_merged = os.path.lexists(root.store_file)
            if is_merged:
                _merge(earlier / STORE_FILE, root.store_file, user_data_dir)
            else:
                _move(earlier / STORE_FILE, root.store_file, user_data_dir)
        _remove_folder(earlier, root.store_dir)
    except (XscoreError, OSError) as error:
        if raises:
            raise
        return _named_once(root, earlier, error, user_data_dir)
    how = "its rows were added to the store in" if is_merged else "it was moved to"
    place = one_line(str(root.store_dir))
    return [f"the store in {_shown(root, earlier)} was taken over: {how} {place}"]


def _shown(root: RepositoryRoot, earlier: Path) -> str:
    if earlier.parent == root.path:
        return f"{STORE_DIR}/"
    return one_line(str(earlier))


def _check_fallback(fallback: Path, user_data_dir: Path) -> None:
    """Raise StoreUntrusted unless the store in the user's own folder is this user's."""
    opening.refuse_links(fallback)
    if not opening.is_trusted(fallback, user_data_dir=user_data_dir):
        raise opening.untrusted_error(fallback / STORE_FILE, user_data_dir)


def _check_owner(
    root: RepositoryRoot, earlier: Path, user_data_dir: Path, *, is_accepted: bool
) -> None:
    """Raise StoreUntrusted unless the store in the tree is this user's and came with no commit."""
    path = earlier / STORE_FILE
    opening.refuse_links(earlier)
    tracked = is_tracked(root)
    if tracked:
        raise StoreUntrusted(
            f"git tracks files under {STORE_DIR}/, so a commit may have written them",
            hint=f"`git rm -r --cached {STORE_DIR}` first, commit, then `xscore store trust`.",
        )
    if is_accepted:
        accept_journals(path, user_data_dir)
        return
    if tracked is None or root.store_dir == fallback_store_dir(root.path):
        raise StoreUntrusted(
            "git cannot say here whether a commit added it, or the git folder cannot be written",
            hint=ACCEPT_HINT,
        )
    if was_ever_tracked(root):
        raise StoreUntrusted(
            f"commits of this branch had files under {STORE_DIR}/, so one may have written them",
            hint=ACCEPT_HINT,
        )
    if has_journal(path):
        raise StoreUntrusted(
            "it has a journal: another xscore has it open, or was killed",
            hint="If it is yours, end that process and run `xscore store trust`.",
        )
    if not opening.is_trusted(earlier, user_data_dir=user_data_dir):
        raise StoreUntrusted("it was not made by you at this place", hint=ACCEPT_HINT)


def is_tracked(root: RepositoryRoot) -> bool | None:
    """Whether git's index or HEAD has a file in the folder of the store, under any spelling of its
    name.

    None: git cannot be asked. To a file system `.XSCORE` may be the same folder, and so may a name
    with characters that it ignores.
    """
    listed = run_git(root.path, "ls-files", "-z")
    if listed is None:
        return None
    # No commit yet: nothing.
    committed = run_git(root.path, "ls-tree", "-r", "-z", "--name-only", "HEAD") or ""
    folders = {name.partition("/")[0] for name in (listed + committed).split("\0")}
    return any(_plain_name(folder) == STORE_DIR for folder in folders)


def was_ever_tracked(root: RepositoryRoot) -> bool:
    """Whether a commit that HEAD leads to had a file in the folder of the store, or git cannot
    say."""
    if run_git(root.path, "rev-parse", "--verify", "--quiet", "HEAD") is None:
        return False  # there is no commit yet
    commit = run_git(root.path, "log", "-n1", "--format=%H", "HEAD", "--", STORE_DIR)
    return commit is None or bool(commit.strip())


def _plain_name(name: str) -> str:
    """Return a name without what any file system might ignore in it.

    Stricter than `files.leads_out`: here a false match only asks for `xscore store trust`.
    """
    normalized = unicodedata.normalize("NFKC", name)
    # `Cf`: marks that are not shown, such as a zero-width joiner.
    return "".join(char for char in normalized if unicodedata.category(char) != "Cf").casefold()


def _move(path: Path, target: Path, user_data_dir: Path) -> None:
    """Move a database with its key note. Raises StoreError while another process has it open."""
    keys = opening.key_source(user_data_dir)
    _close_to_others(path, keys)
    store_id = opening.read_store_id(path, user_data_dir)
    if store_id is None:
        raise StoreError("it has no store id", hint="Rebuild it with `xscore store rebuild`.")
    with closing(database.open_unchecked(path, keys)) as connection:
        # Before the move: the first command at the new place would make a rollback journal for
        # it, which the others there refuse.
        connection.execute("PRAGMA journal_mode = WAL")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    user_secret.add_trust_mark(user_data_dir, store_id, os.path.realpath(target))
    note = sqlite_drivers.note_path(path)
    # first: a plain database opens with a note, an encrypted one not without it.
    if note.exists():
        _rename(note, sqlite_drivers.note_path(target))
    _rename(path, target)


def _rename(source: Path, target: Path) -> None:
    """Move a file, from another file system too: it is complete at the target, or still at the
    source."""
    try:
        source.rename(target)
    except OSError:
        copy = target.with_name(target.name + _MOVING)
        shutil.copyfile(source, copy, follow_symlinks=False)
        copy.chmod(0o600)
        sync_to_disk(copy)
        copy.rename(target)
        sync_to_disk(target.parent)  # before the source goes, or a power cut could lose both
        source.unlink()


def _merge(path: Path, target: Path, user_data_dir: Path) -> None:
    """Add the rows of a store to the one at `target`, then remove it.

    Adding them twice changes nothing.
    """
    keys = opening.key_source(user_data_dir)
    _close_to_others(path, keys)
    opening.connect_store(path, keys, create=False).close()  # brings it to today's schema
    from xscore.extensions.recovery.salvage import merge_store  # an extension

    with closing(
        opening.open_store(target.parent, user_data_dir=user_data_dir, trust=False)
    ) as connection:
        merge_store(path, connection, keys)
    for suffix in FILE_SUFFIXES:
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _close_to_others(path: Path, keys: opening.StoreKeys) -> None:
    """Write the journal into the database and remove it.

    Raises StoreError while another process has it open.
    """
    with closing(database.open_unchecked(path, keys)) as connection:
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        except StoreError as error:
            if not database.is_busy(error):
                raise
            mode = "busy"
    if mode != "delete":
        raise StoreError(
            "another process has it open", hint="It is taken over when that process has ended."
        )


def _remove_folder(earlier: Path, store_dir: Path) -> None:
    """Remove the folder in the tree; what was set aside in it goes to the store's new folder."""
    with suppress(OSError):
        is_encrypted = sqlite_drivers.read_note(store_dir / STORE_FILE) is not None
        for place in set_aside_folders(earlier):
            if is_encrypted and not sqlite_drivers.note_path(place / STORE_FILE).exists():
                # A plain copy next to an encrypted store would reveal what that hides.
                shutil.rmtree(place)
                continue
            target = make_set_aside_folder(store_dir)
            for file in sorted(place.iterdir()):
                shutil.move(file, target / file.name)
            place.rmdir()
    with suppress(OSError):
        # Otherwise it keeps git from adding the rest.
        if [file.name for file in earlier.iterdir()] == [".gitignore"]:
            (earlier / ".gitignore").unlink()
        earlier.rmdir()  # fails where something of others is in it


def _named_once(
    root: RepositoryRoot, earlier: Path, error: XscoreError | OSError, user_data_dir: Path
) -> list[str]:
    """Return why the store in the tree is not used, unless the user has seen it before."""
    if isinstance(error, XscoreError):
        reason = f"{error.message}. {error.hint}"
    else:
        reason = f"{error.strerror}."
    folder = user_data_dir / "named"
    mark = folder / digest("earlier store", str(root.path), reason)
    if mark.exists():
        return []
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark.touch(mode=0o600)
    return [f"{_shown(root, earlier)} holds a store that is not used: {reason}"]
