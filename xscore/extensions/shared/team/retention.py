"""Remove from a team's PostgreSQL what has long been unused, as an administrator decides.

Judgments are removed by turn: those of a turn that has gained none for N days. Each
judgment has a date, a column with a default, so clients of any version work unchanged. Marks of
erased memories go once every member has pulled past them. What a member has stated is never removed
here: `shared erase` and `memory delete` are its member's. Each removal is noted in
`xscore.removal`. Trade-off: judgments from before the date was kept count as of the day when it was
first asked for, and a turn that all members have cached is not seen to be used; it is judged again
when somebody new asks it.
"""

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from xscore.extensions.shared.team.address import TeamAddress, connected, first_value
from xscore.platform.errors import SharedUnavailable

if TYPE_CHECKING:
    import psycopg

TURNS_AT_ONCE = 200
"""Most turns of one transaction, so that no member waits long for a lock."""
LOCK = 7_837_063_920_243
"""Id of the advisory lock under which one administrator at a time removes."""
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
    FROM xscore_team.entry WHERE organisation = %s AND content IS NULL
        AND changed_at < now() - make_interval(days => %s) AND version <= (
            SELECT min(reader.version) FROM xscore_team.reader
            WHERE reader.organisation = entry.organisation AND reader.project = entry.project)
"""
_NOTE = """
    INSERT INTO xscore.removal (tenant, unused_days, turns, judgments, marks)
    VALUES (%s, %s, %s, %s, %s)
"""


class Removal(Struct, frozen=True, kw_only=True):
    """What was removed, or would be."""

    tenant: str
    unused_days: int
    turns: int
    judgments: int
    marks: int
    """Marks of erased memories, which every member has noticed."""
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
        if first_value(connection, _HAS_JUDGMENTS) is None:
            raise SharedUnavailable(
                f"{address.name} has no judgments",
                hint="shared.admin_url may name another database.",
            )
        if not first_value(connection, f"SELECT pg_try_advisory_lock({LOCK})"):
            raise SharedUnavailable(
                f"another process is removing judgments from {address.name}",
                hint="Try again when it is done.",
            )
        has_date = bool(first_value(connection, _HAS_DATE))
        if not (has_date or dry_run):
            connection.execute(_ADD_DATE)
        unused: dict[str, int] = {}
        if has_date:
            rows = connection.execute(_UNUSED_TURNS.encode(), (tenant, unused_days))
            unused = dict(rows.fetchall())
        marks = _marks(connection, tenant, unused_days, dry_run=dry_run)
        judgments = sum(unused.values())
        if not dry_run:
            judgments = _remove_turns(connection, tenant, list(unused), unused_days=unused_days)
        removal = Removal(
            tenant=tenant,
            unused_days=unused_days,
            turns=len(unused),
            judgments=judgments,
            marks=marks,
            dry_run=dry_run,
            had_dates=has_date,
        )
        if not dry_run:
            _note(connection, removal)
    return removal


def _remove_turns(
    connection: "psycopg.Connection[Any]", tenant: str, turns: list[str], *, unused_days: int
) -> int:
    """Remove the judgments of these turns, some turns at a time; return how many there were."""
    removed = 0
    for start in range(0, len(turns), TURNS_AT_ONCE):
        chosen = turns[start : start + TURNS_AT_ONCE]
        done = connection.execute(_REMOVE_TURNS.encode(), (tenant, chosen, unused_days))
        removed += done.rowcount
    return removed


def _note(connection: "psycopg.Connection[Any]", removal: Removal) -> None:
    connection.execute(_ADD_AUDIT)
    counts = (removal.turns, removal.judgments, removal.marks)
    connection.execute(_NOTE.encode(), (removal.tenant, removal.unused_days, *counts))


def _marks(
    connection: "psycopg.Connection[Any]", tenant: str, unused_days: int, *, dry_run: bool
) -> int:
    """Remove, or only count, the marks of erased memories that all members have noticed."""
    if first_value(connection, "SELECT to_regclass('xscore_team.entry')") is None:
        return 0
    statement = f"SELECT count(*) {_MARKS}"
    if not dry_run:
        statement = f"WITH gone AS (DELETE {_MARKS} RETURNING 1) SELECT count(*) FROM gone"
    row = connection.execute(statement.encode(), (tenant, unused_days)).fetchone()
    return int(row[0]) if row else 0
