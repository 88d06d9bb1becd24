"""What `doctor` says about a team's server: TLS, and whether this login may more than it should.

Least privilege is checked on the server as it is, not as the setup made it: an administrator may
have changed it since. Trade-off: it sees what a login can see of itself and of the schema; what a
superuser could do is not its business.
"""

from typing import TYPE_CHECKING, Any

from xscore.extension import implements
from xscore.extensions.shared.team.address import (
    TeamAddress,
    connected,
    first_value,
    memories_address,
)
from xscore.extensions.shared.team.server_sync import within
from xscore.extensions.shared.team.team_key import team_key
from xscore.extensions.shared.team.team_server import TeamServer
from xscore.pipeline.parts import DOCTOR_CHECKS
from xscore.platform.errors import SharedUnavailable, UsageError
from xscore.records.reports import DoctorFinding
from xscore.settings import Settings
from xscore.settings.model import SharedSettings

if TYPE_CHECKING:
    import psycopg

ASPECT = "team"
_NO_PROJECT = "0" * 32
_ROLE = """
    SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication
    FROM pg_catalog.pg_roles WHERE rolname = session_user
"""
_POWERS = ("superuser", "BYPASSRLS", "CREATEROLE", "CREATEDB", "REPLICATION")
_RIGHTS = """
    SELECT pg_has_role(session_user, 'xscore_team_owner', 'MEMBER'),
        has_schema_privilege(session_user, 'xscore_team', 'CREATE'),
        has_database_privilege(session_user, current_database(), 'CREATE'),
        has_database_privilege(session_user, current_database(), 'TEMPORARY'),
        has_table_privilege(session_user, 'xscore_team.login', 'SELECT'),
        has_table_privilege(session_user, 'xscore_team.entry', 'DELETE'),
        has_table_privilege(session_user, 'xscore_team.entry', 'TRUNCATE'),
        has_table_privilege(session_user, to_regclass('xscore_team.access')::oid, 'SELECT'),
        has_table_privilege(session_user, to_regclass('xscore_team.access')::oid, 'INSERT')
"""
"""SQL of the rights of the login; NULL for a table that the schema does not have yet."""
_MAY = (
    "act as the owner of the schema",
    "create in the schema",
    "create schemas in the database",
    "create temporary tables",
    "read the list of logins",
    "delete entries of the team",
    "truncate the team's entries",
    "read who was granted which repository",
    "grant repositories",
)
_OPEN_TABLES = """
    SELECT relname FROM pg_catalog.pg_class
    WHERE relnamespace = 'xscore_team'::regnamespace AND relkind IN ('r', 'p')
        AND relname <> 'version' AND NOT (relrowsecurity AND relforcerowsecurity)
    ORDER BY relname
"""
_TLS = "SELECT ssl FROM pg_catalog.pg_stat_ssl WHERE pid = pg_backend_pid()"
_LIMIT = "SELECT current_setting('statement_timeout')"
_FIX = "An administrator can revoke it: see “What a login may do” in docs/shared.md."


@implements(DOCTOR_CHECKS)
async def check_team_server(settings: Settings) -> list[DoctorFinding]:
    """Ask the server once; return a finding."""
    try:
        address = memories_address(settings.shared)
        team_key(settings.shared)
        shared = settings.shared
        return [within(shared.timeout_s, lambda: _checked(address, shared), name=address.name)]
    except (SharedUnavailable, UsageError) as error:
        return [DoctorFinding(ASPECT, False, error.message, error.hint)]


def _checked(address: TeamAddress, settings: SharedSettings) -> DoctorFinding:
    with connected(address) as connection:
        greeting = TeamServer(connection, address=address, project=_NO_PROJECT).greet()
        excess = excess_privileges(connection)
        tls = "TLS" if first_value(connection, _TLS) else "no TLS, on this machine"
        limit = first_value(connection, _LIMIT)
    if excess:
        return DoctorFinding(
            ASPECT, False, f"{address.name}: this login may {', '.join(excess)}", _FIX
        )
    bounded = "statements without a limit"
    if limit != "0":
        bounded = f"statements end after {limit}"
    return DoctorFinding(
        ASPECT,
        True,
        f"{address.name}: {greeting.organisation}, {settings.memories}; {tls}; {bounded};"
        " this login has only the rights it needs",
    )


def excess_privileges(connection: "psycopg.Connection[Any]") -> list[str]:
    """Return what this login, or the schema, allows beyond what a member needs."""
    excess: list[str] = []
    row = connection.execute(_ROLE.encode()).fetchone() or ()
    excess += [f"be a {power}" for power, has in zip(_POWERS, row, strict=False) if has]
    rights = connection.execute(_RIGHTS.encode()).fetchone() or ()
    excess += [privilege for privilege, may in zip(_MAY, rights, strict=False) if may]
    for (table,) in connection.execute(_OPEN_TABLES.encode()).fetchall():
        excess.append(f"read all of {table}, whose row-level security is not forced")
    return excess
