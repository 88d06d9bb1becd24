"""What judging will take and how far it has come, in words: estimates, limits, progress, leaders.

Figures are rounded; the JSON has them exact. It prints nothing.
"""

from decimal import Decimal

from xscore.platform.figures import format_dollars, format_seconds
from xscore.platform.text import counted, one_line
from xscore.records.estimates import Estimate, JudgeEstimate
from xscore.records.events import Progress

FEWEST_FOR_RATE = 10
"""Judgments needed before a rate and a remaining time can be shown."""


def describe_binding_limit(judge: JudgeEstimate) -> str:
    """Say what the judging waits for: a limit per minute, or the calls in flight."""
    match judge.binding_limit:
        case "none":
            return "nothing is left to judge"
        case "latency":
            calls = f"with {counted(judge.concurrency, 'call')} in flight"
            unknown = ""
            if judge.is_assumed:
                unknown = (
                    ", whose speed is not known yet (a host that never answers takes longer)"
                )
            return f"bound by the latency of the host{unknown}, {calls}"
    limit = getattr(judge.limits, judge.binding_limit)
    return (
        f"bound by {limit:,}"
        f" {judge.binding_limit.replace('_per_minute', ' a minute').replace('_', ' ')}"
    )


def describe_seconds(judge: JudgeEstimate, *, about: bool = False) -> str:
    """Say how long judging takes; an upper limit where no call to this model was timed yet."""
    if judge.is_assumed:
        return f"at most {format_seconds(judge.seconds)}"
    return f"{'about ' if about else ''}{format_seconds(judge.seconds)}"


def describe_forecast(forecast: JudgeEstimate) -> str:
    """Say before a long judging what it takes."""
    if forecast.cost_usd is None:
        dollars = ""
    else:
        dollars = f" and about {format_dollars(forecast.cost_usd)},"
    return (
        f"judging {counted(forecast.to_judge, 'memory', 'memories')} takes"
        f" {describe_seconds(forecast, about=True)}{dollars} in {counted(forecast.calls, 'call')},"
        f" {describe_binding_limit(forecast)}; the most promising come first"
    )


def describe_estimate(estimate: Estimate, noun: str) -> str:
    """Say what something takes and where it sends what, in a few lines, before the user is asked.
    noun: what it is."""
    judge = estimate.judge
    sent = "the chosen memories"
    if judge.sends_to:
        sent = counted(judge.to_judge, "memory", "memories")
    sends = "nothing"
    if estimate.sends_to:
        sends = f"{sent} to {one_line(', '.join(estimate.sends_to))}"
    took = ""
    if judge.calls:
        took = f" {describe_seconds(judge)},"
    lines = [
        f"{noun} takes about {counted(estimate.calls, 'call')}, {format_total(estimate)},{took}"
        " and sends"
        f" {sends}."
    ]
    if estimate.judged_otherwise:
        lines.append(f"{describe_judged_otherwise(estimate.judged_otherwise)}.")
    if estimate.cost_usd is None and estimate.caps:
        lines.append("A model has no known price, so caps in dollars cannot limit its calls.")
    if estimate.binding:
        from xscore.costs.caps import cap_left_rounded  # only for an estimate with a cap

    for cap in estimate.binding:
        will = "may"
        if judge.cost_usd is not None and judge.cost_usd > cap.left_usd:
            will = "will"
        lines.append(f"It {will} not be finished: {cap_left_rounded(cap)}.")
    return "\n".join(lines)


def describe_judged_otherwise(memories: int) -> str:
    """Say why memories are judged again although they were not edited."""
    were = counted(memories, "memory was", "memories were")
    return f"{were} judged before, without the current purpose of their file"


def format_maximum(usd: Decimal | None) -> str:
    """Format an upper bound: `at most $0.099`, or `$0`."""
    if usd:
        return f"at most {format_dollars(usd)}"
    return format_dollars(usd)


def format_total(estimate: Estimate) -> str:
    """`~$0.13`, of judging alone; `up to ~$0.23` with an answer, whose part is a maximum."""
    cost = format_dollars(estimate.cost_usd, estimated=True)
    if estimate.primary and estimate.primary.cost_usd and estimate.cost_usd:
        return f"up to {cost}"
    return cost


def render_progress(progress: Progress) -> str:
    """Render the progress in one plain line, with a rate once enough calls have returned."""
    done = progress.judged + progress.cached + progress.unjudged
    parts = [
        f"{done:,} of {progress.candidates:,}",
        f"{progress.judged:,} judged",
        f"{progress.cached:,} cached",
    ]
    if progress.unjudged:
        parts.append(f"{progress.unjudged:,} unjudged")
    can_tell = progress.calls > 0 and progress.judged >= FEWEST_FOR_RATE
    if can_tell and progress.elapsed_s > 0:
        parts.append(f"{progress.judged / progress.elapsed_s:.0f}/s")
    parts.append(format_dollars(progress.cost_usd, estimated=True))
    if can_tell and progress.seconds_left is not None:
        parts.append(f"{format_seconds(progress.seconds_left)} left")
    return " · ".join(parts)


def render_leaders(progress: Progress) -> list[str]:
    """Render the provisional best, one line each."""
    lines: list[str] = []
    for leader in progress.leaders:
        name = one_line(f"{leader.path}  {leader.entity}".strip())
        lines.append(f"{leader.score:.2f}  {name}")
    return lines
