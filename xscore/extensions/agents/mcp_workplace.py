"""What the tools of `xscore mcp` take: the repository and their arguments.

It is loaded when a server starts, so it knows nothing of what a call does. Trade-off: each call
reads the settings and opens the store again, so that an idle server holds nothing open and notices
edited settings.
"""

import os
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from xscore.cli.flags import Flags
from xscore.cli.settings_and_store import read_settings
from xscore.platform.errors import UsageError
from xscore.platform.paths import RepositoryRoot, find_root
from xscore.records.statement import ALIAS_CHARS, MOST_ALIASES
from xscore.settings import LoadedSettings
from xscore.store.store import Store

RECEIPT_URI = "xscore://turn/"
StatedKind = Literal["decision", "failure", "architecture", "convention", "todo", "context"]


class Workplace(Struct, frozen=True):
    """The repository that a server serves, and the options that it was started with."""

    root: RepositoryRoot
    flags: Flags

    def settings(self) -> LoadedSettings:
        """Read the settings; the server's options override them."""
        return read_settings(self.flags, start=self.root.path)

    def open_store(self, *, make: bool) -> Store:
        """Open the store without a pipeline. make: create it if it is missing.

        Raises StoreError.
        """
        return Store.open_with(self.root, self.settings().settings, create=make)


def find_workplace(flags: Flags, folder: str = "") -> Workplace:
    """Change to `folder` if one is given, and return the repository around the working folder.

    Raises UsageError.
    """
    # Cursor starts servers in the home folder and passes the repository as an argument.
    if folder:
        try:
            os.chdir(folder)
        except OSError as error:
            why = f"cannot open the folder {folder}: {error.strerror}"
            raise UsageError(
                why, hint="Give a folder of a repository, or none to use the current one."
            ) from error
    return Workplace(find_root(Path.cwd()), flags)


class ContextArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `context`."""

    task: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=20_000,
            description="What you want to do or know, as a sentence or more.",
        ),
    ]
    paths: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=1_000)], ...],
        Meta(
            max_length=100,
            description="Only these files, folders or globs, relative to the root.",
        ),
    ] = ()
    errors: Annotated[
        str, Meta(max_length=200_000, description="Error output or a stack trace, verbatim.")
    ] = ""
    max_tokens: (
        Annotated[int, Meta(ge=200, le=50_000, description="Size of the answer.")] | None
    ) = None
    deadline_s: (
        Annotated[float, Meta(ge=1, le=600, description="Seconds to wait at most.")] | None
    ) = None


class ExplainArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `explain`."""

    memory: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=1_000,
            description="path:lines, path::name, or an ID (m_…).",
        ),
    ]
    turn: Annotated[
        str, Meta(max_length=100, description="A turn (t_…); default: the latest.")
    ] = ""


class RememberArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `remember`."""

    text: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=20_000,
            description="What to remember, in a sentence or two.",
        ),
    ]
    kind: Annotated[StatedKind, Meta(extra_json_schema={"type": "string"})] = "context"
    because: Annotated[str, Meta(max_length=5_000, description="Why it is so.")] = ""
    key: Annotated[
        str, Meta(max_length=200, description="Its topic; replaces a memory with the same key.")
    ] = ""
    aliases: Annotated[
        tuple[Annotated[str, Meta(max_length=ALIAS_CHARS)], ...],
        Meta(max_length=MOST_ALIASES, description="Other names for it."),
    ] = ()
