"""The judging in words: what limits it, where it stands, what leads. Figures are rounded; the JSON has them exact."""

from dataclasses import fields
from decimal import Decimal

from xscore.records import Estimate, JudgeEstimate, Progress, RateLimits
from xscore.safe_text import one_line
from xscore.wording import counted, dollars, seconds

FEW = 10
"""Judgments from which a rate, and with it the time that is left, can be told."""


def limits_in_words(limits: RateLimits) -> list[tuple[str, int]]:
    """Name each limit that is known: `requests`, `tokens`, `input tokens`, `output tokens`."""
    named = ((field.name.removesuffix("_per_minute").replace("_", " "), field.name) for field in fields(limits))
    return [(words, getattr(limits, name)) for words, name in named if getattr(limits, name)]


def binding(judge: JudgeEstimate) -> str:
    """What the judging waits for: a limit a minute, or the calls in flight."""
    match judge.binding_limit:
        case "none":
            return "nothing is left to judge"
        case "latency":
            return f"bound by the latency of the host, with {counted(judge.concurrency, 'call')} in flight"
    limit = getattr(judge.limits, judge.binding_limit)
    return f"bound by {limit:,} {judge.binding_limit.replace('_per_minute', ' a minute').replace('_', ' ')}"


def at_most(usd: Decimal | None) -> str:
    """`at most $0.099`; nothing is the most of what costs nothing."""
    return f"at most {dollars(usd)}" if usd else dollars(usd)


def total(estimate: Estimate) -> str:
    """`~$0.13`, of judging alone; `up to ~$0.23` with an answer, whose part is a maximum."""
    cost = dollars(estimate.cost_usd, estimated=True)
    return f"up to {cost}" if estimate.primary and estimate.primary.cost_usd and estimate.cost_usd else cost


def standing(progress: Progress) -> str:
    """Where the judging stands, in one plain line; how fast only where calls are waited for and a few came back."""
    done = progress.judged + progress.cached + progress.unjudged
    parts = [f"{done:,} of {progress.candidates:,}", f"{progress.judged:,} judged", f"{progress.cached:,} cached"]
    if progress.unjudged:
        parts.append(f"{progress.unjudged:,} unjudged")
    can_tell = progress.calls > 0 and progress.judged >= FEW
    if can_tell and progress.elapsed_s > 0:
        parts.append(f"{progress.judged / progress.elapsed_s:.0f}/s")
    parts.append(dollars(progress.cost_usd, estimated=True))
    if can_tell and progress.seconds_left is not None:
        parts.append(f"{seconds(progress.seconds_left)} left")
    return " · ".join(parts)


def best_so_far(progress: Progress) -> list[str]:
    """The provisional best, one line each."""
    return [f"{leader.score:.2f}  {one_line(leader.path)}  {one_line(leader.entity)}" for leader in progress.leaders]
