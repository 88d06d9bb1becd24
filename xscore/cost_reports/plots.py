"""The plots of the page: cost, cache hits, latency, calls, and scores by judge.

This decides what a plot shows; `svg.html.j2` draws it. The numbers of a plot stand in a table below
it. Plots along turns go from the oldest to the newest; many turns are averaged in at most
`MAX_BUCKETS` groups. Trade-off: models past the fifth share one colour.
"""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from math import ceil, floor, log10

from msgspec import Struct
from msgspec.structs import replace

from xscore.cost_reports.latency_plot import latency_plot
from xscore.cost_reports.plot_shapes import Figure, Mark, Panel, ticks
from xscore.cost_reports.records import CostReport, ScoreHistogram, TurnLine
from xscore.cost_reports.report_lines import ReportTable
from xscore.cost_reports.report_text import HISTOGRAMS_SHOWN
from xscore.platform.clock import DAY_S
from xscore.platform.figures import DASH, format_dollars, format_mean, format_share, format_time
from xscore.platform.text import counted, ellipsize

MAX_BUCKETS = 50
MODELS = 5
"""Models that have their own colour."""
NO_TURNS = "there are no turns in this period"
ZERO = Decimal(0)
CLOCK = "%H:%M"


class TurnBucket(Struct, frozen=True):
    """Consecutive turns, oldest first; never empty."""

    turns: tuple[TurnLine, ...]

    @property
    def name(self) -> str:
        """Return the time of its first turn, and the number of turns if there are several."""
        began = format_time(self.turns[0].at)
        if len(self.turns) == 1:
            return began
        return f"{began}, {counted(len(self.turns), 'turn')}"

    def cost(self, models: frozenset[str] | None = None) -> Decimal:
        """Return dollars per turn, of some models or all."""
        paid = ZERO
        for turn in self.turns:
            for model, usd in turn.cost_by_model.items():
                if not models or model in models:
                    paid += usd
        return paid / len(self.turns)

    def hit_rates(self) -> list[float | None]:
        """Return the shares of judgments and of input tokens that caches served; None: there were
        none."""
        candidates = saved = input_tokens = cached_input_tokens = 0
        for turn in self.turns:
            if turn.coverage:
                candidates += turn.coverage.candidates
                saved += turn.coverage.cached + turn.coverage.carried
            input_tokens += turn.spent.usage.input_tokens
            cached_input_tokens += turn.spent.usage.cached_input_tokens
        return [_share_of(saved, candidates), _share_of(cached_input_tokens, input_tokens)]

    def attempts(self) -> list[float]:
        """Return attempts per turn: answered, failed, limited by a 429."""
        answered = failed = rate_limited = 0
        for turn in self.turns:
            answered += turn.spent.calls
            failed += turn.spent.failed
            rate_limited += turn.spent.rate_limited
        return [count / len(self.turns) for count in (answered, failed, rate_limited)]


def _share_of(part: int, total: int) -> float | None:
    return part / total if total else None


def bucket_turns(turns: Sequence[TurnLine]) -> list[TurnBucket]:
    """Group turns, given newest first, into at most `MAX_BUCKETS`, oldest first; the last may be
    smaller."""
    ordered = tuple(reversed(turns))
    size = ceil(len(ordered) / MAX_BUCKETS) or 1
    return [TurnBucket(ordered[start : start + size]) for start in range(0, len(ordered), size)]


def report_plots(report: CostReport) -> list[Figure]:
    """Return all plots in order."""
    buckets = bucket_turns(report.turns)
    return [
        cost_plot(buckets),
        hit_rate_plot(buckets),
        latency_plot(report.timings),
        calls_plot(buckets),
        *(score_plot(histogram) for histogram in report.histograms[:HISTOGRAMS_SHOWN]),
    ]


