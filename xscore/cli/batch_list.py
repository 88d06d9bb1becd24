"""`xscore batch list`: every job of this repository, newest first, from the store alone."""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import echo, print_json

if TYPE_CHECKING:
    from xscore.memory.store import Store
    from xscore.records.offline import Standing

SHOWN = 20


@click.command("list")
@click.option("--limit", metavar="N", type=click.IntRange(1), help=f"Only the newest N; {SHOWN} unless --json.")
@options(OUTPUT)
def list_jobs(limit: int | None, flags: Flags) -> int:
    """List the jobs of this repository, newest first. No vendor is asked."""
    from xscore.cli.batch_page import as_json, listed
    from xscore.offline import job_rows, standing
    from xscore.pipeline.receipt import SCHEMA

    terminal = flags.terminal

    def work(store: "Store") -> "tuple[int, list[Standing]]":
        jobs = job_rows.jobs(store.connection)
        most = limit or (len(jobs) if terminal.as_json else SHOWN)
        return len(jobs), [standing.of_job(store.connection, job.id) for job in jobs[:most]]

    count, found = in_store(work, flags, make=False)
    if terminal.as_json:
        print_json({"schema": SCHEMA, "jobs": [as_json(one) for one in found]})
    elif found:
        echo(listed(found))
        if len(found) < count:
            terminal.note(f"{count - len(found):,} older ones are not shown: `--limit {count}` shows all")
    else:
        terminal.note("there is no job yet; `xscore batch submit QUERIES.jsonl` makes one")
    return 0
