"""Who judges and who answers: from settings to seats, before anything is opened or sent.

Without a key and without a word about models, the lexical judge takes the seat and the answerer's stays empty; a model
that was asked for by name and cannot be had is an error (`NoUsableModel`), never a silent other judge.
"""

from xscore.errors import AuthenticationFailed, NoUsableModel
from xscore.memory.store import Store
from xscore.pipeline.lexical_seat import LexicalSeat
from xscore.pipeline.model_seat import model_seat
from xscore.pipeline.parts import AnswerSeat, JudgeSeat
from xscore.providers.prices import price
from xscore.providers.spec import LEXICAL, Spec, connect, parse
from xscore.records import PrimaryEstimate, Usage
from xscore.settings import Settings
from xscore.settings.model import DEFAULT_JUDGE, DEFAULT_PRIMARY

ANSWER_FRAME_TOKENS = 1_500
"""Tokens of the answer prompt beside the bundle: instructions, task, current file."""


def choose_judge(settings: Settings) -> tuple[Spec, tuple[str, ...]]:
    """Return who judges, and what to say of it. Raises NoUsableModel for a model that was named and cannot be had."""
    spec = parse(settings.judge.model)
    if spec.provider == LEXICAL:
        return spec, ()
    try:
        connect(spec, settings)
    except AuthenticationFailed as error:
        if settings.judge.model != DEFAULT_JUDGE:
            raise NoUsableModel(error.message, hint=error.hint) from error
        return Spec(LEXICAL, ""), ("no model judged: there is no key, so the lexical judge scored",)
    return spec, ()


def choose_answerer(settings: Settings) -> AnswerSeat | None:
    """Return who answers; None where the default has no key. Raises NoUsableModel for a named one that has none."""
    spec = parse(settings.primary.model)
    if spec.provider == LEXICAL:
        raise NoUsableModel("the lexical judge cannot answer", hint="Name a model: --model provider:model.")
    try:
        provider = connect(spec, settings)
    except AuthenticationFailed as error:
        if settings.primary.model != DEFAULT_PRIMARY:
            raise NoUsableModel(error.message, hint=error.hint) from error
        return None
    return AnswerSeat(spec.provider, spec.model, provider.host)


def judge_seat(spec: Spec, settings: Settings, *, store: Store) -> JudgeSeat:
    """Seat the judge of this spec. Raises what `connect` raises."""
    if spec.provider == LEXICAL:
        return LexicalSeat(settings=settings, store=store)
    return model_seat(spec, settings, store=store)


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
