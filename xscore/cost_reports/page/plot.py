"""The frame of a plot: round ticks, grid, labels. Coordinates are those of a drawing 360 wide, scaled to its place.

One drawing serves a telephone and a desk: it is laid out for 360 pixels, and the style sheet makes its letters smaller
where it is shown larger. It knows nothing of turns or money.
Trade-off: at most four labels along the bottom and five at the side, however large the plot is shown.

One plot with everything around it: name, what it shows, legend, drawing, and its numbers as a table.

Who cannot see the drawing has its name, a sentence, and the table; who can has the table as well, folded.

HTML from text: the one gate between what a repository or a model says and the page.

A plain `str` is text and is escaped wherever it enters an element; only `Html` passes as it is, and only this module
and constants of our own make it. What no text should hold is shown as an escape (`safe_text`): it could reorder what
is read, or make the file impossible to write. It knows no element by meaning.
Trade-off: end tags that HTML lets one leave out are left out, for a page of a thousand turns is mostly cells.
"""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from math import ceil, floor, log10

from msgspec import Struct

from xscore.platform.clock import DAY_S
from xscore.platform.text import ellipsize, escape_controls, format_time

_NO_END = frozenset({"td", "th", "tr", "tbody", "meta", "br", "line", "rect", "path", "circle"})
_VOID_IN_SVG = frozenset({"line", "rect", "path", "circle"})


class Html(str):
    """Markup that is ready to stand in the page."""

    __slots__ = ()


def text(words: str) -> Html:
    """Make any text harmless, in an element and in a quoted attribute."""
    return Html(escape(escape_controls(words), quote=True))


def element(name: str, *children: str, **attributes: str | float) -> Html:
    """Make an element; `class_` is `class`, other underscores are hyphens, and an empty value is no attribute."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value) if isinstance(value, str) else number(value)}"'
        for key, value in attributes.items()
        if value != ""
    )
    if name in _VOID_IN_SVG:
        return Html(f"<{name}{said}/>")
    return Html(f"<{name}{said}>{joined(children)}" + ("" if name in _NO_END else f"</{name}>"))


def joined(children: Iterable[str]) -> Html:
    """Put pieces beside each other; what is not `Html` is escaped."""
    return Html("".join(child if isinstance(child, Html) else text(child) for child in children))


def number(value: float) -> str:
    """Write a coordinate: at most one decimal, no trailing zero."""
    return f"{value:.1f}".removesuffix(".0")


WIDTH = 360


class AxisTick(Struct, frozen=True):
    """A place along an axis, and its words."""

    at: float
    """0..1."""
    words: str


class PlotFrame(Struct, frozen=True, kw_only=True):
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


def y_axis(frame: PlotFrame, marks: Sequence[AxisTick], title: str) -> Html:
    """Draw the grid across, with its labels at the left."""
    lines = (_across(frame, mark) for mark in marks)
    words = (label(frame.left - 5, frame.y(mark.at) + 3.5, mark.words, "end") for mark in marks)
    return joined((element("g", *lines, class_="grid"), *words, label(2, frame.top - 10, title, class_="axis")))


def x_axis(frame: PlotFrame, marks: Sequence[AxisTick], title: str) -> Html:
    """Write labels along the bottom, and what they are below."""
    words = (label(frame.x(mark.at), frame.bottom + 13, mark.words, _anchor(mark.at)) for mark in marks)
    return joined((*words, label(frame.right, frame.bottom + 27, title, "end", "axis")))


def vertical_grid(frame: PlotFrame, marks: Sequence[AxisTick]) -> Html:
    """Draw the grid upright."""
    return element(
        "g",
        *(element("line", x1=at, x2=at, y1=frame.top, y2=frame.bottom) for at in (frame.x(mark.at) for mark in marks)),
        class_="grid",
    )


def time_ticks(times: Sequence[float], place: Callable[[int], float]) -> list[AxisTick]:
    """Choose at most four of the times to be named: by the clock within a day, else by days, else by months."""
    if not times:
        return []
    length = max(times) - min(times)
    form = "%H:%M" if length < 1.5 * DAY_S else "%-d %b" if length < 300 * DAY_S else "%b %Y"
    chosen = (
        sorted({round(index * (len(times) - 1) / 3) for index in range(4)}) if len(times) > 4 else range(len(times))
    )
    marks: list[AxisTick] = []
    for index in chosen:
        said = format_time(times[index], form)
        if not marks or marks[-1].words != said:
            marks.append(AxisTick(place(index), said))
    return marks


def _across(frame: PlotFrame, mark: AxisTick) -> Html:
    at = frame.y(mark.at)
    return element("line", x1=frame.left, x2=frame.right, y1=at, y2=at, class_="" if mark.at else "base")


def _anchor(at: float) -> str:
    return "start" if at < 0.08 else "end" if at > 0.92 else "middle"


NAME_CHARS = 60


class LegendEntry(Struct, frozen=True):
    """One entry of a legend."""

    look: str
    """Classes of the style sheet: a colour (`c1` … `c6`, `ink`, `quiet`) and, where it is not a bar, a shape."""
    words: str


def figure(
    name: str, title: str, says: str, drawing: Html, height: float, *, legend: Sequence[LegendEntry] = (), numbers: Html
) -> Html:
    """Put a drawing into the page; `name` is unique in it."""
    marks = (
        element(
            "li", element("span", class_=f"mark {sign.look}", aria_hidden="true"), ellipsize(sign.words, NAME_CHARS)
        )
        for sign in legend
    )
    svg = element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", says, id=f"{name}-desc"),
        drawing,
        viewBox=f"0 0 {WIDTH} {height:.0f}",
        role="img",
        aria_labelledby=f"{name}-title",
        aria_describedby=f"{name}-desc",
    )
    return element(
        "figure",
        element("figcaption", element("strong", title), element("span", says)),
        element("ul", *marks, class_="legend") if legend else "",
        svg,
        element("details", element("summary", f"Numbers of “{title}”"), numbers, class_="numbers"),
        aria_labelledby=f"{name}-title",
    )


def empty_figure(title: str, why: str) -> Html:
    """Stand in for a plot of which there is nothing to draw."""
    return element(
        "figure",
        element("figcaption", element("strong", title)),
        element("p", why, class_="nothing"),
        aria_label=title,
    )


def number_table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    """Make the plain table of a plot; the first cell of a row is its head."""
    return element(
        "div",
        element(
            "table",
            element("caption", caption),
            element("thead", element("tr", *(element("th", head, scope="col") for head in heads))),
            element(
                "tbody",
                *(
                    element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:]))
                    for row in rows
                ),
            ),
        ),
        class_="wide",
        role="region",
        aria_label=caption,
        tabindex="0",
    )


def bar(x: float, y: float, width: float, height: float, class_: str = "") -> Html:
    """Draw a bar, or nothing where it has no size; a bar that means something is never thinner than half a pixel."""
    if width <= 0 or height <= 0:
        return joined(())
    return element("rect", x=x, y=y, width=max(width, 0.5), height=max(height, 0.5), class_=class_)
