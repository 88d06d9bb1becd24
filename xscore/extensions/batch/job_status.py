"""How far a job is, read from the store alone: no vendor is asked.

What was judged is what is asked and neither waits nor is lost, so that the figures always add up. Trade-off:
a memory in parts counts as waiting while one of its parts does, whatever the others came to.

A look at a job's batches at their vendor: what it says is noted, and nothing else moves.

The vendor of a job: the one that it was planned for, whatever judge the settings name today.
"""

import json
import sqlite3
from collections import Counter

from msgspec.structs import replace

from xscore.cache import capabilities
from xscore.extensions.batch import batch_rows, job_rows
from xscore.extensions.batch.job_rows import BatchJob
from xscore.extensions.batch.vendor import BatchHost, batch_host
from xscore.platform import database, money
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import ProviderError, UsageError
from xscore.platform.text import join_sentences, one_line
from xscore.providers.spec import parse_model_spec
from xscore.records.batch import BatchStatus, JobStatus
from xscore.scorer.repair import PackPrompt
from xscore.settings import Settings
from xscore.store.store import Store

_REQUESTS = "SELECT state, count(*) FROM job_request WHERE job = ? GROUP BY state"
_OPEN_OR_LOST = """
    SELECT ask, state, cause, count(*), json_group_array(question) FROM job_request
    WHERE job = ? AND state <> 'answered' GROUP BY ask, state, cause
"""
_ASKED_WHOLE = """
    SELECT coalesce(sum(json_array_length(pieces) * asked), 0)
    FROM (SELECT ask, count(*) AS asked FROM job_request WHERE job = ?1 GROUP BY ask)
    CROSS JOIN job_ask ON job_ask.job = ?1 AND number = ask
    WHERE rung = 0 AND json_array_length(pieces, '$[0]') = 1
"""
_ASKED_IN_PARTS = """
    SELECT count(*) FROM (
        SELECT DISTINCT question, json_extract(piece.value, '$[1]')
        FROM job_request CROSS JOIN job_ask ON job_ask.job = job_request.job AND job_ask.number = ask
        CROSS JOIN json_each(pieces) AS piece
        WHERE job_request.job = ? AND rung = 0 AND json_array_length(pieces, '$[0]') > 1
    )
"""
_WAITING = "SELECT batch, count(*) FROM job_request WHERE job = ? AND state = 'sent' GROUP BY batch"
_SPENT = "SELECT coalesce(sum(cost), 0), count(*) - count(cost) FROM call WHERE turn_id = ?"
_RESERVED = "SELECT coalesce(sum(amount), 0) FROM reservation WHERE turn_id = ?"


_JUDGED_LIVE = """
    SELECT coalesce(sum(max(0, min(candidates, known) - cached)), 0) FROM (
        SELECT candidates, cached, (
            SELECT count(*) FROM query JOIN judgment ON query_id = query.id
            WHERE query.turn_key = job_question.turn_key AND query.judge = ? AND query.sample = 0
        ) AS known
        FROM job_question WHERE job = ?
    )
"""


def job_status(connection: sqlite3.Connection, job_id: str) -> JobStatus:
    """Return how a job stands. Raises NothingMatched, StoreDamaged."""
    job = job_rows.read_job(connection, job_id)
    counts = dict(connection.execute(_REQUESTS, (job_id,)).fetchall())
    if not counts:
        return _live_job_status(connection, job)
    waiting, unjudged = _count_open(connection, job)
    asked = sum(connection.execute(query, (job_id,)).fetchone()[0] for query in (_ASKED_WHOLE, _ASKED_IN_PARTS))
    spent, unpriced = connection.execute(_SPENT, (job_id,)).fetchone()
    (aside,) = connection.execute(_RESERVED, (job_id,)).fetchone()
    (questions,) = connection.execute("SELECT count(*) FROM job_question WHERE job = ?", (job_id,)).fetchone()
    with damage_if_invalid("what a job cost"):
        spent_usd, aside_usd = money.dollars_of_picodollars(spent), money.dollars_of_picodollars(aside)
    return JobStatus(
        job=job.id,
        command=job.command,
        judge=job.judge_spec,
        created_at=job.created_at,
        ended_at=job.ended_at,
        questions=questions,
        candidates=job.candidates,
        cached=job.cached,
        asked=asked,
        judged=asked - waiting - sum(unjudged.values()),
        unjudged=dict(sorted(unjudged.items())),
        planned=counts.get("planned", 0),
        sent=counts.get("sent", 0),
        answered=counts.get("answered", 0),
        lost=counts.get("lost", 0),
        batches=_batches(connection, job_id),
        spent_usd=spent_usd,
        unpriced=unpriced,
        set_aside_usd=aside_usd,
        max_usd=job.max_usd,
    )


