"""Open the pipeline or the store for one command: settings are read here, with the environment and the flags.

So no command can forget what a flag overrides, `--no-user-learning` first of all. It decides nothing about a turn.
"""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from xscore.cli.options import Flags
from xscore.cli.progress import TurnObserver
from xscore.platform.errors import UsageError

if TYPE_CHECKING:
    from xscore.pipeline.build import Pipeline
    from xscore.settings import LoadedSettings, Settings
    from xscore.store.store import Store


T = TypeVar("T")


def read_settings(flags: Flags, *, start: Path = Path()) -> "LoadedSettings":
    """Layer the settings for the repository around `start`; what the flags override is theirs.

    Raises UsageError for a value that cannot be, and where --require-shared has no server to require.
    """
    from xscore.platform.paths import find_root, user_config_file
    from xscore.settings import load_settings

    found = load_settings(
        repo_root=find_root(start.resolve()).path,
        user_file=user_config_file(),
        environ=os.environ,
        flags=flags.overrides,
    )
    if flags.given.get("require_shared") and not found.settings.shared.url.reveal():
        raise UsageError("--require-shared: no shared server is set", hint="Set shared.url (XSCORE_SHARED_URL).")
    return found


def run_turn(
    flags: Flags,
    work: "Callable[[Pipeline], Awaitable[T]]",
    *,
    settings: "LoadedSettings | None" = None,
    start: Path = Path(),
    make: bool = True,
    streams: bool = False,
    noun: str = "This turn",
) -> "tuple[T, TurnObserver]":
    """Open the pipeline around `start`, do the work, close it; return what it gave and who watched.

    Ctrl-C cancels the work, a second one ends everything. make: false makes no store, for a command that only reads.
    streams: write the answer to stdout as it arrives. noun: what the user is asked to pay for.
    """
    loaded = settings or read_settings(flags, start=start)
    watch = TurnObserver(
        flags.terminal,
        assume_yes=flags.assume_yes,
        streams=streams,
        has_deadline=loaded.settings.budget.deadline_s is not None,
        noun=noun,
    )
    return in_pipeline(work, loaded, watch, start=start, make=make), watch


def in_pipeline(
    work: "Callable[[Pipeline], Awaitable[T]]",
    settings: "LoadedSettings",
    watch: TurnObserver,
    *,
    start: Path = Path(),
    make: bool = True,
) -> T:
    """Open the pipeline with an observer of the caller's, do the work, close it."""
    from xscore.cli.interrupt import run_interruptible
    from xscore.pipeline.build import Pipeline

    async def inside() -> T:
        async with Pipeline.open(start, settings, observer=watch, make=make) as pipeline:
            return await work(pipeline)

    if not make:
        _note_missing_store(start, watch.note)
    for warning in settings.warnings:
        watch.note(warning)
    try:
        return run_interruptible(inside(), notify=watch.note, cleanup=watch.close)
    finally:
        watch.close()


def in_store(
    work: "Callable[[Store], T]",
    flags: Flags,
    *,
    start: Path = Path(),
    make: bool = True,
    settings: "Settings | None" = None,
) -> T:
    """Open the store around `start` alone, do the work, close it: for commands that need no model and no index.

    make: false makes no store, for a command that only reads. settings: None reads them here.
    """
    from xscore.platform.paths import find_root, user_data_dir
    from xscore.store.store import Store

    chosen = settings or read_settings(flags, start=start).settings
    if not make:
        _note_missing_store(start, flags.terminal.note)
    with Store.open(
        find_root(start.resolve()),
        user_data_dir=user_data_dir(chosen.store.user_data_dir),
        trust=chosen.store.trust,
        create=make,
        settings=chosen.memory,
    ) as store:
        return work(store)


def _note_missing_store(start: Path, note: Callable[[str], None]) -> None:
    from xscore.platform.paths import find_root
    from xscore.store.opening import has_store

    root = find_root(start.resolve())
    if not has_store(root.store_dir):
        note(f"there is no store here yet ({root.path}); `xscore index` or a first turn makes one")