def cost_plot(buckets: Sequence[TurnBucket]) -> Figure:
    """Show dollars per turn, stacked by model, the most expensive at the bottom."""
    title, series = "Cost per turn", _model_series(buckets)
    highest = max(map(TurnBucket.cost, buckets), default=ZERO)
    if not highest:
        if not buckets:
            why = NO_TURNS
        elif series:
            why = "the calls of these turns cost nothing"
        else:
            why = "no call of these turns has a known price"
        return Figure(title=title, why_empty=why)
    marks = ticks(float(highest))
    places = max(0, -floor(log10(marks[1]) + 1e-9))
    if places == 1:
        # Tenths of a dollar are written with cents.
        places = 2
    axis = [(mark, f"${mark:,.{places}f}" if mark else "$0") for mark in marks]
    costs: list[list[Decimal]] = []
    rows: list[tuple[str, ...]] = []
    hints: list[str] = []
    for bucket in buckets:
        cost_by_series = [bucket.cost(models) for models in series.values()]
        costs.append(cost_by_series)
        cost = format_dollars(bucket.cost())
        rows.append((cost, *map(format_dollars, cost_by_series)))
        hints.append(f"{bucket.name}: {cost}")
    colours: list[str] = []
    legend: list[tuple[str, str]] = []
    for at, name in enumerate(series, start=1):
        colours.append(f"c{at}")
        legend.append((f"c{at}", ellipsize(name, 60)))
    bars = _bars("dollars per turn", axis, colours, costs, hints)
    return _along_turns(
        buckets,
        Figure(
            title=title,
            summary=f"Dollars per turn, stacked by model ({_describe(buckets)}).",
            panels=[bars],
            legend=legend,
            numbers=ReportTable(("all", *series), rows, words=0),
        ),
    )


def hit_rate_plot(buckets: Sequence[TurnBucket]) -> Figure:
    """Show the share of judgments that were cached, and of input tokens from prefix caches."""
    title, rates = "Cache hit rate", [bucket.hit_rates() for bucket in buckets]
    if not buckets:
        return Figure(title=title, why_empty=NO_TURNS)
    if all(pair == [None, None] for pair in rates):
        return Figure(title=title, why_empty="nothing was judged and nothing was sent")
    names = ("judgments from the cache", "input tokens from prefix caches")
    judgments, prefixes = zip(*rates, strict=True)
    panel = Panel(
        title="share",
        marks=[(0.0, "0 %"), (0.25, "25 %"), (0.5, "50 %"), (0.75, "75 %"), (1.0, "100 %")],
        lines=[("c2 dashed", prefixes), ("c1", judgments)],
    )
    rows = [tuple(map(_format_rate, pair)) for pair in rates]
    return _along_turns(
        buckets,
        Figure(
            title=title,
            summary=(
                "Share that came from a cache and was not paid in full again"
                f" ({_describe(buckets)})."
            ),
            panels=[panel],
            legend=[("c1 round", names[0]), ("c2 round", names[1])],
            numbers=ReportTable(names, rows, words=0),
        ),
    )


def _format_rate(rate: float | None) -> str:
    if rate is None:
        return DASH
    return format_share(rate, 1)


def calls_plot(buckets: Sequence[TurnBucket]) -> Figure:
    """Show calls per turn and, below on a separate scale, unanswered ones, with 429s separate."""
    title = "Calls and retries"
    if not buckets:
        return Figure(title=title, why_empty=NO_TURNS)
    answered: list[list[float]] = []
    retried: list[list[float]] = []
    rows: list[tuple[str, ...]] = []
    hints: list[str] = []
    for bucket in buckets:
        attempts = bucket.attempts()
        answered.append(attempts[:1])
        retried.append(attempts[1:])
        calls, failed, limited = map(format_mean, attempts)
        rows.append((calls, failed, limited))
        hints.append(f"{bucket.name}: {calls} calls, {failed} failed, {limited} 429s")
    answered_bars = _bars(
        "answered per turn", _marks_up_to(answered, steps=4), ["c1"], answered, hints
    )
    retried_bars = _bars(
        "without an answer, per turn", _marks_up_to(retried, steps=2), ["c2", "c3"], retried, hints
    )
    panels = [
        replace(answered_bars, bottom=110),
        replace(retried_bars, top=146, bottom=200),
    ]
    return _along_turns(
        buckets,
        Figure(
            title=title,
            summary=(
                f"Attempts per turn ({_describe(buckets)}). Below, on its own scale: those without"
                " an answer."
            ),
            panels=panels,
            legend=[("c1", "answered"), ("c2", "failed otherwise"), ("c3", "429, rate limit")],
            numbers=ReportTable(("answered", "failed otherwise", "429s"), rows, words=0),
        ),
    )


def _marks_up_to(stacks: Sequence[Sequence[float]], *, steps: int) -> list[Mark]:
    """Return the marks of an axis that reaches to the highest of these stacks."""
    highest = max(map(sum, stacks))
    return [(mark, format_mean(mark)) for mark in ticks(highest, steps)]


def _bars(
    title: str,
    marks: Sequence[Mark],
    colours: Sequence[str],
    stacks: Sequence[Sequence[float | Decimal]],
    hints: Sequence[str],
) -> Panel:
    """Make a panel of stacked bars; the last mark is at its top."""
    top = marks[-1][0]
    drawn = []
    for hint, heights in zip(hints, stacks, strict=True):
        low = 0.0
        parts: list[tuple[str, float, float]] = []
        for colour, height in zip(colours, heights, strict=True):
            high = low + float(height) / top
            parts.append((colour, low, high))
            low = high
        drawn.append((hint, parts))
    return Panel(title=title, marks=[(mark / top, text) for mark, text in marks], stacks=drawn)


