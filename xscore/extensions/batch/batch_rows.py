r"""Rows of batches and their requests: each function is one step of the machine, within its
caller's transaction.

    marked -> created -> ended -> collected          planned -> sent -> answered
       \-> failed   \-> failed                           ^------/ \--> lost

A request belongs to one batch at a time, and is planned again when that batch did not answer it.
Every statement names the states it leaves, so that repeating a step changes nothing. In the status
of a job judged = asked - waiting - lost, so the figures always add up. Trade-off: a memory in parts
counts as waiting while one of its parts does.
"""

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from xscore.extensions.batch.job_rows import BatchJob, RequestName, read_job
from xscore.extensions.batch.records import Batch, JobStatus, StoredBatchState, VendorBatch
from xscore.platform import money
from xscore.platform.database import damage_if_invalid

QUEUE_FULL = "too much waits: "
"""Prefix of the problem of a batch for which the vendor's queue had no room."""
MAX_TRIES = 3
"""A request is lost after this many batches without an answer."""
OPEN_STATES = (StoredBatchState.MARKED, StoredBatchState.CREATED, StoredBatchState.ENDED)
BATCH_IS_OPEN = f"state IN ({', '.join(repr(str(state)) for state in OPEN_STATES)})"
LEAVES = {
    StoredBatchState.CREATED: (StoredBatchState.MARKED,),
    StoredBatchState.ENDED: (StoredBatchState.CREATED,),
    StoredBatchState.COLLECTED: (StoredBatchState.ENDED,),
    StoredBatchState.FAILED: OPEN_STATES,
}
"""State of a batch -> the states it is reached from."""


_COLUMNS = """
    job, number, token, state, marked_at, requests, bytes, input_tokens, vendor_id, status,
    seen_at, problem
"""


def read_batches(
    connection: sqlite3.Connection, job: str, *, only_open: bool = False
) -> list[Batch]:
    """Return the batches of a job in order. only_open: those that are not collected or failed."""
    where = f" AND {BATCH_IS_OPEN}" if only_open else ""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM batch WHERE job = ?{where} ORDER BY number", (job,)
    )
    batches: list[Batch] = []
    with damage_if_invalid("the state of a batch"):
        for row in rows:
            batch = Batch(*row)
            batches.append(replace(batch, state=StoredBatchState(batch.state)))
    return batches


def next_batch(connection: sqlite3.Connection, job: str) -> tuple[int, str]:
    """Return the number of a job's next batch, and its mark: sent to the vendor, and the prefix of
    its custom_ids."""
    (number,) = connection.execute(
        "SELECT coalesce(max(number), 0) + 1 FROM batch WHERE job = ?", (job,)
    ).fetchone()
    return number, f"xs_{job.removeprefix('b_')}_{number}"


CUSTOM_ID = re.compile(r"(xs_[0-9a-f]+_\d+)-q(\d{1,9})-a(\d{1,9})")


def custom_id(mark: str, name: RequestName) -> str:
    """Name a batch's request, as in its input."""
    return f"{mark}-q{name[0]}-a{name[1]}"


def parse_custom_id(identifier: str) -> tuple[str, RequestName] | None:
    """Return the batch's mark and the request in a custom_id; None if it is not of xscore's
    making."""
    match = CUSTOM_ID.fullmatch(identifier)
    if match:
        return (match[1], (int(match[2]), int(match[3])))
    return None


def smallest_refused(connection: sqlite3.Connection, job: str) -> int | None:
    """Return the requests of the smallest batch refused for lack of room since the last collected
    one."""
    row = connection.execute(
        "SELECT min(requests) FROM batch WHERE job = ?1 AND state = 'failed' AND instr(problem, ?2)"
        " = 1 AND number > (SELECT coalesce(max(number), 0) FROM batch WHERE job = ?1 AND state ="
        " 'collected')",
        (job, QUEUE_FULL),
    ).fetchone()
    if row[0] is None:
        return None
    return int(row[0])


