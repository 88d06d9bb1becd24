"""`xscore batch run | submit | rescore`: lists of questions judged live, or through a vendor's Batch API.

They plan, ask for agreement and report; the judging is `list_job`'s, the sending `machine`'s.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.main import STARTED_AT
from xscore.cli.opening import run_turn
from xscore.cli.options import (
    COUNT,
    DRY_RUN,
    FILE,
    INPUT_FILE,
    JUDGE,
    JUDGING,
    LIMITS,
    MAX_USD,
    REPLAY,
    SCOPE,
    SELECTION,
    YES,
    Flags,
    Option,
    command,
    options,
)
from xscore.cli.terminal import Terminal, print_json, render_facts, write_stdout
from xscore.platform.errors import BudgetExhausted, ProviderError, UsageError, XscoreError
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

QUESTIONS = click.argument("questions", metavar="QUERIES.jsonl", type=INPUT_FILE)
RESULTS_FILE: dict[str, Option] = {
    "output": click.option(
        "-o", "--output", metavar="FILE", type=FILE, help="Write what was chosen, ranked: FILE.parquet or FILE.jsonl."
    )
}
RUN_OPTIONS: dict[str, Option] = {
    **RESULTS_FILE,
    "ray": click.option(
        "--ray", metavar="N", type=COUNT, help="Judge by N actors of Ray Data (extra `ray`; needs shared.url)."
    ),
}
RESCORE_OPTIONS: dict[str, Option] = {
    "since": click.option("--since", metavar="REV", help="Memories of files that differ from this revision."),
    "everything": click.option("--all", "everything", is_flag=True, help="All memories."),
    "queries": click.option(
        "--queries", metavar="FILE", type=INPUT_FILE, help="A file of questions; default: the recent tasks."
    ),
    "batch": click.option("--batch", is_flag=True, help="By the vendor's Batch API; results within a day."),
}


@command()
@QUESTIONS
@options(RUN_OPTIONS, SCOPE, SELECTION, JUDGE, LIMITS, REPLAY, JUDGING)
def run_batch(questions: Path, flags: Flags) -> int:
    """Judge a list of questions against every memory by live calls, for servers without a Batch API or in a hurry.

    QUERIES.jsonl has one question a line: {"id": "q1", "task": "…"}, and where they help "file" and "errors"; `-` reads
    it from standard input. Every judgment is kept as it comes: interrupted, out of budget or killed, the same command
    goes on from there and pays for nothing twice. --max-usd caps the whole list.
    """
    from xscore.extensions.batch.list_job import ListOptions, run_live_list
    from xscore.pipeline.question_list import read_question_file

    listed, given = read_question_file(questions), flags.given
    chosen = ListOptions(
        out=given["output"],
        questions_file=questions,
        actors=given["ray"] or 0,
        started=STARTED_AT,
    )
    found, _ = run_turn(
        flags, lambda open_: run_live_list(open_.parts, listed, scope=flags.scope, wishes=chosen), noun="This list"
    )
    return print_live_job(found, flags.terminal)


def print_live_job(found: "ListReport", terminal: Terminal) -> int:
    """Print what came of a list that was judged live; return its exit code."""
    from xscore.extensions.batch import job_text

    if terminal.as_json:
        print_json(job_text.live_job_json(found))
    elif found.lines and found.command == "run" and not found.out:
        write_stdout(job_text.render_live_job(found))
    terminal.notes(found.warnings)
    if not terminal.as_json:
        terminal.lines(job_text.render_live_account(found, verbose=terminal.verbose))
    return found.exit_code


@command()
@QUESTIONS
@options(SCOPE, JUDGE, MAX_USD, YES, DRY_RUN, JUDGING)
def submit_batch(questions: Path, flags: Flags) -> int:
    """Have every memory judged against a list of questions through the vendor's Batch API, at half the price.

    QUERIES.jsonl has one question a line: {"id": "q1", "task": "…"}, with "file" and "errors" where they help; `-`
    reads standard input. Only what the cache lacks is sent. Results come within a day: `xscore batch collect`.
    """
    from xscore.pipeline.question_list import read_question_file

    listed = read_question_file(questions)

    async def work(pipeline: "Pipeline") -> int:
        return await _plan_and_send(pipeline.parts, listed, flags)

    return run_turn(flags, work, noun="This job")[0]


async def _plan_and_send(
    parts: "PipelineParts",
    questions: "QuestionList",
    flags: Flags,
    *,
    command: "JobCommand" = "submit",
    only: frozenset[str] | None = None,
) -> int:
    """Plan a list, agree to it and send it as far as it goes; return the exit code. only: paths of files."""
    from xscore.pipeline.question_list import confirm_list_cost

    dry_run = bool(flags.given["dry_run"])
    draft = _draft(parts, questions, flags, only=only)
    if not draft.plan.requests or dry_run:
        return _end_unsent(parts, draft, flags.terminal, dry_run=dry_run)
    confirm_list_cost(parts, draft.estimate)
    return await _send(parts, draft, flags.terminal, command=command)


def _draft(
    parts: "PipelineParts", questions: "QuestionList", flags: Flags, *, only: frozenset[str] | None
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
    draft = draft_job(parts, questions, scope=flags.scope, limits=limits, only=only)
    is_shown = not flags.terminal.quiet or flags.given["dry_run"]
    if is_shown and not flags.terminal.as_json:
        write_stdout(render_plan(draft.takes))
    return draft


def _end_unsent(parts: "PipelineParts", draft: "JobDraft", terminal: Terminal, *, dry_run: bool) -> int:
    """End without a job: nothing is left to judge, or only a look was asked for."""
    from xscore.extensions.batch.submitting import save_settled

    plan = draft.plan
    if not plan.requests and plan.elsewhere:
        job = draft.takes.elsewhere_jobs[0]
        raise UsageError(
            f"all that is left of this list is under way already, in {', '.join(draft.takes.elsewhere_jobs)}",
            hint=f"Collect it with `xscore batch collect {job}`.",
        )
    if not dry_run:
        save_settled(parts, draft)
    _print_submitted("", draft, None, terminal)
    if not plan.requests:
        terminal.note("nothing is left to judge: no job was made")
    return 0


async def _send(parts: "PipelineParts", draft: "JobDraft", terminal: Terminal, *, command: "JobCommand") -> int:
    """Commit the job, have it sent as far as it goes, and say where it stands."""
    from xscore.extensions.batch import machine
    from xscore.extensions.batch.submitting import batch_judge_factory, save_job, save_settled
    from xscore.extensions.batch.vendor import batch_host

    factory = batch_judge_factory(parts)
    host = batch_host(factory.spec, parts.settings)
    if factory.capability is not None:
        host.adopt(factory.capability)
    save_settled(parts, draft)
    job = save_job(parts, draft, command=command)
    try:
        status = await machine.advance_at_vendor(
            parts.store, parts.settings, host, job, clock=parts.clock, note=parts.observer.note
        )
    except XscoreError:
        terminal.note(f"the job is kept: `xscore batch collect {job}` goes on with it")
        raise
    finally:
        await host.aclose()
    _print_submitted(job, draft, status, terminal)
    if status.sent or status.answered:
        return 0
    if status.over_budget:
        return BudgetExhausted.exit_code
    return ProviderError.exit_code if status.problem else 0


def _print_submitted(job: str, draft: "JobDraft", status: "JobStatus | None", terminal: Terminal) -> None:
    from xscore.extensions.batch import job_text
    from xscore.pipeline.json_form import to_json

    if terminal.as_json:
        told = None if status is None else job_text.job_json(status)
        print_json({**to_json(draft.takes), "job": job or None, "standing": told})
    elif status is not None:
        write_stdout(job_text.render_job(status, cost=not terminal.quiet))
    if status is not None:
        terminal.notes([*status.remarks, job_text.next_step(status)])


def render_plan(found: "BatchEstimate") -> str:
    """Show what the list takes: the cache first, then calls and dollars, then what would hold them back."""
    batches = f" · about {counted(found.batches, 'batch', 'batches')}" if found.batches else ""
    by_batch, live = (format_dollars(usd, estimated=True) for usd in (found.cost_usd, found.live_usd))
    return render_facts(
        [
            (
                "list",
                f"{counted(found.questions, 'question')} · {found.candidates:,} candidates ·"
                f" {found.cached:,} cached: hit rate {format_share(found.cached, found.candidates)}",
            ),
            ("judge", f"{one_line(found.judge)} at {one_line(found.host)}"),
            (
                "send",
                f"{found.to_judge:,} to judge · {counted(found.requests, 'call')} of"
                f" {counted(found.prompts, 'prompt')} · {format_tokens(found.input_tokens)} in /"
                f" {format_tokens(found.output_tokens)} out{batches}",
            ),
            ("cost", f"{by_batch} by batch, {live} live"),
            *(("", line) for line in (*_exclusion_lines(found), *_cap_lines(found))),
        ]
    )


def _exclusion_lines(found: "BatchEstimate") -> list[str]:
    lines = []
    if found.repeated:
        lines.append(f"{found.repeated:,} are sent once for questions that are the same")
    if found.elsewhere:
        lines.append(f"{found.elsewhere:,} are under way in {', '.join(found.elsewhere_jobs)}")
    if found.of_user:
        own = counted(found.of_user, "memory", "memories")
        lines.append(f"{own} of your own are left out: live judging has them")
    return lines


def _cap_lines(found: "BatchEstimate") -> list[str]:
    """Say which caps come first; each call is sent only where the most it may cost fits."""
    from xscore.costs.budget_messages import describe_cap

    if found.cost_usd is None:
        return ["the model has no known price, so caps in dollars cannot limit its calls"] if found.caps else []
    return [
        f"above {describe_cap(cap)}: what does not fit waits until it does"
        for cap in found.caps
        if found.cost_usd > cap.left_usd
    ]


@command()
@options(RESCORE_OPTIONS, SCOPE, JUDGE, LIMITS, DRY_RUN, JUDGING)
def rescore_judgments(flags: Flags) -> int:
    """Bring judgments up to date after edits, or under a new judge or prompt version: only what is missing is sent.

    It asks the questions of --queries FILE, or the recent tasks of this repository: those of open sessions and of the
    last 14 days, at most 100. It judges the memories of files with uncommitted changes, of those that differ from a
    revision (--since REV), or all (--all). What the cache has costs nothing.
    """
    given = flags.given
    if given["since"] and given["everything"]:
        raise UsageError("--since and --all contradict each other", hint="Give one of them.")
    if given["batch"] and given["require_shared"]:
        raise UsageError("--require-shared: a batch asks no shared server", hint="Leave out --batch.")

    async def work(pipeline: "Pipeline") -> "ListReport | int":
        from xscore.extensions.batch.list_job import ListOptions, run_live_list

        questions, only = _questions_to_rescore(pipeline.parts, flags), _edited_files(pipeline.parts, flags)
        if given["dry_run"]:
            return _show_plan(pipeline.parts, questions, flags, only)
        if given["batch"]:
            return await _plan_and_send(pipeline.parts, questions, flags, command="rescore", only=only)
        chosen = ListOptions(command="rescore", only=only, ranks=False, started=STARTED_AT)
        return await run_live_list(pipeline.parts, questions, scope=flags.scope, wishes=chosen)

    found, _ = run_turn(flags, work, noun="This rescoring")
    return found if isinstance(found, int) else print_live_job(found, flags.terminal)


def _questions_to_rescore(parts: "PipelineParts", flags: Flags) -> "QuestionList":
    """Return the questions of the file, or the recent tasks, and say which those are."""
    from xscore.extensions.batch.list_job import recent_tasks
    from xscore.pipeline.question_list import read_question_file

    if flags.given["queries"] is not None:
        return read_question_file(flags.given["queries"])
    found = recent_tasks(parts.store.connection, parts.root, now=parts.clock())
    parts.observer.note(found.in_words())
    return found.questions


def _edited_files(parts: "PipelineParts", flags: Flags) -> frozenset[str] | None:
    """Return the files whose memories are judged, and say how many; None: all."""
    from xscore.extensions.batch.list_job import edited_files

    if flags.given["everything"]:
        return None
    since = flags.given["since"] or ""
    found = edited_files(parts.root, since=since)
    what = f"files that differ from {one_line(since)}" if since else "files with uncommitted changes"
    parts.observer.note(f"{what}: {len(found):,}")
    return found


def _show_plan(parts: "PipelineParts", questions: "QuestionList", flags: Flags, only: frozenset[str] | None) -> int:
    """Show what it would take."""
    from xscore.extensions.batch.list_job import plan_live_list

    _, plan = plan_live_list(parts, questions, scope=flags.scope, only=only)
    body = _plan_json(parts, plan, only)
    flags.terminal.print_result(body, lambda _: _render_live_plan(body, parts, plan))
    if not flags.terminal.as_json:
        flags.terminal.note("nothing was sent")
    return 0


def _plan_json(parts: "PipelineParts", plan: "ListPlan", only: frozenset[str] | None) -> "dict[str, Json]":
    from xscore.extensions.batch.list_plan import batch_cost
    from xscore.pipeline.json_form import money_json

    judge, identity = plan.estimate, parts.judge.identity
    return {
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


def _render_live_plan(body: "dict[str, Json]", parts: "PipelineParts", plan: "ListPlan") -> str:
    from xscore.extensions.batch.list_plan import batch_cost

    judge = plan.estimate
    hits = format_share(plan.cached, plan.candidates)
    rows = [
        (
            "list",
            f"{counted(len(plan.rows), 'question')} · {plan.candidates:,} candidates · {plan.cached:,} cached:"
            f" hit rate {hits}",
        ),
        ("judge", f"{one_line(str(body['judge']))} at {one_line(str(body['host']))}"),
    ]
    if judge is not None:
        live, by_batch = (format_dollars(usd, estimated=True) for usd in (judge.cost_usd, batch_cost(parts, judge)))
        in_time = f" in about {format_seconds(judge.seconds)}" if judge.calls else ""
        tokens = f"{format_tokens(judge.input_tokens)} in / {format_tokens(judge.output_tokens)} out"
        rows.append(("send", f"{plan.to_judge:,} to judge · {counted(judge.calls, 'call')} · {tokens}"))
        rows.append(("cost", f"{live} live{in_time}, {by_batch} by batch within a day"))
    return render_facts(rows)
