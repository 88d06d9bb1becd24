"""What a user asks of the team's server besides turns: who shares what, an export, and erasing all
of one's own.

Each asks once, within a deadline. Trade-off: names of
members are read from what they wrote themselves; the server vouches for who they are by digest
alone.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec import Struct

from xscore.extensions.exchange.saved_records import SavedMemory
from xscore.extensions.shared.team.address import TeamAddress, connected
from xscore.extensions.shared.team.exchange_with_team import (
    MOST_AT_ONCE,
    entry_name,
    profile_place,
    project_digest,
    read_entry,
    within,
)
from xscore.extensions.shared.team.membership import Membership
from xscore.extensions.shared.team.shared_content import MemberProfile
from xscore.extensions.shared.team.team_key import OtherKey, TeamKey
from xscore.extensions.shared.team.team_server import (
    PAGE,
    NewEntry,
    ServerCounts,
    ServerGreeting,
    ServerReader,
    TeamServer,
)
from xscore.platform.errors import StoreDamaged

T = TypeVar("T")


class TeamMember(Struct, frozen=True, kw_only=True):
    """A member who has pulled from this repository."""

    member: str
    """Digest; the server vouches for it."""
    by: str
    """As the member calls itself; empty: it cannot be read."""
    shares: int
    behind: int
    """Entries that it has not pulled yet."""
    seen_at: float
    """Unix seconds."""
    is_you: bool


class TeamStatus(Struct, frozen=True, kw_only=True):
    """What a team shares of one repository."""

    server: str
    organisation: str
    repository: str
    members: tuple[TeamMember, ...]
    counts: ServerCounts
    behind: int
    """Entries that this store has not pulled yet."""
    round_trip_s: float


class TeamDesk:
    """One repository of a team on its server, for a membership."""

    def __init__(self, address: TeamAddress, key: TeamKey, membership: Membership) -> None:
        self.address = address
        self.key = key
        self.membership = membership
        self.project = project_digest(key, membership.repository)

    def ask(self, work: Callable[[TeamServer, ServerGreeting], T]) -> T:
        """Connect, greet, ask and close within the deadline. Raises SharedUnavailable."""

        def asked() -> T:
            with connected(self.address) as connection:
                server = TeamServer(connection, address=self.address, project=self.project)
                return work(server, server.greet())

        return within(self.address.timeout_s, asked, name=self.address.name)

    def status(self, clock: Callable[[], float]) -> TeamStatus:
        """Return who shares what."""

        def read(server: TeamServer, greeting: ServerGreeting) -> TeamStatus:
            began = clock()
            counts = server.counts()
            round_trip_s = clock() - began
            members = [self._member(greeting, reader) for reader in server.readers()]
            behind = greeting.version - self.membership.version
            if greeting.epoch != self.membership.epoch:
                behind = greeting.version
            return TeamStatus(
                server=self.address.name,
                organisation=greeting.organisation,
                repository=self.membership.repository,
                members=tuple(members),
                counts=counts,
                behind=max(0, behind),
                round_trip_s=round_trip_s,
            )

        return self.ask(read)

    def _member(self, greeting: ServerGreeting, reader: ServerReader) -> TeamMember:
        by = ""
        place = profile_place(greeting, self.project, reader.member)
        with suppress(OtherKey, StoreDamaged, ValueError):
            text = self.key.decrypt(bytes(reader.profile), place)
            by = msgspec.json.decode(text, type=MemberProfile).by
        return TeamMember(
            member=reader.member,
            by=by,
            shares=reader.entries,
            behind=max(0, greeting.version - reader.version),
            seen_at=reader.seen_at,
            is_you=reader.member == greeting.member,
        )

    def export(self) -> list[SavedMemory]:
        """Return every memory that the team shares of this repository, of all members, sorted."""

        def read(server: TeamServer, greeting: ServerGreeting) -> list[SavedMemory]:
            return list(self._all_memories(server, greeting))

        memories = self.ask(read)
        return sorted(memories, key=lambda line: (line.layer, line.kind, line.key, line.id))

    def _all_memories(self, server: TeamServer, greeting: ServerGreeting) -> Iterator[SavedMemory]:
        since = 0
        exported_ids = set[str]()
        while page := server.pull(since):
            for entry in page:
                incoming = read_entry(self.key, greeting.organisation, self.project, entry)
                # What two members said in the same words is one memory in a file.
                if incoming.memory is not None and incoming.memory.memory.id not in exported_ids:
                    exported_ids.add(incoming.memory.memory.id)
                    yield incoming.memory.memory
            since = page[-1].version
            if len(page) < PAGE:
                return

    def erase(self, identities: Sequence[str]) -> int:
        """Erase these memories and checkpoints of this member; return how many were there."""

        def remove(server: TeamServer, greeting: ServerGreeting) -> int:
            on_server = server.own_digests()
            names = [entry_name(self.key, self.project, identity) for identity in identities]
            return self._erase_names(server, [name for name in names if name in on_server])

        return self.ask(remove)

    def erase_all(self) -> int:
        """Erase all that this member shares of this repository, from every machine; return how
        many."""

        def remove(server: TeamServer, greeting: ServerGreeting) -> int:
            erased = self._erase_names(server, list(server.own_digests()))
            server.leave()
            return erased

        return self.ask(remove)

    def _erase_names(self, server: TeamServer, names: Sequence[str]) -> int:
        for start in range(0, len(names), MOST_AT_ONCE):
            chosen = names[start : start + MOST_AT_ONCE]
            server.put([NewEntry(name, "memory", None) for name in chosen])
        return len(names)
