"""Questions of a list made ready, one by one: what each looks like to the judge, and what is known of it.

The memories are fetched once for the whole list, and the moment (uncommitted change) looked at once; each question has
a key, a pool and what the cache knows of it. Questions stand apart: they belong to no working session. Nothing is sent.
The index is brought up to date by the caller. Trade-off: one question's pool is alive at a time, so whoever goes
through a list twice prepares it twice, at a few milliseconds a question.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from xscore.cache.keys import judge_key, turn_key
from xscore.errors import UsageError
from xscore.pipeline import kept
from xscore.pipeline.bulk import made_in_bulk
from xscore.pipeline.context import complete
from xscore.pipeline.parts import Parts
from xscore.pipeline.pool import Pool, among, narrow, refuse_nothing
from xscore.prompts.judge import turn_block
from xscore.records import Candidate, Layer, Scope, Turn
from xscore.records.offline import Question


@dataclass(frozen=True, slots=True)
class Prepared:
    """One question, ready to be judged."""

    number: int
    """From 0, as in the list."""
    question: Question
    turn: Turn
    """Complete and redacted."""
    key: str
    pool: Pool


@dataclass(frozen=True, slots=True)
class Memories:
    """All that may be judged, fetched once for a list."""

    everything: tuple[Candidate, ...]
    candidates: tuple[Candidate, ...]
    """What the scope leaves."""
    scope: Scope

    def of_repository(self) -> "Memories":
        """Return the same without the memories of the user's own store; packs are made of all of them still."""
        if not any(one.layer is Layer.USER for one in self.candidates):
            return self
        return replace(self, candidates=tuple(one for one in self.candidates if one.layer is not Layer.USER))


def memories(parts: Parts, scope: Scope, *, only: frozenset[str] | None = None) -> Memories:
    """Fetch the pool that all questions share. Raises UsageError for a scope that names nothing, StoreDamaged.

    only: paths; what belongs to no other file is to be judged. None: the scope alone narrows.
    """
    with made_in_bulk():
        everything = parts.store.fetch(tests=parts.settings.judge.tests).candidates
        inside = narrow(everything, scope)
        if only is not None:
            inside = tuple([one for one in inside if one.path in only])
        return Memories(everything, inside, scope)


def refuse_no_files(found: Memories) -> None:
    """Stop where the globs of a list name no file. Raises NothingMatched.

    What has no path passes every glob; a list that names paths is not about that alone.
    """
    scope = found.scope
    is_about_files = bool(scope.paths) and not (scope.kinds or scope.layers)
    inside = [one for one in found.candidates if one.path] if is_about_files else found.candidates
    refuse_nothing(found.everything, inside, scope)


def prepare(parts: Parts, questions: Iterable[tuple[int, Question]], found: Memories) -> Iterator[Prepared]:
    """Make these questions ready in their order. Raises UsageError that names the question it cannot ask."""
    settings, judge = parts.settings, parts.judge
    name = judge_key(judge.identity)
    moment: Turn | None = None
    for number, question in questions:
        asked = Turn(
            task=question.task,
            errors=question.errors,
            file=question.file,
            scope=found.scope,
            fresh=True,
            diff=moment.diff if moment else "",
            changed=moment.changed if moment else (),
        )
        try:
            turn = complete(
                asked,
                parts.root,
                use_git=settings.index.git and moment is None,
                now=parts.clock(),
                allow_pii=settings.memory.allow_pii,
            )
        except UsageError as error:
            raise UsageError(f"question {question.id}: {error.message}", hint=error.hint) from error
        moment = moment or turn
        key = turn_key(turn_block(turn, context=settings.judge.context))
        with made_in_bulk():
            known = kept.known(parts.store, key, name) if judge.is_model else {}
            pool = among(found.everything, found.candidates, known)
        yield Prepared(number, question, turn, key, pool)
