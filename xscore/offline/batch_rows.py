"""Rows of batches and what becomes of their requests: each function is one step of the machine, in its transaction.

    marked -> created -> ended -> collected          planned -> sent -> answered
       \\-> failed   \\-> failed                           ^------/ \\--> lost

A request goes with one batch at a time, and is planned again when that batch did not answer it. Every statement says
which state it leaves, so that a step done twice changes nothing the second time.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from xscore.database import making_sense
from xscore.offline.job_rows import RequestName, asks
from xscore.offline.rendering import Filled
from xscore.records.offline import BatchSeen
from xscore.scorer.repair import Ask

FULL = "too much waits: "
"""Begins the problem of a batch that the vendor had no room for."""
MOST_TRIES = 3
"""So often a request goes with a batch that does not answer it; then it is lost."""
_COLUMNS = "number, mark, state, marked_at, file_id, vendor_id, status, seen_at, requests, bytes, input_tokens, problem"
OPEN = "state IN ('marked', 'created', 'ended')"
_AGAIN = """
    UPDATE job_request SET state = iif(tries < ?, 'planned', 'lost'), cause = iif(tries < ?, '', ?)
    WHERE job = ? AND question = ? AND ask = ? AND state = 'sent'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
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


def batches(connection: sqlite3.Connection, job: str, *, only_open: bool = False) -> list[Batch]:
    """Return the batches of a job in their order, or those that are not settled."""
    where = f" AND {OPEN}" if only_open else ""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM batch WHERE job = ?{where} ORDER BY number",  # noqa: S608  our own words
        (job,),
    ).fetchall()
    return [_batch(job, row) for row in rows]


def next_number(connection: sqlite3.Connection, job: str) -> int:
    """Return the number that the next batch of a job will have."""
    row = connection.execute("SELECT coalesce(max(number), 0) + 1 FROM batch WHERE job = ?", (job,)).fetchone()
    return int(row[0])


def mark_of(job: str, number: int) -> str:
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


def refused_tokens(connection: sqlite3.Connection, job: str) -> int | None:
    """Return the input tokens of the smallest batch that the vendor had no room for, since one was collected last.

    None: it had for all.
    """
    row = connection.execute(
        "SELECT min(input_tokens) FROM batch WHERE job = ?1 AND state = 'failed' AND instr(problem, ?2) = 1"
        " AND number > (SELECT coalesce(max(number), 0) FROM batch WHERE job = ?1 AND state = 'collected')",
        (job, FULL),
    ).fetchone()
    return None if row[0] is None else int(row[0])


