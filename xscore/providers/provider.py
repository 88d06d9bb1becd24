"""The interface to a model: one method. Rate limit, retry and metering are each a Provider around a
Provider.

A dialect that hosts speak more or less completely is also `Adaptable`, as connected, without its
wrappers.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from xscore.records.calls import Capability, Completion, ReplyForm, Request

OnText = Callable[[str], None]
"""Receives pieces of the reply as they arrive; if given, the dialect streams."""


class Provider(Protocol):
    """Sends one request to one host and gives back the whole reply, or raises a leaf of
    `ProviderError`."""

    name: str
    """Name of the dialect: `openai`, `scripted`."""
    host: str
    """Host and port that the text goes to; `-` if there are none."""

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Make one attempt. Cancelling it abandons the call; what was sent may still be charged."""
        ...

    async def aclose(self) -> None:
        """Release connections; the provider is not used afterwards."""
        ...


class ProviderWrapper:
    """What every provider around a provider shares."""

    def __init__(self, provider: Provider) -> None:
        self.name: str = provider.name
        self.host: str = provider.host
        self.provider = provider

    async def aclose(self) -> None:
        """Close the provider within."""
        await self.provider.aclose()


@runtime_checkable
class Adaptable(Protocol):
    """A connected provider that asks its host for less where it must, and tells what it found
    out."""

    @property
    def forms(self) -> tuple[ReplyForm, ...]:
        """Forms of the reply in which it can ask, from the strongest; no two are the same on the
        wire."""
        ...

    @property
    def is_vendors_own(self) -> bool:
        """Whether the host is the dialect's vendor, who takes all of it, so that nothing needs
        probing."""
        ...

    def adopt(self, capability: Capability) -> None:
        """Ask from now on as this capability says."""
        ...

    def learned(self, model: str) -> Capability:
        """Return what was adopted, corrected by every reply since; `probed_at` 0 where nothing was
        adopted."""
        ...

    async def models(self) -> tuple[str, ...]:
        """Return the names of the models that the host lists. Raises leaves of `ProviderError`."""
        ...

    async def context_tokens(self, model: str) -> int | None:
        """Return the longest input, if the host reports it; None where it is silent or cannot be
        asked."""
        ...
