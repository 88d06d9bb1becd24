"""The page's table of what judging was expected to take and what it took."""

from msgspec.structs import replace

from tests.cost_reports.page_reports import report_of
from xscore.cost_reports.page.tables import estimate_table


def test_an_estimate_stands_beside_what_was_taken() -> None:
    """Calls, tokens and dollars have their estimate, actual and difference, in that order."""
    table = estimate_table(report_of(5, 0).accuracy)

    for row in (
        ("Calls", "900", "931", "+3 %"),
        ("Input tokens", "5,100,000", "4,890,000", "−4 %"),
        ("Output tokens", "160,000", "171,000", "+7 %"),
        ("Dollars without prefix caching", "$2.51", "$2.44", "−3 %"),
    ):
        assert f'<th scope="row">{"<td>".join(row)}' in table


def test_dollars_that_are_not_known_are_not_estimated() -> None:
    """Where either side has no price there is no line of dollars, and nothing is taken for $0."""
    known = report_of(5, 0).accuracy
    assert known

    for unpriced in (
        replace(known, expected=replace(known.expected, cost_usd=None)),
        replace(known, actual=replace(known.actual, cost_usd=None)),
    ):
        assert "Dollars" not in estimate_table(unpriced)


def test_no_estimate_is_said_to_be_none() -> None:
    """Of turns that none was made for, there is a sentence and no table."""
    assert "has an estimate to be held against" in estimate_table(None)
    assert "<table" not in estimate_table(None)
