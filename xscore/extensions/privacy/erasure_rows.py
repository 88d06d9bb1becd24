"""Carry a plan of erasure out in one store, row by row, inside a transaction that is open.

What speaks of an erased memory beside its own rows is stripped, not dropped: a receipt keeps its numbers, an event its
time, a checkpoint what else it holds. Trade-off: every receipt, answer and payload is read, some 50 ms for a thousand
turns; erasing is rare.

What offline jobs tell of erased memories: questions that say a line of one are blanked, pieces lose their hashes.

A piece keeps its place in its prompt, since the ids of a reply are dealt by places; without a hash it is never sent
again, and a score that comes back for it is entered nowhere. Judgments of others' hearsay go as well. What a vendor was
sent is beyond it. Trade-off: a blanked question is not asked any more, whatever else it said.
"""

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from xscore.extensions.privacy.erasure_plan import AMONG, ErasurePlan
from xscore.platform.hashing import row_checksum
from xscore.records import MemorySource, UnjudgedCause
from xscore.store.events import EventName, emit_event
from xscore.store.session_summary import save_session_summary

ERASED = f"{UnjudgedCause.INTERRUPTED}: the question was erased"
NO_PIECE = [""]
_SHOWN = f"SELECT hash FROM content WHERE memories > 0 AND hash {AMONG}"
_UNASKED = """
    UPDATE job_request SET state = 'lost', cause = ? WHERE job = ? AND question = ? AND state = 'planned'
"""


