"""The plots of the page as SVG: cost, cache hits, latency, calls, scores by judge, and other ways to pay.

The numbers of a plot stand in a table below it. Plots along turns go from the oldest to the newest; many turns are
gathered into at most `MAX_BUCKETS` means. Trade-off: models past the fifth share one colour.
"""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from math import ceil, floor, isfinite, log10

from markupsafe import Markup
from msgspec import Struct

from xscore.cost_reports.page.drawing import Frame, anchor, bar, bars, label, line, shape, ticks, x_axis, y_axis
from xscore.cost_reports.records import Comparison, CostReport, ScoreHistogram, Timing, TurnLine
from xscore.cost_reports.report_text import HISTOGRAMS_SHOWN, ReportTable, cost_alternatives
from xscore.platform.clock import DAY_S
from xscore.platform.text import (
    DASH,
    counted,
    ellipsize,
    format_dollars,
    format_duration,
    format_mean,
    format_share,
    format_time,
)

MAX_BUCKETS = 50
MODELS = 5
"""Models with a colour of their own."""
FASTEST_S = 0.001
"""What took less stands at the left edge."""
NO_TURNS = "there are no turns in this period"
STAGES = ("index", "pool", "cache", "judge", "select", "primary", "total", "probe", "embed")
ZERO = Decimal(0)


class Figure(Struct, frozen=True, kw_only=True):
    """One plot with everything around it."""

    title: str
    why_empty: str = ""
    """Why there is nothing to draw; then the rest is empty."""
    summary: str = ""
    drawing: Sequence[Markup] = ()
    height: int = 0
    legend: Sequence[tuple[str, str]] = ()
    """CSS classes of a mark (a colour, and a shape where it is not a bar), and what it means."""
    numbers: ReportTable | None = None


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
        return sum(paid, ZERO) / len(self.turns)

    def hit_rates(self) -> list[float | None]:
        """Return the shares of judgments and of input tokens that caches served; None: there were none."""
        coverage = [turn.coverage for turn in self.turns if turn.coverage]
        usage = [turn.spent.usage for turn in self.turns]
        parts = [sum(one.cached + one.carried for one in coverage), sum(one.cached_input_tokens for one in usage)]
        wholes = [sum(one.candidates for one in coverage), sum(one.input_tokens for one in usage)]
        return [part / whole if whole else None for part, whole in zip(parts, wholes, strict=True)]

    def attempts(self) -> list[float]:
        """Return attempts a turn: answered, failed, limited by a 429."""
        each = [(turn.spent.calls, turn.spent.failed, turn.spent.rate_limited) for turn in self.turns]
        return [sum(column) / len(each) for column in zip(*each, strict=True)]


def bucket_turns(turns: Sequence[TurnLine]) -> list[TurnBucket]:
    """Gather turns, given newest first, into at most `MAX_BUCKETS`, oldest first; the last may be smaller."""
    ordered = tuple(reversed(turns))
    size = ceil(len(ordered) / MAX_BUCKETS) or 1
    return [TurnBucket(ordered[start : start + size]) for start in range(0, len(ordered), size)]


def report_plots(report: CostReport) -> list[Figure]:
    """Return all plots in their order."""
    buckets = bucket_turns(report.turns)
    return [
        cost_plot(buckets),
        hit_rate_plot(buckets),
        latency_plot(report.timings),
        calls_plot(buckets),
        *(score_plot(one) for one in report.histograms[:HISTOGRAMS_SHOWN]),
        counterfactual_plot(report.comparison),
    ]


