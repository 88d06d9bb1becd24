"""The status of a job, from the store alone or after asking its vendor.

Judged = asked - waiting - lost, so the figures always add up. A job belongs to the vendor it was planned for, whatever
judge the settings name today. Trade-off: a memory in parts counts as waiting while one of
its parts does.
"""

import sqlite3
from collections import Counter
from typing import Any

from msgspec.structs import replace

from xscore.cache import capabilities
from xscore.extensions.batch import batch_rows, job_rows
from xscore.extensions.batch.job_rows import BatchJob
from xscore.extensions.batch.records import Batch, JobStatus
from xscore.extensions.batch.vendor_batches import batch_host
from xscore.extensions.batch.vendor_calls import BatchHost
from xscore.platform import database, money
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import ProviderError, UsageError
from xscore.platform.text import join_sentences, one_line
from xscore.providers.spec import connect_provider, parse_model_spec
from xscore.settings import Settings
from xscore.store.store import Store

_REQUESTS = "SELECT state, count(*) FROM job_request WHERE job = ? GROUP BY state"
_ASKED = """
    WITH whole AS (
        SELECT iif(state = 'lost', substr(cause, 1, instr(cause, ':') - 1), '') AS kind,
            state IN ('planned', 'sent') AS waits, ask, count(*) AS requests
        FROM job_request WHERE job = ?1 GROUP BY 1, 2, 3
    ), parts AS (
        SELECT max(state IN ('planned', 'sent')) AS waits, max(iif(state = 'lost', cause, '')) AS cause
        FROM job_request CROSS JOIN job_ask ON job_ask.job = ?1 AND number = ask
        WHERE job_request.job = ?1 AND json_array_length(pieces, '$[0]') > 1
        GROUP BY question, json_extract(pieces, '$[0][1]')
    )
    SELECT kind, waits, sum((rung = 0) * requests * json_array_length(pieces)),
        sum(requests * json_array_length(pieces))
    FROM whole CROSS JOIN job_ask ON job = ?1 AND number = ask
    WHERE json_array_length(pieces, '$[0]') = 1 GROUP BY 1, 2
    UNION ALL
    SELECT iif(waits, '', substr(cause, 1, instr(cause, ':') - 1)), waits, count(*), count(*) FROM parts GROUP BY 1, 2
    ORDER BY 1
"""
"""Why memories are lost, or whether they wait: how many were asked for first, and how many are so. A part stands alone
in its prompt; a memory in parts waits while one of them does."""
_WAITING = "SELECT batch, count(*) FROM job_request WHERE job = ? AND state = 'sent' GROUP BY batch"
_DOLLARS = """
    SELECT coalesce(sum(cost), 0), count(*) - count(cost),
        (SELECT coalesce(sum(amount), 0) FROM reservation WHERE turn_id = ?1)
    FROM call WHERE turn_id = ?1
"""


def job_status(connection: sqlite3.Connection, job_id: str) -> JobStatus:
    """Return the status of a job. Raises NothingMatched, StoreDamaged."""
    job = job_rows.read_job(connection, job_id)
    states = dict(connection.execute(_REQUESTS, (job_id,)).fetchall())
    spent, unpriced, reserved = connection.execute(_DOLLARS, (job_id,)).fetchone()
    (questions,) = connection.execute("SELECT count(*) FROM job_question WHERE job = ?", (job_id,)).fetchone()
    with damage_if_invalid("what a job cost"):
        spent_usd, reserved_usd = money.dollars_of_picodollars(spent), money.dollars_of_picodollars(reserved)
    return JobStatus(
        job=job.id,
        command=job.command,
        judge=job.judge_spec,
        created_at=job.created_at,
        ended_at=job.ended_at,
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
    asked, unjudged = sum(first for *_, first, _ in counts), Counter[str]()
    for kind, waits, _, count in counts:
        unjudged[kind] += count if kind or waits else 0
    waiting = unjudged.pop("", 0)
    return {"asked": asked, "judged": asked - waiting - unjudged.total(), "unjudged": dict(unjudged)}


def _batches(connection: sqlite3.Connection, job_id: str) -> tuple[Batch, ...]:
    waiting = dict(connection.execute(_WAITING, (job_id,)).fetchall())
    found = batch_rows.read_batches(connection, job_id)
    return tuple(replace(one, waiting=waiting.get(one.number, 0)) for one in found)


def batch_host_of_job(store: Store, settings: Settings, job: BatchJob) -> BatchHost:
    """Return the Batch API of a job's judge; nothing is sent yet.

    Raises UsageError where the settings lead to another host now, AuthenticationFailed where there is no key for it.
    """
    recipe = job.recipe
    host = batch_host(connect_provider(parse_model_spec(job.judge_spec), settings))
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
    """Ask for the status of a job's batches, and return the job's; it reports a failing host."""
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
