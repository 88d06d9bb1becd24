"""Turns: their start, their receipt and figures, and the wordings of a thread.

A turn with an answer also becomes a memory (`answered_turn`). User input is redacted here; the
receipt's body arrives redacted. Trade-offs: the current file and the diff are not stored, so a turn
continued later sees the current ones; turns are ordered by their start time, so after the clock is
set back, an earlier wording can count as the newest until the clock has caught up.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import asdict, replace

from xscore.platform import database
from xscore.platform.processes import random_hex
from xscore.records.receipt import TurnFigures
from xscore.records.turn import ChangedFile, Turn
from xscore.store import memory_rows
from xscore.store.events import EventName, emit_event
from xscore.store.index_rows import write_index_meta
from xscore.store.memory_rows import named_places
from xscore.store.redaction import is_safe_name, redact
from xscore.store.session_summary import (
    TurnContext,
    names_memory,
    save_session_summary,
)
from xscore.store.working_session import update_session_work
from xscore.store.worktrees import HERE

RECEIPT_SCHEMA = 1
MOST_EDITED = 200
"""Most files with uncommitted changes that are stored with a turn."""
BACKGROUND = "background"
"""Command of a turn that finishes another one while its user may be asking something else."""
LATEST_TURN = "latest_turn"
"""Key in `worktree_meta` of the turn begun last in this worktree."""
_WORKTREE_NAME = f"coalesce((SELECT name FROM worktree WHERE number = {HERE}), '')"
_LATEST = f"""
    SELECT coalesce(
        (SELECT id FROM worktree_meta JOIN turn ON id = value
         WHERE worktree_meta.worktree = {HERE} AND key = '{LATEST_TURN}'),
        (SELECT id FROM turn WHERE worktree = {_WORKTREE_NAME}
         AND NOT EXISTS (SELECT 1 FROM turn_figures WHERE turn_id = id AND command = 'eval')
         ORDER BY started_at DESC, id LIMIT 1),  -- of a rebuilt store
        '')
