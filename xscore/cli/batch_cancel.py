"""`xscore batch cancel`: nothing more of a job is sent; what the vendor has run is kept and still fetched."""

from typing import TYPE_CHECKING

import click

from xscore.cli.options import OUTPUT, Flags, options
from xscore.errors import UsageError

if TYPE_CHECKING:
    from xscore.memory.store import Store
    from xscore.records.offline import Standing
    from xscore.settings import Settings

OWN = {"everything": click.option("--all", "everything", is_flag=True, help="Every job under way.")}


@click.command()
@click.argument("job", metavar="[ID]", default="")
@options(OWN, OUTPUT)
def cancel(job: str, flags: Flags) -> int:
    """Cancel a job: ask the vendor to stop its batches, send nothing more. Needs an ID, or --all.

    What was run is charged and kept: `xscore batch collect` fetches it once the vendor has stopped. Ends with 0 when
    nothing is pending, with 1 while the vendor winds up.
    """
    from xscore.cli.batch_jobs import in_jobs, tell
    from xscore.cli.batch_page import exit_code

    if bool(job) is bool(flags.given["everything"]):
        raise UsageError("name one job, or --all", hint="`xscore batch list` names them.")

    async def work(store: "Store", settings: "Settings") -> "list[Standing]":
        from xscore import database
        from xscore.cli.batch_jobs import taken_further
        from xscore.offline import job_steps
        from xscore.offline.choosing import meant

        jobs = meant(store.connection, job)
        with database.transaction(store.connection) as connection:
            for one in jobs:
                job_steps.stop(connection, one.id, at=store.clock())
        return [await taken_further(store, settings, one) for one in jobs]

    found = in_jobs(work, flags)
    tell(found, flags.terminal)
    return exit_code(found)
