"""Plots along the turns, oldest first: what they cost, what came from caches, what was sent.

Each is a figure of its own; what they share is how turns are gathered (`steps`) and how the frame is drawn (`axes`).
Dollars are exact until the one place where an amount becomes a height.

Turns gathered into few steps, so that a plot of a thousand turns is as small and as readable as one of fifty.

A step holds turns that follow each other; a plot shows its mean a turn, or its share. Pure.
Trade-off: the axis runs by turns, not by the clock: an idle week takes no room, a busy hour is not one line.
"""

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from math import ceil

from msgspec import Struct

from xscore.cost_reports.page.plot import (
    AxisTick,
    Html,
    LegendEntry,
    PlotFrame,
    bar,
    element,
    empty_figure,
    figure,
    in_dollars,
    joined,
    number_table,
    ticks,
    time_ticks,
    whole_ticks,
    x_axis,
    y_axis,
)
from xscore.platform.text import DASH, counted, format_dollars, format_mean, format_share, format_time
from xscore.records.cost_report import TurnLine

MAX_BUCKETS = 50
"""Steps in one plot."""


class HitRates(Struct, frozen=True):
    """What had not to be paid again, as shares; None where there was nothing to share."""

    judgments: float | None
    """Of candidates: their score was known already."""
    prefixes: float | None
    """Of input tokens: hosts served them from their prefix caches."""


class AttemptsPerTurn(Struct, frozen=True):
    """Attempts a turn."""

    answered: float
    failed: float
    """Without an answer, for another reason than a 429."""
    limited: float
    """429s."""


class TurnBucket(Struct, frozen=True):
    """Turns that follow each other, oldest first; never empty."""

    turns: tuple[TurnLine, ...]

    @property
    def at(self) -> float:
        """Return the moment of the first."""
        return self.turns[0].at

    @property
    def name(self) -> str:
        """Return its moment, and how many turns it holds where they are several."""
        said = format_time(self.at)
        return said if len(self.turns) == 1 else f"{said}, {counted(len(self.turns), 'turn')}"

    def cost(self, models: frozenset[str] | None = None) -> Decimal:
        """Return dollars a turn, of some models or all."""
        bills = (turn.cost_by_model.items() for turn in self.turns)
        paid = (usd for bill in bills for model, usd in bill if models is None or model in models)
        return sum(paid, Decimal(0)) / len(self.turns)

    def rates(self) -> HitRates:
        """Return what had not to be paid again."""
        coverage = [turn.coverage for turn in self.turns if turn.coverage]
        usage = [turn.spent.usage for turn in self.turns]
        return HitRates(
            _share(sum(one.cached + one.carried for one in coverage), sum(one.candidates for one in coverage)),
            _share(sum(one.cached_input_tokens for one in usage), sum(one.input_tokens for one in usage)),
        )

    def tried(self) -> AttemptsPerTurn:
        """Return the attempts a turn."""
        spent, turns = [turn.spent for turn in self.turns], len(self.turns)
        return AttemptsPerTurn(
            answered=sum(one.calls for one in spent) / turns,
            failed=sum(one.failed for one in spent) / turns,
            limited=sum(one.rate_limited for one in spent) / turns,
        )


def bucket_turns(turns: Sequence[TurnLine]) -> list[TurnBucket]:
    """Gather turns, given newest first, into at most `MOST` steps, oldest first; the last may be smaller."""
    ordered = tuple(reversed(turns))
    size = ceil(len(ordered) / MAX_BUCKETS) or 1
    return [TurnBucket(ordered[start : start + size]) for start in range(0, len(ordered), size)]


def describe_bucket(gathered: Sequence[TurnBucket]) -> str:
    """Say what one mark of the plot stands for."""
    size = len(gathered[0].turns) if gathered else 1
    return "each turn" if size == 1 else f"means of {size} turns"


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


MODELS = 5
"""Models with a colour of their own; the others share one."""
WIDEST = 26
"""A bar of few turns is no wider than this."""
MARKED = 25
"""A line of more values has no mark at each."""
NO_TURNS = "No turn lies in this stretch of the ledger."


class _ModelSeries(Struct, frozen=True):
    """One colour of the plot of costs."""

    name: str
    colour: str
    models: frozenset[str]