def strip_jobs(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    """Strip jobs of what goes, once its own rows are gone; return how many questions were blanked."""
    hashes = sorted(plan.hashes)
    shown = {row[0] for row in connection.execute(_SHOWN, (json.dumps(hashes),)).fetchall()}
    gone = frozenset(hashes) - shown
    connection.execute(f"DELETE FROM untrusted_score WHERE hash {AMONG}", (json.dumps(sorted(gone)),))
    _pieces(connection, gone)
    told = connection.execute("SELECT job, number, name, context, turn_key FROM job_question").fetchall()
    said = [(job, number, key) for job, number, name, context, key in told if _says(plan, name, context)]
    connection.executemany(
        "UPDATE job_question SET name = '', context = '{}', checksum = ? WHERE job = ? AND number = ?",
        [(row_checksum(job, str(number), "{}", key), job, number) for job, number, key in said],
    )
    connection.executemany(_UNASKED, [(ERASED, job, number) for job, number, _ in said])
    return len(said)


def _says(plan: ErasurePlan, name: str, context: str) -> bool:
    texts = (name, *json.loads(context).values())
    return any(plan.lines.found_in(text) for text in texts if isinstance(text, str))


def _pieces(connection: sqlite3.Connection, gone: frozenset[str]) -> None:
    """Take the hashes of what is gone, whole or in parts, out of every ask."""
    if not gone:
        return
    changed: list[tuple[str, int, str, int]] = []
    for job, number, pack, written in connection.execute("SELECT job, number, pack, pieces FROM job_ask"):
        pieces = json.loads(written)
        left = [piece if gone.isdisjoint(piece[:2]) else NO_PIECE for piece in pieces]
        if left != pieces:
            stripped = json.dumps(left)
            changed.append((stripped, row_checksum(job, str(number), pack, stripped), job, number))
    connection.executemany("UPDATE job_ask SET pieces = ?, checksum = ? WHERE job = ? AND number = ?", changed)


_ID = re.compile(r"\b[mt]_[0-9a-f]{16,20}\b")
_TELLING_NOTHING = frozenset({"id", "layer", "kind", "scope", "status", "language", "outcome", "cause"})
"""Fields of an entry that stay when it is stripped."""
_MADE_WITH = frozenset({"answer", "bundle"})
"""Parts of a receipt that go whole when the turn kept an erased memory."""
_OF_GONE = f"content_id IN (SELECT id FROM content WHERE memories = 0 AND hash {AMONG})"
_HEARSAY = f"""
    DELETE FROM untrusted_score WHERE hash {AMONG} AND hash NOT IN (SELECT hash FROM content WHERE memories > 0)
"""
"""What strangers said of contents that no memory shows any more."""
_EVERY_QUERY = "query_id IN (SELECT id FROM query)"
"""Lets a judgment be found by its key: query first."""
_UNREACHABLE = "DELETE FROM reason WHERE content_id IN (SELECT id FROM content WHERE memories = 0)"
_COUNTED_BEFORE = {
    "vectors": f"SELECT count(*) FROM vec WHERE memory_id {AMONG}",
    "evidence": f"SELECT count(*) FROM evidence WHERE memory_id {AMONG}",
}
_ROWS = (
    f"DELETE FROM pack_slot WHERE memory_id {AMONG}",
    f"DELETE FROM mention WHERE source {AMONG}",
    f"DELETE FROM memory WHERE id {AMONG}",
)


_MET_ELSEWHERE_TOO = f"""
    SELECT memory_id, count(*) FROM occurrence WHERE source_exchange {AMONG} GROUP BY memory_id
"""
_COUNT_LESS = """
    UPDATE memory SET attrs = json_set(attrs, '$.occurrences', max(1, json_extract(attrs, '$.occurrences') - :n)),
        evidence_count = CASE WHEN id = :id THEN max(1, evidence_count - :n) ELSE evidence_count END
    WHERE id = :id OR (kind = 'pattern' AND EXISTS (SELECT 1 FROM json_each(attrs, '$.links') WHERE value = :id))
"""
"""A failure and its pattern."""


def erase_rows(connection: sqlite3.Connection, plan: ErasurePlan, *, now: float, forget: bool) -> Counter[str]:
    """Remove and strip; return how many of what, by the names of the fields of `Erasure`."""
    done = _own_rows(connection, plan)
    done["answers"] = _answers(connection, plan)
    done["receipts"] = _receipts(connection, plan)
    done["sessions"] = _sessions(connection, plan)
    done["checkpoints"] = _checkpoints(connection, plan)
    done["payloads"] = _payloads(connection, plan)
    done["questions"] = strip_jobs(connection, plan)
    _tombstones(connection, plan, now=now, forget=forget)
    return done


def remove_rows(connection: sqlite3.Connection, plan: ErasurePlan, *, now: float) -> int:
    """Remove the memories with what hangs on them alone; what was made with them stays. Return how many went."""
    _own_rows(connection, plan)
    _tombstones(connection, plan, now=now, forget=False)
    return len(plan.memories)


def _own_rows(connection: sqlite3.Connection, plan: ErasurePlan) -> Counter[str]:
    """Remove the memories with vectors, evidence, edges, slots and the judgments of their contents."""
    done = Counter[str](memories=len(plan.memories), exchanges=len(plan.along))
    ids = json.dumps(sorted(plan.memories))
    done.update({name: connection.execute(sql, (ids,)).fetchone()[0] for name, sql in _COUNTED_BEFORE.items()})
    done["edges"] = connection.execute(
        f"DELETE FROM edge WHERE source {AMONG} OR target {AMONG}",
        (ids, ids),
    ).rowcount
    for sql in _ROWS:
        connection.execute(sql, (ids,))
    met = connection.execute(_MET_ELSEWHERE_TOO, (ids,)).fetchall()  # those met there alone went just now
    connection.executemany(_COUNT_LESS, [{"id": identifier, "n": count} for identifier, count in met])
    connection.execute(f"DELETE FROM occurrence WHERE source_exchange {AMONG}", (ids,))
    done.update(_judgments(connection, plan))
    return done


def remove_observations(connection: sqlite3.Connection, plan: ErasurePlan, *, project: str | None) -> int:
    """Remove what the user's store noted of these memories: by key, and by what it says, of a project or of all."""
    keys = {memory.key for memory in plan.memories.values() if memory.key}
    said = {memory.text for memory in plan.memories.values()}
    noted = connection.execute("SELECT project, key, value FROM observation").fetchall()
    gone = [
        (where, key)
        for where, key, value in noted
        if project in (None, where) and (key in keys or value in said or plan.lines.found_in(value))
    ]
    connection.executemany("DELETE FROM observation WHERE project = ? AND key = ?", gone)
    return len(gone)


def _judgments(connection: sqlite3.Connection, plan: ErasurePlan) -> Counter[str]:
    """Remove those of contents that no memory shows any more, and reasons that only an earlier wording can have."""
    hashes = json.dumps(sorted(plan.hashes))
    shared = connection.execute(
        f"SELECT count(*) FROM content WHERE memories > 0 AND hash {AMONG}",
        (hashes,),
    ).fetchone()[0]
    reasons = connection.execute(_UNREACHABLE).rowcount
    judgments = connection.execute(
        f"DELETE FROM judgment WHERE {_EVERY_QUERY} AND {_OF_GONE}",
        (hashes,),
    ).rowcount
    connection.execute(f"DELETE FROM claim WHERE content {AMONG}", (hashes,))
    connection.execute(_HEARSAY, (hashes,))
    connection.execute(f"DELETE FROM content WHERE memories = 0 AND hash {AMONG}", (hashes,))
    if plan.lines:
        spoken = connection.execute("SELECT query_id, content_id, text FROM reason").fetchall()
        gone = [row[:2] for row in spoken if plan.lines.found_in(row[2])]
        connection.executemany("DELETE FROM reason WHERE query_id = ? AND content_id = ?", gone)
        reasons += len(gone)
    return Counter(shared=shared, judgments=judgments, reasons=reasons)


def _answers(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    connection.executemany("UPDATE turn SET task = '', context = '{}' WHERE id = ?", [(turn,) for turn in plan.unsaid])
    stored = connection.execute("SELECT id, answer FROM turn WHERE answer <> ''").fetchall()
    gone = [(turn,) for turn, answer in stored if turn in plan.turns or plan.lines.found_in(answer)]
    connection.executemany("UPDATE turn SET answer = '' WHERE id = ?", gone)
    _paths_of_answers(connection, [turn for (turn,) in gone])
    return len(gone)


def _paths_of_answers(connection: sqlite3.Connection, turns: Iterable[str]) -> None:
    """Of the paths noted with a turn whose answer is gone, keep what was asked about; ids stay, as tombstones do."""
    asked = f"SELECT id, task, context FROM turn WHERE id {AMONG}"
    for turn, task, known in connection.execute(asked, (json.dumps(list(turns)),)).fetchall():
        context = json.loads(known)
        own = {context.get("file"), *context.get("recent", ())}
        paths = [path for path in context.get("paths", ()) if path in own or path in task]
        if paths != context.get("paths", []):
            told = json.dumps(context | {"paths": paths}, ensure_ascii=False)
            connection.execute("UPDATE turn SET context = ? WHERE id = ?", (told, turn))


def _receipts(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    def strip(turn: str, body: Any) -> Any:
        made_with = _MADE_WITH if turn in plan.turns else frozenset[str]()
        emptied = made_with | {"task"} if turn in plan.unsaid else made_with
        return _stripped({name: "" if name in emptied and value else value for name, value in body.items()}, plan)

    gone = connection.execute(
        f"DELETE FROM receipt WHERE turn_id {AMONG}", (json.dumps(sorted(plan.deleted)),)
    ).rowcount
    return gone + _rewrite(connection, plan, ("receipt", "turn_id", "body"), strip)


def _sessions(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    kept = connection.execute("SELECT thread, conversation_summary, active_task FROM session").fetchall()
    gone = [
        (thread,) for thread, summary, _ in kept if summary and (thread in plan.threads or plan.lines.found_in(summary))
    ]
    connection.executemany("UPDATE session SET conversation_summary = '' WHERE thread = ?", gone)
    unsaid = [(thread,) for thread, _, task in kept if task and plan.unsaid and thread in plan.threads]
    told = [(thread,) for thread, _, task in kept if plan.lines.found_in(task)]
    connection.executemany("UPDATE session SET active_task = '' WHERE thread = ?", unsaid + told)
    again = [thread for thread in gone if plan.lines.found_in(save_session_summary(connection, *thread).text)]
    connection.executemany("UPDATE session SET conversation_summary = '' WHERE thread = ?", again)
    return len(gone)


def _checkpoints(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    return _rewrite(connection, plan, ("checkpoint", "name", "payload"), lambda _, body: _without(body, plan))


def _payloads(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    """Blank what events tell of them. The trigger lets it pass while the store says that it is erasing (K9)."""
    told = connection.execute("SELECT id, subject, payload FROM event WHERE payload <> '{}'").fetchall()
    gone = [(event,) for event, subject, payload in told if subject in plan.ids or _speaks(payload, plan)]
    connection.execute("INSERT INTO meta (key, value) VALUES ('erasing', '1')")
    connection.executemany("UPDATE event SET payload = '{}' WHERE id = ?", gone)
    connection.execute("DELETE FROM meta WHERE key = 'erasing'")
    return len(gone)


def _tombstones(connection: sqlite3.Connection, plan: ErasurePlan, *, now: float, forget: bool) -> None:
    for identifier in sorted(plan.memories):
        emit_event(connection, EventName.REMOVED, at=now, subject=identifier)
    connection.executemany(
        "INSERT INTO erased_memory (memory_id, at) VALUES (?, ?) ON CONFLICT DO NOTHING",
        [(name, now) for name, memory in plan.memories.items() if forget or memory.source is MemorySource.IMPORT],
    )


def _rewrite(
    connection: sqlite3.Connection, plan: ErasurePlan, place: tuple[str, str, str], strip: Callable[[str, Any], Any]
) -> int:
    """Strip the JSON of each row that speaks of what goes; return how many rows changed. place: table, key, column."""
    table, key, column = place
    changed: list[tuple[str, str]] = []
    for name, body in connection.execute(f"SELECT {key}, {column} FROM {table}"):
        if name in plan.turns or name in plan.unsaid or _speaks(body, plan):
            stripped = json.dumps(strip(name, json.loads(body)), ensure_ascii=False)
            if stripped != json.dumps(json.loads(body), ensure_ascii=False):
                changed.append((stripped, name))
    connection.executemany(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", changed)
    return len(changed)


def _speaks(body: str, plan: ErasurePlan) -> bool:
    """Whether a JSON text names a memory or an answer that goes, or says a line of what goes."""
    if not (plan.ids | plan.turns).isdisjoint(_ID.findall(body)):
        return True
    return bool(plan.lines) and any(plan.lines.found_in(said) for said in _strings(json.loads(body)))


def _stripped(value: Any, plan: ErasurePlan, *, is_theirs: bool = False) -> Any:
    """Empty what an entry of an erased memory tells, and every string that says a line of one."""
    if isinstance(value, dict):
        theirs = is_theirs or value.get("id") in plan.ids
        return {
            name: inner if name in _TELLING_NOTHING else _stripped(inner, plan, is_theirs=theirs)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_stripped(inner, plan, is_theirs=is_theirs) for inner in value]
    if isinstance(value, str) and (is_theirs or plan.lines.found_in(value)):
        return ""
    return value


def _without(value: Any, plan: ErasurePlan) -> Any:
    """Leave out erased ids, entries of erased memories and answers, and each string that says a line of one."""
    if isinstance(value, dict):
        return {name: _without(inner, plan) for name, inner in value.items() if name not in plan.ids}
    if isinstance(value, list):
        return [_without(inner, plan) for inner in value if not _is_theirs(inner, plan)]
    return "" if isinstance(value, str) and (value in plan.ids or plan.lines.found_in(value)) else value


def _is_theirs(value: Any, plan: ErasurePlan) -> bool:
    if isinstance(value, dict):
        return value.get("id") in plan.ids or value.get("turn_id") in plan.turns or value.get("id") in plan.turns
    return isinstance(value, str) and value in plan.ids


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)
