"""The connection of one dialect to one host: made late, and every failure on it one of ours.

What travels over it (`wire` for calls, the batches for files and lists) is not its business. The SDK is imported when
the connection is first needed, because that costs about a second of CPU and a cached turn makes none. The trade-off:
the clients of the SDKs are alike because one generator writes them all, and here they are `Any`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from xscore.errors import ProviderError
from xscore.providers.hosts import host_of
from xscore.providers.reply_facts import json_object
from xscore.providers.transport import Route, route_to
from xscore.providers.wire_errors import Vocabulary

if TYPE_CHECKING:
    import httpx2


@dataclass(frozen=True, slots=True)
class Sdk:
    """A vendor's SDK, imported, and its client for one host."""

    client: Any
    """Asynchronous; neither retries nor follows redirects."""
    stream_class: Any
    errors: type[Exception]
    """The root of what it raises."""


class Loading(Protocol):
    """What a connection needs of a dialect."""

    words: Vocabulary

    def load(self, base_url: str, *, key: str, route: Route) -> Sdk:
        """Import the SDK and make a client."""


class Connection:
    """A host, reached through an SDK once something is sent."""

    def __init__(self, dialect: Loading, *, base_url: str, api_key: str) -> None:
        self.host = host_of(base_url, setting=dialect.words.setting)
        self.words = dialect.words
        self.base_url = base_url
        self.key = api_key
        self.caught: tuple[type[Exception], ...] = ()
        """What the SDK and its transport raise, once it is open."""
        self._dialect = dialect
        self._route = Route(self.host, None)
        self._sdk: Sdk | None = None

    def open(self) -> Sdk:
        """Return the SDK with its client; import it the first time."""
        if self._sdk is None:
            import aiohttp
            import httpx2

            self._route = route_to(self.base_url)
            self._sdk = self._dialect.load(self.base_url, key=self.key, route=self._route)
            self.caught = (self._sdk.errors, httpx2.HTTPError, aiohttp.ClientError)
        return self._sdk

    def translated(self, error: Exception, *, model: str = "", prompt: tuple[str, ...] = ()) -> ProviderError:
        """Return our error for one of `caught`; the caller raises it `from error`."""
        ours = self.words.translate(error, host=self.host, model=model, secret=self.key, prompt=prompt)
        return self._route.explained(ours, error)

    def json(self, response: "httpx2.Response", *, model: str = "") -> dict[str, Any]:
        """Return the JSON object of a success. Raises UnreadableResponse."""
        return json_object(response.content, response.headers, words=self.words, host=self.host, model=model)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._sdk is not None:
            await self._sdk.client.close()
            self._sdk = None
