"""The seam to a shared server: judgments with claims, limits a minute, and dollars, all of one tenant.

Redis and PostgreSQL implement it; `read_through` puts it behind the local store. Every method is one round trip that
happens whole or not at all. It decides nothing: which limits and caps hold is told with each call. Methods raise
`SharedUnavailable` when the server cannot be asked, and `StoreDamaged` for judgments that do not fit their seals.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Protocol

from xscore.cache.judgments import Names
from xscore.records import Claimed, Judgment


class SharedServer(Protocol):
    """What several processes and machines share."""

    name: str
    """For messages: scheme, host and port, without a password."""

    async def claim(
        self, names: Names, packs: Sequence[Sequence[str]], *, at_most: int, runner: str, lease_s: float
    ) -> list[Claimed]:
        """Claim whole packs of content hashes, `at_most` so many that still need judging; one result for each pack.

        What is judged already comes with its reason. Claims of a runner without a sign of life within its lease are
        taken over.
        """
        ...

    async def keep(self, names: Names, judgments: Sequence[Judgment]) -> None:
        """Keep judgments and settle the claims on them; the first of two for one content wins."""
        ...

    async def release(self, names: Names, hashes: Sequence[str], *, runner: str) -> None:
        """Give contents up without a judgment."""
        ...

    async def show_life(self, runner: str, *, lease_s: float) -> None:
        """Have the claims of this runner hold for another lease."""
        ...

    async def leave(self, runner: str) -> None:
        """Release whatever the runner claimed."""
        ...

    async def take(self, bucket: str, amounts: Mapping[str, float], limits: Mapping[str, float]) -> float:
        """Take from the buckets of one host and model, all or none; return 0, or the seconds to wait and ask again.

        bucket: host and model. amounts, limits: kind (`requests`, `tokens`, `input_tokens`, `output_tokens`) -> what is
        taken, and what may be taken a minute. A bucket holds `BURST_SHARE` of a minute, as those of one process do.
        """
        ...

    async def give_back(self, bucket: str, amounts: Mapping[str, float], limits: Mapping[str, float]) -> None:
        """Give back what was taken and not used; negative amounts were used beyond it."""
        ...

    async def reserve(self, name: str, usd: Decimal, *, day: str, cap_usd: Decimal, lease_s: float) -> Decimal | None:
        """Set dollars aside for a UTC day of the tenant under this name; return None, or what is left if too little."""
        ...

    async def charge(self, name: str, usd: Decimal, *, day: str) -> None:
        """Charge the day and take back what was set aside under this name. Done twice it is done once."""
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...