def cost_plot(buckets: Sequence[TurnBucket]) -> Figure:
    """Draw dollars a turn, stacked by model, the dearest at the bottom."""
    title, series = "Cost per turn", _model_series(buckets)
    most = max((bucket.cost() for bucket in buckets), default=ZERO)
    if not most:
        why = "the calls of these turns cost nothing" if series else "no call of these turns has a known price"
        return Figure(title=title, why_empty=why if buckets else NO_TURNS)
    frame, marks = Frame(), ticks(float(most))
    places = max(0, -floor(log10(marks[1]) + 1e-9))
    axis = [f"${mark:,.{2 if places == 1 else places}f}" if mark else "$0" for mark in marks]
    costs = [[bucket.cost(models) for models in series.values()] for bucket in buckets]
    hints = [f"{bucket.name}: {format_dollars(bucket.cost())}" for bucket in buckets]
    stacks = [[(f"c{at}", float(usd)) for at, usd in enumerate(row, start=1)] for row in costs]
    rows = [
        (bucket.name, format_dollars(bucket.cost()), *map(format_dollars, row))
        for bucket, row in zip(buckets, costs, strict=True)
    ]
    return Figure(
        title=title,
        summary=f"Dollars per turn, stacked by model ({_describe(buckets)}).",
        drawing=[
            *y_axis(frame, marks, axis, "dollars per turn"),
            *bars(frame, stacks, marks[-1], hints),
            *_time_axis(frame, buckets),
        ],
        height=192,
        legend=[(f"c{at}", ellipsize(name, 60)) for at, name in enumerate(series, start=1)],
        numbers=ReportTable(("from", "all", *series), rows, words=1),
    )


def hit_rate_plot(buckets: Sequence[TurnBucket]) -> Figure:
    """Draw the share of judgments that were known already, and of input tokens that prefix caches served."""
    title, rates = "Cache hit rate", [bucket.hit_rates() for bucket in buckets]
    if all(rate is None for pair in rates for rate in pair):
        return Figure(title=title, why_empty="nothing was judged and nothing was sent" if buckets else NO_TURNS)
    frame, percents = Frame(), (0, 25, 50, 75, 100)
    names = ("judgments from the cache", "input tokens from prefix caches")
    rows = [
        (bucket.name, *(DASH if rate is None else format_share(rate, 1) for rate in pair))
        for bucket, pair in zip(buckets, rates, strict=True)
    ]
    return Figure(
        title=title,
        summary=f"Share that came from a cache and was not paid in full again ({_describe(buckets)}).",
        drawing=[
            *y_axis(frame, percents, [f"{percent} %" for percent in percents], "share"),
            line(frame, [prefixes for _, prefixes in rates], "c2 dashed"),
            line(frame, [judgments for judgments, _ in rates], "c1"),
            *_time_axis(frame, buckets),
        ],
        height=192,
        legend=[("c1 round", names[0]), ("c2 round", names[1])],
        numbers=ReportTable(("from", *names), rows, words=1),
    )


def calls_plot(buckets: Sequence[TurnBucket]) -> Figure:
    """Draw calls a turn, and below, on a scale of its own, what got no answer, 429s apart."""
    title, attempts = "Calls and retries", [bucket.attempts() for bucket in buckets]
    if not buckets:
        return Figure(title=title, why_empty=NO_TURNS)
    upper, lower = Frame(bottom=110), Frame(top=146, bottom=200)
    rows = [(bucket.name, *map(format_mean, each)) for bucket, each in zip(buckets, attempts, strict=True)]
    hints = [f"{began}: {calls} calls, {failed} failed, {limited} 429s" for began, calls, failed, limited in rows]
    answered = [[("c1", each[0])] for each in attempts]
    retried = [[("c2", each[1]), ("c3", each[2])] for each in attempts]
    drawing = _time_axis(lower, buckets)
    for frame, stacks, name, most in (
        (upper, answered, "answered per turn", 4),
        (lower, retried, "without an answer, per turn", 2),
    ):
        marks = ticks(max(sum(height for _, height in stack) for stack in stacks), most)
        drawing += [*y_axis(frame, marks, list(map(format_mean, marks)), name)]
        drawing += bars(frame, stacks, marks[-1], hints)
    return Figure(
        title=title,
        summary=f"Attempts per turn ({_describe(buckets)}). Below, on its own scale: those without an answer.",
        drawing=drawing,
        height=232,
        legend=[("c1", "answered"), ("c2", "failed otherwise"), ("c3", "429, rate limit")],
        numbers=ReportTable(("from", "answered", "failed otherwise", "429s"), rows, words=1),
    )


