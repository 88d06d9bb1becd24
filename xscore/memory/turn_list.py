"""Past turns in a line each, newest first, from the store alone.

A turn is entered as running when it begins; one whose process is gone without having ended it is listed as
`unfinished`. Of a receipt it reads only whether the answer was erased, of a torn one not even that. A row that makes no
sense is left out and counted. Trade-off: dollars are added up from the calls of what is listed, so that they are those
of the ledger, also of a turn that was killed.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from xscore import database
from xscore.errors import BrokenReceipt, NothingMatched, StoreDamaged, UsageError
from xscore.memory.call_figures import MAKES_SENSE, TOKENS, count, dollars_of, moment_of, number, seconds_of, usage_of
from xscore.memory.turns import TurnState, latest
from xscore.processes import is_at_work
from xscore.records import Coverage, StageUsage
from xscore.records.cost_report import LAST_MOMENT
from xscore.records.turn_list import AnswerIs, ListedTurn

UNFINISHED = "unfinished"
STATES = (*map(str, TurnState), UNFINISHED)
"""What a list may be narrowed to."""
LATEST = "latest"
_BATCH = 500
"""Turns of which the calls are added up at once."""
_TURNS = """
    SELECT id, started_at, thread, state, task, moment, answer <> '',
        coalesce(command, ''), coalesce(figures.judge, ''), candidates, judged, cached, carried, unjudged,
        coalesce(kept, 0), coalesce(threshold, 0), total_s,
        CASE WHEN json_valid(body) THEN json_extract(body, '$.answer') = '' END
    FROM turn LEFT JOIN turn_figures AS figures ON figures.turn_id = id LEFT JOIN receipt ON receipt.turn_id = id
"""
_WANTED = """
    WHERE {within} AND (:state = '' OR state = :state)
        AND (:thread = '' OR substr(thread, 1, length(:thread)) = :thread)
    ORDER BY started_at DESC, id
"""
_EVER = "started_at >= -9e999"
_WITHIN = f"started_at >= :since AND started_at <= {LAST_MOMENT}"
"""What is no moment at all belongs to no stretch; asked for everything, it is counted as damaged."""
_OF_THESE = "turn_id IN (SELECT value FROM json_each(?))"
_SPENT = f"""
    SELECT turn_id, sum(outcome = 'ok'), count(*), iif(count(cost) = count(*), sum(cost), NULL), max(estimated),
        {", ".join(f"sum({name})" for name in TOKENS)}
    FROM call WHERE {_OF_THESE} AND {MAKES_SENSE} GROUP BY turn_id
"""  # noqa: S608  names are ours
_DAMAGED = f"SELECT count(*) FROM call WHERE {_OF_THESE} AND ({MAKES_SENSE}) IS NOT TRUE"  # noqa: S608  names are ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which turns to list."""

    limit: int | None = 20
    """None: all of them."""
    since: float | None = None
    """Unix seconds, inclusive."""
    state: str = ""
    thread: str = ""
    """A working session, or the beginning of its name."""


class Listed(NamedTuple):
    """Turns, and what could not be listed."""

    turns: list[ListedTurn]
    """The newest first."""
    damaged_turns: int = 0
    """Rows of turns or their figures that make no sense, among those that were looked at."""
    damaged_calls: int = 0
    """Rows of calls that make no sense, of the turns that are listed: no sum has them."""


def listed(connection: sqlite3.Connection, wanted: Wanted, *, now: float) -> Listed:
    """Return the turns that are wanted, newest first. Raises StoreDamaged where the database itself cannot be read."""
    within = _EVER if wanted.since is None else _WITHIN
    given = {
        "since": wanted.since,
        "state": str(TurnState.RUNNING) if wanted.state == UNFINISHED else wanted.state,
        "thread": wanted.thread,
    }
    found: list[ListedTurn] = []
    damaged_turns = 0
    with database.as_it_can_be_read(connection):
        for row in connection.execute(_TURNS + _WANTED.format(within=within), given):
            turn = _row_or_none(row, now=now)
            damaged_turns += turn is None
            if turn and wanted.state in {"", turn.state}:
                found.append(turn)
            if len(found) == wanted.limit:
                break
        turns, damaged_calls = _with_spending(connection, found)
    return Listed(turns, damaged_turns, damaged_calls)


