"""`xscore batch run | submit | rescore`: lists of questions judged live, or through a vendor's
Batch API.

They show the plan, ask for confirmation and print the outcome. `list_job` judges live, `machine`
sends batches.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from xscore.cli.flags import Flags, command
from xscore.cli.judging_phrases import describe_seconds
from xscore.cli.options import (
    COUNT,
    DRY_RUN,
    INPUT_FILE,
    JUDGE,
    JUDGING,
    LIMITS,
    LIST_OPTIONS,
    MAX_USD,
    RESULTS_FILE,
    SCOPE,
    YES,
)
from xscore.cli.phrases import LIST_ENDED, RUN_AGAIN, describe_tokens, describe_unjudged
from xscore.cli.pipeline_run import run_with_pipeline
from xscore.cli.start import STARTED_AT
from xscore.cli.terminal import Terminal, print_json, write_stdout
from xscore.cli.text_layout import faint, render_facts, render_table
from xscore.costs.caps import describe_cap
from xscore.extensions.batch.commands import job_json, list_in_words, next_step, render_job
from xscore.extensions.batch.job_advance import advance_job
from xscore.extensions.batch.job_draft import (
    JobDraft,
    batch_cost,
    batch_judge,
    confirm_job,
    draft_job,
    save_job,
)
from xscore.extensions.batch.list_job import edited_files, recent_tasks, run_live_list
from xscore.extensions.batch.list_plan import (
    ListOptions,
    ListPlan,
    judge_name,
    judge_option,
    plan_live_list,
    remarks_on_final_round,
)
from xscore.extensions.batch.records import JobStatus, ListReport, QuestionSummary, hit_rate
from xscore.extensions.batch.sending import batch_limits
from xscore.extensions.batch.vendor_batches import batch_host
from xscore.pipeline.json_form import SCHEMA, Json, money_json, record_json, stage_usage_json
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.question_list import QuestionList, read_question_file
from xscore.platform.errors import BudgetExhausted, ProviderError, UsageError, XscoreError
from xscore.platform.figures import DASH, format_dollars, format_seconds, format_share
from xscore.platform.text import counted, ellipsize, one_line

if TYPE_CHECKING:
    from xscore.pipeline.build import Pipeline

QUESTIONS = click.argument("questions", metavar="QUERIES.jsonl", type=INPUT_FILE)


@command(RESULTS_FILE, LIST_OPTIONS)
@QUESTIONS
@click.option(
    "--ray",
    metavar="N",
    type=COUNT,
    help="Judge by N actors of Ray Data (extra `ray`; needs shared.url).",
)
def run_batch(questions: Path, *, ray: int | None, flags: Flags) -> int:
    """Judge a list of questions against every memory by live calls, for servers without a Batch
    API, or when you are in a hurry.

    QUERIES.jsonl has one question a line: {"id": "q1", "task": "…"}, and where they help "file" and
    "errors"; `-` reads it from standard input. Every judgment is saved as it comes. After Ctrl-C, a
    cap or a kill, run the same command to continue; nothing is paid for twice. --max-usd caps the
    whole list.
    """
    listed = read_question_file(questions)
    options = ListOptions(
        scope=flags.scope, out=flags.given["output"], actors=ray or 0, started=STARTED_AT
    )
    report = run_with_pipeline(
        flags, lambda pipeline: run_live_list(pipeline.parts, listed, options), noun="This list"
    )
    return _print_live_job(report, flags.terminal)


def _print_live_job(report: ListReport, terminal: Terminal) -> int:
    if terminal.as_json:
        print_json(_live_job_json(report))
    elif report.lines and report.command == "run" and not report.out:
        write_stdout(_render_live_job(report))
    terminal.notes(report.warnings)
    if not terminal.as_json:
        terminal.lines(_render_live_account(report))
    return report.exit_code


@command(SCOPE, JUDGE, MAX_USD, YES, DRY_RUN, JUDGING)
@QUESTIONS
def submit_batch(questions: Path, flags: Flags) -> int:
    """Have every memory judged against a list of questions through the vendor's Batch API, at half
    the price.

    QUERIES.jsonl has one question a line: {"id": "q1", "task": "…"}, with "file" and "errors" where
    they help; `-` reads standard input. Only what the cache lacks is sent. Results come within a
    day: `xscore batch collect`.
    """
    listed = read_question_file(questions)
    options = ListOptions(scope=flags.scope, command="submit")

    async def work(pipeline: "Pipeline") -> int:
        flags.terminal.notes(remarks_on_final_round(pipeline.parts))
        return await _plan_and_send(pipeline.parts, listed, options, flags)

    return run_with_pipeline(flags, work, noun="This job")


def _with_batch_judge(parts: PipelineParts, terminal: Terminal) -> PipelineParts:
    """Return the parts with the judge that a Batch API has, and say so where it is not the chosen
    one."""
    judge = batch_judge(parts)
    is_other = judge is not parts.judge
    parts = replace(parts, judge=judge)
    if is_other:
        terminal.note(
            "the Batch API does not accept decision calls, so this list is judged by chat: only"
            f" turns with `--judge {judge_option(parts)}` reuse its judgments. For judgments that"
            " your other turns reuse, use `xscore batch run`."
        )
    return parts


async def _plan_and_send(
    parts: PipelineParts, questions: QuestionList, options: ListOptions, flags: Flags
) -> int:
    parts = _with_batch_judge(parts, flags.terminal)
    terminal = flags.terminal
    host = batch_host(batch_judge(parts).connected())
    limits = batch_limits(host.limits, parts.settings.batch, parts.store)
    draft = draft_job(parts, questions, options, limits=limits)
    plan = draft.plan
    if (flags.dry_run or not terminal.quiet) and not terminal.as_json:
        write_stdout(_render_draft(parts, draft))
    if not draft.planner.requests and plan.elsewhere:
        jobs = plan.elsewhere_jobs
        raise UsageError(
            f"all that is left of this list is under way already, in {', '.join(jobs)}",
            hint=f"Collect it with `xscore batch collect {jobs[0]}`.",
        )
    status = None
    if draft.planner.requests and not flags.dry_run:
        status = await _send(parts, draft, terminal)
    if terminal.as_json:
        standing = job_json(status) if status else None
        print_json(
            {
                **_draft_json(parts, draft),
                "job": status.job if status else None,
                "standing": standing,
            }
        )
    if status is None:
        terminal.notes(
            [] if draft.planner.requests else ["nothing is left to judge: no job was made"]
        )
        return 0
    if not terminal.as_json:
        write_stdout(render_job(status, cost=not terminal.quiet))
    terminal.notes([*status.remarks, next_step(status)])
    if status.sent or status.answered:
        return 0
    if status.over_budget:
        return BudgetExhausted.exit_code
    if status.problem:
        return ProviderError.exit_code
    return 0


async def _send(parts: PipelineParts, draft: JobDraft, terminal: Terminal) -> JobStatus:
    confirm_job(parts, draft)
    job = save_job(parts, draft)
    try:
        return await advance_job(
            parts.store, parts.settings, job, clock=parts.clock, note=parts.observer.note
        )
    except XscoreError:
        terminal.note(f"the job is kept: `xscore batch collect {job}` continues it")
        raise


def _render_draft(parts: PipelineParts, draft: JobDraft) -> str:
    plan = draft.plan
    judge = draft.plan.estimate
    batches = ""
    if draft.batches:
        batches = f" · about {counted(draft.batches, 'batch', 'batches')}"
    by_batch = format_dollars(draft.cost_usd, estimated=True)
    live = format_dollars(judge.cost_usd, estimated=True)
    tokens = describe_tokens(judge.input_tokens, judge.output_tokens)
    calls = (
        f"{counted(len(draft.planner.requests), 'call')} of"
        f" {counted(len(draft.planner.prompts), 'prompt')}"
    )
    facts = _list_and_judge(parts, plan)
    facts.append(("send", f"{plan.to_judge:,} to judge · {calls} · {tokens}{batches}"))
    facts.append(("cost", f"{by_batch} by batch, {live} live"))
    facts += [("", line) for line in (*_exclusion_lines(draft), *_cap_lines(draft))]
    return render_facts(facts)


def _list_and_judge(parts: PipelineParts, plan: ListPlan) -> list[tuple[str, str]]:
    listed = list_in_words(len(plan.rows), plan.candidates, plan.cached)
    return [
        ("list", listed),
        ("judge", one_line(f"{judge_option(parts)} at {parts.judge.identity.host}")),
    ]


def _exclusion_lines(draft: JobDraft) -> list[str]:
    plan = draft.plan
    of_user = draft.plan.of_user
    user_memories = counted(of_user, "memory", "memories")
    lines = {
        f"{plan.repeated:,} are sent once for questions that are the same": plan.repeated,
        f"{plan.elsewhere:,} are under way in {', '.join(plan.elsewhere_jobs)}": plan.elsewhere,
        f"{user_memories} of your own are left out: only live judging includes them": of_user,
    }
    return [line for line, count in lines.items() if count]


def _cap_lines(draft: JobDraft) -> list[str]:
    if draft.cost_usd is None:
        if draft.caps:
            return ["the model has no known price, so caps in dollars cannot limit its calls"]
        return []
    lines: list[str] = []
    for cap in draft.caps:
        if draft.cost_usd > cap.left_usd:
            lines.append(f"above {describe_cap(cap)}: what does not fit waits until it does")
    return lines


@command(SCOPE, JUDGE, LIMITS, DRY_RUN, JUDGING)
@click.option(
    "--since", metavar="REV", help="Memories of files that differ from this revision."
)
@click.option("--all", "everything", is_flag=True, help="All memories.")
@click.option(
    "--queries",
    metavar="FILE",
    type=INPUT_FILE,
    help="A file of questions; default: the recent tasks.",
)
@click.option("--batch", is_flag=True, help="Use the vendor's Batch API; results within a day.")
def rescore_judgments(
    *, since: str | None, everything: bool, queries: Path | None, batch: bool, flags: Flags
) -> int:
    """Bring judgments up to date after edits, or under a new judge or prompt version: only what is
    missing is sent.

    It asks the questions of --queries FILE, or the recent tasks of this repository: those of open
    sessions and of the last 14 days, at most 100. It judges the memories of files with uncommitted
    changes, of those that differ from a revision (--since REV), or all (--all). What the cache has
    costs nothing.
    """
    if since and everything:
        raise UsageError("--since and --all contradict each other", hint="Give one of them.")
    if batch and flags.given["require_shared"]:
        raise UsageError(
            "--require-shared: batches do not use the shared server", hint="Leave out --batch."
        )

    async def work(pipeline: "Pipeline") -> ListReport | int:
        parts = pipeline.parts
        questions = recent_tasks(parts) if queries is None else read_question_file(queries)
        only = None if everything else edited_files(parts, since=since or "")
        options = ListOptions(
            scope=flags.scope, command="rescore", only=only, started=STARTED_AT
        )
        if flags.dry_run:
            if batch:
                parts = _with_batch_judge(parts, flags.terminal)
            plan = plan_live_list(parts, questions, options)
            flags.terminal.print_result(
                _live_plan_json(parts, plan, only), _render_live_plan(parts, plan)
            )
            flags.terminal.note("nothing was sent")
            return 0
        if batch:
            return await _plan_and_send(parts, questions, options, flags)
        return await run_live_list(parts, questions, options)

    report = run_with_pipeline(flags, work, noun="This rescoring")
    if isinstance(report, int):
        return report
    return _print_live_job(report, flags.terminal)


def _plan_json(parts: PipelineParts, plan: ListPlan) -> dict[str, Json]:
    return {
        "judge": judge_name(parts),
        "judge_option": judge_option(parts),
        "host": parts.judge.identity.host,
        "questions": len(plan.rows),
        "candidates": plan.candidates,
        "cached": plan.cached,
        "hit_rate": hit_rate(plan.cached, plan.candidates),
        "to_judge": plan.to_judge,
        "elsewhere": plan.elsewhere,
        "elsewhere_jobs": list(plan.elsewhere_jobs),
        "input_tokens": plan.estimate.input_tokens,
        "output_tokens": plan.estimate.output_tokens,
    }


def _draft_json(parts: PipelineParts, draft: JobDraft) -> dict[str, Json]:
    return {
        **_plan_json(parts, draft.plan),
        "repeated": draft.plan.repeated,
        "of_user": draft.plan.of_user,
        "requests": len(draft.planner.requests),
        "prompts": len(draft.planner.prompts),
        "batches": draft.batches,
        "cost_usd": money_json(draft.cost_usd),
        "live_usd": money_json(draft.plan.estimate.cost_usd),
        "caps": [record_json(cap) for cap in draft.caps],
    }


def _live_plan_json(
    parts: PipelineParts, plan: ListPlan, only: frozenset[str] | None
) -> dict[str, Json]:
    judge = plan.estimate
    return {
        "dry_run": True,
        **_plan_json(parts, plan),
        "files": None if only is None else len(only),
        "calls": judge.calls,
        "live_usd": money_json(judge.cost_usd),
        "batch_usd": money_json(batch_cost(parts, judge)),
        "seconds": round(judge.seconds, 6),
    }


def _render_live_plan(parts: PipelineParts, plan: ListPlan) -> str:
    judge = plan.estimate
    live = format_dollars(judge.cost_usd, estimated=True)
    batch_usd = batch_cost(parts, judge)
    in_time = ""
    if judge.calls:
        in_time = f" in {describe_seconds(judge, about=True)}"
    if batch_usd is None:
        by_batch = ""
    else:
        by_batch = f", {format_dollars(batch_usd, estimated=True)} by batch within a day"
    tokens = describe_tokens(judge.input_tokens, judge.output_tokens)
    return render_facts(
        [
            *_list_and_judge(parts, plan),
            ("send", f"{plan.to_judge:,} to judge · {counted(judge.calls, 'call')} · {tokens}"),
            ("cost", f"{live} live{in_time}{by_batch}"),
        ]
    )


LINES_SHOWN = 50
"""Questions listed on a terminal; the JSON and the results file have all."""
QUESTION_ID_CHARS = 24


def _live_job_json(report: ListReport) -> dict[str, Json]:
    fields = {name: value for name, value in record_json(report).items() if name != "spent"}
    rate = hit_rate(report.cached, report.candidates)
    return {
        "schema": SCHEMA,
        **fields,
        "hit_rate": rate,
        "usage": stage_usage_json(report.spent),
    }


def _render_live_job(report: ListReport) -> str:
    rows = []
    for line in report.lines[:LINES_SHOWN]:
        rows.append((ellipsize(line.id, QUESTION_ID_CHARS), str(line.kept), _best(line)))
    rest = len(report.lines) - LINES_SHOWN
    note = f"and {counted(rest, 'question')} more (-o FILE, --json)"
    return render_table(("question", "kept", "first"), rows, right={"kept"}) + (
        f"\n{faint(note)}" if rest > 0 else ""
    )


def _best(question: QuestionSummary) -> str:
    if question.best_score is None:
        return DASH
    return f"{question.best_score:.2f}  {one_line(question.best)}"


def _render_live_account(report: ListReport) -> str:
    lines = []
    if report.coverage.unjudged:
        lines.append(
            f"{describe_unjudged(report.coverage, report.unjudged_by_cause)}; --json lists the"
            " questions."
        )
    if report.ended:
        detail = ""
        if report.detail and report.ended in ("budget", "provider"):
            detail = f" ({one_line(report.detail)})"
        lines.append(f"{LIST_ENDED[report.ended]}{detail}.")
    elif report.coverage.unjudged:
        lines.append(f"{RUN_AGAIN[0].upper()}{RUN_AGAIN[1:]}.")
    if report.out:
        lines.append(f"{counted(report.rows, 'row')} in {one_line(report.out)}")
    return "\n".join([*lines, faint(_live_cost(report))])


def _live_cost(report: ListReport) -> str:
    cover = report.coverage
    usage = report.spent.usage
    parts = [
        counted(report.questions, "question"),
        f"{cover.judged:,} judged",
        f"{cover.cached:,} cached",
    ]
    if report.by_model:
        planned = f"planned with {format_share(report.cached, report.candidates)} replayed"
        parts += [planned, counted(report.spent.calls, "call")]
    if usage.input_tokens:
        parts.append(describe_tokens(usage.input_tokens, usage.output_tokens))
    parts += [
        format_dollars(report.spent.cost_usd, estimated=report.spent.estimated),
        format_seconds(report.seconds),
    ]
    return " · ".join([*parts, *([f"job {report.job}"] if report.job else [])])
