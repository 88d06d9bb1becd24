"""`xscore batch status | collect | wait | cancel | list`: jobs at a vendor, taken further one by one, and shown.

A job is at the vendor of its own judge, whatever judge the settings name. One host that fails does not keep the others
from going on.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import replace

from xscore.cli.failures import INTERRUPTED
from xscore.cli.opening import in_pipeline, in_store, read_settings
from xscore.cli.options import COUNT, MAX_USD, SELECTION, YES, Flags, Option, command, options
from xscore.cli.progress import TurnObserver
from xscore.cli.terminal import Terminal, print_json, write_stdout
from xscore.extensions.batch.submit_commands import RESULTS_FILE
from xscore.platform.errors import ProviderError, UsageError
from xscore.platform.text import counted, join_sentences, one_line

if TYPE_CHECKING:
    from xscore.extensions.batch.job_rows import BatchJob
    from xscore.pipeline.build import Pipeline
    from xscore.records.batch import JobStatus
    from xscore.settings import LoadedSettings, Settings
    from xscore.store.store import Store


CANCEL_OPTIONS: dict[str, Option] = {
    "everything": click.option("--all", "everything", is_flag=True, help="Every job under way."),
    "forget": click.option(
        "--forget", is_flag=True, help="Give up batches that the vendor cannot tell of, at what they may have cost."
    ),
}


@command()
@click.argument("job", metavar="[ID]", default="")
@options(CANCEL_OPTIONS)
def cancel_job(job: str, flags: Flags) -> int:
    """Cancel a job: ask the vendor to stop its batches, send nothing more. Needs an ID, or --all.

    What was run is charged and kept: `xscore batch collect` fetches it once the vendor has stopped. Ends with 0 when
    nothing is pending, with 1 while the vendor winds up, with 3 when the vendor cannot be used; with --forget what it
    cannot tell of is given up, and charged against the caps, since it may be billed.
    """
    from xscore.extensions.batch.job_text import jobs_exit_code

    if bool(job) is bool(flags.given["everything"]):
        raise UsageError("name one job, or --all", hint="`xscore batch list` names them.")

    async def work(store: "Store", settings: "Settings") -> "list[JobStatus]":
        from xscore.extensions.batch import batch_rows
        from xscore.extensions.batch.job_rows import select_jobs
        from xscore.platform import database

        jobs = [one for one in select_jobs(store.connection, job) if job or one.ended_at is None]
        found = []
        for one in jobs:
            with database.transaction(store.connection) as connection:
                batch_rows.stop_job(connection, one.id, at=store.clock())
            found.append(await advance_job(store, settings, one, forget=bool(flags.given["forget"])))
        return found

    found = run_on_jobs(work, flags)
    if found or flags.terminal.as_json:
        print_jobs(found, flags.terminal)
    else:
        flags.terminal.note("nothing is under way")
    return jobs_exit_code(one for one in found if one.is_pending)


COLLECT_OPTIONS: dict[str, Option] = {
    "live": click.option(
        "--live", is_flag=True, help="Judge what is left by live calls, once nothing is at the vendor any more."
    ),
    **RESULTS_FILE,
    **MAX_USD,
    **YES,
}


@command()
@click.argument("job", metavar="[ID]", default="")
@options(COLLECT_OPTIONS, SELECTION)
def collect_jobs(job: str, flags: Flags) -> int:
    """Fetch what has come back, ask again for what was not answered, and send what waited; without ID of every job.

    Run it as often as you like: it goes on from wherever it was. It ends with 0 when all is in, 1 while something is
    pending or where nothing was judged, 3 when the vendor cannot be used, and 4 when a cap stops the rest.
    """
    from xscore.extensions.batch.job_text import jobs_exit_code

    loaded = read_settings(flags)
    settings = loaded.settings
    jobs, found = in_store(lambda store: _run_collect(store, settings, job, flags), flags, settings=settings)
    more: dict[str, Any] = {}
    for at, one in enumerate(jobs):
        is_live = flags.given["live"] and bool(found[at].unjudged or found[at].planned or found[at].sent)
        if is_live or flags.given["output"] is not None:
            found[at], written = _judge_rest_live(one, found[at], loaded, flags, live=is_live)
            more |= written
    print_jobs(found, flags.terminal, **more)
    if more and not flags.terminal.as_json:
        flags.terminal.lines(f"{counted(more['results']['rows'], 'row')} in {one_line(more['results']['out'])}")
    return jobs_exit_code(found)


def _run_collect(
    store: "Store", settings: "Settings", named: str, flags: Flags
) -> "tuple[list[BatchJob], list[JobStatus]]":
    from xscore.cli.interrupt import run_interruptible

    return run_interruptible(
        _collect_all(store, settings, named, flags), notify=flags.terminal.note, cleanup=lambda: None
    )


async def _collect_all(
    store: "Store", settings: "Settings", named: str, flags: Flags
) -> "tuple[list[BatchJob], list[JobStatus]]":
    from xscore.extensions.batch import batch_rows, job_rows
    from xscore.extensions.batch.job_rows import select_jobs
    from xscore.extensions.batch.results import check_results_path
    from xscore.platform import database

    jobs = select_jobs(store.connection, named)
    if len(jobs) > 1 and (flags.given["output"] is not None or flags.given["max_usd"] is not None):
        raise UsageError(f"{len(jobs)} jobs are under way", hint="Name one: `xscore batch collect ID …`.")
    if flags.given["output"] is not None:
        check_results_path(flags.given["output"], store_dir=store.path.parent)
    if flags.given["max_usd"] is not None and settings.budget.max_usd is not None:
        with database.transaction(store.connection) as connection:
            batch_rows.set_job_cap(connection, jobs[0].id, settings.budget.max_usd)
        jobs = [job_rows.read_job(store.connection, jobs[0].id)]
    send = not flags.given["live"]
    note = flags.terminal.note
    return jobs, [await advance_job(store, settings, one, send=send, note=note) for one in jobs]


def _judge_rest_live(
    job: "BatchJob", found: "JobStatus", loaded: "LoadedSettings", flags: Flags, *, live: bool
) -> "tuple[JobStatus, dict[str, Any]]":
    """Judge by live calls what a job has left, and write its results: in one pipeline, with the judge of the job."""
    from xscore.extensions.batch.finish_live import settings_of_job

    out: Path | None = flags.given["output"]

    async def work(pipeline: "Pipeline") -> "tuple[JobStatus, dict[str, Any]]":
        from xscore.extensions.batch.finish_live import finish_job_live, write_job_results
        from xscore.pipeline.json_form import record_json

        standing = await finish_job_live(pipeline.parts, job.id) if live else found
        if out is None:
            return standing, {}
        return standing, {"results": record_json(await write_job_results(pipeline.parts, job, out))}

    chosen = replace(loaded, settings=settings_of_job(job, loaded.settings))
    return in_pipeline(work, chosen, TurnObserver(flags.terminal, assume_yes=flags.assume_yes))


JobsResult = TypeVar("JobsResult")


def run_on_jobs(
    work: "Callable[[Store, Settings], Awaitable[JobsResult]]", flags: Flags, *, make: bool = False
) -> JobsResult:
    """Open the store, do the work in an event loop, close it; Ctrl-C cancels the work, a second one ends all."""
    from xscore.cli.interrupt import run_interruptible

    settings = read_settings(flags).settings

    def inside(store: "Store") -> JobsResult:
        async def run() -> JobsResult:
            return await work(store, settings)

        return run_interruptible(run(), notify=flags.terminal.note, cleanup=lambda: None)

    return in_store(inside, flags, make=make)


async def advance_job(
    store: "Store",
    settings: "Settings",
    job: "BatchJob",
    *,
    send: bool = True,
    forget: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> "JobStatus":
    """Take one job as far as it goes. A host that cannot be used is said in the standing."""
    from xscore.extensions.batch import job_status
    from xscore.extensions.batch.job_status import batch_host_of_job
    from xscore.extensions.batch.machine import abandon_all_batches, advance_at_vendor, settle_without_vendor

    if job.ended_at is not None or not await settle_without_vendor(store, job.id, send=send):
        return job_status.job_status(store.connection, job.id)
    try:
        host = batch_host_of_job(store, settings, job)
    except (ProviderError, UsageError) as error:
        if forget:
            await abandon_all_batches(store, settings.budget, job.id)
            return job_status.job_status(store.connection, job.id)
        found = job_status.job_status(store.connection, job.id)
        return replace(found, problem=join_sentences(error.message, error.hint), is_unusable=True)
    try:
        return await advance_at_vendor(store, settings, host, job.id, send=send, forget=forget, note=note)
    finally:
        await host.aclose()


def print_jobs(found: "list[JobStatus]", terminal: Terminal, **more: object) -> None:
    """Print how jobs stand, and what to do next."""
    from xscore.extensions.batch.job_text import job_json, next_step, render_job
    from xscore.pipeline.json_form import SCHEMA

    if terminal.as_json:
        print_json({"schema": SCHEMA, "jobs": [job_json(one) for one in found], **more})
    else:
        write_stdout("\n".join(render_job(one, cost=not terminal.quiet) for one in found))
    for one in found:
        terminal.notes([*one.remarks, next_step(one)])


JOBS_SHOWN = 20


@command()
@click.option("--limit", metavar="N", type=COUNT, help=f"Only the newest N; {JOBS_SHOWN} unless --json.")
@options()
def list_jobs(limit: int | None, flags: Flags) -> int:
    """List the jobs of this repository, newest first. No vendor is asked."""
    from xscore.extensions.batch import job_rows, job_status
    from xscore.extensions.batch.job_text import job_json, render_jobs
    from xscore.pipeline.json_form import SCHEMA

    terminal = flags.terminal

    def work(store: "Store") -> "tuple[int, list[JobStatus]]":
        jobs = job_rows.read_batch_jobs(store.connection)
        most = limit or (len(jobs) if terminal.as_json else JOBS_SHOWN)
        return len(jobs), [job_status.job_status(store.connection, job.id) for job in jobs[:most]]

    count, found = in_store(work, flags, make=False)
    if terminal.as_json:
        print_json({"schema": SCHEMA, "jobs": [job_json(one) for one in found]})
    elif found:
        write_stdout(render_jobs(found))
        if len(found) < count:
            terminal.note(f"{count - len(found):,} older ones are not shown: `--limit {count}` shows all")
    else:
        terminal.note("there is no job yet; `xscore batch submit QUERIES.jsonl` makes one")
    return 0


STATUS_OPTIONS: dict[str, Option] = {
    "offline": click.option("--offline", is_flag=True, help="Ask no vendor: show what the store knows.")
}


@command()
@click.argument("job", metavar="[ID]", default="")
@options(STATUS_OPTIONS)
def show_job_status(job: str, flags: Flags) -> int:
    """Show how far a job is; without ID all that are under way, or the newest.

    ID may be the beginning of one. The vendor is asked how its batches stand; nothing is sent or fetched.
    """

    async def work(store: "Store", settings: "Settings") -> "list[JobStatus]":
        from xscore.extensions.batch import job_status
        from xscore.extensions.batch.job_rows import select_jobs

        jobs = select_jobs(store.connection, job)
        if not flags.given["offline"]:
            from xscore.extensions.batch.job_status import job_status_at_vendor

            return [await job_status_at_vendor(store, settings, one) for one in jobs]
        return [job_status.job_status(store.connection, one.id) for one in jobs]

    print_jobs(run_on_jobs(work, flags), flags.terminal)
    return 0


MOST_FAILURES = 10
"""So many looks in a row at which the vendor could not be used, and it gives up."""


@command()
@click.argument("job", metavar="[ID]", default="")
@options()
def wait_for_jobs(job: str, flags: Flags) -> int:
    """Wait until all is in, collecting what comes back and sending what is next; without ID for every job under way.

    Ctrl-C leaves everything as it is: the vendor goes on, and so does this command when it is run again. It ends as
    `xscore batch collect` does.
    """
    from xscore.extensions.batch.job_text import jobs_exit_code

    async def work(store: "Store", settings: "Settings") -> "tuple[list[JobStatus], bool]":
        from xscore.extensions.batch import job_status
        from xscore.extensions.batch.job_rows import select_jobs

        jobs = select_jobs(store.connection, job)
        try:
            return await _poll_until_done(store, settings, jobs, flags), False
        except asyncio.CancelledError:
            return [job_status.job_status(store.connection, one.id) for one in jobs], True

    found, was_interrupted = run_on_jobs(work, flags)
    print_jobs(found, flags.terminal)
    if was_interrupted:
        flags.terminal.note("the batches go on at the vendor; `xscore batch wait` goes on waiting")
        return INTERRUPTED
    return jobs_exit_code(found)


async def _poll_until_done(
    store: "Store", settings: "Settings", jobs: "list[BatchJob]", flags: Flags
) -> "list[JobStatus]":
    from xscore.extensions.batch.machine import BUSY_ELSEWHERE

    failures, told = 0, ""
    found: dict[str, JobStatus] = {}
    while True:
        for job in jobs:
            if job.id not in found or not _is_finished(found[job.id]):
                found[job.id] = await advance_job(store, settings, job)
        hopeful = [one for one in found.values() if not _is_finished(one)]
        failures = failures + 1 if all(one.problem and one.problem != BUSY_ELSEWHERE for one in hopeful) else 0
        if failures >= MOST_FAILURES or all(one.held_back and not one.sent for one in hopeful):
            return list(found.values())
        said = " · ".join(f"{one.job} {one.judged:,} of {one.asked:,} judged" for one in hopeful)
        if said != told:
            flags.terminal.note(said)
            told = said
        await asyncio.sleep(settings.batch.poll_s)


def _is_finished(found: "JobStatus") -> bool:
    """Whether nothing is to be waited for: it has ended, or its vendor cannot be used, for a wrong key say."""
    return not found.is_pending or found.is_unusable
