"""Two teams on one server: whatever a login tries, it sees and changes nothing of the other's."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.extensions.shared.team.conftest import NewMember, TeamDatabase
from tests.statements import decide
from xscore.extensions.shared.team.privileges import excess_privileges
from xscore.extensions.shared.team.setup import (
    VERSION,
    schema_steps,
    schema_version,
    setup_sql,
)

SECRET = "We pay the walrus in herring"
COLUMNS = {
    "entry": ("organisation", "project", "member", "name", "version"),
    "project": ("organisation", "project", "epoch", "version"),
    "reader": ("organisation", "project", "member", "version"),
}
TABLES = tuple(COLUMNS)
Attack = tuple[str, ...]
ATTACKS: dict[str, Attack] = {
    "read all": ("SELECT organisation FROM xscore_team.entry",),
    "name the other": (
        "SELECT organisation FROM xscore_team.entry WHERE organisation = 'acme'",
    ),
    "always true": (
        "SELECT organisation FROM xscore_team.entry WHERE organisation = '' OR 1=1",
    ),
    "union": (
        "SELECT organisation FROM xscore_team.entry UNION SELECT organisation FROM"
        " xscore_team.project",
    ),
    "row security off": (
        "SET row_security = off",
        "SELECT organisation FROM xscore_team.entry",
    ),
    "become the owner": (
        "SET ROLE xscore_team_owner",
        "SELECT organisation FROM xscore_team.entry",
    ),
    "become the other login": ("SET ROLE {ann}", "SELECT organisation FROM xscore_team.entry"),
    "become the superuser": ("SET ROLE tester", "SELECT organisation FROM xscore_team.entry"),
    "be someone else": (
        "SET SESSION AUTHORIZATION {ann}",
        "SELECT organisation FROM xscore_team.entry",
    ),
    "be a member by role": (
        "SET ROLE xscore_team_member",
        "SELECT organisation FROM xscore_team.entry",
    ),
    "a setting names the team": (
        "SET xscore.organisation = 'acme'",
        "SELECT organisation FROM xscore_team.entry",
    ),
    "read the logins": ("SELECT login_role, organisation FROM xscore_team.login",),
    "join the other team": (
        "INSERT INTO xscore_team.login VALUES (session_user, 'acme', repeat('a', 32))",
        "SELECT organisation FROM xscore_team.entry",
    ),
    "move to the other team": (
        "UPDATE xscore_team.login SET organisation = 'acme'",
        "SELECT organisation FROM xscore_team.entry",
    ),
    "a function of the same name": (
        "CREATE FUNCTION pg_temp.current_organisation() RETURNS text LANGUAGE sql AS"
        " $$ SELECT 'acme' $$",
        "SET search_path = pg_temp, xscore_team",
        "SELECT organisation FROM entry",
    ),
    "a table of the same name": (
        "CREATE TEMP TABLE login AS SELECT session_user AS login_role, 'acme' AS organisation",
        "SET search_path = pg_temp, xscore_team, pg_catalog",
        "SELECT organisation FROM entry",
    ),
    "an operator of one's own": (
        "CREATE FUNCTION pg_temp.yes(text, text) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$",
        "CREATE OPERATOR pg_temp.= (LEFTARG = text, RIGHTARG = text, FUNCTION = pg_temp.yes)",
        "SET search_path = pg_temp, pg_catalog",
        "SELECT organisation FROM xscore_team.entry",
    ),
    "replace the function": (
        "CREATE OR REPLACE FUNCTION xscore_team.current_organisation() RETURNS text LANGUAGE sql AS"
        " $$ SELECT 'acme' $$",
        "SELECT organisation FROM xscore_team.entry",
    ),
    "a leaking condition": (
        "CREATE FUNCTION pg_temp.leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS"
        " $$ BEGIN RAISE NOTICE 'leaked %', $1; RETURN true; END $$",
        "SELECT organisation FROM xscore_team.entry WHERE pg_temp.leak(organisation)",
    ),
    "a cast that fails loudly": (
        "SELECT organisation FROM xscore_team.entry WHERE organisation::int = 1",
    ),
    "drop the policy": (
        "DROP POLICY entry_read ON xscore_team.entry",
        "SELECT organisation FROM xscore_team.entry",
    ),
    "switch the policies off": (
        "ALTER TABLE xscore_team.entry DISABLE ROW LEVEL SECURITY",
        "SELECT organisation FROM xscore_team.entry",
    ),
    "a rule": (
        "CREATE RULE spy AS ON INSERT TO xscore_team.entry DO ALSO NOTIFY spied",
        "SELECT organisation FROM xscore_team.entry",
    ),
    "a trigger": (
        "CREATE TRIGGER spy AFTER INSERT ON xscore_team.entry EXECUTE FUNCTION"
        " suppress_redundant_updates_trigger()",
        "SELECT organisation FROM xscore_team.entry",
    ),
    "a view": (
        "CREATE VIEW pg_temp.v AS SELECT * FROM xscore_team.entry",
        "SELECT organisation FROM pg_temp.v",
    ),
    "copy out": ("COPY xscore_team.entry TO STDOUT",),
    "read the file": ("SELECT pg_read_file('base/pgsql_tmp')",),
    "large object": ("SELECT lo_import('/etc/passwd')",),
    "give oneself rights": (
        "GRANT xscore_team_owner TO {eve}",
        "SELECT organisation FROM xscore_team.entry",
    ),
    "bypass": ("ALTER ROLE {eve} BYPASSRLS", "SELECT organisation FROM xscore_team.entry"),
    "statistics": (
        "SELECT most_common_vals::text FROM pg_stats WHERE schemaname = 'xscore_team'",
    ),
    "definitions": ("SELECT prosrc FROM pg_proc WHERE proname LIKE 'leak%'",),
    "write in the other's name": (
        "INSERT INTO xscore_team.entry"
        " (organisation, project, member, name, kind, version, content)"
        " VALUES ('acme', {project}, {member}, repeat('b', 32), 'memory', 99, 'x')",
    ),
    "replay the other's row": (
        "INSERT INTO xscore_team.entry"
        " (organisation, project, member, name, kind, version, content)"
        " VALUES ('acme', {project}, {member}, {name}, 'memory', 99, 'x')"
        " ON CONFLICT (organisation, project, member, name) DO UPDATE"
        " SET content = excluded.content",
    ),
    "erase the other's": ("UPDATE xscore_team.entry SET content = NULL",),
    "take the other's version": ("UPDATE xscore_team.project SET version = 999999",),
    "move rows": ("UPDATE xscore_team.entry SET organisation = 'umbra'",),
    "delete": ("DELETE FROM xscore_team.entry",),
    "truncate": ("TRUNCATE xscore_team.entry",),
    "erase by the function": (
        "SELECT xscore_team.put_entries({project}, ARRAY[{name}], ARRAY['memory'],"
        " ARRAY[NULL]::bytea[])",
    ),
    "sql in a name": (
        "SELECT xscore_team.put_entries('x''; DROP TABLE xscore_team.entry; --', '{{}}', '{{}}',"
        " '{{}}')",
    ),
    "read the whole catalog": ("SELECT rolpassword FROM pg_authid",),
    "the other's session": ("SELECT query FROM pg_stat_activity WHERE usename LIKE 'ann%'",),
}
"""Each line is tried on one connection of eve's, whatever came of the line before."""


