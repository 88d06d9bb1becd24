"""Open the pipeline or the store for one command: settings are read here, with the environment and
the flags.

One place applies the flags, so no command can forget one such as `--no-user-learning`. It decides
nothing about a turn.
"""

import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.git_folder import bare_repository
from xscore.platform.paths import (
    RepositoryRoot,
    find_root,
    refuse_wide_folder,
    user_config_file,
    user_data_dir,
)
from xscore.settings import LoadedSettings, Settings, load_settings
from xscore.store.copied_stores import copies_at
from xscore.store.opening import has_store, key_source
from xscore.store.store import Store

if TYPE_CHECKING:  # a hook has no flags, and loads no click
    from xscore.cli.flags import Flags
    from xscore.cli.progress import TurnObserver
    from xscore.cli.terminal import Terminal
    from xscore.pipeline.build import Pipeline

T = TypeVar("T")


def read_settings(flags: "Flags", *, start: Path = Path()) -> "LoadedSettings":
    """Layer the settings for the repository around `start`, the flags on top.

    Raises UsageError for an invalid value, and if --require-shared is given without a server.
    """
    loaded = read_overridden(find_root(start.resolve()).path, flags.overrides, flags.names)
    if flags.given.get("require_shared") and not loaded.settings.shared.url.reveal():
        raise UsageError(
            "--require-shared: no shared server is set", hint="Set shared.url (XSCORE_SHARED_URL)."
        )
    return loaded


def read_overridden(
    root: Path, overrides: Mapping[str, object], names: Mapping[str, str]
) -> "LoadedSettings":
    """Layer the settings for the repository at this root, these on top; names: see `Flags`.

    Raises UsageError.
    """
    return load_settings(
        repo_root=root,
        user_file=user_config_file(),
        environ=os.environ,
        flags=overrides,
        flag_names=names,
    )


def run_with_pipeline(
    flags: "Flags",
    work: "Callable[[Pipeline], Awaitable[T]]",
    *,
    settings: "LoadedSettings | None" = None,
    watch: "TurnObserver | None" = None,
    start: Path = Path(),
    make: bool = True,
    noun: str = "This turn",
    late_loop: bool = False,
) -> T:
    """Open the pipeline around `start`, do the work, close it, whether or not the work is a turn.

    Ctrl-C cancels the work; a second one exits at once.

    make: create the store if it is missing.
    noun: what the confirmation asks the user to pay for.
    late_loop: see `run_interruptible`.
    """
    # Commands that only read the store run no turn.
    from xscore.cli.interrupt import run_interruptible
    from xscore.pipeline.build import Pipeline  # they need no pipeline either

    loaded = settings or read_settings(flags, start=start)
    # A command that opens the store alone shows no progress.
    from xscore.cli.progress import TurnObserver

    observer = watch or TurnObserver(flags.terminal, assume_yes=flags.assume_yes, noun=noun)
    observer.has_deadline = loaded.settings.budget.deadline_s is not None
    if make:
        # Before the files are listed: in a folder as wide as a home, that takes minutes.
        refuse_wide_folder(find_root(start.resolve()))
        _refuse_empty_folder(start, loaded.settings, flags.terminal)
    _note_what_is_missing(start, loaded.settings, observer.note, is_new=make)
    for warning in loaded.warnings:
        observer.note(warning)

    async def inside() -> T:
        async with Pipeline.open(start, loaded, observer=observer, make=make) as pipeline:
            result = await work(pipeline)
        if pipeline.store.copy_problem:
            observer.note(pipeline.store.copy_problem)
        return result

    try:
        return run_interruptible(
            inside(), notify=observer.note, cleanup=observer.close, late_loop=late_loop
        )
    finally:
        observer.close()


@contextmanager
def opened_store(
    flags: "Flags", *, start: Path = Path(), make: bool = True, settings: "Settings | None" = None
) -> "Iterator[Store]":
    """Open only the store around `start`, for commands that need no model and no index.

    make: create the store if it is missing.
    settings: None reads them here.
    """
    chosen = settings or read_settings(flags, start=start).settings
    _note_what_is_missing(start, chosen, flags.terminal.note, is_new=make)
    with Store.open_with(find_root(start.resolve()), chosen, create=make) as store:
        store.listen(flags.terminal.note)
        # Only turns use the copy as a store: what is stated or erased there would be lost.
        if store.root.read_only:
            store.connection.execute("PRAGMA query_only = ON")
        yield store
    if store.copy_problem:
        flags.terminal.note(store.copy_problem)


def _refuse_empty_folder(start: Path, settings: "Settings", terminal: "Terminal") -> None:
    """Raise NothingMatched, before a store is made, where there is no file to read."""
    root = find_root(start.resolve())
    if has_store(root.store_dir):
        return
    if bare_repository(root.path):
        raise NothingMatched(
            f"there is nothing to read in {root.path}: it is a bare repository, or git's own"
            " folder, without files",
            hint="Go to a working tree of it (`git worktree add`, or a clone). No store was made.",
        )
    from xscore.indexer.index import nothing_to_read  # only where there is no store yet

    reason = nothing_to_read(root, settings.index, now=time.time())
    if reason is None:
        return
    kept_out = reason.files.excluded.by_reason
    if kept_out:
        from xscore.cli.phrases import describe_kept_out, list_kept_out  # for an error alone

        terminal.notes(list_kept_out(reason.files.excluded) if terminal.verbose else ())
        message = f"there is nothing to read in {root.path}: {describe_kept_out(kept_out)}"
    else:
        message = f"there is nothing to read in {root.path}: the folder is empty"
    raise NothingMatched(message, hint="Go to a folder with source or text. No store was made.")


def earlier_statements(root: "RepositoryRoot", settings: "Settings") -> str:
    """Say what was stated in an earlier store at this place; empty: nothing, or there is a
    store."""
    if has_store(root.store_dir):
        return ""
    user_data = user_data_dir(settings.store.user_data_dir)
    if copies_at(root.store_file, user_data):
        # Few places had a store before.
        from xscore.store.stated_copy import describe_earlier_statements

        return describe_earlier_statements(root.store_file, user_data, key_source(user_data))
    return ""


def _has_earlier_store(root: "RepositoryRoot") -> bool:
    """Whether there is a store of an older version that opening takes over, or names."""
    return root.earlier_store_dir is not None and has_store(root.earlier_store_dir)


def _note_what_is_missing(
    start: Path, settings: "Settings", note: Callable[[str], None], *, is_new: bool
) -> None:
    """Note that there is no store yet; if one is made now, what was stated in an earlier one."""
    root = find_root(start.resolve())
    if is_new:
        statements = earlier_statements(root, settings)
        if statements:
            note(statements)
    elif not (has_store(root.store_dir) or _has_earlier_store(root)):
        no_store = (
            f"there is no store here yet ({root.path}); `xscore index` or the first turn creates it"
        )
        note(earlier_statements(root, settings) or no_store)
