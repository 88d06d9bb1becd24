"""Ask the primary model once, with the bundle and the working session; and say before what that may
take at most."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from xscore.costs.call_history import typical_latency_s
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.turn_stages import Answered, PreparedTurn
from xscore.platform.errors import (
    BudgetExhausted,
    CallTimedOut,
    StoreError,
    UnreadableResponse,
    XscoreError,
)
from xscore.platform.event_loop import clear_cancellation
from xscore.platform.text import join_sentences
from xscore.prompts.answer import (
    FACETS,
    SessionContext,
    answer_request,
    render_checkpoint,
    unknown_cited_ids,
)
from xscore.prompts.bundle_parts import Bundle
from xscore.prompts.rubric import named_rubric
from xscore.providers.prices import PriceList
from xscore.providers.spec import import_http_client
from xscore.records.calls import Answerer, Finish, Stage, Usage
from xscore.records.estimates import PrimaryEstimate
from xscore.records.events import AnswerText
from xscore.records.memory import Layer, Memory
from xscore.records.turn import Checkpoint, Turn
from xscore.settings import Settings
from xscore.store import working_session
from xscore.store.memory_queries import latest_exchanges
from xscore.store.store import Store

if TYPE_CHECKING:
    from xscore.pipeline.resources import TurnResources


ANSWER_FRAME_TOKENS = 1_500
"""Tokens of the answer prompt without the bundle: instructions, task, current file."""


def _most_of_answer(settings: Settings) -> Usage:
    return Usage(
        input_tokens=settings.bundle.max_tokens + ANSWER_FRAME_TOKENS,
        output_tokens=settings.primary.max_output_tokens,
    )


MOST_TOKENS: dict[Stage, Callable[[Settings], Usage]] = {Stage.PRIMARY: _most_of_answer}
"""Each stage whose calls the answering model gets in a turn (`Stage.part`) -> the most that they
may take under these settings; nothing where they make none."""


def answer_estimate(answerer: Answerer, settings: Settings) -> PrimaryEstimate:
    """Return an upper bound for the calls of the answering model; sends nothing."""
    bounds = [bound_of(settings) for bound_of in MOST_TOKENS.values()]
    usage = sum(bounds, Usage())
    prices = PriceList(settings.provider.price)
    cost = prices(answerer.provider, answerer.model, answerer.host, usage)
    return PrimaryEstimate(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=cost,
        host=answerer.host,
        calls=sum(bound != Usage() for bound in bounds),
    )


def typical_answer_s(parts: PipelineParts) -> float:
    """Return the typical seconds of an answering call, from the ledger."""
    assert parts.answerer is not None
    answerer = parts.answerer
    return typical_latency_s(
        parts.store.connection, host=answerer.host, model=answerer.model, stage=Stage.PRIMARY
    )


async def ask_primary(
    parts: PipelineParts, prepared: PreparedTurn, resources: "TurnResources", bundle: Bundle
) -> Answered:
    """Make the answering call; what stops or fails it is part of what is returned."""
    try:
        return await _ask_within_deadline(parts, prepared, resources, bundle)
    except asyncio.CancelledError:
        # Ctrl-C while the answer was streamed: what was judged and chosen is kept, so it is
        # taken back, and the receipt names the interruption.
        clear_cancellation()
        return Answered(interrupted=True)
    except BudgetExhausted as error:  # it was not sent
        return Answered(refused=error.message)
    except XscoreError as error:
        warning = join_sentences(f"the answering call failed: {error.message}", error.hint)
        return Answered(failed=True, warnings=(warning,))


async def _ask_within_deadline(
    parts: PipelineParts, prepared: PreparedTurn, resources: "TurnResources", bundle: Bundle
) -> Answered:
    """Make the call within the deadline and stream it to the observer.

    Raises a leaf of ProviderError, and BudgetExhausted.
    """
    turn = prepared.turn
    checkpoint = prepared.checkpoint
    assert parts.answerer is not None
    provider = resources.answering_provider(parts.answerer)
    conversation = _conversation(parts, turn, checkpoint)
    try:
        async with asyncio.timeout(resources.deadline.left_s()):
            # Within the deadline: the modules are large, and a cold disk slow.
            await import_http_client(parts.answerer.provider)
            request = answer_request(
                turn,
                bundle,
                conversation=conversation,
                model=parts.answerer.model,
                settings=parts.settings.primary,
                is_general=named_rubric(parts.settings.judge.rubric).is_general,
            )
            completion = await provider.complete(
                request, lambda piece: parts.observer.on(AnswerText(piece))
            )
    except TimeoutError as error:
        raise CallTimedOut(
            "the deadline of the turn passed before the answer was complete",
            hint="Raise --deadline; the chosen context is printed.",
        ) from error
    if completion.finish is Finish.REFUSAL or not completion.text.strip():
        raise UnreadableResponse(
            f"{parts.answerer.model} declined or returned nothing",
            hint="The context is printed; try another --model.",
        )
    # The model was shown all of these, so to cite one is no invention.
    shown = {*bundle.citable, *(exchange.id for exchange in conversation.exchanges)}
    known_ids = shown | {*(checkpoint.memory_ids if checkpoint else ())}
    warnings = _answer_warnings(completion.text, completion.finish, known_ids)
    return Answered(completion.text, warnings=tuple(warnings))


def _conversation(
    parts: PipelineParts, turn: Turn, checkpoint: Checkpoint | None
) -> SessionContext:
    """Gather the conversation so far; the summary only if it covers more than the exchanges shown.

    A turn whose scope has no session layer is shown none of it.
    """
    settings = parts.settings.session
    connection = parts.store.connection
    persona = settings.persona or ("" if checkpoint is None else checkpoint.persona)
    saved = "" if checkpoint is None else render_checkpoint(checkpoint)
    facets = stated_facets(parts.store)
    if turn.scope.layers and Layer.SESSION not in turn.scope.layers:
        return SessionContext(checkpoint=saved, persona=persona, facets=facets)
    shown: Sequence[Memory] = ()
    if settings.exchanges:
        shown = latest_exchanges(connection, turn.thread, settings.exchanges)
    session = working_session.load_session(connection, turn.thread)
    # This turn is one of them.
    goes_back = session is not None and session.tasks > len(shown) + 1
    return SessionContext(
        exchanges=shown,
        summary=session.summary if session is not None and goes_back else "",
        checkpoint=saved,
        persona=persona,
        facets=facets,
    )


def stated_facets(store: Store) -> tuple[tuple[str, str], ...]:
    """Return the facets of the persona that the user stated as preferences, in their own words."""
    try:
        user = store.user_connection()
    except StoreError:
        # The receipt says so of the user's layer.
        return ()
    if user is None:
        return ()
    query = (
        "SELECT key, text FROM memory_row WHERE layer = 'user' AND status = 'active' AND kind ="
        " 'preference' AND source = 'explicit' AND key LIKE 'persona.%' ORDER BY key"
    )
    wishes = {key.partition(".")[2]: text for key, text in user.execute(query).fetchall()}
    return tuple(
        (facet, " ".join(wishes[facet].split())) for facet in FACETS if facet in wishes
    )


def _answer_warnings(text: str, finish: Finish, known_ids: Collection[str]) -> list[str]:
    warnings = []
    if finish is Finish.LENGTH:
        warnings.append(
            "the answer was cut at its output limit. Raise primary.max_output_tokens."
        )
    unknown = unknown_cited_ids(text, known_ids)
    if unknown:
        warnings.append(
            f"the answer cites memories that it was not shown: {', '.join(unknown)}"
        )
    return warnings
