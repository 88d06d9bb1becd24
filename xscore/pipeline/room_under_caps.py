"""Say what part of a turn fits under the caps: before anything is sent, and after a cap stopped it,
with the cap that would be enough.

It reserves and stops nothing; the budget does. Trade-off: the suggested cap comes from a forecast
that renders no prompt, so it is twice the forecast.
"""

from collections.abc import Iterator, Sequence
from decimal import ROUND_UP, Decimal

from msgspec.structs import replace

from xscore.costs.caps import CAP_SETTINGS, Caps, describe_cap, remaining_under_caps
from xscore.pipeline.estimating import forecast_judging
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.judge_prompts import prompt_builder
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.turn_stages import Judged, PreparedTurn
from xscore.platform.clock import day_of
from xscore.providers.prices import PriceList
from xscore.records.calls import Usage
from xscore.records.candidates import Candidate
from xscore.records.estimates import CapLeft, JudgeEstimate
from xscore.records.judgment import JudgeIdentity, Unjudged, UnjudgedCause
from xscore.scorer.prompt_builder import MOST_FRAME_TOKENS, REASON_TOKENS, SCORE_TOKENS

CENT = Decimal("0.01")
ONE_TOKEN = Usage(input_tokens=1, output_tokens=1)
FORECAST_MARGIN = 2
"""Suggested cap as a multiple of the forecast, since a first forecast is off by up to a
quarter."""


def announce_budget(
    parts: PipelineParts, prepared: PreparedTurn, *, answers: bool, isolated: bool
) -> list[str]:
    """Warn, before anything is sent, which models no cap can limit, or what will not fit under one.

    Notify the observer and return the warning for the receipt. An isolated turn is one of a list,
    which reports its own cap: only models that no cap can limit are returned.
    """
    if isolated:
        return uncapped_judge(parts)
    warnings = _over_budget(parts, prepared, answers=answers)
    for warning in warnings:
        parts.observer.note(warning)
    return warnings


def uncapped_judge(parts: PipelineParts) -> list[str]:
    """Warn that no cap can limit the judge, if a cap is set and its model has no known price."""
    judges = parts.may_pay_judge and Caps.of(parts.settings.budget).any
    return list(_without_price(parts, judges=judges, answers=False))


def _over_budget(parts: PipelineParts, prepared: PreparedTurn, *, answers: bool) -> list[str]:
    judges = bool(prepared.pool.misses) and parts.may_pay_judge
    if not (Caps.of(parts.settings.budget).any and (judges or answers)):
        return []
    warnings = list(_without_price(parts, judges=judges, answers=answers))
    cap = _tightest(parts, turn_id="")
    judging: Decimal | None = Decimal(0)
    if judges and prepared.forecast is not None:
        judging = prepared.forecast.cost_usd
    answering = _answer_cost(parts) if answers else Decimal(0)
    if warnings or cap is None or judging is None or answering is None:
        return warnings
    room = max(cap.left_usd, Decimal(0))
    if judging + answering <= room:
        return []
    costs: list[str] = []
    consequences: list[str] = []
    if judging:
        costs.append(f"judging may take about ${_usd_rounded_up(judging)}")
    if judging > room:
        consequences.append("some memories will stay unjudged")
    if answering:
        costs.append(f"the answer at most ${_usd_rounded_up(answering)}")
        consequences.append("there may be no room for the answer")
    above = f"{' and '.join(costs)}, above {describe_cap(cap)}"
    return [f"{above}: {' and '.join(consequences)}"]


def how_to_continue(
    parts: PipelineParts, prepared: PreparedTurn, judged: Judged, *, refused: str
) -> list[str]:
    """Say once, if a cap stopped the turn, what was left undone and which cap is enough for all of
    it.

    refused: why a cap had no room for the answering call; empty if it had.
    """
    rest: list[Candidate] = []
    why = refused
    for outcome in judged.outcomes:
        if isinstance(outcome.result, Unjudged):
            rest.append(outcome.candidate)
            if outcome.result.cause is UnjudgedCause.BUDGET:
                why = why or outcome.result.detail
    tightest = None
    if why:
        tightest = _tightest(parts, turn_id=prepared.turn.id)
    if tightest is None:
        return []
    undone: list[str] = []
    if rest:
        undone.append("unjudged memories")
    if refused:
        undone.append("no answer")
    enough = _enough_usd(parts, prepared, rest, judged.judge)
    command = _continue_hint(parts, prepared, enough, tightest, has_rest=bool(rest))
    return [
        f"the budget leaves {' and '.join(undone)}: {why}. What was judged is kept; {command}"
    ]


