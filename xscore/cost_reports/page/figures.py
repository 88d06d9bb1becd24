"""The plot of how long stages took: a line a stage from p50 to p99, live and cached apart, on a scale of powers of ten.

Stages range from milliseconds to minutes, and only such a scale shows both. A stage that took no time in any
turn of its kind stands in the table alone.

The plot of what was paid beside what the same judgments and answers would have cost in other ways.

The plot of final scores, with the line from which they are kept.

Most candidates score low and few pass: where the highest bar is far above the lowest, heights are logarithms of one
more than the count, so that none is nothing and the few can be seen. The axis says so.
"""

from collections.abc import Sequence
from decimal import Decimal
from math import isfinite, log10

from msgspec import Struct

from xscore.cost_reports import report_text
from xscore.cost_reports.page.plot import (
    AxisTick,
    Html,
    LegendEntry,
    PlotFrame,
    bar,
    decades,
    element,
    empty_figure,
    figure,
    in_seconds,
    joined,
    label,
    number_table,
    vertical_grid,
    whole_ticks,
    x_axis,
    y_axis,
)
from xscore.cost_reports.report_text import CostAlternative
from xscore.platform.text import DASH, format_duration, format_mean
from xscore.records.cost_report import Comparison, Timing

FASTEST_S = 0.001
"""What took less stands at the left edge."""
STAGES = ("index", "pool", "cache", "judge", "select", "primary", "total", "probe", "embed")
COLOURS = {"live": "c1", "cached": "c2"}
HEADS = {"turn": "stages of turns", "call": "single calls"}
LATENCY_LEGEND = (
    LegendEntry("c1", "live"),
    LegendEntry("c2", "cached"),
    LegendEntry("round ink", "p50"),
    LegendEntry("square ink", "p95"),
    LegendEntry("diamond ink", "p99"),
)


class _Words(Struct, frozen=True):
    """Words at the left of the drawing, at their height."""

    y: float
    words: str


class _Line(Struct, frozen=True):
    """A timing at its height."""

    y: float
    timing: Timing


def latency_plot(timings: Sequence[Timing]) -> Html:
    """Draw p50, p95 and p99 of each stage."""
    title = "Latency by stage"
    known = sorted((timing for timing in timings if timing.count), key=_order)
    drawn = [timing for timing in known if timing.p99_s > 0 and isfinite(timing.p99_s)]
    if not drawn:
        return empty_figure(title, "Nothing was timed.")
    says = "How long stages and calls took. Cached: turns without a judging call, calls served from a prefix cache."
    rows = _rows(drawn)
    height = rows[-1].y + 10
    drawing = _draw_latency(drawn, rows, height)
    return figure("latency", title, says, drawing, height + 30, legend=LATENCY_LEGEND, numbers=_table(known))


def _draw_latency(drawn: Sequence[Timing], rows: Sequence[_Words | _Line], height: float) -> Html:
    marks = decades(
        max(min(timing.p50_s for timing in drawn), FASTEST_S), max(2 * FASTEST_S, *(timing.p99_s for timing in drawn))
    )
    frame = PlotFrame(left=68, top=6, bottom=height)
    low, high = log10(marks[0]), log10(marks[-1])

    def place(seconds: float) -> float:
        return frame.x((log10(max(seconds, marks[0])) - low) / (high - low))

    ratios = [AxisTick(index / (len(marks) - 1), in_seconds(mark)) for index, mark in enumerate(marks)]
    lines = [row for row in rows if isinstance(row, _Line)]
    return joined(
        (
            vertical_grid(frame, ratios),
            x_axis(frame, ratios if len(ratios) <= 6 else ratios[::2], "each line ten times the one before"),
            *(label(2, row.y, row.words, class_="axis") for row in rows if isinstance(row, _Words)),
            *(_spread(line, *map(place, (line.timing.p50_s, line.timing.p95_s, line.timing.p99_s))) for line in lines),
            *(label(frame.left - 5, name.y + 3.5, name.words, "end") for name in _names(lines)),
        )
    )


def _table(known: Sequence[Timing]) -> Html:
    rows = [
        [
            _name(timing),
            timing.kind,
            f"{timing.count:,}",
            *map(format_duration, (timing.p50_s, timing.p95_s, timing.p99_s)),
        ]
        for timing in known
    ]
    return number_table("Seconds by stage", ["Stage", "Kind", "Count", "p50", "p95", "p99"], rows)


def _name(timing: Timing) -> str:
    return f"{'turn' if timing.of == 'turn' else 'call'}: {timing.stage}"


def _order(timing: Timing) -> tuple[bool, int, str, bool]:
    place = STAGES.index(timing.stage) if timing.stage in STAGES else len(STAGES)
    return timing.of != "turn", place, timing.stage, timing.kind != "live"


def _rows(drawn: Sequence[Timing]) -> list[_Words | _Line]:
    """Lay timings below each other, a head above each group."""
    rows: list[_Words | _Line] = []
    y, before = 2.0, ("", "")
    for timing in drawn:
        if timing.of != before[0]:
            y += 24 if rows else 12
            rows.append(_Words(y, HEADS.get(timing.of, timing.of)))
            y += 15
        elif timing.stage != before[1]:
            y += 17
        else:
            y += 9
        rows.append(_Line(y, timing))
        before = (timing.of, timing.stage)
    return rows


def _names(lines: Sequence[_Line]) -> list[_Words]:
    """Name each stage once, between its live and its cached line."""
    places: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        places.setdefault((line.timing.of, line.timing.stage), []).append(line.y)
    return [_Words(sum(heights) / len(heights), stage) for (_, stage), heights in places.items()]


