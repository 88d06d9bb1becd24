"""Messages about caps: what fits, before anything is sent, and how to continue after a cap stopped the turn.

It reserves and stops nothing; the budget does. Trade-off: it relies on the forecast, for which no prompt is drafted,
so that a turn of thousands of memories is not delayed; the cap it suggests is therefore twice the forecast.
"""

from collections.abc import Iterator, Sequence
from decimal import ROUND_UP, Decimal

from msgspec.structs import replace

from xscore.costs.caps import CAP_SETTINGS, Caps, describe_cap, remaining_under_caps
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.prepare import OpenedTurn
from xscore.pipeline.turn_estimate import answer_estimate
from xscore.platform.clock import day_of
from xscore.providers.prices import PriceList
from xscore.records.calls import Usage
from xscore.records.judgment import Outcome, Unjudged, UnjudgedCause
from xscore.records.memory import Candidate
from xscore.records.reports import CapLeft
from xscore.scorer.drafts import MOST_FRAME_TOKENS, REASON_TOKENS, SCORE_TOKENS

CENT = Decimal("0.01")
ONE_TOKEN = Usage(input_tokens=1, output_tokens=1)
FORECAST_MARGIN = 2
"""Suggested cap as a multiple of the forecast, since a first forecast is off by up to a quarter."""


def announce_budget(parts: PipelineParts, opened: OpenedTurn, *, answers: bool, isolated: bool = False) -> list[str]:
    """Warn, before anything is sent, which models no cap can limit, or what will not fit under one.

    Notify the observer and return the warning for the receipt. answers: the turn ends with a call to the answering
    model. isolated: one turn of a list, which reports its own cap: only models that no cap can limit are returned.
    """
    if isolated:
        return uncapped_judge(parts)
    said = _over_budget(parts, opened, answers=answers)
    for message in said:
        parts.observer.note(message)
    return said


def uncapped_judge(parts: PipelineParts) -> list[str]:
    """Warn that no cap can limit the judge, if a cap is set and its model has no known price."""
    judges = parts.judge.is_model and not parts.settings.judge.replay and Caps.of(parts.settings.budget).any
    return list(_without_price(parts, judges=judges, answers=False))


def _over_budget(parts: PipelineParts, opened: OpenedTurn, *, answers: bool) -> list[str]:
    judges = parts.judge.is_model and bool(opened.pool.misses) and not parts.settings.judge.replay
    if not (Caps.of(parts.settings.budget).any and (judges or answers)):
        return []
    said = list(_without_price(parts, judges=judges, answers=answers))
    cap = _tightest(parts, turn_id="")
    judging = parts.judge.forecast(opened.turn, opened.pool).cost_usd if judges else Decimal(0)
    answering = _answer_cost(parts) if answers else Decimal(0)
    if said or cap is None or judging is None or answering is None:
        return said
    room = max(cap.left_usd, Decimal(0))
    if judging + answering <= room:
        return []
    takes = [
        f"judging may take about ${_usd_rounded_up(judging)}" if judging else "",
        f"the answer at most ${_usd_rounded_up(answering)}" if answering else "",
    ]
    will = [
        "some memories will stay unjudged" if judging > room else "",
        "there may be no room for the answer" if answering else "",
    ]
    return [f"{' and '.join(filter(None, takes))}, above {describe_cap(cap)}: {' and '.join(filter(None, will))}"]


def how_to_continue(parts: PipelineParts, opened: OpenedTurn, outcomes: Sequence[Outcome], refused: str) -> list[str]:
    """Say once, if a cap stopped the turn, what was left undone and which cap is enough for all of it.

    refused: the message of the refused answering call.
    """
    unjudged = [(one.candidate, one.result) for one in outcomes if isinstance(one.result, Unjudged)]
    why = refused or next((result.detail for _, result in unjudged if result.cause is UnjudgedCause.BUDGET), "")
    tightest = _tightest(parts, turn_id=opened.turn.id) if why else None
    if tightest is None:
        return []
    undone = [*(["unjudged memories"] if unjudged else []), *(["no answer"] if refused else [])]
    command = _continue_hint(parts, opened, [candidate for candidate, _ in unjudged], tightest)
    return [f"the budget leaves {' and '.join(undone)}: {why}. What was judged is kept; {command}"]


