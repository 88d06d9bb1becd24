"""`xscore batch status | collect | wait | cancel | list`: advance and show jobs at a vendor.

A job belongs to the vendor of its own judge, whatever judge the settings name. One failing host
does not stop others from advancing. The text, the JSON and the exit codes of jobs come after
the commands.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import asdict, replace

from xscore.cli.flags import Flags, command
from xscore.cli.interrupt import run_interruptible
from xscore.cli.options import COUNT, MAX_USD, RESULTS_FILE, SELECTION, YES
from xscore.cli.pipeline_run import run_with_pipeline
from xscore.cli.settings_and_store import opened_store, read_settings
from xscore.cli.terminal import Terminal
from xscore.cli.text_layout import faint, render_facts, render_table
from xscore.extensions.batch import batch_rows
from xscore.extensions.batch.batch_rows import job_status
from xscore.extensions.batch.job_advance import (
    BUSY_ELSEWHERE,
    advance_job,
    job_status_at_vendor,
)
from xscore.extensions.batch.job_rows import BatchJob, read_batch_jobs, read_job, select_jobs
from xscore.extensions.batch.records import (
    PURPOSES,
    Batch,
    JobStatus,
    StoredBatchState,
    hit_rate,
)
from xscore.extensions.batch.results import (
    check_results_path,
    settings_of_job,
    write_job_results,
)
from xscore.pipeline.json_form import Json, record_json, to_json
from xscore.platform import database
from xscore.platform.errors import ExitCode, ProviderError, UsageError
from xscore.platform.figures import format_dollars, format_share, format_time
from xscore.platform.text import counted, one_line

if TYPE_CHECKING:
    from xscore.pipeline.build import Pipeline
    from xscore.settings import Settings
    from xscore.store.store import Store

T = TypeVar("T")
JOBS_SHOWN = 20
MOST_FAILURES = 10
"""`wait` gives up after this many failed polls in a row."""
JOB = click.argument("job", metavar="[ID]", default="")


@command()
@JOB
@click.option("--all", "everything", is_flag=True, help="Every running job.")
@click.option(
    "--forget",
    is_flag=True,
    help="Give up batches that the vendor lost; charge their upper bound.",
)
def cancel_job(job: str, *, everything: bool, forget: bool, flags: Flags) -> int:
    """Cancel a job: ask the vendor to stop its batches, send nothing more. Needs an ID, or --all.

    Finished requests are charged; `xscore batch collect` fetches them when the vendor has stopped.
    Ends with 0 if nothing is pending, 1 while the vendor is cancelling, 3 when the vendor cannot be
    used. --forget gives up batches that the vendor cannot find and charges them against the caps,
    since they may be billed.
    """
    if bool(job) is everything:
        raise UsageError("name one job, or --all", hint="`xscore batch list` lists them.")

    async def cancel(store: "Store", settings: "Settings") -> list[JobStatus]:
        statuses = []
        for batch_job in select_jobs(store.connection, job):
            if job or batch_job.ended_at is None:
                with database.transaction(store.connection) as connection:
                    batch_rows.stop_job(connection, batch_job.id, at=store.clock())
                statuses.append(await advance_job(store, settings, batch_job.id, forget=forget))
        return statuses

    statuses = _with_store(flags, cancel)
    _print_jobs(statuses, flags.terminal, none="nothing is under way")
    return jobs_exit_code(status for status in statuses if status.is_pending)


def _with_store(flags: Flags, work: "Callable[[Store, Settings], Coroutine[Any, Any, T]]") -> T:
    settings = read_settings(flags).settings
    with opened_store(flags, make=False, settings=settings) as store:
        return run_interruptible(work(store, settings), notify=flags.terminal.note)


@command(RESULTS_FILE, MAX_USD, YES, SELECTION)
@JOB
def collect_jobs(job: str, flags: Flags) -> int:
    """Fetch results, ask again for what was not answered, and send what waited; without ID for
    every job.

    Run it as often as you like: it resumes where it was. It ends with 0 when everything is in, 1
    while something is pending or nothing was judged, 3 when the vendor cannot be used, and 4 when a
    cap stops the rest.
    """
    output = flags.given["output"]

    async def collect(
        store: "Store", settings: "Settings"
    ) -> tuple[list[BatchJob], list[JobStatus]]:
        jobs = _jobs_to_collect(store, settings, job, flags)
        statuses: list[JobStatus] = []
        for batch_job in jobs:
            status = await advance_job(store, settings, batch_job.id, note=flags.terminal.note)
            statuses.append(status)
        return jobs, statuses

    jobs, statuses = _with_store(flags, collect)
    if output is None:
        _print_jobs(statuses, flags.terminal)
    else:
        results = _write_results(jobs[0], output, flags)
        _print_jobs(statuses, flags.terminal, also={"results": results})
        if not flags.terminal.as_json:
            flags.terminal.lines(
                f"{counted(results['rows'], 'row')} in {one_line(results['out'])}"
            )
    return jobs_exit_code(statuses)


def _jobs_to_collect(
    store: "Store", settings: "Settings", named: str, flags: Flags
) -> list[BatchJob]:
    output = flags.given["output"]
    max_usd = flags.given["max_usd"]
    jobs = select_jobs(store.connection, named)
    if len(jobs) > 1 and (output is not None or max_usd is not None):
        raise UsageError(
            f"{len(jobs)} jobs are under way", hint="Name one: `xscore batch collect ID …`."
        )
    if output is not None:
        check_results_path(output, store_dir=store.path.parent)
    if max_usd is not None and settings.budget.max_usd is not None:
        with database.transaction(store.connection) as connection:
            batch_rows.set_job_cap(connection, jobs[0].id, settings.budget.max_usd)
        jobs = [read_job(store.connection, jobs[0].id)]
    return jobs


def _write_results(job: BatchJob, out: Path, flags: Flags) -> dict[str, Any]:
    async def work(pipeline: "Pipeline") -> dict[str, Any]:
        ranked = await write_job_results(pipeline.parts, job, out)
        counts = {"coverage": ranked.coverage, "unjudged_by_cause": ranked.unjudged_by_cause}
        return to_json({"job": job.id, **counts, **asdict(ranked), "out": str(out)})

    loaded = read_settings(flags)
    return run_with_pipeline(
        flags, work, settings=replace(loaded, settings=settings_of_job(job, loaded.settings))
    )


def _print_jobs(
    statuses: list[JobStatus],
    terminal: Terminal,
    *,
    none: str = "",
    also: dict[str, Any] | None = None,
) -> None:
    text = "\n".join(render_job(status, cost=not terminal.quiet) for status in statuses)
    terminal.print_result(
        {"jobs": [job_json(status) for status in statuses]}, text, none=none, more=also
    )
    for status in statuses:
        terminal.notes([*status.remarks, next_step(status)])


@command()
@click.option(
    "--limit", metavar="N", type=COUNT, help=f"Only the newest N; {JOBS_SHOWN} unless --json."
)
def list_jobs(limit: int | None, flags: Flags) -> None:
    """List the jobs sent to vendors, newest first. No vendor is asked."""
    with opened_store(flags, make=False) as store:
        jobs = read_batch_jobs(store.connection)
        shown_at_most = limit or (len(jobs) if flags.terminal.as_json else JOBS_SHOWN)
        statuses = [job_status(store.connection, job.id) for job in jobs[:shown_at_most]]
    none = "there is no job yet; `xscore batch submit QUERIES.jsonl` makes one"
    flags.terminal.print_result(
        {"jobs": [job_json(status) for status in statuses]}, _render_jobs(statuses), none=none
    )
    if len(statuses) < len(jobs):
        older = len(jobs) - len(statuses)
        flags.terminal.note(
            f"{older:,} older ones are not shown: `--limit {len(jobs)}` shows all"
        )


@command()
@JOB
@click.option("--offline", is_flag=True, help="Show what the store has; do not ask the vendor.")
def show_job_status(job: str, *, offline: bool, flags: Flags) -> None:
    """Show a job's progress; without ID all running jobs, or the newest.

    ID may be a prefix. The vendor is asked for the status of its batches; nothing is sent or
    fetched.
    """

    async def look(store: "Store", settings: "Settings") -> list[JobStatus]:
        jobs = select_jobs(store.connection, job)
        if offline:
            return [job_status(store.connection, batch_job.id) for batch_job in jobs]
        return [await job_status_at_vendor(store, settings, batch_job) for batch_job in jobs]

    _print_jobs(_with_store(flags, look), flags.terminal)


@command()
@JOB
def wait_for_jobs(job: str, flags: Flags) -> int:
    """Wait until everything is in, collecting results and sending what is next; without ID for
    every running job.

    Ctrl-C loses nothing: the vendor continues, and so does this command when run again. Its exit
    codes are those of `xscore batch collect`.
    """

    async def wait(store: "Store", settings: "Settings") -> tuple[list[JobStatus], bool]:
        jobs = select_jobs(store.connection, job)
        try:
            return await _poll_until_done(store, settings, jobs, flags.terminal), False
        except asyncio.CancelledError:
            return [job_status(store.connection, batch_job.id) for batch_job in jobs], True

    statuses, was_interrupted = _with_store(flags, wait)
    _print_jobs(statuses, flags.terminal)
    if was_interrupted:
        flags.terminal.note(
            "the batches continue at the vendor; run `xscore batch wait` to keep waiting"
        )
        return ExitCode.INTERRUPTED
    return jobs_exit_code(statuses)


async def _poll_until_done(
    store: "Store", settings: "Settings", jobs: list[BatchJob], terminal: Terminal
) -> list[JobStatus]:
    failures = 0
    last_note = ""
    status_of: dict[str, JobStatus] = {}
    while True:
        for job in jobs:
            if job.id not in status_of or not _is_finished(status_of[job.id]):
                status_of[job.id] = await advance_job(store, settings, job.id)
        hopeful = [status for status in status_of.values() if not _is_finished(status)]
        if all(map(_has_failed, hopeful)):
            failures += 1
        else:
            failures = 0
        if failures >= MOST_FAILURES or all(map(_is_held_back, hopeful)):
            return list(status_of.values())
        progress = " · ".join(
            f"{status.job} {status.judged:,} of {status.asked:,} {_verb(status)}"
            for status in hopeful
        )
        if progress != last_note:
            terminal.note(progress)
            last_note = progress
        await asyncio.sleep(settings.batch.poll_s)


def _verb(status: JobStatus) -> str:
    return "written" if status.writes == PURPOSES else "judged"


def _lacking(status: JobStatus) -> str:
    return "not written" if status.writes == PURPOSES else "unjudged"


def _is_finished(status: JobStatus) -> bool:
    return not status.is_pending or status.is_unusable


def _has_failed(status: JobStatus) -> bool:
    # A busy job is another process's success, not a failure of ours.
    return bool(status.problem) and status.problem != BUSY_ELSEWHERE


def _is_held_back(status: JobStatus) -> bool:
    return bool(status.held_back) and not status.sent


BATCHES_SHOWN = 10


def job_json(status: JobStatus) -> dict[str, Json]:
    """Return one job's object for `--json`."""
    rate = hit_rate(status.cached, status.candidates)
    return {
        **record_json(status),
        "pending": status.is_pending,
        "waiting": status.waiting,
        "hit_rate": rate,
    }


