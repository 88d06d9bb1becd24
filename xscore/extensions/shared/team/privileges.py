"""What `doctor` says about a team's server: TLS, and whether this login may more than it should.

Least privilege is checked on the server as it is, not as the setup made it: an administrator may
have changed it since. Trade-off: it sees what a login can see of itself and of the schema; what a
superuser could do is not its business.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xscore.extension import implements
from xscore.extensions.shared.team.address import (
    TeamAddress,
    connected,
    first_value,
    memories_address,
)
from xscore.extensions.shared.team.server_sync import OTHER_KEY, within
from xscore.extensions.shared.team.team_key import TeamKey, team_key
from xscore.extensions.shared.team.team_server import TeamServer
from xscore.pipeline.parts import DOCTOR_CHECKS
from xscore.platform.errors import SharedUnavailable, UsageError
from xscore.platform.text import counted
from xscore.records.reports import DoctorFinding
from xscore.settings import Settings
from xscore.settings.model import SharedSettings

if TYPE_CHECKING:
    import psycopg

ASPECT = "team"
_NO_PROJECT = "0" * 32
_POWERS = (
    "be a superuser",
    "have BYPASSRLS",
    "have CREATEROLE",
    "have CREATEDB",
    "have REPLICATION",
)
_ROLES = """
    SELECT rolname = session_user, rolname,
        rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication
    FROM pg_catalog.pg_roles WHERE pg_has_role(session_user, oid, 'MEMBER')
    ORDER BY rolname <> session_user, rolname
"""
"""SQL of the roles that the login is or may become, the login first."""
_MEMBER_ROLE = "xscore_team_member"
_RIGHTS = """
    SELECT has_schema_privilege(session_user, 'xscore_team', 'CREATE'),
        has_schema_privilege(session_user, to_regnamespace('public')::oid, 'CREATE'),
        has_database_privilege(session_user, current_database(), 'CREATE'),
        has_database_privilege(session_user, current_database(), 'TEMPORARY')
"""
_MAY = (
    "create in the schema",
    "create in the schema public",
    "create schemas in the database",
    "create temporary tables",
)
_ON_TABLES = """
    SELECT relname, privilege FROM pg_catalog.pg_class, unnest(ARRAY[
        'SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER'
    ]) AS privilege
    WHERE relnamespace = 'xscore_team'::regnamespace AND relkind IN ('r', 'p')
        AND has_table_privilege(session_user, pg_class.oid, privilege)
    ORDER BY relname, privilege
"""
_ON_COLUMNS = """
    SELECT relname, privilege, attname FROM pg_catalog.pg_class
    JOIN pg_catalog.pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped,
        unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS privilege
    WHERE relnamespace = 'xscore_team'::regnamespace AND relkind IN ('r', 'p')
        AND NOT has_table_privilege(session_user, pg_class.oid, privilege)
        AND has_column_privilege(session_user, pg_class.oid, attnum, privilege)
    ORDER BY relname, privilege, attnum
"""
_NEEDED: Mapping[str, frozenset[str]] = {
    "version": frozenset({"SELECT"}),
    "project": frozenset({"SELECT", "INSERT organisation", "INSERT project", "UPDATE version"}),
    "entry": frozenset(
        {
            "SELECT",
            *(
                f"INSERT {column}"
                for column in (
                    "organisation",
                    "project",
                    "member",
                    "name",
                    "kind",
                    "version",
                    "content",
                )
            ),
            *(f"UPDATE {column}" for column in ("content", "version", "changed_at")),
        }
    ),
    "reader": frozenset({"SELECT", "INSERT", "UPDATE", "DELETE"}),
}
"""Table -> what a member needs there, for the whole table or for a column."""
_OPEN_TABLES = """
    SELECT relname FROM pg_catalog.pg_class
    WHERE relkind IN ('r', 'p') AND NOT (relrowsecurity AND relforcerowsecurity) AND (
        relnamespace = 'xscore_team'::regnamespace AND relname <> 'version'
        OR relnamespace = to_regnamespace('xscore')
            AND relname IN ('judgment', 'claim', 'runner', 'bucket', 'reservation')
            AND EXISTS (
                SELECT FROM pg_catalog.pg_class AS secured
                WHERE secured.relnamespace = to_regnamespace('xscore')
                    AND secured.relrowsecurity
            )
    )
    ORDER BY relname
