"""What a plot consists of, as `svg.html.j2` draws it, and the round figures of its axes.

The numbers of a plot stand in a table below it. Trade-off: positions are shares of an axis, so only
the template knows of pixels, but for the room that a panel takes.
"""

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from msgspec import Struct

from xscore.cost_reports.report_lines import ReportTable

Mark = tuple[float, str]
"""A label of an axis, with its position."""


class Spread(NamedTuple):
    """A line with a circle, a square and a diamond: percentiles of a stage, or an interval with its
    mean. Label, hint and colour, and three positions from left to right."""

    name: str
    hint: str
    colour: str
    low: float
    middle: float
    high: float


class Panel(Struct, frozen=True, kw_only=True):
    """One pair of axes and its contents. Positions are 0..1, from the left and from the bottom."""

    title: str = ""
    """Title of the left axis."""
    marks: Sequence[Mark] = ()
    """Marks of the left axis; the last is 1."""
    x_title: str = ""
    x_marks: Sequence[Mark] = ()
    left: int = 46
    """Pixels from the left edge; `top` and `bottom` from the top."""
    top: int = 20
    bottom: int = 160
    stacks: Sequence[tuple[str, Sequence[tuple[str, float, float]]]] = ()
    """Bars side by side: a hint, and the parts of the bar: colour, lower and upper end."""
    lines: Sequence[tuple[str, Sequence[float | None]]] = ()
    """CSS classes, and a height for each step; None interrupts the line."""
    spreads: Sequence[Spread] = ()
    """One spread below the other."""
    threshold: float | None = None
    threshold_title: str = ""
    """Words at the line; empty: its position as a score."""


class Figure(Struct, frozen=True, kw_only=True):
    """One plot with its captions."""

    title: str
    why_empty: str = ""
    """Why there is nothing to draw; then the other fields are empty."""
    summary: str = ""
    panels: Sequence[Panel] = ()
    """One panel below the other."""
    legend: Sequence[tuple[str, str]] = ()
    """CSS classes of a mark (a colour, and a shape unless it is a bar), and its meaning."""
    numbers: ReportTable = ReportTable((), [], words=0)


def ticks(top: float, steps: int = 4) -> tuple[float, ...]:
    """Return round figures from 0 to the first at or above `top`, in steps of 1, 2 or 5 times a
    power of ten."""
    if top <= 0:
        return (0.0, 1.0)
    rough = top / steps
    power = 10.0 ** floor(log10(rough))
    # A step that is a hair too short is long enough.
    steps_of_power = [power * factor for factor in (1, 2, 5, 10)]
    step = next(step for step in steps_of_power if step >= rough * 0.999999)
    count = ceil(top / step - 1e-9)
    return tuple(step * index for index in range(count + 1))
