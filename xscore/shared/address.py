"""The address of a shared server: what a `shared.url` may be, and how it may be shown. Pure.

A URL may hold a password, so messages and `config show` have scheme, host, port and database alone.
"""

from urllib.parse import SplitResult, urlsplit

from xscore.errors import UsageError

REDIS = frozenset({"redis", "rediss"})
"""`rediss` is TLS."""
POSTGRES = frozenset({"postgresql", "postgres"})
_FORMS = (
    "Write redis://HOST, rediss://HOST (TLS) or postgresql://HOST/DATABASE into shared.url, and signs of a password"
    " that mean something in a URL as %…: @ is %40, / is %2F."
)


def shown(url: str) -> str:
    """Return the URL without user, password and options; what cannot be read is not shown at all."""
    try:
        parts = parted(url)
        port = f":{parts.port}" if parts.port else ""
    except (UsageError, ValueError):
        return "(unreadable)"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def parted(url: str) -> SplitResult:
    """Return the parts of a URL that names a server. Raises UsageError; its message holds nothing of the URL."""
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0 and "@" not in parts.path + parts.query + parts.fragment
    except ValueError:  # of a port or an address; a password with an unescaped sign may stand there, and in the path
        is_whole = False
    if not is_whole or parts.scheme not in REDIS | POSTGRES:
        raise UsageError("shared.url names no server", hint=_FORMS)
    return parts
