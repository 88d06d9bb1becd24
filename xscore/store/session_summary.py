"""What a working session comes to, taken from its tasks and answers word for word: no model is asked.

Pure. It reads files, names, goals and what is left to do off the words in which they were written, and rephrases
nothing. Trade-off: what nobody wrote in such words is not found; what is found was really said.

An exchange in words, and its answer out of them again: one pair for live turns and past sessions.

A task may hold the very words that begin an answer; there they are set off by a blank, so that the first such words of
a text are always its own. Trade-off: that blank stays in the task as it is remembered.

What a working session comes to, read from its turns and exchanges, and kept beside it as text.

It is made anew from what is there after each turn, so that nothing erased lives on in it once it was rebuilt. What is
read off the words is `session_summary`'s business. Trade-off: the latest turns are read, earlier ones only counted.
"""

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xscore.platform import database, tokens
from xscore.platform.hashing import integer_id, memory_id
from xscore.records import Kind, Layer, SessionEntry, SessionSummary
from xscore.store import memory_rows

SUMMARY_TOKENS = 600
"""A summary as text is about so long: the latest tasks are told, earlier ones counted."""
LINE_CHARS = 160
MOST_FILES = 20
MOST_NAMES = 24
MOST_LINES = 12
"""Goals, and things left to do."""
MOST_IDS = 64
UNFINISHED = frozenset({"running", "failed", "interrupted"})
"""States of a turn that leave its task open, where it left no answer."""

