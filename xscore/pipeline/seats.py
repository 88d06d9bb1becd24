"""Who judges and who answers: from settings to seats, before anything is opened or sent.

Without a word about models, the vendor whose key is there takes both seats, OpenAI first; without any key the lexical
judge takes its seat and the answerer's stays empty. A model that was asked for by name and cannot be had is an error
(`NoUsableModel`), never a silent other judge.

In a replay nothing is sent, so no key is needed: whoever would judge keeps their seat, that their judgments are found.
"""

import time
from collections.abc import Callable, Sequence

from pydantic import SecretStr

from xscore.cache.keys import judge_key
from xscore.errors import AuthenticationFailed, NoUsableModel
from xscore.memory.latest_judge import latest_judge
from xscore.memory.store import Store
from xscore.pipeline.lexical_seat import LexicalSeat
from xscore.pipeline.model_seat import model_seat
from xscore.pipeline.parts import AnswerSeat, JudgeSeat
from xscore.providers.credentials import DUMMY_KEY
from xscore.providers.prices import price
from xscore.providers.spec import LEXICAL, Spec, connect, parse
from xscore.records import PrimaryEstimate, Usage
from xscore.settings import JudgeSettings, PrimarySettings, Settings
from xscore.settings.model import OTHER_JUDGES, OTHER_PRIMARIES

ANSWER_FRAME_TOKENS = 1_500
"""Tokens of the answer prompt beside the bundle: instructions, task, current file."""
REPLAYS = "replay: nothing is sent, so what is not in the cache stays unjudged"
"""Said of a replay for a start; of a list that is all cached it says nothing."""


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
    """Return who answers; None in a replay, and where no default has a key.

    Raises NoUsableModel for a named one that has none.
    """
    primary = settings.primary
    if settings.judge.replay:
        return None
    if parse(primary.model).provider == LEXICAL:
        raise NoUsableModel("the lexical judge cannot answer", hint="Name a model: --model provider:model.")
    spec = _first_with_a_key(primary.model, None if _is_named(primary) else OTHER_PRIMARIES, settings)
    return None if spec is None else AnswerSeat(spec.provider, spec.model, connect(spec, settings).host)


def for_replay(settings: Settings, *, newest: str) -> tuple[Settings, tuple[str, ...]]:
    """Return settings that send nothing and find what was judged, and what to say of it.

    newest: the model that judged last (`provider:model`), which stands in where none is named and no key tells.
    """
    judge, said = settings.judge, REPLAYS
    if not _is_named(judge):
        keyed = _first_with_a_key(judge.model, OTHER_JUDGES, settings)
        judge = judge.model_copy(update={"model": str(keyed or newest or judge.model)})
        if keyed is None:
            why = "which judged here last" if newest else "the default"
            said += f"; no judge is named and no key tells, so it is {judge.model}, {why}"
    embedding = settings.embedding
    if embedding.model.strip().startswith("openai:"):
        embedding = embedding.model_copy(update={"model": "terms"})
    keyless = {
        name: part.model_copy(update={"api_key": SecretStr(DUMMY_KEY)})
        for name, part in (("openai", settings.openai), ("anthropic", settings.anthropic))
    }
    return settings.model_copy(update={"judge": judge, "embedding": embedding, **keyless}), (said,)


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


def configured_judge(settings: Settings, *, store: Store) -> str | None:
    """Return the key of the judge that the next turn would have; None: it keeps no judgments. Needs no API key.

    Raises NoUsableModel, UsageError.
    """
    keyless, _ = for_replay(settings, newest=latest_judge(store.connection))
    seat = judge_seat(choose_judge(keyless)[0], keyless, store=store)
    return judge_key(seat.identity) if seat.is_model else None


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
