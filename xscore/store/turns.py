"""Turns: when one begins, what came of it, its receipt, and the exchange it leaves behind as a memory.

A turn with an answer becomes one session-layer memory, written
through the door and named by its turn key, so that asking again renews it and adds none. What a turn stores of the
user is redacted here; the receipt's body is made of redacted parts by its maker. Trade-off: the current file and the
diff are not kept, so a turn continued later sees those of that day.

Write the figures of a finished turn beside its receipt. Reports read them; nothing here adds them up.

Which model judged last, out of the figures of turns: a replay that names no judge takes it.

Trade-off: a turn from before figures were kept, and whose receipt tells none, judged by nobody.
"""

import json
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from enum import StrEnum
from sqlite3 import Connection

from msgspec import Struct
from msgspec.structs import astuple

from xscore.platform import database, money
from xscore.records import Kind, Layer, Memory, MemoryDetails, MemoryScope, MemorySource, Scope, Turn, TurnFigures
from xscore.store import memory_rows, memory_writer
from xscore.store.events import EventName, emit_event, write_memory
from xscore.store.redaction import is_safe_name, redact
from xscore.store.session_summary import exchange_ordinal, exchange_text, names_memory, save_session_summary
from xscore.store.working_session import update_session_work

_INSERT = """
    INSERT OR REPLACE INTO turn_figures (turn_id, command, judge, is_model, candidates, judged, cached,
        carried, unjudged, unjudged_by_cause, kept, near, threshold, scores,
        index_s, pool_s, cache_s, judge_s, select_s, primary_s, total_s,
        expected_calls, expected_input_tokens, expected_output_tokens, expected_cost)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def save_turn_figures(connection: Connection, turn_id: str, figures: TurnFigures) -> None:
    """Keep the figures of a turn, within the caller's transaction."""
    expected = figures.expected
    cost = expected.cost_usd if expected else None
    connection.execute(
        _INSERT,
        (
            *(turn_id, figures.command, figures.judge, int(figures.is_model)),
            *astuple(figures.coverage),
            *(json.dumps(figures.unjudged_by_cause), figures.kept, figures.near, figures.threshold),
            json.dumps(figures.scores),
            *astuple(figures.latency),
            *((expected.calls, expected.input_tokens, expected.output_tokens) if expected else (None, None, None)),
            None if cost is None else money.picodollars(cost),
        ),
    )


RECEIPT_SCHEMA = 1
_TITLE_CHARS = 80
_LATEST = """
    SELECT coalesce(
        (SELECT id FROM meta JOIN turn ON id = value WHERE key = 'latest_turn'),
        (SELECT id FROM turn WHERE NOT EXISTS (SELECT 1 FROM turn_figures WHERE turn_id = id AND command = 'eval')
         ORDER BY started_at DESC, id LIMIT 1),  -- of a store from before, or a salvaged one
        '')
"""


class TurnState(StrEnum):
    """Where a turn stands."""

    RUNNING = "running"
    DONE = "done"
    PARTIAL = "partial"
    """Some candidates are unjudged."""
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class PastTurn(Struct, frozen=True, kw_only=True):
    """A turn as the store remembers it."""

    turn: Turn
    """Without the current file's text and the diff."""
    turn_key: str
    judge: str
    """Judge key; with `turn_key` it finds the judgments."""
    started_at: float
    state: TurnState
    answer: str
    receipt: str
    """JSON body; empty while it runs."""


class SelectionOutcome(Struct, frozen=True):
    """What the selection decided, for the record of decisions."""

    accepted: tuple[str, ...]
    """Ids of the kept memories."""
    rejected: Mapping[str, int]
    """Why the others were not kept -> how many."""

    @property
    def words(self) -> str:
        """`2 accepted, 9 rejected (8 below_threshold, 1 beyond_k)`."""
        reasons = ", ".join(f"{count} {why}" for why, count in self.rejected.items() if count)
        return f"{len(self.accepted)} accepted, {sum(self.rejected.values())} rejected" + (
            f" ({reasons})" if reasons else ""
        )


