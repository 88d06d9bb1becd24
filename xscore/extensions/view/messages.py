"""What crosses the wall between the server and the pages: one request in, one response out."""

from collections.abc import Mapping

from msgspec import Struct

HTML = "text/html; charset=utf-8"
JSON = "application/json"
PLAIN = "text/plain; charset=utf-8"


class PageRequest(Struct, frozen=True, kw_only=True):
    """A request that passed the guard."""

    is_post: bool
    path: tuple[str, ...]
    """The parts of the path after the token, without empty ones."""
    query: Mapping[str, tuple[str, ...]] = {}
    form: Mapping[str, str] = {}
    """The fields of a posted form; if several have one name, the last."""

    def first(self, name: str) -> str:
        """Return the first value of a query field; empty if there is none."""
        return self.query.get(name, ("",))[0]


class PageResponse(Struct, frozen=True, kw_only=True):
    """What is sent back."""

    status: int = 200
    body: str = ""
    content_type: str = PLAIN
    policy: str = "default-src 'none'"
    """The content security policy."""
    location: str = ""
    """Where a browser goes next after a 303."""