def state_of_acme(team: TeamDatabase) -> list[tuple[object, ...]]:
    """Return all rows of the team that is attacked, by the superuser."""
    rows: list[tuple[object, ...]] = []
    with team.admin() as admin:
        for table in TABLES:
            query = f"SELECT t::text FROM xscore_team.{table} t WHERE organisation = 'acme'"
            rows += sorted(admin.execute(query.encode()).fetchall())
        rows += admin.execute("SELECT l::text FROM xscore_team.login l ORDER BY 1").fetchall()
    return rows


@pytest.fixture
def words(team: TeamDatabase, member: NewMember) -> Iterator[dict[str, sql.Composable]]:
    """What an attacker could know: logins, and the names of a row of acme's."""
    ann, eve = member("ann"), member("eve")
    for store in (ann.store, eve.store):
        decide(store, SECRET, key="walrus")
    ann.sync()
    eve.sync()
    assert not eve.texts()
    with team.admin() as admin:
        admin.execute("ANALYZE")
        row = admin.execute(
            "SELECT project, member, name FROM xscore_team.entry WHERE organisation = 'acme'"
        ).fetchone()
    assert row is not None
    guesses: dict[str, sql.Composable] = {
        "ann": sql.Identifier(team.login("ann")),
        "eve": sql.Identifier(team.login("eve")),
    }
    for name, value in zip(("project", "member", "name"), row, strict=True):
        guesses[name] = sql.Literal(value)
    yield guesses


def seen_by_attack(
    team: TeamDatabase, lines: Attack, words: dict[str, sql.Composable]
) -> tuple[list[object], int]:
    """Return everything that an attack got to see, and how many of its lines were refused."""
    seen: list[object] = []
    refused = 0
    with closing(team.connect("eve")) as connection:
        connection.add_notice_handler(lambda notice: seen.append(notice.message_primary))
        for line in lines:
            try:
                if line.startswith("COPY"):
                    with connection.cursor().copy(line) as copy:
                        seen += [bytes(block).decode() for block in copy]
                    continue
                cursor = connection.execute(sql.SQL(line).format(**words))
                if cursor.description:
                    seen += [value for row in cursor.fetchall() for value in row]
            except psycopg.Error as error:
                seen.append(str(error))
                refused += 1
    return seen, refused


