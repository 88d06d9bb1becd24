"""A report of a check as text for a terminal, and as Markdown for a pull request."""

from xscore.cli.text_layout import bold, faint
from xscore.extensions.checking.records import CheckReport, Finding, FindingKind
from xscore.platform.figures import format_dollars
from xscore.platform.text import counted, format_place, one_line

HEADS = {
    FindingKind.DOCUMENT: "names what is gone",
    FindingKind.DECISION: "may no longer hold",
    FindingKind.CONTRADICTED: "is contradicted",
    FindingKind.TEST: "test not changed",
    FindingKind.FILE: "not changed",
    FindingKind.DUPLICATED: "does this already",
}
_MARKDOWN = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>#|~!@"})


def render_text(report: CheckReport) -> str:
    """Return a line a finding with its reasons; empty if there is none."""
    lines: list[str] = []
    for finding in report.findings:
        reasons = one_line("; ".join(finding.reasons))
        head = f"{bold(finding_place(finding))}  {finding.score:.2f}  {HEADS[finding.kind]}"
        lines.append(f"{head}  {faint(reasons)}")
    return "\n".join(lines)


def finding_place(finding: Finding) -> str:
    """Return the file and line, or the memory."""
    if finding.memory_id:
        return one_line(f"{finding.memory_id} “{finding.title}”")
    return one_line(format_place(finding.path, finding.line, finding.line))


def render_check_account(report: CheckReport) -> str:
    """Say what was looked at, for standard error."""
    if report.silenced:
        return faint(f"not checked: “{report.silenced}”")
    parts = [counted(report.changed_files, "changed file")]
    if report.commits_read:
        parts.append(f"{counted(report.commits_read, 'past commit')} learned from")
    if report.findings:
        parts.append(counted(len(report.findings), "finding"))
    else:
        parts.append("nothing is missing")
    if report.turn_id:
        judge = one_line(report.judge) or "nothing was judged"
        parts += [judge, format_dollars(report.cost_usd), f"turn {report.turn_id}"]
    return faint(" · ".join(parts))


def render_check_markdown(report: CheckReport) -> str:
    """Return a list for a comment; empty if there is no finding."""
    lines: list[str] = []
    for finding in report.findings:
        reasons = "; ".join(map(_plain, finding.reasons))
        lines.append(f"- **{_plain(finding_place(finding))}** {HEADS[finding.kind]}: {reasons}")
    if not lines:
        return ""
    return "\n".join(["**This change may lack something**", "", *lines])


def _plain(text: str) -> str:
    """Return text that Markdown shows literally: a stranger's name must not mention any user."""
    return one_line(text).translate(_MARKDOWN)
