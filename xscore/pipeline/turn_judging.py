"""Have the judge score what a turn's cache lacks; then judge again what is near a threshold or was
left unjudged.

A decision model's score varies by about 0.05 from call to call, so one score says little near the
threshold. A second one is asked for in the same way, with claims, caps and the ledger, and stored
beside the first as another sample: if the process is killed in between, the first remains, and a
fully cached turn makes no call. Boosts are computed twice, because a boost may move a candidate
near its threshold or past it.

Each model of `judge.fallback` judges what the models before it left because their host failed,
refused, or gave unreadable replies. It works within the same deadline and caps, and its scores are
stored under its own name, never the judge's. Word scores have a scale of their own, so they rank
the whole pool or nothing. Trade-off: two models that judge one turn may score a little differently,
and the receipt can only say who judged how many.

A turn that ends in an error after it has called a model has a receipt as well, of what the store
has of it.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.keys import SECOND_DRAW, judge_key
from xscore.pipeline.estimating import forecast_judging
from xscore.pipeline.factories import choose_judge, describe_judge, settings_judged_by
from xscore.pipeline.judge_description import JudgeDescription, Scale
from xscore.pipeline.known_hosts import remember_host
from xscore.pipeline.live_judging import ENDS_ALL, JudgedPool, NoJudge, judge_pool, open_judge
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import PooledTurn, known_judgments, pool_among
from xscore.pipeline.ranking import boosted, rank
from xscore.pipeline.receipt import make_receipt
from xscore.pipeline.resources import TurnResources
from xscore.platform.errors import (
    AuthenticationFailed,
    CallTimedOut,
    ConnectionFailed,
    ExitCode,
    NoUsableModel,
    Overloaded,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    StoreError,
    TlsFailed,
    Unreachable,
    UnreadableResponse,
    XscoreError,
)
from xscore.platform.text import counted
from xscore.providers.spec import LEXICAL
from xscore.records.calls import Stage
from xscore.records.judgment import (
    SCORE_TOLERANCE,
    Judgment,
    Origin,
    Outcome,
    Unjudged,
    UnjudgedCause,
)
from xscore.records.memory import Candidate
from xscore.records.receipt import Answer, SecondDraws
from xscore.records.turn import Turn
from xscore.store import turns

if TYPE_CHECKING:
    from xscore.pipeline.turn import TurnRun
    from xscore.scorer.judge import Judge

FORECAST_FROM_S, FORECAST_FROM_USD = 20.0, Decimal("0.01")
"""Announce judging that will take this long, or cost this much."""


async def judge_missing(run: "TurnRun") -> None:
    """Give every candidate of a turn an outcome: by its judge, near a threshold twice, and by those
    that take over."""
    parts, resources = run.parts, run.resources
    if resources is None:
        run.outcomes = await _judge_within(run, NoJudge(UnjudgedCause.REPLAY), run.opened)
        return
    judge = await _open_judge(run, resources)
    run.outcomes = await _judge_within(run, judge, run.opened)
    if not isinstance(judge, NoJudge) and judge.identity.is_decision:
        once = JudgedPool(run.outcomes, run.interrupted)
        drawn, run.second_draws = await draw_again(run.parts, resources, run.opened, once)
        run.outcomes, run.interrupted = drawn.outcomes, drawn.interrupted
        run.warnings += drawn.warnings
    await _take_over(run)
    lost = {one.result.cause for one in run.outcomes if isinstance(one.result, Unjudged)}
    if UnjudgedCause.DEADLINE in lost and (why := resources.why_unanswered()):
        run.warnings.append(why)
    _remember_host(run, parts.judge)
    if not isinstance(judge, NoJudge):
        run.warnings += (*judge.warnings(), *resources.spending.warnings())


async def _open_judge(run: "TurnRun", resources: TurnResources) -> "Judge | NoJudge":
    """Open the judge; probe its host first if needed.

    A host that fails is an error only if nothing is cached and no other judge of `judge.fallback`
    may take over.
    """
    opened, parts = run.opened, run.parts
    forecast = forecast_judging(parts.judge, opened.turn, opened.pool)
    run.forecast = forecast if parts.judge.paid else None
    if forecast.seconds >= FORECAST_FROM_S or (forecast.cost_usd or 0) >= FORECAST_FROM_USD:
        parts.observer.on(forecast)
    try:
        judge = await open_judge(parts.judge, resources, opened)
    except (ProviderError, NoUsableModel) as error:
        if len(opened.pool.misses) == len(opened.pool.candidates) and not _can_go_on(run, error):
            raise
        run.no_judge = error.kind
        run.warn(f"the judge could not be asked: {error.message}", error.hint)
        return NoJudge(UnjudgedCause.PROVIDER, error.message)
    if (
        parts.judge.stored
        and not isinstance(judge, NoJudge)
        and judge.identity != parts.judge.identity
    ):
        # the turn names the judge that its first contact found to answer under the name it was
        # asked by
        run.parts = replace(parts, judge=replace(parts.judge, identity=judge.identity))
        # Its thread was told by another.
        run.opened = replace(opened, pool=replace(opened.pool, thread=None))
        turns.set_judge(parts.store.connection, opened.turn.id, judge_key(judge.identity))
    return judge


async def _judge_within(
    run: "TurnRun", judge: "Judge | NoJudge", asked: PooledTurn
) -> tuple[Outcome, ...]:
    leaders = run.parts.settings.selection.top_k
    judged = await judge_pool(asked, judge, run.resources, run.parts.observer, leaders=leaders)
    run.interrupted = judged.interrupted
    return judged.outcomes


def _remember_host(run: "TurnRun", judge: JudgeDescription) -> None:
    """Store what replies have shown of a judge's host, or warn: it can be probed again."""
    try:
        remember_host(judge)
    except StoreError as error:  # the judgments are worth more
        run.warn(f"what the host can do was not remembered: {error.message}", error.hint)


