"""Steps of a whole job: capped, stopped, settled by what others judged, ended. Each within its caller's transaction."""

import sqlite3
from collections.abc import Iterable
from decimal import Decimal

from xscore import money
from xscore.offline.batch_rows import OPEN
from xscore.offline.job_rows import Job, RequestName

_END = f"""
    UPDATE job SET ended_at = ? WHERE id = ? AND ended_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM job_request WHERE job = job.id AND state IN ('planned', 'sent'))
    AND NOT EXISTS (SELECT 1 FROM batch WHERE job = job.id AND {OPEN})
"""  # noqa: S608  our own words


def judged_questions(connection: sqlite3.Connection, job: Job) -> dict[int, str]:
    """Return the turn keys of questions of which the judge has judged anything, by number."""
    rows = connection.execute(
        "SELECT number, job_question.turn_key FROM job_question"
        " JOIN query ON query.turn_key = job_question.turn_key AND query.judge = ? AND query.sample = 0"
        " WHERE job = ?",
        (job.judge, job.id),
    ).fetchall()
    return dict(rows)


def found(connection: sqlite3.Connection, job: str, requests: Iterable[RequestName]) -> None:
    """Enter that what requests ask is judged, though not by them: planned or lost, they are settled."""
    connection.executemany(
        "UPDATE job_request SET state = 'answered', cause = ''"
        " WHERE job = ? AND question = ? AND ask = ? AND state IN ('planned', 'lost')",
        ((job, *name) for name in requests),
    )


def stop(connection: sqlite3.Connection, job: str, *, at: float) -> None:
    """Enter that the user wants nothing more of a job sent."""
    connection.execute("UPDATE job SET stopped_at = ? WHERE id = ? AND ended_at IS NULL", (at, job))


def is_stopped(connection: sqlite3.Connection, job: str) -> bool:
    """Say whether the user wants nothing more of a job sent; he may have said so since a pass over it began."""
    row = connection.execute("SELECT 1 FROM job WHERE id = ? AND stopped_at IS NOT NULL", (job,)).fetchone()
    return row is not None


def cap_at(connection: sqlite3.Connection, job: str, usd: Decimal) -> None:
    """Give a job another cap."""
    connection.execute("UPDATE job SET max_usd = ? WHERE id = ?", (money.picodollars(usd), job))


def end_if_done(connection: sqlite3.Connection, job: str, *, at: float) -> bool:
    """Enter that a job has ended, where nothing is left to send or to fetch; say whether it has."""
    connection.execute(
        _END,
        (at, job),
    )
    return connection.execute("SELECT ended_at FROM job WHERE id = ?", (job,)).fetchone()[0] is not None
