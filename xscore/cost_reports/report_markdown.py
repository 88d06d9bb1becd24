"""A report and its gate for a CI: Markdown for the step summary, and one line of stderr for what failed.

GitHub shows at most 1 MiB of it; groups past the limit are counted, not shown. All text from outside is escaped: no
name ends a cell, becomes HTML, a link or an image, mentions anyone or refers to an issue. Trade-off: a backslash does
not stop a mention, so a space of no width follows what begins one, and is copied with the name.
"""

import re
from decimal import Decimal
from pathlib import Path

from xscore.cli.terminal import Terminal, write_stderr
from xscore.cost_reports import gate as baselines
from xscore.cost_reports.gate import check_gates, measure_report
from xscore.cost_reports.records import CostReport, Figure, GateLine, GateReport, GateVerdict
from xscore.cost_reports.report_text import ReportTable, describe_period, format_spent, report_tables, summary_rows
from xscore.platform.errors import GateFailed, UsageError
from xscore.platform.sqlite_drivers import REBUILD_HINT
from xscore.platform.text import counted, one_line
from xscore.settings import GateSettings

MARKDOWN_GROUPS_SHOWN = 200
_LONGEST = 480
"""Characters of one text that are shown."""
_ACTIVE = re.compile(r"[\\`*_\[\]|~<>&@#$!]")
_BEGINS = re.compile(r"[@#]|:(?=//)|(?<=www)\.|\b(?:mailto|xmpp):|\bgh(?=-[0-9])", re.IGNORECASE)
"""What makes a mention, a reference to an issue or a link of plain text."""
_NO_WIDTH = "\u200b"


def render_markdown(report: CostReport) -> str:
    """Return the report; tables only of what there is."""
    facts: list[tuple[str, ...]] = [row for row in summary_rows(report) if row[1]]
    parts = [f"## xscore report: {escape_markdown(describe_period(report))}"]
    parts.append(_markdown_table(ReportTable(("", ""), facts, words=2)))
    parts += map(_markdown_table, report_tables(report, paid=format_spent, groups=MARKDOWN_GROUPS_SHOWN))
    if report.warnings:
        parts.append("\n".join(f"> {escape_markdown(warning)}" for warning in report.warnings))
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: ReportTable) -> str:
    rules = ["---" if at < table.words or head == "task" else "---:" for at, head in enumerate(table.heads)]
    written = [table.heads, rules, *(tuple(map(escape_markdown, row)) for row in table.rows)]
    lines = "\n".join(f"| {' | '.join(line)} |" for line in written)
    return lines + (f"\n\nand {table.more:,} more" if table.more else "")


def escape_markdown(text: str) -> str:
    """Escape whatever Markdown, HTML or GitHub could make something of; one line, of bounded length."""
    flat = one_line(text)
    shown = flat if len(flat) <= _LONGEST else flat[:_LONGEST] + "…"
    return _ACTIVE.sub(r"\\\g<0>", _BEGINS.sub(rf"\g<0>{_NO_WIDTH}", shown))


SMALL = Decimal("0.001")
"""Dollars below it are shown to the picodollar: a millionth would hide what fails."""
VERDICT_ORDER = (
    GateVerdict.FAILED,
    GateVerdict.ALERT,
    GateVerdict.BETTER,
    GateVerdict.HELD,
    GateVerdict.INCOMPARABLE,
    GateVerdict.INCONCLUSIVE,
)
"""What a reader looks for first."""


def check_report(report: CostReport, *, baseline: Path, gates: GateSettings) -> GateReport:
    """Compare a report with the baseline in a file; as JSON by `receipt.plain`. Raises UsageError without one."""
    return check_gates(measure_report(report), baselines.read_baseline(baseline), gates)


def print_gate(found: GateReport, terminal: Terminal) -> int:
    """One line for what failed, alerts or needs a word, one for all; return 0, or 5 where a gate failed."""
    for line in found.failed:
        write_stderr(one_line(f"gate failed: {_describe_gate_line(line)}"))
    for verdict in (GateVerdict.ALERT, GateVerdict.HELD, GateVerdict.BETTER):
        for line in found.with_verdict(verdict):
            if line.note or verdict is GateVerdict.ALERT:
                terminal.note(f"gate {verdict}: {_describe_gate_line(line)}")
    counts = [f"{count} {verdict}" for verdict in VERDICT_ORDER if (count := len(found.with_verdict(verdict)))]
    terminal.note(f"gates: {', '.join(counts)}")
    return GateFailed.exit_code if found.failed else 0


def update_baseline(report: CostReport, *, baseline: Path, terminal: Terminal) -> None:
    """Write the baseline again and say what changed. Raises UsageError where no figure can be believed."""
    now = measure_report(report)
    if not now.turns:
        raise UsageError(
            "there is no finished turn to make a baseline of", hint="Run the workload first, or choose another range."
        )
    if now.left_out:
        raise UsageError(
            f"no baseline is made of a damaged ledger: {counted(now.left_out, 'row')} left out of every figure",
            hint=f"{REBUILD_HINT} Or choose a range without them by --since.",
        )
    before = baselines.read_baseline_if_present(baseline)
    baselines.write_baseline(baseline, now)
    if before is None:
        terminal.note(f"{baseline} is written: {counted(now.turns, 'turn')}, {counted(now.calls, 'call')}")
        return
    changed = 0
    for line in check_gates(now, before, GateSettings()).lines:
        was, is_now = _format_figure(line.baseline, line.unit), _format_figure(line.now, line.unit)
        if was != is_now:
            changed += 1
            terminal.note(f"baseline: {line.what}: {was} -> {is_now}{_change(line)}")
    terminal.note(f"{baseline} is written anew: {counted(changed, 'figure')} changed")


def _describe_gate_line(line: GateLine) -> str:
    now = f"{_format_figure(line.now, line.unit)} now{_change(line)}"
    before = f"{_format_figure(line.baseline, line.unit)} in the baseline"
    words = f"{line.what}: {before}, {now}, {_format_figure(line.allowed, line.unit)} allowed"
    return f"{words} ({line.note})" if line.note else words


def gate_markdown(found: GateReport) -> str:
    """Return the check as a table for a step summary: what failed first, what is inconclusive last."""
    rows = []
    for line in [line for verdict in VERDICT_ORDER for line in found.with_verdict(verdict)]:
        figures = [_format_figure(value, line.unit) for value in (line.baseline, line.now, line.allowed)]
        rows.append((line.what, *figures, f"{line.verdict}: {line.note}" if line.note else str(line.verdict)))
    return _markdown_table(ReportTable(("gate", "baseline", "now", "allowed", "verdict"), rows, words=1)) + "\n"


def _format_figure(value: Figure | None, unit: str) -> str:
    if value is None:
        return "–"
    match unit:
        case "usd":
            return f"${value:,.6f}" if value == 0 or value >= SMALL else f"${value:.12f}".rstrip("0")
        case "share":
            return f"{value * 100:.1f} %"
        case "s":
            return f"{value:.3f} s"
    return f"{value:,}"


def _change(line: GateLine) -> str:
    if line.unit == "share" or line.now is None or not line.baseline or line.now == line.baseline:
        return ""
    return f" ({(float(line.now) / float(line.baseline) - 1) * 100:+.1f} %)"