def _spread(line: _Line, p50: float, p95: float, p99: float) -> Html:
    """Draw one timing; its percentiles are given as places along the axis."""
    y, timing = line.y, line.timing
    said = (
        f"{_name(timing)}, {timing.kind}, {timing.count:,} times: p50 {format_duration(timing.p50_s)}, "
        f"p95 {format_duration(timing.p95_s)}, p99 {format_duration(timing.p99_s)}"
    )
    return element(
        "g",
        element("title", said),
        element("line", x1=p50, x2=p99, y1=y, y2=y),
        element("path", d=f"M{p99:.1f} {y - 3.6:.1f}l3.6 3.6-3.6 3.6-3.6-3.6z"),
        element("rect", x=p95 - 2.4, y=y - 2.4, width=4.8, height=4.8),
        element("circle", cx=p50, cy=y, r=2.8),
        class_=f"spread {COLOURS.get(timing.kind, 'c3')}",
    )


ROOM = 290.0
"""Width of the longest bar; its amount stands at its end."""
PITCH = 38


def counterfactual_plot(comparison: Comparison) -> Html:
    """Draw a bar a way."""
    title = "What it would have cost otherwise"
    ways = (report_text.actual_cost(comparison), *report_text.counterfactual_costs(comparison))
    most = max(way.usd for way in ways if way.usd is not None)
    if most == 0:
        return empty_figure(title, "Nothing was paid, or no call has a price.")
    drawing = joined(_bar(index, way, most) for index, way in enumerate(ways))
    rows = [[way.name, way.words, _times(way, comparison.actual_usd)] for way in ways]
    table = number_table("Dollars of this stretch", ["Way", "Dollars", "Against what was paid"], rows)
    says = "The same judgments and answers, paid in other ways."
    return figure("otherwise", title, says, drawing, 10 + len(ways) * PITCH, numbers=table)


def _bar(index: int, way: CostAlternative, most: Decimal) -> Html:
    y = 14.0 + index * PITCH
    width = 0.0 if way.usd is None else float(way.usd / most) * ROOM
    words = label(2 if way.usd is None else width + 7, y + 16, way.words, class_="strong")
    return joined((label(2, y, way.name), bar(2, y + 5, width, 14, "c6" if index else "c1"), words))


def _times(way: CostAlternative, actual: Decimal) -> str:
    return DASH if way.usd is None or actual == 0 else f"{way.usd / actual:.2f} times"


UNEVEN = 30
"""Where the highest bar is so many times the lowest, the scale is of powers of ten."""
SCORE_LEGEND = (LegendEntry("c1", "at or above the threshold"), LegendEntry("quiet", "below"))


def score_plot(counts: Sequence[int], threshold: float | None) -> Html:
    """Draw how many final scores fell in each bin."""
    title = "Scores"
    if threshold is None or not any(counts):
        return empty_figure(title, "No scores are known of these turns.")
    names = [f"{at / len(counts):.2f} to {(at + 1) / len(counts):.2f}" for at in range(len(counts))]
    says = (
        f"Final scores of all judged candidates, in bins of {1 / len(counts):.2f}. The threshold is the newest turn's."
    )
    table = number_table(
        "Final scores", ["Score", "Candidates"], [[name, f"{n:,}"] for name, n in zip(names, counts, strict=True)]
    )
    drawing = _draw_scores(names, counts, threshold)
    return figure("scores", title, says, drawing, 206, legend=SCORE_LEGEND, numbers=table)


def _draw_scores(names: Sequence[str], counts: Sequence[int], threshold: float) -> Html:
    frame, most = PlotFrame(top=34, bottom=174), max(counts)
    uneven = most > UNEVEN * min(count for count in counts if count)
    marks = _powers(most) if uneven else whole_ticks(most)

    def high(count: float) -> float:
        return log10(1 + count) / log10(1 + marks[-1]) if uneven else count / marks[-1]

    def column(index: int, count: int) -> Html:
        left, right = frame.x(index / len(counts)), frame.x((index + 1) / len(counts))
        colour = "c1" if (index + 0.5) / len(counts) >= threshold else "quiet"
        drawn = bar(left + 0.5, frame.y(high(count)), right - left - 1, frame.y(0) - frame.y(high(count)), colour)
        return element("g", element("title", f"{names[index]}: {count:,}"), drawn)

    return joined(
        (
            y_axis(
                frame,
                [AxisTick(high(mark), format_mean(mark)) for mark in marks],
                "candidates, by powers of ten" if uneven else "candidates",
            ),
            *(column(index, count) for index, count in enumerate(counts)),
            *_line(frame, threshold),
            x_axis(frame, [AxisTick(tenth / 10, f"{tenth / 10:.1f}") for tenth in range(0, 11, 2)], "final score"),
        )
    )


def _line(frame: PlotFrame, threshold: float) -> tuple[Html, Html]:
    at = frame.x(threshold)
    anchor = "start" if threshold < 0.2 else "end" if threshold > 0.8 else "middle"
    return (
        element("line", x1=at, x2=at, y1=17, y2=frame.bottom, class_="threshold"),
        label(at, 13, f"threshold {threshold:.2f}", anchor, "strong"),
    )


def _powers(most: int) -> tuple[float, ...]:
    """Return 0 and powers of ten up to the first at or above `most`; every second where they would crowd."""
    last = len(str(most - 1))
    return 0.0, *(10.0**power for power in reversed(range(last, 0, -2 if last > 5 else -1)))
