"""Lines of `report --by`, in words, alike on a terminal and in Markdown. It sets no table and escapes nothing.

A line of turns says when its turn began and what its task was, and counts no turns, for that is always one. Trade-off:
a turn that the report has no line of goes without.
"""

from collections.abc import Callable

from xscore.records.cost_report import CostReport, Group, Spent, TurnLine, is_of_candidates
from xscore.safe_text import one_line
from xscore.wording import DASH, moment, tokens

SPENT = ("candidates", "calls", "in", "prefix-cached", "out", "dollars")


def head_of(by: str) -> tuple[str, ...]:
    """The words above the columns."""
    return (by, "began" if by == "turn" else "turns", *SPENT)


def lines_of(report: CostReport) -> dict[str, TurnLine]:
    """The turns that the report has a line of, by id."""
    return {line.id: line for line in report.turns}


def cells_of(group: Group, by: str, began: dict[str, TurnLine], *, paid: Callable[[Spent], str]) -> tuple[str, ...]:
    """Under `head_of`, the figures of one line. paid: how its dollars are said."""
    spent, usage = group.spent, group.spent.usage
    line = began.get(group.name)
    second = f"{group.turns:,}" if by != "turn" else moment(line.at) if line else DASH
    candidates = f"{group.coverage.candidates:,}" if is_of_candidates(group, by) else DASH
    used = (tokens(usage.input_tokens), tokens(usage.cached_input_tokens), tokens(usage.output_tokens))
    return (group.name or "not known", second, candidates, f"{spent.calls:,}", *used, paid(spent))


def task_of(group: Group, began: dict[str, TurnLine]) -> str:
    """The first line of a turn's task; empty where it is not known, or was erased."""
    line = began.get(group.name)
    lines = line.task.splitlines() if line else []
    return one_line(next((text.strip() for text in lines if text.strip()), ""))