def latency_plot(timings: Sequence[Timing]) -> Figure:
    """Draw a line from p50 to p99 for each stage; one that took no time stands in the table alone."""
    title = "Latency by stage"
    known = sorted((timing for timing in timings if timing.count), key=_stage_order)
    drawn = [timing for timing in known if timing.p99_s > 0 and isfinite(timing.p99_s)]
    if not drawn:
        return Figure(title=title, why_empty="nothing was timed")
    frame = Frame(left=88, top=6, bottom=14 + 14 * len(drawn))
    slowest = max(timing.p99_s for timing in drawn)
    first = floor(log10(max(min(timing.p50_s for timing in drawn), FASTEST_S)) + 1e-9)
    last = max(ceil(log10(max(2 * FASTEST_S, slowest)) - 1e-9), first + 1)
    powers = range(first, last + 1, 1 if last - first < 6 else 2)
    marks = [((power - first) / (last - first), _in_seconds(power)) for power in powers]
    grid = (frame.x(at) for at, _ in marks)
    shapes = [shape("g", *(shape("line", x1=x, x2=x, y1=frame.top, y2=frame.bottom) for x in grid), class_="grid")]
    rows = []
    for timing in known:
        seconds = (timing.p50_s, timing.p95_s, timing.p99_s)
        rows.append((_timing_name(timing), timing.kind, f"{timing.count:,}", *map(format_duration, seconds)))
    for index, timing in enumerate(drawn):
        y = frame.top + 10 + 14 * index
        places = (log10(max(each, 10.0**first)) for each in (timing.p50_s, timing.p95_s, timing.p99_s))
        shapes.append(label(frame.left - 5, y + 3.5, _timing_name(timing), "end"))
        shapes.append(_spread(timing, y, *(frame.x((place - first) / (last - first)) for place in places)))
    return Figure(
        title=title,
        summary="Seconds per stage and call. Cached: turns without a judging call, calls that a prefix cache served.",
        drawing=[*shapes, *x_axis(frame, marks, "logarithmic scale")],
        height=round(frame.bottom) + 30,
        legend=[
            *(("c1", "live"), ("c2", "cached")),
            *(("round ink", "p50"), ("square ink", "p95"), ("diamond ink", "p99")),
        ],
        numbers=ReportTable(("stage", "kind", "count", "p50", "p95", "p99"), rows, words=2),
    )


def score_plot(of: ScoreHistogram) -> Figure:
    """Draw how many final scores of one judge fell in each bin, on a logarithmic scale, with the threshold."""
    counts, threshold = of.scores, of.threshold
    title, bins, most = f"Scores by {ellipsize(of.judge, 60)}", len(counts), max(counts, default=0)
    if not most:
        return Figure(title=title, why_empty="no scores are recorded")
    frame = Frame(top=34, bottom=174)
    marks = [0.0, *(10.0**power for power in range(1, len(str(most - 1)) + 1))]
    heights = [log10(1 + count) for count in counts]
    rows: list[tuple[str, ...]] = [
        (f"{at / bins:.2f} to {(at + 1) / bins:.2f}", f"{count:,}") for at, count in enumerate(counts)
    ]
    stacks = [
        [("c1" if (index + 0.5) / bins >= threshold else "quiet", height)] for index, height in enumerate(heights)
    ]
    at = frame.x(threshold)
    tenths = [(tenth / 10, f"{tenth / 10:.1f}") for tenth in range(0, 11, 2)]
    return Figure(
        title=title,
        summary=f"Final scores of {counted(of.turns, 'turn')}, in steps of {1 / bins:.2f}, with the latest threshold.",
        drawing=[
            *y_axis(
                frame,
                [log10(1 + mark) for mark in marks],
                list(map(format_mean, marks)),
                "candidates (logarithmic scale)",
            ),
            *bars(frame, stacks, log10(1 + marks[-1]), [": ".join(row) for row in rows]),
            shape("line", x1=at, x2=at, y1=17, y2=frame.bottom, class_="threshold"),
            label(at, 13, f"threshold {threshold:.2f}", anchor(round(threshold)), "strong"),
            *x_axis(frame, tenths, "final score"),
        ],
        height=206,
        legend=[("c1", "at or above the threshold"), ("quiet", "below")],
        numbers=ReportTable(("score", "candidates"), rows, words=1),
    )


