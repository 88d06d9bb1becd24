"""`xscore batch status | collect | wait | cancel | list`: advance and show jobs at a vendor.

A job belongs to the vendor of its own judge, whatever judge the settings name. One failing host does not stop others
from advancing.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict, replace

from xscore.cli.interrupt import run_interruptible
from xscore.cli.opening import opened_store, read_settings, run_turn
from xscore.cli.options import COUNT, MAX_USD, RESULTS_FILE, SELECTION, YES, Flags, command
from xscore.cli.terminal import Terminal
from xscore.extensions.batch import batch_rows
from xscore.extensions.batch.job_rows import BatchJob, read_batch_jobs, read_job, select_jobs
from xscore.extensions.batch.job_status import job_status, job_status_at_vendor
from xscore.extensions.batch.job_text import job_json, jobs_exit_code, next_step, render_job, render_jobs
from xscore.extensions.batch.machine import BUSY_ELSEWHERE, advance_job
from xscore.extensions.batch.records import JobStatus
from xscore.extensions.batch.results import check_results_path, settings_of_job, write_job_results
from xscore.pipeline.json_form import to_json
from xscore.platform import database
from xscore.platform.errors import ExitCode, UsageError
from xscore.platform.text import counted, one_line

if TYPE_CHECKING:
    from xscore.pipeline.build import Pipeline
    from xscore.settings import LoadedSettings, Settings
    from xscore.store.store import Store

JOBS_SHOWN = 20
MOST_FAILURES = 10
"""`wait` gives up after this many failed polls in a row."""
JOB = click.argument("job", metavar="[ID]", default="")


@command()
@JOB
@click.option("--all", "everything", is_flag=True, help="Every running job.")
@click.option("--forget", is_flag=True, help="Give up batches that the vendor lost; charge their upper bound.")
def cancel_job(job: str, *, everything: bool, forget: bool, flags: Flags) -> int:
    """Cancel a job: ask the vendor to stop its batches, send nothing more. Needs an ID, or --all.

    Finished requests are charged; `xscore batch collect` fetches them when the vendor has stopped. Ends with 0 if
    nothing is pending, 1 while the vendor is cancelling, 3 when the vendor cannot be used. --forget gives up batches
    that the vendor cannot find and charges them against the caps, since they may be billed.
    """
    if bool(job) is everything:
        raise UsageError("name one job, or --all", hint="`xscore batch list` names them.")
    settings = read_settings(flags).settings

    async def cancel(store: "Store") -> list[JobStatus]:
        found = []
        for one in select_jobs(store.connection, job):
            if job or one.ended_at is None:
                with database.transaction(store.connection) as connection:
                    batch_rows.stop_job(connection, one.id, at=store.clock())
                found.append(await advance_job(store, settings, one.id, forget=forget))
        return found

    with opened_store(flags, make=False, settings=settings) as store:
        found = run_interruptible(cancel(store), notify=flags.terminal.note)
    _print_jobs(found, flags.terminal, none="nothing is under way")
    return jobs_exit_code(one for one in found if one.is_pending)


@command(RESULTS_FILE, MAX_USD, YES, SELECTION)
@JOB
def collect_jobs(job: str, flags: Flags) -> int:
    """Fetch results, ask again for what was not answered, and send what waited; without ID for every job.

    Run it as often as you like: it resumes where it was. It ends with 0 when all is in, 1 while something is
    pending or nothing was judged, 3 when the vendor cannot be used, and 4 when a cap stops the rest.
    """
    loaded, output = read_settings(flags), flags.given["output"]
    settings, note = loaded.settings, flags.terminal.note

    async def collect(store: "Store") -> list[JobStatus]:
        return [await advance_job(store, settings, one.id, note=note) for one in jobs]

    with opened_store(flags, settings=settings) as store:
        jobs = _jobs_to_collect(store, settings, job, flags)
        found = run_interruptible(collect(store), notify=note)
    if output is None:
        _print_jobs(found, flags.terminal)
    else:
        results = _write_results(jobs[0], output, loaded, flags)
        _print_jobs(found, flags.terminal, more={"results": results})
        if not flags.terminal.as_json:
            flags.terminal.lines(f"{counted(results['rows'], 'row')} in {one_line(results['out'])}")
    return jobs_exit_code(found)


def _jobs_to_collect(store: "Store", settings: "Settings", named: str, flags: Flags) -> list[BatchJob]:
    output, max_usd = flags.given["output"], flags.given["max_usd"]
    jobs = select_jobs(store.connection, named)
    if len(jobs) > 1 and (output is not None or max_usd is not None):
        raise UsageError(f"{len(jobs)} jobs are under way", hint="Name one: `xscore batch collect ID …`.")
    if output is not None:
        check_results_path(output, store_dir=store.path.parent)
    if max_usd is not None and settings.budget.max_usd is not None:
        with database.transaction(store.connection) as connection:
            batch_rows.set_job_cap(connection, jobs[0].id, settings.budget.max_usd)
        jobs = [read_job(store.connection, jobs[0].id)]
    return jobs


def _write_results(job: BatchJob, out: Path, loaded: "LoadedSettings", flags: Flags) -> dict[str, Any]:
    async def work(pipeline: "Pipeline") -> dict[str, Any]:
        ranked = await write_job_results(pipeline.parts, job, out)
        counts = {"coverage": ranked.coverage, "unjudged_by_cause": ranked.unjudged_by_cause}
        return to_json({"job": job.id, **counts, **asdict(ranked), "out": str(out)})

    return run_turn(flags, work, settings=replace(loaded, settings=settings_of_job(job, loaded.settings)))


def _print_jobs(
    found: list[JobStatus], terminal: Terminal, *, none: str = "", more: dict[str, Any] | None = None
) -> None:
    text = "\n".join(render_job(one, cost=not terminal.quiet) for one in found)
    terminal.print_result({"jobs": [job_json(one) for one in found]}, text, none=none, more=more)
    for one in found:
        terminal.notes([*one.remarks, next_step(one)])


@command()
@click.option("--limit", metavar="N", type=COUNT, help=f"Only the newest N; {JOBS_SHOWN} unless --json.")
def list_jobs(limit: int | None, flags: Flags) -> None:
    """List the jobs sent to vendors, newest first. No vendor is asked."""
    with opened_store(flags, make=False) as store:
        jobs = read_batch_jobs(store.connection)
        most = limit or (len(jobs) if flags.terminal.as_json else JOBS_SHOWN)
        found = [job_status(store.connection, job.id) for job in jobs[:most]]
    none = "there is no job yet; `xscore batch submit QUERIES.jsonl` makes one"
    flags.terminal.print_result({"jobs": [job_json(one) for one in found]}, render_jobs(found), none=none)
    if len(found) < len(jobs):
        flags.terminal.note(f"{len(jobs) - len(found):,} older ones are not shown: `--limit {len(jobs)}` shows all")


@command()
@JOB
@click.option("--offline", is_flag=True, help="Do not ask the vendor: show what the store knows.")
def show_job_status(job: str, *, offline: bool, flags: Flags) -> None:
    """Show a job's progress; without ID all running jobs, or else the newest.

    ID may be a prefix. The vendor is asked for the status of its batches; nothing is sent or fetched.
    """
    settings = read_settings(flags).settings

    async def look(store: "Store") -> list[JobStatus]:
        jobs = select_jobs(store.connection, job)
        if offline:
            return [job_status(store.connection, one.id) for one in jobs]
        return [await job_status_at_vendor(store, settings, one) for one in jobs]

    with opened_store(flags, make=False, settings=settings) as store:
        found = run_interruptible(look(store), notify=flags.terminal.note)
    _print_jobs(found, flags.terminal)


@command()
@JOB
def wait_for_jobs(job: str, flags: Flags) -> int:
    """Wait until all is in, collecting results and sending what is next; without ID for every running job.

    Ctrl-C loses nothing: the vendor continues, and so does this command when run again. Its exit codes are those of
    `xscore batch collect`.
    """
    settings = read_settings(flags).settings

    async def wait(store: "Store") -> tuple[list[JobStatus], bool]:
        jobs = select_jobs(store.connection, job)
        try:
            return await _poll_until_done(store, settings, jobs, flags.terminal), False
        except asyncio.CancelledError:
            return [job_status(store.connection, one.id) for one in jobs], True

    with opened_store(flags, make=False, settings=settings) as store:
        found, was_interrupted = run_interruptible(wait(store), notify=flags.terminal.note)
    _print_jobs(found, flags.terminal)
    if was_interrupted:
        flags.terminal.note("the batches go on at the vendor; `xscore batch wait` goes on waiting")
        return ExitCode.INTERRUPTED
    return jobs_exit_code(found)


async def _poll_until_done(
    store: "Store", settings: "Settings", jobs: list[BatchJob], terminal: Terminal
) -> list[JobStatus]:
    failures, told = 0, ""
    found: dict[str, JobStatus] = {}
    while True:
        for job in jobs:
            if job.id not in found or not _is_finished(found[job.id]):
                found[job.id] = await advance_job(store, settings, job.id)
        hopeful = [one for one in found.values() if not _is_finished(one)]
        failures = failures + 1 if all(one.problem and one.problem != BUSY_ELSEWHERE for one in hopeful) else 0
        if failures >= MOST_FAILURES or all(one.held_back and not one.sent for one in hopeful):
            return list(found.values())
        said = " · ".join(f"{one.job} {one.judged:,} of {one.asked:,} judged" for one in hopeful)
        if said != told:
            terminal.note(said)
            told = said
        await asyncio.sleep(settings.batch.poll_s)


def _is_finished(found: JobStatus) -> bool:
    return not found.is_pending or found.is_unusable
