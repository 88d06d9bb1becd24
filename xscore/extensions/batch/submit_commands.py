"""`xscore batch run`: a list of questions judged by live calls, with checkpoints.

`xscore batch submit`: a list of questions planned, agreed to and sent through a vendor's Batch API.

`xscore rescore`: judgments brought up to date after edits or under a new judge; only what is missing is paid.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.main import STARTED_AT
from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import (
    COUNT,
    FILE,
    JUDGING,
    LIMITS,
    MODELS,
    OUTPUT,
    REPLAY,
    SCOPE,
    SELECTION,
    DurationType,
    Flags,
    options,
)
from xscore.cli.progress import TurnObserver
from xscore.cli.terminal import Terminal, print_json, write_stdout
from xscore.platform.errors import UsageError, XscoreError
from xscore.platform.text import counted, format_dollars, format_seconds, format_share, format_tokens, one_line

if TYPE_CHECKING:
    from xscore.extensions.batch.job_rows import JobCommand
    from xscore.extensions.batch.list_job import ListReport
    from xscore.extensions.batch.list_plan import ListPlan
    from xscore.extensions.batch.submitting import BatchEstimate, JobDraft
    from xscore.pipeline.build import Pipeline
    from xscore.pipeline.json_form import Json
    from xscore.pipeline.parts import PipelineParts
    from xscore.records.batch import JobStatus, QuestionList
    from xscore.settings import Settings


WHOLE_RUN_OPTIONS = {
    "max_usd": click.option("--max-usd", metavar="DOLLARS", help="Cap on the whole list reserved before each send."),
    "deadline": click.option(
        "--deadline",
        metavar="TIME",
        type=DurationType(),
        help="Be done in 30s, 2m or so, start-up included; the same command again goes on from what was judged.",
    ),
    "yes": click.option("-y", "--yes", is_flag=True, help="Do not ask before a costly list; --max-usd still holds."),
}
RUN_OPTIONS = {
    "live": click.option(
        "--live", is_flag=True, help="By live calls, which `batch run` makes anyway; by Batch API: `batch submit`."
    ),
    "engine": click.option(
        "--engine",
        type=click.Choice(["ray"]),
        help="Judge with actors of Ray Data (needs the extra `ray` and a shared server: shared.url).",
    ),
    "actors": click.option("--actors", metavar="N", type=COUNT, default=2, help="With --engine ray: how many actors."),
    "out": click.option(
        "--out", metavar="FILE", type=FILE, help="Write what was chosen, ranked: FILE.parquet or FILE.jsonl."
    ),
}
RUN_JUDGE = {"judge": MODELS["judge"]}


@click.command()
@click.argument("questions", metavar="QUERIES.jsonl", type=click.Path(path_type=Path, allow_dash=True))
@options(RUN_OPTIONS, SCOPE, SELECTION, RUN_JUDGE, JUDGING, LIMITS, REPLAY, WHOLE_RUN_OPTIONS, OUTPUT)
def run_batch(questions: Path, flags: Flags) -> int:
    """Judge a list of questions against every memory by live calls, for servers without a Batch API or in a hurry.

    QUERIES.jsonl has one question a line: {"id": "q1", "task": "…"}, and where they help "file" and "errors"; `-` reads
    it from standard input. Every judgment is kept as it comes: interrupted, out of budget or killed, the same command
    again goes on from there and pays for nothing twice. The list is one purchase under --max-usd.
    """
    from xscore.extensions.batch.list_job import ListOptions, run_live_list
    from xscore.pipeline import question_list

    asked = question_list.read_question_file(questions)
    terminal, settings = flags.terminal, read_settings(flags)
    hurries = settings.settings.budget.deadline_s is not None
    watch = TurnObserver(terminal, agreed=flags.agreed, hurries=hurries, called="This list")
    given = flags.given
    wishes = ListOptions(
        out=given["out"],
        questions_file=questions,
        actors=given["actors"] if given["engine"] else 0,
        started=STARTED_AT,
    )
    found = in_pipeline(
        lambda open_: run_live_list(open_.parts, asked, scope=flags.scope, wishes=wishes), settings, watch
    )
    return print_live_job(found, terminal)


def print_live_job(found: "ListReport", terminal: Terminal) -> int:
    """Print what came of a list that was judged live; return its exit code."""
    from xscore.extensions.batch import job_text

    if terminal.as_json:
        print_json(job_text.live_job_json(found))
    elif found.lines and found.command == "run" and not found.out:
        write_stdout(job_text.render_live_job(found))
    for warning in found.warnings:
        terminal.note(warning)
    if not terminal.as_json:
        terminal.lines(job_text.render_live_account(found, verbose=terminal.verbose))
    return found.exit_code


SUBMIT_OPTIONS = {
    "max_usd": click.option(
        "--max-usd", metavar="DOLLARS", help="Cap on the whole job; what it leaves unsent waits for a higher one."
    ),
    "yes": click.option("-y", "--yes", is_flag=True, help="Do not ask before a costly job; --max-usd still holds."),
    "dry_run": click.option("--dry-run", is_flag=True, help="Show what it would take; keep and send nothing."),
}
SUBMIT_JUDGE = {"judge": MODELS["judge"]}
UNUSABLE, OVER_BUDGET = 3, 4


@click.command()
@click.argument("questions", metavar="QUERIES.jsonl", type=click.Path(path_type=Path, allow_dash=True))
@options(SCOPE, SUBMIT_JUDGE, JUDGING, SUBMIT_OPTIONS, OUTPUT)
def submit_batch(questions: Path, flags: Flags) -> int:
    """Have every memory judged against a list of questions through the vendor's Batch API, at half the price.

    QUERIES.jsonl has one question a line: {"id": "q1", "task": "…"}, with "file" and "errors" where they help; `-`
    reads standard input. Only what the cache lacks is sent. Results come within a day: `xscore batch collect`.
    """
    from xscore.pipeline import question_list

    asked = question_list.read_question_file(questions)
    settings = read_settings(flags)
    watch = TurnObserver(flags.terminal, agreed=flags.agreed, called="This job")
    dry = bool(flags.given["dry_run"])
    chosen = settings.settings

    async def work(pipeline: "Pipeline") -> int:
        return await plan_and_send(pipeline.parts, asked, flags, chosen, dry=dry)

    return in_pipeline(work, settings, watch)


async def plan_and_send(
    parts: "PipelineParts",
    asked: "QuestionList",
    flags: Flags,
    settings: "Settings",
    *,
    dry: bool,
    command: "JobCommand" = "submit",
    only: frozenset[str] | None = None,
) -> int:
    """Plan a list, agree to it and send it as far as it goes; return the exit code. only: paths, as `memories` has."""
    from xscore.pipeline.question_list import confirm_list_cost

    drawn = _draw_plan(parts, asked, flags, only=only)
    if not drawn.plan.requests or dry:
        return _nothing_sent(parts, drawn, flags.terminal, dry=dry)
    confirm_list_cost(parts, drawn.estimate)
    return await _send(parts, drawn, flags.terminal, settings, command=command)


def _draw_plan(
    parts: "PipelineParts", asked: "QuestionList", flags: Flags, *, only: frozenset[str] | None
) -> "JobDraft":
    """Bring the index up to date, plan, and show what it takes."""
    from xscore.extensions.batch.rendering import effective_batch_limits, is_encrypted
    from xscore.extensions.batch.submitting import batch_judge_factory, draft_job
    from xscore.extensions.batch.vendor import batch_host_of_provider

    host = batch_host_of_provider(batch_judge_factory(parts).provider)
    parts.observer.stage("index")
    parts.index()
    parts.observer.stage("pool")
    limits = effective_batch_limits(host.limits, parts.settings.batch, encrypted=is_encrypted(parts.store))
    drawn = draft_job(parts, asked, scope=flags.scope, limits=limits, only=only)
    is_wanted = not flags.terminal.quiet or flags.given["dry_run"]
    if is_wanted and not flags.terminal.as_json:
        write_stdout(render_plan(drawn.takes))
    return drawn


def _nothing_sent(parts: "PipelineParts", drawn: "JobDraft", terminal: Terminal, *, dry: bool) -> int:
    """End without a job: nothing is left to judge, or it was only to be looked at."""
    from xscore.extensions.batch.submitting import save_settled

    plan = drawn.plan
    if not plan.requests and plan.elsewhere:
        job = drawn.elsewhere[0]
        raise UsageError(
            f"all that is left of this list is under way already, in {', '.join(drawn.elsewhere)}",
            hint=f"Collect it with `xscore batch collect {job}`.",
        )
    if not dry:
        save_settled(parts, drawn)
    _print_submitted("", drawn, None, terminal)
    if not plan.requests:
        terminal.note("nothing is left to judge: no job was made")
    return 0


async def _send(
    parts: "PipelineParts", drawn: "JobDraft", terminal: Terminal, settings: "Settings", *, command: "JobCommand"
) -> int:
    """Commit the job, have it sent as far as it goes, and say where it stands."""
    from xscore.extensions.batch import machine
    from xscore.extensions.batch.submitting import batch_judge_factory, save_job, save_settled
    from xscore.extensions.batch.vendor import batch_host

    seat = batch_judge_factory(parts)
    host = batch_host(seat.spec, settings)
    if seat.capability is not None:
        host.adopt(seat.capability)
    save_settled(parts, drawn)
    job = save_job(parts, drawn, command=command)
    try:
        standing = await machine.advance_at_vendor(
            parts.store, settings, host, job, clock=parts.clock, note=parts.observer.note
        )
    except XscoreError:
        terminal.note(f"the job is kept: `xscore batch collect {job}` goes on with it")
        raise
    finally:
        await host.aclose()
    _print_submitted(job, drawn, standing, terminal)
    if standing.sent or standing.answered:
        return 0
    return OVER_BUDGET if standing.over_budget else UNUSABLE if standing.problem else 0


def _print_submitted(job: str, drawn: "JobDraft", standing: "JobStatus | None", terminal: Terminal) -> None:
    from xscore.extensions.batch import job_text

    if terminal.as_json:
        from xscore.pipeline.json_form import to_json

        told = {"job": job or None, "standing": None if standing is None else job_text.job_json(standing)}
        print_json({**to_json(drawn.takes), **told})
    elif standing is not None:
        write_stdout(job_text.render_job(standing, cost=not terminal.quiet))
    if standing is not None:
        for said in (*standing.remarks, job_text.next_step(standing)):
            terminal.note(said)


def render_plan(found: "BatchEstimate") -> str:
    """Show what the list takes: the cache first, then calls and dollars, then what would hold them back."""
    hits = format_share(found.cached, found.candidates)
    lines = [
        f"list     {counted(found.questions, 'question')} · {found.candidates:,} candidates ·"
        f" {found.cached:,} cached: replayed hit rate {hits}",
        f"judge    {one_line(found.judge)} at {one_line(found.host)}",
        f"send     {found.to_judge:,} to judge · {counted(found.requests, 'call')} of"
        f" {counted(found.prompts, 'prompt')} · {format_tokens(found.input_tokens)} in / {format_tokens(found.output_tokens)} out"
        + (f" · about {counted(found.batches, 'batch', 'batches')}" if found.batches else ""),
        f"cost     {format_dollars(found.cost_usd, estimated=True)} by batch, {format_dollars(found.live_usd, estimated=True)} live",
    ]
    lines.extend(f"         {line}" for line in _exclusion_lines(found))
    lines.extend(f"         {line}" for line in _cap_lines(found))
    return "\n".join(lines)


def _exclusion_lines(found: "BatchEstimate") -> list[str]:
    said = []
    if found.repeated:
        said.append(f"{found.repeated:,} are asked once for questions that are the same")
    if found.elsewhere:
        said.append(f"{found.elsewhere:,} are under way in {', '.join(found.elsewhere_jobs)}")
    if found.of_user:
        said.append(f"{counted(found.of_user, 'memory', 'memories')} of your own are left out: live judging has them")
    return said


def _cap_lines(found: "BatchEstimate") -> list[str]:
    """Say which caps come first; each call is sent only where the most it may cost fits."""
    from xscore.costs.budget_messages import describe_cap

    if found.cost_usd is None:
        return ["the model has no known price: no cap on dollars holds its calls"] if found.caps else []
    return [
        f"above {describe_cap(cap)}: what does not fit waits until it does"
        for cap in found.caps
        if found.cost_usd > cap.left_usd
    ]


RESCORE_OPTIONS = {
    "since": click.option("--since", metavar="REV", help="Memories of files that differ from this revision."),
    "changed": click.option(
        "--changed", is_flag=True, help="Memories of files with uncommitted changes; so it is unless told otherwise."
    ),
    "everything": click.option("--all", "everything", is_flag=True, help="All memories."),
    "queries": click.option(
        "--queries",
        metavar="FILE",
        type=click.Path(path_type=Path, allow_dash=True),
        help="Questions, a line of JSON each; without it the recent tasks of this repository.",
    ),
    "live": click.option("--live", is_flag=True, help="By live calls; so it is unless told otherwise."),
    "batch": click.option("--batch", is_flag=True, help="By the vendor's Batch API; results within a day."),
    "dry_run": click.option(
        "--dry-run", is_flag=True, help="Show what it would take, live and by batch; send nothing."
    ),
}
RESCORE_JUDGE = {"judge": MODELS["judge"]}


@click.command()
@options(RESCORE_OPTIONS, SCOPE, RESCORE_JUDGE, JUDGING, LIMITS, WHOLE_RUN_OPTIONS, OUTPUT)
def rescore_judgments(flags: Flags) -> int:
    """Bring judgments up to date after edits, or under a new judge or prompt version: only what is missing is sent.

    Asked are the questions of --queries FILE, or else the recent tasks of this repository: those of open sessions and
    of the last 14 days, at most 100. Looked at are the memories of files with uncommitted changes (--changed), of those
    that differ from a revision (--since REV), or all (--all). What the cache has costs nothing.
    """
    _check_options(flags)
    terminal, settings = flags.terminal, read_settings(flags)
    watch = TurnObserver(terminal, agreed=flags.agreed, called="This rescoring")

    async def work(pipeline: "Pipeline") -> int:
        asked, only = _questions_to_rescore(pipeline, flags), _files(pipeline, flags)
        if flags.given["dry_run"]:
            return _planned(pipeline.parts, asked, flags, only)
        if flags.given["batch"]:
            # MERGED

            chosen = settings.settings
            return await plan_and_send(pipeline.parts, asked, flags, chosen, dry=False, command="rescore", only=only)
        # MERGED
        from xscore.extensions.batch.list_job import ListOptions, run_live_list

        wishes = ListOptions(command="rescore", only=only, ranks=False, started=STARTED_AT)
        found = await run_live_list(pipeline.parts, asked, scope=flags.scope, wishes=wishes)
        watch.close()
        return print_live_job(found, terminal)

    return in_pipeline(work, settings, watch)


def _check_options(flags: Flags) -> None:
    """Raise UsageError for options that exclude each other."""
    given = flags.given
    if sum(map(bool, (given["since"], given["changed"], given["everything"]))) > 1:
        raise UsageError("--since, --changed and --all say different things", hint="Give one of them.")
    if given["live"] and given["batch"]:
        raise UsageError("--live and --batch say different things", hint="Give one of them.")
    if given["batch"] and given["require_shared"]:
        raise UsageError("--require-shared: a batch asks no shared server", hint="Give it with --live.")


def _questions_to_rescore(pipeline: "Pipeline", flags: Flags) -> "QuestionList":
    """Return the questions of the file, or the recent tasks, and say which those are."""
    from xscore.extensions.batch.list_job import recent_tasks
    from xscore.pipeline import question_list

    if flags.given["queries"] is not None:
        return question_list.read_question_file(flags.given["queries"])
    parts = pipeline.parts
    found = recent_tasks(parts.store.connection, parts.root, now=parts.clock())
    parts.observer.note(found.in_words())
    return found.questions


def _files(pipeline: "Pipeline", flags: Flags) -> frozenset[str] | None:
    """Return the files whose memories are looked at, and say how many; None: all."""
    from xscore.extensions.batch.list_job import edited_files

    if flags.given["everything"]:
        return None
    since = flags.given["since"] or ""
    found = edited_files(pipeline.parts.root, since=since)
    what = f"files that differ from {one_line(since)}" if since else "files with uncommitted changes"
    pipeline.parts.observer.note(f"{what}: {len(found):,}")
    return found


def _planned(parts: "PipelineParts", asked: "QuestionList", flags: Flags, only: frozenset[str] | None) -> int:
    """Show what it would take."""
    from xscore.extensions.batch.list_job import plan_live_list

    _, plan = plan_live_list(parts, asked, scope=flags.scope, only=only)
    body = _plan_json(parts, plan, only)
    if flags.terminal.as_json:
        print_json(body)
    else:
        _print_plan(body, flags.terminal, parts, plan)
    return 0


def _plan_json(parts: "PipelineParts", plan: "ListPlan", only: frozenset[str] | None) -> "dict[str, Json]":
    from xscore.extensions.batch.list_plan import batch_cost
    from xscore.pipeline.json_form import SCHEMA, money_json

    judge, identity = plan.estimate, parts.judge.identity
    return {
        "schema": SCHEMA,
        "dry_run": True,
        "judge": f"{identity.provider}:{identity.model}" if parts.judge.is_model else "lexical",
        "host": identity.host,
        "files": None if only is None else len(only),
        "questions": len(plan.rows),
        "candidates": plan.candidates,
        "cached": plan.cached,
        "hit_rate": None if plan.hit_rate is None else round(plan.hit_rate, 6),
        "to_judge": plan.to_judge,
        "elsewhere": plan.elsewhere,
        "elsewhere_jobs": list(plan.elsewhere_jobs),
        "calls": judge.calls if judge else 0,
        "input_tokens": judge.input_tokens if judge else 0,
        "output_tokens": judge.output_tokens if judge else 0,
        "live_usd": money_json(judge.cost_usd) if judge else "0",
        "batch_usd": money_json(batch_cost(parts, judge)) if judge else "0",
        "seconds": round(judge.seconds, 6) if judge else 0.0,
    }


def _print_plan(body: "dict[str, Json]", terminal: Terminal, parts: "PipelineParts", plan: "ListPlan") -> None:
    from xscore.extensions.batch.job_text import hit_rate_in_words
    from xscore.extensions.batch.list_plan import batch_cost

    judge = plan.estimate
    lines = [
        f"list     {counted(len(plan.rows), 'question')} · {plan.candidates:,} candidates · {plan.cached:,} cached:"
        f" {hit_rate_in_words(plan.cached, plan.candidates)}",
        f"judge    {one_line(str(body['judge']))} at {one_line(str(body['host']))}",
    ]
    if judge is not None:
        by_batch = format_dollars(batch_cost(parts, judge), estimated=True)
        in_time = f" in about {format_seconds(judge.seconds)}" if judge.calls else ""
        lines += [
            f"send     {plan.to_judge:,} to judge · {counted(judge.calls, 'call')}"
            f" · {format_tokens(judge.input_tokens)} in / {format_tokens(judge.output_tokens)} out",
            f"cost     {format_dollars(judge.cost_usd, estimated=True)} live{in_time}, {by_batch} by batch within a day",
        ]
    write_stdout("\n".join(lines))
    terminal.note("nothing was sent")
