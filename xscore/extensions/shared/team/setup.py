"""The SQL that prepares a PostgreSQL for teams: roles, schema, and the logins of members.

An administrator runs it, by hand or through `xscore shared init --apply`; no member may. It is one
transaction under an advisory lock, and running it again changes nothing. A newer xscore adds the
steps that the schema lacks, while older clients go on: each step says which of them it still
serves. No password is part of it. Trade-off: a login belongs to one organisation, and moving it to
another is an administrator's work by hand.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xscore.extensions.shared.team.address import TeamAddress, connected, first_value
from xscore.platform.errors import SharedUnavailable, UsageError

if TYPE_CHECKING:
    import psycopg

SCHEMA_DIR = Path(__file__).with_name("schema")
VERSION = 3
"""Version of the schema, which rises with each step."""
MIGRATION_LOCK = 7_837_063_920_242
"""Id of the advisory lock under which the schema is created and migrated."""
JUDGMENTS_FILE = Path(__file__).parent.with_name("postgres.sql")
_LOGIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]{0,62}")
_SCHEMA_VERSION = "SELECT to_regclass('xscore_team.version')"
_AS_OWNER = "SET LOCAL ROLE xscore_team_owner;\n"
_AS_ADMIN = "RESET ROLE;\n"
_LIMITS = (
    ("statement_timeout", "'15s'"),
    ("lock_timeout", "'5s'"),
    ("idle_in_transaction_session_timeout", "'15s'"),
    # Types of pgvector are in `public`, where members create nothing.
    ("search_path", "pg_catalog, public"),
)
"""Limits of a member's sessions. A member may raise them; they stop what hangs, not what
attacks."""


def schema_steps() -> dict[int, str]:
    """Return the SQL of each step, by the version that it leads to."""
    return {int(file.stem): file.read_text("utf-8") for file in SCHEMA_DIR.glob("[0-9]*.sql")}


def setup_sql(
    organisation: str,
    logins: Sequence[str],
    *,
    database: str,
    with_judgments: bool = False,
    steps: Mapping[int, str] | None = None,
) -> str:
    """Return the SQL that prepares this database for an organisation and its logins.

    It can be run again: what is there already is left out by the server.

    with_judgments: whether the tables of judgments get row-level security, too.
    steps: as of `schema_steps`, which is the default.
    Raises UsageError for a login that is not a plain name.
    """
    sql_by_version = schema_steps() if steps is None else steps
    parts = [
        f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK});\n",
        (SCHEMA_DIR / "roles.sql").read_text("utf-8"),
        f"REVOKE CREATE, TEMPORARY ON DATABASE {_identifier(database)} FROM PUBLIC;\n",
        _AS_OWNER,
    ]
    is_new = "to_regclass('xscore_team.version') IS NULL"
    for version in sorted(sql_by_version):
        is_missing = is_new
        if version > 1:
            is_missing = f"(SELECT number FROM xscore_team.version) < {version}"
        parts.append(_only_if(is_missing, f"step_{version}", sql_by_version[version]))
    parts.append(_AS_ADMIN)
    if with_judgments:
        parts += _judgment_sql()
    for login in logins:
        parts.append(_login_sql(organisation, login, database=database))
    return "\n".join(parts)


def _only_if(condition: str, name: str, sql: str) -> str:
    """Return SQL that runs other SQL on a condition.

    name: of the quotes around that SQL, which may not occur in it.
    """
    assert f"${name}$" not in sql
    return (
        f"DO $if_{name}$ BEGIN IF {condition} THEN EXECUTE ${name}$\n{sql.strip()}\n"
        f"${name}$; END IF; END $if_{name}$;\n"
    )


def _judgment_sql() -> list[str]:
    # The schema is there by then, and its owner may create no other.
    tables = JUDGMENTS_FILE.read_text("utf-8").replace(
        "CREATE SCHEMA IF NOT EXISTS xscore;", ""
    )
    is_missing = "to_regclass('xscore.version') IS NULL"
    return [
        _only_if(
            is_missing,
            "judgments_schema",
            "CREATE SCHEMA IF NOT EXISTS xscore AUTHORIZATION xscore_team_owner;",
        ),
        _AS_OWNER,
        _only_if(is_missing, "judgments", tables),
        _AS_ADMIN,
        (SCHEMA_DIR / "judgments.sql").read_text("utf-8"),
    ]


def _login_sql(organisation: str, login: str, *, database: str) -> str:
    if not _LOGIN.fullmatch(login):
        raise UsageError(
            f"{login!r} is not a name for a login",
            hint="Use letters, digits and _.@-, at most 63, starting with a letter or _.",
        )
    role = _identifier(login)
    login_text = _literal(login)
    team = _literal(organisation)
    lines = [
        f"-- {login}, a member of {organisation}. Give it a password: \\password {login}",
        f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = {login_text})"
        f" THEN CREATE ROLE {role} LOGIN; END IF; END $$;",
        f"GRANT CONNECT ON DATABASE {_identifier(database)} TO {role};",
        f"GRANT xscore_team_member TO {role};",
    ]
    for name, value in _LIMITS:
        lines.append(f"ALTER ROLE {role} SET {name} = {value};")
    lines += [
        _AS_OWNER.strip(),
        "INSERT INTO xscore_team.login (login_role, organisation, member)",
        f"    VALUES ({login_text}, {team}, left(encode(sha256(convert_to("
        f"{_literal(f'xscore member {organisation} {login}')}, 'UTF8')), 'hex'), 32))",
        "    ON CONFLICT (login_role) DO NOTHING;",
        "DO $$ BEGIN IF EXISTS (SELECT FROM xscore_team.login WHERE login_role ="
        f" {login_text} AND organisation <> {team})",
        f"    THEN RAISE EXCEPTION '% belongs to another organisation', {login_text};"
        " END IF; END $$;",
        _AS_ADMIN,
    ]
    return "\n".join(lines)


def apply_setup(
    address: TeamAddress,
    organisation: str,
    logins: Sequence[str],
    *,
    with_judgments: bool = False,
    steps: Mapping[int, str] | None = None,
) -> int:
    """Prepare the database as an administrator; return the version of the schema now.

    with_judgments: whether judgments of several teams are kept apart there, too.
    Raises SharedUnavailable, and UsageError as `setup_sql` does.
    """
    with connected(address) as connection, connection.transaction():
        # Two administrators at once: the later sees what the earlier made.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        since = schema_version(connection)
        newest = max(schema_steps() if steps is None else steps)
        if since > newest:
            raise SharedUnavailable(
                f"the schema on {address.name} is of a newer xscore ({since}; this one has"
                f" {newest})",
                hint="Upgrade xscore. Nothing was changed.",
            )
        database = str(first_value(connection, "SELECT current_database()"))
        script = setup_sql(
            organisation,
            logins,
            database=database,
            with_judgments=with_judgments,
            steps=steps,
        )
        connection.execute(script.encode())
    return max(since, newest)


def schema_version(connection: "psycopg.Connection[Any]") -> int:
    """Return the version of the schema that is there; 0 if none is."""
    if first_value(connection, _SCHEMA_VERSION) is None:
        return 0
    return int(first_value(connection, "SELECT number FROM xscore_team.version"))


def require_schema(
    connection: "psycopg.Connection[Any]", address: TeamAddress, version: int, *, of: str
) -> None:
    """Raise SharedUnavailable where the schema is older than this version, which brought `of`."""
    if schema_version(connection) < version:
        raise SharedUnavailable(
            f"the schema on {address.name} is older than {of}",
            hint="Run `xscore shared init --apply` first.",
        )


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
