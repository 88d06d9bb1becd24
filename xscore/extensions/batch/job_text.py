"""How jobs stand, for people and as JSON, and what a command about them ends with.

A list that was judged live, for people and as JSON: a line a question, what is unjudged, what it cost, what next.
"""

from collections.abc import Iterable, Sequence

from xscore.cli.terminal import faint
from xscore.extensions.batch.list_job import ListReport
from xscore.extensions.batch.machine import BUSY_ELSEWHERE
from xscore.extensions.batch.results import QuestionSummary
from xscore.pipeline.json_form import SCHEMA, Json, record_json, stage_usage_json
from xscore.platform.errors import BudgetExhausted, NothingMatched, ProviderError
from xscore.platform.text import (
    counted,
    format_dollars,
    format_seconds,
    format_share,
    format_time,
    format_tokens,
    one_line,
)
from xscore.records.batch import BatchStatus, JobStatus

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
    lines = [
        f"{found.job}  {faint(format_time(found.created_at))} · {one_line(found.judge)} · {_state(found)}",
        f"  list     {counted(found.questions, 'question')} · {found.candidates:,} candidates ·"
        f" {found.cached:,} cached: replayed hit rate {format_share(found.cached, found.candidates)}",
        f"  judged   {found.judged:,} of {found.asked:,} asked{_rest(found)}",
    ]
    batches = [one for one in found.batches if one.state != "collected"] or list(found.batches[-1:])
    lines += [f"  batch    {_batch(one)}" for one in batches[-BATCHES_SHOWN:]]
    if len(batches) > BATCHES_SHOWN:
        lines.append(faint(f"           and {len(batches) - BATCHES_SHOWN} more (--json)"))
    if cost and (found.command == "submit" or found.batches):
        lines.append(f"  cost     {_job_cost(found)}")
    if found.planned:
        why = f": {one_line(found.held_back)}" if found.held_back else ""
        lines.append(f"  waiting  {counted(found.planned, 'request')} not sent yet{why}")
    return "\n".join(lines)


def next_step(found: JobStatus) -> str:
    """Say what to do next, in one line; empty: nothing."""
    if found.problem:
        return f"{found.job}: {one_line(found.problem)}"
    if found.is_pending and found.over_budget and not found.sent:
        return f"a cap stops the rest: `xscore batch collect {found.job} --max-usd N` goes on"
    if found.is_pending:
        return f"`xscore batch wait {found.job}` waits for the rest"
    if found.unjudged:
        return f"`xscore batch collect {found.job} --live` asks for the unjudged by live calls"
    return ""


def render_jobs(jobs: Sequence[JobStatus]) -> str:
    """One line a job."""
    head = faint(f"{'job':<20}{'since':<18}{'questions':>10}{'judged':>10}{'of':>10}  state")
    return "\n".join([head, *(_job_line(job) for job in jobs)])


def _job_line(found: JobStatus) -> str:
    figures = f"{found.questions:>10,}{found.judged:>10,}{found.asked:>10,}"
    return f"{found.job:<20}{format_time(found.created_at):<18}{figures}  {_state(found)}"


def _state(found: JobStatus) -> str:
    if not found.is_pending:
        if found.asked and not found.judged:
            return "over: nothing was judged"
        if found.unjudged:
            return f"over: {sum(found.unjudged.values()):,} unjudged"
        return "all in" if found.answered or found.lost or found.batches else "judged live"
    parts = [f"{found.sent:,} at the vendor"] if found.sent else []
    parts += [f"{found.planned:,} to be sent"] if found.planned else []
    return "under way: " + (", ".join(parts) or "nothing left to send")


def _rest(found: JobStatus) -> str:
    causes = ", ".join(f"{count:,} {cause}" for cause, count in found.unjudged.items())
    waiting = f" · {found.waiting:,} waiting" if found.waiting else ""
    return waiting + (f" · unjudged: {causes}" if causes else "")


def _batch(one: BatchStatus) -> str:
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
PARTLY_SHOWN = 10
"""Questions with unjudged candidates that are named; all of them under --verbose."""
QUESTION_ID_CHARS = 24
RUN_LIST_AGAIN = "run the same command again to go on; what was judged costs nothing again"
LIVE_ENDED_WORDS = {
    "interrupted": f"interrupted: {RUN_LIST_AGAIN}",
    "budget": f"the budget came first: raise --max-usd, then {RUN_LIST_AGAIN}",
    "deadline": f"the deadline came first: {RUN_LIST_AGAIN}",
    "provider": f"the judge could not be asked any more: {RUN_LIST_AGAIN}",
    "replay": "leave out --replay to have the rest judged",
}


