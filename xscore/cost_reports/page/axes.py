"""The frame of a plot: round ticks, grid, labels. Coordinates are those of a drawing 360 wide, scaled to its place.

One drawing serves a telephone and a desk: it is laid out for 360 pixels, and the style sheet makes its letters smaller
where it is shown larger. It knows nothing of turns or money.
Trade-off: at most four labels along the bottom and five at the side, however large the plot is shown.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from xscore.cost_reports.page.markup import Html, element, joined
from xscore.utc_days import DAY_S
from xscore.wording import moment

WIDTH = 360


@dataclass(frozen=True, slots=True)
class Mark:
    """A place along an axis, and its words."""

    at: float
    """0..1."""
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Where the data of a plot stand within its drawing."""

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


def ticks(top: float, most: int = 4) -> tuple[float, ...]:
    """Return round figures from 0 to the first at or above `top`, in steps of 1, 2 or 5 times a power of ten."""
    if top <= 0:
        return (0.0, 1.0)
    rough = top / most
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999999)
    return tuple(step * index for index in range(ceil(top / step - 1e-9) + 1))


def whole_ticks(top: float, most: int = 4) -> tuple[float, ...]:
    """Return round figures without a fraction, from 0 to the first at or above `top`, and never less than to 1."""
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


def label(x: float, y: float, words: str, anchor: str = "", class_: str = "") -> Html:
    """Write words in a drawing."""
    return element("text", words, x=x, y=y, text_anchor=anchor, class_=class_)


def side(frame: Frame, marks: Sequence[Mark], title: str) -> Html:
    """Draw the grid across, with its labels at the left."""
    lines = (_across(frame, mark) for mark in marks)
    words = (label(frame.left - 5, frame.y(mark.at) + 3.5, mark.words, "end") for mark in marks)
    return joined((element("g", *lines, class_="grid"), *words, label(2, frame.top - 10, title, class_="axis")))


def foot(frame: Frame, marks: Sequence[Mark], title: str) -> Html:
    """Write labels along the bottom, and what they are below."""
    words = (label(frame.x(mark.at), frame.bottom + 13, mark.words, _anchor(mark.at)) for mark in marks)
    return joined((*words, label(frame.right, frame.bottom + 27, title, "end", "axis")))


def columns(frame: Frame, marks: Sequence[Mark]) -> Html:
    """Draw the grid upright."""
    return element(
        "g",
        *(element("line", x1=at, x2=at, y1=frame.top, y2=frame.bottom) for at in (frame.x(mark.at) for mark in marks)),
        class_="grid",
    )


def moments(times: Sequence[float], place: Callable[[int], float]) -> list[Mark]:
    """Choose at most four of the times to be named: by the clock within a day, else by days, else by months."""
    if not times:
        return []
    length = max(times) - min(times)
    form = "%H:%M" if length < 1.5 * DAY_S else "%-d %b" if length < 300 * DAY_S else "%b %Y"
    chosen = (
        sorted({round(index * (len(times) - 1) / 3) for index in range(4)}) if len(times) > 4 else range(len(times))
    )
    marks: list[Mark] = []
    for index in chosen:
        said = moment(times[index], form)
        if not marks or marks[-1].words != said:
            marks.append(Mark(place(index), said))
    return marks


def _across(frame: Frame, mark: Mark) -> Html:
    at = frame.y(mark.at)
    return element("line", x1=frame.left, x2=frame.right, y1=at, y2=at, class_="" if mark.at else "base")


def _anchor(at: float) -> str:
    return "start" if at < 0.08 else "end" if at > 0.92 else "middle"
