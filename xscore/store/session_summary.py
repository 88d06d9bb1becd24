"""Summarize a working session by extracting lines from its tasks and answers, without a model.

The summary is rebuilt from the stored turns and exchanges after each turn, so it keeps nothing
erased. Files, names, goals and open items are quoted as written. Trade-offs: only marked lines
(`Goal:`, `TODO:`) are found; the first and the latest turns are read, the others only counted.
"""

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import msgspec
from msgspec import Struct

from xscore.platform import database, tokens
from xscore.platform.hashing import integer_id, memory_id
from xscore.platform.patterns import compiled_late
from xscore.records.memory import Kind, Layer
from xscore.records.turn import ChangedFile, Scope, SessionEntry, SessionSummary
from xscore.store.memory_rows import MemoryPlace, SqlRow, named_places, stated_texts

SUMMARY_TOKENS = 600
"""Length of the summary text, roughly: the latest tasks are listed, earlier ones counted."""
LINE_CHARS = 160
MOST_FILES = 20
MOST_NAMES = 24
MOST_LINES = 12
"""Most goals, and most open items."""
MOST_IDS = 64
UNFINISHED = frozenset({"running", "failed", "interrupted"})
"""Turn states that leave the task open if there is no answer."""

ENTRIES = 40
"""How many of the latest turns a summary reads, in addition to the first."""
_ANSWER, _ANSWER_IN_TASK = "\n\nAnswer: ", "\n\n Answer: "
"""Marks the answer of an exchange; it is escaped with a space in the task, so the first match is
the mark."""
_TURNS = (
    "SELECT id, turn_key, task, context, state, answer <> '' FROM turn WHERE thread = ? AND task <>"
    " '' ORDER BY started_at DESC, id DESC LIMIT ?"
)
_GOAL, _OPENED, _CLOSED = (
    rf"(?im)^[ \t]*(?:[-*][ \t]+)?{mark}[ \t]*(\S.*)$"
    for mark in (
        r"goals?[ \t]*:",
        r"(?:(?<=[ \t])\[ \]|(?:todo|fixme|next(?: steps?)?|still open|remaining)[ \t]*:)",
        r"(?:(?<=[ \t])\[x\]|(?:done|fixed|finished)[ \t]*:)",
    )
)
_CITED = re.compile(r"(?<![A-Za-z0-9_])m_[0-9a-f]{8,20}(?![A-Za-z0-9_])")
_CODE_LIKE = re.compile(r"_|.[A-Z]|[0-9]")
_SENTENCE = compiled_late(r"(?<=[.!?])\s+(?=[A-Z`\[(])")


