"""The plot of latency: a line from p50 to p99 for each stage, on a logarithmic scale, with the p95
of the baseline.

Trade-off: what is faster than a millisecond is at the left edge.
"""

from collections.abc import Sequence
from math import isfinite

from xscore.cost_reports.plot_shapes import Axis, Figure, Panel, Spread
from xscore.cost_reports.records import GateFigures, StageP95, Timing
from xscore.cost_reports.report_lines import ReportTable
from xscore.pipeline.stage_words import stage_words
from xscore.platform.figures import DASH, format_duration
from xscore.records.calls import Stage
from xscore.records.receipt import Latency

FASTEST_S = 0.001
"""Left edge of the plot, in seconds; faster calls are shown on it."""
STAGES = tuple(dict.fromkeys((*Latency.__struct_fields__, *map(str, Stage))))
"""Stages in the order of the plot: the parts of a turn, then kinds of calls that are not part
of one."""


def latency_plot(timings: Sequence[Timing], baseline: GateFigures | None = None) -> Figure:
    """Show a line from p50 to p99 for each stage; a stage that took no time is only in the
    table."""
    title = "Latency by stage"
    timed = sorted([timing for timing in timings if timing.count], key=_stage_order)
    drawn = [timing for timing in timed if timing.p99_s > 0 and isfinite(timing.p99_s)]
    if not drawn:
        return Figure(title=title, why_empty="nothing was timed")
    before = _baseline_p95(baseline)
    rows: list[tuple[str, ...]] = []
    for timing in timed:
        p95_before = before.get(_key(timing))
        was = DASH if p95_before is None else format_duration(p95_before)
        rows.append((_name_of_timing(timing), timing.kind, *_format_timing(timing), was))
    spreads = [_spread(timing, before.get(_key(timing))) for timing in drawn]
    panel = Panel(
        x=Axis(title="logarithmic scale", form="seconds", scale="log", low=FASTEST_S),
        spreads=spreads,
    )
    legend = [
        *(("c1", "live"), ("c2", "cached")),
        *(("round ink", "p50"), ("square ink", "p95"), ("diamond ink", "p99")),
    ]
    if any(spread.before is not None for spread in spreads):
        legend.append(("tick ink", "p95 of the baseline"))
    heads = ("stage", "kind", "count", "p50", "p95", "p99", "p95 of the baseline")
    return Figure(
        title=title,
        summary=(
            "Seconds per stage and call. Cached: turns without a judging call, calls that a prefix"
            " cache served."
        ),
        panels=[panel],
        legend=legend,
        numbers=ReportTable(heads, rows, words=2),
    )


def _key(timing: Timing | StageP95) -> tuple[str, str, str]:
    return timing.of, timing.stage, timing.kind


def _baseline_p95(baseline: GateFigures | None) -> dict[tuple[str, str, str], float]:
    if baseline is None:
        return {}
    return {_key(timing): timing.p95_s for timing in baseline.timings if timing.count}


def _name_of_timing(timing: Timing) -> str:
    return f"{timing.of}: {stage_words(timing.of, timing.stage)}"


def _format_timing(timing: Timing) -> tuple[str, str, str, str]:
    """Return the number of samples, p50, p95 and p99 as people read them."""
    p50, p95, p99 = map(format_duration, (timing.p50_s, timing.p95_s, timing.p99_s))
    return f"{timing.count:,}", p50, p95, p99


def _spread(timing: Timing, before_s: float | None) -> Spread:
    count, p50, p95, p99 = _format_timing(timing)
    name = _name_of_timing(timing)
    hint = f"{name}, {timing.kind}, {count} times: p50 {p50}, p95 {p95}, p99 {p99}"
    if before_s is not None:
        hint += f"; p95 of the baseline {format_duration(before_s)}"
    low, middle, high = [
        max(value, FASTEST_S) for value in (timing.p50_s, timing.p95_s, timing.p99_s)
    ]
    colour = "c1" if timing.kind == "live" else "c2"
    before = None if before_s is None else max(before_s, FASTEST_S)
    return Spread(name, hint, colour, low, middle, high, before)


def _stage_order(timing: Timing) -> tuple[bool, int, str, bool]:
    if timing.stage in STAGES:
        place = STAGES.index(timing.stage)
    else:
        place = len(STAGES)
    return timing.of != "turn", place, timing.stage, timing.kind != "live"
