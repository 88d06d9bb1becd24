"""Read the settings of one command, with the environment and the flags, and open the store for it.

One place applies the flags, so no command can forget one such as `--no-user-learning`. Commands
that need the pipeline open it by `pipeline_run`, which loads it; nothing here does.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from xscore.platform.errors import UsageError
from xscore.platform.paths import (
    RepositoryRoot,
    find_root,
    user_config_file,
    user_data_dir,
)
from xscore.settings import LoadedSettings, Settings, load_settings
from xscore.store.copied_stores import copies_at
from xscore.store.opening import has_store, key_source
from xscore.store.store import Store

if TYPE_CHECKING:  # a hook has no flags, and loads no click
    from xscore.cli.flags import Flags


def read_settings(flags: "Flags", *, start: Path = Path()) -> "LoadedSettings":
    """Layer the settings for the repository around `start`, the flags on top.

    Raises UsageError for an invalid value, and if --require-shared is given without a server.
    """
    loaded = read_overridden(find_root(start.resolve()).path, flags.overrides, flags.names)
    if flags.given.get("require_shared") and not loaded.settings.shared.url.reveal():
        raise UsageError(
            "--require-shared: no shared server is set",
            hint="Set shared.url (XSCORE_SHARED_URL).",
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


@contextmanager
def opened_store(
    flags: "Flags",
    *,
    start: Path = Path(),
    make: bool = True,
    settings: "Settings | None" = None,
) -> "Iterator[Store]":
    """Open only the store around `start`, for commands that need no model and no index.

    make: create the store if it is missing.
    settings: None reads them here.
    """
    chosen = settings or read_settings(flags, start=start).settings
    note_what_is_missing(start, chosen, flags.terminal.note, is_new=make)
    with Store.open_with(find_root(start.resolve()), chosen, create=make) as store:
        store.listen(flags.terminal.note)
        # Only turns use the copy as a store: what is stated or erased there would be lost.
        if store.root.read_only:
            store.connection.execute("PRAGMA query_only = ON")
        yield store
    if store.copy_problem:
        flags.terminal.note(store.copy_problem)


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


def note_what_is_missing(
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
            f"there is no store here yet ({root.path}); `xscore "
            "index` or the first turn creates it"
        )
        note(earlier_statements(root, settings) or no_store)
