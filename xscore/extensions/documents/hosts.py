"""Which hosts a document may come from: the user's lists, never a repository's.

A host is compared as the name that is called, since one name has many spellings (`ｅxample.com`).
Pure. Trade-off: a name in a list covers its subdomains, so one of them is excepted by the other
list.
"""

import re
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from yarl import URL

from xscore.platform.errors import NotFetched
from xscore.platform.text import one_line
from xscore.settings import DocumentSettings

SCHEME = "https"
_WHOLE_ADDRESS = "Give a whole address, such as https://example.com/page."
_RAW_BYTE = re.compile("[\udc80-\udcff]")
"""Matches a byte of a header that is not UTF-8, as Python reads it."""


def checked_address(source: str, settings: DocumentSettings) -> str:
    """Return an address without its fragment, once it may be fetched. Raises NotFetched."""
    parts = _parts(source)
    host = _requested_host(parts)
    shown = one_line(source)[:200]
    if parts.scheme != SCHEME:
        raise NotFetched(
            f"{shown}: only {SCHEME} addresses are fetched",
            hint="Fetch its https address, or save the page and fetch the file.",
        )
    if parts.username is not None or parts.password is not None:
        raise NotFetched(
            f"{host}: an address with a name or password in it is not fetched",
            hint="Save the page and fetch the file: pages behind a login cannot be fetched.",
        )
    if _is_listed(host, settings.deny):
        raise NotFetched(f"{host} is in documents.deny", hint="Only you can remove it.")
    if settings.allow and not _is_listed(host, settings.allow):
        raise NotFetched(
            f"{host} is not in documents.allow",
            hint="Only you can add it, in your own settings.",
        )
    return urlunsplit(parts._replace(fragment=""))


def may_be_private(address: str, settings: DocumentSettings) -> bool:
    """Whether the user named the host of this address as one inside their own network."""
    host = _requested_host(_parts(address)).rstrip(".")
    return host in [_requested_name(name).rstrip(".") for name in settings.private_hosts]


def redirected_address(address: str, location: str) -> str:
    """Return where a redirect leads, which is still to be checked. Raises NotFetched."""
    location = _RAW_BYTE.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", location)
    try:
        return urljoin(address, location)
    except ValueError as error:
        raise NotFetched(
            f"{origin_of(address)} redirects to {one_line(location)[:200]}, which is not an"
            " address",
            hint="A page that you can open in a browser can be saved and fetched as a file.",
        ) from error


def origin_of(address: str) -> str:
    """Return scheme, host and port of an address."""
    parts = _parts(address)
    return f"{parts.scheme}://{parts.netloc}"


def _parts(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        # Reading the port finds one that is not a number.
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise NotFetched(
            f"{one_line(address)[:200]} is not a valid address: {error}", hint=_WHOLE_ADDRESS
        ) from error
    if not is_whole:
        raise NotFetched(
            f"{one_line(address)[:200]} is not a valid address: it names no host",
            hint=_WHOLE_ADDRESS,
        )
    return parts


def _requested_host(parts: SplitResult) -> str:
    """Return the name of the host that is called for an address. Raises NotFetched."""
    host = parts.hostname or ""
    name = _requested_name(host)
    if not name:
        raise NotFetched(f"{one_line(host)[:200]} is not a host name", hint=_WHOLE_ADDRESS)
    return name


def _requested_name(host: str) -> str:
    """Return a host as it is asked for, in ASCII; empty if it cannot be."""
    # aiohttp calls the name that this returns.
    try:
        return (URL.build(scheme=SCHEME, host=host.lower()).raw_host or "").lower()
    except ValueError:
        return ""


def _is_listed(host: str, names: tuple[str, ...]) -> bool:
    name = host.rstrip(".")
    for listed in names:
        covering = _requested_name(listed.removeprefix("*.").strip("."))
        if covering and (name == covering or name.endswith(f".{covering}")):
            return True
    return False
