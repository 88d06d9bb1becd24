"""Carry out a plan of erasure in one store, inside an open transaction.

What mentions an erased memory is stripped, not dropped: a receipt keeps its numbers, an event its time, a checkpoint
the rest of its content. Trade-off: every receipt, answer and payload is read, about 50 ms for a thousand turns.
"""

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from xscore import extension
from xscore.extensions.privacy.erasure_plan import ErasurePlan
from xscore.extensions.privacy.owed_erasures import owe_erasure
from xscore.records.memory import MemorySource
from xscore.store.removal import AMONG, remove_memory_rows
from xscore.store.session_summary import save_session_summary

_ID = re.compile(r"\b[mt]_[0-9a-f]{16,20}\b")
_QUERIES = f"SELECT id, turn_key, judge, sample FROM query WHERE turn_key {AMONG}"
_REASONS = """
    SELECT query_id, content_id, text, turn_key, judge, sample, hash FROM reason
    JOIN query ON query.id = query_id JOIN content ON content.id = content_id
"""
_KEPT_FIELDS = frozenset({"id", "layer", "kind", "scope", "status", "language", "outcome", "cause"})
"""Fields of a receipt entry that say nothing of its text."""
_MADE_WITH = frozenset({"answer", "bundle"})
"""Parts of a receipt that go whole when the turn used an erased memory."""


def erase_rows(connection: sqlite3.Connection, plan: ErasurePlan, *, now: float, forget: bool) -> Counter[str]:
    """Remove and strip rows; return how many of what, by the field names of `Erasure`.

    forget: imports must not bring the memories back; those that were imported never come back.
    """
    done = remove_memory_rows(connection, plan.memories, now=now)
    done["exchanges"] = len(plan.dependents)
    done["reasons"] += _reasons(connection, plan)
    done["answers"] = _answers(connection, plan)
    done["receipts"] = connection.execute(
        f"DELETE FROM receipt WHERE turn_id {AMONG}", (json.dumps(sorted(plan.deleted_turns)),)
    ).rowcount
    done["receipts"] += _rewrite(connection, plan, ("receipt", "turn_id", "body"), _stripped_receipt)
    done["sessions"] = _sessions(connection, plan)
    done["checkpoints"] = _rewrite(
        connection, plan, ("checkpoint", "name", "payload"), lambda _, body, plan: _without(body, plan)
    )
    done["payloads"] = _payloads(connection, plan)
    for hook in extension.HOOKS["erase"]:
        done.update(extension.load(hook.target)(connection, plan.hashes, plan.lines))
    connection.executemany(
        "INSERT INTO erased_memory (memory_id, at) VALUES (?, ?) ON CONFLICT DO NOTHING",
        [(id_, now) for id_, memory in plan.memories.items() if forget or memory.source is MemorySource.IMPORT],
    )
    return done


def remove_observations(connection: sqlite3.Connection, plan: ErasurePlan, *, project: str | None) -> int:
    """Remove the user store's observations of these memories, by key and by text, of one project or of all."""
    keys = {memory.key for memory in plan.memories.values() if memory.key}
    texts = {memory.text for memory in plan.memories.values()}
    rows = connection.execute("SELECT project, key, value FROM observation").fetchall()
    gone = [
        (where, key)
        for where, key, value in rows
        if project in (None, where) and (key in keys or value in texts or plan.lines.found_in(value))
    ]
    connection.executemany("DELETE FROM observation WHERE project = ? AND key = ?", gone)
    return len(gone)