"""


class TurnState(StrEnum):
    """State of a turn."""

    RUNNING = "running"
    DONE = "done"
    PARTIAL = "partial"
    """Some candidates of the turn are unjudged."""
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    CONTINUED = "continued"
    """A later turn finishes this one."""


class SelectionOutcome(Struct, frozen=True):
    """What the selection decided, for the event log."""

    accepted: tuple[str, ...]
    """Ids of the kept memories."""
    rejected: Mapping[str, int]
    """Reason for rejection -> count."""

    @property
    def words(self) -> str:
        """`2 accepted, 9 rejected (8 below_threshold, 1 beyond_k)`."""
        reasons = ", ".join(f"{count} {why}" for why, count in self.rejected.items() if count)
        return (
            f"{len(self.accepted)} accepted, {sum(self.rejected.values())} rejected"
            + f" ({reasons})" * bool(reasons)
        )


def judge_of(connection: sqlite3.Connection, turn_id: str) -> str:
    """Return the judge key of a turn, as `set_judge` last wrote it."""
    row = connection.execute("SELECT judge FROM turn WHERE id = ?", (turn_id,)).fetchone()
    return str(row[0])


def set_judge(connection: sqlite3.Connection, turn_id: str, judge: str) -> None:
    """Replace the judge key of a running turn."""
    with database.transaction(connection):
        connection.execute("UPDATE turn SET judge = ? WHERE id = ?", (judge, turn_id))


class TurnStart(Struct, frozen=True, kw_only=True):
    """What is stored of a turn that begins, besides what is asked."""

    turn_key: str
    judge: str
    """Judge key."""
    judge_name: str = ""
    """`provider:model`, or `lexical`."""
    primary: str = ""
    """The answering model."""
    process: str = ""
    """Identity of the process (`processes.process_identity`)."""
    command: str = ""
    """The command that asked. `BACKGROUND` changes neither the latest turn nor the session's
    work, and the turn that it continues stays as it is until `replace_turn`."""
    isolated: bool = False
    """Whether it is not the user's work (an evaluation), so that it does not become the latest
    turn."""
    branch: str = ""
    """The branch it is asked on; empty if there is none."""


def begin_turn(
    connection: sqlite3.Connection, turn: Turn, start: TurnStart, *, now: float
) -> str:
    """Store a turn as running; return its id (`t_…`)."""
    identifier = turn.id or "t_" + random_hex(8)
    task = redact(turn.task, prose=True).text
    of_start = {
        "process": start.process,
        "command": start.command,
        "judge": start.judge_name,
        "primary": start.primary,
    }
    context = replace(_context_of(turn), **of_start)
    row = {
        "id": identifier,
        "thread": turn.thread,
        "turn_key": start.turn_key,
        "judge": start.judge,
        "task": task,
        "context": context.to_json(),
        "started_at": now,
        "state": TurnState.RUNNING,
        "branch": redact(start.branch).text,
    }
    columns = ", ".join(row)
    values = ", ".join(f":{column}" for column in row)
    with database.transaction(connection):
        connection.execute(
            f"INSERT INTO turn ({columns}, worktree) VALUES ({values}, {_WORKTREE_NAME})", row
        )
        # It is not the user's own work: neither the session nor the latest turn moves on.
        if start.command == BACKGROUND:
            return identifier
        if turn.continues:
            connection.execute(
                "UPDATE turn SET state = ? WHERE id = ?", (TurnState.CONTINUED, turn.continues)
            )
        if not start.isolated:
            write_index_meta(connection, LATEST_TURN, identifier)
        update_session_work(connection, turn.thread, task=task, context=context, now=now)
    return identifier


def _context_of(turn: Turn) -> TurnContext:
    """Return what is stored of a turn's surroundings, redacted."""
    return TurnContext(
        errors=redact(turn.errors).text,
        about=turn.about,  # redacted when the turn was completed
        file=turn.file if is_safe_name(turn.file) else "",
        line=turn.line,
        recent=tuple(filter(is_safe_name, turn.recent)),
        checkpoint=turn.checkpoint,
        may_carry=turn.may_carry,
        edited=tuple(_edited_files(turn)[:MOST_EDITED]),
        scope=replace(
            turn.scope,
            paths=tuple(redact(path).text for path in turn.scope.paths),
            within=tuple(redact(path).text for path in turn.scope.within),
        ),
    )


def _edited_files(turn: Turn) -> list[ChangedFile]:
    edited: list[ChangedFile] = []
    for file in turn.changed or ():
        if file.lines and is_safe_name(file.path):
            # Its commit is read from git again when it is needed.
            edited.append(replace(file, commit=None))
    return edited


def replace_turn(connection: sqlite3.Connection, turn_id: str, by: str) -> None:
    """Have a turn that was finished in the background take the place of the one it continues.

    Earlier background tries at it that were killed, or left something, are replaced too.
    """
    with database.transaction(connection):
        connection.execute(
            "UPDATE turn SET state = ? FROM (SELECT thread, turn_key FROM turn WHERE id = ?) AS new"
            " WHERE turn.id = ? OR (turn.thread = new.thread AND turn.turn_key = new.turn_key AND"
            " turn.id <> ? AND json_extract(context, '$.command') = ?)",
            (TurnState.CONTINUED, by, turn_id, by, BACKGROUND),
        )
        replaced = "UPDATE worktree_meta SET value = ? WHERE key = ? AND value = ?"
        connection.execute(replaced, (by, LATEST_TURN, turn_id))


class TurnEnd(Struct, frozen=True, kw_only=True):
    """What is stored of a turn that has ended."""

    state: TurnState
    receipt: str
    """The receipt as JSON."""
    answer: str | None
    selection_outcome: SelectionOutcome
    figures: TurnFigures | None = None
    has_evidence: bool = True
    """Whether the answer rests on kept memories other than past answers; without any it becomes
    no memory."""
    isolated: bool = False
    """Whether only the receipt is stored."""


