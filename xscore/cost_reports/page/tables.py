"""What judging was expected to take beside what it took, as a table.

What the page says first: the figures of the whole stretch in a few boxes, and what was left out.

The tables of the page: by model, by what was asked for, evaluations, turns.

Each stands in a static order; the script lets its columns be sorted, and a cell whose words are rounded carries the
exact value for that. A table wider than the page scrolls within itself, by keyboard too.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from msgspec import Struct

from xscore.cost_reports import report_text
from xscore.cost_reports.page.plot import Html, element, joined
from xscore.cost_reports.report_text import format_spent_short
from xscore.platform.text import (
    DASH,
    counted,
    ellipsize,
    format_difference,
    format_dollars,
    format_share,
    format_time,
    format_tokens,
)
from xscore.records import Usage
from xscore.records.cost_report import Accuracy, CostReport, EvaluationLine, Group, Spent, TurnLine, counts_candidates

LONGEST = 90
"""Characters of a name or task in a cell; a turn's whole task stands where its choice is told."""


class Column(Struct, frozen=True):
    """The head of a column."""

    name: str
    is_words: bool = False
    """Set to the left, and sorted from a to z first; figures to the right, the largest first."""


class Cell(Struct, frozen=True):
    """One cell: a line of plain words."""

    words: str
    exact: int | float | Decimal | None = None
    """What it sorts by where its words are rounded."""
    leads_to: str = ""
    """A place of the page; empty: it is no link."""


