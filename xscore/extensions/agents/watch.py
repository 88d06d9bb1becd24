"""`xscore watch`: the background process of a store, in the foreground, once, or as
`wake_background` starts it.

After each save it indexes, then judges the changes again for open threads; between saves it
finishes turns that a deadline cut short (`background_work`). The operating system reports saves
(through `watchfiles`); if it cannot watch so many folders, an index run every `POLL_S` seconds
finds them. A thread renews the lease, since indexing keeps the event loop busy, and stops the work
when the store or the repository is gone or another process has taken over. Trade-offs: to learn
whether a saved file is part of the index, the files are listed once per burst of saves; a process
that lost its lease while the laptop was asleep goes on judging for some seconds, and claims keep it
from paying twice. SIGTERM ends it at once, without waiting for calls in flight; Ctrl-C waits for
them.
"""

import asyncio
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from xscore.cache.background_lease import BackgroundLease, read_background
from xscore.cache.lease import HEARTBEAT_S
from xscore.cli.flags import Flags, command
from xscore.cli.interrupt import run_interruptible
from xscore.cli.options import NO_GIT
from xscore.cli.settings_and_store import opened_store, read_settings
from xscore.extensions.agents.background import LEASE_VARIABLE
from xscore.extensions.agents.background_work import BackgroundWork
from xscore.indexer.discovery import discover_files
from xscore.platform.errors import StoreError, UsageError, XscoreError
from xscore.platform.extras import require_extra
from xscore.platform.figures import format_dollars
from xscore.platform.paths import RepositoryRoot, portable_name
from xscore.platform.text import counted
from xscore.store.store import Store

if TYPE_CHECKING:
    from watchfiles import Change

QUIET_MS = 400
"""Saves closer together than this many milliseconds are one burst."""
TICK_S = 1.0
"""Seconds between two looks for turns to finish."""
POLL_S = 5.0
LOOK_EVERY_S = 0.5
"""Seconds between two looks at the lease."""
GRACE_S = {"taken": 10.0, "gone": 1.0}
"""Seconds for calls in flight to end and be stored; if the store is gone there is nowhere to store
them."""


@command([NO_GIT])
@click.option("--once", is_flag=True, help="Do the pending work once, then exit.")
def watch(once: bool, flags: Flags) -> None:
    """Index on every save, finish turns that a deadline cut short, and judge changes again for open
    threads.

    Open threads are the three latest of the last four hours. All caps hold; without
    budget.max_usd_day it spends at most $1 a day. Only one such process runs for a worktree, as
    `xscore status` shows; Ctrl-C ends it, SIGTERM at once.
    """
    loaded = read_settings(flags)
    lease = os.environ.pop(LEASE_VARIABLE, "")
    follows = not (once or lease)
    if follows:
        require_extra("watch", "watchfiles", purpose="`xscore watch`")
    flags.terminal.notes(loaded.warnings)
    with opened_store(flags, make=not lease, settings=loaded.settings) as store:
        held = BackgroundLease(store.connection, name=lease, watches=follows)
        # The store may be gone by now.
        if not store.store_id or not _take(held, store, flags, waits=follows):
            return
        work = BackgroundWork(store.root, store.store_id, loaded, held)
        report = _Report(work, flags)
        if follows:
            job = follow_files(work, store.root, note=flags.terminal.note, report=report.news)
        else:
            job = _work_once(work) if once else _until_idle(work, held)
        try:
            run_interruptible(
                _while_held(job, held, store), notify=flags.terminal.note, takes_sigterm=False
            )
        except KeyboardInterrupt:
            if not follows:
                raise
        finally:
            # The error message may have no reader.
            held.end(_name_error(sys.exception()) or work.problem)
            report.all()


def _take(held: BackgroundLease, store: Store, flags: Flags, *, waits: bool) -> bool:
    """Take the lease; False if another process has it.

    Raises UsageError where that one stays until it is stopped.
    """
    while not held.take():
        holder = read_background(store.connection, now=time.time())
        doing = (
            f"process {holder.pid} is already the background process of this store:"
            f" {holder.doing or 'waiting for saves'}"
        )
        if waits and holder.watches:
            raise UsageError(
                f"`xscore watch` runs here already (process {holder.pid})",
                hint="Stop that one first.",
            )
        flags.terminal.note(f"{doing}; waiting for it to end" if waits else doing)
        if not waits:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


async def _while_held(
    job: Coroutine[Any, Any, None], held: BackgroundLease, store: Store
) -> None:
    """Do the work while the lease is held. Raises StoreError when it is lost."""
    with LeaseKeeper(held, database=store.path, root=store.root.path) as keeper:
        try:
            await job
        except asyncio.CancelledError:
            if not keeper.lost:
                raise
    if keeper.lost == "gone":
        raise StoreError(
            "the store or the repository was removed or replaced",
            hint="Start it again where it is now.",
        )
    if keeper.lost:
        raise StoreError(
            "another process has taken over this work", hint="`xscore status` says which."
        )


async def _work_once(work: BackgroundWork) -> None:
    if await work.catch_up():
        await work.judge_changes()


