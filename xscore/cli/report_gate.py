"""`xscore report --check` and `--update-baseline`: compare, tell, and say what the command ends with.

What failed stands on stderr, one line each, also under `--quiet` and `--json`: it is why the command ends with 5. What
is compared, and how, is decided in `cost_reports.gate`.
"""

from decimal import Decimal
from pathlib import Path

from xscore.cli.report_markdown import escaped
from xscore.cli.terminal import Terminal, tell_people
from xscore.cost_reports import baseline as baselines
from xscore.cost_reports.gate import check, measure
from xscore.database import REBUILD
from xscore.errors import GateFailed, UsageError
from xscore.records.cost_report import CostReport
from xscore.records.gate import Figure, GateLine, GateReport, Measured, Verdict
from xscore.safe_text import one_line
from xscore.settings import GateSettings
from xscore.wording import counted

SMALL = Decimal("0.001")
"""Dollars below it are shown to the picodollar: a millionth would hide what fails."""
FIRST = (Verdict.FAILED, Verdict.ALERT, Verdict.BETTER, Verdict.HELD, Verdict.INCOMPARABLE, Verdict.INCONCLUSIVE)
"""What a reader looks for first."""
TOLD_OTHERWISE = frozenset({Verdict.FAILED, Verdict.ALERT, Verdict.HELD})
"""Each of these has a line of its own, or needs none."""


def checked(report: CostReport, *, baseline: Path, gates: GateSettings) -> GateReport:
    """Compare a report with the baseline in a file; as JSON by `receipt.plain`. Raises UsageError without one."""
    return check(measure(report), baselines.read(baseline), gates)


def tell(found: GateReport, terminal: Terminal) -> int:
    """One line for what failed, alerts or needs a word, one for all; return 0, or 5 where a gate failed."""
    for line in found.failed:
        tell_people(one_line(f"gate failed: {in_words(line)}"))
    for line in found.with_verdict(Verdict.ALERT):
        terminal.note(f"gate alert: {in_words(line)}")
    for line in (*found.with_verdict(Verdict.HELD), *found.with_verdict(Verdict.BETTER)):
        if line.note:
            terminal.note(f"gate: {in_words(line)}")
    terminal.note(summary(found))
    return GateFailed.exit_code if found.failed else 0


def update_baseline(report: CostReport, *, baseline: Path, terminal: Terminal) -> int:
    """Write the baseline anew and say what changed; return 0. Raises UsageError where no figure can be believed."""
    now = measure(report)
    if not now.turns:
        raise UsageError(
            "there is no finished turn to make a baseline of", hint="Run the workload first, or choose another range."
        )
    if now.left_out:
        raise UsageError(
            f"no baseline is made of a damaged ledger: {counted(now.left_out, 'row')} left out of every figure",
            hint=f"{REBUILD} Or choose a range without them by --since.",
        )
    before = baselines.read_if_there(baseline)
    baselines.write(baseline, now)
    if before is None:
        terminal.note(f"{baseline} is written: {counted(now.turns, 'turn')}, {counted(now.calls, 'call')}")
        return 0
    changes = changed(now, before)
    for change in changes:
        terminal.note(f"baseline: {change}")
    terminal.note(f"{baseline} is written anew: {counted(len(changes), 'figure')} changed")
    return 0


def changed(now: Measured, before: Measured) -> list[str]:
    """Say which figures differ from the baseline, from what to what."""
    lines = check(now, before, GateSettings()).lines
    return [
        f"{line.what}: {figure(line.baseline, line.unit)} -> {figure(line.now, line.unit)}{_change(line)}"
        for line in lines
        if figure(line.baseline, line.unit) != figure(line.now, line.unit)
    ]


def in_words(line: GateLine) -> str:
    """What it is, the baseline, the figure now, and what would still hold: one line."""
    now = f"{figure(line.now, line.unit)} now{_change(line)}"
    before = f"{figure(line.baseline, line.unit)} in the baseline"
    words = f"{line.what}: {before}, {now}, {figure(line.allowed, line.unit)} allowed"
    return f"{words} ({line.note})" if line.note else words


def summary(found: GateReport) -> str:
    """How many held, and by name what neither held nor has a line of its own: one line."""
    parts = []
    for verdict in FIRST:
        lines = found.with_verdict(verdict)
        names = [_name(line) for line in lines if verdict not in TOLD_OTHERWISE and not _is_sparse(line)]
        sparse = sum(map(_is_sparse, lines))
        names += [f"{sparse} p95 of too few samples"] if sparse else []
        if lines:
            word = "alerts" if verdict is Verdict.ALERT and len(lines) > 1 else verdict.value
            parts.append(f"{len(lines)} {word}" + (f" ({'; '.join(names)})" if names else ""))
    return "gates: " + ", ".join(parts)


def as_markdown(found: GateReport) -> str:
    """Return the check as a table for a step summary: what failed first, what is inconclusive last."""
    rows = [line for verdict in FIRST for line in found.with_verdict(verdict)]
    table = ["| gate | baseline | now | allowed | |", "|---|---:|---:|---:|---|"]
    for line in rows:
        cells = (line.what, *(figure(value, line.unit) for value in (line.baseline, line.now, line.allowed)))
        verdict = f"**{line.verdict}**" if line.verdict is Verdict.FAILED else line.verdict.value
        note = f": {line.note}" if line.note else ""
        table.append("| " + " | ".join(map(escaped, cells)) + f" | {verdict}{escaped(note)} |")
    return "\n".join(table) + "\n"


def figure(value: Figure | None, unit: str) -> str:
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
    return f"{line.what}{_change(line)}" if line.verdict is not Verdict.INCONCLUSIVE else line.what


def _is_sparse(line: GateLine) -> bool:
    return line.unit == "s" and line.verdict is Verdict.INCONCLUSIVE


def _change(line: GateLine) -> str:
    """By how much it changed, where that can be said."""
    if line.unit == "share" or line.now is None or not line.baseline or line.now == line.baseline:
        return ""
    return f" ({(float(line.now) / float(line.baseline) - 1) * 100:+.1f} %)"
