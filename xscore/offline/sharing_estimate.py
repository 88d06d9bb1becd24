"""What asking a list of questions would take, those that can share packs sharing them. Sends nothing, drafts nothing.

By sizes alone, as any forecast. Trade-off: that a host's prefix cache may serve a part of it is left out, as always.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from math import ceil

from xscore import tokens
from xscore.cost_reports.duration import Work
from xscore.offline.agreeing import caps_left
from xscore.offline.prepared import Prepared
from xscore.offline.sharing_phase import context_tokens, lacked_by
from xscore.pipeline.model_seat import ModelSeat
from xscore.pipeline.parts import Parts
from xscore.pipeline.planning import ASKED_CHARS, asks_of, chars_of
from xscore.pipeline.seats import answer_estimate
from xscore.prompts.judge import turn_block
from xscore.prompts.questions import questions_block, questions_rubric
from xscore.records import Estimate, JudgeEstimate
from xscore.scorer.draft import Drafts
from xscore.scorer.packs import to_send
from xscore.scorer.shared_drafts import expected_output
from xscore.scorer.shared_units import Unit, planned


def estimate(parts: Parts, runs: Iterable[Sequence[Prepared]], *, questions: int, answers: bool) -> Estimate:
    """Say about what the judging takes, and what as many answers take at most. There is at least one question."""
    each = [_of_run(parts, some) for some in runs]
    costs = [one.cost_usd for one in each]
    judging = replace(
        max(each, key=lambda one: one.seconds),
        candidates=sum(one.candidates for one in each),
        cached=sum(one.cached for one in each),
        to_judge=sum(one.to_judge for one in each),
        calls=sum(one.calls for one in each) + (questions - 1 if answers else 0),  # who is asked counts one answer more
        input_tokens=sum(one.input_tokens for one in each),
        output_tokens=sum(one.output_tokens for one in each),
        cost_usd=None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0)),
        seconds=sum(one.seconds for one in each),
    )
    primary = answer_estimate(parts.answerer, parts.settings) if answers and parts.answerer is not None else None
    if primary is not None:
        cost = primary.cost_usd
        primary = replace(
            primary,
            input_tokens=questions * primary.input_tokens,
            output_tokens=questions * primary.output_tokens,
            cost_usd=None if cost is None else questions * cost,
        )
    return Estimate(judge=judging, primary=primary, by_kind={}, by_folder={}, caps=caps_left(parts))


def _of_run(parts: Parts, some: Sequence[Prepared]) -> JudgeEstimate:
    seat = parts.judge
    first = some[0]
    if not isinstance(seat, ModelSeat):
        return seat.forecast(first.turn, first.pool)
    work = Work(0, 0, 0)
    for own in (False, True):
        work = _plus(work, _of_pass(parts, seat, some, own=own))
    pools = [one.pool for one in some]
    return replace(
        seat.priced(work, first.pool),
        candidates=sum(len(pool.candidates) for pool in pools),
        cached=sum(len(pool.candidates) - len(pool.misses) for pool in pools),
        to_judge=sum(len(pool.misses) for pool in pools),
    )


def _of_pass(parts: Parts, seat: ModelSeat, some: Sequence[Prepared], *, own: bool) -> Work:
    drafts, context = seat.drafts, parts.settings.judge.context
    packs = [to_send(lacked_by(one, own=own), seat.slots(one.pool), drafts.profile) for one in some]
    texts = [turn_block(one.turn, context=context) for one in some]
    most = parts.settings.batch.questions_a_call
    units = planned(drafts, packs, texts, most=most, context_tokens=context_tokens(seat), alone=True)
    work = Work(0, 0, 0)
    for unit in units:
        work = _plus(work, _of_unit(drafts, unit, [texts[number] for number in unit.questions]))
    return work


def _of_unit(drafts: Drafts, unit: Unit, texts: Sequence[str]) -> Work:
    asks, pack = asks_of(drafts, unit.pack), unit.pack
    memories = len(pack.members) + asks - 1
    frame = tokens.size(questions_rubric(), questions_block(texts)) + ASKED_CHARS
    chars = asks * frame + chars_of(pack.members, memories)
    output = asks * expected_output(drafts, ceil(memories / asks), len(texts))
    return Work(asks, round(chars / drafts.model.chars_per_token), output)


def _plus(one: Work, other: Work) -> Work:
    return Work(one.calls + other.calls, one.input_tokens + other.input_tokens, one.output_tokens + other.output_tokens)
