"""Figures for people: dollars, tokens, seconds, places, progress. Rounded; the exact ones are in the JSON."""

from dataclasses import fields
from decimal import Decimal

from xscore.cli.safe_text import one_line
from xscore.records import JudgeEstimate, Progress, RateLimits

SMALLEST_SHOWN = Decimal("0.001")
FEW = 10
"""Judgments from which a rate, and with it the time that is left, can be told."""


def dollars(amount: Decimal | None) -> str:
    """`$0` only where nothing is charged, `unpriced` where no price is known, else an approximation."""
    if amount is None:
        return "unpriced"
    if amount == 0:
        return "$0"
    if amount < SMALLEST_SHOWN:
        return "<$0.001"
    return f"~${amount:.3f}" if amount < 1 else f"~${amount:.2f}"


def tokens(count: int) -> str:
    """`812`, `1.2k`, `98k`, `1.2M`."""
    if count < 1_000:
        return str(count)
    thousands = round(count / 1_000, 1 if count < 9_950 else None)
    return f"{thousands:g}k" if thousands < 1_000 else f"{count / 1_000_000:.1f}M"


def seconds(duration: float) -> str:
    """`0.2 s`, `41 s`, `3 min 20 s`, `2 h 5 min`."""
    if duration < 10:
        return f"{duration:.1f} s"
    whole = round(duration)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3_600} h {whole % 3_600 // 60} min"


def size(count: int) -> str:
    """`812 B`, `4.1 kB`, `38 MB`."""
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1_000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1_000
    return f"{amount:.1f} GB"


def counted(count: int, singular: str, plural: str = "") -> str:
    """`1 file`, `1,024 files`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def place(path: str, start_line: int = 0, end_line: int = 0) -> str:
    """`path:12-40`, harmless on a terminal."""
    lines = f":{start_line}-{end_line}" if end_line > start_line else f":{start_line}" if start_line else ""
    return one_line(path) + lines


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


def standing(progress: Progress) -> str:
    """Where the judging stands, in one plain line; how fast only where calls are waited for and a few came back."""
    done = progress.judged + progress.cached + progress.unjudged
    parts = [f"{done:,} of {progress.candidates:,}", f"{progress.judged:,} judged", f"{progress.cached:,} cached"]
    if progress.unjudged:
        parts.append(f"{progress.unjudged:,} unjudged")
    can_tell = progress.calls > 0 and progress.judged >= FEW
    if can_tell and progress.elapsed_s > 0:
        parts.append(f"{progress.judged / progress.elapsed_s:.0f}/s")
    parts.append(dollars(progress.cost_usd))
    if can_tell and progress.seconds_left is not None:
        parts.append(f"{seconds(progress.seconds_left)} left")
    return " · ".join(parts)


def best_so_far(progress: Progress) -> list[str]:
    """The provisional best, one line each."""
    return [f"{leader.score:.2f}  {one_line(leader.path)}  {one_line(leader.entity)}" for leader in progress.leaders]
