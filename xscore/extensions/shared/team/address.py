"""Where a team's server is, and connections to it: TLS beyond this machine, nothing kept in a
session.

A connection is plain `psycopg`, without prepared statements and session settings, so a pooler in
transaction mode may be in front of the server. Beyond loopback the server's certificate is checked
(`verify-full`), because the one that answers is sent encrypted texts, but also a password.
Trade-off: a server with a certificate of its own needs `sslrootcert` in the URL.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.shared.failure_reasons import failure_hint
from xscore.extensions.shared.server import (
    CHECK_IT,
    POSTGRES,
    POSTGRES_PORT,
    displayed_url,
    parse_server_url,
    unavailable,
)
from xscore.extensions.shared.transport import (
    SAFE_MODES,
    is_this_machine,
    refuse_open_transport,
)
from xscore.platform.errors import SharedUnavailable, UsageError
from xscore.platform.extras import require_extra
from xscore.settings.model import SharedSettings

if TYPE_CHECKING:
    import psycopg


ADMIN_S = 60.0
"""Deadline of an administrator's statements, which may change many rows."""
_CHECK_ADMIN = (
    "Check that it is running, that the database exists, and that user and password in"
    " shared.admin_url are right."
)
_OF_MEMORIES = {"shared.url": "shared.memories_url"}
"""Setting that takes a PostgreSQL where this one may name a Redis."""
ADMIN_HINT = "Set XSCORE_SHARED_ADMIN_URL for this command."


class TeamAddress(Struct, frozen=True, kw_only=True):
    """A server of teams, as one login sees it."""

    url: str
    name: str
    """Name for messages: without user and password."""
    host: str
    port: int
    login: str
    is_loopback: bool
    timeout_s: float = 10.0
    """Deadline of a connection, and of each statement."""
    hint: str = CHECK_IT
    """What to check if it cannot be reached."""

    def __repr__(self) -> str:
        return f"TeamAddress({self.name})"


def team_address(
    url: str,
    *,
    timeout_s: float,
    setting: str,
    modules: Sequence[str] = ("psycopg", "cryptography"),
) -> TeamAddress:
    """Read the URL of a team's server.

    setting: its name, for errors.
    modules: what the extra must have brought.

    Raises UsageError for another kind of server, for one beyond this machine without checked TLS,
    and where the extra is missing.
    """
    parts = parse_server_url(url, setting=setting)
    if parts.scheme not in POSTGRES:
        raise UsageError(
            f"memories of a team need PostgreSQL, and {setting} names {displayed_url(url)}",
            hint=f"Write postgresql://HOST/DATABASE into {_OF_MEMORIES.get(setting, setting)}.",
        )
    host = parts.hostname or ""
    address = TeamAddress(
        url=url,
        name=displayed_url(url),
        host=host,
        port=parts.port or POSTGRES_PORT,
        login=unquote(parts.username or ""),
        is_loopback=is_this_machine(host),
        timeout_s=timeout_s,
    )
    refuse_open_transport(parts, url)
    for module in modules:
        require_extra("team", module, purpose="shared.memories")
    return address


def admin_address(
    settings: SharedSettings, *, needed_by: str, hint: str = ADMIN_HINT
) -> TeamAddress:
    """Return the server as its administrator sees it.

    needed_by: the command or option, for the error.
    Raises UsageError where `shared.admin_url` is not set, and as `team_address` does.
    """
    url = settings.admin_url.reveal()
    if not url:
        raise UsageError(
            f"{needed_by} needs an administrator's URL",
            hint=hint,
        )
    address = team_address(url, timeout_s=ADMIN_S, setting="shared.admin_url")
    return replace(address, hint=_CHECK_ADMIN)


def memories_address(
    settings: SharedSettings, *, timeout_s: float | None = None
) -> TeamAddress:
    """Return where the team's memories are. Raises UsageError."""
    url = settings.memories_url.reveal()
    setting = "shared.memories_url"
    if not url:
        url = settings.url.reveal()
        setting = "shared.url"
    if not url:
        raise UsageError(
            "memories of a team need a server, and none is set",
            hint="Set shared.memories_url (XSCORE_SHARED_MEMORIES_URL), or shared.url.",
        )
    return team_address(url, timeout_s=timeout_s or settings.timeout_s, setting=setting)


@contextmanager
def connected(address: TeamAddress) -> Iterator["psycopg.Connection[Any]"]:
    """Open a connection in autocommit, and close it.

    Raises SharedUnavailable, also for what the server refuses within, and UsageError for a URL that
    the driver cannot read.
    """
    import psycopg.conninfo  # an extra

    try:
        url_terms = psycopg.conninfo.conninfo_to_dict(address.url)
    except (psycopg.Error, ValueError):
        # Its message would show the URL, and a password in it.
        raise UsageError(
            f"{address.name} cannot be read as a URL",
            hint="Percent-encode characters of user and password that mean something in a URL.",
        ) from None
    terms = connection_terms(address, url_terms)
    try:
        connection = psycopg.connect(**terms, autocommit=True, prepare_threshold=None)
        try:
            yield connection
        finally:
            connection.close()
    except psycopg.errors.InsufficientPrivilege as error:
        hint = "Ask an administrator: see docs/shared.md."
        raise unavailable(address.name, error, hint) from error
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
        raise not_prepared(address) from error
    except (psycopg.Error, OSError) as error:
        raise unavailable(address.name, error, failure_hint(error, address.hint)) from error


def not_prepared(address: TeamAddress) -> SharedUnavailable:
    """Return the error for a server without the schema of teams."""
    return SharedUnavailable(
        f"{address.name} is not prepared for teams",
        hint="An administrator runs `xscore shared init`: see docs/shared.md.",
    )


def first_value(connection: "psycopg.Connection[Any]", query: str) -> Any:
    """Return the first column of a query's first row; None if there is no row."""
    row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


def connection_terms(address: TeamAddress, url_terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the driver's options; none that matters is left to the environment.

    url_terms: what the driver reads in the URL.
    """
    terms = dict(url_terms)
    terms.setdefault("application_name", "xscore")
    terms["client_encoding"] = "utf8"
    terms.setdefault("connect_timeout", max(2, round(address.timeout_s)))
    if address.is_loopback:
        # PGHOSTADDR, which a project's files may have set, would lead elsewhere without TLS.
        terms["hostaddr"] = "127.0.0.1" if address.host == "localhost" else address.host
    else:
        terms.setdefault("sslmode", SAFE_MODES[0])
        terms.setdefault("sslrootcert", "system")
    return terms
