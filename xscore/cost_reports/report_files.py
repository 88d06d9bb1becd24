"""Reports for other programs: tables (CSV, and Parquet by polars), Markdown and the CI gate, and
their files.

A line a group, or a line a turn. Dollars are decimal strings in CSV and exact decimals in Parquet;
times are UTC; a figure that is missing is an empty cell. Text that a spreadsheet would take for a
formula gets an apostrophe in CSV. A file is replaced only if it is an earlier report: a mistyped
name must not destroy a source file.

A step summary on GitHub holds at most 1 MiB of Markdown; groups past the limit are counted. All
text from outside is escaped: no name ends a cell, becomes HTML, a link or an image, mentions anyone
or refers to an issue. Trade-off: a backslash does not stop a mention, so a space of no width (as
HTML) follows what begins one, and is copied with it.
"""

import csv
import os
import re
import stat
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xscore.cli.terminal import Terminal, write_stderr
from xscore.cost_reports.gate import check_gates, measure_report, read_baseline, write_baseline
from xscore.cost_reports.records import (
    CostReport,
    Figure,
    GateFigures,
    GateLine,
    GateReport,
    GateVerdict,
)
from xscore.cost_reports.report_lines import (
    Column,
    ReportLine,
    ReportTable,
    format_spent,
    group_columns,
    line_of_turn,
    lines_of_groups,
    turn_columns,
)
from xscore.cost_reports.report_text import describe_period, report_tables, summary_rows
from xscore.platform.errors import GateFailed, UsageError
from xscore.platform.extras import require_extra
from xscore.platform.files import is_there, unwritable_file
from xscore.platform.paths import STORE_DIR
from xscore.platform.sqlite_drivers import REBUILD_HINT
from xscore.platform.text import counted, one_line
from xscore.settings import GateSettings

if TYPE_CHECKING:
    import polars as pl

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_DECIMALS = 12
"""Decimals of dollars, which are counted in picodollars."""


def _columns_and_lines(report: CostReport) -> tuple[tuple[Column, ...], list[ReportLine]]:
    """Return a line for each group if the report is grouped, otherwise for each turn."""
    if report.by:
        return group_columns(report.by), lines_of_groups(report.groups, report.by)
    return turn_columns(), [line_of_turn(turn) for turn in report.turns]


def report_csv(report: CostReport) -> str:
    """Return the table as CSV."""
    columns, lines = _columns_and_lines(report)
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.name for column in columns)
    for line in lines:
        writer.writerow(_csv_cell(column.value(line)) for column in columns)
    return text.getvalue()


def _csv_cell(value: object) -> object:
    """Return a value as CSV has it; dollars with all their decimals, never as 1E-9."""
    match value:
        case str():
            if value.startswith(_FORMULA):
                return f"'{value}"
            return value
        case Decimal():
            return f"{value:.{_DECIMALS}f}"
        case datetime():
            return value.isoformat(timespec="seconds")
    return value


def report_parquet(report: CostReport) -> bytes:
    """Return the table as Parquet. Raises UsageError without polars."""
    content = BytesIO()
    report_table(report).write_parquet(content)
    return content.getvalue()


def report_table(report: CostReport) -> "pl.DataFrame":
    """Return the table as a polars frame. Raises UsageError without polars."""
    require_extra("frames", "polars", purpose="a report as a frame or as Parquet")
    import polars as pl  # an extra

    columns, lines = _columns_and_lines(report)
    types: dict[type, Any] = {
        str: pl.String,
        int: pl.Int64,
        float: pl.Float64,
        Decimal: pl.Decimal(38, _DECIMALS),
        datetime: pl.Datetime("us", "UTC"),
    }
    schema = {column.name: types[column.kind] for column in columns}
    rows = [tuple(column.value(line) for column in columns) for line in lines]
    return pl.DataFrame(rows, schema=schema, orient="row")


FORM_OF_SUFFIX = {
    ".html": "html",
    ".htm": "html",
    ".csv": "csv",
    ".parquet": "parquet",
    ".md": "markdown",
}
_HEAD_BYTES = 4_096
_EARLIER = {
    "html": rb"(?s)<!doctype html>.*<title>xscore report",
    "csv": rb"(turn,at|[a-z]+,(turns|candidates)),",
    "parquet": rb"PAR1",
    "markdown": rb"## xscore report",
}
"""The start of an earlier report in this form."""