_GOAL = re.compile(r"^[ \t]*(?:[-*][ \t]+)?goals?[ \t]*:[ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE)
_OPENED = re.compile(
    r"^[ \t]*(?:[-*][ \t]+\[ \]|(?:[-*][ \t]+)?(?:todo|fixme|next(?: steps?)?|still open|remaining)[ \t]*:)"
    r"[ \t]*(\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSED = re.compile(
    r"^[ \t]*(?:[-*][ \t]+\[x\]|(?:[-*][ \t]+)?(?:done|fixed|finished)[ \t]*:)[ \t]*(\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_CITED = re.compile(r"(?<![A-Za-z0-9_])m_[0-9a-f]{8,20}(?![A-Za-z0-9_])")
_CODE_LIKE = re.compile(r"_|.[A-Z]|[0-9]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\[(])")


def session_entry(
    *,
    turn_id: str,
    exchange: str,
    task: str,
    answer: str,
    state: str,
    errors: str,
    files: Iterable[str],
    names: Mapping[str, str],
) -> SessionEntry:
    """Read one turn. names: memory id -> `path::entity` of the memories that it names."""
    said = f"{task}\n{answer}"
    return SessionEntry(
        turn_id=turn_id,
        exchange=exchange,
        task=_line(task),
        state=state,
        outcome=_outcome(answer),
        error=_line((errors.strip().splitlines() or [""])[-1]),
        files=_distinct(files, MOST_FILES),
        entities=_distinct(names.values(), MOST_NAMES),
        memory_ids=_distinct(names, MOST_IDS),
        goals=_distinct(map(_line, _GOAL.findall(task)), MOST_LINES),
        opened=_distinct(map(_line, _OPENED.findall(said)), MOST_LINES),
        closed=_distinct(map(_line, _CLOSED.findall(said)), MOST_LINES),
    )


def summarise_entries(
    entries: Sequence[SessionEntry], *, ticket: str = "", goals: Sequence[str] = (), earlier: int = 0
) -> SessionSummary:
    """Gather entries, oldest first; the latest count where there are too many.

    goals: instead of those the tasks name; where none does, the first task is the goal. earlier: tasks before these
    that are only counted.
    """
    latest = entries[::-1]
    goals = goals or _distinct((goal for entry in entries for goal in entry.goals), MOST_LINES)
    goals = tuple(goals) or tuple(entry.task for entry in entries[:1])
    files = _distinct((file for entry in latest for file in entry.files), MOST_FILES)
    names = _distinct((name for entry in latest for name in entry.entities), MOST_NAMES)
    ids = _distinct((i for entry in latest for i in (entry.exchange, *entry.memory_ids) if i), MOST_IDS)
    pending = _pending(entries)
    parts = [
        f"Ticket: {ticket}" if ticket else "",
        f"Goals: {'; '.join(goals)}" if goals else "",
        _tasks(entries, earlier),
        "\n".join(["Left to do:", *(f"- {one}" for one in pending)]) if pending else "",
        f"Files: {', '.join(files)}" if files else "",
        f"Names: {', '.join(names)}" if names else "",
    ]
    text = "\n".join(part for part in parts if part)
    return SessionSummary(goals=goals, files=files, entities=names, pending=pending, memory_ids=ids, text=text)


def names_memory(identifier: str, entity: str, said: str) -> bool:
    """Whether a text names a memory: by its id, by its whole name, or by a last part that looks like code."""
    if any(identifier.startswith(cited) for cited in _CITED.findall(said)):
        return True
    if not entity:
        return False
    last = re.split(r" > |\.|::", entity)[-1]
    whole, short = re.escape(entity), re.escape(last)
    if last != entity and re.search(rf"(?<!\w){whole}(?!\w)", said):
        return True
    if len(last) > 2 and _CODE_LIKE.search(last):
        return re.search(rf"(?<!\w){short}(?!\w)", said) is not None
    return re.search(rf"`{short}`|(?<!\w){short}\(|`[\w.]*\.{short}`", said) is not None


def _pending(entries: Sequence[SessionEntry]) -> tuple[str, ...]:
    """What is left to do: said to be so and not said to be done since, then tasks that were cut short."""
    left: dict[str, str] = {}
    for entry in entries:
        done = [*entry.closed, entry.task] if entry.state not in UNFINISHED else entry.closed
        for words in map(_plain, done):
            left.pop(words, None)
        left |= {_plain(one): one for one in entry.opened}
        if entry.state in UNFINISHED and not entry.exchange:
            left[_plain(entry.task)] = entry.task
    return tuple(left.values())[-MOST_LINES:]


def _tasks(entries: Sequence[SessionEntry], earlier: int) -> str:
    lines: list[str] = []
    budget = SUMMARY_TOKENS
    for entry in reversed(entries):
        line = f"- {entry.task or '(no task)'} → {entry.outcome or entry.state}"
        line += f" (error: {entry.error})" if entry.error else ""
        budget -= tokens.estimate(len(line))
        if budget < 0 and lines:
            break
        lines.append(line)
    untold = earlier + len(entries) - len(lines)
    counted = [f"- {untold} earlier {'task' if untold == 1 else 'tasks'}"] if untold else []
    return "\n".join(["Tasks:", *counted, *reversed(lines)]) if lines else ""


def _outcome(answer: str) -> str:
    """The first sentence of an answer, without the marks of a heading or list."""
    for line in answer.splitlines():
        words = line.strip().lstrip("#>*- ").strip()
        if words and not words.startswith("```"):
            return _line(_SENTENCE.split(words, maxsplit=1)[0])
    return ""


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1].rstrip() + "…"


def _plain(words: str) -> str:
    return words.casefold().rstrip(".! ")


def _distinct(values: Iterable[str], most: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))[:most]


_ANSWER = "\n\nAnswer: "
_SET_OFF = "\n\n Answer: "


def exchange_text(task: str, answer: str, *more: str) -> str:
    """Return the text of an exchange: the task, the answer where there is one, and what else is told of it."""
    asked = f"Task: {task}".replace(_ANSWER, _SET_OFF)
    return "\n\n".join([asked + (_ANSWER + answer if answer else ""), *filter(None, more)])


def answer_in(text: str) -> str:
    """Return the answer of an exchange, and what was told after it; empty where there is none."""
    return text.partition(_ANSWER)[2]


ENTRIES = 40
"""A summary rests on the first turn and the latest so many."""

_TURNS = (
    "SELECT id, turn_key, task, context, state, answer <> '' FROM turn WHERE thread = ? AND task <> ''"
    " ORDER BY started_at DESC, id DESC LIMIT ?"
)
_FIRST = _TURNS.replace("DESC", "ASC")


