"""SVG for plots: the frame, round ticks, axes, bars and lines. It knows nothing of turns or money.

A drawing is 360 wide and scaled to its place, so one serves a phone and a desk; the style sheet makes its letters
smaller where it is shown larger. Trade-off: an axis has few labels, however large the plot is shown.
"""

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from markupsafe import Markup, escape

from xscore.platform.text import escape_controls

WIDEST_BAR = 26


class Frame(NamedTuple):
    """Where the data stand within the drawing."""

    left: float = 46
    right: float = 350
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


def shape(tag: str, *children: Markup, text: str = "", **attributes: str | float) -> Markup:
    """Make an SVG element; `class_` is `class`, underscores are hyphens, an empty value is no attribute."""
    written = (
        Markup(' {}="{}"').format(
            name.rstrip("_").replace("_", "-"),
            value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0"),
        )
        for name, value in attributes.items()
        if value != ""
    )
    inner = escape(escape_controls(text)) + Markup().join(children)
    return Markup("<{0}{1}>{2}</{0}>").format(tag, Markup().join(written), inner)


def label(x: float, y: float, text: str, anchor: str = "", class_: str = "") -> Markup:
    """Write text in a drawing."""
    return shape("text", text=text, x=x, y=y, text_anchor=anchor, class_=class_)


def anchor(at: float) -> str:
    """Return how a label at 0..1 keeps within the drawing."""
    return "start" if at < 0.08 else "end" if at > 0.92 else "middle"


def y_axis(frame: Frame, marks: Sequence[float], texts: Sequence[str], title: str) -> list[Markup]:
    """Draw the grid across, with its labels at the left; the last mark stands at the top."""
    places = [frame.y(mark / marks[-1]) for mark in marks]
    grid = [
        shape("line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="" if index else "base")
        for index, y in enumerate(places)
    ]
    labels = [label(frame.left - 5, y + 3.5, text, "end") for y, text in zip(places, texts, strict=True)]
    return [shape("g", *grid, class_="grid"), *labels, label(2, frame.top - 10, title, class_="axis")]


def x_axis(frame: Frame, marks: Sequence[tuple[float, str]], title: str) -> list[Markup]:
    """Write labels at 0..1 along the bottom, and what they are below."""
    labels = [label(frame.x(at), frame.bottom + 13, text, anchor(at)) for at, text in marks]
    return [*labels, label(frame.right, frame.bottom + 27, title, "end", "axis")]


def bar(x: float, y: float, width: float, height: float, class_: str) -> tuple[Markup, ...]:
    """Draw a bar, or nothing where it has no size; a bar that means something is at least half a pixel."""
    if width <= 0 or height <= 0:
        return ()
    return (shape("rect", x=x, y=y, width=max(width, 0.5), height=max(height, 0.5), class_=class_),)


def bars(frame: Frame, stacks: Sequence[Sequence[tuple[str, float]]], top: float, hints: Sequence[str]) -> list[Markup]:
    """Draw bars of several parts (colour, height), from the bottom up. top: the height that reaches the frame's."""
    room = (frame.right - frame.left) / len(stacks)
    width = min(room * 0.78, WIDEST_BAR)
    found = []
    for index, (stack, hint) in enumerate(zip(stacks, hints, strict=True)):
        left, level, drawn = frame.left + room * (index + 0.5) - width / 2, 0.0, list[Markup]()
        for colour, height in stack:
            y = frame.y((level + height) / top)
            drawn += bar(left, y, width, frame.y(level / top) - y, colour)
            level += height
        found.append(shape("g", shape("title", text=hint), *drawn))
    return found


def line(frame: Frame, values: Sequence[float | None], css_class: str) -> Markup:
    """Draw a line through what is known, broken where nothing is, with a mark at each value."""
    steps, marks, pen = "", list[Markup](), "M"
    for index, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        x, y = frame.x((index + 0.5) / len(values)), frame.y(value)
        steps += f"{pen}{x:.1f} {y:.1f}"
        marks.append(shape("circle", cx=x, cy=y, r=4 if len(values) == 1 else 2.2))
        pen = "L"
    return shape("g", *((shape("path", d=steps),) if steps else ()), *marks, class_=f"line {css_class}")
