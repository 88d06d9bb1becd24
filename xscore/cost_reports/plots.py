"""The plots of the page: cost, coverage and caches, latency, calls, agreement, what answers used,
and scores by judge.

This decides what a plot shows; `plots.js` draws it. The numbers of a plot are in a table below
it. Plots along turns go from the oldest to the newest; many turns are averaged in at most
`MAX_BUCKETS` groups. Trade-off: models past the fifth share one colour.
"""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from xscore.cost_reports.choice_plots import agreement_plot, answer_use_plot
from xscore.cost_reports.latency_plot import latency_plot
from xscore.cost_reports.plot_shapes import Axis, Figure, Panel
from xscore.cost_reports.records import CostReport, GateFigures, ScoreHistogram, TurnLine
from xscore.cost_reports.report_lines import ReportTable
from xscore.cost_reports.report_text import HISTOGRAMS_SHOWN
from xscore.platform.figures import DASH, format_dollars, format_mean, format_share, format_time
from xscore.platform.text import counted, ellipsize

MAX_BUCKETS = 50
MODELS = 5
"""How many models have their own colour."""
NO_TURNS = "there are no turns in this period"
ZERO = Decimal(0)


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

    def shares(self) -> list[float | None]:
        """Return the shares of candidates that have a score, of judgments and of input tokens
        that caches served; None if there were none."""
        candidates = unjudged = saved = input_tokens = cached_input_tokens = 0
        for turn in self.turns:
            if turn.coverage:
                candidates += turn.coverage.candidates
                unjudged += turn.coverage.unjudged
                saved += turn.coverage.cached + turn.coverage.carried
            input_tokens += turn.spent.usage.input_tokens
            cached_input_tokens += turn.spent.usage.cached_input_tokens
        return [
            _share_of(candidates - unjudged, candidates),
            _share_of(saved, candidates),
            _share_of(cached_input_tokens, input_tokens),
        ]

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


def report_plots(report: CostReport, baseline: GateFigures | None = None) -> list[Figure]:
    """Return all plots in order. baseline: what latencies are shown against."""
    buckets = bucket_turns(report.turns)
    return [
        cost_plot(buckets),
        coverage_plot(buckets),
        latency_plot(report.timings, baseline),
        calls_plot(buckets),
        agreement_plot(report.details),
        answer_use_plot(report.details, report.turns),
        *(score_plot(histogram) for histogram in report.histograms[:HISTOGRAMS_SHOWN]),
    ]


def cost_plot(buckets: Sequence[TurnBucket]) -> Figure:
    """Show dollars per turn, stacked by model, the most expensive at the bottom."""
    title = "Cost per turn"
    series = _model_series(buckets)
    highest = max(map(TurnBucket.cost, buckets), default=ZERO)
    if not highest:
        if not buckets:
            why = NO_TURNS
        elif series:
            why = "the calls of these turns cost nothing"
        else:
            why = "no call of these turns has a known price"
        return Figure(title=title, why_empty=why)
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
    bars = _bars(Axis(title="dollars per turn", form="dollars"), colours, costs, hints)
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


def coverage_plot(buckets: Sequence[TurnBucket]) -> Figure:
    """Show the share of candidates that have a score, of judgments that were cached, and of input
    tokens from prefix caches."""
    title = "Coverage and caches"
    shares = [bucket.shares() for bucket in buckets]
    if not buckets:
        return Figure(title=title, why_empty=NO_TURNS)
    if all(not any(bucket_shares) for bucket_shares in shares):
        return Figure(title=title, why_empty="nothing was judged and nothing was sent")
    names = (
        "candidates with a score",
        "judgments from the cache",
        "input tokens from prefix caches",
    )
    covered, judgments, prefixes = zip(*shares, strict=True)
    panel = Panel(
        y=Axis(title="share", form="share", low=0.0, high=1.0),
        lines=[("c3", covered), ("c2 dashed", prefixes), ("c1", judgments)],
    )
    rows = [tuple(map(_format_rate, bucket_shares)) for bucket_shares in shares]
    return _along_turns(
        buckets,
        Figure(
            title=title,
            summary=(
                "How much was judged, and the share that came from a cache and was not paid in full"
                f" again ({_describe(buckets)})."
            ),
            panels=[panel],
            legend=[("c3 round", names[0]), ("c1 round", names[1]), ("c2 round", names[2])],
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
    panels = [
        _bars(Axis(title="answered per turn"), ["c1"], answered, hints, tall=100),
        _bars(Axis(title="without an answer, per turn"), ["c2", "c3"], retried, hints, tall=56),
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


def _bars(
    axis: Axis,
    colours: Sequence[str],
    stacks: Sequence[Sequence[float | Decimal]],
    hints: Sequence[str],
    *,
    tall: int = 150,
) -> Panel:
    """Make a panel of stacked bars."""
    drawn = []
    for hint, heights in zip(hints, stacks, strict=True):
        low = 0.0
        parts: list[tuple[str, float, float]] = []
        for colour, height in zip(colours, heights, strict=True):
            high = low + float(height)
            parts.append((colour, low, high))
            low = high
        drawn.append((hint, parts))
    return Panel(y=axis, stacks=drawn, tall=tall)


def score_plot(of: ScoreHistogram) -> Figure:
    """Show how many final scores of one judge fell in each bin, on a logarithmic scale, with the
    cut."""
    counts = of.scores
    threshold = of.threshold
    title = f"Scores by {ellipsize(of.judge, 60)}"
    bins = len(counts)
    if not any(counts):
        return Figure(title=title, why_empty="no scores are recorded")
    rows: list[tuple[str, str]] = []
    stacks: list[tuple[str, list[tuple[str, float, float]]]] = []
    for at, count in enumerate(counts):
        scores = f"{at / bins:.2f} to {(at + 1) / bins:.2f}"
        rows.append((scores, f"{count:,}"))
        stacks.append((f"{scores}: {count:,}", [("ramp", 0.0, float(count))]))
    panel = Panel(
        y=Axis(title="candidates (logarithmic scale)", scale="symlog"),
        x=Axis(title="final score", form="score", low=0.0, high=1.0),
        stacks=stacks,
        threshold=threshold,
        threshold_title="" if threshold is None else f"cut {threshold:.2f}",
        tall=140,
    )
    drawn = "their cuts differ" if threshold is None else "with their cut"
    return Figure(
        title=title,
        summary=(
            f"Final scores of {counted(of.turns, 'turn')}, in steps of {1 / bins:.2f}; {drawn}."
        ),
        panels=[panel],
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
    """Put times below all panels and before the numbers."""
    times = [bucket.turns[0].at for bucket in buckets]
    panels = [replace(panel, times=times) for panel in figure.panels]
    panels[-1] = replace(panels[-1], x_title="turns, oldest first (UTC)")
    rows = [
        (bucket.name, *row) for bucket, row in zip(buckets, figure.numbers.rows, strict=True)
    ]
    numbers = ReportTable(("from", *figure.numbers.heads), rows, words=1)
    return replace(figure, panels=panels, numbers=numbers)
