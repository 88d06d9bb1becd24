"""What a hook adds to an agent's prompt, with the brief and without it, and what a model makes of
either.

The turn is judged as a hook's is, as the first prompt of a session; the answering model is shown
the hook's text where it else has the bundle. Trade-off: an agent goes on to read files, this model
does not, so the answers show what the text alone is worth.
"""

import asyncio

from msgspec import Struct

from xscore.extensions.agents.agent_bundle import (
    render_from_store,
    size_of,
    split_spoken,
    without_spoken,
)
from xscore.extensions.agents.brief import brief_of_turn
from xscore.pipeline.parts import PipelineParts
from xscore.platform import tokens
from xscore.platform.errors import CallTimedOut
from xscore.prompts.answer import answer_request
from xscore.prompts.bundle_parts import Bundle
from xscore.prompts.rubric import named_rubric
from xscore.providers.spec import import_http_client
from xscore.records.calls import Completion
from xscore.records.receipt import Answer, Selected
from xscore.records.turn import Turn
from xscore.store.hook_state import SessionBrief
from xscore.store.store import Store


class AgentsText(Struct, frozen=True, kw_only=True):
    """What a hook adds to a prompt."""

    brief: str
    """The brief; empty: nothing that was said before bears on the prompt, or it is left out."""
    told: tuple[str, ...]
    """Ids of the memories that the brief quotes."""
    code: str
    selected: tuple[Selected, ...]
    """The memories of the turn's selection that are in the text."""


def agents_text(store: Store, answer: Answer, *, has_brief: bool, max_chars: int) -> AgentsText:
    """Return what a hook would add to the first prompt of a session.

    has_brief: with `agents.memory` on.
    max_chars: `agents.hook_max_chars`.
    """
    spoken, code = split_spoken(answer.selected)
    brief = ""
    told_ids: tuple[str, ...] = ()
    if has_brief and spoken:
        brief, after = brief_of_turn(store, answer, spoken, SessionBrief(), every=False)
        told_ids = after.told if after is not None else ()
    room = max_chars - size_of(brief) - 1
    code_text = render_from_store(store, without_spoken(answer), max_chars=room)
    quoted = [memory for memory in spoken if memory.id in told_ids]
    return AgentsText(brief=brief, told=told_ids, code=code_text, selected=(*quoted, *code))


async def answer_with(
    parts: PipelineParts, turn: Turn, text: AgentsText, *, turn_id: str
) -> Completion:
    """Have the answering model do the task with what an agent would be shown.

    turn: completed, as it was judged.
    turn_id: the turn that the call is charged to.
    Raises ProviderError and BudgetExhausted.
    """
    assert parts.answerer is not None
    shown = "\n".join(filter(None, [text.brief, text.code]))
    size = tokens.estimate(len(shown), kind="text")
    request = answer_request(
        turn,
        Bundle(text=shown, included=text.told, left_out=(), tokens=size),
        model=parts.answerer.model,
        settings=parts.settings.primary,
        is_general=named_rubric(parts.settings.judge.rubric).is_general,
    )
    await import_http_client(parts.answerer.provider)
    async with parts.open_resources(turn_id) as resources:
        provider = resources.answering_provider(parts.answerer)
        try:
            async with asyncio.timeout(parts.settings.budget.deadline_s):
                return await provider.complete(request)
        except TimeoutError as error:
            raise CallTimedOut(
                "the deadline passed before the answer was complete", hint="Raise --deadline."
            ) from error
