r"""Rows of batches and what becomes of their requests: each function is one step of the machine, in its transaction.

    marked -> created -> ended -> collected          planned -> sent -> answered
       \-> failed   \-> failed                           ^------/ \--> lost

A request goes with one batch at a time, and is planned again when that batch did not answer it. Every statement says
which state it leaves, so that a step done twice changes nothing the second time.

Steps of a whole job: capped, stopped, settled by what others judged, ended. Each within its caller's transaction.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.batch.job_rows import BatchJob, RequestName, read_asks
from xscore.extensions.batch.rendering import BatchInput
from xscore.platform import money
from xscore.platform.database import damage_if_invalid
from xscore.records.batch import VendorBatch
from xscore.scorer.repair import PackPrompt

QUEUE_FULL = "too much waits: "
"""Begins the problem of a batch that the vendor had no room for."""
MOST_TRIES = 3
"""So often a request goes with a batch that does not answer it; then it is lost."""
_BATCH_COLUMNS = (
    "number, token, state, marked_at, file_id, vendor_id, status, seen_at, requests, bytes, input_tokens, problem"
)
BATCH_IS_OPEN = "state IN ('marked', 'created', 'ended')"
_AGAIN = """
    UPDATE job_request SET state = iif(tries < ?, 'planned', 'lost'), cause = iif(tries < ?, '', ?)
    WHERE job = ? AND question = ? AND ask = ? AND state = 'sent'
"""


class Batch(Struct, frozen=True, kw_only=True):
    """One batch of a job."""

    job: str
    number: int
    mark: str
    state: str
    marked_at: float
    file_id: str = ""
    vendor_id: str = ""
    status: str = ""
    seen_at: float | None = None
    requests: int
    bytes: int
    input_tokens: int
    problem: str = ""


def read_batches(connection: sqlite3.Connection, job: str, *, only_open: bool = False) -> list[Batch]:
    """Return the batches of a job in their order, or those that are not settled."""
    where = f" AND {BATCH_IS_OPEN}" if only_open else ""
    rows = connection.execute(
        f"SELECT {_BATCH_COLUMNS} FROM batch WHERE job = ?{where} ORDER BY number",
        (job,),
    ).fetchall()
    return [_batch(job, row) for row in rows]


def next_number(connection: sqlite3.Connection, job: str) -> int:
    """Return the number that the next batch of a job will have."""
    row = connection.execute("SELECT coalesce(max(number), 0) + 1 FROM batch WHERE job = ?", (job,)).fetchone()
    return int(row[0])


def batch_mark(job: str, number: int) -> str:
    """Name a batch: what is told to the vendor, and what its custom_ids begin with."""
    return f"xs_{job.removeprefix('b_')}_{number}"


def custom_id(mark: str, name: RequestName) -> str:
    """Name a request of a batch, as its input has it."""
    return f"{mark}-q{name[0]}-a{name[1]}"


def enqueued_tokens(connection: sqlite3.Connection, job: str) -> int:
    """Return our estimate of the input tokens that wait where a job's do: at its host, for its model."""
    row = connection.execute(
        "SELECT coalesce(sum(input_tokens), 0) FROM batch JOIN job ON job.id = batch.job JOIN job AS ours"
        " ON ours.id = ? AND ours.judge_spec = job.judge_spec"
        " AND json_extract(ours.plan, '$.host') = json_extract(job.plan, '$.host')"
        " WHERE state IN ('marked', 'created')",
        (job,),
    ).fetchone()
    return int(row[0])


def smallest_refused_tokens(connection: sqlite3.Connection, job: str) -> int | None:
    """Return the input tokens of the smallest batch that the vendor had no room for, since one was collected last.

    None: it had for all.
    """
    row = connection.execute(
        "SELECT min(input_tokens) FROM batch WHERE job = ?1 AND state = 'failed' AND instr(problem, ?2) = 1"
        " AND number > (SELECT coalesce(max(number), 0) FROM batch WHERE job = ?1 AND state = 'collected')",
        (job, QUEUE_FULL),
    ).fetchone()
    return None if row[0] is None else int(row[0])


