"""The status of batch jobs and of live lists, as text and as JSON, and their exit codes.

A live list has a line per question, what is unjudged, its cost, and what to do next.
"""

from collections.abc import Iterable, Sequence

from xscore.cli.phrases import LIST_ENDED, RUN_AGAIN, describe_tokens, describe_unjudged
from xscore.cli.text_layout import faint, render_facts, render_table
from xscore.extensions.batch.machine import BUSY_ELSEWHERE
from xscore.extensions.batch.records import Batch, JobStatus, ListReport, QuestionSummary
from xscore.pipeline.json_form import SCHEMA, Json, record_json, stage_usage_json
from xscore.platform.errors import BudgetExhausted, NothingMatched, ProviderError
from xscore.platform.text import (
    DASH,
    counted,
    ellipsize,
    format_dollars,
    format_seconds,
    format_share,
    format_time,
    one_line,
)

PENDING = NothingMatched.exit_code
"""Nothing is wrong, and not all is in."""
UNUSABLE, OVER_BUDGET = ProviderError.exit_code, BudgetExhausted.exit_code
BATCHES_SHOWN = 10


def job_json(found: JobStatus) -> dict[str, Json]:
    """Return one job as it stands in the object of `--json`."""
    rate = round(found.cached / found.candidates, 6) if found.candidates else None
    return {**record_json(found), "pending": found.is_pending, "waiting": found.waiting, "hit_rate": rate}


def jobs_exit_code(found: Iterable[JobStatus]) -> int:
    """Return what `collect` ends with: the worst of its jobs."""
    return max((_code(one) for one in found), default=0)


def _code(found: JobStatus) -> int:
    if not found.is_pending:
        return PENDING if found.problem == BUSY_ELSEWHERE or (found.asked and not found.judged) else 0
    if found.problem and found.problem != BUSY_ELSEWHERE:
        return UNUSABLE
    return OVER_BUDGET if found.over_budget and not found.sent else PENDING


def render_job(found: JobStatus, *, cost: bool = True) -> str:
    """Show one job: its list, what is judged, its batches, its dollars, and what is in the way. cost: its dollars."""
    batches = [one for one in found.batches if one.state != "collected"] or list(found.batches[-1:])
    why = f": {one_line(found.held_back)}" if found.held_back else ""
    rows = [
        ("  list", list_in_words(found.questions, found.candidates, found.cached)),
        ("  judged", f"{found.judged:,} of {found.asked:,} asked{_rest(found)}"),
        *(("  batch", _batch(one)) for one in batches[-BATCHES_SHOWN:]),
        ("", f"and {len(batches) - BATCHES_SHOWN} more (--json)" if len(batches) > BATCHES_SHOWN else ""),
        ("  cost", _job_cost(found) if cost else ""),
        ("  waiting", f"{counted(found.planned, 'request')} not sent yet{why}" if found.planned else ""),
    ]
    head = f"{found.job}  {faint(format_time(found.created_at))} · {one_line(found.judge)} · {_state(found)}"
    return f"{head}\n{render_facts(rows)}"


def list_in_words(questions: int, candidates: int, cached: int) -> str:
    """Say how long a list is, and which share of its candidates the cache had when it was planned."""
    hits = f"{cached:,} cached: hit rate {format_share(cached, candidates)}"
    return f"{counted(questions, 'question')} · {candidates:,} candidates · {hits}"


def next_step(found: JobStatus) -> str:
    """Say what to do next, in one line; empty: nothing."""
    if found.problem:
        return f"{found.job}: {one_line(found.problem)}"
    if found.is_pending and found.over_budget and not found.sent:
        return f"a cap stops the rest: `xscore batch collect {found.job} --max-usd N` goes on"
    if found.is_pending:
        return f"`xscore batch wait {found.job}` waits for the rest"
    if found.unjudged:
        judge = found.judge.replace("openai:", "openai-chat:", 1)  # a batch has chat prompts, whatever live calls have
        return f"`xscore batch run QUERIES.jsonl --judge {one_line(judge)}` asks for the unjudged by live calls"
    return ""


def render_jobs(jobs: Sequence[JobStatus]) -> str:
    """One line a job."""
    heads = ("job", "since", "questions", "judged", "of", "state")
    rows = [
        (job.job, format_time(job.created_at), f"{job.questions:,}", f"{job.judged:,}", f"{job.asked:,}", _state(job))
        for job in jobs
    ]
    return render_table(heads, rows, right=heads[2:5]) if rows else ""


