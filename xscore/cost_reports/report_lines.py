"""The lines of a report and their columns: one row model for the terminal, Markdown, the page, CSV
and Parquet.

A column says how a line has its value and how people are shown it; a table is a list of columns,
and every form is made of one. A value that is missing is None: an empty cell for programs, a dash
for people. It writes no file. Trade-off: tables that are not about turns (times, evaluations) have
one form, so `report_text` makes them of words at once.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from xscore.cost_reports.groupings import GROUPINGS
from xscore.cost_reports.records import Group, Spent, TurnLine
from xscore.platform.figures import DASH, format_dollars, format_time, format_tokens
from xscore.platform.text import ellipsize, one_line
from xscore.records.calls import CounterfactualCost, Usage
from xscore.records.receipt import Coverage, Latency

_CELL_CHARS = 90
_TASK_CHARS = 60


class ReportLine(Struct, frozen=True, kw_only=True):
    """One line of a table: a group of turns, or one turn. None: unknown, or not counted."""

    name: str
    """Name of the group, or the turn's id."""
    turns: int = 1
    at: float | None = None
    """When the turn began, in Unix seconds."""
    task: str = ""
    repository: str = ""
    command: str = ""
    state: str = ""
    judge: str = ""
    coverage: Coverage | None
    kept: int | None
    near: int | None = None
    spent: Spent
    latency: Latency | None = None


def line_of_turn(turn: TurnLine) -> ReportLine:
    """Return the line of one turn."""
    return ReportLine(
        name=turn.id,
        at=turn.at,
        task=turn.task,
        repository=turn.repository,
        command=turn.command,
        state=turn.state,
        judge=turn.judge,
        coverage=turn.coverage,
        kept=turn.kept,
        near=turn.near,
        spent=turn.spent,
        latency=turn.latency,
    )


def lines_of_groups(
    groups: Sequence[Group], by: str, turns: Iterable[TurnLine] = ()
) -> list[ReportLine]:
    """Return a line for each group.

    turns: those that say when they began, and what for.
    """
    grouping = GROUPINGS[by]
    turn_by_id: dict[str, TurnLine] = {}
    if by == "turn":
        turn_by_id = {turn.id: turn for turn in turns}
    lines: list[ReportLine] = []
    for group in groups:
        line = ReportLine(
            name=group.name, turns=group.turns, coverage=None, kept=None, spent=group.spent
        )
        if grouping.counts_candidates(group):
            line = replace(line, coverage=group.coverage, kept=group.kept)
        turn = turn_by_id.get(group.name)
        if turn is not None:
            line = replace(line, at=turn.at, task=turn.task)
        lines.append(line)
    return lines


def format_spent(spent: Spent) -> str:
    """`~$1.27 + 3 unpriced`: priced calls (`~`: tokens are estimated), and the number of unpriced
    attempts."""
    if not _is_partly_unpriced(spent):
        return format_priced(spent)
    return f"{format_priced(spent)} + {spent.unpriced:,} unpriced"


def format_spent_short(spent: Spent) -> str:
    """`~$1.27+?`, for a narrow column."""
    if _is_partly_unpriced(spent):
        return f"{format_priced(spent)}+?"
    return format_priced(spent)


def format_priced(spent: Spent) -> str:
    """`~$1.27`; `unpriced` where no attempt has a price."""
    if spent.unpriced and spent.unpriced == spent.attempts:
        return "unpriced"
    return format_dollars(spent.cost_usd, estimated=spent.estimated > 0)


def _is_partly_unpriced(spent: Spent) -> bool:
    return 0 < spent.unpriced != spent.attempts


class Column(Struct, frozen=True, kw_only=True):
    """One figure or text of a line."""

    name: str
    """Name of the column in CSV and Parquet."""
    head: str
    """Heading of the column in tables for people."""
    kind: type
    """Type of the values: `str`, `int`, `float`, `Decimal` or `datetime`."""
    value: Callable[[ReportLine], Any]
    """Returns the value of a line; None if it is missing."""
    show: Callable[[Any], str]
    """Writes a value for people."""

    @property
    def is_words(self) -> bool:
        """Whether people read it as text, not as a figure."""
        return self.kind in (str, datetime)

    def shown(self, line: ReportLine) -> str:
        """Return the cell of a line for people."""
        value = self.value(line)
        if value is None:
            return DASH
        return self.show(value)


def _text(name: str, value: Callable[[ReportLine], str]) -> Column:
    return Column(name=name, head=name, kind=str, value=value, show=_short)


def _count(
    name: str,
    value: Callable[[ReportLine], int | None],
    show: Callable[[int], str] = "{:,}".format,
) -> Column:
    return Column(name=name, head=name, kind=int, value=value, show=show)


def _usd(name: str, value: Callable[[ReportLine], Decimal | None]) -> Column:
    return Column(name=name, head=name, kind=Decimal, value=value, show=format_dollars)


def _seconds(stage: str) -> Column:
    def value(line: ReportLine) -> float | None:
        # Without an answering call there is no time of it, not one of zero seconds.
        if line.latency is None or (stage == "primary" and not line.latency.primary):
            return None
        return round(float(getattr(line.latency, stage)), 6)

    return Column(name=f"{stage}_s", head=stage, kind=float, value=value, show="{:.1f}".format)


def _of_coverage(name: str) -> Callable[[ReportLine], int | None]:
    return lambda line: None if line.coverage is None else getattr(line.coverage, name)


def _of_spent(name: str) -> Callable[[ReportLine], Any]:
    return lambda line: getattr(line.spent, name)


def _of_usage(name: str) -> Callable[[ReportLine], int]:
    return lambda line: int(getattr(line.spent.usage, name))


