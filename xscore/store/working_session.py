"""The working session (thread): one root on one branch, resumed by itself after any restart until it is closed.

The session that became the branch's last goes on. What a session stores of the user is redacted here; what it comes to
is `session_digest`'s business. Trade-off: whether work is "taken up again" is told by clock, terminal and process, so
that a pause of a minute in one terminal says nothing and one of a quarter of an hour does.
"""

import json
import re
import secrets
import sqlite3
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from xscore.platform import database
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.hashing import digest
from xscore.platform.processes import is_alive
from xscore.records import SessionInfo, WorkingSession
from xscore.store.redaction import redact

IDLE_S = 15 * 60.0
"""After so long without work a session is said to be taken up again."""
MOST_FILES = 20

_TICKET = re.compile(
    r"(?<![A-Za-z0-9])([A-Z][A-Z0-9]{1,9}-[0-9]{1,6})(?![A-Za-z0-9])|(?:#|\b(?:issue|gh)[-_/])([0-9]{1,6})(?![0-9])"
)
_COLUMNS = (
    "thread, branch, active_ticket, active_task, files_open, last_edit_file, last_edit_line, conversation_summary,"
    " opened_at, last_updated, closed_at, (SELECT count(*) FROM turn WHERE turn.thread = session.thread)"
)
_FIELDS = (
    *("thread", "branch", "ticket", "task", "recent", "file", "line", "summary"),
    *("opened_at", "last_updated", "closed_at", "tasks"),
)
_GOES_ON = "branch = ? AND closed_at IS NULL AND current_at > 0 ORDER BY current_at DESC, thread LIMIT 1"


def ticket_of(branch: str) -> str:
    """Read a ticket off a branch's name: `feat/ABC-12-login` -> `ABC-12`, `fix/#7` and `issue-7` -> `#7`."""
    found = _TICKET.search(branch)
    return "" if found is None else found[1] or f"#{found[2]}"


def resume_session(
    connection: sqlite3.Connection,
    *,
    branch: str,
    now: float,
    fresh: bool = False,
    thread: str = "",
    renamed_from: Sequence[str] = (),
    process: str = "",
) -> SessionInfo:
    """Return the session that goes on for this branch, opening one where there is none, or where a fresh one is wanted.

    now: Unix seconds. thread: take this one, whatever the branch. renamed_from: earlier names of the branch, whose
    session goes with it. process: `processes.process()`; work from another terminal counts as taken up again.
    """
    named = redact(branch).text
    found = None if fresh and not thread else _found(connection, named, thread)
    if found is None:
        with database.transaction(connection):
            if thread:
                _insert(connection, thread, branch=named, now=now, current_at=0.0)
            elif not fresh:
                found = _going_on(connection, named, [redact(name).text for name in renamed_from])
            found = thread or found or _opened(connection, named, now=now)
    before = load_session(connection, found)
    assert before is not None
    resumed = bool(before.task) and _is_taken_up_again(connection, before, now=now, process=process)
    return SessionInfo(
        thread=found,
        branch=named,
        resumed=resumed,
        last_task=before.task,
        last_updated=before.last_updated if before.task else 0.0,
    )


def update_session_work(
    connection: sqlite3.Connection,
    thread: str,
    *,
    task: str,
    recent: Sequence[str],
    file: str,
    line: int,
    now: float,
    process: str = "",
) -> None:
    """Note what is worked on, in a transaction that is open. task: redacted; recent, file: names fit to be kept.

    Files stay noted until others are named. A thread that a caller named itself gets a session here.
    """
    if not thread:
        return
    _insert(connection, thread, branch="", now=now, current_at=0.0)
    opened = json.dumps(list(recent)[:MOST_FILES], ensure_ascii=False)
    connection.execute(
        "UPDATE session SET active_task = ?, files_open = iif(? = '[]', files_open, ?), last_updated = ?, process = ?"
        " WHERE thread = ?",
        (task, opened, opened, now, process, thread),
    )
    if file:
        connection.execute(
            "UPDATE session SET last_edit_file = ?, last_edit_line = ? WHERE thread = ?", (file, line, thread)
        )


def load_session(connection: sqlite3.Connection, thread: str) -> WorkingSession | None:
    """Return a session; None: there is none of that name."""
    return next(iter(_sessions(connection, "thread = ?", thread)), None)


def session_of_branch(
    connection: sqlite3.Connection, *, branch: str, renamed_from: Sequence[str] = ()
) -> WorkingSession | None:
    """Return the session that the next turn on this branch would go on with; None: it would open one."""
    named = redact(branch).text
    known = connection.execute("SELECT 1 FROM session WHERE branch = ?", (named,)).fetchone()
    names = [named] if known else [redact(name).text for name in renamed_from]
    return next((found for name in names for found in _sessions(connection, _GOES_ON, name)), None)


def load_sessions(connection: sqlite3.Connection, *, limit: int = 50) -> list[WorkingSession]:
    """Return the sessions of all branches, last at work first."""
    return _sessions(connection, "1 ORDER BY last_updated DESC, thread LIMIT ?", limit)


