"""`xscore batch wait`: collect until all is in, looking every `batch.poll_s` seconds."""

import asyncio
from typing import TYPE_CHECKING

import click

from xscore.cli.failures import INTERRUPTED
from xscore.cli.options import OUTPUT, Flags, options

if TYPE_CHECKING:
    from xscore.memory.store import Store
    from xscore.offline.job_rows import Job
    from xscore.records.offline import Standing
    from xscore.settings import Settings

MOST_FAILURES = 10
"""So many looks in a row at which the vendor could not be used, and it gives up."""


@click.command()
@click.argument("job", metavar="[ID]", default="")
@options(OUTPUT)
def wait(job: str, flags: Flags) -> int:
    """Wait until all is in, collecting what comes back and sending what is next; without ID for every job under way.

    Ctrl-C leaves everything as it is: the vendor goes on, and so does this command when it is run again. It ends as
    `xscore batch collect` does.
    """
    from xscore.cli.batch_jobs import in_jobs, tell
    from xscore.cli.batch_page import exit_code

    async def work(store: "Store", settings: "Settings") -> "tuple[list[Standing], bool]":
        from xscore.offline import standing
        from xscore.offline.choosing import meant

        jobs = meant(store.connection, job)
        try:
            return await _waited(store, settings, jobs, flags), False
        except asyncio.CancelledError:
            return [standing.of_job(store.connection, one.id) for one in jobs], True

    found, was_interrupted = in_jobs(work, flags)
    tell(found, flags.terminal)
    if was_interrupted:
        flags.terminal.note("the batches go on at the vendor; `xscore batch wait` goes on waiting")
        return INTERRUPTED
    return exit_code(found)


async def _waited(store: "Store", settings: "Settings", jobs: "list[Job]", flags: Flags) -> "list[Standing]":
    from xscore.cli.batch_jobs import taken_further
    from xscore.offline.machine import BUSY

    failures, told = 0, ""
    found: dict[str, Standing] = {}
    while True:
        for job in jobs:
            if job.id not in found or not _is_over(found[job.id]):
                found[job.id] = await taken_further(store, settings, job)
        hopeful = [one for one in found.values() if not _is_over(one)]
        failures = failures + 1 if all(one.problem and one.problem != BUSY for one in hopeful) else 0
        if failures >= MOST_FAILURES or all(one.held_back and not one.sent for one in hopeful):
            return list(found.values())
        said = " · ".join(f"{one.job} {one.judged:,} of {one.asked:,} judged" for one in hopeful)
        if said != told:
            flags.terminal.note(said)
            told = said
        await asyncio.sleep(settings.batch.poll_s)


def _is_over(found: "Standing") -> bool:
    """Whether nothing is to be waited for: it has ended, or its vendor cannot be used, for a wrong key say."""
    return not found.is_pending or found.is_unusable