async def draw_again(
    parts: PipelineParts, resources: TurnResources, asked: PooledTurn, once: JudgedPool
) -> tuple[JudgedPool, SecondDraws]:
    """Judge a second time what came near its threshold.

    What gets no second one keeps its first. Raises StoreError.
    """
    near, beyond = _near_threshold(parts, asked.turn, once.outcomes)
    if not near:
        return once, SecondDraws(missed=beyond)
    causes = {one.result.cause for one in once.outcomes if isinstance(one.result, Unjudged)}
    if causes & ENDS_ALL or not resources.deadline.judging_left_s():
        return once, SecondDraws(missed=len(near) + beyond)
    again = PooledTurn(asked.turn, asked.key, pool_among(near, near, {}))
    judge: Judge | NoJudge
    try:
        judge = await open_judge(parts.judge, resources, again, sample=SECOND_DRAW)
    except (ProviderError, NoUsableModel) as error:
        judge = NoJudge(UnjudgedCause.PROVIDER, error.message)
    judged = await judge_pool(again, judge, resources)
    scores = {
        one.result.content_hash: one.result
        for one in judged.outcomes
        if isinstance(one.result, Judgment)
    }
    lost = [one.result for one in judged.outcomes if isinstance(one.result, Unjudged)]
    merged = tuple(
        (
            one._replace(result=one.result.averaged_with(scores[one.result.content_hash]))
            if isinstance(one.result, Judgment) and one.result.content_hash in scores
            else one
        )
        for one in once.outcomes
    )
    drawn = {one.result.content_hash for one in judged.outcomes if one.origin is Origin.JUDGED}
    counts = SecondDraws(drawn=len(drawn), missed=len(lost) + beyond)
    interrupted = once.interrupted or judged.interrupted
    return replace(once, outcomes=merged, interrupted=interrupted, warnings=_warning(lost)), counts


