"""The user's own store: the user layer, and the judgments about it, in the user's data folder and nowhere else.

It has the schema of a repository's store, so that all of this room works on it. It is opened when something of it is
wanted and made when something is first written: a turn of someone who has none opens nothing. Who may open it at all
(`memory.user_learning`) is decided by whoever opens the store. Trade-off: a store that is always there to be read would
be simpler, but a person who never said anything of themselves should have no file that could say so.
"""

import secrets
import sqlite3
from pathlib import Path

from xscore import database
from xscore.errors import StoreUntrusted
from xscore.memory import store_key

USER_STORE = database.USER_STORE


def path_in(user_data_dir: Path) -> Path:
    """Where the user's store is, or would be."""
    return user_data_dir / USER_STORE


def open_user_store(user_data_dir: Path) -> sqlite3.Connection:
    """Open the user's store, making it where there is none.

    Raises StoreUntrusted for a link, StoreError, StoreDamaged.
    """
    path = path_in(user_data_dir)
    if path.is_symlink():
        raise StoreUntrusted(f"{path} is a symbolic link", hint=f"Remove it: `rm {path}`, then run it again.")
    connection = database.connect(path, store_key.keys_of(user_data_dir))
    try:
        connection.execute(
            "INSERT INTO meta (key, value) VALUES ('store_id', ?) ON CONFLICT (key) DO NOTHING",
            (secrets.token_hex(16),),
        )
    except BaseException:
        connection.close()
        raise
    return connection
