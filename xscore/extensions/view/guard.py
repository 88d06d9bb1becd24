"""Who may ask: only a browser that was given the link, on this machine, from our own pages.

The token is in the path and nowhere else. A cookie would be sent to every server on this host,
whatever its port, and by every page; a page that does not know the path cannot send it. So
another origin's page has no credential that the browser would attach. The Host must be the
address that was printed, so a name that is made to point here (DNS rebinding) reads nothing,
and what changes something must come from one of our own pages. Trade-off: the link is in the
browser's history; it is worth nothing once the server has ended.
"""

import hmac
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs, unquote, urlsplit

from msgspec import Struct

from xscore.extensions.view.messages import PageRequest

MAX_BODY_BYTES = 100_000
"""Largest posted form in bytes: the longest memory, percent-escaped."""
MAX_FIELDS = 20
FORM = "application/x-www-form-urlencoded"
OWN_SITES = ("same-origin", "none")
"""What `Sec-Fetch-Site` says about our own pages, and of an address that was typed or opened."""


class RefusedRequest(Exception):
    """A request that is not answered: the status and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class ServerAddress(Struct, frozen=True):
    """The token and the port that a request must name."""

    token: str
    port: int

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the names under which the server may be asked."""
        return (f"127.0.0.1:{self.port}", f"localhost:{self.port}")

    @property
    def link(self) -> str:
        """Return the link that opens the pages."""
        return f"http://{self.hosts[0]}/{self.token}/"


Headers = Mapping[str, Sequence[str]]
"""Lower-case name -> its values, once for each time it was sent."""


def check_headers(
    address: ServerAddress, method: str, target: str, headers: Headers
) -> tuple[str, ...]:
    """Return the path behind the token, in parts. Raises RefusedRequest.

    A wrong token and an unknown page look the same.
    """
    if method not in {"GET", "POST"}:
        raise RefusedRequest(405, "only GET and POST are answered")
    hosts = headers.get("host", ())
    if len(hosts) != 1 or hosts[0].lower() not in address.hosts:
        raise RefusedRequest(421, "this server answers only under its own address")
    _check_origin(address, headers, hosts[0].lower(), changes=method == "POST")
    if not target.startswith("/"):
        raise RefusedRequest(400, "the address is not a path")
    path = urlsplit(target).path
    token, *parts = path.split("/")[1:]
    if not hmac.compare_digest(token.encode(), address.token.encode()):
        raise RefusedRequest(404, "there is no such page")
    return tuple(unquote(part) for part in parts if part)


def _check_origin(
    address: ServerAddress, headers: Headers, host: str, *, changes: bool
) -> None:
    origins = headers.get("origin", ())
    if any(origin.lower() != f"http://{host}" for origin in origins) or len(origins) > 1:
        raise RefusedRequest(403, "the request comes from another page")
    sites = headers.get("sec-fetch-site", ())
    if changes and not origins:
        raise RefusedRequest(403, "the request does not say which page it comes from")
    # A link on a page of others may lead here, as one in a terminal in the browser does; what it
    # opens is not readable there. Everything else must come from here.
    is_link = headers.get("sec-fetch-mode", ("",))[0] == "navigate" and not changes
    if sites and sites[0] not in OWN_SITES and not is_link:
        raise RefusedRequest(403, "the request comes from another page")


def body_length(headers: Headers) -> int:
    """Return how many bytes of a form follow. Raises RefusedRequest."""
    lengths = headers.get("content-length", ())
    if "transfer-encoding" in headers or len(lengths) != 1 or not lengths[0].isdecimal():
        raise RefusedRequest(411, "the length of the form is not given")
    kinds = headers.get("content-type", ("",))
    if kinds[0].partition(";")[0].strip().lower() != FORM:
        raise RefusedRequest(415, "only forms are read")
    # Compared by its digits first: a number of a million digits takes seconds to read.
    if len(lengths[0]) > 9 or int(lengths[0]) > MAX_BODY_BYTES:
        raise RefusedRequest(413, "the form is too large")
    return int(lengths[0])


def read_request(parts: tuple[str, ...], target: str, *, body: bytes | None) -> PageRequest:
    """Return the request of a target and, where one was posted, its form. Raises RefusedRequest."""
    query = _fields(urlsplit(target).query)
    if body is None:
        fields = {name: tuple(values) for name, values in query.items()}
        return PageRequest(is_post=False, path=parts, query=fields)
    try:
        text = body.decode("ascii")
    except UnicodeDecodeError as error:
        raise RefusedRequest(400, "the form is not percent-escaped") from error
    form = {name: values[-1] for name, values in _fields(text).items()}
    return PageRequest(is_post=True, path=parts, query={}, form=form)


def _fields(text: str) -> dict[str, list[str]]:
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise RefusedRequest(400, "too many fields, or one that cannot be read") from error