def switch_session(connection: sqlite3.Connection, thread: str, *, branch: str, now: float) -> WorkingSession:
    """Have the next turn on this branch go on with this session, reopened where it was closed.

    thread: its name, or the beginning of that where nothing is called exactly so.
    Raises NothingMatched where there is none such, UsageError for several.
    """
    with database.transaction(connection):
        known = _sessions(connection, "thread = ?", thread)
        known = known or _sessions(connection, "substr(thread, 1, ?) = ?", len(thread), thread)
        if len(known) != 1 or not thread:
            hint = "`xscore session list` names the sessions."
            if known and thread:
                raise UsageError(f"{len(known)} sessions are called {thread}…", hint=hint)
            raise NothingMatched(f"there is no session {thread}", hint=hint)
        named = redact(branch).text
        connection.execute(
            "UPDATE session SET branch = ?, active_ticket = ?, closed_at = NULL, current_at = ? WHERE thread = ?",
            (named, ticket_of(named), _next_moment(connection, now), known[0].thread),
        )
    return replace(known[0], branch=named, ticket=ticket_of(named), closed_at=None)


def mark_session_closed(connection: sqlite3.Connection, thread: str, *, now: float) -> None:
    """Close a session, in a transaction that is open: the next turn on its branch opens another."""
    connection.execute("UPDATE session SET closed_at = ? WHERE thread = ? AND closed_at IS NULL", (now, thread))
    connection.execute(
        "UPDATE session SET current_at = 0 WHERE branch = (SELECT branch FROM session WHERE thread = ?)", (thread,)
    )


def _found(connection: sqlite3.Connection, branch: str, thread: str) -> str | None:
    wanted, given = ("thread = ?", thread) if thread else (_GOES_ON, branch)
    row = connection.execute(f"SELECT thread FROM session WHERE {wanted}", (given,)).fetchone()
    return None if row is None else str(row[0])


def _going_on(connection: sqlite3.Connection, branch: str, earlier: Sequence[str]) -> str | None:
    """What another process has just opened, or what a renamed branch brings along. Within a transaction."""
    known = connection.execute("SELECT 1 FROM session WHERE branch = ?", (branch,)).fetchone()
    for name in (branch, *(() if known else earlier)):
        found = _found(connection, name, "")
        if found is not None:
            moved = (branch, ticket_of(branch), found)
            connection.execute("UPDATE session SET branch = ?, active_ticket = ? WHERE thread = ?", moved)
            return found
    return None


def _opened(connection: sqlite3.Connection, branch: str, *, now: float) -> str:
    """Open a session. The first of a branch is named by it, and so finds its exchanges where the table was lost."""
    project = connection.execute("SELECT value FROM meta WHERE key = 'store_id'").fetchone()[0]
    first = "s_" + digest("thread", project, branch)[:16]
    name = first if _found(connection, "", first) is None else "s_" + secrets.token_hex(8)
    _insert(connection, name, branch=branch, now=now, current_at=_next_moment(connection, now))
    return name


def _insert(connection: sqlite3.Connection, thread: str, *, branch: str, now: float, current_at: float) -> None:
    connection.execute(
        "INSERT INTO session (thread, branch, opened_at, current_at, active_ticket, last_updated)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (thread) DO NOTHING",
        (thread, branch, now, current_at, ticket_of(branch), now),
    )


def _next_moment(connection: sqlite3.Connection, now: float) -> float:
    """A moment after all that became current before, also where the clock was set back."""
    latest = connection.execute("SELECT coalesce(max(current_at), 0) FROM session").fetchone()[0]
    return max(now, float(latest) + 0.001)


def _is_taken_up_again(connection: sqlite3.Connection, before: WorkingSession, *, now: float, process: str) -> bool:
    """Whether there was a break since the session's last work; see `SessionInfo.resumed`."""
    if now - before.last_updated > IDLE_S:
        return True
    (lived,) = connection.execute("SELECT process FROM session WHERE thread = ?", (before.thread,)).fetchone()
    pid, _, elsewhere = str(lived).partition(" ")
    if process and lived and elsewhere != process.partition(" ")[2]:
        return True
    between = connection.execute(
        "SELECT 1 FROM session WHERE last_updated > ? AND active_task <> '' AND thread <> ?",
        (before.last_updated, before.thread),
    ).fetchone()
    if between is not None:
        return True
    latest = connection.execute(
        "SELECT state FROM turn WHERE thread = ? ORDER BY started_at DESC, id LIMIT 1", (before.thread,)
    ).fetchone()
    return latest == ("running",) and pid.isdecimal() and not is_alive(int(pid))


def _sessions(connection: sqlite3.Connection, which: str, *given: object) -> list[WorkingSession]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM session WHERE {which}", given).fetchall()
    with database.damage_if_invalid("a session"):
        return [_session(dict(zip(_FIELDS, row, strict=True))) for row in rows]


def _session(values: dict[str, Any]) -> WorkingSession:
    return WorkingSession(**{**values, "recent": tuple(map(str, json.loads(values["recent"])))})
