"""`xscore batch purposes`: have a model write what files, classes and folders are for.

One command, run again until every purpose is there: it fetches what a vendor has done, says what is
missing and what that costs, asks, and sends it. Nothing else of xscore ever sends such a request.
"""

from decimal import Decimal
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from xscore.cli.flags import Flags, command
from xscore.cli.options import DRY_RUN, MAX_USD, YES, option
from xscore.cli.phrases import describe_tokens
from xscore.cli.pipeline_run import run_with_pipeline
from xscore.cli.settings_and_store import opened_store
from xscore.cli.text_layout import render_facts
from xscore.extensions.batch.commands import job_json, jobs_exit_code, next_step, render_job
from xscore.extensions.batch.job_advance import advance_job
from xscore.extensions.batch.purpose_live import LivePurposes, write_live
from xscore.extensions.batch.purpose_plan import (
    PurposePlan,
    jobs_under_way,
    plan_purposes,
    save_purpose_job,
    writer_of,
)
from xscore.extensions.batch.records import JobStatus
from xscore.extensions.batch.vendor_batches import batch_host
from xscore.pipeline.json_form import Json, money_json, record_json
from xscore.pipeline.question_list import confirm_list_cost
from xscore.platform import database
from xscore.platform.errors import ExitCode, ProviderError
from xscore.platform.figures import format_dollars
from xscore.platform.text import counted, one_line
from xscore.records.estimates import JudgeEstimate
from xscore.store.purposes import erase_purposes
from xscore.store.scrubbing import scrub_database

if TYPE_CHECKING:
    from xscore.pipeline.build import Pipeline
    from xscore.pipeline.judge_description import JudgeDescription
    from xscore.pipeline.parts import PipelineParts

_MODEL = [
    option(
        "--model",
        "purpose_model",
        metavar="SPEC",
        sets="batch.purpose_model",
        help="The chat model that writes them, as provider:model; default: the judge's.",
    )
]
SCRUB_S = 5.0
_JUDGED_AGAIN = (
    "`judge.purposes` is on: memories of a file are judged again when its line changes; `xscore"
    " estimate` shows the cost"
)
_HINT = "Pass --yes, or --max-usd to pay for a part."


class PurposesDone(Struct, frozen=True, kw_only=True):
    """What one run found and did."""

    plan: PurposePlan
    jobs: tuple[JobStatus, ...] = ()
    live: LivePurposes | None = None


@command(_MODEL, MAX_USD, YES, DRY_RUN)
@click.option(
    "--live", is_flag=True, help="Use live calls: for a local model, or for results at once."
)
@click.option("--erase", is_flag=True, help="Erase all purposes, and send nothing.")
def write_purposes(*, live: bool, erase: bool, flags: Flags) -> int:
    """Have a model describe each file, class and folder in one line.

    Only what lacks a purpose is sent: outlines without bodies, secrets redacted. Run it again to
    fetch a batch and to continue; an unchanged file is never paid for twice. Scores by words use
    the lines of files; `explain`, `graph` and the context show them. A model as the judge sees them
    where `judge.purposes` is on.
    """
    if erase:
        return _erase(flags)
    return run_with_pipeline(
        flags, lambda pipeline: _write(pipeline, flags, live=live), noun="Writing purposes"
    )


def _erase(flags: Flags) -> int:
    with opened_store(flags, make=False) as store:
        with database.transaction(store.connection) as opened:
            count = erase_purposes(opened)
        is_clean = scrub_database(store.connection, timeout_s=SCRUB_S)
    flags.terminal.print_result(
        {"erased": count, "clean": is_clean}, f"{counted(count, 'purpose')} erased"
    )
    return ExitCode.DONE if is_clean else ExitCode.STORE


async def _write(pipeline: "Pipeline", flags: Flags, *, live: bool) -> int:
    parts = pipeline.parts
    writer = writer_of(parts)
    statuses = [] if flags.dry_run else await _advance(parts)
    plan = plan_purposes(parts, writer)
    done = PurposesDone(plan=plan, jobs=tuple(statuses))
    terminal = flags.terminal
    if not terminal.as_json:
        terminal.lines(_render_plan(plan, live=live))
    if plan.to_write and not flags.dry_run:
        if parts.settings.judge.purposes:
            terminal.notes([_JUDGED_AGAIN])
        _confirm(parts, plan, live=live)
        if live:
            done = PurposesDone(
                plan=plan, jobs=done.jobs, live=await write_live(parts, writer, plan)
            )
        else:
            done = PurposesDone(plan=plan, jobs=(*done.jobs, await _send(parts, writer, plan)))
    _print(done, flags)
    return _exit_code(done)