def begin_turn(
    connection: sqlite3.Connection,
    turn: Turn,
    *,
    turn_key: str,
    judge: str,
    now: float,
    process: str = "",
    isolated: bool = False,
) -> str:
    """Enter a turn as running and deal its id (`t_…`). `judge` is the judge key, `process` that of `processes.process`.

    isolated: it is not the user's work (an evaluation), so it is not the latest turn, which one would go on with.
    """
    identifier = turn.id or "t_" + secrets.token_hex(8)
    file = turn.file if is_safe_name(turn.file) else ""
    recent = [name for name in turn.recent if is_safe_name(name)]
    task, context = redact(turn.task).text, _moment(turn, file=file, recent=recent, process=process)
    with database.transaction(connection):
        connection.execute(
            "INSERT INTO turn (id, thread, turn_key, judge, task, context, started_at, state)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, 'running')",
            (identifier, turn.thread, turn_key, judge, task, context, now),
        )
        if not isolated:
            connection.execute(
                "INSERT INTO meta (key, value) VALUES ('latest_turn', ?)"
                " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (identifier,),
            )
        update_session_work(
            connection, turn.thread, task=task, recent=recent, file=file, line=turn.line, now=now, process=process
        )
    return identifier


def _moment(turn: Turn, *, file: str, recent: Sequence[str], process: str) -> str:
    paths = [redact(path).text for path in turn.scope.paths]
    context = {
        "errors": redact(turn.errors).text,
        "file": file,
        "line": turn.line,
        "recent": recent,
        "checkpoint": turn.checkpoint,
        "process": process,
        "scope": {"paths": paths, "kinds": turn.scope.kinds, "layers": turn.scope.layers},
    }
    return json.dumps(context, ensure_ascii=False)


def finish_turn(
    connection: sqlite3.Connection,
    turn_id: str,
    *,
    state: TurnState,
    receipt: str,
    answer: str | None,
    verdict: SelectionOutcome,
    figures: TurnFigures | None = None,
    now: float,
    isolated: bool = False,
) -> None:
    """Keep the receipt and the answer, count the use of what was kept, and leave the exchange as a memory.

    isolated: keep the receipt alone; nothing was used, and there is nothing to remember.
    """
    clean = redact(answer or "").text
    with database.transaction(connection):
        connection.execute("UPDATE turn SET state = ?, answer = ? WHERE id = ?", (state, clean, turn_id))
        connection.execute(
            "INSERT INTO receipt (turn_id, schema, body) VALUES (?, ?, ?)"
            " ON CONFLICT (turn_id) DO UPDATE SET schema = excluded.schema, body = excluded.body",
            (turn_id, RECEIPT_SCHEMA, receipt),
        )
        if figures is not None:
            save_turn_figures(connection, turn_id, figures)
        if isolated:
            return
        count_use(connection, verdict.accepted, now=now)
        _emit_selection_events(connection, turn_id, verdict, now)
        named = _named(connection, turn_id, clean, verdict.accepted)
        if clean:
            _remember(connection, turn_id, clean, named, now)
        thread = connection.execute("SELECT thread FROM turn WHERE id = ?", (turn_id,)).fetchone()[0]
        save_session_summary(connection, thread)


def is_answered_first(connection: sqlite3.Connection, turn_id: str) -> bool:
    """Whether no other turn that asked the same was answered before this one."""
    row = connection.execute(
        "SELECT 1 FROM turn JOIN turn AS other USING (turn_key) WHERE turn.id = ? AND other.id <> turn.id"
        " AND other.answer <> '' LIMIT 1",
        (turn_id,),
    ).fetchone()
    return row is None


def count_use(connection: sqlite3.Connection, ids: Sequence[str], *, now: float) -> None:
    """Count that these memories were kept for a turn."""
    connection.executemany(
        "UPDATE memory SET accessed_at = ?, access_count = access_count + 1 WHERE id = ?",
        [(now, identifier) for identifier in ids],
    )


def abandon_turn(connection: sqlite3.Connection, turn_id: str) -> None:
    """Mark a turn that ended without a receipt."""
    connection.execute("UPDATE turn SET state = 'failed' WHERE id = ? AND state = 'running'", (turn_id,))


def past_turn(connection: sqlite3.Connection, turn_id: str = "") -> PastTurn | None:
    """Return a turn by its id, or the latest one; None: there is none."""
    row = connection.execute(
        "SELECT turn.id, thread, turn_key, judge, task, context, started_at, state, answer, coalesce(body, '')"
        " FROM turn LEFT JOIN receipt ON turn_id = turn.id WHERE turn.id = ?",
        (turn_id or latest_turn_id(connection),),
    ).fetchone()
    with database.damage_if_invalid("a turn"):
        return _past(row) if row else None


def latest_turn_id(connection: sqlite3.Connection) -> str:
    """Name the turn that was begun last, also after a clock was set back; empty: there is none."""
    return str(connection.execute(_LATEST).fetchone()[0])


