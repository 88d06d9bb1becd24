"""What the commands about jobs share: the store and the settings opened, jobs taken further one by one, and told.

A job is at the vendor of its own judge, whatever judge the settings name, so no seat is taken here. One host that fails
does not keep the others from being taken further.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from xscore.cli.opening import in_store, read_settings
from xscore.cli.options import Flags
from xscore.cli.terminal import Terminal, echo, print_json
from xscore.errors import ProviderError, UsageError
from xscore.wording import sentences

if TYPE_CHECKING:
    from xscore.memory.store import Store
    from xscore.offline.job_rows import Job
    from xscore.records.offline import Standing
    from xscore.settings import Settings

T = TypeVar("T")


def in_jobs(work: "Callable[[Store, Settings], Awaitable[T]]", flags: Flags, *, make: bool = False) -> T:
    """Open the store, do the work in an event loop, close it; Ctrl-C cancels the work, a second one ends all."""
    from xscore.cli.interrupt import run_interruptible

    settings = read_settings(flags).settings

    def inside(store: "Store") -> T:
        async def run() -> T:
            return await work(store, settings)

        return run_interruptible(run(), say=flags.terminal.note, leave=lambda: None)

    return in_store(inside, flags, make=make)


async def taken_further(
    store: "Store",
    settings: "Settings",
    job: "Job",
    *,
    send: bool = True,
    forget: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> "Standing":
    """Take one job as far as it goes. A host that cannot be used is said in the standing."""
    from xscore.offline import standing
    from xscore.offline.job_host import host_of
    from xscore.offline.letting_go import forget_all, settle_here
    from xscore.offline.machine import advance

    if job.ended_at is not None or not await settle_here(store, job.id, send=send):
        return standing.of_job(store.connection, job.id)
    try:
        host = host_of(store, settings, job)
    except (ProviderError, UsageError) as error:
        if forget:
            await forget_all(store, settings.budget, job.id)
            return standing.of_job(store.connection, job.id)
        found = standing.of_job(store.connection, job.id)
        return replace(found, problem=sentences(error.message, error.hint), is_unusable=True)
    try:
        return await advance(store, settings, host, job.id, send=send, forget=forget, note=note)
    finally:
        await host.aclose()


def tell(found: "list[Standing]", terminal: Terminal, **more: object) -> None:
    """Print how jobs stand, and what to do next."""
    from xscore.cli.batch_page import as_json, next_step, page
    from xscore.pipeline.receipt import SCHEMA

    if terminal.as_json:
        print_json({"schema": SCHEMA, "jobs": [as_json(one) for one in found], **more})
    else:
        echo("\n".join(page(one, cost=not terminal.quiet) for one in found))
    for one in found:
        for said in (*one.remarks, next_step(one)):
            if said:
                terminal.note(said)
