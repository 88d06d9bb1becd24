"""The tables of the page: by model, by what was asked for, evaluations, turns.

Each stands in a static order; the script lets its columns be sorted, and a cell whose words are rounded carries the
exact value for that. A table wider than the page scrolls within itself, by keyboard too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from xscore.cost_reports.page.markup import Html, element, joined
from xscore.cost_reports.payment import paid_in_short
from xscore.records import Usage
from xscore.records.cost_report import CostReport, EvaluationLine, Group, Spent, TurnLine, is_of_candidates
from xscore.safe_text import brief
from xscore.wording import DASH, moment, share, tokens

LONGEST = 90
"""Characters of a name or task in a cell; a turn's whole task stands where its choice is told."""


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column."""

    name: str
    is_words: bool = False
    """Set to the left, and sorted from a to z first; figures to the right, the largest first."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: a line of plain words."""

    words: str
    exact: int | float | Decimal | None = None
    """What it sorts by where its words are rounded."""
    leads_to: str = ""
    """A place of the page; empty: it is no link."""


def table(
    caption: str, heads: Sequence[Column], rows: Sequence[Sequence[Cell]], *, sortable: bool = True, class_: str = ""
) -> Html:
    """Make a table; the first cell of each row is its head."""
    head = element(
        "tr", *(element("th", column.name, scope="col", class_="plain" if column.is_words else "") for column in heads)
    )
    body = (joined((element("tr"), element("th", _words(row[0]), scope="row"), *map(_cell, row[1:]))) for row in rows)
    return element(
        "div",
        element(
            "table",
            element("caption", caption),
            element("thead", head),
            element("tbody", *body),
            class_=" ".join(filter(None, ("sortable" if sortable else "", class_))),
        ),
        class_="wide",
        role="region",
        aria_label=caption,
        tabindex="0",
    )


def groups(caption: str, head: str, listed: Sequence[Group]) -> Html:
    """Show groups in a line each."""
    covered = any(group.coverage.candidates for group in listed)
    names = ["Turns", "Calls", "429s", "Failed", "Tokens in", "Prefix-cached", "Out", "Dollars"]
    if covered:
        names += ["Candidates", "Live", "Cached", "Unjudged", "Kept"]
    heads = [Column(head, is_words=True), *map(Column, names)]
    return table(caption, heads, [_group(group, head.lower(), covered=covered) for group in listed])


def evaluations(listed: Sequence[EvaluationLine]) -> Html:
    """Show evaluations in a line each."""
    words = [Column(name, is_words=True) for name in ("At (UTC)", "Judge", "Set")]
    names = ("Questions", "k", "Recall@k", "Precision@k", "Hit@k", "MRR", "nDCG@k", "Candidates", "Unjudged")
    rows = [
        [
            Cell(moment(line.at)), Cell(line.judge), Cell(line.questions[:12]), *_counts(line.cases, line.k),
            *(Cell(f"{value:.3f}") for value in (line.recall, line.precision, line.hit, line.reciprocal_rank)),
            Cell(f"{line.ndcg:.3f}"), *_counts(line.candidates, line.unjudged),
        ]
        for line in listed
    ]  # fmt: skip
    return table("Evaluations, the newest first", [*words, *map(Column, names)], rows, class_="evaluations")


def turns(report: CostReport) -> Html:
    """Show all turns in a line each, the newest first; one whose choice is told below is linked to it."""
    several = len(report.repositories) > 1
    told = {detail.turn_id: f"#turn-{index}" for index, detail in enumerate(report.details, start=1)}
    words = ("At (UTC)", "Task", *(("Repository",) if several else ()), "Command", "State")
    figures = (
        "Candidates", "Live", "Cached", "Unjudged", "Kept", "Near", "Calls", "Tokens in", "Out", "Dollars", "Seconds",
    )  # fmt: skip
    heads = [*(Column(name, is_words=True) for name in words), *map(Column, figures)]
    rows = [_turn(line, told.get(line.id, ""), several=several) for line in report.turns]
    return table("Turns, the newest first", heads, rows, class_="turns several" if several else "turns")


def _group(group: Group, by: str, *, covered: bool) -> list[Cell]:
    spent, coverage = group.spent, group.coverage
    row = [
        Cell(group.name or "not known"),
        *_counts(group.turns, spent.calls, spent.rate_limited, spent.failed),
        _tokens(spent.usage.input_tokens), _prefixes(spent.usage), _tokens(spent.usage.output_tokens), _dollars(spent),
    ]  # fmt: skip
    if covered:
        known = coverage.cached + coverage.carried
        figures = (coverage.candidates, coverage.judged, known, coverage.unjudged, group.kept)
        row += _counts(*(figures if is_of_candidates(group, by) else (None,) * len(figures)))
    return row


def _turn(line: TurnLine, leads_to: str, *, several: bool) -> list[Cell]:
    spent, of = line.spent, line.coverage
    judged = (of.candidates, of.judged, of.cached + of.carried, of.unjudged) if of else (None,) * 4
    return [
        Cell(moment(line.at)),
        Cell(line.task if line.task.strip() else "(no task)", leads_to=leads_to),
        *([Cell(line.repository)] if several else []),
        Cell(line.command or DASH), Cell(line.state),
        *_counts(*judged, line.kept, line.near, spent.calls),
        _tokens(spent.usage.input_tokens), _tokens(spent.usage.output_tokens), _dollars(spent),
        Cell(f"{line.latency.total:.1f}" if line.latency else DASH),
    ]  # fmt: skip


def _counts(*figures: int | None) -> list[Cell]:
    return [Cell(DASH if figure is None else f"{figure:,}") for figure in figures]


def _tokens(count: int) -> Cell:
    return Cell(tokens(count), count)


def _prefixes(usage: Usage) -> Cell:
    """Return the share of input that prefix caches served; no input sorts below none of it."""
    ratio = usage.cached_input_tokens / usage.input_tokens if usage.input_tokens else -1.0
    return Cell(share(usage.cached_input_tokens, usage.input_tokens), ratio)


def _dollars(spent: Spent) -> Cell:
    return Cell(paid_in_short(spent), spent.cost_usd)


def _cell(cell: Cell) -> Html:
    return element("td", _words(cell), data_v=_exact(cell.exact))


def _words(cell: Cell) -> str:
    words = brief(cell.words, LONGEST)
    return element("a", words, href=cell.leads_to) if cell.leads_to else words


def _exact(value: float | Decimal | None) -> str:
    """Write a value as the script reads numbers; dollars to the last digit that the store keeps."""
    match value:
        case None:
            return ""
        case Decimal():
            return f"{value:.12f}".rstrip("0").rstrip(".")
        case int():
            return str(value)
    return f"{value:.6g}"