def exchange_ordinal(turn_key: str) -> int:
    """Tell the exchange of one turn key from all others."""
    return integer_id("exchange", turn_key)


def exchange_memory_id(turn_key: str) -> str:
    """Name the exchange that a turn with this key leaves behind."""
    return memory_id(Layer.SESSION, "", Kind.EXCHANGE, "", exchange_ordinal(turn_key))


def session_entries(connection: sqlite3.Connection, thread: str, *, limit: int = ENTRIES) -> list[SessionEntry]:
    """Read a session's first turn and its latest ones, oldest first, each task once.

    A turn that was answered is read only while its exchange is there: one that was erased is not told of.
    """
    rows = connection.execute(_TURNS, (thread, limit)).fetchall()
    if len(rows) == limit:
        rows += [row for row in connection.execute(_FIRST, (thread, 1)).fetchall() if row not in rows]
    latest = {row[1]: row for row in reversed(rows)}
    turns = sorted(latest.values(), key=rows.index, reverse=True)
    texts = _exchanges(connection, [exchange_memory_id(row[1]) for row in turns])
    with database.damage_if_invalid("a turn"):
        told = [
            (row, json.loads(row[3]), texts.get(exchange_memory_id(row[1])))
            for row in turns
            if not row[5] or exchange_memory_id(row[1]) in texts
        ]
        named = _names(connection, {link for _, context, _ in told for link in context.get("links", ())})
        return [_entry_from_row(row, context, text, named) for row, context, text in told]


def summarise_session(connection: sqlite3.Connection, thread: str) -> SessionSummary:
    """Return what the session comes to as of now."""
    told = session_entries(connection, thread)
    (turns,) = connection.execute(
        "SELECT count(DISTINCT turn_key) FROM turn WHERE thread = ? AND task <> ''", (thread,)
    ).fetchone()
    row = connection.execute("SELECT active_ticket FROM session WHERE thread = ?", (thread,)).fetchone()
    earlier = max(0, turns - len(told)) if turns > ENTRIES else 0
    return summarise_entries(told, ticket=row[0] if row else "", earlier=earlier)


def save_session_summary(connection: sqlite3.Connection, thread: str) -> SessionSummary:
    """Make the session's summary anew from the turns and exchanges that are there, and keep it.

    Whoever erases an exchange or a turn calls it afterwards, in the same transaction.
    """
    summary = summarise_session(connection, thread)
    connection.execute("UPDATE session SET conversation_summary = ? WHERE thread = ?", (summary.text, thread))
    return summary


def _exchanges(connection: sqlite3.Connection, ids: list[str]) -> dict[str, str]:
    """Memory id -> text, of the exchanges that are there."""
    found = connection.execute(
        f"SELECT id, text FROM memory WHERE kind = 'exchange' AND id {memory_rows.IN_JSON_LIST}",
        (json.dumps(ids),),
    )
    return dict(found.fetchall())


def _names(connection: sqlite3.Connection, ids: set[str]) -> dict[str, str]:
    found = connection.execute(
        f"SELECT id, path, entity FROM memory WHERE id {memory_rows.IN_JSON_LIST}",
        (json.dumps(sorted(ids)),),
    ).fetchall()
    return {identifier: f"{path}::{entity}" if entity else path for identifier, path, entity in found if path}


def _entry_from_row(
    row: tuple[Any, ...], context: Mapping[str, Any], exchange: str | None, named: Mapping[str, str]
) -> SessionEntry:
    turn_id, turn_key, task, _, state, _ = row
    return session_entry(
        turn_id=turn_id,
        exchange=exchange_memory_id(turn_key) if exchange else "",
        task=task,
        answer=answer_in(exchange or ""),
        state=state,
        errors=context.get("errors", ""),
        files=[context.get("file", ""), *context.get("recent", ()), *context.get("paths", ())],
        names={link: named[link] for link in context.get("links", ()) if link in named},
    )