def known_vendor_ids(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the vendor's ids of all batches in this store."""
    rows = connection.execute("SELECT vendor_id FROM batch WHERE vendor_id <> ''").fetchall()
    return frozenset(identifier for (identifier,) in rows)


def insert_batch(
    connection: sqlite3.Connection, batch: Batch, requests: Iterable[RequestName]
) -> None:
    """Record a batch that is about to be created, with its requests."""
    connection.execute(
        "INSERT INTO batch (job, number, token, state, marked_at, requests, bytes, input_tokens)"
        " VALUES (?, ?, ?, 'marked', ?, ?, ?, ?)",
        (
            batch.job,
            batch.number,
            batch.mark,
            batch.marked_at,
            batch.requests,
            batch.bytes,
            batch.input_tokens,
        ),
    )
    connection.executemany(
        "UPDATE job_request SET state = 'sent', batch = ?, tries = tries + 1"
        " WHERE job = ? AND question = ? AND ask = ? AND state = 'planned'",
        ((batch.number, batch.job, question, prompt) for question, prompt in requests),
    )


def update_batch(
    connection: sqlite3.Connection, batch: Batch, *states: StoredBatchState, **columns: Any
) -> Batch:
    """Update columns of a batch in one of these states; return the updated batch."""
    named = ", ".join(f"{name} = ?" for name in columns)
    connection.execute(
        f"UPDATE batch SET {named} WHERE job = ? AND number = ? AND state IN"
        f" ({', '.join('?' * len(states))})",
        (*columns.values(), batch.job, batch.number, *states),
    )
    return replace(
        batch,
        **{name: value for name, value in columns.items() if name in Batch.__struct_fields__},
    )


def move_batch(
    connection: sqlite3.Connection, batch: Batch, to: StoredBatchState, **columns: Any
) -> Batch:
    """Move a batch to its next state and set columns; a final state frees its reservation."""
    if to not in OPEN_STATES:
        connection.execute("DELETE FROM reservation WHERE id = ?", (batch.mark,))
    return update_batch(connection, batch, *LEAVES[to], state=to, **columns)


def record_created(
    connection: sqlite3.Connection, batch: Batch, vendor_batch: VendorBatch
) -> None:
    """Record that the vendor has a batch."""
    move_batch(
        connection,
        batch,
        StoredBatchState.CREATED,
        vendor_id=vendor_batch.vendor_id,
        status=vendor_batch.status,
        problem="",
    )


def record_status(
    connection: sqlite3.Connection, batch: Batch, vendor_batch: VendorBatch, *, at: float
) -> Batch:
    """Record the vendor's status of a batch."""
    return update_batch(
        connection,
        batch,
        StoredBatchState.CREATED,
        StoredBatchState.ENDED,
        status=vendor_batch.status,
        seen_at=at,
    )


def fail_batch(
    connection: sqlite3.Connection, batch: Batch, problem: str, *, counts: bool
) -> None:
    """Record that nothing of a batch ran, and replan its requests. counts: whether it counts as a
    try."""
    move_batch(connection, batch, StoredBatchState.FAILED, problem=problem)
    if not counts:
        connection.execute(
            "UPDATE job_request SET tries = tries - 1 WHERE job = ? AND batch = ? AND state ="
            " 'sent'",
            (batch.job, batch.number),
        )
    rows = connection.execute(
        "SELECT question, ask FROM job_request WHERE job = ? AND batch = ? AND state = 'sent'",
        (batch.job, batch.number),
    ).fetchall()
    replan_requests(connection, batch.job, dict.fromkeys(rows, f"provider: {problem}"))


def replan_requests(
    connection: sqlite3.Connection, job: str, requests: Mapping[RequestName, str]
) -> None:
    """Plan sent requests again, each with its cause; those out of tries are lost."""
    connection.executemany(
        "UPDATE job_request SET state = iif(tries < ?1, 'planned', 'lost'), cause = iif(tries < ?1,"
        " '', ?2) WHERE job = ?3 AND question = ?4 AND ask = ?5 AND state = 'sent'",
        ((MAX_TRIES, cause, job, *name) for name, cause in requests.items()),
    )


def lose_requests(
    connection: sqlite3.Connection, job: str, requests: Mapping[RequestName, str]
) -> None:
    """Mark unanswered requests as lost, each with its cause: `refused: the model declined`."""
    connection.executemany(
        "UPDATE job_request SET state = 'lost', cause = ?"
        " WHERE job = ? AND question = ? AND ask = ? AND state IN ('planned', 'sent')",
        ((cause, job, *name) for name, cause in requests.items()),
    )


def lose_planned_if_stopped(connection: sqlite3.Connection, job: str) -> None:
    """Mark a stopped job's unsent requests as lost."""
    connection.execute(
        "UPDATE job_request SET state = 'lost', cause = 'interrupted: the job was cancelled' WHERE"
        " job = ? AND state = 'planned' AND EXISTS (SELECT 1 FROM job WHERE id = job_request.job"
        " AND stopped_at IS NOT NULL)",
        (job,),
    )


def mark_answered(
    connection: sqlite3.Connection, job: str, requests: Iterable[RequestName]
) -> None:
    """Mark requests as answered, or judged elsewhere."""
    connection.executemany(
        "UPDATE job_request SET state = 'answered', cause = '' WHERE job = ? AND question = ? AND"
        " ask = ?",
        ((job, *name) for name in requests),
    )


def judged_questions(connection: sqlite3.Connection, job: BatchJob) -> dict[int, str]:
    """Return the turn keys of questions with at least one judgment, by number."""
    rows = connection.execute(
        "SELECT number, job_question.turn_key FROM job_question JOIN query ON query.turn_key ="
        " job_question.turn_key AND query.judge = ? AND query.sample = 0 WHERE job = ?",
        (job.judge, job.id),
    )
    return dict(rows.fetchall())


def stop_job(connection: sqlite3.Connection, job: str, *, at: float) -> None:
    """Record that the user stopped a job."""
    connection.execute(
        "UPDATE job SET stopped_at = ? WHERE id = ? AND ended_at IS NULL", (at, job)
    )


def is_job_stopped(connection: sqlite3.Connection, job: str) -> bool:
    """Return whether the user stopped a job, possibly during this pass."""
    row = connection.execute(
        "SELECT 1 FROM job WHERE id = ? AND stopped_at IS NOT NULL", (job,)
    ).fetchone()
    return row is not None


def set_job_cap(connection: sqlite3.Connection, job: str, usd: Decimal) -> None:
    """Set another cap for a job."""
    connection.execute("UPDATE job SET max_usd = ? WHERE id = ?", (money.picodollars(usd), job))


def end_job_if_done(connection: sqlite3.Connection, job: str, *, at: float) -> None:
    """End a job with nothing left to send or fetch."""
    connection.execute(
        "UPDATE job SET ended_at = ? WHERE id = ? AND ended_at IS NULL AND NOT EXISTS (SELECT 1"
        " FROM job_request WHERE job = job.id AND state IN ('planned', 'sent')) AND NOT EXISTS"
        f" (SELECT 1 FROM batch WHERE job = job.id AND {BATCH_IS_OPEN})",
        (at, job),
    )


_REQUESTS = "SELECT state, count(*) FROM job_request WHERE job = ? GROUP BY state"
_ASKED = """
    WITH whole AS (
        SELECT iif(state = 'lost', substr(cause, 1, instr(cause, ':') - 1), '') AS kind,
            state IN ('planned', 'sent') AS waits, ask, count(*) AS requests
        FROM job_request WHERE job = ?1 GROUP BY 1, 2, 3
    ), parts AS (
        SELECT max(state IN ('planned', 'sent')) AS waits,
          max(iif(state = 'lost', cause, '')) AS cause
        FROM job_request CROSS JOIN job_ask ON job_ask.job = ?1 AND number = ask
        WHERE job_request.job = ?1 AND json_array_length(pieces, '$[0]') > 1
        GROUP BY question, json_extract(pieces, '$[0][1]')
    )
    SELECT kind, waits, sum((rung = 0) * requests * json_array_length(pieces)),
        sum(requests * json_array_length(pieces))
    FROM whole CROSS JOIN job_ask ON job = ?1 AND number = ask
    WHERE json_array_length(pieces, '$[0]') = 1 GROUP BY 1, 2
    UNION ALL
    SELECT iif(waits, '', substr(cause, 1, instr(cause, ':') - 1)), waits, count(*), count(*)
      FROM parts GROUP BY 1, 2
    ORDER BY 1
"""
"""SQL that counts why memories are lost, or whether they wait: how many were asked for first,
and how many are so now. A part is alone in its prompt; a memory in parts waits while one of
them does."""
_WAITING = (
    "SELECT batch, count(*) FROM job_request WHERE job = ? AND state = 'sent' GROUP BY batch"
)
_DOLLARS = """
    SELECT coalesce(sum(cost), 0), count(*) - count(cost),
        (SELECT coalesce(sum(amount), 0) FROM reservation WHERE turn_id = ?1)
    FROM call WHERE turn_id = ?1
"""


def job_status(connection: sqlite3.Connection, job_id: str) -> JobStatus:
    """Return the status of a job. Raises NothingMatched, StoreDamaged."""
    job = read_job(connection, job_id)
    states = dict(connection.execute(_REQUESTS, (job_id,)).fetchall())
    spent, unpriced, reserved = connection.execute(_DOLLARS, (job_id,)).fetchone()
    (questions,) = connection.execute(
        "SELECT count(*) FROM job_question WHERE job = ?", (job_id,)
    ).fetchone()
    with damage_if_invalid("what a job cost"):
        spent_usd = money.dollars_of_picodollars(spent)
        reserved_usd = money.dollars_of_picodollars(reserved)
    return JobStatus(
        job=job.id,
        command=job.command,
        judge=job.judge_spec,
        created_at=job.created_at,
        ended_at=job.ended_at,
        writes=job.recipe.writes,
        questions=questions,
        candidates=job.candidates,
        cached=job.cached,
        batches=_batches(connection, job_id),
        spent_usd=spent_usd,
        unpriced=unpriced,
        set_aside_usd=reserved_usd,
        max_usd=job.max_usd,
        **states,
        **_asked(connection, job_id),
    )


def _asked(connection: sqlite3.Connection, job_id: str) -> dict[str, Any]:
    counts = connection.execute(_ASKED, (job_id,)).fetchall()
    first_asked = sum(first for *_, first, _ in counts)
    unjudged = Counter[str]()
    for kind, waits, _, count in counts:
        # Rows without a cause that wait for nothing are judged.
        if kind or waits:
            unjudged[kind] += count
    waiting = unjudged.pop("", 0)
    return {
        "asked": first_asked,
        "judged": first_asked - waiting - unjudged.total(),
        "unjudged": dict(unjudged),
    }


def _batches(connection: sqlite3.Connection, job_id: str) -> tuple[Batch, ...]:
    waiting = dict(connection.execute(_WAITING, (job_id,)).fetchall())
    batches = read_batches(connection, job_id)
    return tuple(replace(batch, waiting=waiting.get(batch.number, 0)) for batch in batches)
