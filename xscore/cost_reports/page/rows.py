"""The tables of the page, and what each turn chose, as rows of plain text for the template.

A cell whose text is rounded carries the exact value, by which the script sorts. It makes no markup. Trade-off: a name
or a task in a cell is cut to one short line; a turn's whole task stands where its choice is shown.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from msgspec import Struct

from xscore.cost_reports.report_text import format_spent, format_spent_short
from xscore.platform.text import (
    DASH,
    counted,
    ellipsize,
    format_difference,
    format_dollars,
    format_duration,
    format_share,
    format_time,
    format_tokens,
)
from xscore.records import Boost
from xscore.records.cost_report import (
    Accuracy,
    CostReport,
    EvaluationLine,
    Group,
    Spent,
    TurnDetail,
    TurnLine,
    counts_candidates,
)
from xscore.records.receipt import Selected

CELL_CHARS, HEAD_CHARS, NAME_CHARS, REASON_CHARS, TASK_CHARS = 90, 120, 200, 600, 4_000


class Column(NamedTuple):
    """The head of a column; text stands to the left and sorts from a to z, figures to the right, largest first."""

    name: str
    is_text: bool = False


class Cell(NamedTuple):
    """One line of text."""

    text: str
    exact: str = ""
    """What it sorts by where its text is rounded."""
    href: str = ""


class Table(Struct, frozen=True):
    """A table; the first cell of each row is its head."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    css_class: str = ""


class Memory(NamedTuple):
    """A memory that a turn chose, or nearly."""

    score: str
    raw_score: str
    name: str
    place: str
    kind: str
    marks: tuple[str, ...]
    reason: str
    boosts: tuple[str, ...]


class TurnChoice(Struct, frozen=True, kw_only=True):
    """What one turn chose."""

    index: int
    head: str
    summary: str
    task: str
    """Empty where the head has all of it."""
    about: str
    selected: tuple[Memory, ...]
    near_misses: tuple[Memory, ...]


def number_table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return the plain table of a plot's numbers."""
    return Table(caption, [Column(head) for head in heads], [[Cell(text) for text in row] for row in rows])


def group_tables(report: CostReport) -> list[Table]:
    """Return the table by model and the one that was asked for."""
    found = []
    if report.by_model:
        found.append(_group_table("Calls by model, the dearest first", "Model", report.by_model))
    if report.by and report.by != "model" and report.groups:
        found.append(_group_table(f"Calls by {report.by}", report.by.capitalize(), report.groups))
    return found


def _group_table(caption: str, head: str, groups: Sequence[Group]) -> Table:
    has_candidates = any(group.coverage.candidates for group in groups)
    names = ["Turns", "Calls", "429s", "Failed", "Tokens in", "Prefix-cached", "Out", "Dollars"]
    if has_candidates:
        names += ["Candidates", "Live", "Cached", "Unjudged", "Kept"]
    rows = [_group_row(group, head.lower(), has_candidates=has_candidates) for group in groups]
    return Table(caption, [Column(head, True), *map(Column, names)], rows, "sortable")


def _group_row(group: Group, by: str, *, has_candidates: bool) -> list[Cell]:
    spent, coverage, usage = group.spent, group.coverage, group.spent.usage
    prefix_share = usage.cached_input_tokens / usage.input_tokens if usage.input_tokens else -1.0
    row = [
        Cell(ellipsize(group.name or "not known", CELL_CHARS)),
        *_counts(group.turns, spent.calls, spent.rate_limited, spent.failed),
        _tokens(usage.input_tokens),
        Cell(format_share(usage.cached_input_tokens, usage.input_tokens), f"{prefix_share:.6g}"),
        _tokens(usage.output_tokens),
        _dollars(spent),
    ]
    if has_candidates:
        known = coverage.cached + coverage.carried
        figures = (coverage.candidates, coverage.judged, known, coverage.unjudged, group.kept)
        row += _counts(*(figures if counts_candidates(group, by) else (None,) * len(figures)))
    return row


def evaluations_table(evaluations: Sequence[EvaluationLine]) -> Table | None:
    """Return the evaluations, a line each."""
    names = ("Questions", "k", "Recall@k", "Precision@k", "Hit@k", "MRR", "nDCG@k", "Candidates", "Unjudged")
    columns = [*(Column(name, True) for name in ("At (UTC)", "Judge", "Set")), *map(Column, names)]
    rows = []
    for line in evaluations:
        shares = (line.recall, line.precision, line.hit, line.reciprocal_rank, line.ndcg)
        rows.append(
            [
                *(Cell(format_time(line.at)), Cell(ellipsize(line.judge, CELL_CHARS)), Cell(line.questions[:12])),
                *_counts(line.cases, line.k),
                *(Cell(f"{share:.3f}") for share in shares),
                *_counts(line.candidates, line.unjudged),
            ]
        )
    return Table("Evaluations, the newest first", columns, rows, "sortable evaluations") if rows else None


