"""Open the pipeline for one command, run the command's work in it, and close it.

Where a command has nothing to read, no store is made. Importing this loads the pipeline: commands
that read the store alone use `opening.opened_store`. It decides nothing about a turn.
"""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from xscore.cli.flags import Flags
from xscore.cli.interrupt import run_interruptible
from xscore.cli.progress import TurnObserver
from xscore.cli.settings_and_store import note_what_is_missing, read_settings
from xscore.cli.terminal import Terminal
from xscore.indexer.index import nothing_to_read
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import NothingMatched
from xscore.platform.git_folder import bare_repository
from xscore.platform.paths import find_root, refuse_wide_folder
from xscore.settings import LoadedSettings, Settings
from xscore.store.opening import has_store

T = TypeVar("T")


def run_with_pipeline(
    flags: Flags,
    work: Callable[[Pipeline], Awaitable[T]],
    *,
    settings: LoadedSettings | None = None,
    watch: TurnObserver | None = None,
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
    loaded = settings or read_settings(flags, start=start)
    observer = watch or TurnObserver(flags.terminal, assume_yes=flags.assume_yes, noun=noun)
    observer.has_deadline = loaded.settings.budget.deadline_s is not None
    if make:
        # Before the files are listed: in a folder as wide as a home, that takes minutes.
        refuse_wide_folder(find_root(start.resolve()))
        _refuse_empty_folder(start, loaded.settings, flags.terminal)
    note_what_is_missing(start, loaded.settings, observer.note, is_new=make)
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


def _refuse_empty_folder(start: Path, settings: Settings, terminal: Terminal) -> None:
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
