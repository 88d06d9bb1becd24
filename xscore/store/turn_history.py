"""Tokens, dollars and times of the ledger as records, whoever reads them: of one row, or added up by SQL.

It is read strictly: a count that is none raises, which `database.making_sense` tells as damage, and who adds up asks
for rows that make sense (`MAKES_SENSE`). It asks the store nothing itself. Trade-off: a reader must name the columns in
the order of `TOKENS`.

Past turns in a line each, newest first, from the store alone.

A turn is entered as running when it begins; one whose process is gone without having ended it is listed as
`unfinished`. Of a receipt it reads only whether the answer was erased, of a torn one not even that. A row that makes no
sense is left out and counted. Trade-off: dollars are added up from the calls of what is listed, so that they are those
of the ledger, also of a turn that was killed.
"""

import json
import sqlite3
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform import database, money
from xscore.platform.clock import LATEST_TIMESTAMP
from xscore.platform.errors import BrokenReceipt, NothingMatched, StoreDamaged, UsageError
from xscore.platform.processes import is_process_at_work
from xscore.records import Coverage, StageUsage, Usage
from xscore.records.receipt import AnswerState, ListedTurn
from xscore.store.turns import TurnState, latest_turn_id

TOKEN_COLUMNS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "output_tokens",
    "reasoning_tokens",
)
"""Columns of `call`, in the order that `usage_of` takes them."""
MOST_TOKENS = 2**30
"""Bounds of one call: a row beyond them is damaged, and no sum has it."""
MOST_PICODOLLARS = 2**50
MOST_SECONDS = 10**6
_WHOLE = "typeof({name}) = 'integer' AND {name} >= 0 AND {name} < {most}"
_TIMES = {"duration_s": MOST_SECONDS, "started_at": LATEST_TIMESTAMP}
VALID_CALL_SQL = " AND ".join(
    f"({each})"
    for each in (
        *(_WHOLE.format(name=name, most=MOST_TOKENS) for name in (*TOKEN_COLUMNS, "estimated")),
        f"cost IS NULL OR {_WHOLE.format(name='cost', most=MOST_PICODOLLARS)}",
        *(f"typeof({name}) = 'real' AND {name} >= 0 AND {name} <= {most}" for name, most in _TIMES.items()),
    )
)
"""SQL: whether tokens, dollars and times of a row of `call` are what a call can have. It needs all those columns."""


def usage_from_row(counts: Sequence[object]) -> Usage:
    """Make the tokens of a row, in the order of `TOKENS`."""
    return Usage(**dict(zip(TOKEN_COLUMNS, map(parse_count, counts), strict=True)))


def dollars_from_row(cost: object) -> Decimal | None:
    """Make dollars of picodollars; None: unpriced."""
    return None if cost is None else money.dollars_of_picodollars(parse_count(cost))


def parse_count(value: object) -> int:
    """Return a whole number; TypeError or ValueError for what is none."""
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no count")
    if value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def parse_timestamp(value: object) -> float:
    """Return Unix seconds; TypeError or ValueError for what is no moment."""
    return parse_number(value, most=LATEST_TIMESTAMP)


def parse_seconds(value: object) -> float:
    """Return a duration; TypeError or ValueError for what is none."""
    return parse_number(value, most=MOST_SECONDS)


def parse_number(value: object, *, most: float) -> float:
    """Return a number from 0 to `most`; TypeError or ValueError for what is none."""
    if not isinstance(value, float | int):
        raise TypeError(f"{value!r} is no number")
    if not 0 <= value <= most:
        raise ValueError(f"{value!r} lies beyond 0..{most}")
    return float(value)


UNFINISHED = "unfinished"
STATES = (*map(str, TurnState), UNFINISHED)
"""What a list may be narrowed to."""
LATEST_TURN = "latest"
_BATCH = 500
"""Turns of which the calls are added up at once."""
_TURNS = """
    SELECT id, started_at, thread, state, task, context, answer <> '',
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
_WITHIN = f"started_at >= :since AND started_at <= {LATEST_TIMESTAMP}"
"""What is no moment at all belongs to no stretch; asked for everything, it is counted as damaged."""
_OF_THESE = "turn_id IN (SELECT value FROM json_each(?))"
_SPENT = f"""
    SELECT turn_id, sum(outcome = 'ok'), count(*), iif(count(cost) = count(*), sum(cost), NULL), max(estimated),
        {", ".join(f"sum({name})" for name in TOKEN_COLUMNS)}
    FROM call WHERE {_OF_THESE} AND {VALID_CALL_SQL} GROUP BY turn_id
