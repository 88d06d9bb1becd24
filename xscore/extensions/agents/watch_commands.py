"""`xscore watch`: the background process of a store, in the foreground, once, or as `wake_background` starts it.

It holds the lease of the store while it runs; `background_work` holds what it does, `watch` when.
"""

import asyncio
import os
import sys
import time
from collections.abc import Coroutine
from typing import Any

import click

from xscore.cache.background_lease import BackgroundLease, read_background
from xscore.cli.interrupt import run_interruptible
from xscore.cli.opening import opened_store, read_settings
from xscore.cli.options import NO_GIT, Flags, command
from xscore.extensions.agents.background import LEASE_VARIABLE
from xscore.extensions.agents.background_work import BackgroundWork
from xscore.extensions.agents.lease_keeper import LeaseKeeper
from xscore.extensions.agents.watch import follow_files, require_watchfiles
from xscore.platform.errors import StoreError, UsageError, XscoreError
from xscore.platform.text import counted, format_dollars
from xscore.store.store import Store

LOOK_EVERY_S = 1.0


@command([NO_GIT])
@click.option("--once", is_flag=True, help="Do what there is to do, and end.")
def watch(once: bool, flags: Flags) -> None:
    """Index on every save, finish turns that a deadline cut short, and judge changes again for open threads.

    Open threads are the three latest of the last four hours. All caps hold; without budget.max_usd_day it spends at
    most $1 a day. Only one such process runs for a store, as `xscore status` shows; Ctrl-C ends it.
    """
    loaded, lease = read_settings(flags), os.environ.pop(LEASE_VARIABLE, "")
    follows = not (once or lease)
    if follows:
        require_watchfiles()
    flags.terminal.notes(loaded.warnings)
    with opened_store(flags, make=not lease, settings=loaded.settings) as store:
        held = BackgroundLease(store.connection, name=lease, watches=follows)
        if not store.store_id or not _take(held, store, flags, waits=follows):  # or the store is gone by now
            return
        work = BackgroundWork(store.root, store.store_id, loaded, held)
        report = _Report(work, flags)
        if follows:
            job = follow_files(work, store.root, note=flags.terminal.note, report=report.news)
        else:
            job = _work_once(work) if once else _until_idle(work, held)
        try:
            run_interruptible(_while_held(job, held, store), notify=flags.terminal.note)
        except KeyboardInterrupt:
            if not follows:
                raise
        finally:
            held.end(_name_error(sys.exception()) or work.problem)  # nobody may be there to see the error message
            report.all()


def _take(held: BackgroundLease, store: Store, flags: Flags, *, waits: bool) -> bool:
    """Take the lease; False: another process has it. Raises UsageError where that one stays until it is stopped."""
    while not held.take():
        other = read_background(store.connection, now=time.time())
        doing = (
            f"process {other.pid} is already the background process of this store: {other.doing or 'waiting for saves'}"
        )
        if waits and other.watches:
            raise UsageError(f"`xscore watch` runs here already (process {other.pid})", hint="Stop that one first.")
        flags.terminal.note(f"{doing}; waiting for it to end" if waits else doing)
        if not waits:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


async def _while_held(job: Coroutine[Any, Any, None], held: BackgroundLease, store: Store) -> None:
    """Do the work while the lease is held. Raises StoreError when it is lost."""
    with LeaseKeeper(held, database=store.path, root=store.root.path) as keeper:
        try:
            await job
        except asyncio.CancelledError:
            if not keeper.lost:
                raise
    if keeper.lost == "gone":
        raise StoreError("the store or the repository was removed or replaced", hint="Start it again where it is now.")
    if keeper.lost:
        raise StoreError("another process has taken this work over", hint="`xscore status` says which.")


async def _work_once(work: BackgroundWork) -> None:
    if await work.catch_up():
        await work.judge_changes()


async def _until_idle(work: BackgroundWork, held: BackgroundLease) -> None:
    while await work.catch_up() and not held.release(unless=work.is_left):
        pass


class _Report:
    """Says on stderr what was done."""

    def __init__(self, work: BackgroundWork, flags: Flags) -> None:
        self._work, self._flags, self._said, self._problem = work, flags, "", ""

    def news(self) -> None:
        """Print what was done so far, and what went wrong, if that is new."""
        done, problem = self._work.done, self._work.problem
        words = (
            f"{counted(done.files, 'file')} read · {counted(done.judged, 'memory', 'memories')} judged"
            f" · {counted(done.turns, 'turn')} finished · {format_dollars(done.cost_usd)}"
        )
        if problem != self._problem:
            self._flags.terminal.lines(problem)
        if words != self._said:
            self._flags.terminal.lines(words)
        self._said, self._problem = words, problem

    def all(self) -> None:
        """Print the last line."""
        self._said = ""
        self.news()


def _name_error(error: BaseException | None) -> str:
    if isinstance(error, XscoreError):
        return error.message
    return f"internal error: {type(error).__name__}: {error}" if isinstance(error, Exception) else ""