def live_job_json(found: ListReport) -> dict[str, Json]:
    """Return the object of `--json`."""
    whole = {name: value for name, value in record_json(found).items() if name not in {"spent", "lines"}}
    lines: list[Json] = [record_json(line) for line in found.lines]
    rate = None if found.hit_rate is None else round(found.hit_rate, 6)
    return {"schema": SCHEMA, **whole, "hit_rate": rate, "usage": stage_usage_json(found.spent), "lines": lines}


def render_live_job(found: ListReport) -> str:
    """One line a question: how many were kept, and the first of them."""
    lines = [faint(f"{'question':<26}{'kept':>5}  first")]
    lines += [_question_line(line) for line in found.lines[:LINES_SHOWN]]
    if len(found.lines) > LINES_SHOWN:
        rest = counted(len(found.lines) - LINES_SHOWN, "question")
        lines.append(faint(f"and {rest} more (-o FILE, --json)"))
    return "\n".join(lines)


def render_live_account(found: ListReport, *, verbose: bool) -> str:
    """Say where candidates stayed unjudged, why it ended early if it did, and what it came to."""
    lines = []
    partly = [line for line in found.lines if line.coverage.unjudged]
    shown = partly if verbose else partly[:PARTLY_SHOWN]
    lines += [f"{_short_question(line.id)}: {_coverage(line)}" for line in (found.lines if verbose else shown)]
    if len(partly) > len(shown):
        lines.append(f"and {counted(len(partly) - len(shown), 'question')} more with unjudged candidates (--verbose)")
    cover = found.coverage
    if cover.unjudged:
        causes = ", ".join(f"{count:,} {cause}" for cause, count in found.unjudged_by_cause.items())
        lines.append(f"{counted(cover.unjudged, 'candidate')} of {cover.candidates:,} unjudged ({causes}).")
    if found.ended:
        detail = f" ({one_line(found.detail)})" if found.detail and found.ended in ("budget", "provider") else ""
        lines.append(f"{LIVE_ENDED_WORDS[found.ended]}{detail}.")
    elif cover.unjudged:
        lines.append(f"{RUN_LIST_AGAIN[0].upper()}{RUN_LIST_AGAIN[1:]}.")
    if found.out:
        lines.append(f"{counted(found.rows, 'row')} in {one_line(found.out)}")
    return "\n".join([*lines, faint(_live_cost(found))])


def hit_rate_in_words(cached: int, candidates: int) -> str:
    """`replayed hit rate 42 %`: the share of all candidates that the cache had when the list was planned."""
    return f"replayed hit rate {format_share(cached, candidates)}"


def _live_cost(found: ListReport) -> str:
    cover, usage = found.coverage, found.spent.usage
    parts = [counted(found.questions, "question"), f"{cover.judged:,} judged", f"{cover.cached:,} cached"]
    if found.is_model:
        planned = f"planned with {format_share(found.cached, found.candidates)} replayed"
        parts += [planned, counted(found.spent.calls, "call")]
    if usage.input_tokens:
        parts.append(f"{format_tokens(usage.input_tokens)} in / {format_tokens(usage.output_tokens)} out")
    parts += [format_dollars(found.spent.cost_usd, estimated=found.spent.estimated), format_seconds(found.seconds)]
    return " · ".join([*parts, *([f"job {found.job}"] if found.job else [])])


def _question_line(line: QuestionSummary) -> str:
    best = "–" if line.best_score is None else f"{line.best_score:.2f}  {one_line(line.best)}"
    return f"{_short_question(line.id):<26}{line.kept:>5}  {best}"


def _coverage(line: QuestionSummary) -> str:
    cover = line.coverage
    parts = [f"{cover.candidates:,} candidates", f"{cover.judged:,} judged", f"{cover.cached:,} cached"]
    causes = ", ".join(f"{count:,} {cause}" for cause, count in line.unjudged_by_cause.items())
    return ", ".join([*parts, f"{cover.unjudged:,} unjudged" + (f" ({causes})" if causes else "")])


def _short_question(text: str) -> str:
    line = one_line(text.strip())
    return line if len(line) <= QUESTION_ID_CHARS else line[: QUESTION_ID_CHARS - 1] + "…"
