"""Requests of members without their stores, for tests of what happens at once."""

from collections.abc import Callable
from threading import Event

from xscore.extensions.shared.team.address import connected, memories_address
from xscore.extensions.shared.team.membership import read_membership
from xscore.extensions.shared.team.outgoing import read_outgoing
from xscore.extensions.shared.team.server_sync import entry_name, project_digest
from xscore.extensions.shared.team.team_key import RowPlace, team_key
from xscore.extensions.shared.team.team_server import NewEntry, TeamServer
from xscore.settings.model import SharedSettings
from xscore.store.store import Store


def send_one_by_one(settings: SharedSettings, store: Store) -> Callable[[], None]:
    """Return what sends a store's statements in a request each, on a connection of its own."""
    membership = read_membership(store.connection)
    assert membership is not None
    texts = read_outgoing(store.connection, membership, kinds=settings.kinds).texts
    key, address = team_key(settings), memories_address(settings)
    project = project_digest(key, membership.repository)

    def send() -> None:
        with connected(address) as connection:
            server = TeamServer(connection, address=address, project=project)
            greeting = server.greet()
            for text in texts:
                name = entry_name(key, project, text.identity)
                place = RowPlace(
                    greeting.organisation, project, greeting.member, name, text.kind
                )
                server.put([NewEntry(name, text.kind, key.encrypt(text.content, place))])

    return send


def project_of(settings: SharedSettings, store: Store) -> str:
    """Return the name by which the server knows a store's repository."""
    membership = read_membership(store.connection)
    assert membership is not None
    return project_digest(team_key(settings), membership.repository)


def read_until(stop: Event, settings: SharedSettings, project: str) -> list[int]:
    """Pull again and again from where the last pull ended; return the versions seen, in order."""
    seen: list[int] = []
    with connected(memories_address(settings)) as connection:
        server = TeamServer(connection, address=memories_address(settings), project=project)
        since, is_last = 0, False
        while True:
            page = server.pull(since)
            seen += [entry.version for entry in page]
            since = seen[-1] if seen else 0
            if is_last:
                return seen
            is_last = stop.is_set()
