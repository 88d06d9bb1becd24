"""Which asks of a batch plan go first where the caps may not let all of them go: the most promising, as live ones do.

A job is sent in the order of its asks, so they are numbered anew by the lexical priors of their memories. That is done
only where the most that all may cost passes a cap: priors take a look at every memory for every question. Trade-off:
an ask has one place for all questions that share it, and of a long list `LOOKED_AT` questions, evenly spread, stand for
all of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from math import ceil

from xscore import tokens
from xscore.memory.likeness.terms import EMBEDDER
from xscore.offline.plan import Plan
from xscore.offline.prepared import Memories, prepare
from xscore.offline.rendering import most_usd
from xscore.pipeline.model_seat import ModelSeat
from xscore.pipeline.parts import Parts
from xscore.providers.prices import BOUND_STEP_TOKENS
from xscore.records import CapLeft
from xscore.records.offline import Question
from xscore.scorer.draft import Drafts
from xscore.scorer.lexical import priors

LOOKED_AT = 100


def passes(seat: ModelSeat, drafts: Drafts, plan: Plan, caps: Iterable[CapLeft]) -> bool:
    """Whether the most that all requests may cost is above what a cap leaves; never, where no price is known."""
    least = min((cap.left_usd for cap in caps), default=None)
    if least is None or not plan.requests:
        return False
    most = _most(seat, drafts, plan)
    return most is not None and most > least


def best_first(plan: Plan, promise: Mapping[str, float]) -> Plan:
    """Number the asks anew, the most promising first. promise: by content hash of the memory."""
    each = [max(promise.get(piece.memory, 0.0) for piece in ask.pieces) for ask in plan.asks]
    order = sorted(range(len(plan.asks)), key=lambda number: -each[number])
    place = {number: at for at, number in enumerate(order)}
    requests = [(question, place[ask]) for question, ask in plan.requests]
    return replace(plan, asks=[plan.asks[number] for number in order], requests=requests)


def promise_of(parts: Parts, questions: Sequence[Question], found: Memories) -> dict[str, float]:
    """Return by content hash how much each memory promises over the questions, by words alone."""
    stride = -(-len(questions) // LOOKED_AT)
    promise: dict[str, float] = {}
    vectors = parts.store.vectors(EMBEDDER)
    for prepared in prepare(parts, list(enumerate(questions))[::stride], found):
        misses = prepared.pool.misses
        guesses = priors(prepared.turn, misses, lambda: vectors)
        for miss in misses:
            promise[miss.content_hash] = promise.get(miss.content_hash, 0.0) + guesses[miss.id]
    return promise


def _most(seat: ModelSeat, drafts: Drafts, plan: Plan) -> Decimal | None:
    """Bound the average request as the machine bounds each before it is sent, and multiply."""
    calls, ratio = len(plan.requests), drafts.model.chars_per_token
    caps = [drafts.output_cap(ask) for ask in plan.asks]
    output = ceil(sum(caps[ask] for _, ask in plan.requests) / calls)
    given = ceil(plan.input_tokens * ratio / min(tokens.UPPER_BOUND_CHARS_PER_TOKEN, ratio) / calls)
    each = most_usd(seat.identity.provider, drafts.model.name, seat.host, given + BOUND_STEP_TOKENS, output)
    return None if each is None else each * calls