def form_of_file(path: Path) -> str:
    """Return the form named by a file's suffix. Raises UsageError for another suffix."""
    form = FORM_OF_SUFFIX.get(path.suffix.lower())
    if form is None:
        raise UsageError(
            f"--output: {path} has no known suffix",
            hint=f"Use one of {', '.join(FORM_OF_SUFFIX)}.",
        )
    return form


def check_outputs(outputs: Sequence[Path], baseline: Path | None, *, writes: bool) -> None:
    """Raise UsageError if any of these files cannot be written, before the first is.

    writes: the baseline is written as well.
    """
    named = [("--output", path) for path in outputs]
    if baseline:
        named.append(("--baseline", baseline))
    taken: dict[Path, str] = {}
    for option, path in named:
        if path in (Path(), Path("-")):
            raise UsageError(f"{option} names no file", hint="Name a file.")
        place = Path(os.path.realpath(path))  # a loop of links is left as it is
        if place in taken:
            raise UsageError(
                f"{taken[place]} and {option} name the same file: {path}",
                hint="Give each its own.",
            )
        taken[place] = option
        is_report = option == "--output"
        if is_report and form_of_file(path) == "parquet":
            require_extra("frames", "polars", purpose=f"--output {path}")
        if (is_report or writes) and not {STORE_DIR, ".git"}.isdisjoint(place.parts):
            raise UsageError(
                f"{path} is inside a store's folder", hint="Name a file elsewhere."
            )
        if is_report:
            _refuse_foreign_file(form_of_file(path), path, place)


def _refuse_foreign_file(form: str, path: Path, place: Path) -> None:
    if not is_there(place.parent, stat.S_ISDIR):
        raise unwritable_file(path, "there is no such folder")
    if not is_there(place, stat.S_ISREG):
        return
    try:
        with place.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise unwritable_file(path, error.strerror) from error
    if head and not re.match(_EARLIER[form], head):
        raise UsageError(
            f"{path} exists and is not an earlier report",
            hint="Name another file, or remove it first.",
        )


MARKDOWN_GROUPS_SHOWN = 200
_LONGEST = 480
"""Characters shown of one text."""
_ACTIVE = re.compile(r"[\\`*_\[\]|~<>&@#$!]")
_BEGINS = re.compile(
    r"[@#]|:(?=//)|(?<=www)\.|\b(?:mailto|xmpp):|\bgh(?=-[0-9])", re.IGNORECASE
)
"""The start of a mention, an issue reference or a link in plain text."""
_NO_WIDTH, _NO_WIDTH_IN_HTML = "\u200b", "&#8203;"


def render_markdown(report: CostReport) -> str:
    """Return the report; tables only of what there is."""
    facts: list[tuple[str, ...]] = [row for row in summary_rows(report) if row[1]]
    parts = [f"## xscore report: {escape_markdown(describe_period(report))}"]
    parts.append(markdown_table(ReportTable(("", ""), facts, words=2)))
    parts += map(
        markdown_table, report_tables(report, paid=format_spent, groups=MARKDOWN_GROUPS_SHOWN)
    )
    if report.warnings:
        parts.append("\n".join(f"> {escape_markdown(warning)}" for warning in report.warnings))
    return "\n\n".join(parts) + "\n"


def markdown_table(table: ReportTable) -> str:
    """Return a table in Markdown; its cells are escaped."""
    rules = ["---" if table.is_words(at) else "---:" for at in range(len(table.heads))]
    lines = [_markdown_line(table.heads), _markdown_line(rules)]
    for row in table.rows:
        lines.append(_markdown_line(list(map(escape_markdown, row))))
    if table.more:
        lines += ["", f"and {table.more:,} more"]
    return "\n".join(lines)


def _markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escape_markdown(text: str) -> str:
    """Escape whatever has a meaning in Markdown, HTML or on GitHub; one line, of bounded length."""
    shown = one_line(text)
    if len(shown) > _LONGEST:
        shown = shown[:_LONGEST] + "…"
    parted = _BEGINS.sub(rf"\g<0>{_NO_WIDTH}", shown)
    # The HTML comes only after the escapes, which would take its `&`, `#` and `;` apart.
    return _ACTIVE.sub(r"\\\g<0>", parted).replace(_NO_WIDTH, _NO_WIDTH_IN_HTML)


SMALL = Decimal("0.001")
"""Smaller dollars are shown to the picodollar: a millionth would hide the failure."""


def baseline_for_page(path: Path) -> GateFigures | None:
    """Return the baseline that a page shows latencies against; None where there is none that can be
    read: `report --check` says what is wrong with it."""
    try:
        return read_baseline(path)
    except UsageError:
        return None


