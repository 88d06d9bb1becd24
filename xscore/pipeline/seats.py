"""Who judges and who answers: from settings to seats, before anything is opened or sent.

Without a word about models, the vendor whose key is there takes both seats, OpenAI first; without any key the lexical
judge takes its seat and the answerer's stays empty. A model that was asked for by name and cannot be had is an error
(`NoUsableModel`), never a silent other judge.
"""

import time
from collections.abc import Callable, Sequence

from xscore.errors import AuthenticationFailed, NoUsableModel
from xscore.memory.store import Store
from xscore.pipeline.lexical_seat import LexicalSeat
from xscore.pipeline.model_seat import model_seat
from xscore.pipeline.parts import AnswerSeat, JudgeSeat
from xscore.providers.prices import price
from xscore.providers.spec import LEXICAL, Spec, connect, parse
from xscore.records import PrimaryEstimate, Usage
from xscore.settings import JudgeSettings, PrimarySettings, Settings
from xscore.settings.model import OTHER_JUDGES, OTHER_PRIMARIES

ANSWER_FRAME_TOKENS = 1_500
"""Tokens of the answer prompt beside the bundle: instructions, task, current file."""


def choose_judge(settings: Settings) -> tuple[Spec, tuple[str, ...]]:
    """Return who judges, and what to say of it. Raises NoUsableModel for a model that was named and cannot be had."""
    judge = settings.judge
    if parse(judge.model).provider == LEXICAL:
        return parse(judge.model), ()
    found = _first_with_a_key(judge.model, None if _is_named(judge) else OTHER_JUDGES, settings)
    if found is None:
        return Spec(LEXICAL, ""), ("no model judged: there is no key, so the lexical judge scored",)
    return found, ()


def choose_answerer(settings: Settings) -> AnswerSeat | None:
    """Return who answers; None where no default has a key. Raises NoUsableModel for a named one that has none."""
    primary = settings.primary
    if parse(primary.model).provider == LEXICAL:
        raise NoUsableModel("the lexical judge cannot answer", hint="Name a model: --model provider:model.")
    spec = _first_with_a_key(primary.model, None if _is_named(primary) else OTHER_PRIMARIES, settings)
    return None if spec is None else AnswerSeat(spec.provider, spec.model, connect(spec, settings).host)


def _is_named(part: JudgeSettings | PrimarySettings) -> bool:
    """Whether the user named the model, be it the default."""
    return "model" in part.model_fields_set


def _first_with_a_key(named: str, others: Sequence[str] | None, settings: Settings) -> Spec | None:
    """Return the first that has a key; None where none has. others: None for a model that the user named."""
    for spec in map(parse, (named, *(others or ()))):
        try:
            connect(spec, settings)
        except AuthenticationFailed as error:
            if others is None:
                raise NoUsableModel(error.message, hint=error.hint) from error
        else:
            return spec
    return None


def judge_seat(spec: Spec, settings: Settings, *, store: Store, clock: Callable[[], float] = time.time) -> JudgeSeat:
    """Seat the judge of this spec. clock: Unix seconds. Raises what `connect` raises."""
    if spec.provider == LEXICAL:
        return LexicalSeat(settings=settings, store=store)
    return model_seat(spec, settings, store=store, clock=clock)


def answer_estimate(seat: AnswerSeat, settings: Settings) -> PrimaryEstimate:
    """Say what the answering call takes at most; sends nothing."""
    usage = Usage(
        input_tokens=settings.bundle.max_tokens + ANSWER_FRAME_TOKENS, output_tokens=settings.primary.max_output_tokens
    )
    return PrimaryEstimate(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=price(seat.provider, seat.model, seat.host, usage),
        host=seat.host,
    )