def _near_threshold(
    parts: PipelineParts, turn: Turn, outcomes: Sequence[Outcome]
) -> tuple[tuple[Candidate, ...], int]:
    """Return what is to be drawn again, nearest first, and how many more come as near."""
    thresholds, settings = parts.judge.thresholds, parts.settings.selection
    least = thresholds.lowest - settings.redraw_margin - parts.settings.boosts.cap
    scores = [one.result.score for one in outcomes if isinstance(one.result, Judgment)]
    if max(scores, default=0.0) < least:  # no boost brings any of them near
        return (), 0
    ranked = boosted(parts, outcomes, turn, thresholds=thresholds)
    distances = [
        (abs(one.score - thresholds.of(one.candidate)), one.candidate.id, one)
        for one in ranked
        if one.score >= least
    ]
    near = sorted(
        found for found in distances if found[0] <= settings.redraw_margin + SCORE_TOLERANCE
    )
    once = [one.candidate for _, _, one in near if not one.judgment.draws]
    room = max(0, settings.most_redrawn - (len(near) - len(once)))
    return tuple(once[:room]), len(once[room:])


def _warning(lost: Sequence[Unjudged]) -> tuple[str, ...]:
    if not lost:
        return ()
    what = counted(len(lost), "memory near its threshold was", "memories near their threshold were")
    return (f"{what} judged once instead of twice: {lost[0].detail or lost[0].cause.value}",)


FAILURES = frozenset({
    UnjudgedCause.PROVIDER, UnjudgedCause.REFUSED, UnjudgedCause.UNREADABLE, UnjudgedCause.TOO_LONG
})  # fmt: skip
"""Causes that another judge may avoid. A cap, a deadline or Ctrl-C stops every judge."""
OFFLINE = (ConnectionFailed.kind, Unreachable.kind, TlsFailed.kind, CallTimedOut.kind)
"""Kinds of errors that mean the host was not reached."""
WHY_WORDS_RANK: dict[str, str] = {
    **dict.fromkeys(OFFLINE, "could not be reached"),
    Overloaded.kind: "is overloaded",
    RateLimited.kind: "takes no more calls for now",
    UnreadableResponse.kind: "gives no reply that can be read",
    NoUsableModel.kind: "gives no usable score",
    QuotaExhausted.kind: "has no credit left for this account",
    AuthenticationFailed.kind: "does not accept the key",
}
"""Kinds of errors after which words rank, and what they say of the host. An unknown model and a
refused request are mistakes in the settings: a ranking would hide them."""


def _fallback_models(run: "TurnRun") -> list[str]:
    """Return the models that may take over, in order; none in an evaluation, which measures one
    judge."""
    return (
        []
        if run.options.isolated
        else [name for name in run.parts.settings.judge.fallback if name != LEXICAL]
    )


def _can_go_on(run: "TurnRun", error: XscoreError) -> bool:
    """Return whether the turn has another judge after this error of the first one, or words to rank
    by."""
    words = LEXICAL in run.parts.settings.judge.fallback and error.kind in WHY_WORDS_RANK
    return not run.options.isolated and (words or bool(_fallback_models(run)))


async def _take_over(run: "TurnRun") -> None:
    """Have each model of the chain judge what those before it left, and put its outcomes in their
    place."""
    for name in _fallback_models(run):
        left = tuple(
            one.candidate
            for one in run.outcomes
            if isinstance(one.result, Unjudged) and one.result.cause in FAILURES
        )
        if not left or run.interrupted:
            return
        try:
            found = await _judge_by(run, name, left)
        except StoreError:  # what is paid for could not be kept, so no other model is asked
            raise
        except XscoreError as error:  # the next of the chain may do better
            run.warn(f"`{name}` could not take over: {error.message}", error.hint)
            continue
        if found is None:
            return
        settled = {one.candidate.id: one for one in found}
        run.outcomes = tuple(settled.get(one.candidate.id, one) for one in run.outcomes)