def score_plot(of: ScoreHistogram) -> Figure:
    """Show how many final scores of one judge fell in each bin, on a logarithmic scale, with the
    threshold."""
    counts, threshold = of.scores, of.threshold
    title, bins = f"Scores by {ellipsize(of.judge, 60)}", len(counts)
    highest = max(counts, default=0)
    if not highest:
        return Figure(title=title, why_empty="no scores are recorded")
    digits = len(str(highest - 1))
    axis = [(0.0, format_mean(0.0))]
    for power in range(1, digits + 1):
        mark = 10.0**power
        axis.append((log10(1 + mark), format_mean(mark)))
    rows: list[tuple[str, str]] = []
    hints: list[str] = []
    stacks = []
    for at, count in enumerate(counts):
        scores = f"{at / bins:.2f} to {(at + 1) / bins:.2f}"
        rows.append((scores, f"{count:,}"))
        hints.append(f"{scores}: {count:,}")
        height = log10(1 + count)
        passes = threshold is None or (at + 0.5) / bins >= threshold
        stacks.append((0.0, height) if passes else (height, 0.0))
    panel = replace(
        _bars("candidates (logarithmic scale)", axis, ["quiet", "c1"], stacks, hints),
        threshold=threshold,
        x_title="final score",
        x_marks=[(tenth / 10, f"{tenth / 10:.1f}") for tenth in range(0, 11, 2)],
        top=34,
        bottom=174,
    )
    legend: list[tuple[str, str]] = []
    drawn = "their thresholds differ"
    if threshold is not None:
        legend = [("c1", "at or above the threshold"), ("quiet", "below")]
        drawn = "with their threshold"
    return Figure(
        title=title,
        summary=(
            f"Final scores of {counted(of.turns, 'turn')}, in steps of {1 / bins:.2f}; {drawn}."
        ),
        panels=[panel],
        legend=legend,
        numbers=ReportTable(("score", "candidates"), rows, words=1),
    )


def _model_series(buckets: Sequence[TurnBucket]) -> dict[str, frozenset[str]]:
    """Return models by cost, the most expensive first; those past `MODELS` combined."""
    totals: Counter[str] = Counter()
    for bucket in buckets:
        for turn in bucket.turns:
            totals.update(turn.cost_by_model)
    names = sorted(totals, key=lambda name: (-totals[name], name))
    # One model too many has a colour of its own rather than that of "1 others".
    coloured = len(names) if len(names) <= MODELS + 1 else MODELS
    series = {name: frozenset({name}) for name in names[:coloured]}
    combined = names[coloured:]
    if combined:
        series[f"{len(combined)} others"] = frozenset(combined)
    return series


def _describe(buckets: Sequence[TurnBucket]) -> str:
    size = len(buckets[0].turns)
    if size == 1:
        return "each turn"
    return f"averages of {size} turns"


def _along_turns(buckets: Sequence[TurnBucket], figure: Figure) -> Figure:
    """Put times below the last panel and before the numbers.

    At most four are labelled: by the clock within a day, else by days, else by months.
    """
    times = [bucket.turns[0].at for bucket in buckets]
    form = _time_form(times[-1] - times[0])
    last = len(times) - 1
    place_of_label: dict[str, float] = {}
    for index in sorted({round(step * last / 3) for step in range(4)}):
        label = format_time(times[index], form)
        place_of_label.setdefault(label, (index + 0.5) / len(times))
    # The clock alone would not say of which day.
    day = f" from {format_time(times[0], '%-d %b %Y')}" if form == CLOCK else ""
    *upper, lowest = figure.panels
    labels = [(place, label) for label, place in place_of_label.items()]
    lowest = replace(lowest, x_marks=labels, x_title=f"turns{day}, oldest first (UTC)")
    rows = [(bucket.name, *row) for bucket, row in zip(buckets, figure.numbers.rows, strict=True)]
    numbers = ReportTable(("from", *figure.numbers.heads), rows, words=1)
    return replace(figure, panels=[*upper, lowest], numbers=numbers)


def _time_form(length_s: float) -> str:
    """Return how times are written on an axis of this length."""
    if length_s < 1.5 * DAY_S:
        return CLOCK
    if length_s < 300 * DAY_S:
        return "%-d %b"
    return "%b %Y"
