"""Erase from the team's server what was erased here.

What is owed names memories by the ids that they had here; the server's names for them are made of
these and the key. Trade-off: a repository that has left the team, or a key that is lost, leaves the
erasure owed until it has joined again, or the user gives it up (`--here-only`).
"""

from sqlite3 import Connection

from xscore.extensions.shared.team.address import memories_address
from xscore.extensions.shared.team.administration import TeamClient
from xscore.extensions.shared.team.membership import read_membership
from xscore.extensions.shared.team.sync import team_server_name
from xscore.extensions.shared.team.team_key import team_key
from xscore.platform.errors import SharedUnavailable, UsageError
from xscore.records.reports import ErasureRequest, ServerErasure
from xscore.settings.model import SharedSettings


def erase_from_team(
    connection: Connection,
    settings: SharedSettings,
    server: str,
    request: ErasureRequest,
    *,
    verify: bool,
) -> ServerErasure:
    """Erase these memories from the server of this name, where it is the one of the settings.

    verify: ask once more, and count what is there by then.
    """
    membership = read_membership(connection)
    if membership is None:
        return ServerErasure(
            server=server, is_team=True, problem="this repository has left the team"
        )
    try:
        address = memories_address(settings)
        if team_server_name(address, membership.repository) != server:
            return ServerErasure(
                server=server, is_team=True, problem="shared.memories_url names another now"
            )
        client = TeamClient(address, team_key(settings), membership)
        removed = client.erase(request.memories)
        remaining = client.erase(request.memories) if verify else None
    except (SharedUnavailable, UsageError) as error:
        return ServerErasure(server=server, is_team=True, problem=error.message)
    return ServerErasure(server=server, is_team=True, removed=removed, left=remaining)
