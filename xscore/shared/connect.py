"""Which server a `shared.url` names, and how it may be shown. Nothing is connected and no driver is imported here.

A URL may hold a password: it is read from settings of the user's own, handed to the driver, and never shown; messages
and `config show` have scheme, host, port and database (`shown`).
"""

from collections.abc import Callable
from importlib.util import find_spec
from urllib.parse import SplitResult, urlsplit

from xscore.errors import UsageError
from xscore.settings.offline import SharedSettings
from xscore.shared.server import SharedServer

REDIS = frozenset({"redis", "rediss"})
"""`rediss` is TLS."""
POSTGRES = frozenset({"postgresql", "postgres"})
_DRIVERS = {"redis": "redis", "postgres": "psycopg"}
_FORMS = "Write redis://HOST, rediss://HOST (TLS) or postgresql://HOST/DATABASE into shared.url."


def opener(settings: SharedSettings) -> Callable[[], SharedServer]:
    """Return what makes the server of these settings; it connects at the first request.

    Raises UsageError for a URL that names none, and where the extra that speaks to it is not installed.
    """
    url, tenant = settings.url.get_secret_value(), settings.tenant
    scheme = _split(url).scheme
    extra = "redis" if scheme in REDIS else "postgres"
    if find_spec(_DRIVERS[extra]) is None:
        raise UsageError(f"shared.url needs the extra `{extra}`", hint=f"pip install 'xscore[{extra}]'")

    def open_server() -> SharedServer:
        if scheme in REDIS:
            from xscore.shared.redis_server import RedisServer

            return RedisServer(url, tenant=tenant)
        from xscore.shared.postgres_server import PostgresServer

        return PostgresServer(url, tenant=tenant)

    return open_server


def shown(url: str) -> str:
    """Return the URL without user, password and options; what cannot be read is not shown at all."""
    try:
        parts = _split(url)
        port = f":{parts.port}" if parts.port else ""
    except (UsageError, ValueError):
        return "(unreadable)"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def _split(url: str) -> SplitResult:
    """Raises UsageError; its message holds nothing of the URL."""
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port or an address; its message may hold a password with an unescaped sign
        is_whole = False
    if not is_whole or parts.scheme not in REDIS | POSTGRES:
        raise UsageError("shared.url names no server", hint=_FORMS)
    return parts
