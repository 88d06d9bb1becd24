"""`xscore batch collect`: what has come back is entered, what is next is sent; the rest live, where it is wanted."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xscore.cli.opening import in_pipeline, in_store, read_settings
from xscore.cli.options import FILE, KEEPING, OUTPUT, Flags, options
from xscore.cli.progress import Watch
from xscore.errors import UsageError
from xscore.safe_text import one_line
from xscore.wording import counted

if TYPE_CHECKING:
    from xscore.memory.store import Store
    from xscore.offline.job_rows import Job
    from xscore.pipeline.build import Pipeline
    from xscore.records.offline import Standing
    from xscore.settings import Loaded, Settings

OWN = {
    "live": click.option(
        "--live", is_flag=True, help="Judge what is left by live calls, once nothing is at the vendor any more."
    ),
    "out": click.option(
        "--out", metavar="FILE", type=FILE, help="Write what was chosen, ranked: FILE.parquet or FILE.jsonl."
    ),
    "max_usd": click.option("--max-usd", metavar="DOLLARS", help="Another cap on the job from now on."),
    "yes": click.option(
        "-y", "--yes", is_flag=True, help="Do not ask before costly live calls; --max-usd still holds."
    ),
}


@click.command()
@click.argument("job", metavar="[ID]", default="")
@options(OWN, KEEPING, OUTPUT)
def collect(job: str, flags: Flags) -> int:
    """Fetch what has come back, ask again for what was not answered, and send what waited; without ID of every job.

    Run it as often as you like: it goes on from wherever it was. It ends with 0 when all is in, 1 while something is
    pending or where nothing was judged, 3 when the vendor cannot be used, and 4 when a cap stops the rest.
    """
    from xscore.cli.batch_jobs import tell
    from xscore.cli.batch_page import exit_code

    loaded = read_settings(flags)
    settings = loaded.settings
    jobs, found = in_store(lambda store: _in_loop(store, settings, job, flags), flags, settings=settings)
    more: dict[str, Any] = {}
    for at, one in enumerate(jobs):
        is_live = flags.given["live"] and bool(found[at].unjudged or found[at].planned or found[at].sent)
        if is_live or flags.given["out"] is not None:
            found[at], written = _in_pipeline_of(one, found[at], loaded, flags, live=is_live)
            more |= written
    tell(found, flags.terminal, **more)
    if more and not flags.terminal.as_json:
        flags.terminal.lines(f"{counted(more['results']['rows'], 'row')} in {one_line(more['results']['out'])}")
    return exit_code(found)


def _in_loop(store: "Store", settings: "Settings", named: str, flags: Flags) -> "tuple[list[Job], list[Standing]]":
    from xscore.cli.interrupt import run_interruptible

    return run_interruptible(_collected(store, settings, named, flags), say=flags.terminal.note, leave=lambda: None)


async def _collected(
    store: "Store", settings: "Settings", named: str, flags: Flags
) -> "tuple[list[Job], list[Standing]]":
    from xscore import database
    from xscore.cli.batch_jobs import taken_further
    from xscore.offline import job_rows, job_steps
    from xscore.offline.choosing import meant
    from xscore.offline.results_file import check_place

    jobs = meant(store.connection, named)
    if len(jobs) > 1 and (flags.given["out"] is not None or flags.given["max_usd"] is not None):
        raise UsageError(f"{len(jobs)} jobs are under way", hint="Name one: `xscore batch collect ID …`.")
    if flags.given["out"] is not None:
        check_place(flags.given["out"], store_dir=store.path.parent)
    if flags.given["max_usd"] is not None and settings.budget.max_usd is not None:
        with database.transaction(store.connection) as connection:
            job_steps.cap_at(connection, jobs[0].id, settings.budget.max_usd)
        jobs = [job_rows.job(store.connection, jobs[0].id)]
    send = not flags.given["live"]
    note = flags.terminal.note
    return jobs, [await taken_further(store, settings, one, send=send, note=note) for one in jobs]


def _in_pipeline_of(
    job: "Job", found: "Standing", loaded: "Loaded", flags: Flags, *, live: bool
) -> "tuple[Standing, dict[str, Any]]":
    """Judge by live calls what a job has left, and write its results: in one pipeline, with the judge of the job."""
    from xscore.offline.job_questions import settings_of

    out: Path | None = flags.given["out"]

    async def work(pipeline: "Pipeline") -> "tuple[Standing, dict[str, Any]]":
        from xscore.offline.job_results import write_results
        from xscore.offline.judging_the_rest import judge_the_rest
        from xscore.pipeline.receipt import plain

        standing = await judge_the_rest(pipeline.parts, job.id) if live else found
        if out is None:
            return standing, {}
        return standing, {"results": plain(await write_results(pipeline.parts, job, out))}

    chosen = replace(loaded, settings=settings_of(job, loaded.settings))
    return in_pipeline(work, chosen, Watch(flags.terminal, agreed=flags.agreed))
