"""Follow the files of a repository: after each save, index, then judge the changes again for open threads.

The operating system reports saves (through `watchfiles`). If it cannot watch so many folders, an index run every
`POLL_S` seconds finds them. Between saves, it finishes turns that a deadline cut short. Trade-off: to learn whether a
saved file is part of the index, the files are listed once per burst of saves.
"""

import asyncio
import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from xscore.extensions.agents.background_work import BackgroundWork
from xscore.indexer.discovery import discover_files
from xscore.platform.errors import UsageError, install_hint
from xscore.platform.paths import RepositoryRoot, portable_name

if TYPE_CHECKING:
    from watchfiles import Change

QUIET_MS = 400
"""Saves closer together than this many milliseconds are one burst."""
TICK_S = 1.0
"""Seconds between two looks for turns to finish."""
POLL_S = 5.0


def require_watchfiles() -> None:
    """Raise UsageError if the package `watchfiles` is not installed."""
    try:
        import watchfiles  # noqa: F401  imported only to check that it is installed
    except ImportError as error:
        raise UsageError("`xscore watch` needs the package watchfiles", hint=install_hint("watch")) from error


async def follow_files(
    work: BackgroundWork, root: RepositoryRoot, *, note: Callable[[str], None], report: Callable[[], None]
) -> None:
    """Work until it is interrupted. report: called after each piece of work. Raises StoreError."""
    saves: asyncio.Queue[set[str] | None] = asyncio.Queue()
    listener = asyncio.create_task(_listen(root, saves, note))
    await asyncio.sleep(0)  # it watches before the index looks, so that no save falls in between
    try:
        goes_on = await work.catch_up() and await work.judge_changes()
        while goes_on:
            report()
            work.rest()
            goes_on = await _follow(await _next_saves(saves), work, root)
    finally:
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)


async def _next_saves(saves: "asyncio.Queue[set[str] | None]") -> set[str] | None:
    """Return the next burst, or an empty set at the next tick, so that turns are finished even without saves."""
    try:
        return await asyncio.wait_for(saves.get(), TICK_S)
    except TimeoutError:
        return set()


async def _follow(saved: set[str] | None, work: BackgroundWork, root: RepositoryRoot) -> bool:
    if saved is None or (saved and _is_indexed(saved, root, work.known_paths())):
        return await work.catch_up() and await work.judge_changes()
    return not work.has_turns() or await work.finish_turns()


async def _listen(root: RepositoryRoot, saves: "asyncio.Queue[set[str] | None]", note: Callable[[str], None]) -> None:
    """Queue the paths of each burst of saves; if the system cannot report saves, queue None every `POLL_S` seconds."""
    from watchfiles import awatch

    outside = (str(root.path / ".git"), str(root.store_dir))

    def is_inside(_change: "Change", path: str) -> bool:
        return not any(path == place or path.startswith(place + os.sep) for place in outside)

    try:
        async for changes in awatch(
            root.path, watch_filter=is_inside, debounce=QUIET_MS, ignore_permission_denied=True
        ):
            saves.put_nowait({path for _, path in changes})
    except (OSError, RuntimeError) as error:
        note(f"the system cannot watch this repository ({error}); looking for changes every {POLL_S:g} s instead")
    while True:
        await asyncio.sleep(POLL_S)
        saves.put_nowait(None)


def _is_indexed(saved: Collection[str], root: RepositoryRoot, known: Collection[str]) -> bool:
    """Whether any of these paths, or a file below one, is in the index or would be indexed."""
    names = {os.path.relpath(path, root.path) for path in saved}
    if not {portable_name(name) for name in names}.isdisjoint(known):
        return True
    folders = tuple(f"{name}/" for name in names)
    if any(path in names or path.startswith(folders) for path in discover_files(root).paths):
        return True
    return any(path.startswith(tuple(map(portable_name, folders))) for path in known)
