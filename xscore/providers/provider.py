"""The seam to a model: one method. Rate limit, retry and metering are each a Provider around a Provider."""

from collections.abc import Callable
from typing import Protocol

from xscore.records import Completion, Request

OnText = Callable[[str], None]
"""Receives pieces of the reply as they arrive; given, it asks the dialect to stream."""


class Provider(Protocol):
    """Sends one request to one host and gives back the whole reply, or raises a leaf of `ProviderError`."""

    name: str
    """The dialect: `openai`, `scripted`."""
    host: str
    """Host and port that the text goes to; `-` for none."""

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Make one attempt. Cancelling it abandons the call; what was sent may still be charged."""
        ...

    async def aclose(self) -> None:
        """Release connections; the provider is not used afterwards."""
        ...