def _live_job_status(connection: sqlite3.Connection, job: BatchJob) -> JobStatus:
    """Return how a list stands that is judged live: it asks for what the cache lacked, and has no requests."""
    spent, unpriced = connection.execute(_SPENT, (job.id,)).fetchone()
    (questions,) = connection.execute("SELECT count(*) FROM job_question WHERE job = ?", (job.id,)).fetchone()
    (judged,) = connection.execute(_JUDGED_LIVE, (job.judge, job.id)).fetchone()
    with damage_if_invalid("what a job cost"):
        spent_usd = money.dollars_of_picodollars(spent)
    return JobStatus(
        job=job.id,
        command=job.command,
        judge=job.judge_spec,
        created_at=job.created_at,
        ended_at=job.ended_at,
        questions=questions,
        candidates=job.candidates,
        cached=job.cached,
        asked=job.candidates - job.cached,
        judged=min(judged, job.candidates - job.cached),
        unjudged={},
        planned=0,
        sent=0,
        answered=0,
        lost=0,
        batches=(),
        spent_usd=spent_usd,
        unpriced=unpriced,
        set_aside_usd=money.dollars_of_picodollars(0),
        max_usd=job.max_usd,
    )


def _batches(connection: sqlite3.Connection, job_id: str) -> tuple[BatchStatus, ...]:
    waiting = dict(connection.execute(_WAITING, (job_id,)).fetchall())
    return tuple(
        BatchStatus(
            number=one.number,
            mark=one.mark,
            vendor_id=one.vendor_id,
            state=one.state,
            status=one.status,
            seen_at=one.seen_at,
            requests=one.requests,
            waiting=waiting.get(one.number, 0),
            marked_at=one.marked_at,
            problem=one.problem,
        )
        for one in batch_rows.read_batches(connection, job_id)
    )


def _count_open(connection: sqlite3.Connection, job: BatchJob) -> tuple[int, Counter[str]]:
    """Count the candidates that wait, and those that are lost, by cause."""
    rows = connection.execute(_OPEN_OR_LOST, (job.id,)).fetchall()
    asks = job_rows.read_asks(connection, job.id, {row[0] for row in rows})
    waiting, lost = 0, Counter[str]()
    in_parts: dict[tuple[int, str], str] = {}
    for number, state, cause, count, questions in rows:
        ask, kind = asks[number], cause.partition(":")[0]
        if any(piece.is_part for piece in ask.pieces):
            _note_parts(in_parts, ask, questions, "" if state != "lost" else kind)
        elif state == "lost":
            lost[kind] += count * len(ask.pieces)
        else:
            waiting += count * len(ask.pieces)
    for kind in in_parts.values():
        if kind:
            lost[kind] += 1
        else:
            waiting += 1
    return waiting, lost


def _note_parts(found: dict[tuple[int, str], str], ask: PackPrompt, questions: str, kind: str) -> None:
    """Note of each question and memory whether a part of it waits (empty), or why one is lost."""
    for question in json.loads(questions):
        for piece in ask.pieces:
            before = found.get((question, piece.memory), kind)
            found[question, piece.memory] = before and kind


def batch_host_of_job(store: Store, settings: Settings, job: BatchJob) -> BatchHost:
    """Return the Batch API of a job's judge; nothing is sent yet.

    Raises UsageError where the settings lead to another host now, AuthenticationFailed where there is no key for it.
    """
    recipe = job.recipe
    host = batch_host(parse_model_spec(job.judge_spec), settings)
    if host.host != recipe.host:
        raise UsageError(
            f"job {job.id} is at {one_line(recipe.host)}, and {one_line(host.name)} leads to {one_line(host.host)} now",
            hint=f"Set {host.name}.base_url as it was when the job was submitted.",
        )
    known = capabilities.read_capability(
        store.connection, provider=recipe.provider, host=recipe.host, model=recipe.model.name
    )
    if known is not None:
        host.adopt(known)
    return host


async def job_status_at_vendor(store: Store, settings: Settings, job: BatchJob) -> JobStatus:
    """Ask how a job's batches are, and return how it stands. A host that fails or cannot be used is said in it."""
    waiting = [
        one for one in batch_rows.read_batches(store.connection, job.id, only_open=True) if one.state == "created"
    ]
    problem = ""
    if waiting:
        try:
            host = batch_host_of_job(store, settings, job)
            try:
                for batch in waiting:
                    found = await host.look(batch.vendor_id)
                    with database.transaction(store.connection) as connection:
                        batch_rows.record_status(connection, batch, found, at=store.clock())
            finally:
                await host.aclose()
        except (ProviderError, UsageError) as error:
            problem = join_sentences(error.message, error.hint)
    return replace(job_status(store.connection, job.id), problem=problem)
