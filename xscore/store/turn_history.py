"""Past turns in a line each, newest first.

A turn whose process ended before the turn did is listed as `unfinished`. Rows are read strictly: an
invalid one is left out and counted (`VALID_CALL_SQL` for calls). Trade-off: dollars are summed over
the calls of the listed turns, so that they agree with the ledger, also for a turn that was killed.
"""

import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform import database
from xscore.platform.clock import LATEST_TIMESTAMP
from xscore.platform.errors import NothingMatched, StoreDamaged, UsageError
from xscore.platform.near_names import did_you_mean, nearest_names
from xscore.platform.processes import is_process_at_work
from xscore.records.receipt import Coverage, StageUsage
from xscore.records.reports import AnswerState, ListedTurn
from xscore.records.turn import Turn
from xscore.store.call_rows import (
    TOKEN_COLUMNS,
    VALID_CALL_SQL,
    dollars_from_row,
    parse_count,
    parse_number,
    parse_seconds,
    parse_timestamp,
    usage_from_row,
)
from xscore.store.memory_rows import IN_JSON_LIST
from xscore.store.session_summary import TurnContext
from xscore.store.turns import TurnState, latest_turn_id

UNFINISHED = "unfinished"
STATES = (*map(str, TurnState), UNFINISHED)
"""States that a list can be filtered by."""
LATEST_TURN = "latest"
_TURNS = """
    SELECT id, started_at, thread, state, task, context, answer <> '',
        coalesce(command, ''), coalesce(figures.judge, ''), candidates, judged, cached, carried,
          unjudged,
        coalesce(kept, 0), coalesce(threshold, 0), total_s,
        CASE WHEN json_valid(body) THEN json_extract(body, '$.answer') = '' END
    FROM turn LEFT JOIN turn_figures AS figures ON figures.turn_id = id
      LEFT JOIN receipt ON receipt.turn_id = id
"""
_WANTED = """
    WHERE {within} AND (:state = '' OR state = :state)
        AND (:thread = '' OR substr(thread, 1, length(:thread)) = :thread)
        AND (:text = '' OR instr(lower(task), lower(:text)) > 0
            OR (:in_answers AND instr(lower(answer), lower(:text)) > 0))
    ORDER BY started_at DESC, id
"""
_EVER = "started_at >= -9e999"
_WITHIN = f"started_at >= :since AND started_at <= {LATEST_TIMESTAMP}"
"""SQL condition of a period. A start that is not a valid time is in none; a list of all turns
counts it as damaged."""
_WITH_CONTENT = """
    SELECT id FROM turn LEFT JOIN receipt ON turn_id = id
    WHERE (task <> '' OR answer <> '' OR context <> '{}' OR turn_id IS NOT NULL)
"""
_WITH_CONTENT_BEFORE = f"{_WITH_CONTENT} AND started_at < ? ORDER BY started_at, id"
_OF_THESE = f"turn_id {IN_JSON_LIST}"
_SPENT = f"""
    SELECT turn_id, sum(outcome = 'ok'), count(*), iif(count(cost) = count(*), sum(cost), NULL),
      max(estimated),
        {", ".join(f"sum({name})" for name in TOKEN_COLUMNS)}
    FROM call WHERE {_OF_THESE} AND {VALID_CALL_SQL} GROUP BY turn_id
"""
_DAMAGED = f"SELECT count(*) FROM call WHERE {_OF_THESE} AND ({VALID_CALL_SQL}) IS NOT TRUE"


class TurnFilter(Struct, frozen=True, kw_only=True):
    """Which turns to list."""

    limit: int | None = 20
    """Most turns; None: all of them."""
    since: float | None = None
    """Earliest start in Unix seconds, inclusive."""
    state: str = ""
    thread: str = ""
    """A working session, or the beginning of its name."""
    text: str = ""
    """Part of the task, in any case; empty: any task."""
    in_answers: bool = False
    """Whether the answer is searched for the text as well."""


class TurnListing(NamedTuple):
    """Turns, and the number of rows that were left out."""

    turns: list[ListedTurn]
    """Turns, the newest first."""
    damaged_turns: int = 0
    """Invalid rows of turns or their figures, among those that were read."""
    damaged_calls: int = 0
    """Invalid rows of calls of the listed turns; no sum includes them."""


