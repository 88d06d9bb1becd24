"""Remove from a team's PostgreSQL what has long been unused, as an administrator decides.

Judgments are removed by turn: those of a turn that has gained none for N days. Each judgment
has a date, a column with a default, so clients of any version work unchanged. Marks of erased
memories go once every member of these days has pulled past them; another machine of a member
that has not compares all that it has with the server (`project.pruned`). What a member has
stated is never removed here: `shared erase` and `memory delete` are its member's. Each removal
is noted in `xscore.removal`, or in `xscore_team.removal` where there are no judgments. Trade-off:
judgments from before the date was kept count as of the day when it was first asked for, and a
turn that all members have cached is not seen to be used; it is judged again when somebody new
asks it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from xscore.extensions.shared.team.address import TeamAddress, connected, first_value
from xscore.extensions.shared.team.setup import require_schema
from xscore.platform.errors import SharedUnavailable

if TYPE_CHECKING:
    import psycopg

TURNS_AT_ONCE = 200
"""Most turns of one transaction, so that no member waits long for a lock."""
LOCK = 7_837_063_920_243
"""Id of the advisory lock under which one administrator at a time removes."""
SCHEMA_OF_PRUNING = 3
"""The first schema that says up to where marks were removed."""
OWNER = "xscore_team_owner"
_HAS_MEMORIES = "SELECT to_regclass('xscore_team.entry')"
_HAS_OWNERS_POLICY = """
    SELECT true FROM pg_catalog.pg_policy
    WHERE polrelid = 'xscore.judgment'::regclass AND polname = 'of_owner'
"""
_HAS_JUDGMENTS = "SELECT to_regclass('xscore.judgment')"
_HAS_DATE = """
    SELECT true FROM pg_catalog.pg_attribute WHERE attrelid = 'xscore.judgment'::regclass
        AND attname = 'stored_on' AND NOT attisdropped
"""
_ADD_DATE = "ALTER TABLE xscore.judgment ADD COLUMN stored_on date DEFAULT current_date"
_ADD_AUDIT = """
    CREATE TABLE IF NOT EXISTS xscore.removal (
        at timestamptz NOT NULL DEFAULT now(), removed_by name NOT NULL DEFAULT session_user,
        tenant text NOT NULL, unused_days integer NOT NULL, turns bigint NOT NULL,
        judgments bigint NOT NULL, marks bigint NOT NULL
    )
"""
_UNUSED_TURNS = """
    SELECT turn, count(*) FROM xscore.judgment WHERE tenant = %s GROUP BY turn
    HAVING max(stored_on) < current_date - %s::integer
"""
_REMOVE_TURNS = """
    DELETE FROM xscore.judgment WHERE tenant = %s AND turn = ANY (%s::text[])
        AND stored_on < current_date - %s::integer
"""
"""SQL that removes turns; what a member has added in the meantime stays."""
_MARKS = """
    FROM xscore_team.entry WHERE organisation = %(team)s AND content IS NULL
        AND changed_at < now() - make_interval(days => %(days)s) AND NOT EXISTS (
            SELECT FROM xscore_team.reader
            WHERE reader.organisation = entry.organisation AND reader.project = entry.project
                AND reader.version < entry.version
                AND reader.seen_at >= now() - make_interval(days => %(days)s))
"""
"""SQL of the marks that no member waits for. One who was away for as long compares all anyway, and
one who has left would keep them for good."""
_COUNT_MARKS = f"SELECT count(*) {_MARKS}"
_REMOVE_MARKS = f"""
    WITH gone AS (DELETE {_MARKS} RETURNING project, version),
    noted AS (
        UPDATE xscore_team.project SET pruned = greatest(pruned, latest.version)
        FROM (SELECT project, max(version) AS version FROM gone GROUP BY project) AS latest
        WHERE project.organisation = %(team)s AND project.project = latest.project
    )
    SELECT count(*) FROM gone
"""
"""A machine that has pulled less compares all that it has."""
_NOTE = """
    INSERT INTO {schema}.removal (tenant, unused_days, turns, judgments, marks)
    VALUES (%s, %s, %s, %s, %s)
