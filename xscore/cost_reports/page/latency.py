"""The plot of how long stages took: a line a stage from p50 to p99, live and cached apart, on a scale of powers of ten.

Stages range from milliseconds to minutes, and only such a scale shows both. A stage that took no time in any
turn of its kind stands in the table alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, log10

from xscore.cost_reports.page.axes import Frame, Mark, columns, decades, foot, in_seconds, label
from xscore.cost_reports.page.figure import Sign, figure, nothing, numbers
from xscore.cost_reports.page.markup import Html, element, joined
from xscore.records.cost_report import Timing
from xscore.wording import fine_seconds

FASTEST_S = 0.001
"""What took less stands at the left edge."""
STAGES = ("index", "pool", "cache", "judge", "select", "primary", "total", "probe", "embed")
COLOURS = {"live": "c1", "cached": "c2"}
HEADS = {"turn": "stages of turns", "call": "single calls"}
LEGEND = (
    Sign("c1", "live"),
    Sign("c2", "cached"),
    Sign("round ink", "p50"),
    Sign("square ink", "p95"),
    Sign("diamond ink", "p99"),
)


@dataclass(frozen=True, slots=True)
class _Words:
    """Words at the left of the drawing, at their height."""

    y: float
    words: str


@dataclass(frozen=True, slots=True)
class _Line:
    """A timing at its height."""

    y: float
    timing: Timing


def latency(timings: Sequence[Timing]) -> Html:
    """Draw p50, p95 and p99 of each stage."""
    title = "Latency by stage"
    known = sorted((timing for timing in timings if timing.count), key=_order)
    drawn = [timing for timing in known if timing.p99_s > 0 and isfinite(timing.p99_s)]
    if not drawn:
        return nothing(title, "Nothing was timed.")
    says = "How long stages and calls took. Cached: turns without a judging call, calls served from a prefix cache."
    rows = _rows(drawn)
    height = rows[-1].y + 10
    drawing = _drawing(drawn, rows, height)
    return figure("latency", title, says, drawing, height + 30, legend=LEGEND, numbers=_table(known))


def _drawing(drawn: Sequence[Timing], rows: Sequence[_Words | _Line], height: float) -> Html:
    marks = decades(
        max(min(timing.p50_s for timing in drawn), FASTEST_S), max(2 * FASTEST_S, *(timing.p99_s for timing in drawn))
    )
    frame = Frame(left=68, top=6, bottom=height)
    low, high = log10(marks[0]), log10(marks[-1])

    def place(seconds: float) -> float:
        return frame.x((log10(max(seconds, marks[0])) - low) / (high - low))

    ratios = [Mark(index / (len(marks) - 1), in_seconds(mark)) for index, mark in enumerate(marks)]
    lines = [row for row in rows if isinstance(row, _Line)]
    return joined(
        (
            columns(frame, ratios),
            foot(frame, ratios if len(ratios) <= 6 else ratios[::2], "each line ten times the one before"),
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
            *map(fine_seconds, (timing.p50_s, timing.p95_s, timing.p99_s)),
        ]
        for timing in known
    ]
    return numbers("Seconds by stage", ["Stage", "Kind", "Count", "p50", "p95", "p99"], rows)


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
        f"{_name(timing)}, {timing.kind}, {timing.count:,} times: p50 {fine_seconds(timing.p50_s)}, "
        f"p95 {fine_seconds(timing.p95_s)}, p99 {fine_seconds(timing.p99_s)}"
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
