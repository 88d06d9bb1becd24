"""What a user asks of the team's server besides turns: who shares what, an export, and erasing all
of one's own.

Each asks once, within a deadline. Trade-off: names of members are read from what they wrote
themselves; the server vouches for those who they are by digest alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.shared.team.address import TeamAddress, connected
from xscore.extensions.shared.team.membership import Membership
from xscore.extensions.shared.team.server_sync import (
    MOST_AT_ONCE,
    entry_name,
    profile_place,
    project_digest,
    read_entry,
    within,
)
from xscore.extensions.shared.team.shared_content import MemberProfile
from xscore.extensions.shared.team.team_key import OtherKey, TeamKey
from xscore.extensions.shared.team.team_server import (
    PAGE,
    NewEntry,
    ServerCounts,
    ServerEntry,
    ServerGreeting,
    ServerReader,
    TeamServer,
)
from xscore.extensions.transfer.saved_records import SavedMemory
from xscore.platform.errors import StoreDamaged
from xscore.records.memory import member_key

T = TypeVar("T")


class TeamMember(Struct, frozen=True, kw_only=True):
    """A member who has pulled from this repository."""

    member: str
    """Digest of the member; the server vouches for it."""
    by: str
    """The member's name for itself; empty if it cannot be read."""
    shares: int
    behind: int
    """Number of entries that the member has not pulled yet."""
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
    """Number of entries that this store has not pulled yet."""
    round_trip_s: float


class TeamExport(Struct, frozen=True):
    """What a team shares of a repository, as a file holds it."""

    memories: tuple[SavedMemory, ...]
    """The team's memories, sorted."""
    skipped: int
    """Number of entries that cannot be read."""


class TeamClient:
    """One repository of a team on its server, for a membership."""

    def __init__(self, address: TeamAddress, key: TeamKey, membership: Membership) -> None:
        self.address = address
        self.key = key
        self.membership = membership
        self.project: str = project_digest(key, membership.repository)

    def ask(self, work: Callable[[TeamServer, ServerGreeting], T]) -> T:
        """Connect, greet, ask and close within the deadline. Raises SharedUnavailable."""

        def ask_server() -> T:
            with connected(self.address) as connection:
                server = TeamServer(connection, address=self.address, project=self.project)
                return work(server, server.greet())

        return within(self.address.timeout_s, ask_server, name=self.address.name)

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

    def export(self) -> TeamExport:
        """Return every memory that the team shares of this repository, of all members."""

        def read(server: TeamServer, greeting: ServerGreeting) -> TeamExport:
            return self._exported(_all_entries(server), greeting)

        return self.ask(read)

    def _exported(self, entries: Iterable[ServerEntry], greeting: ServerGreeting) -> TeamExport:
        place = (greeting.organisation, self.project, self.membership.repository)
        by_id: dict[str, SavedMemory] = {}
        keys = set[tuple[str, str]]()
        skipped = 0
        for entry in entries:
            try:
                incoming = read_entry(self.key, entry, *place)
            except (OtherKey, StoreDamaged, ValueError, RecursionError):
                skipped += 1
                continue
            # What two members said in the same words is one memory in a file.
            if incoming.memory is None or incoming.memory.memory.id in by_id:
                continue
            line = incoming.memory.memory
            # A file has one memory of a key, and each member may have an opinion.
            if (line.layer, line.key) in keys:
                line = replace(line, key=member_key(line.key, entry.member))
            keys.add((line.layer, line.key))
            by_id[line.id] = line
        lines = sorted(
            by_id.values(), key=lambda line: (line.layer, line.kind, line.key, line.id)
        )
        return TeamExport(tuple(lines), skipped)

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


def _all_entries(server: TeamServer) -> Iterator[ServerEntry]:
    """Yield every entry of the project, in the order of versions."""
    since = 0
    while page := server.pull(since):
        yield from page
        since = page[-1].version
        if len(page) < PAGE:
            return
