"""How jobs stand, for people and as JSON, and what a command about them ends with."""

from collections.abc import Iterable, Sequence

from xscore.cli.terminal import faint
from xscore.errors import BudgetExhausted, NothingMatched, ProviderError
from xscore.offline.machine import BUSY
from xscore.pipeline.receipt import Json, plain
from xscore.records.offline import BatchStanding, Standing
from xscore.safe_text import one_line
from xscore.wording import counted, dollars, moment, share

PENDING = NothingMatched.exit_code
"""Nothing is wrong, and not all is in."""
UNUSABLE, OVER_BUDGET = ProviderError.exit_code, BudgetExhausted.exit_code
BATCHES_SHOWN = 10


def as_json(found: Standing) -> dict[str, Json]:
    """Return one job as it stands in the object of `--json`."""
    rate = round(found.cached / found.candidates, 6) if found.candidates else None
    return {**plain(found), "pending": found.is_pending, "waiting": found.waiting, "hit_rate": rate}


def exit_code(found: Iterable[Standing]) -> int:
    """Return what `collect` ends with: the worst of its jobs."""
    return max((_code(one) for one in found), default=0)


def _code(found: Standing) -> int:
    if not found.is_pending:
        return PENDING if found.problem == BUSY or (found.asked and not found.judged) else 0
    if found.problem and found.problem != BUSY:
        return UNUSABLE
    return OVER_BUDGET if found.over_budget and not found.sent else PENDING


def page(found: Standing, *, cost: bool = True) -> str:
    """Show one job: its list, what is judged, its batches, its dollars, and what is in the way. cost: its dollars."""
    lines = [
        f"{found.job}  {faint(moment(found.created_at))} · {one_line(found.judge)} · {_state(found)}",
        f"  list     {counted(found.questions, 'question')} · {found.candidates:,} candidates ·"
        f" {found.cached:,} cached: replayed hit rate {share(found.cached, found.candidates)}",
        f"  judged   {found.judged:,} of {found.asked:,} asked{_rest(found)}",
    ]
    batches = [one for one in found.batches if one.state != "collected"] or list(found.batches[-1:])
    lines += [f"  batch    {_batch(one)}" for one in batches[-BATCHES_SHOWN:]]
    if len(batches) > BATCHES_SHOWN:
        lines.append(faint(f"           and {len(batches) - BATCHES_SHOWN} more (--json)"))
    if cost and (found.command == "submit" or found.batches):
        lines.append(f"  cost     {_cost(found)}")
    if found.planned:
        why = f": {one_line(found.held_back)}" if found.held_back else ""
        lines.append(f"  waiting  {counted(found.planned, 'request')} not sent yet{why}")
    return "\n".join(lines)


def next_step(found: Standing) -> str:
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


def listed(jobs: Sequence[Standing]) -> str:
    """One line a job."""
    head = faint(f"{'job':<20}{'since':<18}{'questions':>10}{'judged':>10}{'of':>10}  state")
    return "\n".join([head, *(_line(job) for job in jobs)])


def _line(found: Standing) -> str:
    figures = f"{found.questions:>10,}{found.judged:>10,}{found.asked:>10,}"
    return f"{found.job:<20}{moment(found.created_at):<18}{figures}  {_state(found)}"


def _state(found: Standing) -> str:
    if not found.is_pending:
        if found.asked and not found.judged:
            return "over: nothing was judged"
        if found.unjudged:
            return f"over: {sum(found.unjudged.values()):,} unjudged"
        return "all in" if found.answered or found.lost or found.batches else "judged live"
    parts = [f"{found.sent:,} at the vendor"] if found.sent else []
    parts += [f"{found.planned:,} to be sent"] if found.planned else []
    return "under way: " + (", ".join(parts) or "nothing left to send")


def _rest(found: Standing) -> str:
    causes = ", ".join(f"{count:,} {cause}" for cause, count in found.unjudged.items())
    waiting = f" · {found.waiting:,} waiting" if found.waiting else ""
    return waiting + (f" · unjudged: {causes}" if causes else "")


def _batch(one: BatchStanding) -> str:
    status = f", {one_line(one.status)}" if one.status else ""
    seen = f" at {moment(one.seen_at)}" if one.seen_at is not None else ""
    why = f": {one_line(one.problem)}" if one.problem else ""
    name = one_line(one.vendor_id) or "no id yet"
    return f"{one.number}  {name} · {counted(one.requests, 'request')} · {one.state}{status}{seen}{why}"


def _cost(found: Standing) -> str:
    unpriced = f" + {found.unpriced:,} unpriced" if found.unpriced else ""
    aside = f" · {dollars(found.set_aside_usd)} set aside" if found.set_aside_usd else ""
    cap = f" · cap {dollars(found.max_usd)}" if found.max_usd is not None else ""
    return f"{dollars(found.spent_usd)}{unpriced}{aside}{cap}"
