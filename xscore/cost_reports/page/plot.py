"""The frame of a plot: round ticks, grid, labels, as shapes that the template draws.

A drawing is 360 wide and scaled to its place, so one serves a phone and a desk; the style sheet makes its letters
smaller where it is shown larger. Everyone gets the numbers as a table below it. It knows nothing of turns or money.
Trade-off: at most four labels along the bottom and five at the side, however large the plot is shown.
"""

from collections.abc import Callable, Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from msgspec import Struct

from xscore.cost_reports.page.rows import Table
from xscore.platform.clock import DAY_S
from xscore.platform.text import format_time
from xscore.records.cost_report import Timing

WIDTH = 360


class Shape(NamedTuple):
    """An SVG element."""

    tag: str
    attributes: tuple[tuple[str, str], ...]
    text: str = ""
    children: tuple["Shape", ...] = ()


class LegendEntry(NamedTuple):
    """A mark and what it means."""

    css_class: str
    """A colour (`c1` … `c6`, `ink`, `quiet`) and, where it is not a bar, a shape."""
    text: str


class Figure(Struct, frozen=True, kw_only=True):
    """One plot with everything around it."""

    title: str
    why_empty: str = ""
    """Why there is nothing to draw; then the rest is empty."""
    name: str = ""
    """Unique in the page."""
    summary: str = ""
    shapes: Sequence[Shape] = ()
    height: int = 0
    legend: Sequence[LegendEntry] = ()
    numbers: Table | None = None


class Tick(NamedTuple):
    """A place along an axis, from 0 to 1, and its label."""

    at: float
    text: str


class PlotFrame(Struct, frozen=True, kw_only=True):
    """Where the data stand within the drawing."""

    left: float = 46
    right: float = WIDTH - 10
    top: float = 20
    bottom: float = 160

    def x(self, ratio: float) -> float:
        """Return where 0..1 stands between left and right."""
        return self.left + (self.right - self.left) * ratio

    def y(self, ratio: float) -> float:
        """Return where 0..1 stands between bottom and top."""
        return self.bottom - (self.bottom - self.top) * ratio


def shape(tag: str, *children: Shape, text: str = "", **attributes: str | float) -> Shape:
    """Make a shape; `class_` is `class`, underscores are hyphens, an empty value is no attribute."""
    written = tuple(
        (name.rstrip("_").replace("_", "-"), value if isinstance(value, str) else number(value))
        for name, value in attributes.items()
        if value != ""
    )
    return Shape(tag, written, text, children)


def number(value: float) -> str:
    """Write a coordinate: at most one decimal, no trailing zero."""
    return f"{value:.1f}".removesuffix(".0")


def ticks(top: float, most: int = 4) -> tuple[float, ...]:
    """Return round figures from 0 to the first at or above `top`, in steps of 1, 2 or 5 times a power of ten."""
    if top <= 0:
        return (0.0, 1.0)
    rough = top / most
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999999)
    return tuple(step * index for index in range(ceil(top / step - 1e-9) + 1))


def whole_ticks(top: float, most: int = 4) -> tuple[float, ...]:
    """Return round figures without a fraction, from 0 to the first at or above `top`, and at least to 1."""
    return tuple(mark for mark in ticks(max(ceil(top), 1), most) if mark == int(mark))


def decades(low: float, high: float) -> tuple[float, ...]:
    """Return the powers of ten from the one at or below `low` to the one at or above `high`, at least two."""
    first = floor(log10(low) + 1e-9)
    last = max(ceil(log10(high) - 1e-9), first + 1)
    return tuple(10.0**power for power in range(first, last + 1))


def in_dollars(values: Sequence[float]) -> list[str]:
    """Write ticks of dollars, all with as many decimals as their step needs."""
    step = values[1] - values[0]
    places = max(0, -floor(log10(step) + 1e-9))
    return [f"${value:,.{places if places != 1 else 2}f}" if value else "$0" for value in values]


def in_seconds(value: float) -> str:
    """Write a power of ten of seconds: `10 ms`, `1 s`, `100 s`."""
    return f"{value * 1000:g} ms" if value < 0.9 else f"{value:g} s"


def label(x: float, y: float, text: str, anchor: str = "", class_: str = "") -> Shape:
    """Write text in a drawing."""
    return shape("text", text=text, x=x, y=y, text_anchor=anchor, class_=class_)


def y_axis(frame: PlotFrame, marks: Sequence[Tick], title: str) -> list[Shape]:
    """Draw the grid across, with its labels at the left."""
    grid = [
        shape("line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="" if mark.at else "base")
        for mark, y in ((mark, frame.y(mark.at)) for mark in marks)
    ]
    labels = [label(frame.left - 5, frame.y(mark.at) + 3.5, mark.text, "end") for mark in marks]
    return [shape("g", *grid, class_="grid"), *labels, label(2, frame.top - 10, title, class_="axis")]


def x_axis(frame: PlotFrame, marks: Sequence[Tick], title: str) -> list[Shape]:
    """Write labels along the bottom, and what they are below."""
    labels = [label(frame.x(mark.at), frame.bottom + 13, mark.text, anchor(mark.at)) for mark in marks]
    return [*labels, label(frame.right, frame.bottom + 27, title, "end", "axis")]


def vertical_grid(frame: PlotFrame, marks: Sequence[Tick]) -> Shape:
    """Draw the grid upright."""
    places = (frame.x(mark.at) for mark in marks)
    return shape("g", *(shape("line", x1=x, x2=x, y1=frame.top, y2=frame.bottom) for x in places), class_="grid")


def anchor(at: float) -> str:
    """Return how a label at 0..1 keeps within the drawing."""
    return "start" if at < 0.08 else "end" if at > 0.92 else "middle"


def bar(x: float, y: float, width: float, height: float, class_: str = "") -> tuple[Shape, ...]:
    """Draw a bar, or nothing where it has no size; a bar that means something is at least half a pixel."""
    if width <= 0 or height <= 0:
        return ()
    return (shape("rect", x=x, y=y, width=max(width, 0.5), height=max(height, 0.5), class_=class_),)


def time_ticks(times: Sequence[float], place: Callable[[int], float]) -> list[Tick]:
    """Label at most four of the times: by the clock within a day, else by days, else by months."""
    if not times:
        return []
    length = max(times) - min(times)
    form = "%H:%M" if length < 1.5 * DAY_S else "%-d %b" if length < 300 * DAY_S else "%b %Y"
    last = len(times) - 1
    chosen = sorted({round(index * last / 3) for index in range(4)}) if last > 3 else range(last + 1)
    marks: list[Tick] = []
    for index in chosen:
        text = format_time(times[index], form)
        if not marks or marks[-1].text != text:
            marks.append(Tick(place(index), text))
    return marks


def powers(most: int) -> tuple[float, ...]:
    """Return 0 and powers of ten up to the first at or above `most`; every second where they would crowd."""
    last = len(str(most - 1))
    return 0.0, *(10.0**power for power in reversed(range(last, 0, -2 if last > 5 else -1)))


def share_or_none(part: int, whole: int) -> float | None:
    """Return the share of a part, or None of nothing."""
    return part / whole if whole else None


def timing_name(timing: Timing) -> str:
    """Name what was timed: a stage of a turn or of a call."""
    return f"{'turn' if timing.of == 'turn' else 'call'}: {timing.stage}"
