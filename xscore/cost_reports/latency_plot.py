"""The plot of latency: a line from p50 to p99 for each stage, on a logarithmic scale.

Trade-off: what is faster than a millisecond stands at the left edge.
"""

from collections.abc import Sequence
from math import ceil, floor, isfinite, log10

from xscore.cost_reports.plot_shapes import Figure, Mark, Panel, Spread
from xscore.cost_reports.records import Timing
from xscore.cost_reports.report_lines import ReportTable
from xscore.platform.figures import format_duration
from xscore.records.calls import Stage
from xscore.records.receipt import Latency

FASTEST_S = 0.001
"""Faster calls are shown at the left edge."""
STAGES = tuple(dict.fromkeys((*Latency.__struct_fields__, *map(str, Stage))))
"""In the order of the plot: the parts of a turn, then kinds of calls that are not part of one."""


def latency_plot(timings: Sequence[Timing]) -> Figure:
    """Show a line from p50 to p99 for each stage; a stage that took no time is only in the
    table."""
    title = "Latency by stage"
    timed = sorted([timing for timing in timings if timing.count], key=_stage_order)
    drawn = [timing for timing in timed if timing.p99_s > 0 and isfinite(timing.p99_s)]
    if not drawn:
        return Figure(title=title, why_empty="nothing was timed")
    first, last = _powers_of(drawn)
    rows = [(_name_of_timing(timing), timing.kind, *_format_timing(timing)) for timing in timed]
    spreads = [_spread(timing, first, last) for timing in drawn]
    panel = Panel(
        x_title="logarithmic scale",
        x_marks=_marks_of_powers(first, last),
        left=88,
        top=6,
        bottom=14 + 14 * len(spreads),
        spreads=spreads,
    )
    return Figure(
        title=title,
        summary=(
            "Seconds per stage and call. Cached: turns without a judging call, calls that a prefix"
            " cache served."
        ),
        panels=[panel],
        legend=[
            *(("c1", "live"), ("c2", "cached")),
            *(("round ink", "p50"), ("square ink", "p95"), ("diamond ink", "p99")),
        ],
        numbers=ReportTable(("stage", "kind", "count", "p50", "p95", "p99"), rows, words=2),
    )


def _powers_of(timings: Sequence[Timing]) -> tuple[int, int]:
    """Return the powers of ten of the ends of an axis that holds these timings."""
    fastest = max(min([timing.p50_s for timing in timings]), FASTEST_S)
    slowest = max(2 * FASTEST_S, *[timing.p99_s for timing in timings])
    # A power that is a hair off a whole number is that number.
    first = floor(log10(fastest) + 1e-9)
    last = ceil(log10(slowest) - 1e-9)
    return first, max(last, first + 1)


def _marks_of_powers(first: int, last: int) -> list[Mark]:
    # All marks of a long axis would touch each other.
    step = 1 if last - first < 6 else 2
    marks: list[Mark] = []
    for power in range(first, last + 1, step):
        text = f"{10.0**power:g} s"
        if power < 0:
            text = f"{10.0 ** (power + 3):g} ms"
        marks.append(((power - first) / (last - first), text))
    return marks


def _name_of_timing(timing: Timing) -> str:
    return f"{timing.of}: {timing.stage}"


def _format_timing(timing: Timing) -> tuple[str, str, str, str]:
    """Return the number of samples, p50, p95 and p99 as people read them."""
    p50, p95, p99 = map(format_duration, (timing.p50_s, timing.p95_s, timing.p99_s))
    return f"{timing.count:,}", p50, p95, p99


def _spread(timing: Timing, first: int, last: int) -> Spread:
    """Place a stage on an axis from 10 to the power of `first` to that of `last` seconds."""
    count, p50, p95, p99 = _format_timing(timing)
    name = _name_of_timing(timing)
    hint = f"{name}, {timing.kind}, {count} times: p50 {p50}, p95 {p95}, p99 {p99}"
    places: list[float] = []
    for seconds in (timing.p50_s, timing.p95_s, timing.p99_s):
        power = log10(max(seconds, 10.0**first))
        places.append((power - first) / (last - first))
    return Spread(name, hint, "c1" if timing.kind == "live" else "c2", *places)


def _stage_order(timing: Timing) -> tuple[bool, int, str, bool]:
    place = STAGES.index(timing.stage) if timing.stage in STAGES else len(STAGES)
    return timing.of != "turn", place, timing.stage, timing.kind != "live"
