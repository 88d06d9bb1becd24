"""Carry out a plan of erasure in one store, inside an open transaction.

What mentions an erased memory is stripped, not dropped: a receipt keeps its numbers, an event its
time, a checkpoint the rest of its content. Shared servers know contents by hash alone, which cannot
be computed once the text is gone; so what they have yet to erase is a row of `meta` for each
server, and every later erasure asks again. Trade-off: every receipt, answer and payload is read,
about 50 ms for a thousand turns.
"""

import asyncio
import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from xscore import extension
from xscore.extensions.privacy.erasure_plan import ErasurePlan
from xscore.platform import database
from xscore.records.memory import MemorySource
from xscore.records.reports import ErasureRequest, ServerErasure
from xscore.settings import Settings
from xscore.store.memory_rows import IN_JSON_LIST
from xscore.store.removal import remove_memory_rows, shared_servers
from xscore.store.session_summary import save_session_summary

_QUERIES = f"SELECT id, turn_key, judge, sample FROM query WHERE turn_key {IN_JSON_LIST}"
_REASONS = """
    SELECT query_id, content_id, text, turn_key, judge, sample, hash FROM reason
    JOIN query ON query.id = query_id JOIN content ON content.id = content_id
"""
_KEPT_FIELDS = frozenset({"id", "layer", "kind", "scope", "status", "language", "outcome", "cause"})
"""Fields of a receipt entry that say nothing of its text."""
_MADE_WITH = frozenset({"answer", "bundle"})
"""Parts of a receipt that go whole when the turn used an erased memory."""


def erase_rows(
    connection: sqlite3.Connection, plan: ErasurePlan, *, now: float, forget: bool
) -> Counter[str]:
    """Remove and strip rows; return how many of what, by the field names of `Erasure`.

    forget: imports must not bring the memories back; those that were imported never come back.
    """
    done = remove_memory_rows(connection, plan.memories, now=now)
    done["exchanges"] = len(plan.dependents)
    done["reasons"] += _reasons(connection, plan)
    done["answers"] = _answers(connection, plan)
    done["receipts"] = connection.execute(
        f"DELETE FROM receipt WHERE turn_id {IN_JSON_LIST}",
        (json.dumps(sorted(plan.deleted_turns)),),
    ).rowcount
    done["receipts"] += _rewrite(connection, plan, ("receipt", "turn_id", "body"))
    done["sessions"] = _sessions(connection, plan)
    done["checkpoints"] = _rewrite(connection, plan, ("checkpoint", "name", "payload"), drops=True)
    done["payloads"] = _payloads(connection, plan)
    for hook in extension.HOOKS["erase"]:
        done.update(extension.load(hook.target)(connection, plan.hashes, plan.lines))
    connection.executemany(
        "INSERT INTO erased_memory (memory_id, at) VALUES (?, ?) ON CONFLICT DO NOTHING",
        [
            (id_, now)
            for id_, memory in plan.memories.items()
            if forget or memory.source is MemorySource.IMPORT
        ],
    )
    return done


def remove_observations(
    connection: sqlite3.Connection, plan: ErasurePlan, *, project: str | None
) -> int:
    """Remove the user store's observations of these memories, by key and by text, of one project or
    of all."""
    keys = {memory.key for memory in plan.memories.values() if memory.key}
    texts = {memory.text for memory in plan.memories.values()}
    rows = connection.execute("SELECT project, key, value FROM observation").fetchall()
    gone = []
    for where, key, value in rows:
        if project in (None, where) and (
            key in keys or value in texts or plan.lines.found_in(value)
        ):
            gone.append((where, key))
    connection.executemany("DELETE FROM observation WHERE project = ? AND key = ?", gone)
    return len(gone)