def check_report(report: CostReport, *, baseline: Path, gates: GateSettings) -> GateReport:
    """Compare a report with the baseline in a file. Raises UsageError without one."""
    before = read_baseline(baseline)
    if before is None:
        raise UsageError(
            f"there is no baseline at {baseline}",
            hint="Write one with `xscore report --update-baseline`, and commit it.",
        )
    return check_gates(measure_report(report), before, gates)


def print_gate(gate: GateReport, terminal: Terminal) -> int:
    """Print one line for each failure, alert or remark and one for the total; return 0, or 5 if a
    gate failed."""
    for line in gate.failed:
        write_stderr(one_line(f"gate failed: {_describe_gate_line(line)}"))
    for verdict in (GateVerdict.ALERT, GateVerdict.HELD, GateVerdict.BETTER):
        for line in gate.with_verdict(verdict):
            if line.note or verdict is GateVerdict.ALERT:
                terminal.note(f"gate {verdict}: {_describe_gate_line(line)}")
    counts: list[str] = []
    for verdict in GateVerdict:
        count = len(gate.with_verdict(verdict))
        if count:
            counts.append(f"{count} {verdict}")
    terminal.note(f"gates: {', '.join(counts)}")
    return GateFailed.exit_code if gate.failed else 0


def update_baseline(report: CostReport, *, baseline: Path, terminal: Terminal) -> None:
    """Write the baseline again and report the changes.

    Raises UsageError if no figure can be trusted.
    """
    now = measure_report(report)
    if not now.turns:
        raise UsageError(
            "there is no finished turn to make a baseline from",
            hint="Run the workload first, or choose another range.",
        )
    if now.left_out:
        raise UsageError(
            "a baseline cannot come from a damaged ledger:"
            f" {counted(now.left_out, 'row')} left out of every figure",
            hint=f"{REBUILD_HINT} Or choose a range without them by --since.",
        )
    before = read_baseline(baseline)
    write_baseline(baseline, now)
    if before is None:
        terminal.note(
            f"{baseline} is written: {counted(now.turns, 'turn')}, {counted(now.calls, 'call')}"
        )
        return
    changed = 0
    for line in check_gates(now, before, GateSettings()).lines:
        was = _format_figure(line.baseline, line.unit)
        is_now = _format_figure(line.now, line.unit)
        if was != is_now:
            changed += 1
            terminal.note(f"baseline: {line.what}: {was} -> {is_now}{_change(line)}")
    terminal.note(f"{baseline} is updated: {counted(changed, 'figure')} changed")


def _describe_gate_line(line: GateLine) -> str:
    now = f"{_format_figure(line.now, line.unit)} now{_change(line)}"
    before = f"{_format_figure(line.baseline, line.unit)} in the baseline"
    words = f"{line.what}: {before}, {now}, {_format_figure(line.allowed, line.unit)} allowed"
    if line.note:
        return f"{words} ({line.note})"
    return words


def gate_table(gate: GateReport) -> ReportTable:
    """Return the check as a table: failures first, inconclusive gates last."""
    rows: list[tuple[str, ...]] = []
    # The verdicts are in the order in which a reader looks for them.
    for verdict in GateVerdict:
        rows += [_gate_row(line) for line in gate.with_verdict(verdict)]
    return ReportTable(("gate", "baseline", "now", "allowed", "verdict"), rows, words=1)


def gate_markdown(gate: GateReport) -> str:
    """Return the check as a table for a step summary."""
    return markdown_table(gate_table(gate)) + "\n"


def _gate_row(line: GateLine) -> tuple[str, ...]:
    values = (line.baseline, line.now, line.allowed)
    verdict = str(line.verdict)
    if line.note:
        verdict += f": {line.note}"
    return (line.what, *[_format_figure(value, line.unit) for value in values], verdict)


def _format_figure(value: Figure | None, unit: str) -> str:
    if value is None:
        return "–"
    match unit:
        case "usd":
            if value == 0 or value >= SMALL:
                return f"${value:,.6f}"
            return f"${value:.12f}".rstrip("0")
        case "share":
            return f"{value * 100:.1f} %"
        case "s":
            return f"{value:.3f} s"
    return f"{value:,}"


def _change(line: GateLine) -> str:
    if line.unit == "share" or line.now is None or not line.baseline:
        return ""
    if line.now == line.baseline:
        return ""
    return f" ({(float(line.now) / float(line.baseline) - 1) * 100:+.1f} %)"
