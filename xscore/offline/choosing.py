"""Which jobs a command means: named by the beginning of an id, or those under way, or the newest."""

import sqlite3

from xscore.errors import NothingMatched, UsageError
from xscore.offline import job_rows
from xscore.offline.job_rows import Job
from xscore.safe_text import one_line

LIST = "`xscore batch list` names them."


def meant(connection: sqlite3.Connection, named: str) -> list[Job]:
    """Return the jobs that are meant, newest first; unnamed: all under way, or the newest where none is.

    Raises NothingMatched where there is none, UsageError where a beginning fits several.
    """
    everything = job_rows.jobs(connection)
    if not everything:
        raise NothingMatched("there is no job yet", hint="`xscore batch submit QUERIES.jsonl` makes one.")
    if not named:
        return [job for job in everything if job.ended_at is None] or everything[:1]
    found = [job for job in everything if job.id == named] or [job for job in everything if job.id.startswith(named)]
    if not found:
        raise NothingMatched(f"there is no job {one_line(named)}", hint=LIST)
    if len(found) > 1:
        raise UsageError(f"{len(found)} jobs begin with {one_line(named)}", hint=LIST)
    return found
