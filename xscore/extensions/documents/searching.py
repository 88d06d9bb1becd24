"""Searches of other packages: a query in, addresses out, of which nothing is fetched.

A search is a function with the type `DocumentSearch` and an entry point of `xscore.searches` that
`plugins.enabled` names. What it is sent is the query that a person typed, and nothing of the
repository. Trade-off: xscore ships none, since each needs a contract with its vendor.
"""

from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from xscore.extension import ENABLED_SETTING, enabled_plugins, plugin_errors
from xscore.platform.errors import UsageError
from xscore.platform.text import readable_text
from xscore.settings import Settings

MOST_RESULTS = 20


class FoundPage(Struct, frozen=True):
    """A page that a search found."""

    address: str
    title: str = ""


class DocumentSearch(Protocol):
    """What an entry point of `xscore.searches` is."""

    def __call__(self, query: str, *, limit: int) -> Iterable[FoundPage]:
        """Return at most `limit` pages, best first."""
        ...


def search_documents(query: str, settings: Settings) -> list[FoundPage]:
    """Ask every search that the user enabled. Raises UsageError where there is none, or one
    fails."""
    searches = enabled_plugins("searches", settings)
    if not searches:
        raise UsageError(
            "no search is enabled",
            hint="Install a package that offers one (`xscore.searches`) and name it in"
            f" {ENABLED_SETTING}.",
        )
    pages: dict[str, FoundPage] = {}
    for name, search in searches.items():
        with plugin_errors(name, setting=ENABLED_SETTING):
            for page in list(search(query, limit=MOST_RESULTS))[:MOST_RESULTS]:
                address = readable_text(str(page.address))
                pages.setdefault(address, FoundPage(address, readable_text(str(page.title))))
    return list(pages.values())
