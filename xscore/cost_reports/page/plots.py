"""The six plots of the page: cost, cache hits, latency, calls, scores, and what it would have cost otherwise.

Plots along turns go from the oldest to the newest; many turns are gathered into at most `MAX_BUCKETS` means. Latency
and uneven scores use a scale of powers of ten. Trade-off: models past the fifth share one colour.
"""

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from itertools import groupby
from math import ceil, isfinite, log10

from msgspec import Struct

from xscore.cost_reports import report_text
from xscore.cost_reports.page.plot import (
    Figure,
    LegendEntry,
    PlotFrame,
    Shape,
    Tick,
    anchor,
    bar,
    decades,
    in_dollars,
    in_seconds,
    label,
    powers,
    shape,
    share_or_none,
    ticks,
    time_ticks,
    timing_name,
    vertical_grid,
    whole_ticks,
    x_axis,
    y_axis,
)
from xscore.cost_reports.page.rows import number_table
from xscore.platform.text import (
    DASH,
    counted,
    format_dollars,
    format_duration,
    format_mean,
    format_share,
    format_time,
)
from xscore.records.cost_report import Comparison, CostReport, Timing, TurnLine

MAX_BUCKETS = 50
MODELS = 5
"""Models with a colour of their own."""
WIDEST_BAR = 26
NO_TURNS = "No turn lies in this period of the ledger."
FASTEST_S = 0.001
"""What took less stands at the left edge."""
STAGES = ("index", "pool", "cache", "judge", "select", "primary", "total", "probe", "embed")
UNEVEN = 30
"""Where the highest bar is this many times the lowest, the scale is of powers of ten."""


def report_plots(report: CostReport) -> list[Figure]:
    """Return all plots in their order."""
    buckets = bucket_turns(report.turns)
    return [
        cost_plot(buckets),
        hit_rate_plot(buckets),
        latency_plot(report.timings),
        calls_plot(buckets),
        score_plot(report.scores, report.threshold),
        counterfactual_plot(report.comparison),
    ]


class TurnBucket(Struct, frozen=True):
    """Turns that follow each other, oldest first; never empty."""

    turns: tuple[TurnLine, ...]

    @property
    def name(self) -> str:
        """Return the time of its first turn, and how many turns it holds where they are several."""
        began = format_time(self.turns[0].at)
        return began if len(self.turns) == 1 else f"{began}, {counted(len(self.turns), 'turn')}"

    def cost(self, models: frozenset[str] | None = None) -> Decimal:
        """Return dollars a turn, of some models or all."""
        paid = (
            usd for turn in self.turns for model, usd in turn.cost_by_model.items() if not models or model in models
        )
        return sum(paid, Decimal(0)) / len(self.turns)

    def hit_rates(self) -> tuple[float | None, float | None]:
        """Return the shares of judgments and of input tokens that caches served; None: there were none."""
        coverage = [turn.coverage for turn in self.turns if turn.coverage]
        usage = [turn.spent.usage for turn in self.turns]
        return (
            share_or_none(sum(one.cached + one.carried for one in coverage), sum(one.candidates for one in coverage)),
            share_or_none(sum(one.cached_input_tokens for one in usage), sum(one.input_tokens for one in usage)),
        )

    def attempts(self) -> tuple[float, float, float]:
        """Return attempts a turn: answered, failed, limited by a 429."""
        spent, count = [turn.spent for turn in self.turns], len(self.turns)
        sums = (
            sum(one.calls for one in spent),
            sum(one.failed for one in spent),
            sum(one.rate_limited for one in spent),
        )
        return sums[0] / count, sums[1] / count, sums[2] / count


def bucket_turns(turns: Sequence[TurnLine]) -> list[TurnBucket]:
    """Gather turns, given newest first, into at most `MAX_BUCKETS`, oldest first; the last may be smaller."""
    ordered = tuple(reversed(turns))
    size = ceil(len(ordered) / MAX_BUCKETS) or 1
    return [TurnBucket(ordered[start : start + size]) for start in range(0, len(ordered), size)]