async def _until_idle(work: BackgroundWork, held: BackgroundLease) -> None:
    while await work.catch_up() and not held.release(unless=work.is_left):
        pass


class _Report:
    def __init__(self, work: BackgroundWork, flags: Flags) -> None:
        self._work = work
        self._flags = flags
        self._said = ""
        self._problem = ""

    def news(self) -> None:
        """Print what was done so far, and what went wrong, if that is new."""
        done = self._work.done
        problem = self._work.problem
        words = (
            f"{counted(done.files, 'file')} read · {counted(done.judged, 'memory', 'memories')}"
            f" judged · {counted(done.turns, 'turn')} finished · {format_dollars(done.cost_usd)}"
        )
        if problem != self._problem:
            self._flags.terminal.lines(problem)
        if words != self._said:
            self._flags.terminal.lines(words)
        self._said = words
        self._problem = problem

    def all(self) -> None:
        """Print the last line."""
        self._said = ""
        self.news()


def _name_error(error: BaseException | None) -> str:
    if isinstance(error, XscoreError):
        return error.message
    if isinstance(error, Exception):
        return f"internal error: {type(error).__name__}: {error}"
    return ""


async def follow_files(
    work: BackgroundWork,
    root: RepositoryRoot,
    *,
    note: Callable[[str], None],
    report: Callable[[], None],
) -> None:
    """Work until it is interrupted. report: called after each piece of work. Raises StoreError."""
    saves: asyncio.Queue[set[str] | None] = asyncio.Queue()
    listener = asyncio.create_task(_listen(root, saves, note))
    # It watches before the index looks, so that no save falls in between.
    await asyncio.sleep(0)
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
    """Return the next burst, or an empty set at the next tick, so that turns are finished even
    without saves."""
    try:
        return await asyncio.wait_for(saves.get(), TICK_S)
    except TimeoutError:
        return set()


async def _follow(saved: set[str] | None, work: BackgroundWork, root: RepositoryRoot) -> bool:
    if saved is None or (saved and _is_indexed(saved, root, work.known_paths())):
        return await work.catch_up() and await work.judge_changes()
    return not work.has_turns() or await work.finish_turns()


async def _listen(
    root: RepositoryRoot, saves: "asyncio.Queue[set[str] | None]", note: Callable[[str], None]
) -> None:
    """Queue the paths of each burst of saves; if the system cannot report saves, queue None every
    `POLL_S` seconds."""
    from watchfiles import awatch  # an extra

    outside = (str(root.path / ".git"), str(root.store_dir))

    def is_inside(_change: "Change", path: str) -> bool:
        return not any(path == place or path.startswith(place + os.sep) for place in outside)

    try:
        async for changes in awatch(
            root.path, watch_filter=is_inside, debounce=QUIET_MS, ignore_permission_denied=True
        ):
            saves.put_nowait({path for _, path in changes})
    except (OSError, RuntimeError) as error:
        note(
            f"the system cannot watch this repository ({error}); looking for changes every"
            f" {POLL_S:g} s instead"
        )
    while True:
        await asyncio.sleep(POLL_S)
        saves.put_nowait(None)


def _is_indexed(saved: Collection[str], root: RepositoryRoot, indexed: Collection[str]) -> bool:
    """Whether any of these paths, or a file below one, is in the index or would be indexed."""
    names = {os.path.relpath(path, root.path) for path in saved}
    if not {portable_name(name) for name in names}.isdisjoint(indexed):
        return True
    folders = tuple(f"{name}/" for name in names)
    if any(path in names or path.startswith(folders) for path in discover_files(root).paths):
        return True
    return any(path.startswith(tuple(map(portable_name, folders))) for path in indexed)


class LeaseKeeper:
    """A context manager for the event loop: it cancels the task that entered it when the lease is
    lost."""

    def __init__(self, lease: BackgroundLease, *, database: Path, root: Path) -> None:
        self._lease = lease
        self._database = database
        self._root = root
        self._file = _identity(database)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="xscore-lease", daemon=True)
        self.lost: str = ""
        """Why the lease is lost. `taken`: another process has it. `gone`: the store or the
        repository no longer exists. Empty: it is still held."""

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._loop = asyncio.get_running_loop()
        self._task = task
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _keep(self) -> None:
        beaten = 0.0
        while not self._ended.wait(LOOK_EVERY_S):
            is_gone = _identity(self._database) != self._file or not self._root.is_dir()
            is_due = self._lease.changed.is_set() or time.monotonic() - beaten >= HEARTBEAT_S
            if is_gone or (is_due and not self._beat()):
                self.lost = "gone" if is_gone else "taken"
                self._loop.call_soon_threadsafe(self._task.cancel)
                if not self._ended.wait(GRACE_S[self.lost]):
                    os._exit(0)  # the work did not stop in time; the store survives any exit
                return
            beaten = time.monotonic() if is_due else beaten

    def _beat(self) -> bool:
        try:
            return self._lease.beat()
        # A full disk or a long transaction: the next heartbeat may succeed.
        except (StoreError, sqlite3.Error):
            return True


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