def html_table(
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


def groups_table(caption: str, head: str, listed: Sequence[Group]) -> Html:
    """Show groups in a line each."""
    covered = any(group.coverage.candidates for group in listed)
    names = ["Turns", "Calls", "429s", "Failed", "Tokens in", "Prefix-cached", "Out", "Dollars"]
    if covered:
        names += ["Candidates", "Live", "Cached", "Unjudged", "Kept"]
    heads = [Column(head, is_words=True), *map(Column, names)]
    return html_table(caption, heads, [_group(group, head.lower(), covered=covered) for group in listed])


def evaluations_table(listed: Sequence[EvaluationLine]) -> Html:
    """Show evaluations in a line each."""
    words = [Column(name, is_words=True) for name in ("At (UTC)", "Judge", "Set")]
    names = ("Questions", "k", "Recall@k", "Precision@k", "Hit@k", "MRR", "nDCG@k", "Candidates", "Unjudged")
    rows = [
        [
            Cell(format_time(line.at)), Cell(line.judge), Cell(line.questions[:12]), *_counts(line.cases, line.k),
            *(Cell(f"{value:.3f}") for value in (line.recall, line.precision, line.hit, line.reciprocal_rank)),
            Cell(f"{line.ndcg:.3f}"), *_counts(line.candidates, line.unjudged),
        ]
        for line in listed
    ]  # fmt: skip
    return html_table("Evaluations, the newest first", [*words, *map(Column, names)], rows, class_="evaluations")


def turns_table(report: CostReport) -> Html:
    """Show all turns in a line each, the newest first; one whose choice is told below is linked to it."""
    several = len(report.repositories) > 1
    told = {detail.turn_id: f"#turn-{index}" for index, detail in enumerate(report.details, start=1)}
    words = ("At (UTC)", "Task", *(("Repository",) if several else ()), "Command", "State")
    figures = (
        "Candidates", "Live", "Cached", "Unjudged", "Kept", "Near", "Calls", "Tokens in", "Out", "Dollars", "Seconds",
    )  # fmt: skip
    heads = [*(Column(name, is_words=True) for name in words), *map(Column, figures)]
    rows = [_turn(line, told.get(line.id, ""), several=several) for line in report.turns]
    return html_table("Turns, the newest first", heads, rows, class_="turns several" if several else "turns")


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
        row += _counts(*(figures if counts_candidates(group, by) else (None,) * len(figures)))
    return row


def _turn(line: TurnLine, leads_to: str, *, several: bool) -> list[Cell]:
    spent, of = line.spent, line.coverage
    judged = (of.candidates, of.judged, of.cached + of.carried, of.unjudged) if of else (None,) * 4
    return [
        Cell(format_time(line.at)),
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
    return Cell(format_tokens(count), count)


def _prefixes(usage: Usage) -> Cell:
    """Return the share of input that prefix caches served; no input sorts below none of it."""
    ratio = usage.cached_input_tokens / usage.input_tokens if usage.input_tokens else -1.0
    return Cell(format_share(usage.cached_input_tokens, usage.input_tokens), ratio)


def _dollars(spent: Spent) -> Cell:
    return Cell(format_spent_short(spent), spent.cost_usd)


def _cell(cell: Cell) -> Html:
    return element("td", _words(cell), data_v=_exact(cell.exact))


def _words(cell: Cell) -> str:
    words = ellipsize(cell.words, LONGEST)
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


NONE = "No turn that was judged live to its end has an estimate to be held against."


def estimate_table(known: Accuracy | None) -> Html:
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
        off = format_difference(float(actual.cost_usd), float(expected.cost_usd))
        rows.append(
            [
                Cell("Dollars without prefix caching"),
                Cell(format_dollars(expected.cost_usd)),
                Cell(format_dollars(actual.cost_usd)),
                Cell(off),
            ]
        )
    heads = [Column("Of judging", is_words=True), Column("Expected"), Column("Actual"), Column("Difference")]
    caption = f"Estimate against actual, over {counted(known.turns, 'turn')} judged to the end"
    return html_table(caption, heads, rows, sortable=False)


def _row(name: str, expected: int, actual: int) -> list[Cell]:
    return [Cell(name), Cell(f"{expected:,}"), Cell(f"{actual:,}"), Cell(format_difference(actual, expected))]


class HeadlineFigure(Struct, frozen=True):
    """One figure with its name, and remarks below it."""

    name: str
    figure: str
    remarks: Iterator[str]


def headline_figures(report: CostReport) -> Html:
    """Make the boxes."""
    spent, coverage = report.spent, report.coverage
    boxes = (
        HeadlineFigure("Dollars", report_text.format_priced(spent), _of_dollars(report)),
        HeadlineFigure("Turns", f"{sum(report.turns_by_state.values()):,}", _of_turns(report)),
        HeadlineFigure("Calls", f"{spent.calls:,}", _of_calls(report)),
        HeadlineFigure("Input tokens", format_tokens(spent.usage.input_tokens), _of_input(report)),
        HeadlineFigure("Output tokens", format_tokens(spent.usage.output_tokens), _of_output(report)),
        HeadlineFigure(
            "Judged", format_share(coverage.candidates - coverage.unjudged, coverage.candidates), _of_judged(report)
        ),
        HeadlineFigure("Unjudged", f"{coverage.unjudged:,}", _causes(report)),
        HeadlineFigure("Kept", f"{report.kept:,}", _of_kept(report)),
    )
    return element("dl", *map(_box, boxes), class_="boxes")


def warning_list(report: CostReport) -> Html:
    """List what was left out, if anything was."""
    if not report.warnings:
        return joined(())
    listed = element("ul", *(element("li", words) for words in report.warnings))
    return element("div", element("strong", "Left out of these figures"), listed, class_="warnings", role="note")


def _box(box: HeadlineFigure) -> Html:
    remarks = (element("dd", remark) for remark in box.remarks)
    return element("div", element("dt", box.name), element("dd", box.figure), *remarks)


def _of_dollars(report: CostReport) -> Iterator[str]:
    if rest := report_text.format_unpriced(report.spent):
        yield rest
    without_cache = report_text.counterfactual_costs(report.comparison)[0]
    if without_cache.usd:
        yield f"{without_cache.words} {without_cache.name}"
    if report.spent.estimated:
        yield f"tokens of {counted(report.spent.estimated, 'attempt')} estimated"


def _of_turns(report: CostReport) -> Iterator[str]:
    states = [f"{count:,} {state}" for state, count in sorted(report.turns_by_state.items()) if count]
    if states:
        yield ", ".join(states)
    if report.turns_cached:
        yield f"{report.turns_cached:,} without a judging call"


def _of_calls(report: CostReport) -> Iterator[str]:
    spent = report.spent
    yield f"in {counted(spent.attempts, 'attempt')}"
    yield f"{spent.rate_limited:,} times a 429" if spent.rate_limited else "no 429"
    if spent.failed:
        yield f"{spent.failed:,} failed otherwise"


def _of_input(report: CostReport) -> Iterator[str]:
    usage = report.spent.usage
    if usage.input_tokens:
        yield f"{format_share(usage.cached_input_tokens, usage.input_tokens)} from prefix caches"
    if usage.cache_write_tokens:
        yield f"{format_tokens(usage.cache_write_tokens)} written to them"


def _of_output(report: CostReport) -> Iterator[str]:
    if report.spent.usage.reasoning_tokens:
        yield f"{format_tokens(report.spent.usage.reasoning_tokens)} of them reasoning"


def _of_judged(report: CostReport) -> Iterator[str]:
    coverage = report.coverage
    carried = f", {coverage.carried:,} carried" if coverage.carried else ""
    yield f"of {counted(coverage.candidates, 'candidate')}"
    yield f"{coverage.judged:,} live, {coverage.cached:,} cached{carried}"


def _of_kept(report: CostReport) -> Iterator[str]:
    if report.near is not None:
        yield f"{counted(report.near, 'score')} near the threshold"


def _causes(report: CostReport) -> Iterator[str]:
    for cause, count in sorted(report.unjudged_by_cause.items()):
        if count:
            yield f"{count:,} {cause.replace('_', ' ')}"