def _continue_hint(parts: PipelineParts, opened: OpenedTurn, rest: Sequence[Candidate], cap: CapLeft) -> str:
    enough = _enough_usd(parts, opened, rest)
    command = f"`xscore continue {opened.turn.id}`"
    if cap.of == "turn" and enough is not None:
        whole = "the rest and the answer" if rest and parts.answerer else "the rest" if rest else "the answer"
        return f"`xscore continue {opened.turn.id} --max-usd {enough:f}` is enough for {whole}."
    more = "" if enough is None else f" to ${(cap.cap_usd - cap.left_usd + enough).quantize(CENT, ROUND_UP):f}"
    later = ", or wait for the next day (UTC)" if cap.of == "day" else ""
    return f"raise {CAP_SETTINGS[cap.of]}{more}{later}; then run {command}."


def _enough_usd(parts: PipelineParts, opened: OpenedTurn, rest: Sequence[Candidate]) -> Decimal | None:
    """Return a cap that the rest and the answer fit under, given that each call needs room for its upper bound."""
    calls, dearest, judging = parts.judge.calls, Decimal(0), Decimal(0)
    if calls is not None and rest:
        work = parts.judge.forecast(opened.turn, replace(opened.pool, misses=tuple(rest)))
        reply = MOST_FRAME_TOKENS + (SCORE_TOKENS + REASON_TOKENS) * calls.packs.size
        most = Usage(
            input_tokens=FORECAST_MARGIN * work.input_tokens // max(1, work.calls) + calls.packs.tokens,
            output_tokens=reply + calls.model.reasoning_reserve,
        )
        prices = PriceList(parts.settings.provider.price)
        found = prices(parts.judge.identity.provider, calls.model.name, parts.judge.identity.host, most)
        if found is None or work.cost_usd is None:
            return None
        dearest, judging = found, work.cost_usd
    answering = _answer_cost(parts) if parts.answerer is not None else Decimal(0)
    return None if answering is None else (FORECAST_MARGIN * (judging + answering) + dearest).quantize(CENT, ROUND_UP)


def _without_price(parts: PipelineParts, *, judges: bool, answers: bool) -> Iterator[str]:
    seats = []
    calls, identity, answerer = parts.judge.calls, parts.judge.identity, parts.answerer
    if judges and calls is not None:
        seats.append((identity.provider, calls.model.name, identity.host))
    if answers and answerer is not None:
        seats.append((answerer.provider, answerer.model, answerer.host))
    prices = PriceList(parts.settings.provider.price)
    for provider, model, host in dict.fromkeys(seats):
        if prices(provider, model, host, ONE_TOKEN) is None:
            yield f"{model} at {host} has no known price: no cap on dollars holds its calls"


def _answer_cost(parts: PipelineParts) -> Decimal | None:
    return answer_estimate(parts.answerer, parts.settings).cost_usd if parts.answerer is not None else None


def _tightest(parts: PipelineParts, *, turn_id: str) -> CapLeft | None:
    """Return the cap with the least room. Raises StoreDamaged."""
    caps = Caps.of(parts.settings.budget)
    found = remaining_under_caps(parts.store.connection, caps, turn_id=turn_id, day=day_of(parts.clock()), set_aside=())
    return min(found, key=lambda cap: cap.left_usd, default=None)


def _usd_rounded_up(usd: Decimal) -> str:
    """Format dollars with two figures, rounded up."""
    return f"{usd.quantize(Decimal(1).scaleb(min(usd.adjusted() - 1, -2)), ROUND_UP):f}"
