"""Past turns in two lines each, for people: figures in columns, below them the task. It reads no store."""

from collections.abc import Sequence

from xscore.cli.session_words import ago
from xscore.cli.terminal import bold, cut, faint
from xscore.pipeline.receipt import Json, plain, stage_usage
from xscore.records.turn_list import AnswerIs, ListedTurn
from xscore.safe_text import one_line
from xscore.wording import dollars, seconds

INDENT = "    "


def page(turns: Sequence[ListedTurn], *, now: float, width: int | None) -> str:
    """Show the turns. width: columns of the terminal; None: lines are not cut."""
    cells = [_cells(turn, now=now) for turn in turns]
    wide = [max(len(row[column]) for row in cells) for column in range(len(cells[0]) - 1)]
    return "\n".join(line for turn, row in zip(turns, cells, strict=True) for line in _entry(turn, row, wide, width))


def as_json(turn: ListedTurn) -> dict[str, Json]:
    """Render one turn with every field."""
    return {**plain(turn), "spent": stage_usage(turn.spent)}


def _cells(turn: ListedTurn, *, now: float) -> tuple[str, ...]:
    took = "" if turn.total_s is None else seconds(turn.total_s)
    spent = dollars(turn.spent.cost_usd, estimated=turn.spent.estimated) if turn.spent.attempts or turn.coverage else ""
    return (turn.id, ago(turn.at, now), turn.state, spent, took, _kept(turn))


def _kept(turn: ListedTurn) -> str:
    if turn.coverage is None:
        return ""
    missing = f", {turn.coverage.unjudged:,} unjudged" if turn.coverage.unjudged else ""
    return f"kept {turn.kept:,} of {turn.coverage.candidates:,}{missing}"


def _entry(turn: ListedTurn, cells: tuple[str, ...], wide: Sequence[int], width: int | None) -> list[str]:
    *columns, last = cells
    identifier, when, state, spent, took = (cell.ljust(size) for cell, size in zip(columns, wide, strict=True))
    figures = f"{when}  {state}  {spent.strip().rjust(wide[3])}  {took.strip().rjust(wide[4])}  {last}"
    head = f"{bold(one_line(identifier))}  {cut(figures.rstrip(), None if width is None else width - wide[0] - 2)}"
    who = " ".join(one_line(word) for word in (turn.command, f"({turn.judge})" if turn.judge else "") if word)
    said = f"{INDENT}{who}{'  ' if who else ''}{_task(turn)}"
    return [head, faint(cut(said, width))]


def _task(turn: ListedTurn) -> str:
    if turn.task_is_erased:
        return "(the task was erased)"
    first = next((line.strip() for line in turn.task.splitlines() if line.strip()), "(no task)")
    erased = "(its answer was erased) " if turn.answer is AnswerIs.ERASED else ""
    return erased + one_line(first)
