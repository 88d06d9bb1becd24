r"""Rows of batches and their requests: each function is one step of the machine, within its caller's transaction.

    marked -> created -> ended -> collected          planned -> sent -> answered
       \-> failed   \-> failed                           ^------/ \--> lost

A request belongs to one batch at a time, and is planned again when that batch did not answer it. Every statement names
the states it leaves, so that repeating a step changes nothing.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from xscore.extensions.batch.job_rows import BatchJob, RequestName
from xscore.extensions.batch.records import Batch, VendorBatch
from xscore.platform import money

QUEUE_FULL = "too much waits: "
"""Prefix of the problem of a batch that the vendor had no room for."""
MAX_TRIES = 3
"""A request is lost after this many batches that did not answer it."""
OPEN_STATES = ("marked", "created", "ended")
BATCH_IS_OPEN = f"state IN {OPEN_STATES}"
LEAVES = {"created": ("marked",), "ended": ("created",), "collected": ("ended",), "failed": OPEN_STATES}
"""State of a batch -> the states it is reached from."""


_COLUMNS = """
    job, number, token, state, marked_at, requests, bytes, input_tokens, file_id, vendor_id, status, seen_at, problem
"""


def read_batches(connection: sqlite3.Connection, job: str, *, only_open: bool = False) -> list[Batch]:
    """Return the batches of a job in order. only_open: those that are not settled."""
    where = f" AND {BATCH_IS_OPEN}" if only_open else ""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM batch WHERE job = ?{where} ORDER BY number", (job,))
    return [Batch(*row) for row in rows.fetchall()]


def next_number(connection: sqlite3.Connection, job: str) -> int:
    """Return the number of the next batch of a job."""
    row = connection.execute("SELECT coalesce(max(number), 0) + 1 FROM batch WHERE job = ?", (job,)).fetchone()
    return int(row[0])


def batch_mark(job: str, number: int) -> str:
    """Name a batch: the vendor is told it, and custom_ids start with it."""
    return f"xs_{job.removeprefix('b_')}_{number}"


def custom_id(mark: str, name: RequestName) -> str:
    """Name a request of a batch, as its input has it."""
    return f"{mark}-q{name[0]}-a{name[1]}"


def smallest_refused(connection: sqlite3.Connection, job: str) -> int | None:
    """Return the requests of the smallest batch that the vendor had no room for since the last collected one."""
    row = connection.execute(
        "SELECT min(requests) FROM batch WHERE job = ?1 AND state = 'failed' AND instr(problem, ?2) = 1"
        " AND number > (SELECT coalesce(max(number), 0) FROM batch WHERE job = ?1 AND state = 'collected')",
        (job, QUEUE_FULL),
    ).fetchone()
    return None if row[0] is None else int(row[0])


def known_vendor_ids(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the vendor's ids of all batches in this store."""
    rows = connection.execute("SELECT vendor_id FROM batch WHERE vendor_id <> ''").fetchall()
    return frozenset(identifier for (identifier,) in rows)


def insert_batch(connection: sqlite3.Connection, batch: Batch, requests: Iterable[RequestName]) -> None:
    """Enter a batch that is about to be created, and send its requests with it."""
    connection.execute(
        "INSERT INTO batch (job, number, token, state, marked_at, requests, bytes, input_tokens)"
        " VALUES (?, ?, ?, 'marked', ?, ?, ?, ?)",
        (batch.job, batch.number, batch.mark, batch.marked_at, batch.requests, batch.bytes, batch.input_tokens),
    )
    connection.executemany(
        "UPDATE job_request SET state = 'sent', batch = ?, tries = tries + 1"
        " WHERE job = ? AND question = ? AND ask = ? AND state = 'planned'",
        ((batch.number, batch.job, question, ask) for question, ask in requests),
    )


def update_batch(connection: sqlite3.Connection, batch: Batch, *states: str, **columns: Any) -> Batch:
    """Set columns of a batch that is in one of these states; return the batch with them."""
    named = ", ".join(f"{name} = ?" for name in columns)
    connection.execute(
        f"UPDATE batch SET {named} WHERE job = ? AND number = ? AND state IN ({', '.join('?' * len(states))})",
        (*columns.values(), batch.job, batch.number, *states),
    )
    return replace(batch, **{name: value for name, value in columns.items() if name in Batch.__struct_fields__})


def move_batch(connection: sqlite3.Connection, batch: Batch, to: str, **columns: Any) -> Batch:
    """Move a batch to its next state and set columns; a settled batch loses its reservation."""
    if to not in OPEN_STATES:
        connection.execute("DELETE FROM reservation WHERE id = ?", (batch.mark,))
    return update_batch(connection, batch, *LEAVES[to], state=to, **columns)


