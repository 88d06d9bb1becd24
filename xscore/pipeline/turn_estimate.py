"""Estimate a whole turn, by every way to judge it, and confirm a costly one. Sends nothing.

Trade-off: a way asks for what its own cache lacks, so each reads the judgments again.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.costs.caps import Caps, cap_status
from xscore.pipeline.factories import choose_judge, judge_factory, with_dummy_keys, with_wire
from xscore.pipeline.lexical_factory import LexicalJudgeFactory
from xscore.pipeline.parts import Answerer, PipelineParts, Stopwatch
from xscore.pipeline.pool import known_judgments, pool_among
from xscore.pipeline.prepare import OpenedTurn, open_turn, with_thread_plan
from xscore.platform.errors import NoUsableModel, UsageError
from xscore.providers.decision_hosts import DECISIONS_OF_OPENAI
from xscore.providers.prices import PriceList
from xscore.providers.spec import LEXICAL, ModelSpec, parse_model_spec
from xscore.records.calls import Usage
from xscore.records.events import JudgeEstimate
from xscore.records.reports import Estimate, PrimaryEstimate
from xscore.records.turn import Turn
from xscore.settings import Settings

ANSWER_FRAME_TOKENS = 1_500
"""Tokens of the answer prompt beside the bundle: instructions, task, current file."""


def confirm_cost(parts: PipelineParts, opened: OpenedTurn, *, answers: bool) -> None:
    """Ask before a turn whose estimate is above the limit. Raises UsageError when the user declines.

    answers: the turn ends with a call to the answering model.
    """
    spends = answers or (parts.judge.is_model and opened.pool.misses and not parts.settings.judge.replay)
    if not spends:
        return
    estimate = estimate_opened(parts, opened, answers=answers)
    cost = estimate.cost_usd
    if (cost is None or cost > parts.settings.budget.confirm_usd) and not parts.observer.confirm(estimate):
        raise UsageError("nothing was sent: the estimate was declined", hint="Narrow with --glob, or pass --yes.")


def estimate_turn(parts: PipelineParts, turn: Turn) -> Estimate:
    """Estimate a turn; sends nothing and opens or continues no session."""
    for said in parts.warnings if parts.settings.judge.replay else ():  # names the default judge
        parts.observer.note(said)
    opened = open_turn(parts, turn, Stopwatch(), takes_up=False)
    found = estimate_opened(parts, opened, answers=parts.answerer is not None)
    first = found.ways or ((found.judge,) if lacks_key(parts.judge.spec, parts.settings) else ())
    return replace(found, ways=(*first, *_other_ways(parts, opened))) if first else found


def _other_ways(parts: PipelineParts, opened: OpenedTurn) -> Iterator[JudgeEstimate]:
    """Estimate the same candidates through each other wire, with what its own cache lacks, and by words.

    Where words judge for want of a key, the model that a key would bring comes in all its ways.
    """
    pool, settings, specs = opened.pool, parts.settings, [other_wire(parts.judge.spec, parts.settings)]
    if not parts.judge.is_model:
        settings = with_dummy_keys(settings)
        keyed = with_wire(parse_model_spec(settings.judge.model), settings)
        specs = [keyed, other_wire(keyed, settings)]
    for spec in filter(None, specs):
        other = judge_factory(spec, settings, store=parts.store, clock=parts.clock)
        known = known_judgments(parts.store, opened.key, judge_key(other.identity))
        theirs = pool_among(pool.all_candidates, pool.candidates, known)
        yield from other.estimate(opened.turn, with_thread_plan(parts, opened.turn, theirs, opened.key, other)).ways
    if parts.judge.is_model:
        yield LexicalJudgeFactory(settings=parts.settings, store=parts.store).forecast(opened.turn, pool)


def estimate_opened(parts: PipelineParts, opened: OpenedTurn, *, answers: bool) -> Estimate:
    """Estimate a prepared turn under the caps. answers: it ends with a call to the answering model."""
    judging = parts.judge.estimate(opened.turn, opened.pool)
    left = cap_status(parts.store.connection, Caps.of(parts.settings.budget), now=parts.clock())
    answering = answer_estimate(parts.answerer, parts.settings) if parts.answerer is not None and answers else None
    return replace(judging, primary=answering, caps=left)


def answer_estimate(answerer: Answerer, settings: Settings) -> PrimaryEstimate:
    """Return an upper bound for the answering call; sends nothing."""
    given, written = settings.bundle.max_tokens + ANSWER_FRAME_TOKENS, settings.primary.max_output_tokens
    usage = Usage(input_tokens=given, output_tokens=written)
    cost = PriceList(settings.provider.price)(answerer.provider, answerer.model, answerer.host, usage)
    return PrimaryEstimate(input_tokens=given, output_tokens=written, cost_usd=cost, host=answerer.host)


def other_wire(spec: ModelSpec, settings: Settings) -> ModelSpec | None:
    """Return the same model through its other wire, decisions or chat; None: it has one."""
    if spec.provider == DECISIONS_OF_OPENAI:
        return ModelSpec("openai", spec.model)
    other = with_wire(spec, replace(settings, judge=replace(settings.judge, wire="auto")))
    return other if other != spec else None


def settings_to_estimate(settings: Settings) -> tuple[Settings, str]:
    """Return settings whose judge can be estimated, and what stops it from judging now; empty: nothing."""
    try:
        _, without_key = choose_judge(settings)
    except NoUsableModel as error:
        return with_dummy_keys(settings), f"{error.message}; now only the lexical judge would score (--judge lexical)"
    return settings, "there is no key: the lexical judge would score now" if without_key else ""


def lacks_key(spec: ModelSpec, settings: Settings) -> bool:
    """Return whether the lexical judge was chosen only because no model has a key."""
    return spec.provider == LEXICAL != parse_model_spec(settings.judge.model).provider
