"""A search for `xscore fetch --search`: pages of a list that you keep, by the words of the query.

    [project.entry-points."xscore.searches"]
    bookmarks = "search:bookmarks"

Then `XSCORE_PLUGINS_ENABLED=bookmarks`. A search of a vendor sends the query there, and nothing
else. Nothing that it returns is fetched until you name it.
"""

from collections.abc import Iterable
from pathlib import Path

from xscore.extensions.documents.searching import FoundPage

LIST = Path("bookmarks.txt")
"""A line a page: its address, then its title."""


def bookmarks(query: str, *, limit: int) -> Iterable[FoundPage]:
    """Return the pages whose title has a word of the query."""
    words = set(query.lower().split())
    pages: list[FoundPage] = []
    for line in LIST.read_text("utf-8").splitlines():
        address, _, title = line.partition(" ")
        if not words.isdisjoint(title.lower().split()):
            pages.append(FoundPage(address, title))
    return pages[:limit]