def jobs_exit_code(statuses: Iterable[JobStatus]) -> int:
    """Return the exit code of `collect`: the worst of its jobs."""
    return max((_code(status) for status in statuses), default=0)


def _code(status: JobStatus) -> int:
    is_busy = status.problem == BUSY_ELSEWHERE
    if not status.is_pending:
        if is_busy or (status.asked and not status.judged):
            return ExitCode.PARTLY
        return 0
    if status.problem and not is_busy:
        return ProviderError.exit_code
    if status.over_budget and not status.sent:
        return ExitCode.BUDGET
    return ExitCode.PARTLY


def render_job(status: JobStatus, *, cost: bool = True) -> str:
    """Show one job: its list, progress, batches, dollars and problems. cost: its dollars."""
    batches = [
        batch for batch in status.batches if batch.state is not StoredBatchState.COLLECTED
    ]
    batches = batches or list(status.batches[-1:])
    done = f"{status.judged:,} of {status.asked:,} asked{_rest(status)}"
    if status.writes == PURPOSES:
        subjects = f"{status.candidates:,} files, classes and folders"
        rows = [("  of", f"{subjects} · {status.cached:,} had a purpose before")]
    else:
        rows = [("  list", list_in_words(status.questions, status.candidates, status.cached))]
    rows.append((f"  {_verb(status)}", done))
    for batch in batches[-BATCHES_SHOWN:]:
        rows.append(("  batch", _batch(batch)))
    if len(batches) > BATCHES_SHOWN:
        rows.append(("", f"and {len(batches) - BATCHES_SHOWN} more (--json)"))
    if cost:
        rows.append(("  cost", _job_cost(status)))
    if status.planned:
        waiting = f"{counted(status.planned, 'request')} not sent yet"
        if status.held_back:
            waiting += f": {one_line(status.held_back)}"
        rows.append(("  waiting", waiting))
    head = (
        f"{status.job}  {faint(format_time(status.created_at))} · {one_line(status.judge)} ·"
        f" {_state(status)}"
    )
    return f"{head}\n{render_facts(rows)}"


