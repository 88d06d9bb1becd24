"""Plots along the turns, oldest first: what they cost, what came from caches, what was sent.

Each is a figure of its own; what they share is how turns are gathered (`steps`) and how the frame is drawn (`axes`).
Dollars are exact until the one place where an amount becomes a height.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from xscore.cost_reports.page.axes import Frame, Mark, foot, in_dollars, moments, side, ticks, whole_ticks
from xscore.cost_reports.page.figure import Sign, bar, figure, nothing, numbers
from xscore.cost_reports.page.markup import Html, element, joined
from xscore.cost_reports.page.steps import Step, Tried, each
from xscore.records.cost_report import TurnLine
from xscore.wording import DASH, dollars, mean, moment, share

MODELS = 5
"""Models with a colour of their own; the others share one."""
WIDEST = 26
"""A bar of few turns is no wider than this."""
MARKED = 25
"""A line of more values has no mark at each."""
NO_TURNS = "No turn lies in this stretch of the ledger."


@dataclass(frozen=True, slots=True)
class _Payee:
    """One colour of the plot of costs."""

    name: str
    colour: str
    models: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Part:
    """One part of a bar, as high as its share of the axis."""

    colour: str
    ratio: float


@dataclass(frozen=True, slots=True)
class _Point:
    """A value in its place; `pen` is how the line gets there: `M`, anew, or `L`, drawn."""

    pen: str
    x: float
    y: float


def cost(gathered: Sequence[Step]) -> Html:
    """Draw dollars a turn, stacked by model, the dearest at the bottom."""
    title = "Cost per turn"
    if not gathered:
        return nothing(title, NO_TURNS)
    payees = _payees([turn for step in gathered for turn in step.turns])
    if not payees:
        return nothing(title, "No call of these turns has a price.")
    most = max(step.cost() for step in gathered)
    if not most:
        return nothing(title, "The calls of these turns cost nothing.")
    frame, marks = Frame(), ticks(float(most))
    stacks = []
    for index, step in enumerate(gathered):
        parts = [_Part(payee.colour, float(step.cost(payee.models)) / marks[-1]) for payee in payees]
        said = f"{step.name}: {dollars(step.cost())}"
        stacks.append(_stack(frame, index, of=len(gathered), parts=parts, said=said))
    labels = [Mark(mark / marks[-1], said) for mark, said in zip(marks, in_dollars(marks), strict=True)]
    drawing = joined((side(frame, labels, "dollars a turn"), *stacks, _foot(frame, gathered)))
    table = numbers(
        "Dollars a turn, by model",
        ["From", "All", *(payee.name for payee in payees)],
        [
            [step.name, dollars(step.cost()), *(dollars(step.cost(payee.models)) for payee in payees)]
            for step in gathered
        ],
    )
    legend = [Sign(payee.colour, payee.name) for payee in payees]
    says = f"Dollars a turn, stacked by model; {each(gathered)}."
    return figure("cost", title, says, drawing, 192, legend=legend, numbers=table)


def hit_rate(gathered: Sequence[Step]) -> Html:
    """Draw the share of judgments that were known already, and of input tokens that prefix caches served."""
    title = "Cache hit rate"
    known = [step.rates() for step in gathered]
    if all(rates.judgments is None and rates.prefixes is None for rates in known):
        return nothing(title, NO_TURNS if not gathered else "Nothing was judged and nothing sent.")
    frame = Frame()
    drawing = joined(
        (
            side(frame, [Mark(percent / 100, f"{percent} %") for percent in (0, 25, 50, 75, 100)], "share"),
            _line(frame, [rates.prefixes for rates in known], class_="c2 dashed"),
            _line(frame, [rates.judgments for rates in known], class_="c1"),
            _foot(frame, gathered),
        )
    )
    rows = [
        [step.name, *(DASH if value is None else share(value, 1) for value in (rates.judgments, rates.prefixes))]
        for step, rates in zip(gathered, known, strict=True)
    ]
    heads = ["From", "Judgments from the cache", "Input tokens from prefix caches"]
    legend = [Sign("c1 round", "judgments from the cache"), Sign("c2 square", "input tokens from prefix caches")]
    says = f"What had not to be paid again; {each(gathered)}."
    table = numbers("Cache hit rates", heads, rows)
    return figure("hits", title, says, drawing, 192, legend=legend, numbers=table)


def calls(gathered: Sequence[Step]) -> Html:
    """Draw calls a turn, and under them on a scale of their own what had to be tried again, 429s apart."""
    title = "Calls and retries"
    if not gathered:
        return nothing(title, NO_TURNS)
    known = [step.tried() for step in gathered]
    upper, lower = Frame(bottom=110), Frame(top=146, bottom=200)
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
            side(upper, [Mark(mark / above[-1], mean(mark)) for mark in above], "answered, a turn"),
            side(lower, [Mark(mark / below[-1], mean(mark)) for mark in below], "tried again or given up, a turn"),
            *stacks,
            _foot(lower, gathered),
        )
    )
    rows = [
        [step.name, *map(mean, (tried.answered, tried.failed, tried.limited))]
        for step, tried in zip(gathered, known, strict=True)
    ]
    table = numbers("Calls a turn", ["From", "Answered", "Failed otherwise", "429s"], rows)
    legend = [Sign("c1", "answered"), Sign("c2", "failed otherwise"), Sign("c3", "429: over a limit")]
    says = f"Attempts a turn; {each(gathered)}. Below, on a scale of its own, what got no answer."
    return figure("calls", title, says, drawing, 232, legend=legend, numbers=table)


def _payees(turns: Sequence[TurnLine]) -> list[_Payee]:
    """Return models by what they cost, the dearest first; those past `MODELS` together."""
    whole: defaultdict[str, Decimal] = defaultdict(Decimal)
    for turn in turns:
        for model, usd in turn.cost_by_model.items():
            whole[model] += usd
    names = sorted(whole, key=lambda name: (-whole[name], name))
    own = len(names) if len(names) <= MODELS + 1 else MODELS
    payees = [_Payee(name, f"c{colour}", frozenset({name})) for colour, name in enumerate(names[:own], start=1)]
    if names[own:]:
        payees.append(_Payee(f"{len(names) - own} others", f"c{own + 1}", frozenset(names[own:])))
    return payees


def _tried(tried: Tried) -> str:
    return f"{mean(tried.answered)} calls, {mean(tried.failed)} failed, {mean(tried.limited)} 429s"


def _stack(frame: Frame, index: int, *, of: int, parts: Sequence[_Part], said: str) -> Html:
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


def _line(frame: Frame, values: Sequence[float | None], *, class_: str) -> Html:
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


def _foot(frame: Frame, gathered: Sequence[Step]) -> Html:
    marks = moments([step.at for step in gathered], lambda index: (index + 0.5) / len(gathered))
    within_a_day = any(":" in mark.words for mark in marks)
    day = f" from {moment(gathered[0].at, '%-d %b %Y')}" if within_a_day else ""
    return foot(frame, marks, f"turns{day}, oldest first (UTC)")
