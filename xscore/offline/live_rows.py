"""What the store keeps of a list that is judged live: its row with what the cache had, and what its calls came to.

Judgments are the cache's, calls the ledger's, both under the job's id. The row is ended as soon as it is written, since
nobody has anything to fetch for it: the same list again is another job. It decides nothing.
"""

import sqlite3
from typing import NamedTuple

from xscore.cache.keys import judge_key
from xscore.database import making_sense, transaction
from xscore.memory.call_figures import MAKES_SENSE, TOKENS, count, dollars_of, usage_of
from xscore.offline import job_rows
from xscore.offline.job_rows import Command, Job, Recipe
from xscore.offline.live_plan import LivePlan
from xscore.pipeline.parts import JudgeCalls, Parts
from xscore.records import Scope, StageUsage

_SPENT = f"""
    SELECT sum(outcome = 'ok'), count(*), iif(count(cost) = count(*), sum(cost), NULL), max(estimated),
        {", ".join(f"sum({name})" for name in TOKENS)}
    FROM call WHERE turn_id = ? AND {MAKES_SENSE}
"""  # noqa: S608  names are ours


class Entered(NamedTuple):
    """A job that was entered."""

    id: str
    judge: str
    """`provider:model`"""


def enter(
    parts: Parts,
    calls: JudgeCalls,
    plan: LivePlan,
    *,
    command: Command,
    digest: str,
    scope: Scope,
    only: frozenset[str] | None = None,
) -> Entered:
    """Write the job of a list that is about to be judged live, and deal its id. scope, only: as `memories` has them."""
    identity, settings, now = parts.judge.identity, parts.settings, parts.clock()
    recipe = Recipe(
        provider=identity.provider,
        host=identity.host,
        model=calls.model,
        packs=calls.packs,
        reasons_from=settings.judge.reasons_from if settings.judge.reasons == "relevant" else 0.0,
        context=settings.judge.context,
        tests=settings.judge.tests,
        scope=scope,
        only=None if only is None else tuple(sorted(only)),
    )
    job = Job(
        id=job_rows.new_id(),
        created_at=now,
        command=command,
        digest=digest,
        judge_spec=f"{identity.provider}:{identity.model}",
        judge=judge_key(identity),
        recipe=recipe,
        max_usd=settings.budget.max_usd,
        candidates=plan.candidates,
        cached=plan.cached,
    )
    with transaction(parts.store.connection) as connection:
        job_rows.add_job(connection, job, plan.rows, (), ())
        _end(connection, job.id, now)
    return Entered(job.id, job.judge_spec)


def finish(parts: Parts, job_id: str) -> None:
    """Write down when it ended."""
    with transaction(parts.store.connection) as connection:
        _end(connection, job_id, parts.clock())


def spent(connection: sqlite3.Connection, job_id: str) -> StageUsage:
    """Add up the calls of a job, whichever process made them. Raises StoreDamaged."""
    calls, attempts, cost, estimated, *tokens = connection.execute(_SPENT, (job_id,)).fetchone()
    if not attempts:
        return StageUsage()
    with making_sense("the calls of a job"):
        return StageUsage(
            calls=count(calls),
            attempts=count(attempts),
            usage=usage_of(tokens),
            cost_usd=dollars_of(cost),
            estimated=bool(estimated),
        )


def _end(connection: sqlite3.Connection, job_id: str, at: float) -> None:
    connection.execute("UPDATE job SET ended_at = ? WHERE id = ?", (at, job_id))