class _Part(Struct, frozen=True):
    """One part of a bar, as high as its share of the axis."""

    colour: str
    ratio: float


class _Point(Struct, frozen=True):
    """A value in its place; `pen` is how the line gets there: `M`, anew, or `L`, drawn."""

    pen: str
    x: float
    y: float


def cost_plot(gathered: Sequence[TurnBucket]) -> Html:
    """Draw dollars a turn, stacked by model, the dearest at the bottom."""
    title = "Cost per turn"
    if not gathered:
        return empty_figure(title, NO_TURNS)
    payees = _model_series([turn for step in gathered for turn in step.turns])
    if not payees:
        return empty_figure(title, "No call of these turns has a price.")
    most = max(step.cost() for step in gathered)
    if not most:
        return empty_figure(title, "The calls of these turns cost nothing.")
    frame, marks = PlotFrame(), ticks(float(most))
    stacks = []
    for index, step in enumerate(gathered):
        parts = [_Part(payee.colour, float(step.cost(payee.models)) / marks[-1]) for payee in payees]
        said = f"{step.name}: {format_dollars(step.cost())}"
        stacks.append(_stack(frame, index, of=len(gathered), parts=parts, said=said))
    labels = [AxisTick(mark / marks[-1], said) for mark, said in zip(marks, in_dollars(marks), strict=True)]
    drawing = joined((y_axis(frame, labels, "dollars a turn"), *stacks, _foot(frame, gathered)))
    table = number_table(
        "Dollars a turn, by model",
        ["From", "All", *(payee.name for payee in payees)],
        [
            [step.name, format_dollars(step.cost()), *(format_dollars(step.cost(payee.models)) for payee in payees)]
            for step in gathered
        ],
    )
    legend = [LegendEntry(payee.colour, payee.name) for payee in payees]
    says = f"Dollars a turn, stacked by model; {describe_bucket(gathered)}."
    return figure("cost", title, says, drawing, 192, legend=legend, numbers=table)


def hit_rate_plot(gathered: Sequence[TurnBucket]) -> Html:
    """Draw the share of judgments that were known already, and of input tokens that prefix caches served."""
    title = "Cache hit rate"
    known = [step.rates() for step in gathered]
    if all(rates.judgments is None and rates.prefixes is None for rates in known):
        return empty_figure(title, NO_TURNS if not gathered else "Nothing was judged and nothing sent.")
    frame = PlotFrame()
    drawing = joined(
        (
            y_axis(frame, [AxisTick(percent / 100, f"{percent} %") for percent in (0, 25, 50, 75, 100)], "share"),
            _line(frame, [rates.prefixes for rates in known], class_="c2 dashed"),
            _line(frame, [rates.judgments for rates in known], class_="c1"),
            _foot(frame, gathered),
        )
    )
    rows = [
        [step.name, *(DASH if value is None else format_share(value, 1) for value in (rates.judgments, rates.prefixes))]
        for step, rates in zip(gathered, known, strict=True)
    ]
    heads = ["From", "Judgments from the cache", "Input tokens from prefix caches"]
    legend = [
        LegendEntry("c1 round", "judgments from the cache"),
        LegendEntry("c2 square", "input tokens from prefix caches"),
    ]
    says = f"What had not to be paid again; {describe_bucket(gathered)}."
    table = number_table("Cache hit rates", heads, rows)
    return figure("hits", title, says, drawing, 192, legend=legend, numbers=table)