def _reasons(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    """Remove the reasons given for erased questions, and those of other judgments that quote an erased line."""
    asked = connection.execute(_QUERIES, (json.dumps(sorted(plan.turn_keys)),)).fetchall()
    rows = connection.execute(_REASONS).fetchall() if plan.lines else []
    quoting = [row for row in rows if plan.lines.found_in(row[2])]
    gone = sum(connection.execute("DELETE FROM reason WHERE query_id = ?", row[:1]).rowcount for row in asked)
    gone += connection.executemany(
        "DELETE FROM reason WHERE query_id = ? AND content_id = ?", [row[:2] for row in quoting]
    ).rowcount
    owe_erasure(connection, plan, [*((*row[1:], "") for row in asked), *(row[3:] for row in quoting)])
    return gone


def _answers(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    connection.executemany(
        "UPDATE turn SET task = '', context = '{}' WHERE id = ?", [(turn,) for turn in plan.erased_tasks]
    )
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


def _stripped_receipt(turn: str, body: Any, plan: ErasurePlan) -> Any:
    emptied = _MADE_WITH if turn in plan.turns else frozenset[str]()
    emptied |= {"task"} if turn in plan.erased_tasks else set()
    return _stripped({name: "" if name in emptied and value else value for name, value in body.items()}, plan)


def _sessions(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    kept = connection.execute("SELECT thread, conversation_summary, active_task FROM session").fetchall()
    gone = [
        (thread,) for thread, summary, _ in kept if summary and (thread in plan.threads or plan.lines.found_in(summary))
    ]
    connection.executemany("UPDATE session SET conversation_summary = '' WHERE thread = ?", gone)
    named = [(thread,) for thread, _, task in kept if task and plan.erased_tasks and thread in plan.threads]
    mentioned = [(thread,) for thread, _, task in kept if plan.lines.found_in(task)]
    connection.executemany("UPDATE session SET active_task = '' WHERE thread = ?", named + mentioned)
    again = [thread for thread in gone if plan.lines.found_in(save_session_summary(connection, *thread).text)]
    connection.executemany("UPDATE session SET conversation_summary = '' WHERE thread = ?", again)
    return len(gone)


def _payloads(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    """Blank the payloads of events about them. A trigger allows it only while the store says that it is erasing."""
    rows = connection.execute("SELECT id, subject, payload FROM event WHERE payload <> '{}'").fetchall()
    gone = [(event,) for event, subject, payload in rows if subject in plan.ids or _mentions(payload, plan)]
    connection.execute("INSERT INTO meta (key, value) VALUES ('erasing', '1')")
    connection.executemany("UPDATE event SET payload = '{}' WHERE id = ?", gone)
    connection.execute("DELETE FROM meta WHERE key = 'erasing'")
    return len(gone)


def _rewrite(
    connection: sqlite3.Connection,
    plan: ErasurePlan,
    column_of: tuple[str, str, str],
    strip: Callable[[str, Any, ErasurePlan], Any],
) -> int:
    """Strip the JSON of each row that mentions what goes; return how many changed. column_of: table, key, column."""
    table, key, column = column_of
    changed: list[tuple[str, str]] = []
    for name, body in connection.execute(f"SELECT {key}, {column} FROM {table}"):
        if name in plan.turns or name in plan.erased_tasks or _mentions(body, plan):
            stripped = json.dumps(strip(name, json.loads(body), plan), ensure_ascii=False)
            if stripped != json.dumps(json.loads(body), ensure_ascii=False):
                changed.append((stripped, name))
    connection.executemany(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", changed)
    return len(changed)


def _mentions(body: str, plan: ErasurePlan) -> bool:
    """Whether a JSON text names a memory or turn that goes, or holds an erased line."""
    if not (plan.ids | plan.turns).isdisjoint(_ID.findall(body)):
        return True
    return bool(plan.lines) and any(plan.lines.found_in(said) for said in _strings(json.loads(body)))


def _stripped(value: Any, plan: ErasurePlan, *, is_erased: bool = False) -> Any:
    """Empty the entries of erased memories, and every string that holds an erased line."""
    if isinstance(value, dict):
        erased = is_erased or value.get("id") in plan.ids
        return {
            name: inner if name in _KEPT_FIELDS else _stripped(inner, plan, is_erased=erased)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_stripped(inner, plan, is_erased=is_erased) for inner in value]
    if isinstance(value, str) and (is_erased or plan.lines.found_in(value)):
        return ""
    return value


def _without(value: Any, plan: ErasurePlan) -> Any:
    """Leave out erased ids, entries of erased memories and answers, and strings that hold an erased line."""
    if isinstance(value, dict):
        return {name: _without(inner, plan) for name, inner in value.items() if name not in plan.ids}
    if isinstance(value, list):
        return [_without(inner, plan) for inner in value if not _is_erased(inner, plan)]
    return "" if isinstance(value, str) and (value in plan.ids or plan.lines.found_in(value)) else value


def _is_erased(value: Any, plan: ErasurePlan) -> bool:
    """Whether an element of a list is an erased id, an entry of an erased memory or answer, or holds an erased line."""
    if isinstance(value, dict):
        named = {value.get("id"), value.get("exchange"), value.get("turn_id")}
        return not named.isdisjoint(plan.ids | plan.turns)
    return isinstance(value, str) and (value in plan.ids or bool(plan.lines.found_in(value)))


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)