def list_in_words(questions: int, candidates: int, cached: int) -> str:
    """Describe a list's length and its cache share when it was planned."""
    hits = f"{cached:,} cached: hit rate {format_share(cached, candidates)}"
    return f"{counted(questions, 'question')} · {candidates:,} candidates · {hits}"


def next_step(status: JobStatus) -> str:
    """Return the next command, in one line, or ""."""
    if status.problem:
        return f"{status.job}: {one_line(status.problem)}"
    if status.is_pending and status.over_budget and not status.sent:
        return (
            f"a cap stops the rest: `xscore batch collect {status.job} --max-usd N` continues"
        )
    if status.is_pending:
        return f"`xscore batch wait {status.job}` waits for the rest"
    if status.unjudged and status.writes == PURPOSES:
        return "`xscore batch purposes` tries the rest again"
    if status.unjudged:
        # A batch has chat prompts, whatever live calls have.
        judge = status.judge.replace("openai:", "openai-chat:", 1)
        return (
            f"`xscore batch run QUERIES.jsonl --judge {one_line(judge)}` judges the rest by live"
            " calls"
        )
    return ""


def _render_jobs(jobs: Sequence[JobStatus]) -> str:
    heads = ("job", "since", "questions", "judged", "of", "state")
    rows = []
    for job in jobs:
        rows.append(
            (
                job.job,
                format_time(job.created_at),
                f"{job.questions:,}",
                f"{job.judged:,}",
                f"{job.asked:,}",
                _state(job),
            )
        )
    if rows:
        return render_table(heads, rows, right=heads[2:5])
    return ""


