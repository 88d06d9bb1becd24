"""Where a user's own files are: data, settings, caches and state, by the rules of the platform.

Nothing is created here, and what is in the folders is others' business.
"""

import os
import sys
from pathlib import Path
from typing import Literal

from xscore.platform.errors import UsageError

UsersFolder = Literal["data", "config", "cache", "state"]

USERS_FOLDERS: dict[UsersFolder, tuple[str, str, str]] = {
    "data": ("XDG_DATA_HOME", "~/.local/share", "~/Library/Application Support"),
    "config": ("XDG_CONFIG_HOME", "~/.config", "~/Library/Application Support"),
    "cache": ("XDG_CACHE_HOME", "~/.cache", "~/Library/Caches"),
    # `store.failed_actions`: one place on every system, since a shell line names it.
    "state": ("XDG_STATE_HOME", "~/.local/state", "~/.local/state"),
}
"""Kind -> environment variable, default by the XDG Base Directory Specification, place on macOS."""


def users_folder(kind: UsersFolder) -> Path:
    """Return a folder of this user, whether or not it exists. Raises UsageError."""
    variable, default, on_macos = USERS_FOLDERS[kind]
    chosen = Path(os.environ.get(variable, "").strip())
    if not chosen.is_absolute():  # the specification has relative paths ignored
        usual = on_macos if sys.platform == "darwin" else default
        chosen = Path(os.path.expanduser(usual))  # noqa: PTH111  `Path` raises RuntimeError without a home
    if not chosen.is_absolute():
        raise UsageError(
            "this user has no home folder", hint=f"Set {variable} to an absolute path."
        )
    return chosen / "xscore"
