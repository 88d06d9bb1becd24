"""A job's questions again, as it judged them: for ranking what came back, and for judging live what is left.

Settings may have changed since, so the judge's settings that shape its identity are taken from the job. Keys are the
job's own: what its requests were judged under, whatever today's question would be called. Trade-off: boosts follow the
code and the uncommitted change of today.
"""

from collections.abc import Iterator
from dataclasses import replace

from xscore.cache.keys import judge_key
from xscore.errors import UsageError
from xscore.offline import job_rows
from xscore.offline.job_rows import Job
from xscore.offline.prepared import Memories, Prepared, memories, prepare
from xscore.pipeline import kept
from xscore.pipeline.parts import Parts
from xscore.pipeline.pool import among
from xscore.records.offline import Question, Questions
from xscore.settings import Settings


def settings_of(job: Job, settings: Settings) -> Settings:
    """Return the settings with the judge of this job."""
    recipe = job.recipe
    changed: dict[str, object] = {
        "model": job.judge_spec,
        "context": recipe.context,
        "tests": recipe.tests,
        "reasons": "relevant" if recipe.reasons_from > 0 else "all",
        "order": recipe.model.order,
        **({"pack_size": 1} if recipe.packs.is_plain else {}),
    }
    if not recipe.packs.is_plain and settings.judge.pack_size == 1:
        changed["pack_size"] = None
    return settings.model_copy(update={"judge": settings.judge.model_copy(update=changed)})


def questions_of(parts: Parts, job: Job) -> Questions:
    """Return the list of a job; texts are redacted, as they were judged."""
    found = job_rows.questions(parts.store.connection, job.id).values()
    return Questions(
        tuple(Question(id=one.name, task=one.turn.task, file=one.turn.file, errors=one.turn.errors) for one in found),
        job.digest,
    )


def prepared_of(parts: Parts, job: Job) -> Iterator[Prepared]:
    """Prepare a job's questions in their order, each under the key that it was judged under.

    Raises UsageError where the settings make another judge than the job's.
    """
    if judge_key(parts.judge.identity) != job.judge:
        raise UsageError(
            f"the judge of job {job.id} scored by other rules than it would today",
            hint="Submit the list again: what has not changed comes from the cache.",
        )
    found: Memories = memories(parts, job.recipe.scope).of_repository()
    keys = {number: one.turn_key for number, one in job_rows.questions(parts.store.connection, job.id).items()}
    for prepared in prepare(parts, enumerate(questions_of(parts, job).all), found):
        key = keys[prepared.number]
        if key == prepared.key:
            yield prepared
            continue
        known = kept.known(parts.store, key, job.judge)
        yield replace(prepared, key=key, pool=among(found.everything, found.candidates, known))
