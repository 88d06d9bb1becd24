"""What a plot consists of: values and which axes they are drawn along. `plots.js` draws it with
d3's scales and axes.

The numbers of a plot are in a table below it. Trade-off: without scripts only that table is seen.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from xscore.cost_reports.report_lines import ReportTable


class Spread(NamedTuple):
    """A line with a circle, a square and a diamond: percentiles of a stage, or an interval with its
    mean. Label, hint and colour, and three values from left to right."""

    name: str
    hint: str
    colour: str
    low: float
    middle: float
    high: float
    before: float | None = None
    """The value in the baseline, drawn as a second mark."""


class Axis(Struct, frozen=True, kw_only=True):
    """One axis: d3 chooses its marks."""

    title: str = ""
    form: str = "count"
    """How marks are written: `count`, `dollars`, `share`, `score`, `seconds`, `signed`."""
    scale: str = "linear"
    """`linear`, `log`, or `symlog`, which has a zero."""
    low: float | None = None
    high: float | None = None
    """Upper end of the axis; None: where the values end."""


class Panel(Struct, frozen=True, kw_only=True):
    """One pair of axes and its contents, in values."""

    y: Axis | None = None
    """The vertical axis; None for spreads, each of which has a row."""
    x: Axis | None = None
    """The horizontal axis; None: steps side by side."""
    x_title: str = ""
    """Title of the axis of steps."""
    times: Sequence[float] = ()
    """When each step began, in Unix seconds."""
    stacks: Sequence[tuple[str, Sequence[tuple[str, float, float]]]] = ()
    """Bars side by side: a hint, and the parts of the bar: colour, lower and upper end. The colour
    `ramp` is that of a map's scores."""
    lines: Sequence[tuple[str, Sequence[float | None]]] = ()
    """CSS classes, and a height for each step; None interrupts the line."""
    spreads: Sequence[Spread] = ()
    """One spread below the other."""
    threshold: float | None = None
    threshold_title: str = ""
    tall: int = 150
    """Pixels between the axes."""


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