class TurnContext(Struct, frozen=True, kw_only=True):
    """What the store keeps of a turn besides its task, redacted; empty for an erased turn."""

    errors: str = ""
    about: tuple[tuple[str, str], ...] = ()
    file: str = ""
    line: int = 0
    recent: tuple[str, ...] = ()
    checkpoint: str = ""
    process: str = ""
    """The process in which the turn runs, while it runs."""
    command: str = ""
    """The command that asked (see `pipeline.parts.TurnOptions`); empty: unknown."""
    judge: str = ""
    """The judge with which a turn continues, `provider:model` or `lexical`."""
    primary: str = ""
    """The answering model, `provider:model`."""
    edited: tuple[ChangedFile, ...] = ()
    """Files with an uncommitted change."""
    has_evidence: bool = True
    """Whether its answer rests on something; if not, it became no memory."""
    scope: Scope = Scope()
    may_carry: bool = False
    """Whether it could take over what its thread had judged, as `continue` then may."""
    links: tuple[str, ...] = ()
    """Ids of the kept memories named in its task or answer."""
    paths: tuple[str, ...] = ()
    """Files named in its task or answer."""

    def to_json(self) -> str:
        """Write it as the column `turn.context`."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, context: str) -> Self:
        """Read the column. Raises ValueError."""
        return msgspec.json.decode(context, type=cls)


def open_items(text: str) -> tuple[str, ...]:
    """Return what a text names as left to do and does not close itself, one line each."""
    closed = {_plain(_line(item)) for item in re.findall(_CLOSED, text)}
    opened = [_line(item) for item in re.findall(_OPENED, text)]
    return _distinct([item for item in opened if _plain(item) not in closed], MOST_LINES)


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
    exchange_words = f"{task}\n{answer}"
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
        goals=_distinct(map(_line, re.findall(_GOAL, task)), MOST_LINES),
        opened=_distinct(map(_line, re.findall(_OPENED, exchange_words)), MOST_LINES),
        closed=_distinct(map(_line, re.findall(_CLOSED, exchange_words)), MOST_LINES),
    )


def summarise_entries(
    entries: Sequence[SessionEntry],
    *,
    ticket: str = "",
    goals: Sequence[str] = (),
    earlier: int = 0,
) -> SessionSummary:
    """Combine entries, oldest first; the latest win if there are too many.

    goals: replace the goals in the tasks; if there are none, the first task is the goal.
    earlier: number of tasks before these.
    """
    all_goals: list[str] = []
    for entry in entries:
        all_goals += entry.goals
    goals = tuple(goals) or _distinct(all_goals, MOST_LINES)
    if entries and not goals:
        goals = (entries[0].task,)
    all_files: list[str] = []
    all_names: list[str] = []
    all_ids: list[str] = []
    for entry in reversed(entries):
        all_files += entry.files
        all_names += entry.entities
        all_ids += (entry.exchange, *entry.memory_ids)
    files = _distinct(all_files, MOST_FILES)
    names = _distinct(all_names, MOST_NAMES)
    pending = _pending(entries)
    parts = {
        "Ticket: ": ticket,
        "Goals: ": "; ".join(goals),
        "Tasks:\n": _tasks(entries, earlier),
        "Left to do:\n": "\n".join([f"- {item}" for item in pending]),
        "Files: ": ", ".join(files),
        "Names: ": ", ".join(names),
    }
    lines: list[str] = []
    for label, part in parts.items():
        if part:
            lines.append(label + part)
    return SessionSummary(
        goals=goals,
        files=files,
        entities=names,
        pending=pending,
        memory_ids=_distinct(all_ids, MOST_IDS),
        text="\n".join(lines),
    )


def names_memory(identifier: str, entity: str, text: str) -> bool:
    """Whether a text names a memory: by its id, by its whole name, or by a last part that looks
    like code."""
    if any(identifier.startswith(cited) for cited in _CITED.findall(text)):
        return True
    last = re.split(r" > |\.|::", entity)[-1]
    if not entity or last not in text:  # nearly always; each pattern below has to be compiled
        return False
    full_name = re.escape(entity)
    short = re.escape(last)
    if last != entity and re.search(rf"(?<!\w){full_name}(?!\w)", text):
        return True
    if len(last) > 2 and _CODE_LIKE.search(last):
        return re.search(rf"(?<!\w){short}(?!\w)", text) is not None
    return re.search(rf"`{short}`|(?<!\w){short}\(|`[\w.]*\.{short}`", text) is not None


def _pending(entries: Sequence[SessionEntry]) -> tuple[str, ...]:
    """Return open items not closed since, and interrupted tasks."""
    open_items: dict[str, str] = {}
    for entry in entries:
        done = list(entry.closed)
        if entry.state not in UNFINISHED:
            done.append(entry.task)
        for words in map(_plain, done):
            open_items.pop(words, None)
        open_items |= {_plain(item): item for item in entry.opened}
        if entry.state in UNFINISHED and not entry.exchange:
            open_items[_plain(entry.task)] = entry.task
    return tuple(open_items.values())[-MOST_LINES:]


def _tasks(entries: Sequence[SessionEntry], earlier: int) -> str:
    lines: list[str] = []
    budget = SUMMARY_TOKENS
    for entry in reversed(entries):
        # A turn that ended well may still have answered nothing.
        outcome = entry.outcome or ("no answer" if entry.state == "done" else entry.state)
        line = f"- {entry.task or '(no task)'} → {outcome}"
        line += f" (error: {entry.error})" if entry.error else ""
        budget -= tokens.estimate(len(line))
        if budget < 0 and lines:
            break
        lines.append(line)
    unlisted = earlier + len(entries) - len(lines)
    if not lines:
        return ""
    if unlisted:
        lines.append(f"- {unlisted} earlier {'task' if unlisted == 1 else 'tasks'}")
    return "\n".join(reversed(lines))


def _outcome(answer: str) -> str:
    """Return the first sentence of an answer, without heading or list marks."""
    for line in answer.splitlines():
        words = line.strip().lstrip("#>*- ").strip()
        if words and not words.startswith("```"):
            return _line(_SENTENCE.split(words, maxsplit=1)[0])
    return ""


def _line(text: str) -> str:
    line = " ".join(text.split())
    if len(line) <= LINE_CHARS:
        return line
    return line[: LINE_CHARS - 1].rstrip() + "…"


def _plain(words: str) -> str:
    return words.casefold().rstrip(".! ")


def _distinct(values: Iterable[str], limit: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))[:limit]


def exchange_text(task: str, answer: str, *further_parts: str) -> str:
    """Return the text of an exchange: the task, the answer if there is one, and any further
    parts."""
    question = f"Task: {task}".replace(_ANSWER, _ANSWER_IN_TASK)
    return "\n\n".join(
        [question + (_ANSWER + answer if answer else ""), *filter(None, further_parts)]
    )


_AFTER_WORDS = compiled_late(r"\n\n(?:Failed: `|Files changed: )")


def exchange_parts(text: str) -> tuple[str, str]:
    """Return task and answer of an exchange's text, and nothing else of it."""
    task, _, answer = text.removeprefix("Task: ").partition(_ANSWER)
    return _AFTER_WORDS.split(task, maxsplit=1)[0], _AFTER_WORDS.split(answer, maxsplit=1)[0]