async def _advance(parts: "PipelineParts") -> list[JobStatus]:
    """Fetch what a vendor has done, and send what waited."""
    statuses: list[JobStatus] = []
    for job in jobs_under_way(parts):
        statuses.append(
            await advance_job(
                parts.store, parts.settings, job.id, clock=parts.clock, note=parts.observer.note
            )
        )
    return statuses


async def _send(
    parts: "PipelineParts", writer: "JudgeDescription", plan: PurposePlan
) -> JobStatus:
    # A host without a Batch API is refused before a job is made.
    batch_host(writer.connected())
    job = save_purpose_job(parts, writer, plan)
    return await advance_job(
        parts.store, parts.settings, job, clock=parts.clock, note=parts.observer.note
    )


def _confirm(parts: "PipelineParts", plan: PurposePlan, *, live: bool) -> None:
    """Ask before a costly job. Raises UsageError when the user declines."""
    estimate = JudgeEstimate(
        candidates=plan.to_write,
        to_judge=plan.to_write,
        calls=plan.requests,
        input_tokens=plan.input_tokens,
        output_tokens=plan.output_tokens,
        cost_usd=plan.live_usd if live else _batch_usd(plan),
    )
    confirm_list_cost(parts, estimate, hint=_HINT)


def _batch_usd(plan: PurposePlan) -> Decimal | None:
    """Return what a batch costs; at a host without such a price the live one counts."""
    if plan.batch_usd is None:
        return plan.live_usd
    return plan.batch_usd


def _render_plan(plan: PurposePlan, *, live: bool) -> str:
    standing = f"{plan.written:,} of {plan.subjects:,} files, classes and folders have one"
    if plan.under_way:
        standing += f", {plan.under_way:,} are under way"
    rows = [("purposes", standing)]
    if plan.to_write:
        tokens = describe_tokens(plan.input_tokens, plan.output_tokens)
        calls = counted(plan.requests, "request")
        rows.append(("to write", f"{plan.to_write:,} · {calls} · about {tokens}"))
        rows.append(("by", one_line(f"{plan.writer} at {plan.host}")))
        live_usd = format_dollars(plan.live_usd, estimated=True)
        usd = f"{live_usd} live"
        if plan.batch_usd is not None and not live:
            usd = f"{format_dollars(plan.batch_usd, estimated=True)} by batch, {usd}"
        rows.append(("cost", usd))
    return render_facts(rows)


def _print(done: PurposesDone, flags: Flags) -> None:
    terminal = flags.terminal
    lines: list[str] = [render_job(status, cost=not terminal.quiet) for status in done.jobs]
    if done.live is not None:
        lines.append(_render_live(done.live))
    notes: list[str] = []
    for status in done.jobs:
        notes += [*status.remarks, next_step(status)]
    if flags.dry_run:
        notes.append("nothing was sent")
    elif not done.plan.to_write and not done.plan.under_way:
        notes.append("every file, class and folder has a purpose")
    terminal.print_result(_json(done, dry_run=flags.dry_run), "\n".join(lines))
    terminal.notes(notes)


def _render_live(live: LivePurposes) -> str:
    text = f"{live.written:,} written · {counted(live.calls, 'call')} · "
    text += format_dollars(live.cost_usd)
    if live.refused:
        text += f" · {live.refused:,} not kept: they name things that are not in their source"
    if live.problem:
        text += f"\nended early: {one_line(live.problem)}"
    return text


def _json(done: PurposesDone, *, dry_run: bool) -> dict[str, Json]:
    plan = done.plan
    live: Json = None
    if done.live is not None:
        live = {**record_json(done.live), "cost_usd": money_json(done.live.cost_usd)}
    return {
        "dry_run": dry_run,
        "writer": plan.writer,
        "host": plan.host,
        "subjects": plan.subjects,
        "written": plan.written,
        "under_way": plan.under_way,
        "to_write": plan.to_write,
        "requests": plan.requests,
        "input_tokens": plan.input_tokens,
        "output_tokens": plan.output_tokens,
        "batch_usd": money_json(plan.batch_usd),
        "live_usd": money_json(plan.live_usd),
        "jobs": [job_json(status) for status in done.jobs],
        "live": live,
    }


def _exit_code(done: PurposesDone) -> int:
    code = jobs_exit_code(done.jobs)
    if done.live is not None and done.live.problem:
        is_over = done.live.is_over_budget
        code = max(code, ExitCode.BUDGET if is_over else ProviderError.exit_code)
    return code
