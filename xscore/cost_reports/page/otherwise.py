"""The plot of what was paid beside what the same judgments and answers would have cost in other ways."""

from decimal import Decimal

from xscore.cost_reports import payment
from xscore.cost_reports.page.axes import label
from xscore.cost_reports.page.figure import bar, figure, nothing, numbers
from xscore.cost_reports.page.markup import Html, joined
from xscore.cost_reports.payment import Way
from xscore.records.cost_report import Comparison
from xscore.wording import DASH

ROOM = 290.0
"""Width of the longest bar; its amount stands at its end."""
PITCH = 38


def otherwise(comparison: Comparison) -> Html:
    """Draw a bar a way."""
    title = "What it would have cost otherwise"
    ways = (payment.actual(comparison), *payment.otherwise(comparison))
    most = max(way.usd for way in ways if way.usd is not None)
    if most == 0:
        return nothing(title, "Nothing was paid, or no call has a price.")
    drawing = joined(_bar(index, way, most) for index, way in enumerate(ways))
    rows = [[way.name, way.words, _times(way, comparison.actual_usd)] for way in ways]
    table = numbers("Dollars of this stretch", ["Way", "Dollars", "Against what was paid"], rows)
    says = "The same judgments and answers, paid in other ways."
    return figure("otherwise", title, says, drawing, 10 + len(ways) * PITCH, numbers=table)


def _bar(index: int, way: Way, most: Decimal) -> Html:
    y = 14.0 + index * PITCH
    width = 0.0 if way.usd is None else float(way.usd / most) * ROOM
    words = label(2 if way.usd is None else width + 7, y + 16, way.words, class_="strong")
    return joined((label(2, y, way.name), bar(2, y + 5, width, 14, "c6" if index else "c1"), words))


def _times(way: Way, actual: Decimal) -> str:
    return DASH if way.usd is None or actual == 0 else f"{way.usd / actual:.2f} times"
