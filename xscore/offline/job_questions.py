"""A job's questions again, as it judged them: for ranking what came back, and for judging live what is left.

Settings may have changed since, so the judge's settings that shape its identity are taken from the job. Texts and keys
are the job's own, redacted as they were judged, so that a file that was renamed since stops nothing; a question that
was erased is left out. Trade-off: boosts follow the code and the uncommitted change of today.
"""

from collections.abc import Iterator
from dataclasses import replace

from xscore.cache.keys import judge_key, turn_key
from xscore.errors import UsageError
from xscore.offline import job_rows
from xscore.offline.job_rows import Job, JobQuestion
from xscore.offline.prepared import Prepared, memories
from xscore.paths import native
from xscore.pipeline import kept
from xscore.pipeline.bulk import made_in_bulk
from xscore.pipeline.context import complete
from xscore.pipeline.parts import Parts
from xscore.pipeline.pool import among
from xscore.prompts.judge import turn_block
from xscore.records import Scope, Turn
from xscore.records.offline import Question
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


def prepared_of(parts: Parts, job: Job) -> Iterator[Prepared]:
    """Prepare a job's questions in their order, each as it was asked and under the key that it was judged under.

    Raises UsageError where the settings make another judge than the job's.
    """
    if judge_key(parts.judge.identity) != job.judge:
        raise UsageError(
            f"the judge of job {job.id} scored by other rules than it would today",
            hint="Submit the list again: what has not changed comes from the cache.",
        )
    only = None if job.recipe.only is None else frozenset(job.recipe.only)
    found = memories(parts, job.recipe.scope, only=only).of_repository()
    moment: Turn | None = None
    for one in job_rows.questions(parts.store.connection, job.id).values():
        if not one.turn.task:
            continue  # it was erased
        moment = moment or _moment(parts)
        with made_in_bulk():
            known = kept.known(parts.store, one.turn_key, job.judge)
            pool = among(found.everything, found.candidates, known)
        turn = _as_asked(parts, one, moment, found.scope)
        question = Question(id=one.name, task=turn.task, file=turn.file, errors=turn.errors)
        yield Prepared(one.number, question, turn, one.turn_key, pool)


def is_as_judged(parts: Parts, prepared: Prepared) -> bool:
    """Whether the judge would be shown today what the question's key was made of."""
    return turn_key(turn_block(prepared.turn, context=parts.settings.judge.context)) == prepared.key


def _moment(parts: Parts) -> Turn:
    """Look at the uncommitted change."""
    return complete(Turn(task="."), parts.root, use_git=parts.settings.index.git, now=parts.clock())


def _as_asked(parts: Parts, one: JobQuestion, moment: Turn, scope: Scope) -> Turn:
    turn = replace(one.turn, scope=scope, fresh=True, diff=moment.diff, changed=moment.changed)
    there = parts.root.path / native(turn.file)
    if not turn.file or parts.settings.judge.context == "task" or not there.exists():
        return turn
    shown = complete(Turn(task=".", file=str(there)), parts.root, use_git=False, now=parts.clock())
    return replace(turn, file_text=shown.file_text)
