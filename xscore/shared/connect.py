"""From the settings to the server they name. Nothing is connected and no driver is imported before that is asked for.

The URL is read from settings of the user's own and handed to the driver whole; how it may be shown is `address`'s.
"""

from collections.abc import Callable
from importlib.util import find_spec

from xscore.errors import UsageError
from xscore.settings.offline import SharedSettings
from xscore.shared.address import REDIS, parted
from xscore.shared.server import SharedServer

_DRIVERS = {"redis": "redis", "postgres": "psycopg"}


def opener(settings: SharedSettings) -> Callable[[], SharedServer]:
    """Return what makes the server of these settings; it connects at the first request.

    Raises UsageError for a URL that names none, and where the extra that speaks to it is not installed.
    """
    url, tenant = settings.url.get_secret_value(), settings.tenant
    scheme = parted(url).scheme
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
