"""Estimate a whole turn, by every way to judge it, and confirm a costly one. It sends nothing.

Trade-off: a way asks for what its own cache lacks, so each reads the judgments again.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.costs.caps import Caps, cap_status
from xscore.pipeline.estimating import estimate_judging, forecast_judging, forecast_ways
from xscore.pipeline.factories import (
    choose_judge,
    describe_judge,
    describe_lexical_judge,
    with_dummy_keys,
    with_wire,
)
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import known_judgments, pool_among
from xscore.pipeline.prepare import prepare_turn, with_thread_plan
from xscore.pipeline.turn_clock import Stopwatch
from xscore.pipeline.turn_stages import PreparedTurn
from xscore.platform.errors import NoUsableModel, UsageError
from xscore.providers.decision_hosts import DECISIONS_OF_OPENAI
from xscore.providers.spec import LEXICAL, ModelSpec, parse_model_spec
from xscore.records.estimates import Estimate, JudgeEstimate
from xscore.records.turn import Turn
from xscore.settings import Settings
from xscore.store.purposes import other_contents


def confirm_cost(parts: PipelineParts, prepared: PreparedTurn, *, answers: bool) -> None:
    """Ask before a turn whose estimate is above the limit. Raises UsageError when the user
    declines.

    answers: the turn ends with a call to the answering model.
    """
    judges = bool(prepared.pool.misses) and parts.may_pay_judge
    looks_again = parts.has_final_round and not parts.settings.judge.replay
    if not (answers or judges or looks_again):
        return
    confirm_estimate(
        parts,
        estimate_prepared(parts, prepared, answers=answers),
        hint="Narrow with --glob, or pass --yes.",
    )


def confirm_estimate(parts: PipelineParts, estimate: Estimate, *, hint: str) -> None:
    """Ask once if it may cost more than `budget.confirm_usd`.

    Raises UsageError when the user declines.
    """
    cost = estimate.cost_usd
    if cost is not None and cost <= parts.settings.budget.confirm_usd:
        return
    if not parts.observer.confirm(estimate):
        raise UsageError("nothing was sent: the estimate was declined", hint=hint)


def estimate_turn(parts: PipelineParts, turn: Turn) -> Estimate:
    """Estimate a turn; sends nothing and opens or continues no session."""
    if parts.settings.judge.replay:
        for warning in parts.warnings:  # names the default judge
            parts.observer.note(warning)
    prepared = prepare_turn(parts, turn, Stopwatch(), continues_session=False)
    estimate = estimate_prepared(parts, prepared, answers=parts.answerer is not None)
    ways = estimate.ways
    if not ways and lacks_key(parts.judge.spec, parts.settings):
        ways = (estimate.judge,)
    if not ways:
        return estimate
    return replace(estimate, ways=(*ways, *_other_ways(parts, prepared)))


def _other_ways(parts: PipelineParts, prepared: PreparedTurn) -> Iterator[JudgeEstimate]:
    """Estimate the same candidates through each other wire, with what its own cache lacks, and by
    words.

    Where words judge for want of a key, the model that a key would bring comes in all its ways.
    """
    pool = prepared.pool
    settings = parts.settings
    specs = [other_wire(parts.judge.spec, settings)]
    if not parts.judge.paid:
        settings = with_dummy_keys(settings)
        keyed = with_wire(parse_model_spec(settings.judge.model), settings)
        specs = [keyed, other_wire(keyed, settings)]
    for spec in filter(None, specs):
        described = describe_judge(spec, settings, store=parts.store)
        judgments = known_judgments(parts.store, prepared.key, judge_key(described.identity))
        theirs = pool_among(pool.all_candidates, pool.candidates, judgments)
        plan = with_thread_plan(parts, prepared.turn, theirs, prepared.key, described)
        yield from forecast_ways(described, prepared.turn, plan)
    if parts.judge.paid:
        by_words = describe_lexical_judge(parts.settings, store=parts.store)
        yield forecast_judging(by_words, prepared.turn, pool)


def estimate_prepared(
    parts: PipelineParts, prepared: PreparedTurn, *, answers: bool
) -> Estimate:
    """Estimate a prepared turn under the caps. answers: it ends with a call to the answering
    model."""
    judging = estimate_judging(parts.judge, prepared.turn, prepared.pool)
    caps = cap_status(parts.store.connection, Caps.of(parts.settings.budget), now=parts.clock())
    answering = None
    if parts.answerer is not None and answers:
        from xscore.pipeline.answering import answer_estimate  # only where an answer is wanted

        answering = answer_estimate(parts.answerer, parts.settings)
    final = None
    if parts.has_final_round:
        # Imported only where settings name a model.
        from xscore.pipeline.final_round import estimate_final_round

        final = estimate_final_round(parts, prepared)
    return replace(
        judging,
        primary=answering,
        caps=caps,
        final=final,
        judged_otherwise=count_judged_otherwise(parts, prepared),
    )


def count_judged_otherwise(parts: PipelineParts, prepared: PreparedTurn) -> int:
    """Count what is to be judged again only because the purpose of its file is new to the judge."""
    described = {miss.id for miss in prepared.pool.misses if miss.purpose}
    if not described or not parts.judge.stored:
        return 0
    store = parts.store
    judgments = known_judgments(store, prepared.key, judge_key(parts.judge.identity))
    plain = store.fetch(tests=parts.settings.judge.tests).candidates
    contents = other_contents(
        store.connection, [candidate for candidate in plain if candidate.id in described]
    )
    return sum(not hashes.isdisjoint(judgments) for hashes in contents.values())


def other_wire(spec: ModelSpec, settings: Settings) -> ModelSpec | None:
    """Return the same model through its other wire, decisions or chat; None if it has only one."""
    if spec.provider == DECISIONS_OF_OPENAI:
        return ModelSpec("openai", spec.model)
    rewired = with_wire(spec, replace(settings, judge=replace(settings.judge, wire="auto")))
    return rewired if rewired != spec else None


def settings_to_estimate(settings: Settings) -> tuple[Settings, str]:
    """Return settings whose judge can be estimated, and what stops it from judging now; empty:
    nothing."""
    try:
        _, without_key = choose_judge(settings)
    except NoUsableModel as error:
        return (
            with_dummy_keys(settings),
            f"{error.message}; now only the lexical judge would score (--judge lexical)",
        )
    return settings, "no API key: the lexical judge would score" if without_key else ""


def lacks_key(spec: ModelSpec, settings: Settings) -> bool:
    """Return whether the lexical judge was chosen only because no model has a key."""
    named = parse_model_spec(settings.judge.model)
    return spec.provider == LEXICAL and named.provider != LEXICAL