NO_ANSWER = "(nothing was answered)"


def exchange_card(answer: str, *further_parts: str) -> str:
    """Return what a judge is shown of an exchange: its answer and what it cites, never its task.

    A task that is asked again always matches itself, however poor the answer was.
    """
    return "\n\n".join([_ANSWER.lstrip() + (answer or NO_ANSWER), *filter(None, further_parts)])


def exchange_ordinal(turn_key: str) -> int:
    """Return the ordinal of the exchange of a turn key, for its memory id."""
    return integer_id("exchange", turn_key)


def exchange_memory_id(turn_key: str) -> str:
    """Return the memory id of the exchange of a turn with this key."""
    return memory_id(Layer.SESSION, "", Kind.EXCHANGE, "", exchange_ordinal(turn_key))


def session_entries(
    connection: sqlite3.Connection, thread: str, *, limit: int = ENTRIES
) -> list[SessionEntry]:
    """Read a session's first turn and its latest ones, oldest first, each task once.

    An answered turn is read only while its exchange exists, so that erased ones are left out; one
    whose answer rested on nothing never had any.
    """
    rows = connection.execute(_TURNS, (thread, limit)).fetchall()
    if len(rows) == limit:
        first = connection.execute(_TURNS.replace("DESC", "ASC"), (thread, 1)).fetchall()
        rows += [row for row in first if row not in rows]
    latest = {exchange_memory_id(row[1]): row for row in reversed(rows)}
    texts = stated_texts(connection, latest)
    turns: list[tuple[str, SqlRow, TurnContext]] = []
    links: set[str] = set()
    with database.damage_if_invalid("a turn"):
        for exchange, row in sorted(
            latest.items(), key=lambda turn: rows.index(turn[1]), reverse=True
        ):
            context = TurnContext.from_json(row[3])
            is_answered = row[5]
            if exchange in texts or not is_answered or not context.has_evidence:
                turns.append((exchange, row, context))
                links.update(context.links)
    places = named_places(connection, links)
    entries: list[SessionEntry] = []
    for exchange, (turn_id, _, task, _, state, _), context in turns:
        text = texts.get(exchange, "")
        entries.append(
            session_entry(
                turn_id=turn_id,
                exchange=exchange if text else "",
                task=task,
                answer=text.partition(_ANSWER)[2],
                state=state,
                errors=context.errors,
                files=[context.file, *context.recent, *context.paths],
                names=_names(context.links, places),
            )
        )
    return entries


def _names(links: Iterable[str], places: Mapping[str, MemoryPlace]) -> dict[str, str]:
    """Return what these links are called, by id; what has no file has no name."""
    names = {}
    for link in links:
        place = places.get(link)
        if place and place.path:
            names[link] = f"{place.path}::{place.entity}" if place.entity else place.path
    return names


def summarise_session(connection: sqlite3.Connection, thread: str) -> SessionSummary:
    """Return the summary of the session as of now."""
    entries = session_entries(connection, thread)
    (turns,) = connection.execute(
        "SELECT count(DISTINCT turn_key) FROM turn WHERE thread = ? AND task <> ''", (thread,)
    ).fetchone()
    ticket = connection.execute(
        "SELECT active_ticket FROM session WHERE thread = ?", (thread,)
    ).fetchone()
    earlier = 0
    if turns > ENTRIES:
        earlier = max(0, turns - len(entries))
    return summarise_entries(entries, ticket=ticket[0] if ticket else "", earlier=earlier)


def save_session_summary(connection: sqlite3.Connection, thread: str) -> SessionSummary:
    """Summarize the session and store the summary; call it also after an erasure, in the same
    transaction."""
    summary = summarise_session(connection, thread)
    connection.execute(
        "UPDATE session SET conversation_summary = ? WHERE thread = ?", (summary.text, thread)
    )
    return summary
