"""Who takes over what the judge leaves: the models of `judge.fallback` in order, and words where no model scored.

Each model judges what those before it left because their host failed, refused or could not be read, within the same
deadline and caps, and under its own identity: what it said is cached for it and is never taken for the judge's. Scores
by words are on a scale of their own, so they rank the whole pool or nothing. Trade-off: two models that judge one turn
may score a little differently, and the receipt can only say who judged how many.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xscore.cache.keys import judge_key
from xscore.pipeline.factories import choose_judge, judge_factory, settings_judged_by
from xscore.pipeline.judging import NoJudge, take_back_cancellation
from xscore.pipeline.pool import known_judgments, pool_among
from xscore.platform.errors import CallTimedOut, ConnectionFailed, StoreError, Unreachable, XscoreError
from xscore.platform.text import counted
from xscore.providers.spec import LEXICAL
from xscore.records.judgment import Judgment, Origin, Outcome, Unjudged, UnjudgedCause
from xscore.records.memory import Candidate

if TYPE_CHECKING:
    from xscore.pipeline.turn import TurnRun
    from xscore.scorer.judge import Judge

FAILURES = frozenset({
    UnjudgedCause.PROVIDER, UnjudgedCause.REFUSED, UnjudgedCause.UNREADABLE, UnjudgedCause.TOO_LONG
})  # fmt: skip
"""Causes that another judge may not meet. A cap, a deadline and Ctrl-C hold for all of them."""
OFFLINE = frozenset({ConnectionFailed.kind, Unreachable.kind, CallTimedOut.kind})
"""Kinds of errors that say the host was not reached; any other is about the key, the model or the request."""


def fallback_models(run: "TurnRun") -> list[str]:
    """Return the models that may take over, in order; none in an evaluation, which measures one judge."""
    return [] if run.options.isolated else [name for name in run.parts.settings.judge.fallback if name != LEXICAL]


def can_go_on(run: "TurnRun", error: XscoreError) -> bool:
    """Return whether the turn has another judge after this error of the first one, or words to rank by."""
    words = LEXICAL in run.parts.settings.judge.fallback and error.kind in OFFLINE
    return not run.options.isolated and (words or bool(fallback_models(run)))


async def take_over(run: "TurnRun") -> None:
    """Have each model of the chain judge what those before it left, and put its outcomes in their place."""
    for name in fallback_models(run):
        left = tuple(
            one.candidate for one in run.outcomes if isinstance(one.result, Unjudged) and one.result.cause in FAILURES
        )
        if not left or run.interrupted:
            return
        try:
            found = await _judge_by(run, name, left)
        except asyncio.CancelledError:
            run.interrupted = True
            take_back_cancellation(asyncio.current_task())
            return
        except TimeoutError:
            return
        except StoreError:  # what is paid for could not be kept, so nobody else is asked
            raise
        except XscoreError as error:  # the next of the chain may do better
            run.warn(f"`{name}` could not take over: {error.message}", error.hint)
            continue
        settled = {one.candidate.id: one for one in found}
        run.outcomes = tuple(settled.get(one.candidate.id, one) for one in run.outcomes)


async def _judge_by(run: "TurnRun", name: str, left: tuple[Candidate, ...]) -> Sequence[Outcome]:
    """Judge these candidates by another model; what it judged earlier is known. Raises what opening it raises."""
    parts, opened, resources = run.parts, run.opened, run.resources
    assert resources is not None
    settings = settings_judged_by(name, parts.settings)
    spec, _ = choose_judge(settings)
    factory = judge_factory(spec, settings, store=parts.store, clock=parts.clock)
    if factory.identity == parts.judge.identity:
        return ()
    known = known_judgments(parts.store, opened.key, judge_key(factory.identity))
    pool = pool_among(opened.pool.all_candidates, left, known)
    where = f"`{spec}` at {factory.identity.host}"
    them = "it" if len(left) == 1 else "them"
    parts.observer.note(f"the judge could not judge {counted(len(left), 'memory', 'memories')}; {where} judges {them}")
    judge: Judge | NoJudge = NoJudge(UnjudgedCause.PROVIDER)
    identity = factory.identity
    if pool.misses:
        async with asyncio.timeout(run.deadline.judging_left_s() if run.deadline else None):
            judge = await factory.open(resources, opened.turn, pool, opened.key)
        identity = judge.identity
    found = await run.judge_by(judge, pool)
    for one in found:
        if isinstance(one.result, Judgment):
            run.taken_over[one.candidate.content_hash] = identity if one.origin is Origin.JUDGED else factory.identity
    if not isinstance(judge, NoJudge):
        run.warnings += judge.warnings()
        run.remember_host(factory)
    return found


def why_lexical_ranks(run: "TurnRun") -> str:
    """Say why no model judged anything, in a turn of which this is so, if words are to rank then; else empty."""
    judge = run.parts.judge
    if run.options.isolated or not judge.is_model or LEXICAL not in run.parts.settings.judge.fallback:
        return ""
    causes = {one.result.cause for one in run.outcomes if isinstance(one.result, Unjudged)}
    if causes == {UnjudgedCause.DEADLINE}:
        return "the deadline came before anything was judged"
    kinds = run.resources.usage.failures if run.resources else set()
    is_offline = UnjudgedCause.PROVIDER in causes and kinds and kinds <= OFFLINE
    return f"{judge.identity.host} could not be reached" if is_offline else ""
