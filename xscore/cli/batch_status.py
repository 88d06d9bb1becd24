"""`xscore batch status`: how jobs stand. Nothing is sent or fetched; the vendor is asked how far it is."""

from typing import TYPE_CHECKING

import click

from xscore.cli.options import OUTPUT, Flags, options

if TYPE_CHECKING:
    from xscore.memory.store import Store
    from xscore.records.offline import Standing
    from xscore.settings import Settings

OWN = {"offline": click.option("--offline", is_flag=True, help="Ask no vendor: show what the store knows.")}


@click.command()
@click.argument("job", metavar="[ID]", default="")
@options(OWN, OUTPUT)
def status(job: str, flags: Flags) -> int:
    """Show how far a job is; without ID all that are under way, or the newest.

    ID may be the beginning of one. The vendor is asked how its batches stand; nothing is sent or fetched.
    """
    from xscore.cli.batch_jobs import in_jobs, tell

    async def work(store: "Store", settings: "Settings") -> "list[Standing]":
        from xscore.offline import standing
        from xscore.offline.choosing import meant

        jobs = meant(store.connection, job)
        if not flags.given["offline"]:
            from xscore.offline.looking import look

            return [await look(store, settings, one) for one in jobs]
        return [standing.of_job(store.connection, one.id) for one in jobs]

    tell(in_jobs(work, flags), flags.terminal)
    return 0