@pytest.mark.parametrize("right", ["as set up", "with temporary objects"])
def test_no_attack_shows_or_changes_anything(
    team: TeamDatabase, words: dict[str, sql.Composable], right: str
) -> None:
    """Some forty attacks; none shows a row of the other team, and its rows are as before.

    They are tried again where an administrator lets everyone make temporary objects.
    """
    if right == "with temporary objects":
        with team.admin() as admin:
            admin.execute(f"GRANT TEMPORARY ON DATABASE team_{team.suffix} TO PUBLIC".encode())
    before = state_of_acme(team)
    assert len(ATTACKS) >= 30
    shown: list[str] = []
    for name, lines in ATTACKS.items():
        seen, _ = seen_by_attack(team, lines, words)
        if any(_shows_acme(value) for value in seen):
            shown.append(name)
        assert state_of_acme(team) == before, name
    assert shown == []
    with team.admin() as admin:
        admin.execute(f"REVOKE TEMPORARY ON DATABASE team_{team.suffix} FROM PUBLIC".encode())


def _shows_acme(value: object) -> bool:
    """Whether something that an attacker saw is the other team's: a value, a line of a copy, or
    what a condition leaked; an error that repeats the attacker's own words is not."""
    text = str(value)
    return text in ("acme", "leaked acme") or "acme\t" in text


def test_the_check_sees_what_an_attack_would_show(
    team: TeamDatabase, words: dict[str, sql.Composable]
) -> None:
    """With row-level security off, the same reading shows the other team: the test can fail."""
    with team.admin() as admin:
        admin.execute("ALTER TABLE xscore_team.entry DISABLE ROW LEVEL SECURITY")
    try:
        seen, _ = seen_by_attack(team, ATTACKS["read all"], words)
        assert "acme" in seen
        with closing(team.connect("eve")) as connection:
            (excess,) = excess_privileges(connection)
        assert "entry" in excess
    finally:
        with team.admin() as admin:
            admin.execute("ALTER TABLE xscore_team.entry ENABLE ROW LEVEL SECURITY")


def test_random_reads_show_only_ones_own(
    team: TeamDatabase, words: dict[str, sql.Composable]
) -> None:
    """Ten thousand random readings of any table by either team show its own rows alone."""
    chance = random.Random(31)
    with closing(team.connect("eve")) as eve, closing(team.connect("ann")) as ann:
        for _ in range(10_000):
            connection, organisation = chance.choice(((eve, "umbra"), (ann, "acme")))
            table = chance.choice(TABLES)
            column = chance.choice(COLUMNS[table])
            term = chance.choice(("''", "'acme'", "'umbra'", "NULL", f"{column}::text"))
            operator = chance.choice(("=", "<>", "<", ">", "IS DISTINCT FROM"))
            query = (
                f"SELECT organisation FROM xscore_team.{table}"
                f" WHERE {column}::text {operator} {term}"
                f" OR {chance.choice(('true', 'false'))} ORDER BY {column} LIMIT 50"
            )
            seen = {row[0] for row in connection.execute(query.encode()).fetchall()}
            assert seen <= {organisation}, query


def test_a_login_may_no_more_than_it_needs(team: TeamDatabase) -> None:
    """What `doctor` checks holds after the setup, and is seen to fail after a careless grant."""
    with closing(team.connect("ann")) as connection:
        assert excess_privileges(connection) == []
    login = team.login("ann")
    with team.admin() as admin:
        admin.execute(f"GRANT DELETE ON xscore_team.entry TO {login}".encode())
        admin.execute(f"GRANT INSERT ON xscore_team.access TO {login}".encode())
        admin.execute(f"ALTER ROLE {login} CREATEDB".encode())
    with closing(team.connect("ann")) as connection:
        excess = excess_privileges(connection)
    with team.admin() as admin:
        admin.execute(f"REVOKE DELETE ON xscore_team.entry FROM {login}".encode())
        admin.execute(f"REVOKE INSERT ON xscore_team.access FROM {login}".encode())
        admin.execute(f"ALTER ROLE {login} NOCREATEDB".encode())
    assert len(excess) == 3