"""
"""SQL of the tables without forced row-level security; those of judgments count where one has
it."""
_POLICIES = """
    SELECT polname, relname, polcmd, expression
    FROM pg_catalog.pg_policy JOIN pg_catalog.pg_class ON pg_class.oid = polrelid,
        unnest(ARRAY[pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)])
            AS expression
    WHERE relnamespace IN ('xscore_team'::regnamespace, to_regnamespace('xscore'))
        AND polpermissive AND expression IS NOT NULL
        AND EXISTS (
            SELECT FROM unnest(polroles) AS role
            WHERE role = 0 OR pg_has_role(session_user, role, 'MEMBER')
        )
    ORDER BY relname, polname
"""
"""SQL of the conditions of policies that let this login see or change rows."""
_CLOSED = "SELECT to_regclass('xscore_team.closed')"
_TLS = "SELECT ssl FROM pg_catalog.pg_stat_ssl WHERE pid = pg_backend_pid()"
_LIMIT = "SELECT current_setting('statement_timeout')"
_FIX = "An administrator can revoke it: see “What a login may do” in docs/shared.md."


@implements(DOCTOR_CHECKS)
async def check_team_server(settings: Settings) -> list[DoctorFinding]:
    """Ask the server once; return a finding."""
    try:
        address = memories_address(settings.shared)
        key = team_key(settings.shared)
        shared = settings.shared

        def check() -> DoctorFinding:
            return _checked(address, shared, key)

        return [within(shared.timeout_s, check, name=address.name)]
    except (SharedUnavailable, UsageError) as error:
        return [DoctorFinding(ASPECT, False, error.message, error.hint)]


def _checked(address: TeamAddress, settings: SharedSettings, key: TeamKey) -> DoctorFinding:
    with connected(address) as connection:
        server = TeamServer(connection, address=address, project=_NO_PROJECT)
        greeting = server.greet()
        of_other_key = server.count_of_other_key(key.id)
        excess = excess_privileges(connection)
        tls = "TLS" if first_value(connection, _TLS) else "no TLS, on this machine"
        limit = first_value(connection, _LIMIT)
    if excess:
        return DoctorFinding(
            ASPECT, False, f"{address.name}: this login may {', '.join(excess)}", _FIX
        )
    if of_other_key:
        entries = counted(of_other_key, "entry", "entries")
        return DoctorFinding(
            ASPECT,
            False,
            f"{address.name}: {entries} of colleagues {OTHER_KEY}",
            "The team has one key (XSCORE_SHARED_KEY, shared.key_file): ask a colleague for it.",
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
    powers = _powers(connection)
    if {"be a superuser", "act as xscore_team_owner"} & set(powers):
        # It may do nearly all the rest.
        return powers
    rights = connection.execute(_RIGHTS.encode()).fetchone() or ()
    excess = powers + [privilege for privilege, may in zip(_MAY, rights, strict=False) if may]
    excess += _grants(connection)
    for (table,) in connection.execute(_OPEN_TABLES.encode()).fetchall():
        excess.append(f"read all of {table}, whose row-level security is not forced")
    return excess + _open_policies(connection)


def _powers(connection: "psycopg.Connection[Any]") -> list[str]:
    """Return what the login is, and what it may become."""
    powers: list[str] = []
    for is_login, role, *attributes in connection.execute(_ROLES.encode()).fetchall():
        of_role = [power for power, has in zip(_POWERS, attributes, strict=True) if has]
        if is_login:
            powers += of_role
            if "be a superuser" in of_role:
                return powers
        elif role != _MEMBER_ROLE:
            gain = f" and so {' and '.join(of_role)}" if of_role else ""
            powers.append(f"act as {role}{gain}")
    return powers


def _grants(connection: "psycopg.Connection[Any]") -> list[str]:
    """Return the rights on the team's tables and columns that no request needs."""
    grants: list[str] = []
    for table, privilege in connection.execute(_ON_TABLES.encode()).fetchall():
        if privilege not in _NEEDED.get(table, frozenset()):
            grants.append(f"{privilege} on {table}")
    for table, privilege, column in connection.execute(_ON_COLUMNS.encode()).fetchall():
        if f"{privilege} {column}" not in _NEEDED.get(table, frozenset()):
            grants.append(f"{privilege} {column} of {table}")
    return grants


def _open_policies(connection: "psycopg.Connection[Any]") -> list[str]:
    """Return the policies whose conditions leave out whose rows they are about."""
    knows_closed = first_value(connection, _CLOSED) is not None
    opening: set[str] = set()
    for policy, table, command, expression in connection.execute(_POLICIES.encode()).fetchall():
        terms = ["current_organisation()"]
        if knows_closed and table in ("project", "entry", "reader"):
            terms.append("closed_to_me()")
        # Rows are read by all, and written by their member.
        if table in ("entry", "reader") and command != "r":
            terms.append("current_member()")
        if any(term not in expression for term in terms):
            opening.add(f"reach rows of others in {table} by policy {policy}")
    return sorted(opening)
