"""The seam to limits a minute: who takes from them, what is given back, what a host states of them.

`rates.Rates` holds the limits of one process; those that several processes share stand elsewhere (`shared.rates`).
"""

from typing import Protocol

from xscore.providers.provider import Provider
from xscore.providers.rates import Share
from xscore.records import RateLimits


class RateBudget(Protocol):
    """The limits a minute of one host and model."""

    @property
    def stated(self) -> RateLimits:
        """What the host stated, in this run or an earlier one."""
        ...

    def learn(self, stated: RateLimits) -> None:
        """Take what the host says of its limits; where it is silent, what it said before holds."""
        ...

    async def take(self, share: Share) -> None:
        """Wait until all limits allow this share. For one caller at a time: callers queue in front of it."""
        ...

    def settle(self, taken: Share, spent: Share) -> None:
        """Give back what a call took and did not use."""
        ...


def bucket_of(provider: Provider, *, model: str) -> str:
    """Name the limits of the model at work (`Spec.model`) at its host, the same for all who share them."""
    return f"{provider.name} {provider.host} {model}"
