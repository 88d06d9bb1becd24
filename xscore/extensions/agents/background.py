"""Start the background process of a store if none runs. Hooks and servers call this and must not
wait.

The process is `xscore watch`. One transaction checks that no other one runs and writes the lease
for the new one, so callers that ask at the same moment start only one. What it does is in
`background_work`. Trade-off: while another process holds the write lock for longer than
`CONTENDED_MS`, one is started without a lease and ends if not needed.
"""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from xscore.cache.background_lease import lend_lease, read_background
from xscore.platform import database
from xscore.platform.detached import start_xscore
from xscore.platform.errors import StoreError, UsageError
from xscore.platform.paths import RepositoryRoot, user_config_file, user_data_dir
from xscore.platform.processes import random_hex
from xscore.settings import Settings, load_settings
from xscore.store import opening
from xscore.store.index_rows import write_index_meta
from xscore.store.worktrees import enter_worktree

LEASE_VARIABLE = "_XSCORE_LEASE"
"""Environment variable with the name of the lease; a process started with it ends when nothing is
left to do."""
CHANGES_ASKED = "background_changes"
"""Key in `worktree_meta`: someone asked for changes to be judged again."""
PATIENCE_MS = 10
"""How long to wait for another process's transaction, in milliseconds."""
CONTENDED_MS = 250
"""How long to wait once more: the process holding the store may be starting the background
process."""


def wake_background(
    root: RepositoryRoot, *, settings: Settings | None = None, judges_changes: bool = False
) -> bool:
    """Start the background process of this repository; return whether one runs now. Never raises,
    never waits.

    settings: the caller's; None reads them from their files.
    judges_changes: also judge again, for open threads, what has changed. Does nothing if the store
        is missing or is not trusted by this user.
    """
    try:
        if settings is None:
            loaded = load_settings(
                repo_root=root.path, user_file=user_config_file(), environ=os.environ
            )
            settings = loaded.settings
        data_dir = user_data_dir(settings.store.user_data_dir)
        if root.read_only or not (opening.has_store(root.store_dir) and root.path.is_dir()):
            return False
        opening.refuse_links(root.store_dir)
        if not (
            settings.store.trust or opening.is_trusted(root.store_dir, user_data_dir=data_dir)
        ):
            return False
        database.refuse_newer(root.store_file, opening.SCHEMA)
        # It has no leases to look at yet.
        if database.has_older_header(root.store_file, opening.SCHEMA):
            _spawn(random_hex(8), root.path)
            return True
        keys = opening.key_source(data_dir)
        for patience_ms in (PATIENCE_MS, CONTENDED_MS):
            try:
                with closing(
                    opening.connect_store(root.store_file, keys, create=False)
                ) as connection:
                    connection.execute(f"PRAGMA busy_timeout = {patience_ms}")
                    enter_worktree(connection, root.worktree)
                    _start_if_none_runs(connection, root.path, judges_changes=judges_changes)
                    return True
            except StoreError as error:
                if not database.is_busy(error):
                    raise
        _spawn(random_hex(8), root.path)
        return True
    except (StoreError, UsageError, sqlite3.Error, OSError):
        return False


def _start_if_none_runs(
    connection: sqlite3.Connection, root: Path, *, judges_changes: bool
) -> None:
    if judges_changes:
        with database.transaction(connection):
            write_index_meta(connection, CHANGES_ASKED, "1")
    if read_background(connection, now=time.time()).pid is not None:
        return
    name = random_hex(8)
    now = time.time()
    with database.transaction(connection):
        if read_background(connection, now=now).pid is None:
            lend_lease(connection, name, pid=_spawn(name, root), now=now)


def _spawn(name: str, root: Path) -> int:
    """Start the process; return its process id."""
    return start_xscore(["watch"], folder=root, variables={LEASE_VARIABLE: name})