def finish_turn(
    connection: sqlite3.Connection, turn_id: str, end: TurnEnd, *, now: float
) -> None:
    """Store the receipt, the answer and the exchange, and count the use of the kept memories."""
    clean = redact(end.answer or "").text
    with database.transaction(connection):
        connection.execute(
            "UPDATE turn SET state = ?, answer = ? WHERE id = ?", (end.state, clean, turn_id)
        )
        connection.execute(
            "INSERT OR REPLACE INTO receipt (turn_id, schema, body) VALUES (?, ?, ?)",
            (turn_id, RECEIPT_SCHEMA, end.receipt),
        )
        if end.figures is not None:
            _save_figures(connection, turn_id, end.figures)
        if end.isolated:
            return
        _record_use(connection, turn_id, end.selection_outcome, now=now)
        query = "SELECT thread, task, context FROM turn WHERE id = ?"
        thread, task, stored_context = connection.execute(query, (turn_id,)).fetchone()
        # The context is empty if the turn's exchange was erased while it ran.
        context = _name_memories(
            connection,
            TurnContext.from_json(stored_context),
            f"{task}\n{clean}",
            end.selection_outcome.accepted,
        )
        context = replace(context, has_evidence=end.has_evidence)
        if stored_context != "{}":
            connection.execute(
                "UPDATE turn SET context = ? WHERE id = ?", (context.to_json(), turn_id)
            )
        if clean and end.has_evidence:
            # A turn without an answer writes none.
            from xscore.store.answered_turn import save_exchange

            save_exchange(connection, turn_id, clean, context, now=now)
        save_session_summary(connection, thread)


def _record_use(
    connection: sqlite3.Connection,
    turn_id: str,
    selection_outcome: SelectionOutcome,
    *,
    now: float,
) -> None:
    kept = list(selection_outcome.accepted)
    count_use(connection, kept, now=now)
    emit_event(
        connection, EventName.RETRIEVED, at=now, subject=turn_id, payload={"memories": kept}
    )
    decision = {
        "words": selection_outcome.words,
        "accepted": len(kept),
        "rejected": dict(selection_outcome.rejected),
    }
    emit_event(connection, EventName.DECISION, at=now, subject=turn_id, payload=decision)


def _save_figures(connection: sqlite3.Connection, turn_id: str, figures: TurnFigures) -> None:
    expected = figures.expected
    cost = None
    if expected and expected.cost_usd is not None:
        from xscore.platform.money import picodollars  # a cached turn expects none

        cost = picodollars(expected.cost_usd)
    row = {
        "turn_id": turn_id,
        "command": figures.command,
        "judge": figures.judge,
        "is_model": figures.by_model,
        **asdict(figures.coverage),
        "unjudged_by_cause": json.dumps(figures.unjudged_by_cause),
        "kept": figures.kept,
        "near": figures.near,
        "threshold": figures.threshold,
        "scores": json.dumps(figures.scores),
        **{f"{stage}_s": seconds for stage, seconds in asdict(figures.latency).items()},
        "expected_calls": expected and expected.calls,
        "expected_input_tokens": expected and expected.input_tokens,
        "expected_output_tokens": expected and expected.output_tokens,
        "expected_cost": cost,
    }
    columns = ", ".join(row)
    marks = ", ".join(f":{name}" for name in row)
    connection.execute(f"INSERT OR REPLACE INTO turn_figures ({columns}) VALUES ({marks})", row)


def _name_memories(
    connection: sqlite3.Connection, context: TurnContext, words: str, kept: Sequence[str]
) -> TurnContext:
    """Return the context with the kept memories and files that the task and the answer name."""
    links = list[str]()
    paths = [context.file, *context.recent]
    for id_, place in named_places(connection, kept).items():
        is_named = names_memory(id_, place.entity, words)
        if is_named:
            links.append(id_)
        if is_named or place.path in words:
            paths.append(place.path)
    opened = tuple(dict.fromkeys(filter(None, paths)))
    # It has ended.
    return replace(context, links=tuple(links), paths=opened, process="")