def list_turns(
    connection: sqlite3.Connection, choice: TurnFilter, *, now: float
) -> TurnListing:
    """Return the wanted turns, newest first.

    Raises StoreDamaged if the database itself cannot be read.
    """
    parameters = {
        "since": choice.since,
        "state": str(TurnState.RUNNING) if choice.state == UNFINISHED else choice.state,
        "thread": choice.thread,
        "text": choice.text,
        "in_answers": choice.in_answers,
    }
    listed: list[ListedTurn] = []
    damaged_turns = 0
    with database.lenient_text(connection):
        for row in connection.execute(
            _TURNS + _WANTED.format(within=_EVER if choice.since is None else _WITHIN),
            parameters,
        ):
            try:
                turn = _row(row, now=now)
            except StoreDamaged:
                damaged_turns += 1
                continue
            if choice.state in {"", turn.state}:
                listed.append(turn)
            if len(listed) == choice.limit:
                break
        turns, damaged_calls = _with_spending(connection, listed)
    return TurnListing(turns, damaged_turns, damaged_calls)


def load_listed_turn(connection: sqlite3.Connection, turn_id: str, *, now: float) -> ListedTurn:
    """Return the turn with this id, which must exist. Raises StoreDamaged for an invalid row."""
    with database.lenient_text(connection):
        row = connection.execute(f"{_TURNS} WHERE id = ?", (turn_id,)).fetchone()
        return _with_spending(connection, [_row(row, now=now)])[0][0]


def find_turn_id(connection: sqlite3.Connection, name: str) -> str:
    """Return the id of the turn with this id, with an id that begins so, or the latest (`latest`).

    Raises NothingMatched if there is none, UsageError for several.
    """
    if name == LATEST_TURN:
        ids = [latest_turn_id(connection)]
    else:
        query = "SELECT id FROM turn WHERE id >= ? AND substr(id, 1, ?) = ? ORDER BY id LIMIT 4"
        ids = [row[0] for row in connection.execute(query, (name, len(name), name))]
    if not name or not any(ids):
        rows = connection.execute("SELECT id FROM turn ORDER BY started_at DESC")
        near = nearest_names(name, [id_ for (id_,) in rows])
        raise NothingMatched(
            "there is no turn yet" if name == LATEST_TURN else f"there is no turn {name}",
            hint=did_you_mean(near, "`xscore history list` lists them."),
        )
    if len(ids) > 1 and name not in ids:
        raise UsageError(
            f"several turns begin with {name}: {', '.join(ids[:3])}…",
            hint="Give more of the id.",
        )
    return str(ids[0])


def find_erasable_turns(
    connection: sqlite3.Connection, names: Sequence[str], *, before: float | None, now: float
) -> list[str]:
    """Return the ids of the turns with these names, and of those begun before a time that still say
    something.

    before: Unix seconds.
    now: Unix seconds.

    Raises NothingMatched; UsageError for several of a name, and for one that is running, since it
    would write its answer later.
    """
    ids = dict.fromkeys(find_turn_id(connection, name) for name in names)
    if before is not None:
        ids |= dict.fromkeys(
            id_ for (id_,) in connection.execute(_WITH_CONTENT_BEFORE, (before,))
        )
    if not ids:
        raise NothingMatched(
            "no turn began before then", hint="`xscore history list` lists them."
        )
    running = connection.execute(
        f"{_TURNS} WHERE state = 'running' AND id {IN_JSON_LIST}", (json.dumps(list(ids)),)
    )
    for row in running.fetchall():
        if _row(row, now=now).state == TurnState.RUNNING:
            raise UsageError(
                f"turn {row[0]} is running",
                hint="Wait for its end, or stop it, then run it again.",
            )
    return list(ids)


def have_content(connection: sqlite3.Connection, turns: Sequence[str]) -> bool:
    """Return whether one of these turns still has a question, an answer or a receipt."""
    query = f"{_WITH_CONTENT} AND id {IN_JSON_LIST} LIMIT 1"
    return connection.execute(query, (json.dumps(list(turns)),)).fetchone() is not None


def shown_state(state: TurnState, process: str, *, age_s: float) -> str:
    """Return the state of a turn as people see it: `unfinished` if it is running and its process is
    gone.

    process: the one that began it, `age_s` seconds ago.
    """
    is_gone = state is TurnState.RUNNING and not is_process_at_work(process, age_s=age_s)
    return UNFINISHED if is_gone else str(state)


def _row(row: Sequence[object], *, now: float) -> ListedTurn:
    identifier, began, thread, state, task, stored_context, has_answer, command, judge = row[:9]
    counts = row[9:14]
    (kept, threshold, total_s, is_emptied) = row[14:]
    with database.damage_if_invalid("a turn"):
        at = parse_timestamp(began)
        if not isinstance(task, str) or not isinstance(thread, str):
            raise TypeError(f"turn {identifier} has a task or session that is not text")
        context = TurnContext.from_json(str(stored_context))
        return ListedTurn(
            id=str(identifier),
            at=at,
            thread=thread,
            state=shown_state(TurnState(str(state)), context.process, age_s=now - at),
            command=str(command),
            judge=str(judge),
            task=task,
            task_is_erased=not task and stored_context == "{}",
            answer=(
                AnswerState.KEPT
                if has_answer
                else AnswerState.ERASED
                if is_emptied
                else AnswerState.NONE
            ),
            coverage=None if counts[0] is None else Coverage(*map(parse_count, counts)),
            kept=parse_count(kept),
            threshold=parse_number(threshold, most=1),
            total_s=None if total_s is None else parse_seconds(total_s),
        )