CARELESS = {
    "GRANT UPDATE (member) ON xscore_team.entry TO {login}": (
        "REVOKE UPDATE (member) ON xscore_team.entry FROM {login}",
        "UPDATE member of entry",
    ),
    "GRANT UPDATE ON xscore_team.project TO {login}": (
        "REVOKE UPDATE ON xscore_team.project FROM {login};"
        " GRANT UPDATE (version) ON xscore_team.project TO xscore_team_member",
        "UPDATE on project",
    ),
    "GRANT pg_write_all_data TO {login}": (
        "REVOKE pg_write_all_data FROM {login}",
        "act as pg_write_all_data",
    ),
    "CREATE ROLE chief_{login} SUPERUSER; GRANT chief_{login} TO {login}": (
        "DROP ROLE chief_{login}",
        "act as chief_{login} and so be a superuser",
    ),
    "GRANT xscore_team_owner TO {login}": (
        "REVOKE xscore_team_owner FROM {login}",
        "act as xscore_team_owner",
    ),
    "GRANT CREATE ON SCHEMA public TO {login}": (
        "REVOKE CREATE ON SCHEMA public FROM {login}",
        "create in the schema public",
    ),
    "CREATE POLICY careless ON xscore_team.entry USING (true)": (
        "DROP POLICY careless ON xscore_team.entry",
        "in entry by policy careless",
    ),
    "CREATE POLICY careless ON xscore_team.entry FOR SELECT"
    " USING (organisation = xscore_team.current_organisation())": (
        "DROP POLICY careless ON xscore_team.entry",
        "in entry by policy careless",
    ),
    "CREATE POLICY careless ON xscore_team.reader FOR UPDATE"
    " USING (organisation = xscore_team.current_organisation()"
    " AND project <> ALL (xscore_team.closed_to_me()))": (
        "DROP POLICY careless ON xscore_team.reader",
        "in reader by policy careless",
    ),
}
"""Grant or policy of an administrator -> what undoes it, and what `doctor` says of it."""


@pytest.mark.parametrize("careless", CARELESS)
def test_what_an_administrator_opened_is_found(team: TeamDatabase, careless: str) -> None:
    """A right on a column, one that a role brings, and a policy without a term are seen, too."""
    login = team.login("ann")
    undoing, finding = CARELESS[careless]
    with closing(team.admin()) as admin:
        admin.execute(careless.format(login=login).encode())
        try:
            with closing(team.connect("ann")) as connection:
                excess = excess_privileges(connection)
        finally:
            admin.execute(undoing.format(login=login).encode())
    assert finding.format(login=login) in ", ".join(excess)
    with closing(team.connect("ann")) as connection:
        assert excess_privileges(connection) == []


def test_a_member_writes_in_no_other_members_name(
    team: TeamDatabase, words: dict[str, sql.Composable]
) -> None:
    """Within one team, too: bob can neither change nor erase what ann shares."""
    before = state_of_acme(team)
    with closing(team.connect("bob")) as bob:
        for line in (
            "UPDATE xscore_team.entry SET content = NULL",
            *ATTACKS["replay the other's row"],
            *ATTACKS["erase by the function"],
        ):
            try:
                bob.execute(sql.SQL(line).format(**words))
            except psycopg.Error:
                continue
    assert state_of_acme(team) == before


def test_a_row_that_was_moved_is_not_believed(team: TeamDatabase, member: NewMember) -> None:
    """An administrator who gives one row's content to another row is found out."""
    ann, bob = member("ann"), member("bob")
    decide(ann.store, "First of two")
    decide(ann.store, "Second of two")
    ann.sync()
    with team.admin() as admin:
        admin.execute(
            "UPDATE xscore_team.entry AS e SET content = (SELECT content FROM"
            " xscore_team.entry AS o WHERE o.project = e.project AND o.version = 1) WHERE project ="
            " (SELECT project FROM xscore_team.entry ORDER BY created_at DESC LIMIT 1)"
        )
    done = bob.sync()
    assert (done.added, sum(done.skipped.values())) == (1, 1)


def test_the_setup_can_be_read_before_it_is_run(team: TeamDatabase, tmp_path: Path) -> None:
    """The printed SQL is what `--apply` runs: by hand it prepares an empty database as well, brings
    an older schema to this version, and adds logins to one that is there."""
    name = f"by_hand_{team.suffix}"
    with team.admin() as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
    first_steps = {1: schema_steps()[1]}
    cleo, dan = f"cleo_{team.suffix}", f"dan_{team.suffix}"
    url = team.admin_url.rpartition("/")[0] + f"/{name}"
    with closing(psycopg.connect(url, autocommit=True)) as admin:
        for login, steps, version in (
            (cleo, first_steps, 1),
            (dan, schema_steps(), VERSION),
            (dan, schema_steps(), VERSION),
        ):
            script = setup_sql(
                "acme", [login], database=name, with_judgments=version > 1, steps=steps
            )
            admin.execute(f"BEGIN; {script} COMMIT;".encode())
            assert schema_version(admin) == version
    for login in (cleo, dan):
        with closing(psycopg.connect(url.replace("tester@", f"{login}@"))) as connection:
            query = "SELECT xscore_team.current_organisation(), count(*) FROM xscore.judgment"
            assert connection.execute(query.encode()).fetchone() == ("acme", 0)
            assert excess_privileges(connection) == []