def cost_plot(buckets: Sequence[TurnBucket]) -> Figure:
    """Draw dollars a turn, stacked by model, the dearest at the bottom."""
    title = "Cost per turn"
    series = _model_series([turn for bucket in buckets for turn in bucket.turns])
    most = max((bucket.cost() for bucket in buckets), default=Decimal(0))
    if not (buckets and series and most):
        empty = NO_TURNS if not buckets else "No call of these turns has a price."
        return Figure(title=title, why_empty="The calls of these turns cost nothing." if series else empty)
    frame, marks = PlotFrame(), ticks(float(most))
    shapes = y_axis(frame, _heights(marks, in_dollars(marks)), "dollars a turn")
    for index, bucket in enumerate(buckets):
        parts = [(entry.css_class, float(bucket.cost(models)) / marks[-1]) for entry, models in series]
        hint = f"{bucket.name}: {format_dollars(bucket.cost())}"
        shapes.append(_stack(frame, index, of=len(buckets), parts=parts, hint=hint))
    rows = [
        [bucket.name, *(format_dollars(bucket.cost(models)) for models in (None, *(models for _, models in series)))]
        for bucket in buckets
    ]
    return Figure(
        title=title,
        name="cost",
        summary=f"Dollars a turn, stacked by model; {_describe(buckets)}.",
        shapes=[*shapes, *_time_axis(frame, buckets)],
        height=192,
        legend=[entry for entry, _ in series],
        numbers=number_table("Dollars a turn, by model", ["From", "All", *(entry.text for entry, _ in series)], rows),
    )


def hit_rate_plot(buckets: Sequence[TurnBucket]) -> Figure:
    """Draw the share of judgments that were known already, and of input tokens that prefix caches served."""
    title, rates = "Cache hit rate", [bucket.hit_rates() for bucket in buckets]
    if all(rate is None for pair in rates for rate in pair):
        return Figure(title=title, why_empty="Nothing was judged and nothing sent." if buckets else NO_TURNS)
    frame = PlotFrame()
    percents = [Tick(percent / 100, f"{percent} %") for percent in (0, 25, 50, 75, 100)]
    rows = [
        [bucket.name, *(DASH if rate is None else format_share(rate, 1) for rate in pair)]
        for bucket, pair in zip(buckets, rates, strict=True)
    ]
    heads = ["From", "Judgments from the cache", "Input tokens from prefix caches"]
    return Figure(
        title=title,
        name="hits",
        summary=f"Served from caches, not paid again; {_describe(buckets)}.",
        shapes=[
            *y_axis(frame, percents, "share"),
            _line(frame, [prefixes for _, prefixes in rates], "c2 dashed"),
            _line(frame, [judgments for judgments, _ in rates], "c1"),
            *_time_axis(frame, buckets),
        ],
        height=192,
        legend=[LegendEntry("c1 round", heads[1].lower()), LegendEntry("c2 round", heads[2].lower())],
        numbers=number_table("Cache hit rates", heads, rows),
    )


