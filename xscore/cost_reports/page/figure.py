"""One plot with everything around it: name, what it shows, legend, drawing, and its numbers as a table.

Who cannot see the drawing has its name, a sentence, and the table; who can has the table as well, folded.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xscore.cost_reports.page.axes import WIDTH
from xscore.cost_reports.page.markup import Html, element, joined
from xscore.safe_text import brief

NAME_CHARS = 60


@dataclass(frozen=True, slots=True)
class Sign:
    """One entry of a legend."""

    look: str
    """Classes of the style sheet: a colour (`c1` … `c6`, `ink`, `quiet`) and, where it is not a bar, a shape."""
    words: str


def figure(
    name: str, title: str, says: str, drawing: Html, height: float, *, legend: Sequence[Sign] = (), numbers: Html
) -> Html:
    """Put a drawing into the page; `name` is unique in it."""
    marks = (
        element("li", element("span", class_=f"mark {sign.look}", aria_hidden="true"), brief(sign.words, NAME_CHARS))
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


def nothing(title: str, why: str) -> Html:
    """Stand in for a plot of which there is nothing to draw."""
    return element(
        "figure",
        element("figcaption", element("strong", title)),
        element("p", why, class_="nothing"),
        aria_label=title,
    )


def numbers(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
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