def _past(row: tuple[str, str, str, str, str, str, float, str, str, str]) -> PastTurn:
    identifier, thread, turn_key, judge, task, context, started_at, state, answer, body = row
    known = json.loads(context)
    scope = {name: tuple(values) for name, values in known.get("scope", {}).items()}
    turn = Turn(
        id=identifier,
        thread=thread,
        task=task,
        errors=known.get("errors", ""),
        file=known.get("file", ""),
        line=known.get("line", 0),
        recent=tuple(known.get("recent", ())),
        checkpoint=str(known.get("checkpoint", "")),
        scope=Scope(**scope),
    )
    return PastTurn(
        turn=turn,
        turn_key=turn_key,
        judge=judge,
        started_at=started_at,
        state=TurnState(state),
        answer=answer,
        receipt=body,
    )


def _emit_selection_events(connection: sqlite3.Connection, turn_id: str, verdict: SelectionOutcome, now: float) -> None:
    kept = list(verdict.accepted)
    emit_event(connection, EventName.RETRIEVED, at=now, subject=turn_id, payload={"memories": kept})
    decision = {"words": verdict.words, "accepted": len(kept), "rejected": dict(verdict.rejected)}
    emit_event(connection, EventName.DECISION, at=now, subject=turn_id, payload=decision)


def _remember(connection: sqlite3.Connection, turn_id: str, answer: str, named: MemoryDetails, now: float) -> None:
    thread, turn_key, task = connection.execute(
        "SELECT thread, turn_key, task FROM turn WHERE id = ?", (turn_id,)
    ).fetchone()
    title = task.strip().splitlines()[0][:_TITLE_CHARS] if task.strip() else "(no task)"
    memory, _ = memory_writer.make_memory(
        layer=Layer.SESSION,
        kind=Kind.EXCHANGE,
        title=title,
        text=exchange_text(task, answer),
        ordinal=exchange_ordinal(turn_key),
        particulars=named,
        key=turn_key,
        scope=MemoryScope.SESSION,
        source=MemorySource.EXPLICIT,
        created_at=now,
        updated_at=now,
        allow_pii=True,  # the user's own words, which the turn keeps as well
    )
    before = next(iter(memory_rows.select_memories(connection, "id = ?", (memory.id,))), None)
    write_memory(connection, memory, before=before, now=now, thread=thread)


def _named(connection: sqlite3.Connection, turn_id: str, answer: str, kept: Sequence[str]) -> MemoryDetails:
    """Note with a turn which of the kept memories, and which files, its task and answer name."""
    task, known = connection.execute("SELECT task, context FROM turn WHERE id = ?", (turn_id,)).fetchone()
    context, said = json.loads(known), f"{task}\n{answer}"
    found = connection.execute(
        "SELECT id, path, entity FROM memory WHERE id IN (SELECT value FROM json_each(?)) ORDER BY path, start_line",
        (json.dumps(list(kept)),),
    ).fetchall()
    links = [identifier for identifier, _, entity in found if names_memory(identifier, entity, said)]
    paths = [path for identifier, path, _ in found if path and (identifier in links or path in said)]
    seen = (context.get("file"), *context.get("recent", ()))  # none, where its exchange was erased while it ran
    opened = [name for name in seen if name]
    named = MemoryDetails(links=tuple(links), paths=tuple(dict.fromkeys([*opened, *paths])))
    context |= {"links": named.links, "paths": named.paths}
    context.pop("process", None)  # it has ended
    connection.execute("UPDATE turn SET context = ? WHERE id = ?", (json.dumps(context, ensure_ascii=False), turn_id))
    return named


def exchanges(connection: sqlite3.Connection, thread: str, *, limit: int = 3) -> Sequence[Memory]:
    """Return a thread's latest exchanges, newest first, for the session block of the answer prompt."""
    of_it = "layer = 'session' AND status = 'active' AND kind = 'exchange' AND thread = ?"
    among = f"id IN (SELECT id FROM memory WHERE {of_it}"
    found = memory_rows.select_memories(connection, f"{among} ORDER BY updated_at DESC, id LIMIT ?)", (thread, limit))
    return sorted(found, key=lambda memory: -memory.updated_at)


def latest_judge(connection: Connection) -> str:
    """Name the model (`provider:model`) whose judgments the latest finished turn rests on; empty: there is none."""
    row = connection.execute(
        "SELECT turn_figures.judge FROM turn_figures JOIN turn ON turn.id = turn_id"
        " WHERE is_model = 1 AND judged + cached + carried > 0 ORDER BY started_at DESC, turn_id LIMIT 1"
    ).fetchone()
    provider, _, model = str(row[0]).partition(":") if row else ("", "", "")
    if provider == "scripted":  # its model is the file and the digest of what was in it
        model = model.rpartition("@")[0]
    return f"{provider}:{model}" if model else ""
