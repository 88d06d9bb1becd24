"""The working session (thread): one root on one branch, resumed after any restart until it is
closed.

A branch continues its last session. User input is redacted here; `session_summary` summarizes it.
Trade-off: a resumption is inferred from clock, terminal and process: in one terminal, only a pause
of 15 minutes counts.
"""

import json
import re
import sqlite3
from collections.abc import Sequence

from msgspec.structs import replace

from xscore.platform import database
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.hashing import digest
from xscore.platform.processes import is_alive, random_hex
from xscore.records.turn import SessionInfo, WorkingSession
from xscore.store.index_rows import read_meta
from xscore.store.redaction import redact
from xscore.store.session_summary import MOST_FILES, TurnContext

IDLE_S = 15 * 60.0
"""Longest pause after which work does not count as resumed."""

_TICKET = (
    r"(?<![A-Za-z0-9])([A-Z][A-Z0-9]{1,9}-[0-9]{1,6})(?![A-Za-z0-9])"
    r"|(?:#|\b(?:issue|gh)[-_/])([0-9]{1,6})(?![0-9])"
)
_COLUMNS = (
    "thread, branch, active_ticket, active_task, files_open, last_edit_file, last_edit_line,"
    " conversation_summary, opened_at, last_updated, closed_at, (SELECT count(*) FROM turn WHERE"
    " turn.thread = session.thread), coalesce((SELECT carried FROM turn JOIN turn_figures ON"
    " turn_id = id WHERE turn.thread = session.thread ORDER BY started_at DESC, id DESC LIMIT"
    " 1), 0)"
)
_MOVE = "UPDATE session SET branch = ?, active_ticket = ? WHERE thread = ?"
_OF_BRANCH = """
    SELECT thread FROM session WHERE branch = ?
      AND (EXISTS (SELECT 1 FROM turn WHERE turn.thread = session.thread)
        OR EXISTS (SELECT 1 FROM memory_row WHERE memory_row.thread = session.thread
          AND kind = 'exchange'))
    ORDER BY last_updated DESC, thread LIMIT 1
"""
_GOES_ON = (
    "branch = ? AND closed_at IS NULL AND current_at > 0 ORDER BY "
    "current_at DESC, thread LIMIT 1"
)


def ticket_of(branch: str) -> str:
    """Extract a ticket from a branch name: `feat/ABC-12-login` -> `ABC-12`, `fix/#7` and `issue-7`
    -> `#7`."""
    ticket = re.search(_TICKET, branch)
    if ticket is None:
        return ""
    return ticket[1] or f"#{ticket[2]}"


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
    """Return the current session of this branch; open one if there is none or `fresh` is set.

    now: Unix seconds.
    thread: use this session, whatever the branch.
    renamed_from: earlier names of the branch, whose session moves with it.
    process: `processes.process_identity`; work from another terminal counts as resumed.
    """
    named = redact(branch).text
    if thread:
        before = load_session(connection, thread)
    else:
        before = None if fresh else session_of_branch(connection, branch=named)
    if before is None:
        with database.transaction(connection):
            if not (thread or fresh):
                before = _adopt(connection, named, renamed_from)
            before = before or _open(connection, named, thread, now=now)
    elif thread and before.branch != named:
        # No branch continues it by itself, but `--continue` goes by the branch.
        with database.transaction(connection):
            connection.execute(f"{_MOVE} AND current_at = 0", (named, ticket_of(named), thread))
    resumed = bool(before.task) and _is_resumed(connection, before, now=now, process=process)
    return SessionInfo(
        thread=before.thread,
        branch=named,
        resumed=resumed,
        last_task=before.task,
        last_updated=before.last_updated if before.task else 0.0,
    )


def update_session_work(
    connection: sqlite3.Connection, thread: str, *, task: str, context: TurnContext, now: float
) -> None:
    """Store what a turn works on, in an open transaction.

    Files are kept until others replace them. A thread named by the caller gets a session here.
    """
    if not thread:
        return
    _insert(connection, thread, branch="", now=now, current_at=0.0)
    opened = json.dumps(context.recent[:MOST_FILES], ensure_ascii=False)
    connection.execute(
        "UPDATE session SET active_task = ?, files_open = iif(? = '[]', files_open, ?),"
        " last_updated = ?, process = ? WHERE thread = ?",
        (task, opened, opened, now, context.process, thread),
    )
    if context.file:
        edit = (context.file, context.line, thread)
        connection.execute(
            "UPDATE session SET last_edit_file = ?, last_edit_line = ? WHERE thread = ?", edit
        )


def load_session(connection: sqlite3.Connection, thread: str) -> WorkingSession | None:
    """Return a session by name; None if there is none."""
    return next(iter(_sessions(connection, "thread = ?", thread)), None)


def session_of_branch(
    connection: sqlite3.Connection, *, branch: str, renamed_from: Sequence[str] = ()
) -> WorkingSession | None:
    """Return the session that the next turn on this branch would continue; None if it would
    open one.

    renamed_from: earlier names of the branch, used if the current name never had a session.
    """
    named = redact(branch).text
    has_session = connection.execute(
        "SELECT 1 FROM session WHERE branch = ?", (named,)
    ).fetchone()
    if has_session:
        names = [named]
    else:
        names = [redact(name).text for name in renamed_from]
    for name in names:
        sessions = _sessions(connection, _GOES_ON, name)
        if sessions:
            return sessions[0]
    return None