def one(connection: sqlite3.Connection, turn_id: str, *, now: float) -> ListedTurn:
    """Return the turn of this id, which is there. Raises StoreDamaged for a row that makes no sense."""
    with database.as_it_can_be_read(connection):
        row = connection.execute(f"{_TURNS} WHERE id = ?", (turn_id,)).fetchone()
        with database.making_sense("a turn"):
            return _with_spending(connection, [_row(row, now=now)])[0][0]


def named(connection: sqlite3.Connection, name: str) -> str:
    """Return the id of a turn by its id, the beginning of that, or `latest`.

    Raises NothingMatched where there is none such, UsageError for several.
    """
    hint = "`xscore turns` lists them."
    if name == LATEST:
        found = [latest(connection)]
    else:
        ids = "SELECT id FROM turn WHERE id >= ? AND substr(id, 1, ?) = ? ORDER BY id LIMIT 4"
        found = [row[0] for row in connection.execute(ids, (name, len(name), name))]
    if not name or not any(found):
        raise NothingMatched("there is no turn yet" if name == LATEST else f"there is no turn {name}", hint=hint)
    if len(found) > 1 and name not in found:
        raise UsageError(f"several turns begin with {name}: {', '.join(found[:3])}…", hint="Give more of the id.")
    return str(found[0])


def _row_or_none(row: Sequence[object], *, now: float) -> ListedTurn | None:
    try:
        with database.making_sense("a turn"):
            return _row(row, now=now)
    except StoreDamaged:
        return None


def _row(row: Sequence[object], *, now: float) -> ListedTurn:
    identifier, began, thread, state, task, moment, has_answer, command, judge = row[:9]
    counts, (kept, threshold, total_s, is_emptied) = row[9:14], row[14:]
    at = moment_of(began)
    if not isinstance(task, str) or not isinstance(thread, str):
        raise TypeError(f"turn {identifier} has a task or session that is no text")
    known = json.loads(str(moment))
    return ListedTurn(
        id=str(identifier),
        at=at,
        thread=thread,
        state=_state(TurnState(str(state)), str(known.get("life", "")), age_s=now - at),
        command=str(command),
        judge=str(judge),
        task=task,
        task_is_erased=not task and not known,
        answer=AnswerIs.KEPT if has_answer else AnswerIs.ERASED if is_emptied else AnswerIs.NONE,
        coverage=None if counts[0] is None else _coverage(counts),
        kept=count(kept),
        threshold=number(threshold, most=1),
        total_s=None if total_s is None else seconds_of(total_s),
    )


def _coverage(counts: Sequence[object]) -> Coverage:
    try:
        return Coverage(*map(count, counts))
    except BrokenReceipt as error:
        raise ValueError(error.message) from error


def _state(state: TurnState, life: str, *, age_s: float) -> str:
    gone = state is TurnState.RUNNING and not is_at_work(life, age_s=age_s)
    return UNFINISHED if gone else str(state)


def _with_spending(connection: sqlite3.Connection, turns: Sequence[ListedTurn]) -> tuple[list[ListedTurn], int]:
    """Add what the calls of each turn come to; count the calls that make no sense."""
    whole, damaged = [], 0
    for start in range(0, len(turns), _BATCH):
        batch = turns[start : start + _BATCH]
        ids = json.dumps([turn.id for turn in batch])
        spent = {turn_id: _usage(row) for turn_id, *row in connection.execute(_SPENT, (ids,))}
        damaged += connection.execute(_DAMAGED, (ids,)).fetchone()[0]
        whole += [replace(turn, spent=spent[turn.id]) if turn.id in spent else turn for turn in batch]
    return whole, damaged


def _usage(row: Sequence[object]) -> StageUsage:
    calls, attempts, cost, estimated, *tokens = row
    return StageUsage(
        calls=count(calls),
        attempts=count(attempts),
        usage=usage_of(tokens),
        cost_usd=dollars_of(cost),
        estimated=bool(estimated),
    )