async def _judge_by(
    run: "TurnRun", name: str, left: tuple[Candidate, ...]
) -> Sequence[Outcome] | None:
    """Judge them by another model; what it judged before is known.

    None: no time is left. Raises what opening does.
    """
    parts, opened, resources = run.parts, run.opened, run.resources
    assert resources is not None
    settings = settings_judged_by(name, parts.settings)
    spec, _ = choose_judge(settings)
    described = describe_judge(spec, settings, store=parts.store)
    if described.identity == parts.judge.identity:
        return ()
    known = known_judgments(parts.store, opened.key, judge_key(described.identity))
    asked = PooledTurn(opened.turn, opened.key, pool_among(opened.pool.all_candidates, left, known))
    where = f"`{spec}` at {described.identity.host}"
    them = "it" if len(left) == 1 else "them"
    parts.observer.note(
        f"the judge could not judge {counted(len(left), 'memory', 'memories')}; {where} judges"
        f" {them}"
    )
    judge: Judge | NoJudge = NoJudge(UnjudgedCause.PROVIDER)
    identity = described.identity
    if asked.pool.misses:
        judge = await open_judge(described, resources, asked)
        # There is no time left: what the first judge left keeps its causes.
        if isinstance(judge, NoJudge):
            run.interrupted = run.interrupted or judge.cause is UnjudgedCause.INTERRUPTED
            return None
        identity = judge.identity
    found = await _judge_within(run, judge, asked)
    for one in found:
        if isinstance(one.result, Judgment):
            run.taken_over[one.candidate.content_hash] = (
                identity if one.origin is Origin.JUDGED else described.identity
            )
    if not isinstance(judge, NoJudge):
        run.warnings += judge.warnings()
        _remember_host(run, described)
    return found


class WordsInstead(Struct, frozen=True):
    """That words rank a turn which no model judged."""

    why: str
    exit_code: ExitCode
    """Partly done if the host may answer the next time; as before the ranking, if someone has to
    mend something."""


def words_instead(run: "TurnRun") -> WordsInstead | None:
    """Return why no model judged anything, if words should rank this turn instead."""
    judge = run.parts.judge
    if (
        run.options.isolated
        or judge.scale is Scale.WORDS
        or LEXICAL not in run.parts.settings.judge.fallback
    ):
        return None
    causes = {one.result.cause for one in run.outcomes if isinstance(one.result, Unjudged)}
    if causes == {UnjudgedCause.DEADLINE}:
        return WordsInstead("the deadline came before anything was judged", ExitCode.PARTLY)
    if not causes <= FAILURES:
        return None
    kinds = set(run.resources.usage.failures) if run.resources else set[str]()
    if run.no_judge:
        kinds = {run.no_judge}
    elif UnjudgedCause.UNREADABLE in causes:
        kinds.add(NoUsableModel.kind)
    # the last of these says most: a refused key rather than a call before it that was not answered
    telling = [kind for kind in WHY_WORDS_RANK if kind in kinds]
    if not telling:
        return None
    exit_code = ExitCode.PARTLY if telling[-1] in OFFLINE else ExitCode.NOTHING_JUDGED
    return WordsInstead(f"{judge.identity.host} {WHY_WORDS_RANK[telling[-1]]}", exit_code)


def receipt_of_failed(run: "TurnRun") -> Answer | None:
    """Return the receipt; candidates without a stored judgment are unjudged.

    None: nothing was sent, or no store.
    """
    if run.resources is None or not any(
        run.resources.usage.spent(stage).attempts for stage in Stage
    ):
        return None
    try:
        run.outcomes = run.outcomes or _stored_outcomes(run)
        return make_receipt(run, run.ranking or rank(run.parts, run.outcomes, run.opened.turn))
    except XscoreError:
        return None


def _stored_outcomes(run: "TurnRun") -> tuple[Outcome, ...]:
    pool, parts = run.opened.pool, run.parts
    found = known_judgments(parts.store, run.opened.key, judge_key(parts.judge.identity))
    ended = "the turn ended before it was judged"
    outcomes = []
    for one in pool.candidates:
        hash_ = one.content_hash
        if hash_ in found:
            outcomes.append(
                Outcome(one, found[hash_], Origin.CACHED if hash_ in pool.known else Origin.JUDGED)
            )
        else:
            outcomes.append(
                Outcome(one, Unjudged(hash_, UnjudgedCause.PROVIDER, ended), Origin.UNJUDGED)
            )
    return tuple(outcomes)
