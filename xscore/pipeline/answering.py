"""From the bundle and the working session to one answer of the primary model."""

import asyncio
from collections.abc import Collection

from msgspec import Struct

from xscore.costs.call_history import typical_latency_s
from xscore.pipeline.fusion import RenderedContext
from xscore.pipeline.parts import PipelineParts
from xscore.platform.errors import CallTimedOut, UnreadableResponse
from xscore.prompts.answer import SessionContext, answer_request, checkpoint_block, render_checkpoint, unknown_cited_ids
from xscore.providers.provider import Provider
from xscore.providers.spec import import_sdk
from xscore.records import Checkpoint, Finish, Stage, Turn
from xscore.store import turns, working_session


class PrimaryAnswer(Struct, frozen=True):
    """The primary model's answer, and what should be said of it."""

    text: str
    warnings: tuple[str, ...]


def typical_answer_s(parts: PipelineParts) -> float:
    """Say how many seconds an answering call takes, by the ledger."""
    assert parts.answerer is not None
    seat = parts.answerer
    return typical_latency_s(parts.store.connection, host=seat.host, model=seat.model, stage=Stage.PRIMARY)


async def ask_primary(
    parts: PipelineParts,
    provider: Provider,
    turn: Turn,
    context: RenderedContext,
    *,
    within_s: float | None = None,
    checkpoint: Checkpoint | None = None,
) -> PrimaryAnswer:
    """Make the one call; the answer streams to the observer as it comes.

    within_s: seconds for all attempts together, where the turn has a deadline. checkpoint: a saved state to go on
    from. Raises a leaf of ProviderError.
    """
    try:
        async with asyncio.timeout(within_s):
            return await _ask_primary(parts, provider, turn, context, checkpoint)
    except TimeoutError as error:
        raise CallTimedOut(
            "the deadline of the turn came before the answer was whole",
            hint="Allow more with --deadline; the chosen context is given.",
        ) from error


async def _ask_primary(
    parts: PipelineParts, provider: Provider, turn: Turn, context: RenderedContext, checkpoint: Checkpoint | None
) -> PrimaryAnswer:
    assert parts.answerer is not None
    await import_sdk(parts.answerer.provider)
    primary = parts.settings.primary
    conversation = _conversation(parts, turn, checkpoint)
    request = answer_request(
        turn,
        context.bundle,
        conversation=conversation,
        model=parts.answerer.model,
        max_output_tokens=primary.max_output_tokens,
        reasoning=primary.reasoning,
        timeout_s=primary.timeout_s,
    )
    completion = await provider.complete(request, parts.observer.answer_text)
    if completion.finish is Finish.REFUSAL or not completion.text.strip():
        raise UnreadableResponse(
            f"{parts.answerer.model} declined or said nothing", hint="The bundle is given; try --model with another."
        )
    shown = {*context.bundle.citable, *(exchange.id for exchange in conversation.exchanges)}
    known = shown | {*(checkpoint.memory_ids if checkpoint else ())}
    return PrimaryAnswer(completion.text, tuple(_answer_warnings(completion.text, completion.finish, known)))


def with_checkpoint(context: RenderedContext, checkpoint: Checkpoint | None, *, form: str) -> str:
    """Return the bundle as text with the checkpoint before it; a bundle as JSON stands alone."""
    if checkpoint is None or form == "json":
        return context.bundle.text
    return f"{checkpoint_block(SessionContext(checkpoint=render_checkpoint(checkpoint)))}\n\n{context.bundle.text}"


def _conversation(parts: PipelineParts, turn: Turn, checkpoint: Checkpoint | None) -> SessionContext:
    """Gather what was said before; the summary only where it tells of more than the exchanges that are shown."""
    settings, connection = parts.settings.session, parts.store.connection
    shown = turns.exchanges(connection, turn.thread, limit=settings.exchanges) if settings.exchanges else ()
    session = working_session.load_session(connection, turn.thread)
    goes_back = session is not None and session.tasks > len(shown) + 1  # this turn is one of them
    return SessionContext(
        exchanges=shown,
        summary=session.summary if session is not None and goes_back else "",
        checkpoint="" if checkpoint is None else render_checkpoint(checkpoint),
        persona=settings.persona or ("" if checkpoint is None else checkpoint.persona),
    )


def _answer_warnings(text: str, finish: Finish, known: Collection[str]) -> list[str]:
    said = []
    if finish is Finish.LENGTH:
        said.append("the answer was cut at its output limit. Raise primary.max_output_tokens.")
    unknown = unknown_cited_ids(text, known)
    if unknown:
        said.append(f"the answer cites memories that it was not shown: {', '.join(unknown)}")
    return said
