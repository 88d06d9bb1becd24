"""A report and its gate in words for a CI: Markdown for the step summary, and one line of stderr for what failed.

GitHub shows at most 1 MiB of it; groups past the limit are counted, not shown. Everything that is not a figure of ours
is escaped: no name ends a cell, becomes HTML, a link or an image, mentions anyone or refers to an issue. Trade-off: a
backslash does not stop a mention, so a space of no width stands after what begins one, and is copied with the name.
"""

import re
from decimal import Decimal
from pathlib import Path

from xscore.cli.terminal import Terminal, write_stderr
from xscore.cost_reports import baseline as baselines
from xscore.cost_reports.gate import check_gates, measure_report
from xscore.cost_reports.report_text import ReportTable, describe_period, format_spent, report_tables, summary_rows
from xscore.platform.errors import GateFailed, UsageError
from xscore.platform.sqlite_drivers import REBUILD_HINT
from xscore.platform.text import counted, one_line
from xscore.records.cost_report import CostReport, Figure, GateFigures, GateLine, GateReport, GateVerdict
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
VERDICTS_WITH_OWN_LINE = frozenset({GateVerdict.FAILED, GateVerdict.ALERT, GateVerdict.HELD})
"""Each of these has a line of its own, or needs none."""


def check_report(report: CostReport, *, baseline: Path, gates: GateSettings) -> GateReport:
    """Compare a report with the baseline in a file; as JSON by `receipt.plain`. Raises UsageError without one."""
    return check_gates(measure_report(report), baselines.read_baseline(baseline), gates)


def print_gate(found: GateReport, terminal: Terminal) -> int:
    """One line for what failed, alerts or needs a word, one for all; return 0, or 5 where a gate failed."""
    for line in found.failed:
        write_stderr(one_line(f"gate failed: {describe_gate_line(line)}"))
    for line in found.with_verdict(GateVerdict.ALERT):
        terminal.note(f"gate alert: {describe_gate_line(line)}")
    for line in (*found.with_verdict(GateVerdict.HELD), *found.with_verdict(GateVerdict.BETTER)):
        if line.note:
            terminal.note(f"gate: {describe_gate_line(line)}")
    terminal.note(summarize_gate(found))
    return GateFailed.exit_code if found.failed else 0


def update_baseline(report: CostReport, *, baseline: Path, terminal: Terminal) -> int:
    """Write the baseline anew and say what changed; return 0. Raises UsageError where no figure can be believed."""
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
        return 0
    changes = changed_figures(now, before)
    for change in changes:
        terminal.note(f"baseline: {change}")
    terminal.note(f"{baseline} is written anew: {counted(len(changes), 'figure')} changed")
    return 0


def changed_figures(now: GateFigures, before: GateFigures) -> list[str]:
    """Say which figures differ from the baseline, from what to what."""
    lines = check_gates(now, before, GateSettings()).lines
    return [
        f"{line.what}: {format_figure(line.baseline, line.unit)} -> {format_figure(line.now, line.unit)}{_change(line)}"
        for line in lines
        if format_figure(line.baseline, line.unit) != format_figure(line.now, line.unit)
    ]


def describe_gate_line(line: GateLine) -> str:
    """What it is, the baseline, the figure now, and what would still hold: one line."""
    now = f"{format_figure(line.now, line.unit)} now{_change(line)}"
    before = f"{format_figure(line.baseline, line.unit)} in the baseline"
    words = f"{line.what}: {before}, {now}, {format_figure(line.allowed, line.unit)} allowed"
    return f"{words} ({line.note})" if line.note else words


def summarize_gate(found: GateReport) -> str:
    """How many held, and by name what neither held nor has a line of its own: one line."""
    parts = []
    for verdict in VERDICT_ORDER:
        lines = found.with_verdict(verdict)
        names = [_name(line) for line in lines if verdict not in VERDICTS_WITH_OWN_LINE and not _is_sparse(line)]
        sparse = sum(map(_is_sparse, lines))
        names += [f"{sparse} p95 of too few samples"] if sparse else []
        if lines:
            word = "alerts" if verdict is GateVerdict.ALERT and len(lines) > 1 else verdict.value
            parts.append(f"{len(lines)} {word}" + (f" ({'; '.join(names)})" if names else ""))
    return "gates: " + ", ".join(parts)


def gate_markdown(found: GateReport) -> str:
    """Return the check as a table for a step summary: what failed first, what is inconclusive last."""
    rows = [line for verdict in VERDICT_ORDER for line in found.with_verdict(verdict)]
    table = ["| gate | baseline | now | allowed | |", "|---|---:|---:|---:|---|"]
    for line in rows:
        cells = (line.what, *(format_figure(value, line.unit) for value in (line.baseline, line.now, line.allowed)))
        verdict = f"**{line.verdict}**" if line.verdict is GateVerdict.FAILED else line.verdict.value
        note = f": {line.note}" if line.note else ""
        table.append("| " + " | ".join(map(escape_markdown, cells)) + f" | {verdict}{escape_markdown(note)} |")
    return "\n".join(table) + "\n"


def format_figure(value: Figure | None, unit: str) -> str:
    """A figure in its unit: `$0.021345`, `1,204`, `98.2 %`, `0.134 s`; a dash where there is none."""
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


def _name(line: GateLine) -> str:
    return f"{line.what}{_change(line)}" if line.verdict is not GateVerdict.INCONCLUSIVE else line.what


def _is_sparse(line: GateLine) -> bool:
    return line.unit == "s" and line.verdict is GateVerdict.INCONCLUSIVE


def _change(line: GateLine) -> str:
    """By how much it changed, where that can be said."""
    if line.unit == "share" or line.now is None or not line.baseline or line.now == line.baseline:
        return ""
    return f" ({(float(line.now) / float(line.baseline) - 1) * 100:+.1f} %)"