def _continue_hint(
    parts: PipelineParts,
    prepared: PreparedTurn,
    enough: Decimal | None,
    cap: CapLeft,
    *,
    has_rest: bool,
) -> str:
    command = f"`xscore continue {prepared.turn.id}`"
    if cap.of == "turn" and enough is not None:
        remainder = "the answer"
        if has_rest:
            remainder = "the rest and the answer" if parts.answerer else "the rest"
        raised_command = f"`xscore continue {prepared.turn.id} --max-usd {enough:f}`"
        return f"{raised_command} is enough for {remainder}."
    target = ""
    if enough is not None:
        raised_cap = cap.cap_usd - cap.left_usd + enough
        target = f" to ${raised_cap.quantize(CENT, ROUND_UP):f}"
    later = ", or wait for the next day (UTC)" if cap.of == "day" else ""
    return f"raise {CAP_SETTINGS[cap.of]}{target}{later}; then run {command}."


def _enough_usd(
    parts: PipelineParts,
    prepared: PreparedTurn,
    rest: Sequence[Candidate],
    judged_by: JudgeIdentity,
) -> Decimal | None:
    """Return a cap that the rest and the answer fit under, given that each call needs room for its
    upper bound."""
    dearest = judging = Decimal(0)
    if rest and parts.judge.paid:
        judge = replace(parts.judge, identity=judged_by)
        work = forecast_judging(
            judge, prepared.turn, replace(prepared.pool, misses=tuple(rest))
        )
        price = _price_of_largest_call(judge, work)
        if price is None or work.cost_usd is None:
            return None
        dearest = price
        judging = work.cost_usd
    if parts.answerer is not None:
        answering = _answer_cost(parts)
    else:
        answering = Decimal(0)
    if answering is None:
        return None
    enough = FORECAST_MARGIN * (judging + answering) + dearest
    return enough.quantize(CENT, ROUND_UP)


def _price_of_largest_call(judge: JudgeDescription, work: JudgeEstimate) -> Decimal | None:
    """Return the upper bound for one of the calls of this work, which the budget reserves."""
    builder = prompt_builder(judge)
    packs = builder.profile
    model = builder.model
    input_tokens = FORECAST_MARGIN * work.input_tokens // max(1, work.calls) + packs.tokens
    scores_and_reasons = (SCORE_TOKENS + REASON_TOKENS) * packs.size
    output_tokens = MOST_FRAME_TOKENS + scores_and_reasons + model.reasoning_reserve
    largest = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    prices = PriceList(judge.settings.provider.price)
    return prices(judge.identity.provider, model.name, judge.host, largest)


def _without_price(parts: PipelineParts, *, judges: bool, answers: bool) -> Iterator[str]:
    models = []
    judge = parts.judge
    answerer = parts.answerer
    if judges and judge.paid:
        models.append((judge.identity.provider, judge.asked_model, judge.host))
    if answers and answerer is not None:
        models.append((answerer.provider, answerer.model, answerer.host))
    prices = PriceList(parts.settings.provider.price)
    for provider, model, host in dict.fromkeys(models):
        if prices(provider, model, host, ONE_TOKEN) is None:
            yield f"{model} at {host} has no known price: no cap on dollars can limit its calls"


def _answer_cost(parts: PipelineParts) -> Decimal | None:
    if parts.answerer is None:
        return None
    from xscore.pipeline.answering import answer_estimate  # only where an answer is wanted

    return answer_estimate(parts.answerer, parts.settings).cost_usd


def _tightest(parts: PipelineParts, *, turn_id: str) -> CapLeft | None:
    """Return the cap with the least room. Raises StoreDamaged."""
    caps = Caps.of(parts.settings.budget)
    caps_left = remaining_under_caps(
        parts.store.connection, caps, turn_id=turn_id, day=day_of(parts.clock()), set_aside=()
    )
    return min(caps_left, key=lambda cap: cap.left_usd, default=None)


def _usd_rounded_up(usd: Decimal) -> str:
    """Format dollars with two figures, rounded up."""
    last_place = Decimal(1).scaleb(min(usd.adjusted() - 1, -2))
    return f"{usd.quantize(last_place, ROUND_UP):f}"
