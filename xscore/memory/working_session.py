"""The working session (thread): one root on one branch, resumed by itself after any restart until it is closed.

The newest open session of the branch goes on; the first of a branch is named by store and branch, so that two processes
that begin at once begin the same one. What a session stores of the user is redacted here.
"""

import json
import secrets
import sqlite3
from collections.abc import Sequence

from xscore.hashing import digest
from xscore.memory.redact import redact


def session_thread(connection: sqlite3.Connection, *, branch: str, now: float, fresh: bool = False) -> str:
    """Return the thread that goes on for this branch, opening one where there is none, or where a fresh one is wanted.

    now: Unix seconds.
    """
    named = redact(branch).text
    found = connection.execute(
        "SELECT thread FROM session WHERE branch = ? AND closed_at IS NULL ORDER BY opened_at DESC, thread LIMIT 1",
        (named,),
    ).fetchone()
    if found and not fresh:
        return str(found[0])
    known = connection.execute("SELECT 1 FROM session WHERE branch = ? LIMIT 1", (named,)).fetchone()
    project = connection.execute("SELECT value FROM meta WHERE key = 'store_id'").fetchone()[0]
    thread = "s_" + (secrets.token_hex(8) if known else digest("thread", project, branch)[:16])
    connection.execute(
        "INSERT INTO session (thread, branch, opened_at, last_updated) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (thread, named, now, now),
    )
    return thread


def note_work(
    connection: sqlite3.Connection, thread: str, *, task: str, recent: Sequence[str], file: str, line: int, now: float
) -> None:
    """Note what is worked on, in a transaction that is open. task: redacted; recent, file: names fit to be kept."""
    connection.execute(
        "UPDATE session SET active_task = ?, files_open = ?, last_edit_file = ?, last_edit_line = ?, last_updated = ?"
        " WHERE thread = ?",
        (task, json.dumps(list(recent), ensure_ascii=False), file, line, now, thread),
    )