def record_created(connection: sqlite3.Connection, batch: Batch, seen: VendorBatch, *, file_id: str = "") -> None:
    """Record that the vendor has a batch. file_id: of its input; empty: not known, or the vendor has no files."""
    move_batch(
        connection,
        batch,
        "created",
        vendor_id=seen.vendor_id,
        created_at=seen.created_at,
        status=seen.status,
        file_id=file_id,
        problem="",
    )


def record_status(connection: sqlite3.Connection, batch: Batch, seen: VendorBatch, *, at: float) -> Batch:
    """Record the vendor's status of a batch."""
    return update_batch(connection, batch, "created", "ended", status=seen.status, seen_at=at)


def fail_batch(connection: sqlite3.Connection, batch: Batch, problem: str, *, counts: bool) -> None:
    """Record that nothing of a batch was run, and replan its requests. counts: whether it counts as a try."""
    move_batch(connection, batch, "failed", problem=problem)
    if not counts:
        connection.execute(
            "UPDATE job_request SET tries = tries - 1 WHERE job = ? AND batch = ? AND state = 'sent'",
            (batch.job, batch.number),
        )
    rows = connection.execute(
        "SELECT question, ask FROM job_request WHERE job = ? AND batch = ? AND state = 'sent'",
        (batch.job, batch.number),
    ).fetchall()
    replan_requests(connection, batch.job, dict.fromkeys(rows, f"provider: {problem}"))


def replan_requests(connection: sqlite3.Connection, job: str, requests: Mapping[RequestName, str]) -> None:
    """Plan sent requests again, each for its cause; those out of tries are lost for it."""
    connection.executemany(
        "UPDATE job_request SET state = iif(tries < ?1, 'planned', 'lost'), cause = iif(tries < ?1, '', ?2)"
        " WHERE job = ?3 AND question = ?4 AND ask = ?5 AND state = 'sent'",
        ((MAX_TRIES, cause, job, *name) for name, cause in requests.items()),
    )


def lose_requests(connection: sqlite3.Connection, job: str, requests: Mapping[RequestName, str]) -> None:
    """Mark unsettled requests as lost, each with its cause: `refused: the model declined`."""
    connection.executemany(
        "UPDATE job_request SET state = 'lost', cause = ?"
        " WHERE job = ? AND question = ? AND ask = ? AND state IN ('planned', 'sent')",
        ((cause, job, *name) for name, cause in requests.items()),
    )


def lose_planned_if_stopped(connection: sqlite3.Connection, job: str) -> None:
    """Mark what a stopped job has not sent as lost."""
    connection.execute(
        "UPDATE job_request SET state = 'lost', cause = 'interrupted: the job was cancelled' WHERE job = ?"
        " AND state = 'planned' AND EXISTS (SELECT 1 FROM job WHERE id = job_request.job AND stopped_at IS NOT NULL)",
        (job,),
    )


def settle_requests(connection: sqlite3.Connection, job: str, requests: Iterable[RequestName]) -> None:
    """Mark requests as answered, or as judged elsewhere."""
    connection.executemany(
        "UPDATE job_request SET state = 'answered', cause = '' WHERE job = ? AND question = ? AND ask = ?",
        ((job, *name) for name in requests),
    )


def judged_questions(connection: sqlite3.Connection, job: BatchJob) -> dict[int, str]:
    """Return the turn keys of questions of which the judge has judged anything, by number."""
    rows = connection.execute(
        "SELECT number, job_question.turn_key FROM job_question"
        " JOIN query ON query.turn_key = job_question.turn_key AND query.judge = ? AND query.sample = 0"
        " WHERE job = ?",
        (job.judge, job.id),
    )
    return dict(rows.fetchall())


def stop_job(connection: sqlite3.Connection, job: str, *, at: float) -> None:
    """Record that the user stopped a job."""
    connection.execute("UPDATE job SET stopped_at = ? WHERE id = ? AND ended_at IS NULL", (at, job))


def is_job_stopped(connection: sqlite3.Connection, job: str) -> bool:
    """Return whether the user stopped a job, possibly during this pass."""
    row = connection.execute("SELECT 1 FROM job WHERE id = ? AND stopped_at IS NOT NULL", (job,)).fetchone()
    return row is not None


def set_job_cap(connection: sqlite3.Connection, job: str, usd: Decimal) -> None:
    """Give a job another cap."""
    connection.execute("UPDATE job SET max_usd = ? WHERE id = ?", (money.picodollars(usd), job))


def end_job_if_done(connection: sqlite3.Connection, job: str, *, at: float) -> None:
    """End a job that has nothing left to send or to fetch."""
    connection.execute(
        "UPDATE job SET ended_at = ? WHERE id = ? AND ended_at IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM job_request WHERE job = job.id AND state IN ('planned', 'sent'))"
        f" AND NOT EXISTS (SELECT 1 FROM batch WHERE job = job.id AND {BATCH_IS_OPEN})",
        (at, job),
    )
