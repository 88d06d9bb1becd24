"""What is left of a job given over to live calls: what they judged is settled, and the rest is lost to the job.

It sends nothing. Requests at a vendor are left alone: they are paid for.
"""

import sqlite3

from xscore.cache.judgments import known_among, query_id
from xscore.offline import batch_rows, job_rows, job_steps
from xscore.offline.job_lease import JobLease
from xscore.offline.job_rows import Job, RequestName
from xscore.scorer.repair import Ask

LEFT = "interrupted: it was left to live calls, which did not judge it"


def known_requests(connection: sqlite3.Connection, job: Job, requests: list[RequestName]) -> list[RequestName]:
    """Return those of these requests of which everything is judged."""
    judged = job_steps.judged_questions(connection, job)
    there = [name for name in requests if name[0] in judged]
    asks = job_rows.asks(connection, job.id, {ask for _, ask in there}) if there else {}
    return [(question, ask) for question, ask in there if _is_known(connection, job, judged[question], asks[ask])]


def settle_by_cache(lease: JobLease, connection: sqlite3.Connection, job: Job, *, at: float) -> None:
    """Settle what is planned or lost by what the cache has now; what is planned still is given up.

    lease: held. at: Unix seconds. Raises StoreError where another process has taken the job over.
    """
    rows = connection.execute(
        "SELECT question, ask, state FROM job_request WHERE job = ? AND state IN ('planned', 'lost')", (job.id,)
    ).fetchall()
    known = set(known_requests(connection, job, [(question, ask) for question, ask, _ in rows]))
    rest = {(question, ask): LEFT for question, ask, state in rows if state == "planned"}
    with lease.step() as opened:
        job_steps.found(opened, job.id, known)
        batch_rows.lost(opened, job.id, {name: why for name, why in rest.items() if name not in known})
        job_steps.end_if_done(opened, job.id, at=at)


def _is_known(connection: sqlite3.Connection, job: Job, turn_key: str, ask: Ask) -> bool:
    names = (turn_key, job.judge, 0)
    query = query_id(connection, names)
    hashes = {piece.content_hash for piece in ask.pieces}
    whole = {piece.memory for piece in ask.pieces}
    if query is None:
        return False
    return any(len(known_among(connection, names, query, each)) == len(each) for each in (hashes, whole))
