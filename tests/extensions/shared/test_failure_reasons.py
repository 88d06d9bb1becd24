"""Why a server could not be asked is one line for a user, without what drivers add."""

import errno
import ssl

import psycopg
import pytest

from tests.extensions.shared.server_programs import free_port
from tests.extensions.shared.team.conftest import TeamDatabase, running, team
from xscore.extensions.shared.failure_reasons import failure_reason
from xscore.extensions.shared.server import CHECK_IT, parse_server_url, unavailable
from xscore.extensions.shared.team.address import admin_address, connected, team_address
from xscore.platform.errors import SharedUnavailable, UsageError
from xscore.settings import Secret
from xscore.settings.model import SharedSettings

__all__ = ("running", "team")

WRONG_PASSWORD = 'FATAL:  password authentication failed for user "ann"'
ATTEMPT = 'connection to server at "127.0.0.1", port 5432 failed: '


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            psycopg.OperationalError(
                f"connection failed: {ATTEMPT}{WRONG_PASSWORD}\n{ATTEMPT}{WRONG_PASSWORD}"
            ),
            'FATAL: password authentication failed for user "ann"',
        ),
        (
            psycopg.OperationalError(
                f"connection failed: {ATTEMPT}Connection refused\n\tIs the server running on that"
                " host and accepting TCP/IP connections?"
            ),
            "Connection refused",
        ),
        (OSError(errno.ECONNREFUSED, "Connection refused"), "Connection refused"),
        (OSError(), "OSError"),
        (TimeoutError("no answer within 2 s"), "no answer within 2 s"),
    ],
)
def test_it_is_said_once_and_without_the_address(error: Exception, reason: str) -> None:
    """The driver names the address again, and the same reason for each attempt."""
    assert failure_reason(error) == reason


def test_an_unknown_authority_is_named_in_the_url() -> None:
    """Nothing is wrong with the server, user or password."""
    for error in (
        ssl.SSLCertVerificationError("certificate verify failed: self-signed certificate"),
        psycopg.OperationalError(f"{ATTEMPT}SSL error: certificate verify failed"),
    ):
        assert "sslrootcert" in unavailable("postgresql://db/team", error).hint


@pytest.mark.verify
def test_what_the_server_refused_is_no_failure_to_reach_it(team: TeamDatabase) -> None:
    """Its first sentence is shown, not the statement and the function; whom to tell is."""
    address = team_address(team.url("ann"), timeout_s=30, setting="shared.memories_url")
    put = "SELECT xscore_team.put_entries(%s, '{a}', '{memory}', '{x}')"
    with pytest.raises(SharedUnavailable) as refused, connected(address) as connection:
        connection.execute("SET default_transaction_read_only = on")
        connection.execute(put.encode(), ("0" * 32,))
    assert refused.value.message.endswith(
        "refused the request: cannot execute INSERT in a read-only transaction"
    )
    assert "administrator" in refused.value.hint


@pytest.mark.verify
def test_an_administrator_who_was_refused_is_sent_to_the_log(team: TeamDatabase) -> None:
    """The server is running and the password is right: neither is to be checked."""
    settings = SharedSettings(admin_url=Secret(team.admin_url))
    address = admin_address(settings, needed_by="--apply")
    with pytest.raises(SharedUnavailable) as refused, connected(address) as connection:
        connection.execute("SELECT 1 / 0")
    assert refused.value.message.endswith("refused the request: division by zero")
    assert "log" in refused.value.hint and "shared.admin_url" not in refused.value.hint


def test_each_setting_is_named_where_it_is_wrong() -> None:
    """Who has set shared.memories_url or shared.admin_url is not sent to shared.url."""
    with pytest.raises(UsageError, match=r"shared\.memories_url does not") as unread:
        parse_server_url("mysql://db/team", setting="shared.memories_url")
    assert "into shared.memories_url" in unread.value.hint
    url = Secret(f"postgresql://postgres@127.0.0.1:{free_port()}/team")
    address = admin_address(SharedSettings(admin_url=url), needed_by="--apply")
    with pytest.raises(SharedUnavailable) as away, connected(address):
        pass
    assert away.value.hint != CHECK_IT and "shared.admin_url" in away.value.hint