def _of_otherwise(name: str) -> Callable[[ReportLine], Decimal | None]:
    return lambda line: getattr(line.spent.otherwise, name)


def _began(line: ReportLine) -> datetime | None:
    if line.at is None:
        return None
    return datetime.fromtimestamp(line.at, UTC)


def _served_from_cache(line: ReportLine) -> int | None:
    if line.coverage is None:
        return None
    return line.coverage.cached + line.coverage.carried


def _short(text: str) -> str:
    return ellipsize(text, _CELL_CHARS) or DASH


def _first_line(task: str) -> str:
    return ellipsize(task.strip().split("\n")[0], _TASK_CHARS)


_FIGURES = (
    *(_count(name, _of_coverage(name)) for name in Coverage.__struct_fields__),
    _count("kept", lambda line: line.kept),
    *(
        _count(name, _of_spent(name))
        for name in ("calls", "attempts", "rate_limited", "failed", "unpriced", "estimated")
    ),
    *(_count(name, _of_usage(name), format_tokens) for name in Usage.__struct_fields__),
    _usd("cost_usd", _of_spent("cost_usd")),
    *(
        _usd(f"{name}_usd", _of_otherwise(name))
        for name in CounterfactualCost.__struct_fields__
    ),
)
"""Columns that every line has, in the order of CSV and Parquet."""
_BEGAN = Column(
    name="at",
    head="began",
    kind=datetime,
    value=_began,
    show=lambda at: format_time(at.timestamp()),
)
_FACTS_OF_TURN = (
    _text("turn", lambda line: line.name),
    _BEGAN,
    _text("repository", lambda line: line.repository),
    _text("task", lambda line: line.task),
    _text("command", lambda line: line.command),
    _text("state", lambda line: line.state),
    _text("judge", lambda line: line.judge),
)
_COLUMNS = {
    column.name: column
    for column in (
        *_FACTS_OF_TURN,
        *_FIGURES,
        *map(_seconds, Latency.__struct_fields__),
        # Columns for people alone, which programs have as several figures.
        _count("from_cache", _served_from_cache),
        _count("near", lambda line: line.near),
        Column(
            name="dollars",
            head="dollars",
            kind=Decimal,
            value=lambda line: line.spent,
            show=format_spent_short,
        ),
    )
}
"""Every column by name, except those of a grouping."""


def _headed(name: str, head: str) -> Column:
    return replace(_COLUMNS[name], head=head)


def turn_columns() -> tuple[Column, ...]:
    """Return the columns of turns for programs."""
    return (*_FACTS_OF_TURN, *_FIGURES, *map(_seconds, Latency.__struct_fields__))


def group_columns(by: str) -> tuple[Column, ...]:
    """Return the columns of groups for programs."""
    name, turns = _columns_of_grouping(by)
    return (name, turns, *_FIGURES)


def shown_turn_columns(*, repositories: bool) -> tuple[Column, ...]:
    """Return the columns of turns for people. repositories: there are several."""
    return (
        _headed("at", "At (UTC)"),
        replace(
            _COLUMNS["task"], show=lambda task: ellipsize(task, _CELL_CHARS) or "(no task)"
        ),
        *([_COLUMNS["repository"]] if repositories else ()),
        _COLUMNS["command"],
        _COLUMNS["state"],
        _COLUMNS["candidates"],
        _headed("judged", "live"),
        _headed("from_cache", "cached"),
        _COLUMNS["unjudged"],
        _COLUMNS["kept"],
        _COLUMNS["near"],
        _COLUMNS["calls"],
        _headed("input_tokens", "tokens in"),
        _headed("output_tokens", "out"),
        _COLUMNS["dollars"],
        _headed("total_s", "seconds"),
    )


def shown_group_columns(by: str, *, paid: Callable[[Spent], str]) -> tuple[Column, ...]:
    """Return the columns of groups for people. paid: formats dollars."""
    name, turns = _columns_of_grouping(by)
    task = replace(_COLUMNS["task"], show=_first_line)
    return (
        name,
        _BEGAN if by == "turn" else turns,
        replace(_COLUMNS["dollars"], show=paid),
        _COLUMNS["calls"],
        _COLUMNS["candidates"],
        _headed("input_tokens", "tokens in"),
        _headed("cached_input_tokens", "cached"),
        _headed("output_tokens", "out"),
        *([task] if by == "turn" else ()),
    )


def _columns_of_grouping(by: str) -> tuple[Column, Column]:
    name = _text(by, lambda line: line.name)
    turns = _count("turns", lambda line: line.turns)
    return replace(name, show=lambda group: one_line(group) or "not known"), turns


class ReportTable(Struct, frozen=True):
    """A table of a report for people."""

    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    words: int
    """How many of the first columns are texts; the others are figures."""
    more: int = 0
    """Number of rows not shown."""
    ends_in_words: bool = False
    """Whether the last column is a text as well."""

    def is_words(self, at: int) -> bool:
        """Whether this column is a text."""
        return at < self.words or (self.ends_in_words and at == len(self.heads) - 1)

    @property
    def figures(self) -> list[str]:
        """The heads of the columns that are figures."""
        return [head for at, head in enumerate(self.heads) if not self.is_words(at)]


def table_for_people(
    columns: Sequence[Column], lines: Sequence[ReportLine], *, hidden: int = 0
) -> ReportTable:
    """Write the lines in words. hidden: the number of lines left out."""
    rows = [tuple(column.shown(line) for column in columns) for line in lines]
    leading = 0
    while leading < len(columns) and columns[leading].is_words:
        leading += 1
    ends_in_words = leading < len(columns) and columns[-1].is_words
    heads = tuple(column.head for column in columns)
    return ReportTable(heads, rows, leading, hidden, ends_in_words)