def _reasons(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    """Remove the reasons given for erased questions, and those of other judgments that quote an
    erased line."""
    queries = connection.execute(_QUERIES, (json.dumps(sorted(plan.turn_keys)),)).fetchall()
    rows = connection.execute(_REASONS).fetchall() if plan.lines else []
    quoting = [row for row in rows if plan.lines.found_in(row[2])]
    gone = sum(
        connection.execute("DELETE FROM reason WHERE query_id = ?", row[:1]).rowcount
        for row in queries
    )
    gone += connection.executemany(
        "DELETE FROM reason WHERE query_id = ? AND content_id = ?", [row[:2] for row in quoting]
    ).rowcount
    owe_erasure(
        connection, plan, [*((*row[1:], "") for row in queries), *(row[3:] for row in quoting)]
    )
    return gone


def _answers(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    connection.executemany(
        "UPDATE turn SET task = '', context = '{}', branch = '' WHERE id = ?",
        [(turn,) for turn in plan.erased_tasks],
    )
    stored = connection.execute("SELECT id, answer FROM turn WHERE answer <> ''").fetchall()
    gone = [(turn,) for turn, answer in stored if turn in plan.turns or plan.lines.found_in(answer)]
    connection.executemany("UPDATE turn SET answer = '' WHERE id = ?", gone)
    _paths_of_answers(connection, [turn for (turn,) in gone])
    return len(gone)


def _paths_of_answers(connection: sqlite3.Connection, turns: Iterable[str]) -> None:
    """Of the paths noted with a turn whose answer is gone, keep what was asked about; ids stay, as
    tombstones do."""
    query = f"SELECT id, task, context FROM turn WHERE id {IN_JSON_LIST}"
    for turn, task, stored_context in connection.execute(
        query, (json.dumps(list(turns)),)
    ).fetchall():
        context = json.loads(stored_context)
        own_paths = {context.get("file"), *context.get("recent", ())}
        paths = [path for path in context.get("paths", ()) if path in own_paths or path in task]
        if paths != context.get("paths", []):
            blanked = json.dumps(context | {"paths": paths}, ensure_ascii=False)
            connection.execute("UPDATE turn SET context = ? WHERE id = ?", (blanked, turn))


def _sessions(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    kept = connection.execute(
        "SELECT thread, conversation_summary, active_task FROM session"
    ).fetchall()
    gone = []
    for thread, summary, _ in kept:
        if summary and (thread in plan.threads or plan.lines.found_in(summary)):
            gone.append((thread,))
    connection.executemany("UPDATE session SET conversation_summary = '' WHERE thread = ?", gone)
    named = [
        (thread,)
        for thread, _, task in kept
        if task and plan.erased_tasks and thread in plan.threads
    ]
    mentioned = [(thread,) for thread, _, task in kept if plan.lines.found_in(task)]
    connection.executemany(
        "UPDATE session SET active_task = '' WHERE thread = ?", named + mentioned
    )
    quoting = [
        thread
        for thread in gone
        if plan.lines.found_in(save_session_summary(connection, *thread).text)
    ]
    connection.executemany("UPDATE session SET conversation_summary = '' WHERE thread = ?", quoting)
    return len(gone)


def _payloads(connection: sqlite3.Connection, plan: ErasurePlan) -> int:
    """Blank the payloads of events about them.

    A trigger allows it only while the store says that it is erasing.
    """
    rows = connection.execute(
        "SELECT id, subject, payload FROM event WHERE payload <> '{}'"
    ).fetchall()
    ids = plan.ids
    clean = _cleaner(plan, drops=True)
    events = [(event, subject, json.loads(payload)) for event, subject, payload in rows]
    gone = []
    for event, subject, payload in events:
        if subject in ids or clean(payload) != payload:
            gone.append((event,))
    connection.execute("INSERT INTO meta (key, value) VALUES ('erasing', '1')")
    connection.executemany("UPDATE event SET payload = '{}' WHERE id = ?", gone)
    connection.execute("DELETE FROM meta WHERE key = 'erasing'")
    return len(gone)


def _rewrite(
    connection: sqlite3.Connection,
    plan: ErasurePlan,
    column_of: tuple[str, str, str],
    *,
    drops: bool = False,
) -> int:
    """Clean the JSON of each row; return how many changed.

    column_of: table, key, column.
    drops: see `_cleaner`.
    """
    (table, key, column), clean = column_of, _cleaner(plan, drops=drops)
    changed: list[tuple[str, str]] = []
    for name, body in connection.execute(f"SELECT {key}, {column} FROM {table}"):
        before = json.loads(body)
        after = clean(before)
        emptied = (_MADE_WITH if name in plan.turns else set()) | (
            {"task"} if name in plan.erased_tasks else set()
        )
        after |= {part: "" for part in emptied if after.get(part)}
        if after != before:
            changed.append((json.dumps(after, ensure_ascii=False), name))
    connection.executemany(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", changed)
    return len(changed)


def _cleaner(plan: ErasurePlan, *, drops: bool) -> Callable[[Any], Any]:
    """Return what empties each string of a JSON value that holds an erased line, or is of an erased
    memory's entry.

    drops: leave such entries, and what names an erased memory or turn, out of lists and objects
        instead.
    """
    ids = plan.ids
    gone = ids | plan.turns

    def clean(value: Any, *, is_erased: bool = False) -> Any:
        if isinstance(value, dict):
            is_erased = is_erased or (not drops and value.get("id") in ids)
            cleaned: dict[str, object] = {}
            for name, inner in value.items():
                if drops and name in gone:
                    continue
                is_kept = name in _KEPT_FIELDS and not drops
                cleaned[name] = inner if is_kept else clean(inner, is_erased=is_erased)
            return cleaned
        if isinstance(value, list):
            pairs = [(inner, clean(inner, is_erased=is_erased)) for inner in value]
            return [cleaned for inner, cleaned in pairs if not (drops and is_gone(inner, cleaned))]
        if isinstance(value, str) and (
            is_erased or (drops and value in gone) or plan.lines.found_in(value)
        ):
            return ""
        return value

    def is_gone(value: Any, cleaned: Any) -> bool:
        if isinstance(value, dict):
            return not gone.isdisjoint(
                {value.get("id"), value.get("exchange"), value.get("turn_id")}
            )
        return bool(cleaned == "" != value)

    return clean


_OWED = "erase_at "
"""Start of the keys in `meta`, followed by the server's name."""
_SHOWN = f"SELECT hash FROM content WHERE memories > 0 AND hash {IN_JSON_LIST}"
LEFT_ON_PURPOSE = "left there, as --here-only says"


def owe_erasure(
    connection: sqlite3.Connection,
    plan: ErasurePlan,
    judgments: Collection[tuple[str, str, int, str]],
) -> None:
    """Record what the servers must erase, after the rows are gone and in the same transaction.

    judgments: turn key, judge key, sample and content hash of judgments whose reasons are erased;
        "": of all contents.
    """
    servers = shared_servers(connection)
    if not servers:
        return
    shown = set()
    for (hash_,) in connection.execute(
        _SHOWN, (msgspec.json.encode(sorted(plan.hashes)).decode(),)
    ):
        shown.add(hash_)
    by_turn = defaultdict[tuple[str, str, int], set[str]](set)
    for turn_key, judge, sample, content in judgments:
        by_turn[turn_key, judge, sample].add(content)
    turns: list[tuple[str, str, int, tuple[str, ...]]] = []
    for (turn_key, judge, sample), contents_of_turn in sorted(by_turn.items()):
        # An empty content stands for all contents of the turn.
        hashes = () if "" in contents_of_turn else tuple(sorted(contents_of_turn))
        turns.append((turn_key, judge, sample, hashes))
    new = ErasureRequest(contents=tuple(sorted(plan.hashes - shown)), turns=tuple(turns))
    if not (new.contents or new.turns):
        return
    owed = owed_erasures(connection)
    for server in servers:
        old = owed.get(server, ErasureRequest())
        contents = tuple(dict.fromkeys([*old.contents, *new.contents]))
        merged = ErasureRequest(contents=contents, turns=(*old.turns, *new.turns))
        connection.execute(
            "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)",
            (_OWED + server, msgspec.json.encode(merged).decode()),
        )


def owed_erasures(connection: sqlite3.Connection) -> dict[str, ErasureRequest]:
    """Return what each server must still erase. Raises StoreDamaged."""
    rows = connection.execute(
        "SELECT key, value FROM meta WHERE key GLOB ?", (_OWED + "*",)
    ).fetchall()
    with database.damage_if_invalid("an erasure that is owed"):
        return {
            key.removeprefix(_OWED): msgspec.json.decode(value, type=ErasureRequest)
            for key, value in rows
        }


def settle_owed_erasures(
    connection: sqlite3.Connection,
    settings: Settings,
    *,
    verify: bool = False,
    here_only: bool = False,
) -> tuple[ServerErasure, ...]:
    """Let the servers erase what is owed; what one erased is owed no more.

    verify: ask again and count what is left.
    here_only: ask no server, and drop what is owed.
    """
    owed = owed_erasures(connection)
    done = list[ServerErasure]()
    if here_only:
        done = [ServerErasure(server=server, problem=LEFT_ON_PURPOSE) for server in owed]
    elif owed:
        (erase,) = extension.implementations("erase_shared", settings)
        done = asyncio.run(erase(settings.shared, owed, verify=verify))
    settled = []
    for asked_server in done:
        if here_only or not asked_server.problem:
            settled.append(asked_server.server)
    connection.executemany(
        "DELETE FROM meta WHERE key = ?", [(_OWED + server,) for server in settled]
    )
    return tuple(done)
