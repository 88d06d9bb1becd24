"""The report as Markdown for the step summary of a CI: short tables, whatever a name holds.

GitHub shows at most 1 MiB of it; groups past the limit are counted, not shown. Everything that is not a figure of ours
is escaped: no name ends a cell, becomes HTML, a link or an image, mentions anyone or refers to an issue. Trade-off: a
backslash does not stop a mention, which is looked for in the finished page, so a space of no width stands after what
begins one, and comes along where such a name is copied.
"""

import re
from collections.abc import Sequence

from xscore.cli.group_rows import cells_of, head_of, lines_of, task_of
from xscore.cli.report_page import (
    EVALUATED,
    TIMED,
    calls_in_words,
    candidates_in_words,
    estimate_in_words,
    evaluation_rows,
    kept_in_words,
    offline_in_words,
    stretch,
    timing_rows,
    tokens_in_words,
    turns_in_words,
)
from xscore.cost_reports.payment import otherwise, paid
from xscore.records.cost_report import CostReport, Group
from xscore.safe_text import one_line

GROUPS_SHOWN = 200
EVALUATIONS_SHOWN = 10
FIRST_WORDS = 60
"""Characters of a turn's task."""
_LONGEST = 480
"""Characters of one text that are shown."""
_ACTIVE = re.compile(r"[\\`*_\[\]|~<>&@#$!]")
_BEGINS = re.compile(r"[@#]|:(?=//)|(?<=www)\.|\b(?:mailto|xmpp):|\bgh(?=-[0-9])", re.IGNORECASE)
"""What makes a mention, a reference to an issue or a link of plain text."""
_NO_WIDTH = "\u200b"


def markdown(report: CostReport) -> str:
    """Return the report; tables only of what there is."""
    parts = [
        f"## xscore report: {escaped(stretch(report))}",
        _summary(report),
        _groups(report, report.by_model, "model"),
    ]
    if report.by and report.by != "model":
        parts.append(_groups(report, report.groups, report.by))
    parts.append(_table(TIMED, timing_rows(report.timings), words=3))
    parts.append(_table(EVALUATED, evaluation_rows(report.evaluations[:EVALUATIONS_SHOWN]), words=2))
    if report.warnings:
        parts.append("\n".join(f"> {escaped(warning)}" for warning in report.warnings))
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(report: CostReport) -> str:
    rows = [
        ("turns", turns_in_words(report)),
        ("candidates", candidates_in_words(report)),
        ("kept", kept_in_words(report)),
        ("calls", calls_in_words(report.spent)),
        ("tokens", tokens_in_words(report)),
        ("dollars", paid(report.spent)),
        *((way.name, way.words) for way in otherwise(report.comparison)),
    ]
    if report.accuracy:
        rows.append(("estimate", estimate_in_words(report)))
    if report.offline.jobs:
        rows.append(("offline", offline_in_words(report)))
    return _table(("", ""), rows, words=2)


def _groups(report: CostReport, found: Sequence[Group], by: str) -> str:
    began, is_of_turns = lines_of(report), by == "turn"
    rows = []
    for group in found[:GROUPS_SHOWN]:
        task = (task_of(group, began)[:FIRST_WORDS],) if is_of_turns else ()
        rows.append((*cells_of(group, by, began, paid=paid), *task))
    more = f"\n\nand {len(found) - GROUPS_SHOWN:,} more" if len(found) > GROUPS_SHOWN else ""
    return _table((*head_of(by), *(("task",) if is_of_turns else ())), rows, words=2 if is_of_turns else 1) + more


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int) -> str:
    if not rows:
        return ""
    lines = [head, ["---" if at < words else "---:" for at in range(len(head))]]
    written = [" | ".join(line) for line in lines] + [" | ".join(map(escaped, row)) for row in rows]
    return "\n".join(f"| {line} |" for line in written)


def escaped(text: str) -> str:
    """Escape whatever Markdown, HTML or GitHub could make something of; one line, of bounded length."""
    flat = one_line(text)
    shown = flat if len(flat) <= _LONGEST else flat[:_LONGEST] + "…"
    return _ACTIVE.sub(r"\\\g<0>", _BEGINS.sub(rf"\g<0>{_NO_WIDTH}", shown))