def calls_plot(buckets: Sequence[TurnBucket]) -> Figure:
    """Draw calls a turn, and below, on a scale of its own, what got no answer, 429s apart."""
    title, attempts = "Calls and retries", [bucket.attempts() for bucket in buckets]
    if not buckets:
        return Figure(title=title, why_empty=NO_TURNS)
    upper, lower = PlotFrame(bottom=110), PlotFrame(top=146, bottom=200)
    above = whole_ticks(max(answered for answered, _, _ in attempts))
    below = whole_ticks(max(failed + limited for _, failed, limited in attempts), 2)
    shapes = y_axis(upper, _heights(above, map(format_mean, above)), "answered, a turn")
    shapes += y_axis(lower, _heights(below, map(format_mean, below)), "tried again or given up, a turn")
    rows = [[bucket.name, *map(format_mean, each)] for bucket, each in zip(buckets, attempts, strict=True)]
    for index, (row, (answered, failed, limited)) in enumerate(zip(rows, attempts, strict=True)):
        hint = f"{row[0]}: {row[1]} calls, {row[2]} failed, {row[3]} 429s"
        retried = [("c2", failed / below[-1]), ("c3", limited / below[-1])]
        shapes.append(_stack(upper, index, of=len(rows), parts=[("c1", answered / above[-1])], hint=hint))
        shapes.append(_stack(lower, index, of=len(rows), parts=retried, hint=hint))
    return Figure(
        title=title,
        name="calls",
        summary=f"Attempts a turn; {_describe(buckets)}. Below, on a scale of its own, what got no answer.",
        shapes=[*shapes, *_time_axis(lower, buckets)],
        height=232,
        legend=[
            LegendEntry("c1", "answered"),
            LegendEntry("c2", "failed otherwise"),
            LegendEntry("c3", "429: over a limit"),
        ],
        numbers=number_table("Calls a turn", ["From", "Answered", "Failed otherwise", "429s"], rows),
    )


def latency_plot(timings: Sequence[Timing]) -> Figure:
    """Draw a line from p50 to p99 for each stage; one that took no time stands in the table alone."""
    title = "Latency by stage"
    known = sorted((timing for timing in timings if timing.count), key=_stage_order)
    drawn = [timing for timing in known if timing.p99_s > 0 and isfinite(timing.p99_s)]
    if not drawn:
        return Figure(title=title, why_empty="Nothing was timed.")
    shapes, height = _draw_latency(drawn)
    rows = [
        [
            *(timing_name(timing), timing.kind, f"{timing.count:,}"),
            *map(format_duration, (timing.p50_s, timing.p95_s, timing.p99_s)),
        ]
        for timing in known
    ]
    return Figure(
        title=title,
        name="latency",
        summary="Time of stages and calls. Cached: turns without a judging call, calls served from a prefix cache.",
        shapes=shapes,
        height=height,
        legend=[
            *(LegendEntry("c1", "live"), LegendEntry("c2", "cached"), LegendEntry("round ink", "p50")),
            *(LegendEntry("square ink", "p95"), LegendEntry("diamond ink", "p99")),
        ],
        numbers=number_table("Seconds by stage", ["Stage", "Kind", "Count", "p50", "p95", "p99"], rows),
    )


def _draw_latency(drawn: Sequence[Timing]) -> tuple[list[Shape], int]:
    """Lay timings below each other: a head above each group, a stage's live and cached line together."""
    slowest = max(timing.p99_s for timing in drawn)
    marks = decades(max(min(timing.p50_s for timing in drawn), FASTEST_S), max(2 * FASTEST_S, slowest))
    low, high = log10(marks[0]), log10(marks[-1])
    frame, shapes, y = PlotFrame(left=68, top=6), list[Shape](), -10.0
    for of, group in groupby(drawn, key=lambda timing: timing.of):
        y += 24
        shapes.append(label(2, y, "stages of turns" if of == "turn" else "single calls", class_="axis"))
        for stage, lines in groupby(group, key=lambda timing: timing.stage):
            both = list(lines)
            y += 16
            shapes.append(label(frame.left - 5, y + 4.5 * (len(both) - 1) + 3.5, stage, "end"))
            for timing in both:
                seconds = (timing.p50_s, timing.p95_s, timing.p99_s)
                places = [frame.x((log10(max(each, marks[0])) - low) / (high - low)) for each in seconds]
                shapes.append(_spread(timing, y, *places))
                y += 9
            y -= 9
    bottom = round(y) + 10
    frame = PlotFrame(left=frame.left, top=frame.top, bottom=bottom)
    ratios = [Tick(index / (len(marks) - 1), in_seconds(mark)) for index, mark in enumerate(marks)]
    axis = x_axis(frame, ratios if len(ratios) <= 6 else ratios[::2], "each line ten times the one before")
    return [vertical_grid(frame, ratios), *axis, *shapes], bottom + 30