def _state(found: JobStatus) -> str:
    if not found.is_pending:
        if found.asked and not found.judged:
            return "over: nothing was judged"
        if found.unjudged:
            return f"over: {sum(found.unjudged.values()):,} unjudged"
        return "all in"
    parts = [f"{found.sent:,} at the vendor"] if found.sent else []
    parts += [f"{found.planned:,} to be sent"] if found.planned else []
    return "under way: " + (", ".join(parts) or "nothing left to send")


def _rest(found: JobStatus) -> str:
    causes = ", ".join(f"{count:,} {cause}" for cause, count in found.unjudged.items())
    waiting = f" · {found.waiting:,} waiting" if found.waiting else ""
    return waiting + (f" · unjudged: {causes}" if causes else "")


def _batch(one: Batch) -> str:
    status = f", {one_line(one.status)}" if one.status else ""
    seen = f" at {format_time(one.seen_at)}" if one.seen_at is not None else ""
    why = f": {one_line(one.problem)}" if one.problem else ""
    name = one_line(one.vendor_id) or "no id yet"
    return f"{one.number}  {name} · {counted(one.requests, 'request')} · {one.state}{status}{seen}{why}"


def _job_cost(found: JobStatus) -> str:
    unpriced = f" + {found.unpriced:,} unpriced" if found.unpriced else ""
    aside = f" · {format_dollars(found.set_aside_usd)} set aside" if found.set_aside_usd else ""
    cap = f" · cap {format_dollars(found.max_usd)}" if found.max_usd is not None else ""
    return f"{format_dollars(found.spent_usd)}{unpriced}{aside}{cap}"


LINES_SHOWN = 50
"""Questions named on a terminal; all of them stand in the JSON and in the file of results."""
QUESTION_ID_CHARS = 24


def live_job_json(found: ListReport) -> dict[str, Json]:
    """Return the object of `--json`."""
    whole = {name: value for name, value in record_json(found).items() if name not in {"spent", "lines"}}
    lines: list[Json] = [record_json(line) for line in found.lines]
    rate = None if found.hit_rate is None else round(found.hit_rate, 6)
    return {"schema": SCHEMA, **whole, "hit_rate": rate, "usage": stage_usage_json(found.spent), "lines": lines}


def render_live_job(found: ListReport) -> str:
    """One line a question: how many were kept, and the first of them."""
    rows = [(ellipsize(one.id, QUESTION_ID_CHARS), str(one.kept), _best(one)) for one in found.lines[:LINES_SHOWN]]
    rest = len(found.lines) - LINES_SHOWN
    more = f"and {counted(rest, 'question')} more (-o FILE, --json)"
    return render_table(("question", "kept", "first"), rows, right={"kept"}) + (f"\n{faint(more)}" if rest > 0 else "")


def _best(one: QuestionSummary) -> str:
    return DASH if one.best_score is None else f"{one.best_score:.2f}  {one_line(one.best)}"


def render_live_account(found: ListReport) -> str:
    """Say what stayed unjudged, why it ended early if it did, and what it came to."""
    lines = []
    if found.coverage.unjudged:
        lines.append(f"{describe_unjudged(found.coverage, found.unjudged_by_cause)}; --json says of which questions.")
    if found.ended:
        detail = f" ({one_line(found.detail)})" if found.detail and found.ended in ("budget", "provider") else ""
        lines.append(f"{LIST_ENDED[found.ended]}{detail}.")
    elif found.coverage.unjudged:
        lines.append(f"{RUN_AGAIN[0].upper()}{RUN_AGAIN[1:]}.")
    if found.out:
        lines.append(f"{counted(found.rows, 'row')} in {one_line(found.out)}")
    return "\n".join([*lines, faint(_live_cost(found))])


def _live_cost(found: ListReport) -> str:
    cover, usage = found.coverage, found.spent.usage
    parts = [counted(found.questions, "question"), f"{cover.judged:,} judged", f"{cover.cached:,} cached"]
    if found.is_model:
        planned = f"planned with {format_share(found.cached, found.candidates)} replayed"
        parts += [planned, counted(found.spent.calls, "call")]
    if usage.input_tokens:
        parts.append(describe_tokens(usage.input_tokens, usage.output_tokens))
    parts += [format_dollars(found.spent.cost_usd, estimated=found.spent.estimated), format_seconds(found.seconds)]
    return " · ".join([*parts, *([f"job {found.job}"] if found.job else [])])