def known_vendor_ids(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the vendor's ids of all batches of this store."""
    rows = connection.execute("SELECT vendor_id FROM batch WHERE vendor_id <> ''").fetchall()
    return frozenset(identifier for (identifier,) in rows)


def settled_requests(connection: sqlite3.Connection, batch: Batch) -> frozenset[RequestName]:
    """Return the requests of a batch whose results are in."""
    rows = connection.execute(
        "SELECT question, ask FROM job_request WHERE job = ? AND batch = ? AND state <> 'sent'",
        (batch.job, batch.number),
    ).fetchall()
    return frozenset(rows)


def read_follow_ups(connection: sqlite3.Connection, job: str) -> dict[PackPrompt, int]:
    """Return the asks of a job's repair ladder with their numbers."""
    rows = connection.execute("SELECT number FROM job_ask WHERE job = ? AND rung > 0", (job,)).fetchall()
    return {ask: number for number, ask in read_asks(connection, job, [number for (number,) in rows]).items()}


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


def record_omitted(connection: sqlite3.Connection, batch: Batch, filled: BatchInput) -> None:
    """Note of requests what their prompts do not show although their asks name it."""
    connection.executemany(
        "UPDATE job_request SET cause = ? WHERE job = ? AND batch = ? AND ask = ? AND state = 'sent'",
        ((json.dumps(sorted(bare)), batch.job, batch.number, ask) for ask, bare in filled.thinned.items()),
    )


def read_omitted(connection: sqlite3.Connection, batch: Batch) -> dict[RequestName, frozenset[str]]:
    """Return which contents of their asks the prompts of this batch did not show, where there are any."""
    rows = connection.execute(
        "SELECT question, ask, cause FROM job_request WHERE job = ? AND batch = ? AND state = 'sent' AND cause <> ''",
        (batch.job, batch.number),
    ).fetchall()
    with damage_if_invalid("a request of a batch"):
        return {(question, ask): frozenset(json.loads(bare)) for question, ask, bare in rows}


def record_resized(connection: sqlite3.Connection, batch: Batch, filled: BatchInput) -> Batch:
    """Enter what a batch that was rendered again holds."""
    requests = len(filled.taken)
    connection.execute(
        "UPDATE batch SET requests = ?, bytes = ?, input_tokens = ?, problem = ''"
        " WHERE job = ? AND number = ? AND state = 'marked'",
        (requests, filled.bytes, filled.input_tokens, batch.job, batch.number),
    )
    return replace(batch, requests=requests, bytes=filled.bytes, input_tokens=filled.input_tokens, problem="")


def set_marked_problem(connection: sqlite3.Connection, batch: Batch, problem: str) -> None:
    """Enter what is to be known of a marked batch; empty: nothing."""
    connection.execute(
        "UPDATE batch SET problem = ? WHERE job = ? AND number = ? AND state = 'marked'",
        (problem, batch.job, batch.number),
    )


def set_ended_problem(connection: sqlite3.Connection, batch: Batch, problem: str) -> None:
    """Enter what is to be known of a batch that has ended."""
    connection.execute(
        "UPDATE batch SET problem = ? WHERE job = ? AND number = ? AND state IN ('created', 'ended')",
        (problem, batch.job, batch.number),
    )


def record_uploaded(connection: sqlite3.Connection, batch: Batch, file_id: str) -> Batch:
    """Enter the id of its input."""
    connection.execute(
        "UPDATE batch SET file_id = ? WHERE job = ? AND number = ? AND state = 'marked'",
        (file_id, batch.job, batch.number),
    )
    return replace(batch, file_id=file_id)


def record_created(connection: sqlite3.Connection, batch: Batch, seen: VendorBatch) -> None:
    """Enter that the vendor has it."""
    connection.execute(
        "UPDATE batch SET state = 'created', vendor_id = ?, created_at = ?, status = ?, problem = ''"
        " WHERE job = ? AND number = ? AND state = 'marked'",
        (seen.vendor_id, seen.created_at, seen.status, batch.job, batch.number),
    )


def record_status(connection: sqlite3.Connection, batch: Batch, found: VendorBatch, *, at: float) -> None:
    """Enter the vendor's word."""
    connection.execute(
        "UPDATE batch SET status = ?, seen_at = ? WHERE job = ? AND number = ? AND state IN ('created', 'ended')",
        (found.status, at, batch.job, batch.number),
    )


def record_ended(connection: sqlite3.Connection, batch: Batch) -> None:
    """Enter that its results can be fetched."""
    connection.execute(
        "UPDATE batch SET state = 'ended' WHERE job = ? AND number = ? AND state = 'created'", (batch.job, batch.number)
    )


def record_collected(connection: sqlite3.Connection, batch: Batch) -> None:
    """Enter that all its results are in."""
    connection.execute(
        "UPDATE batch SET state = 'collected' WHERE job = ? AND number = ? AND state = 'ended'",
        (batch.job, batch.number),
    )


def record_failed(connection: sqlite3.Connection, batch: Batch, problem: str, *, counts: bool) -> None:
    """Enter that nothing of it was run; its requests are planned again. counts: as one of their tries."""
    connection.execute(
        f"UPDATE batch SET state = 'failed', problem = ? WHERE job = ? AND number = ? AND {BATCH_IS_OPEN}",
        (problem, batch.job, batch.number),
    )
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
    """Plan sent requests again, each with why; those that had their tries are lost for it."""
    connection.executemany(_AGAIN, ((MOST_TRIES, MOST_TRIES, cause, job, *name) for name, cause in requests.items()))


def lose_requests(connection: sqlite3.Connection, job: str, requests: Mapping[RequestName, str]) -> None:
    """Give requests up, each for its cause: `refused: the model declined`."""
    connection.executemany(
        "UPDATE job_request SET state = 'lost', cause = ?"
        " WHERE job = ? AND question = ? AND ask = ? AND state IN ('planned', 'sent')",
        ((cause, job, *name) for name, cause in requests.items()),
    )


def settle_requests(connection: sqlite3.Connection, job: str, requests: Iterable[RequestName]) -> None:
    """Enter that requests have done what they could."""
    connection.executemany(
        "UPDATE job_request SET state = 'answered', cause = ''"
        " WHERE job = ? AND question = ? AND ask = ? AND state IN ('planned', 'sent')",
        ((job, *name) for name in requests),
    )


def _batch(job: str, row: tuple[Any, ...]) -> Batch:
    number, name, state, marked_at, file_id, vendor_id, status, seen_at, requests, size, tokens, problem = row
    return Batch(
        job=job,
        number=number,
        mark=name,
        state=state,
        marked_at=marked_at,
        file_id=file_id,
        vendor_id=vendor_id,
        status=status,
        seen_at=seen_at,
        requests=requests,
        bytes=size,
        input_tokens=tokens,
        problem=problem,
    )


_END_JOB = f"""
    UPDATE job SET ended_at = ? WHERE id = ? AND ended_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM job_request WHERE job = job.id AND state IN ('planned', 'sent'))
    AND NOT EXISTS (SELECT 1 FROM batch WHERE job = job.id AND {BATCH_IS_OPEN})
"""


def judged_questions(connection: sqlite3.Connection, job: BatchJob) -> dict[int, str]:
    """Return the turn keys of questions of which the judge has judged anything, by number."""
    rows = connection.execute(
        "SELECT number, job_question.turn_key FROM job_question"
        " JOIN query ON query.turn_key = job_question.turn_key AND query.judge = ? AND query.sample = 0"
        " WHERE job = ?",
        (job.judge, job.id),
    ).fetchall()
    return dict(rows)


def settle_judged_elsewhere(connection: sqlite3.Connection, job: str, requests: Iterable[RequestName]) -> None:
    """Enter that what requests ask is judged, though not by them: planned or lost, they are settled."""
    connection.executemany(
        "UPDATE job_request SET state = 'answered', cause = ''"
        " WHERE job = ? AND question = ? AND ask = ? AND state IN ('planned', 'lost')",
        ((job, *name) for name in requests),
    )


def stop_job(connection: sqlite3.Connection, job: str, *, at: float) -> None:
    """Enter that the user wants nothing more of a job sent."""
    connection.execute("UPDATE job SET stopped_at = ? WHERE id = ? AND ended_at IS NULL", (at, job))


def is_job_stopped(connection: sqlite3.Connection, job: str) -> bool:
    """Say whether the user wants nothing more of a job sent; he may have said so since a pass over it began."""
    row = connection.execute("SELECT 1 FROM job WHERE id = ? AND stopped_at IS NOT NULL", (job,)).fetchone()
    return row is not None


def set_job_cap(connection: sqlite3.Connection, job: str, usd: Decimal) -> None:
    """Give a job another cap."""
    connection.execute("UPDATE job SET max_usd = ? WHERE id = ?", (money.picodollars(usd), job))


def end_job_if_done(connection: sqlite3.Connection, job: str, *, at: float) -> bool:
    """Enter that a job has ended, where nothing is left to send or to fetch; say whether it has."""
    connection.execute(
        _END_JOB,
        (at, job),
    )
    return connection.execute("SELECT ended_at FROM job WHERE id = ?", (job,)).fetchone()[0] is not None