def thread_of_latest_turn(connection: sqlite3.Connection, branch: str) -> str:
    """Return the thread of the latest turn on this branch; empty if there was none."""
    row = connection.execute(_OF_BRANCH, (redact(branch).text,)).fetchone()
    return str(row[0]) if row else ""


def load_sessions(connection: sqlite3.Connection, *, limit: int = 50) -> list[WorkingSession]:
    """Return the sessions of all branches, most recent work first."""
    return _sessions(connection, "1 ORDER BY last_updated DESC, thread LIMIT ?", limit)


def switch_session(
    connection: sqlite3.Connection, thread: str, *, branch: str, now: float
) -> WorkingSession:
    """Make this session the current one of the branch, and reopen it if it was closed.

    thread: its name or, without an exact match, a prefix.
    Raises NothingMatched for none, UsageError for several.
    """
    with database.transaction(connection):
        sessions = _sessions(connection, "thread = ?", thread)
        sessions = sessions or _sessions(
            connection, "substr(thread, 1, ?) = ?", len(thread), thread
        )
        if len(sessions) != 1 or not thread:
            hint = "`xscore session list` lists the sessions."
            if sessions and thread:
                raise UsageError(f"{len(sessions)} sessions are called {thread}…", hint=hint)
            raise NothingMatched(f"there is no session {thread}", hint=hint)
        named = redact(branch).text
        connection.execute(
            "UPDATE session SET branch = ?, active_ticket = ?, closed_at = NULL, current_at = ?"
            " WHERE thread = ?",
            (named, ticket_of(named), _next_moment(connection, now), sessions[0].thread),
        )
    return replace(sessions[0], branch=named, ticket=ticket_of(named), closed_at=None)


def mark_session_closed(connection: sqlite3.Connection, thread: str, *, now: float) -> None:
    """Close a session, in an open transaction: the next turn on its branch opens another."""
    connection.execute(
        "UPDATE session SET closed_at = ? WHERE thread = ? AND closed_at IS NULL", (now, thread)
    )
    connection.execute(
        "UPDATE session SET current_at = 0 WHERE branch = (SELECT branch FROM session WHERE thread"
        " = ?)",
        (thread,),
    )


def _adopt(
    connection: sqlite3.Connection, branch: str, renamed_from: Sequence[str]
) -> WorkingSession | None:
    """Return a session just opened by another process, or that of a renamed branch.

    Within a transaction.
    """
    session = session_of_branch(connection, branch=branch, renamed_from=renamed_from)
    if session is not None:
        connection.execute(_MOVE, (branch, ticket_of(branch), session.thread))
    return session


def _open(
    connection: sqlite3.Connection, branch: str, thread: str, *, now: float
) -> WorkingSession:
    """Open a session. The first of a branch is named by it, to find its exchanges if the table is
    lost."""
    first = "s_" + digest("thread", read_meta(connection, "store_id"), branch)[:16]
    name = thread or first
    if not thread and load_session(connection, first) is not None:
        name = "s_" + random_hex(8)
    _insert(
        connection,
        name,
        branch=branch,
        now=now,
        current_at=0.0 if thread else _next_moment(connection, now),
    )
    return _sessions(connection, "thread = ?", name)[0]


def _insert(
    connection: sqlite3.Connection, thread: str, *, branch: str, now: float, current_at: float
) -> None:
    connection.execute(
        "INSERT INTO session (thread, branch, opened_at, current_at, active_ticket, last_updated)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (thread) DO NOTHING",
        (thread, branch, now, current_at, ticket_of(branch), now),
    )


def _next_moment(connection: sqlite3.Connection, now: float) -> float:
    """Return a time after every `current_at`, even if the clock was set back."""
    (latest,) = connection.execute(
        "SELECT coalesce(max(current_at), 0) FROM session"
    ).fetchone()
    return max(now, float(latest) + 0.001)


def _is_resumed(
    connection: sqlite3.Connection, before: WorkingSession, *, now: float, process: str
) -> bool:
    """Whether there was a break since the session's last work (see `SessionInfo.resumed`)."""
    if now - before.last_updated > IDLE_S:
        return True
    (lived,) = connection.execute(
        "SELECT process FROM session WHERE thread = ?", (before.thread,)
    ).fetchone()
    pid, _, elsewhere = str(lived).partition(" ")
    # Last worked on in another terminal, on another machine, or before a restart.
    if process and lived and elsewhere != process.partition(" ")[2]:
        return True
    # Something else was worked on since.
    between = connection.execute(
        "SELECT 1 FROM session WHERE last_updated > ? AND active_task <> '' AND thread <> ?",
        (before.last_updated, before.thread),
    ).fetchone()
    if between is not None:
        return True
    # The process was killed in the middle of its last turn.
    latest = connection.execute(
        "SELECT state FROM turn WHERE thread = ? ORDER BY started_at DESC, id LIMIT 1",
        (before.thread,),
    ).fetchone()
    return latest == ("running",) and pid.isdecimal() and not is_alive(int(pid))


def _sessions(
    connection: sqlite3.Connection, which: str, *parameters: object
) -> list[WorkingSession]:
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM session WHERE {which}", parameters
    ).fetchall()
    fields = WorkingSession.__struct_fields__
    sessions: list[WorkingSession] = []
    with database.damage_if_invalid("a session"):
        for row in rows:
            values = dict(zip(fields, row, strict=True))
            values["recent"] = tuple(map(str, json.loads(values["recent"])))
            sessions.append(WorkingSession(**values))
    return sessions