def calls_plot(gathered: Sequence[TurnBucket]) -> Html:
    """Draw calls a turn, and under them on a scale of their own what had to be tried again, 429s apart."""
    title = "Calls and retries"
    if not gathered:
        return empty_figure(title, NO_TURNS)
    known = [step.tried() for step in gathered]
    upper, lower = PlotFrame(bottom=110), PlotFrame(top=146, bottom=200)
    above = whole_ticks(max(tried.answered for tried in known))
    below = whole_ticks(max(tried.failed + tried.limited for tried in known), 2)
    stacks = []
    for index, (step, tried) in enumerate(zip(gathered, known, strict=True)):
        said = f"{step.name}: {_tried(tried)}"
        answered = [_Part("c1", tried.answered / above[-1])]
        again = [_Part("c2", tried.failed / below[-1]), _Part("c3", tried.limited / below[-1])]
        stacks.append(_stack(upper, index, of=len(gathered), parts=answered, said=said))
        stacks.append(_stack(lower, index, of=len(gathered), parts=again, said=said))
    drawing = joined(
        (
            y_axis(upper, [AxisTick(mark / above[-1], format_mean(mark)) for mark in above], "answered, a turn"),
            y_axis(
                lower,
                [AxisTick(mark / below[-1], format_mean(mark)) for mark in below],
                "tried again or given up, a turn",
            ),
            *stacks,
            _foot(lower, gathered),
        )
    )
    rows = [
        [step.name, *map(format_mean, (tried.answered, tried.failed, tried.limited))]
        for step, tried in zip(gathered, known, strict=True)
    ]
    table = number_table("Calls a turn", ["From", "Answered", "Failed otherwise", "429s"], rows)
    legend = [
        LegendEntry("c1", "answered"),
        LegendEntry("c2", "failed otherwise"),
        LegendEntry("c3", "429: over a limit"),
    ]
    says = f"Attempts a turn; {describe_bucket(gathered)}. Below, on a scale of its own, what got no answer."
    return figure("calls", title, says, drawing, 232, legend=legend, numbers=table)


def _model_series(turns: Sequence[TurnLine]) -> list[_ModelSeries]:
    """Return models by what they cost, the dearest first; those past `MODELS` together."""
    whole: defaultdict[str, Decimal] = defaultdict(Decimal)
    for turn in turns:
        for model, usd in turn.cost_by_model.items():
            whole[model] += usd
    names = sorted(whole, key=lambda name: (-whole[name], name))
    own = len(names) if len(names) <= MODELS + 1 else MODELS
    payees = [_ModelSeries(name, f"c{colour}", frozenset({name})) for colour, name in enumerate(names[:own], start=1)]
    if names[own:]:
        payees.append(_ModelSeries(f"{len(names) - own} others", f"c{own + 1}", frozenset(names[own:])))
    return payees


def _tried(tried: AttemptsPerTurn) -> str:
    return f"{format_mean(tried.answered)} calls, {format_mean(tried.failed)} failed, {format_mean(tried.limited)} 429s"


def _stack(frame: PlotFrame, index: int, *, of: int, parts: Sequence[_Part], said: str) -> Html:
    """Draw one bar of several parts, from the bottom up, with words for who points at it."""
    room = (frame.right - frame.left) / of
    width = min(room * 0.78, WIDEST)
    left, level = frame.left + room * (index + 0.5) - width / 2, 0.0
    drawn: list[Html] = [element("title", said)]
    for part in parts:
        above = level + part.ratio
        drawn.append(bar(left, frame.y(above), width, frame.y(level) - frame.y(above), part.colour))
        level = above
    return element("g", *drawn)


def _line(frame: PlotFrame, values: Sequence[float | None], *, class_: str) -> Html:
    """Draw a line through what is known, broken where nothing is, with a mark at each value of few."""
    points: list[_Point] = []
    pen, few = "M", len(values) <= MARKED or values.count(None) > 0
    for index, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        points.append(_Point(pen, frame.x((index + 0.5) / len(values)), frame.y(value)))
        pen = "L"
    way = element("path", d="".join(f"{point.pen}{point.x:.1f} {point.y:.1f}" for point in points))
    shape, size = _square if "dashed" in class_ else _circle, 4 if len(values) == 1 else 2.2
    return element("g", way, *(shape(point, size) for point in points if few), class_=f"line {class_}")


def _circle(at: _Point, size: float) -> Html:
    return element("circle", cx=at.x, cy=at.y, r=size)


def _square(at: _Point, size: float) -> Html:
    return element("rect", x=at.x - size, y=at.y - size, width=2 * size, height=2 * size)


def _foot(frame: PlotFrame, gathered: Sequence[TurnBucket]) -> Html:
    marks = time_ticks([step.at for step in gathered], lambda index: (index + 0.5) / len(gathered))
    within_a_day = any(":" in mark.words for mark in marks)
    day = f" from {format_time(gathered[0].at, '%-d %b %Y')}" if within_a_day else ""
    return x_axis(frame, marks, f"turns{day}, oldest first (UTC)")