def estimate_table(known: Accuracy | None) -> Table | None:
    """Return what judging was expected to take beside what it took."""
    if known is None:
        return None
    expected, actual = known.expected, known.actual
    counts = [
        ("Calls", expected.calls, actual.calls),
        ("Input tokens", expected.input_tokens, actual.input_tokens),
        ("Output tokens", expected.output_tokens, actual.output_tokens),
    ]
    rows = [[name, f"{before:,}", f"{now:,}", format_difference(now, before)] for name, before, now in counts]
    if expected.cost_usd is not None and actual.cost_usd is not None:
        off = format_difference(float(actual.cost_usd), float(expected.cost_usd))
        dollars = [format_dollars(expected.cost_usd), format_dollars(actual.cost_usd)]
        rows.append(["Dollars without prefix caching", *dollars, off])
    caption = f"Estimate against actual, over {counted(known.turns, 'turn')} judged to the end"
    return number_table(caption, ["Of judging", "Expected", "Actual", "Difference"], rows)


def turns_table(report: CostReport) -> Table:
    """Return all turns, the newest first; one whose choice is shown below is linked to it."""
    several = len(report.repositories) > 1
    hrefs = {detail.turn_id: f"#turn-{index}" for index, detail in enumerate(report.details, start=1)}
    texts = ("At (UTC)", "Task", *(("Repository",) if several else ()), "Command", "State")
    figures = ("Candidates", "Live", "Cached", "Unjudged", "Kept", "Near", "Calls", "Tokens in", "Out", "Dollars")
    columns = [*(Column(name, True) for name in texts), *map(Column, figures), Column("Seconds")]
    rows = [_turn_row(line, hrefs.get(line.id, ""), several=several) for line in report.turns]
    return Table("Turns, the newest first", columns, rows, "sortable turns several" if several else "sortable turns")


def _turn_row(line: TurnLine, href: str, *, several: bool) -> list[Cell]:
    spent, of = line.spent, line.coverage
    judged = (of.candidates, of.judged, of.cached + of.carried, of.unjudged) if of else (None,) * 4
    return [
        Cell(format_time(line.at)),
        Cell(ellipsize(line.task, CELL_CHARS) or "(no task)", href=href),
        *([Cell(ellipsize(line.repository, CELL_CHARS))] if several else []),
        Cell(ellipsize(line.command, CELL_CHARS) or DASH),
        Cell(line.state),
        *_counts(*judged, line.kept, line.near, spent.calls),
        *(_tokens(spent.usage.input_tokens), _tokens(spent.usage.output_tokens), _dollars(spent)),
        Cell(f"{line.latency.total:.1f}" if line.latency else DASH),
    ]


def turn_choices(report: CostReport) -> list[TurnChoice]:
    """Return each turn whose choice is known, the newest first."""
    lines = {line.id: line for line in report.turns}
    several = len(report.repositories) > 1
    return [
        _turn_choice(detail, lines.get(detail.turn_id), index, several=several)
        for index, detail in enumerate(report.details, start=1)
    ]


def _turn_choice(detail: TurnDetail, line: TurnLine | None, index: int, *, several: bool) -> TurnChoice:
    summary = [f"{counted(len(detail.selected), 'memory', 'memories')} chosen"]
    head, task, facts = detail.turn_id, "", [detail.turn_id]
    if line:
        summary = [format_time(line.at), *summary, format_spent(line.spent)]
        head = ellipsize(line.task, HEAD_CHARS) or "(no task)"
        if line.task != ellipsize(line.task, HEAD_CHARS):
            task = line.task if len(line.task) <= TASK_CHARS else line.task[: TASK_CHARS - 1] + "…"
        facts += [
            *(line.repository if several else "", line.command, line.state, line.judge and f"judge {line.judge}"),
            "" if line.threshold is None else f"threshold {line.threshold:.2f}",
            format_duration(line.latency.total) if line.latency else "",
        ]
    return TurnChoice(
        index=index,
        head=head,
        summary=" · ".join(summary),
        task=task,
        about=" · ".join(ellipsize(fact, NAME_CHARS) for fact in facts if fact),
        selected=tuple(map(_memory, detail.selected)),
        near_misses=tuple(map(_memory, detail.near_misses)),
    )


def _memory(memory: Selected) -> Memory:
    lines = ""
    if memory.start_line:
        lines = f":{memory.start_line}" + (f"-{memory.end_line}" if memory.end_line > memory.start_line else "")
    marks = {"cached": memory.cached, "below threshold": memory.below_threshold, "stale": memory.is_stale}
    return Memory(
        score=f"{memory.score:.2f}",
        raw_score=f"{memory.raw_score:.2f}",
        name=ellipsize(memory.entity or memory.title or memory.id, NAME_CHARS),
        place=ellipsize(memory.path, NAME_CHARS) + lines if memory.path else "",
        kind=ellipsize(f"{memory.layer} {memory.kind}", 60),
        marks=tuple(text for text, holds in marks.items() if holds),
        reason=ellipsize(memory.reason, REASON_CHARS),
        boosts=tuple(map(_boost, memory.boosts)),
    )


def _boost(boost: Boost) -> str:
    sign = "−" if boost.amount < 0 else "+"
    return f"{sign}{abs(boost.amount):.2f} {ellipsize(boost.name, 60)}: {ellipsize(boost.because, NAME_CHARS)}"


def _counts(*figures: int | None) -> list[Cell]:
    return [Cell(DASH if figure is None else f"{figure:,}") for figure in figures]


def _tokens(count: int) -> Cell:
    return Cell(format_tokens(count), str(count))


def _dollars(spent: Spent) -> Cell:
    return Cell(format_spent_short(spent), _exact_dollars(spent.cost_usd))


def _exact_dollars(usd: Decimal) -> str:
    """Write dollars to the last digit that the store keeps."""
    return f"{usd:.12f}".rstrip("0").rstrip(".")