def known_vendor_ids(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the vendor's ids of all batches of this store."""
    rows = connection.execute("SELECT vendor_id FROM batch WHERE vendor_id <> ''").fetchall()
    return frozenset(identifier for (identifier,) in rows)


def settled_of(connection: sqlite3.Connection, batch: Batch) -> frozenset[RequestName]:
    """Return the requests of a batch whose results are in."""
    rows = connection.execute(
        "SELECT question, ask FROM job_request WHERE job = ? AND batch = ? AND state <> 'sent'",
        (batch.job, batch.number),
    ).fetchall()
    return frozenset(rows)


def follow_ups(connection: sqlite3.Connection, job: str) -> dict[Ask, int]:
    """Return the asks of a job's repair ladder with their numbers."""
    rows = connection.execute("SELECT number FROM job_ask WHERE job = ? AND rung > 0", (job,)).fetchall()
    return {ask: number for number, ask in asks(connection, job, [number for (number,) in rows]).items()}


def mark(connection: sqlite3.Connection, batch: Batch, requests: Iterable[RequestName]) -> None:
    """Enter a batch that is about to be created, and send its requests with it."""
    connection.execute(
        "INSERT INTO batch (job, number, mark, state, marked_at, requests, bytes, input_tokens)"
        " VALUES (?, ?, ?, 'marked', ?, ?, ?, ?)",
        (batch.job, batch.number, batch.mark, batch.marked_at, batch.requests, batch.bytes, batch.input_tokens),
    )
    connection.executemany(
        "UPDATE job_request SET state = 'sent', batch = ?, tries = tries + 1"
        " WHERE job = ? AND question = ? AND ask = ? AND state = 'planned'",
        ((batch.number, batch.job, question, ask) for question, ask in requests),
    )


def thin(connection: sqlite3.Connection, batch: Batch, filled: Filled) -> None:
    """Note of requests what their prompts do not show although their asks name it."""
    connection.executemany(
        "UPDATE job_request SET cause = ? WHERE job = ? AND batch = ? AND ask = ? AND state = 'sent'",
        ((json.dumps(sorted(bare)), batch.job, batch.number, ask) for ask, bare in filled.thinned.items()),
    )


def not_shown(connection: sqlite3.Connection, batch: Batch) -> dict[RequestName, frozenset[str]]:
    """Return which contents of their asks the prompts of this batch did not show, where there are any."""
    rows = connection.execute(
        "SELECT question, ask, cause FROM job_request WHERE job = ? AND batch = ? AND state = 'sent' AND cause <> ''",
        (batch.job, batch.number),
    ).fetchall()
    with making_sense("a request of a batch"):
        return {(question, ask): frozenset(json.loads(bare)) for question, ask, bare in rows}


def resized(connection: sqlite3.Connection, batch: Batch, filled: Filled) -> Batch:
    """Enter what a batch that was rendered again holds."""
    requests = len(filled.taken)
    connection.execute(
        "UPDATE batch SET requests = ?, bytes = ?, input_tokens = ?, problem = ''"
        " WHERE job = ? AND number = ? AND state = 'marked'",
        (requests, filled.bytes, filled.input_tokens, batch.job, batch.number),
    )
    return replace(batch, requests=requests, bytes=filled.bytes, input_tokens=filled.input_tokens, problem="")


def note(connection: sqlite3.Connection, batch: Batch, problem: str) -> None:
    """Enter what is to be known of a marked batch; empty: nothing."""
    connection.execute(
        "UPDATE batch SET problem = ? WHERE job = ? AND number = ? AND state = 'marked'",
        (problem, batch.job, batch.number),
    )


def remark(connection: sqlite3.Connection, batch: Batch, problem: str) -> None:
    """Enter what is to be known of a batch that has ended."""
    connection.execute(
        "UPDATE batch SET problem = ? WHERE job = ? AND number = ? AND state IN ('created', 'ended')",
        (problem, batch.job, batch.number),
    )


def uploaded(connection: sqlite3.Connection, batch: Batch, file_id: str) -> Batch:
    """Enter the id of its input."""
    connection.execute(
        "UPDATE batch SET file_id = ? WHERE job = ? AND number = ? AND state = 'marked'",
        (file_id, batch.job, batch.number),
    )
    return replace(batch, file_id=file_id)


def created(connection: sqlite3.Connection, batch: Batch, seen: BatchSeen) -> None:
    """Enter that the vendor has it."""
    connection.execute(
        "UPDATE batch SET state = 'created', vendor_id = ?, created_at = ?, status = ?, problem = ''"
        " WHERE job = ? AND number = ? AND state = 'marked'",
        (seen.vendor_id, seen.created_at, seen.status, batch.job, batch.number),
    )


def seen(connection: sqlite3.Connection, batch: Batch, found: BatchSeen, *, at: float) -> None:
    """Enter the vendor's word."""
    connection.execute(
        "UPDATE batch SET status = ?, seen_at = ? WHERE job = ? AND number = ? AND state IN ('created', 'ended')",
        (found.status, at, batch.job, batch.number),
    )


def ended(connection: sqlite3.Connection, batch: Batch) -> None:
    """Enter that its results can be fetched."""
    connection.execute(
        "UPDATE batch SET state = 'ended' WHERE job = ? AND number = ? AND state = 'created'", (batch.job, batch.number)
    )


def collected(connection: sqlite3.Connection, batch: Batch) -> None:
    """Enter that all its results are in."""
    connection.execute(
        "UPDATE batch SET state = 'collected' WHERE job = ? AND number = ? AND state = 'ended'",
        (batch.job, batch.number),
    )


def failed(connection: sqlite3.Connection, batch: Batch, problem: str, *, counts: bool) -> None:
    """Enter that nothing of it was run; its requests are planned again. counts: as one of their tries."""
    connection.execute(
        f"UPDATE batch SET state = 'failed', problem = ? WHERE job = ? AND number = ? AND {OPEN}",  # noqa: S608  ours
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
    again(connection, batch.job, dict.fromkeys(rows, f"provider: {problem}"))


def again(connection: sqlite3.Connection, job: str, requests: Mapping[RequestName, str]) -> None:
    """Plan sent requests again, each with why; those that had their tries are lost for it."""
    connection.executemany(_AGAIN, ((MOST_TRIES, MOST_TRIES, cause, job, *name) for name, cause in requests.items()))


def lost(connection: sqlite3.Connection, job: str, requests: Mapping[RequestName, str]) -> None:
    """Give requests up, each for its cause: `refused: the model declined`."""
    connection.executemany(
        "UPDATE job_request SET state = 'lost', cause = ?"
        " WHERE job = ? AND question = ? AND ask = ? AND state IN ('planned', 'sent')",
        ((cause, job, *name) for name, cause in requests.items()),
    )


def answered(connection: sqlite3.Connection, job: str, requests: Iterable[RequestName]) -> None:
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
