"""What a turn holds of its contacts with shared servers: the look for one, and the end of a sync.

Nothing here contacts a server: the extension `shared` does. Trade-off: a turn without one loads
none of this, so what only names these types imports them for type checkers.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from xscore.records.calls import ServerCall


class TurnSyncResult(Struct, frozen=True, kw_only=True):
    """What came of the sync with a team's server during a turn."""

    warning: str = ""
    call: ServerCall | None = None
    """Request of the turn; None: the turn itself asked no server."""
    at_end: Callable[[], str] = lambda: ""
    """Does what is left once the turn is over; returns a warning, or nothing."""


class BegunKnock(Protocol):
    """A shared server that is looked for during a turn's own work."""

    calls: list[ServerCall]
    """Looks that failed; the requests of the turn are added to them."""

    def begin(self) -> None:
        """Begin to look, unless it has begun."""
        ...

    async def wait(self, at_most_s: float | None = None) -> None:
        """Return once the server is there. at_most_s: since it began; None: as long as it takes.

        Raises SharedUnavailable.
        """
        ...

    @property
    def is_under_way(self) -> bool:
        """Whether the server may still be found by it."""
        ...

    @property
    def answer_s(self) -> float | None:
        """How long the server took to answer; None if it has not."""
        ...
