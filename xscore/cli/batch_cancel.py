"""`xscore batch cancel`: nothing more of a job is sent; what the vendor has run is kept and still fetched."""

from typing import TYPE_CHECKING

import click

from xscore.cli.options import OUTPUT, Flags, options
from xscore.errors import UsageError

if TYPE_CHECKING:
    from xscore.memory.store import Store
    from xscore.records.offline import Standing
    from xscore.settings import Settings

OWN = {
    "everything": click.option("--all", "everything", is_flag=True, help="Every job under way."),
    "forget": click.option(
        "--forget", is_flag=True, help="Give up batches that the vendor cannot tell of, at what they may have cost."
    ),
}


@click.command()
@click.argument("job", metavar="[ID]", default="")
@options(OWN, OUTPUT)
def cancel(job: str, flags: Flags) -> int:
    """Cancel a job: ask the vendor to stop its batches, send nothing more. Needs an ID, or --all.

    What was run is charged and kept: `xscore batch collect` fetches it once the vendor has stopped. Ends with 0 when
    nothing is pending, with 1 while the vendor winds up, with 3 when the vendor cannot be used; with --forget what it
    cannot tell of is given up, and charged against the caps, since it may be billed.
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

        jobs = [one for one in meant(store.connection, job) if job or one.ended_at is None]
        found = []
        for one in jobs:
            with database.transaction(store.connection) as connection:
                job_steps.stop(connection, one.id, at=store.clock())
            found.append(await taken_further(store, settings, one, forget=bool(flags.given["forget"])))
        return found

    found = in_jobs(work, flags)
    if found or flags.terminal.as_json:
        tell(found, flags.terminal)
    else:
        flags.terminal.note("nothing is under way")
    return exit_code(one for one in found if one.is_pending)
