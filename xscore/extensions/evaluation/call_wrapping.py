"""Puts something around every model that an evaluation pays calls through: a recording, a listener.

It wraps retries, limits and the ledger, so that what it answers itself is neither metered
nor paid.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec.structs import replace

from xscore.pipeline.parts import JudgingParts, PipelineParts
from xscore.pipeline.resources import TurnResources
from xscore.providers.provider import Provider

AroundProvider = Callable[[Provider], Provider]


def with_calls_wrapped(
    parts: PipelineParts, wrapper_of_turn: Callable[[], AroundProvider]
) -> PipelineParts:
    """Return the parts whose turns have this around their models.

    wrapper_of_turn: called once a turn.
    """
    opener = parts.resources_opener

    @asynccontextmanager
    async def open_wrapped(
        judging_parts: JudgingParts, turn_id: str
    ) -> AsyncIterator[TurnResources]:
        async with opener(judging_parts, turn_id) as resources:
            resources.around = wrapper_of_turn()
            yield resources

    return replace(parts, resources_opener=open_wrapped)