def _with_spending(
    connection: sqlite3.Connection, turns: Sequence[ListedTurn]
) -> tuple[list[ListedTurn], int]:
    """Add the sums of each turn's calls; count the invalid calls."""
    ids = json.dumps([turn.id for turn in turns])
    spent: dict[str, StageUsage] = {}
    rows = connection.execute(_SPENT, (ids,)).fetchall()
    for turn_id, calls, attempts, cost, estimated, *tokens in rows:
        spent[turn_id] = StageUsage(
            calls=parse_count(calls),
            attempts=parse_count(attempts),
            usage=usage_from_row(tokens),
            cost_usd=dollars_from_row(cost),
            estimated=bool(estimated),
        )
    (damaged,) = connection.execute(_DAMAGED, (ids,)).fetchone()
    with_spending = [replace(turn, spent=spent.get(turn.id, turn.spent)) for turn in turns]
    return with_spending, damaged


class PastTurn(Struct, frozen=True, kw_only=True):
    """A turn as the store remembers it."""

    turn: Turn
    """The turn, without the current file's text and the diff."""
    turn_key: str
    judge: str
    """Key of the judge; with `turn_key` it finds the judgments."""
    judge_name: str
    """`provider:model` or `lexical`; empty for an erased turn."""
    primary: str
    """The answering model, `provider:model`; empty if there was none."""
    started_at: float
    state: TurnState
    answer: str
    receipt: str
    """The receipt as JSON; empty while the turn runs."""


def past_turn(connection: sqlite3.Connection, turn_id: str = "") -> PastTurn | None:
    """Return a turn by its id, or the latest; None if there is none."""
    row = connection.execute(
        "SELECT turn.id, thread, task, context, turn_key, judge, started_at, state, answer,"
        " coalesce(body, '') FROM turn LEFT JOIN receipt ON turn_id = turn.id WHERE turn.id = ?",
        (turn_id or latest_turn_id(connection),),
    ).fetchone()
    if row is None:
        return None
    (
        identifier,
        thread,
        task,
        stored_context,
        turn_key,
        judge,
        started_at,
        state,
        answer,
        receipt,
    ) = row
    with database.damage_if_invalid("a turn"):
        context = TurnContext.from_json(stored_context)
        return PastTurn(
            turn=Turn(
                id=identifier,
                thread=thread,
                task=task,
                errors=context.errors,
                about=context.about,
                file=context.file,
                line=context.line,
                recent=context.recent,
                checkpoint=context.checkpoint,
                scope=context.scope,
                rejudge_all=not context.may_carry,
                changed=context.edited or None,
            ),
            turn_key=turn_key,
            judge=judge,
            judge_name=context.judge,
            primary=context.primary,
            started_at=started_at,
            state=TurnState(state),
            answer=answer,
            receipt=receipt,
        )


class RunningTurn(NamedTuple):
    """Who works on a turn that runs."""

    process: str
    """Identity of the process (`processes.process_identity`)."""
    command: str
    """The command that asked, as in `TurnOptions.command`."""


def running_turn(connection: sqlite3.Connection, turn_id: str) -> RunningTurn | None:
    """Return who works on a turn; None if it does not run."""
    row = connection.execute(
        "SELECT context FROM turn WHERE id = ? AND state = 'running'", (turn_id,)
    ).fetchone()
    if row is None:
        return None
    with database.damage_if_invalid("a turn"):
        context = TurnContext.from_json(row[0])
    return RunningTurn(context.process, context.command)


def latest_judge(connection: sqlite3.Connection) -> str:
    """Name the model (`provider:model`) whose judgments the latest finished turn rests on;
    empty if there is none."""
    row = connection.execute(
        "SELECT turn_figures.judge FROM turn_figures JOIN turn ON turn.id = turn_id WHERE is_model"
        " = 1 AND judged + cached + carried > 0 ORDER BY started_at DESC, turn_id LIMIT 1"
    ).fetchone()
    judge = str(row[0]) if row else ""
    if judge.startswith("scripted:"):  # its model is the file and the digest of what was in it
        judge = judge.rpartition("@")[0] or judge
    return judge