def _spread(timing: Timing, y: float, p50: float, p95: float, p99: float) -> Shape:
    seconds = (timing.p50_s, timing.p95_s, timing.p99_s)
    values = ", ".join(f"{name} {format_duration(s)}" for name, s in zip(("p50", "p95", "p99"), seconds, strict=True))
    hint = f"{timing_name(timing)}, {timing.kind}, {timing.count:,} times: {values}"
    return shape(
        "g",
        shape("title", text=hint),
        shape("line", x1=p50, x2=p99, y1=y, y2=y),
        shape("path", d=f"M{p99:.1f} {y - 3.6:.1f}l3.6 3.6-3.6 3.6-3.6-3.6z"),
        shape("rect", x=p95 - 2.4, y=y - 2.4, width=4.8, height=4.8),
        shape("circle", cx=p50, cy=y, r=2.8),
        class_=f"spread {'c1' if timing.kind == 'live' else 'c2'}",
    )


def score_plot(counts: Sequence[int], threshold: float | None) -> Figure:
    """Draw how many final scores fell in each bin, with the line from which they are kept."""
    title, bins, most = "Scores", len(counts), max(counts, default=0)
    if threshold is None or not most:
        return Figure(title=title, why_empty="No scores are known of these turns.")
    frame = PlotFrame(top=34, bottom=174)
    is_uneven = most > UNEVEN * min(count for count in counts if count)
    marks = powers(most) if is_uneven else whole_ticks(most)

    def height(count: float) -> float:
        return log10(1 + count) / log10(1 + marks[-1]) if is_uneven else count / marks[-1]

    unit = "candidates, by powers of ten" if is_uneven else "candidates"
    shapes = y_axis(frame, [Tick(height(mark), format_mean(mark)) for mark in marks], unit)
    rows = [[f"{at / bins:.2f} to {(at + 1) / bins:.2f}", f"{count:,}"] for at, count in enumerate(counts)]
    for index, count in enumerate(counts):
        x, top = frame.x(index / bins) + 0.5, frame.y(height(count))
        colour = "c1" if (index + 0.5) / bins >= threshold else "quiet"
        drawn = bar(x, top, frame.x((index + 1) / bins) - x - 0.5, frame.bottom - top, colour)
        shapes.append(shape("g", shape("title", text=": ".join(rows[index])), *drawn))
    at = frame.x(threshold)
    side = "middle" if 0.2 <= threshold <= 0.8 else anchor(round(threshold))
    return Figure(
        title=title,
        name="scores",
        summary=f"Final scores of all judged candidates, in bins of {1 / bins:.2f}, with the newest threshold.",
        shapes=[
            *shapes,
            shape("line", x1=at, x2=at, y1=17, y2=frame.bottom, class_="threshold"),
            label(at, 13, f"threshold {threshold:.2f}", side, "strong"),
            *x_axis(frame, [Tick(tenth / 10, f"{tenth / 10:.1f}") for tenth in range(0, 11, 2)], "final score"),
        ],
        height=206,
        legend=[LegendEntry("c1", "at or above the threshold"), LegendEntry("quiet", "below")],
        numbers=number_table("Final scores", ["Score", "Candidates"], rows),
    )