def keys_of_task(connection: sqlite3.Connection, task: str) -> frozenset[str]:
    """Return the turn keys under which this task was asked before, whatever file or change came
    with it."""
    rows = connection.execute("SELECT turn_key FROM turn WHERE task = ?", (task,)).fetchall()
    return frozenset(key for (key,) in rows)


def is_answered_first(connection: sqlite3.Connection, turn_id: str) -> bool:
    """Whether no other turn with the same turn key has an answer."""
    row = connection.execute(
        "SELECT 1 FROM turn JOIN turn AS other USING (turn_key) WHERE turn.id = ? AND other.id <>"
        " turn.id AND other.answer <> '' LIMIT 1",
        (turn_id,),
    ).fetchone()
    return row is None


def count_use(connection: sqlite3.Connection, ids: Sequence[str], *, now: float) -> None:
    """Count one use of each of these memories."""
    connection.executemany(
        "UPDATE memory_row SET accessed_at = ?, access_count = access_count + 1 WHERE id = ?",
        [(now, identifier) for identifier in ids],
    )


def abandon_turn(connection: sqlite3.Connection, turn_id: str) -> None:
    """Mark a turn that ended without a receipt."""
    connection.execute(
        "UPDATE turn SET state = 'failed' WHERE id = ? AND state = 'running'", (turn_id,)
    )


def latest_turn_id(connection: sqlite3.Connection) -> str:
    """Return the id of the turn begun last here, even after a clock was set back; empty if there is
    none."""
    return str(connection.execute(_LATEST).fetchone()[0])


MOST_WORDINGS, MOST_TURNS = 8, 100
"""How many different questions of its thread, and how many turns, a follow-up looks at."""
_ASKED = """
    SELECT id, turn_key, task FROM turn WHERE thread = ? AND judge = ? AND turn_key <> ?
      AND task <> ''
    ORDER BY started_at DESC, id DESC LIMIT ?
"""
_SHOWN = """
    SELECT json_extract(value, '$.id') FROM receipt, json_each(body, ?) WHERE turn_id = ?
      AND json_valid(body)
"""


class Wording(Struct, frozen=True):
    """An earlier question of a thread."""

    turn_id: str
    key: str
    """Turn key; with the judge's key it finds the judgments."""
    task: str
    """The task as it is stored: redacted."""


def wordings_of_thread(
    connection: sqlite3.Connection, thread: str, *, judge: str, other_than: str
) -> Sequence[Wording]:
    """Return the questions that a judge was asked in a thread, newest first, each once.

    judge: the judge's key.
    other_than: the turn key of the current question. Turns that were cut short or killed are
        included: what they judged is in the cache.
    """
    wordings = dict[str, Wording]()
    for turn_id, key, task in connection.execute(
        _ASKED, (thread, judge, other_than, MOST_TURNS)
    ):
        wordings.setdefault(key, Wording(turn_id, key, task))
    return list(wordings.values())[:MOST_WORDINGS]


def shown_in_turn(connection: sqlite3.Connection, turn_id: str) -> list[str]:
    """Return the ids of the memories that a turn kept and of its near misses, best first; none
    without a receipt."""
    ids: list[str] = []
    for part in ("$.selected", "$.near_misses"):
        rows = connection.execute(_SHOWN, (part, turn_id))
        ids += [str(id_) for (id_,) in rows if id_]
    return ids


def past_wordings(
    connection: sqlite3.Connection, turns: Iterable[str]
) -> Mapping[str, Wording]:
    """Return these turns by id, newest first; the task of an erased turn is empty."""
    named = (
        f"SELECT id, turn_key, task FROM turn WHERE id {memory_rows.IN_JSON_LIST} ORDER BY"
        " started_at DESC, id DESC"
    )
    rows = connection.execute(named, (json.dumps(list(turns)),))
    return {turn_id: Wording(turn_id, key, task) for turn_id, key, task in rows.fetchall()}
