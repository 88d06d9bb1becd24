"""Close a repository to all of a team but those who are granted access: an administrator's work.

The server decides who sees what, by row-level security on the login. Proof of possession was
weighed and left out: who knows a commit or the hash of a text proves that they once saw it, not
that they may read on. Trade-off: what a member has pulled before stays with them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from xscore.extensions.shared.team.address import TeamAddress, connected
from xscore.extensions.shared.team.setup import require_schema
from xscore.platform.errors import NothingMatched

if TYPE_CHECKING:
    import psycopg

SCHEMA_OF_ACCESS = 2
"""The first schema with closed repositories."""
_CLOSE = """
    INSERT INTO xscore_team.closed (organisation, project) VALUES (%s, %s) ON CONFLICT DO NOTHING
"""
_OPEN = "DELETE FROM xscore_team.closed WHERE organisation = %s AND project = %s"
_MEMBER = "SELECT member FROM xscore_team.login WHERE login_role = %s AND organisation = %s"
_GRANT = """
    INSERT INTO xscore_team.access (organisation, project, member) VALUES (%s, %s, %s)
    ON CONFLICT DO NOTHING
"""
_REVOKE = (
    "DELETE FROM xscore_team.access WHERE organisation = %s AND project = %s AND member = %s"
)
_IS_CLOSED = "SELECT FROM xscore_team.closed WHERE organisation = %s AND project = %s"
_GRANTED = """
    SELECT login_role FROM xscore_team.access JOIN xscore_team.login USING (organisation, member)
    WHERE organisation = %s AND project = %s ORDER BY login_role
"""


class AccessChange(Struct, frozen=True, kw_only=True):
    """What is to change about who may read a repository."""

    organisation: str
    project: str
    """The repository's keyed digest."""
    is_closed: bool | None = None
    """Whether the repository is closed; None: as it is."""
    granted: Sequence[str] = ()
    """Logins that are granted access."""
    revoked: Sequence[str] = ()


class RepositoryAccess(Struct, frozen=True, kw_only=True):
    """Who may read a repository."""

    is_closed: bool
    logins: tuple[str, ...]
    """Logins with a grant, which counts only if the repository is closed."""


def change_access(address: TeamAddress, change: AccessChange) -> RepositoryAccess:
    """Change who may read a repository, all or nothing; return who may now.

    Raises NothingMatched for a login that is no member, SharedUnavailable.
    """
    place = (change.organisation, change.project)
    with connected(address) as connection, connection.transaction():
        require_schema(connection, address, SCHEMA_OF_ACCESS, of="closed repositories")
        # The policies of these tables name the owner alone.
        connection.execute("SET LOCAL ROLE xscore_team_owner")
        if change.is_closed is not None:
            connection.execute((_CLOSE if change.is_closed else _OPEN).encode(), place)
        for login in change.granted:
            member = _member_of(connection, login, change.organisation)
            connection.execute(_GRANT.encode(), (*place, member))
        for login in change.revoked:
            member = _member_of(connection, login, change.organisation)
            connection.execute(_REVOKE.encode(), (*place, member))
        is_closed = connection.execute(_IS_CLOSED.encode(), place).fetchone() is not None
        logins = [login for (login,) in connection.execute(_GRANTED.encode(), place).fetchall()]
    return RepositoryAccess(is_closed=is_closed, logins=tuple(logins))


def _member_of(connection: "psycopg.Connection[Any]", login: str, organisation: str) -> str:
    row = connection.execute(_MEMBER.encode(), (login, organisation)).fetchone()
    if row is None:
        raise NothingMatched(
            f"{login} is not a login of {organisation}",
            hint="Add it: `xscore shared init --apply --login NAME`.",
        )
    return str(row[0])