"""
_DAMAGED = f"SELECT count(*) FROM call WHERE {_OF_THESE} AND ({VALID_CALL_SQL}) IS NOT TRUE"


class TurnFilter(Struct, frozen=True, kw_only=True):
    """Which turns to list."""

    limit: int | None = 20
    """None: all of them."""
    since: float | None = None
    """Unix seconds, inclusive."""
    state: str = ""
    thread: str = ""
    """A working session, or the beginning of its name."""


class TurnListing(NamedTuple):
    """Turns, and what could not be listed."""

    turns: list[ListedTurn]
    """The newest first."""
    damaged_turns: int = 0
    """Rows of turns or their figures that make no sense, among those that were looked at."""
    damaged_calls: int = 0
    """Rows of calls that make no sense, of the turns that are listed: no sum has them."""


def list_turns(connection: sqlite3.Connection, wanted: TurnFilter, *, now: float) -> TurnListing:
    """Return the turns that are wanted, newest first. Raises StoreDamaged where the database itself cannot be read."""
    within = _EVER if wanted.since is None else _WITHIN
    given = {
        "since": wanted.since,
        "state": str(TurnState.RUNNING) if wanted.state == UNFINISHED else wanted.state,
        "thread": wanted.thread,
    }
    found: list[ListedTurn] = []
    damaged_turns = 0
    with database.lenient_text(connection):
        for row in connection.execute(_TURNS + _WANTED.format(within=within), given):
            turn = _row_or_none(row, now=now)
            damaged_turns += turn is None
            if turn and wanted.state in {"", turn.state}:
                found.append(turn)
            if len(found) == wanted.limit:
                break
        turns, damaged_calls = _with_spending(connection, found)
    return TurnListing(turns, damaged_turns, damaged_calls)


def load_listed_turn(connection: sqlite3.Connection, turn_id: str, *, now: float) -> ListedTurn:
    """Return the turn of this id, which is there. Raises StoreDamaged for a row that makes no sense."""
    with database.lenient_text(connection):
        row = connection.execute(f"{_TURNS} WHERE id = ?", (turn_id,)).fetchone()
        with database.damage_if_invalid("a turn"):
            return _with_spending(connection, [_row(row, now=now)])[0][0]


def find_turn_id(connection: sqlite3.Connection, name: str) -> str:
    """Return the id of a turn by its id, the beginning of that, or `latest`.

    Raises NothingMatched where there is none such, UsageError for several.
    """
    hint = "`xscore history list` lists them."
    if name == LATEST_TURN:
        found = [latest_turn_id(connection)]
    else:
        ids = "SELECT id FROM turn WHERE id >= ? AND substr(id, 1, ?) = ? ORDER BY id LIMIT 4"
        found = [row[0] for row in connection.execute(ids, (name, len(name), name))]
    if not name or not any(found):
        raise NothingMatched("there is no turn yet" if name == LATEST_TURN else f"there is no turn {name}", hint=hint)
    if len(found) > 1 and name not in found:
        raise UsageError(f"several turns begin with {name}: {', '.join(found[:3])}…", hint="Give more of the id.")
    return str(found[0])


def _row_or_none(row: Sequence[object], *, now: float) -> ListedTurn | None:
    try:
        with database.damage_if_invalid("a turn"):
            return _row(row, now=now)
    except StoreDamaged:
        return None


def _row(row: Sequence[object], *, now: float) -> ListedTurn:
    identifier, began, thread, state, task, context, has_answer, command, judge = row[:9]
    counts, (kept, threshold, total_s, is_emptied) = row[9:14], row[14:]
    at = parse_timestamp(began)
    if not isinstance(task, str) or not isinstance(thread, str):
        raise TypeError(f"turn {identifier} has a task or session that is no text")
    known = json.loads(str(context))
    return ListedTurn(
        id=str(identifier),
        at=at,
        thread=thread,
        state=_state(TurnState(str(state)), str(known.get("process", "")), age_s=now - at),
        command=str(command),
        judge=str(judge),
        task=task,
        task_is_erased=not task and not known,
        answer=AnswerState.KEPT if has_answer else AnswerState.ERASED if is_emptied else AnswerState.NONE,
        coverage=None if counts[0] is None else _coverage(counts),
        kept=parse_count(kept),
        threshold=parse_number(threshold, most=1),
        total_s=None if total_s is None else parse_seconds(total_s),
    )


def _coverage(counts: Sequence[object]) -> Coverage:
    try:
        return Coverage(*map(parse_count, counts))
    except BrokenReceipt as error:
        raise ValueError(error.message) from error


def _state(state: TurnState, process: str, *, age_s: float) -> str:
    gone = state is TurnState.RUNNING and not is_process_at_work(process, age_s=age_s)
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
        calls=parse_count(calls),
        attempts=parse_count(attempts),
        usage=usage_from_row(tokens),
        cost_usd=dollars_from_row(cost),
        estimated=bool(estimated),
    )