"""


class Removal(Struct, frozen=True, kw_only=True):
    """What was removed, or would be."""

    tenant: str
    unused_days: int
    turns: int
    judgments: int
    marks: int
    """Marks of erased memories, which every member of these days has noticed."""
    dry_run: bool
    had_dates: bool
    """Whether the server knew when its judgments were used; the first run begins to note it."""


def remove_unused(
    address: TeamAddress, tenant: str, *, unused_days: int, dry_run: bool
) -> Removal:
    """Remove what was unused for this many days; return how much. Raises SharedUnavailable.

    dry_run: only count.
    """
    with connected(address) as connection:
        has_judgments = first_value(connection, _HAS_JUDGMENTS) is not None
        has_memories = first_value(connection, _HAS_MEMORIES) is not None
        if has_memories:
            require_schema(connection, address, SCHEMA_OF_PRUNING, of="this removal")
        elif not has_judgments:
            raise SharedUnavailable(
                f"{address.name} has no judgments and no memories of a team",
                hint="shared.admin_url may name another database.",
            )
        if not first_value(connection, f"SELECT pg_try_advisory_lock({LOCK})"):
            raise SharedUnavailable(
                f"another process is removing judgments from {address.name}",
                hint="Try again when it is done.",
            )
        had_dates = True
        unused: dict[str, int] = {}
        if has_judgments:
            had_dates = _begin_dates(connection, dry_run=dry_run)
            role = _role_for_judgments(connection, address)
            if had_dates:
                unused = _unused_turns(connection, tenant, role, unused_days=unused_days)
        marks = 0
        if has_memories:
            marks = _marks(connection, tenant, unused_days, dry_run=dry_run)
        judgments = sum(unused.values())
        if unused and not dry_run:
            judgments = _remove_turns(
                connection, tenant, list(unused), role, unused_days=unused_days
            )
        removal = Removal(
            tenant=tenant,
            unused_days=unused_days,
            turns=len(unused),
            judgments=judgments,
            marks=marks,
            dry_run=dry_run,
            had_dates=had_dates,
        )
        if not dry_run:
            _note(connection, removal, schema="xscore" if has_judgments else "xscore_team")
    return removal


def _begin_dates(connection: "psycopg.Connection[Any]", *, dry_run: bool) -> bool:
    """Have the server note when judgments are stored; return whether it did before."""
    has_date = bool(first_value(connection, _HAS_DATE))
    if not (has_date or dry_run):
        connection.execute(_ADD_DATE)
    return has_date


def _role_for_judgments(connection: "psycopg.Connection[Any]", address: TeamAddress) -> str:
    """Return the role that sees the judgments of a team; empty: the administrator does.

    Raises SharedUnavailable where neither does: nothing would ever be removed.
    """
    if not first_value(connection, "SELECT row_security_active('xscore.judgment')"):
        return ""
    if not first_value(connection, _HAS_OWNERS_POLICY):
        raise SharedUnavailable(
            f"row-level security on {address.name} hides the judgments from this administrator",
            hint="Run `xscore shared init --apply --judgments` first, or be a superuser.",
        )
    return OWNER


@contextmanager
def _acting_as(connection: "psycopg.Connection[Any]", role: str, tenant: str) -> Iterator[None]:
    """Begin a transaction in which this role sees one team. role: empty: the login's own."""
    with connection.transaction():
        if role:
            connection.execute(f"SET LOCAL ROLE {role}".encode())
        connection.execute("SELECT set_config('xscore.organisation', %s, true)", (tenant,))
        yield


def _unused_turns(
    connection: "psycopg.Connection[Any]", tenant: str, role: str, *, unused_days: int
) -> dict[str, int]:
    """Return the turns that have gained no judgment for so long, with how many each has."""
    with _acting_as(connection, role, tenant):
        rows = connection.execute(_UNUSED_TURNS.encode(), (tenant, unused_days)).fetchall()
    return dict(rows)


def _remove_turns(
    connection: "psycopg.Connection[Any]",
    tenant: str,
    turns: list[str],
    role: str,
    *,
    unused_days: int,
) -> int:
    """Remove the judgments of these turns, some turns at a time; return how many there were."""
    removed = 0
    for start in range(0, len(turns), TURNS_AT_ONCE):
        chosen = turns[start : start + TURNS_AT_ONCE]
        with _acting_as(connection, role, tenant):
            done = connection.execute(_REMOVE_TURNS.encode(), (tenant, chosen, unused_days))
        removed += done.rowcount
    return removed


def _note(connection: "psycopg.Connection[Any]", removal: Removal, *, schema: str) -> None:
    counts = (removal.turns, removal.judgments, removal.marks)
    if schema == "xscore":
        connection.execute(_ADD_AUDIT)
    with _acting_as(connection, "" if schema == "xscore" else OWNER, removal.tenant):
        connection.execute(
            _NOTE.format(schema=schema).encode(),
            (removal.tenant, removal.unused_days, *counts),
        )


def _marks(
    connection: "psycopg.Connection[Any]", tenant: str, unused_days: int, *, dry_run: bool
) -> int:
    """Remove, or only count, the marks of erased memories that no member waits for."""
    statement = _COUNT_MARKS if dry_run else _REMOVE_MARKS
    with _acting_as(connection, OWNER, tenant):
        counted = connection.execute(statement.encode(), {"team": tenant, "days": unused_days})
        row = counted.fetchone()
    return int(row[0]) if row else 0
