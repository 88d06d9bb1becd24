"""What judging was expected to take beside what it took, as a table."""

from xscore.cost_reports.page.markup import Html, element
from xscore.cost_reports.page.tables import Cell, Column, table
from xscore.records.cost_report import Accuracy
from xscore.wording import counted, difference, dollars

NONE = "No turn that was judged live to its end has an estimate to be held against."


def estimate(known: Accuracy | None) -> Html:
    """Set each figure's estimate beside its actual, with the difference."""
    if known is None:
        return element("p", NONE, class_="nothing")
    expected, actual = known.expected, known.actual
    rows = [
        _row("Calls", expected.calls, actual.calls),
        _row("Input tokens", expected.input_tokens, actual.input_tokens),
        _row("Output tokens", expected.output_tokens, actual.output_tokens),
    ]
    if expected.cost_usd is not None and actual.cost_usd is not None:
        off = difference(float(actual.cost_usd), float(expected.cost_usd))
        rows.append(
            [
                Cell("Dollars without prefix caching"),
                Cell(dollars(expected.cost_usd)),
                Cell(dollars(actual.cost_usd)),
                Cell(off),
            ]
        )
    heads = [Column("Of judging", is_words=True), Column("Expected"), Column("Actual"), Column("Difference")]
    caption = f"Estimate against actual, over {counted(known.turns, 'turn')} judged to the end"
    return table(caption, heads, rows, sortable=False)


def _row(name: str, expected: int, actual: int) -> list[Cell]:
    return [Cell(name), Cell(f"{expected:,}"), Cell(f"{actual:,}"), Cell(difference(actual, expected))]