def counterfactual_plot(comparison: Comparison) -> Figure:
    """Draw a bar for each way to pay for the same judgments and answers; an unknown one has none."""
    title, pitch, room = "What it would have cost otherwise", 38, 290.0
    ways = cost_alternatives(comparison)
    most = max(way.usd for way in ways if way.usd is not None)
    if most == 0:
        return Figure(title=title, why_empty="nothing was paid, or no call has a known price")
    shapes = list[Markup]()
    for index, way in enumerate(ways):
        y, width = 14.0 + index * pitch, 0.0 if way.usd is None else float(way.usd / most) * room
        shapes += [label(2, y, way.name), *bar(2, y + 5, width, 14, "c6" if index else "c1")]
        shapes.append(label(2 if way.usd is None else width + 7, y + 16, way.words, class_="strong"))
    return Figure(
        title=title,
        summary="What the same judgments and answers would have cost in other ways.",
        drawing=shapes,
        height=10 + len(ways) * pitch,
        numbers=ReportTable(("way", "dollars"), [(way.name, way.words) for way in ways], words=1),
    )


def _model_series(buckets: Sequence[TurnBucket]) -> dict[str, frozenset[str]]:
    """Return models by what they cost, the dearest first; those past `MODELS` together."""
    totals: Counter[str] = Counter()
    for bucket in buckets:
        for turn in bucket.turns:
            totals.update(turn.cost_by_model)
    names = sorted(totals, key=lambda name: (-totals[name], name))
    own = len(names) if len(names) <= MODELS + 1 else MODELS
    series = {name: frozenset({name}) for name in names[:own]}
    return {**series, f"{len(names) - own} others": frozenset(names[own:])} if names[own:] else series


def _describe(buckets: Sequence[TurnBucket]) -> str:
    size = len(buckets[0].turns)
    return "each turn" if size == 1 else f"averages of {size} turns"


def _in_seconds(power: int) -> str:
    return f"{10.0 ** (power + 3):g} ms" if power < 0 else f"{10.0**power:g} s"


def _timing_name(timing: Timing) -> str:
    return f"{timing.of}: {timing.stage}"


def _stage_order(timing: Timing) -> tuple[bool, int, str, bool]:
    place = STAGES.index(timing.stage) if timing.stage in STAGES else len(STAGES)
    return timing.of != "turn", place, timing.stage, timing.kind != "live"


def _time_axis(frame: Frame, buckets: Sequence[TurnBucket]) -> list[Markup]:
    """Label at most four of the times: by the clock within a day, else by days, else by months."""
    times = [bucket.turns[0].at for bucket in buckets]
    length, last = times[-1] - times[0], len(times) - 1
    form = "%H:%M" if length < 1.5 * DAY_S else "%-d %b" if length < 300 * DAY_S else "%b %Y"
    marks: dict[str, float] = {}
    for index in sorted({round(step * last / 3) for step in range(4)}):
        marks.setdefault(format_time(times[index], form), (index + 0.5) / len(times))
    day = f" from {format_time(times[0], '%-d %b %Y')}" if form == "%H:%M" else ""
    return x_axis(frame, [(at, text) for text, at in marks.items()], f"turns{day}, oldest first (UTC)")


def _spread(timing: Timing, y: float, p50: float, p95: float, p99: float) -> Markup:
    times = [format_duration(each) for each in (timing.p50_s, timing.p95_s, timing.p99_s)]
    hint = f"{_timing_name(timing)}, {timing.kind}, {timing.count:,} times: " + "p50 {}, p95 {}, p99 {}".format(*times)
    return shape(
        "g",
        shape("title", text=hint),
        shape("line", x1=p50, x2=p99, y1=y, y2=y),
        shape("path", d=f"M{p99:.1f} {y - 3.6:.1f}l3.6 3.6-3.6 3.6-3.6-3.6z"),
        shape("rect", x=p95 - 2.4, y=y - 2.4, width=4.8, height=4.8),
        shape("circle", cx=p50, cy=y, r=2.8),
        class_=f"spread {'c1' if timing.kind == 'live' else 'c2'}",
    )
