"""How like the task each memory is by an embedder, where the settings name one.

It orders the judging, and the lexical judge adds it to its words; the vectors themselves are
`extensions.vectors`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from xscore.extension import Choice, Hook
from xscore.records.turn import Turn
from xscore.settings import Settings

if TYPE_CHECKING:
    from xscore.pipeline.resources import TurnResources
    from xscore.store.store import Store


class Likeness(Struct, frozen=True):
    """Similarity of each memory to the task, for the order of judging and the lexical judge."""

    cosines: Mapping[str, float] = field(default_factory=dict)
    """Cosines by memory id."""
    warnings: tuple[str, ...] = ()


class TurnLikeness(Protocol):
    """Asks an embedder how like the task each memory is."""

    async def __call__(
        self,
        turn: Turn,
        settings: Settings,
        *,
        store: "Store",
        resources: "TurnResources",
        needs_all: bool = False,
    ) -> Likeness:
        """Return the likeness of this turn.

        needs_all: return that of every memory, however long it takes; False: only of those that
            can be embedded in some seconds, and of the nearest alone.
        """
        ...


TURN_LIKENESS: "Hook[TurnLikeness]" = Hook(
    Choice(
        "xscore.extensions.vectors.turn_likeness:turn_likeness",
        lambda settings: settings.embedding.by_model,
    )
)


async def find_likeness(
    turn: Turn,
    settings: Settings,
    *,
    store: "Store",
    resources: "TurnResources",
    needs_all: bool = False,
) -> Likeness:
    """Ask the embedder of the settings; empty without one. needs_all: see `TurnLikeness`."""
    for turn_likeness in TURN_LIKENESS.implementations(settings):
        return await turn_likeness(
            turn, settings, store=store, resources=resources, needs_all=needs_all
        )
    return Likeness()
