"""`xscore watch`: the background process of a store, in the foreground, once, or started by `wake_background`.

It holds the lease of the store while it runs; `background_work` holds what it does.
"""

import os
import sys
import time

import click

from xscore.cache.background_lease import BackgroundLease, read_background
from xscore.cli.interrupt import run_interruptible
from xscore.cli.opening import opened_store, read_settings
from xscore.cli.options import Flags, command
from xscore.extensions.agents.background import LEASE_VARIABLE
from xscore.extensions.agents.background_work import BackgroundWork
from xscore.extensions.agents.lease_keeper import LeaseKeeper
from xscore.platform.errors import XscoreError
from xscore.platform.text import counted, format_dollars
from xscore.store.store import Store


@command()
@click.option("--once", is_flag=True, help="Do what there is to do, and end.")
def watch(once: bool, flags: Flags) -> int:
    """Keep the index and open threads up to date while you work.

    Ctrl-C ends it.
    """
    loaded, lease = read_settings(flags), os.environ.pop(LEASE_VARIABLE, "")
    flags.terminal.notes(loaded.warnings)
    with opened_store(flags, make=not lease, settings=loaded.settings) as store:
        if not store.store_id:  # the store is gone since the lease was written
            return 0
        held = BackgroundLease(store.connection, name=lease, watches=not (once or lease))
        if not held.take():
            _describe_other(store, flags)
            return 0
        work = BackgroundWork(store.root, store.store_id, loaded, held)
        try:
            run_interruptible(_until_idle(work, held, store), notify=flags.terminal.note)
        finally:
            held.end(_name_error(sys.exception()) or work.problem)  # no one may see what the front door prints
        flags.terminal.lines(_describe_work(work))
    return 0


async def _until_idle(work: BackgroundWork, held: BackgroundLease, store: Store) -> None:
    with LeaseKeeper(held, database=store.path, root=store.root.path):
        while await work.catch_up() and not held.release(unless=work.is_left):
            pass


def _name_error(error: BaseException | None) -> str:
    if isinstance(error, XscoreError):
        return error.message
    return f"internal error: {type(error).__name__}: {error}" if isinstance(error, Exception) else ""


def _describe_other(store: Store, flags: Flags) -> None:
    other = read_background(store.connection, now=time.time())
    doing = other.doing or "waiting for changes"
    flags.terminal.note(f"process {other.pid} looks after this store already: {doing}")


def _describe_work(work: BackgroundWork) -> str:
    done = work.done
    return (
        f"{counted(done.files, 'file')} read · {counted(done.judged, 'memory', 'memories')} judged"
        f" · {counted(done.turns, 'turn')} finished · {format_dollars(done.cost_usd)}"
    )
