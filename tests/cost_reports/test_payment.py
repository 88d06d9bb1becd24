"""The cost in words, on a terminal and on a page."""

from decimal import Decimal

import pytest

from tests.cost_reports.page_reports import report_of
from xscore.cost_reports.page import render_page
from xscore.cost_reports.records import Spent
from xscore.cost_reports.report_files import render_markdown
from xscore.cost_reports.report_lines import format_spent, format_spent_short
from xscore.cost_reports.report_text import render_report, summary_rows


@pytest.mark.parametrize(
    ("spent", "in_full", "short"),
    [
        (Spent(), "$0", "$0"),
        (Spent(attempts=3, cost_usd=Decimal("1.27")), "$1.27", "$1.27"),
        (Spent(attempts=3, cost_usd=Decimal("1.27"), estimated=1), "~$1.27", "~$1.27"),
        (
            Spent(attempts=3, cost_usd=Decimal("1.27"), unpriced=2),
            "$1.27 + 2 unpriced",
            "$1.27+?",
        ),
        (
            Spent(attempts=3, cost_usd=Decimal("1.27"), unpriced=2, estimated=3),
            "~$1.27 + 2 unpriced",
            "~$1.27+?",
        ),
        (Spent(attempts=3, unpriced=3, estimated=3), "unpriced", "unpriced"),
        (Spent(attempts=3, unpriced=2), "$0 + 2 unpriced", "$0+?"),
    ],
)
def test_what_was_paid_hides_nothing(spent: Spent, in_full: str, short: str) -> None:
    """Estimated tokens are marked, unpriced attempts counted, and an unknown price is never $0."""
    assert (format_spent(spent), format_spent_short(spent)) == (in_full, short)


def test_terminal_markdown_and_page_say_the_same() -> None:
    """A report words its dollars, and the names and dollars of the other ways, the same
    everywhere."""
    report = report_of(12, 0)
    everywhere = (
        " ".join(render_report(report).split()),
        render_markdown(report).replace("\\", ""),
        render_page(report),
    )

    assert all(format_spent(report.spent) in seen for seen in everywhere)
    ways = dict(summary_rows(report))["would have cost"].split(" · ")
    assert len(ways) == 4 and any(way.startswith("unknown ") for way in ways)
    assert all(way in seen for seen in everywhere for way in ways)