def _state(status: JobStatus) -> str:
    if not status.is_pending:
        if status.asked and not status.judged:
            return f"over: nothing was {_verb(status)}"
        if status.unjudged:
            return f"over: {sum(status.unjudged.values()):,} {_lacking(status)}"
        return "all in"
    parts: list[str] = []
    if status.sent:
        parts.append(f"{status.sent:,} at the vendor")
    if status.planned:
        parts.append(f"{status.planned:,} to be sent")
    return f"under way: {', '.join(parts) or 'nothing left to send'}"


def _rest(status: JobStatus) -> str:
    rest = ""
    if status.waiting:
        rest = f" · {status.waiting:,} waiting"
    if status.unjudged:
        causes = ", ".join(f"{count:,} {cause}" for cause, count in status.unjudged.items())
        rest += f" · {_lacking(status)}: {causes}"
    return rest


def _batch(batch: Batch) -> str:
    name = one_line(batch.vendor_id) or "no id yet"
    line = f"{batch.number}  {name} · {counted(batch.requests, 'request')} · {batch.state}"
    if batch.status:
        line += f", {one_line(batch.status)}"
    if batch.seen_at is not None:
        line += f" at {format_time(batch.seen_at)}"
    if batch.problem:
        line += f": {one_line(batch.problem)}"
    return line


def _job_cost(status: JobStatus) -> str:
    unpriced = ""
    if status.unpriced:
        unpriced = f" + {status.unpriced:,} unpriced"
    aside = ""
    if status.set_aside_usd:
        aside = f" · {format_dollars(status.set_aside_usd)} set aside"
    cap = ""
    if status.max_usd is not None:
        cap = f" · cap {format_dollars(status.max_usd)}"
    return f"{format_dollars(status.spent_usd)}{unpriced}{aside}{cap}"
