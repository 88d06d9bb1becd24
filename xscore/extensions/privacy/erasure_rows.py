"""Carry out a plan of erasure in one store, inside an open transaction.

What mentions an erased memory is stripped, not dropped: a receipt keeps its numbers, an event its
time, a checkpoint the rest of its content. Trade-off: every receipt, answer and payload is read,
about 50 ms for a thousand turns.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from typing import Any

from xscore.extensions.batch.job_rows import erase_from_jobs
from xscore.extensions.privacy.erasure_plan import ErasurePlan
from xscore.extensions.privacy.owed_erasures import owe_erasure
from xscore.records.memory import MemorySource
from xscore.store.compressed_sessions import erase_compressed
from xscore.store.line_search import LineMatcher
from xscore.store.memory_rows import IN_JSON_LIST
from xscore.store.purposes import erase_purposes
from xscore.store.removal import remove_memory_rows
from xscore.store.session_summary import save_session_summary

_QUERIES = f"SELECT id, turn_key, judge, sample FROM query WHERE turn_key {IN_JSON_LIST}"
_REASONS = """
    SELECT query_id, content_id, text, turn_key, judge, sample, hash FROM reason
    JOIN query ON query.id = query_id JOIN content ON content.id = content_id
"""
_KEPT_FIELDS = frozenset(
    {"id", "layer", "kind", "scope", "status", "language", "outcome", "cause"}
)
"""Fields of a receipt entry that say nothing about its text."""
_MADE_WITH = frozenset({"answer", "bundle"})
"""Parts of a receipt that are removed whole when the turn used an erased memory."""
_BLANK_SUMMARY = "UPDATE session SET conversation_summary = '' WHERE thread = ?"
_ALL_CONTENTS = ""
"""All contents, in place of the hash of one."""


def erase_rows(
    connection: sqlite3.Connection, plan: ErasurePlan, *, now: float, forget: bool
) -> Counter[str]:
    """Remove and strip rows; return how many of what, by the field names of `Erasure`.

    forget: imports must not bring the memories back; those that were imported never come back.
    """
    done = remove_memory_rows(connection, plan.memories, now=now)
    done["exchanges"] = len(plan.dependents)
    done["reasons"] += _erase_reasons(connection, plan)
    done["answers"] = _erase_answers(connection, plan)
    done["receipts"] = connection.execute(
        f"DELETE FROM receipt WHERE turn_id {IN_JSON_LIST}",
        (json.dumps(sorted(plan.deleted_turns)),),
    ).rowcount
    done["receipts"] += _strip_receipts(connection, plan)
    done["sessions"] = _erase_summaries(connection, plan)
    done["sessions"] += erase_compressed(connection, plan.ids, plan.lines, threads=plan.threads)
    done["checkpoints"] = _strip_checkpoints(connection, plan)
    done["payloads"] = _erase_payloads(connection, plan)
    done["purposes"] = erase_purposes(connection, plan.lines) if plan.lines else 0
    done.update(erase_from_jobs(connection, plan.hashes, plan.lines))
    for id_, memory in plan.memories.items():
        if forget or memory.source is MemorySource.IMPORT or memory.is_commit:
            connection.execute(
                "INSERT INTO erased_memory (memory_id, at) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (id_, now),
            )
    return done


def remove_observations(
    connection: sqlite3.Connection, plan: ErasurePlan, *, project: str | None
) -> int:
    """Remove the user store's observations of these memories, by key and by text, of one project or
    of all."""
    keys = {memory.key for memory in plan.memories.values()} - {""}
    texts = {memory.text for memory in plan.memories.values()}
    rows = connection.execute("SELECT project, key, value FROM observation").fetchall()
    gone = []
    for observed_in, key, value in rows:
        is_of_memory = key in keys or value in texts or plan.lines.found_in(value)
        if is_of_memory and project in (None, observed_in):
            gone.append((observed_in, key))
    connection.executemany("DELETE FROM observation WHERE project = ? AND key = ?", gone)
    return len(gone)


def _erase_reasons(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    """Remove the reasons given for erased questions, and those of other judgments that quote an
    erased line."""
    count = 0
    owed = []
    # The quotes are looked for first: reasons of erased questions are among them, and are owed too.
    quoting = []
    for row in connection.execute(_REASONS).fetchall() if plan.lines else ():
        query_id, content_id, text, *judgment = row
        if plan.lines.found_in(text):
            quoting.append((query_id, content_id))
            owed.append(tuple(judgment))
    of_questions = (json.dumps(sorted(plan.turn_keys)),)
    for query_id, *turn in connection.execute(_QUERIES, of_questions).fetchall():
        count += connection.execute(
            "DELETE FROM reason WHERE query_id = ?", (query_id,)
        ).rowcount
        owed.append((*turn, _ALL_CONTENTS))
    count += connection.executemany(
        "DELETE FROM reason WHERE query_id = ? AND content_id = ?", quoting
    ).rowcount
    owe_erasure(connection, plan, owed)
    return count


def _erase_answers(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    for turn in plan.erased_tasks:
        connection.execute(
            "UPDATE turn SET task = '', context = '{}', branch = '' WHERE id = ?", (turn,)
        )
    gone = []
    for turn, answer in connection.execute(
        "SELECT id, answer FROM turn WHERE answer <> ''"
    ).fetchall():
        if turn in plan.turns or plan.lines.found_in(answer):
            connection.execute("UPDATE turn SET answer = '' WHERE id = ?", (turn,))
            gone.append(turn)
    _erase_paths(connection, gone)
    return len(gone)


def _erase_paths(connection: sqlite3.Connection, turns: Iterable[str]) -> None:
    """Keep only the paths that a turn asked about, once its answer is gone; ids stay, as
    tombstones do."""
    query = f"SELECT id, task, context FROM turn WHERE id {IN_JSON_LIST}"
    of_turns = (json.dumps(list(turns)),)
    for turn, task, stored_context in connection.execute(query, of_turns).fetchall():
        context = json.loads(stored_context)
        noted = context.get("paths", [])
        asked_about = {context.get("file"), *context.get("recent", ())}
        paths = [path for path in noted if path in asked_about or path in task]
        if paths != noted:
            blanked = json.dumps(context | {"paths": paths}, ensure_ascii=False)
            connection.execute("UPDATE turn SET context = ? WHERE id = ?", (blanked, turn))


def _erase_summaries(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    """Blank the tasks and summaries of working sessions, then summarise what is left of them."""
    gone = []
    for thread, summary, task in connection.execute(
        "SELECT thread, conversation_summary, active_task FROM session"
    ).fetchall():
        is_of_session = thread in plan.threads
        if task and ((is_of_session and plan.erased_tasks) or plan.lines.found_in(task)):
            connection.execute(
                "UPDATE session SET active_task = '' WHERE thread = ?", (thread,)
            )
        if summary and (is_of_session or plan.lines.found_in(summary)):
            connection.execute(_BLANK_SUMMARY, (thread,))
            gone.append(thread)
    for thread in gone:
        # A turn that stays may quote an erased line; then the session goes without a summary.
        if plan.lines.found_in(save_session_summary(connection, thread).text):
            connection.execute(_BLANK_SUMMARY, (thread,))
    return len(gone)


def _erase_payloads(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    """Blank the payloads of events about erased memories and turns.

    A trigger allows it only while the store says that it is erasing.
    """
    ids = plan.ids
    traces = ids | plan.turns
    gone = []
    for event, subject, payload in connection.execute(
        "SELECT id, subject, payload FROM event WHERE payload <> '{}'"
    ).fetchall():
        value = json.loads(payload)
        if subject in ids or without_traces(value, traces, plan.lines) != value:
            gone.append((event,))
    connection.execute("INSERT INTO meta (key, value) VALUES ('erasing', '1')")
    connection.executemany("UPDATE event SET payload = '{}' WHERE id = ?", gone)
    connection.execute("DELETE FROM meta WHERE key = 'erasing'")
    return len(gone)


def _strip_checkpoints(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    """Take every entry about an erased memory or turn out of the checkpoints; return how many
    changed."""
    changed = 0
    traces = plan.ids | plan.turns
    for name, payload in connection.execute("SELECT name, payload FROM checkpoint").fetchall():
        before = json.loads(payload)
        after = without_traces(before, traces, plan.lines)
        if after != before:
            changed += 1
            connection.execute(
                "UPDATE checkpoint SET payload = ? WHERE name = ?",
                (json.dumps(after, ensure_ascii=False), name),
            )
    return changed


def _strip_receipts(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    """Blank every word about an erased memory in the receipts, which keep their numbers; return how
    many changed."""
    changed = 0
    ids = plan.ids
    for turn, body in connection.execute("SELECT turn_id, body FROM receipt").fetchall():
        before = json.loads(body)
        after = without_words(before, ids, plan.lines)
        emptied = set[str]()
        if turn in plan.turns:
            emptied |= _MADE_WITH
        if turn in plan.erased_tasks:
            emptied.add("task")
        for part in emptied:
            if after.get(part):
                after[part] = ""
        if after != before:
            changed += 1
            connection.execute(
                "UPDATE receipt SET body = ? WHERE turn_id = ?",
                (json.dumps(after, ensure_ascii=False), turn),
            )
    return changed


def without_words(
    value: Any, ids: frozenset[str], lines: LineMatcher, *, is_erased: bool = False
) -> Any:
    """Return a JSON value with every string blanked that holds an erased line, or is in the entry
    of an erased memory.

    is_erased: the value is in such an entry.
    """
    if isinstance(value, dict):
        is_erased = is_erased or value.get("id") in ids
        stripped = dict(value)
        for name in value.keys() - _KEPT_FIELDS:
            stripped[name] = without_words(value[name], ids, lines, is_erased=is_erased)
        return stripped
    if isinstance(value, list):
        return [without_words(inner, ids, lines, is_erased=is_erased) for inner in value]
    if isinstance(value, str) and (is_erased or lines.found_in(value)):
        return ""
    return value


def without_traces(value: Any, traces: frozenset[str], lines: LineMatcher) -> Any:
    """Return a JSON value without what names an erased memory or turn, and without the strings that
    hold an erased line.

    traces: ids of the memories and turns.
    """
    if isinstance(value, dict):
        stripped = {}
        for name, inner in value.items():
            if name not in traces:
                stripped[name] = without_traces(inner, traces, lines)
        return stripped
    if isinstance(value, list):
        remaining = []
        for inner in value:
            rest = without_traces(inner, traces, lines)
            is_blanked = rest == "" and inner != ""
            if not (is_blanked or _is_entry_of(inner, traces)):
                remaining.append(rest)
        return remaining
    if isinstance(value, str) and (value in traces or lines.found_in(value)):
        return ""
    return value


def _is_entry_of(value: Any, traces: frozenset[str]) -> bool:
    """Whether this is the entry of an erased memory or turn."""
    if not isinstance(value, dict):
        return False
    return not traces.isdisjoint({value.get("id"), value.get("exchange"), value.get("turn_id")})
