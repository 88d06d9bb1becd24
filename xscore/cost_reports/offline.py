"""What the jobs of a stretch came to: lists of questions judged offline, by batch or live, and what the cache had.

The replayed hit rate is the share of candidates that the cache had when a list was planned, and nothing more is
claimed. A row that makes no sense is left out and counted. It knows nothing of turns. Trade-off: a job belongs, with
all its calls, to the stretch in which it was planned, though a batch answers a day later.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from xscore import money
from xscore.cost_reports.ledger_sums import MOST_COST_BITS
from xscore.database import as_it_can_be_read
from xscore.records.cost_report import LAST_MOMENT, Asked, Offline

BATCH, RESCORE = "batch", "rescore"
"""What a job's calls stand under in `--by command`."""
_MOST = 10**12
"""Candidates that no list has."""
_JOBS = """
    SELECT id, created_at, command, candidates, cached, (SELECT count(*) FROM job_question WHERE job = job.id) FROM job
"""
_IS_AMOUNT = f"typeof({{0}}) = 'integer' AND {{0}} >= 0 AND {{0}} >> {MOST_COST_BITS} = 0"
_SPENT = f"""
    SELECT turn_id, count(*) FILTER (WHERE batch <> ''), count(*) FILTER (WHERE cost IS NULL),
        sum(cost) FILTER (WHERE {_IS_AMOUNT.format("cost")}),
        sum(cost_live - cost) FILTER (WHERE batch <> '' AND {_IS_AMOUNT.format("cost")}
            AND {_IS_AMOUNT.format("cost_live")})
    FROM call WHERE turn_id IN (SELECT id FROM job) GROUP BY turn_id
"""  # noqa: S608  words are ours


@dataclass(slots=True)
class Jobs:
    """What one store holds of the asked jobs."""

    found: Offline = field(default_factory=Offline)
    commands: dict[str, str] = field(default_factory=dict)
    """Job -> what its calls stand under; of all jobs of the store."""
    left_out: int = 0


def read_jobs(connection: sqlite3.Connection, asked: Asked) -> Jobs:
    """Add up the jobs of the asked stretch, or the one that is asked for."""
    with as_it_can_be_read(connection):
        rows = connection.execute(_JOBS).fetchall()
        spent: Mapping[str, Sequence[int | None]] = {}
        if rows:
            spent = {job: sums for job, *sums in connection.execute(_SPENT)}
    whole = Jobs()
    for job, at, command, candidates, cached, questions in rows:
        whole.commands[str(job)] = RESCORE if command == RESCORE else BATCH
        if not (isinstance(at, float) and 0 <= at <= LAST_MOMENT and _are_counts(candidates, cached)):
            whole.left_out += 1
        elif _is_asked(str(job), at, asked):
            whole.found = added(whole.found, _one(questions, candidates, cached, spent.get(job, (0, 0, None, None))))
    return whole


def added(one: Offline, other: Offline) -> Offline:
    """Add two up."""
    candidates, cached = one.candidates + other.candidates, one.cached + other.cached
    return Offline(
        jobs=one.jobs + other.jobs,
        questions=one.questions + other.questions,
        candidates=candidates,
        cached=cached,
        hit_rate=cached / candidates if candidates else None,
        batch_calls=one.batch_calls + other.batch_calls,
        cost_usd=one.cost_usd + other.cost_usd,
        unpriced=one.unpriced + other.unpriced,
        saved_by_batch_usd=one.saved_by_batch_usd + other.saved_by_batch_usd,
    )


def _one(questions: int, candidates: int, cached: int, sums: Sequence[int | None]) -> Offline:
    batch_calls, unpriced, cost, saved = sums
    return Offline(
        jobs=1,
        questions=questions,
        candidates=candidates,
        cached=cached,
        batch_calls=batch_calls or 0,
        cost_usd=money.dollars(cost or 0),
        unpriced=unpriced or 0,
        saved_by_batch_usd=_signed(saved or 0),
    )


def _signed(picodollars: int) -> Decimal:
    """Money is never below zero, what was saved may be."""
    return money.dollars(picodollars) if picodollars >= 0 else -money.dollars(-picodollars)


def _are_counts(candidates: object, cached: object) -> bool:
    return isinstance(candidates, int) and isinstance(cached, int) and 0 <= cached <= candidates < _MOST


def _is_asked(job: str, at: float, asked: Asked) -> bool:
    if asked.turn_id:
        return job == asked.turn_id
    return (asked.since is None or at >= asked.since) and (asked.until is None or at < asked.until)