def counterfactual_plot(comparison: Comparison) -> Figure:
    """Draw a bar for each way to pay for the same judgments and answers; an unknown one has none."""
    title, pitch, room = "What it would have cost otherwise", 38, 290.0
    ways = report_text.cost_alternatives(comparison)
    most = max(way.usd for way in ways if way.usd is not None)
    if most == 0:
        return Figure(title=title, why_empty="Nothing was paid, or no call has a price.")
    shapes, rows = list[Shape](), []
    for index, way in enumerate(ways):
        y, width = 14.0 + index * pitch, 0.0 if way.usd is None else float(way.usd / most) * room
        shapes += [label(2, y, way.name), *bar(2, y + 5, width, 14, "c6" if index else "c1")]
        shapes.append(label(2 if way.usd is None else width + 7, y + 16, way.words, class_="strong"))
        known = way.usd is not None and comparison.actual_usd
        rows.append([way.name, way.words, f"{(way.usd or 0) / comparison.actual_usd:.2f} times" if known else DASH])
    return Figure(
        title=title,
        name="counterfactual",
        summary="The same judgments and answers, paid in other ways.",
        shapes=shapes,
        height=10 + len(ways) * pitch,
        numbers=number_table("Dollars of this period", ["Way", "Dollars", "Against what was paid"], rows),
    )


def _describe(buckets: Sequence[TurnBucket]) -> str:
    size = len(buckets[0].turns)
    return "each turn" if size == 1 else f"means of {size} turns"


def _heights(marks: Sequence[float], texts: "Sequence[str] | map[str]") -> list[Tick]:
    return [Tick(mark / marks[-1], text) for mark, text in zip(marks, texts, strict=True)]


def _model_series(turns: Sequence[TurnLine]) -> list[tuple[LegendEntry, frozenset[str]]]:
    """Return models by what they cost, the dearest first; those past `MODELS` together."""
    totals: defaultdict[str, Decimal] = defaultdict(Decimal)
    for turn in turns:
        for model, usd in turn.cost_by_model.items():
            totals[model] += usd
    names = sorted(totals, key=lambda name: (-totals[name], name))
    own = len(names) if len(names) <= MODELS + 1 else MODELS
    series = [(LegendEntry(f"c{at}", name), frozenset({name})) for at, name in enumerate(names[:own], start=1)]
    if names[own:]:
        series.append((LegendEntry(f"c{own + 1}", f"{len(names) - own} others"), frozenset(names[own:])))
    return series


def _stack(frame: PlotFrame, index: int, *, of: int, parts: Sequence[tuple[str, float]], hint: str) -> Shape:
    """Draw one bar of several parts (colour, height), from the bottom up."""
    room = (frame.right - frame.left) / of
    width = min(room * 0.78, WIDEST_BAR)
    left, level = frame.left + room * (index + 0.5) - width / 2, 0.0
    drawn: list[Shape] = []
    for colour, ratio in parts:
        drawn += bar(left, frame.y(level + ratio), width, frame.y(level) - frame.y(level + ratio), colour)
        level += ratio
    return shape("g", shape("title", text=hint), *drawn)


def _line(frame: PlotFrame, values: Sequence[float | None], css_class: str) -> Shape:
    """Draw a line through what is known, broken where nothing is, with a mark at each value."""
    steps, marks, pen = "", list[Shape](), "M"
    for index, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        x, y = frame.x((index + 0.5) / len(values)), frame.y(value)
        steps += f"{pen}{x:.1f} {y:.1f}"
        marks.append(shape("circle", cx=x, cy=y, r=4 if len(values) == 1 else 2.2))
        pen = "L"
    return shape("g", *((shape("path", d=steps),) if steps else ()), *marks, class_=f"line {css_class}")


def _time_axis(frame: PlotFrame, buckets: Sequence[TurnBucket]) -> list[Shape]:
    times = [bucket.turns[0].at for bucket in buckets]
    marks = time_ticks(times, lambda index: (index + 0.5) / len(buckets))
    day = f" from {format_time(times[0], '%-d %b %Y')}" if any(":" in mark.text for mark in marks) else ""
    return x_axis(frame, marks, f"turns{day}, oldest first (UTC)")


def _stage_order(timing: Timing) -> tuple[bool, int, str, bool]:
    place = STAGES.index(timing.stage) if timing.stage in STAGES else len(STAGES)
    return timing.of != "turn", place, timing.stage, timing.kind != "live"
