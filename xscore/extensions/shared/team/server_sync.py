"""One synchronisation with the team's server: send what is new here, pull what is new there.

It runs in a thread of its own and touches no store, so that the caller can stop waiting at any
moment: whatever comes later is dropped, and asked for again the next time. Nothing here remembers
what was sent. What the server has of this member is asked whenever something was stated, and only
the difference goes out; so a process that is killed at any point loses nothing, and doubles
nothing. Trade-off: such a comparison costs 64 bytes an entry of one's own.
"""

from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from threading import Thread
from time import monotonic
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.shared.knock import RunningKnock
from xscore.extensions.shared.server import BAD_ANSWER
from xscore.extensions.shared.team.address import TeamAddress, connected
from xscore.extensions.shared.team.incoming import Incoming
from xscore.extensions.shared.team.outgoing import Outgoing, OutgoingText
from xscore.extensions.shared.team.shared_content import (
    CHECKPOINT,
    MEMORY,
    MemberProfile,
    read_checkpoint,
    read_memory,
)
from xscore.extensions.shared.team.team_key import OtherKey, RowPlace, TeamKey
from xscore.extensions.shared.team.team_server import (
    NewEntry,
    ServerEntry,
    ServerGreeting,
    TeamServer,
)
from xscore.platform.errors import SharedUnavailable, StoreDamaged, XscoreError
from xscore.platform.figures import format_seconds

T = TypeVar("T")
OTHER_KEY = "encrypted by another key than yours"
"""Why entries that colleagues have sent with another key are skipped."""
MOST_AT_ONCE = 200
"""Most entries of one request."""


class TeamSyncRequest(Struct, frozen=True, kw_only=True):
    """What is asked of the server."""

    address: TeamAddress
    key: TeamKey
    repository: str
    by: str
    epoch: str
    version: int
    pulls_all: bool
    """Whether to pull from the beginning, whatever was pulled before."""
    is_first: bool
    """Whether this store was never synchronised."""
    outgoing: Outgoing | None
    """What to send; None if nothing was stated since the last sync, or the user only reads."""


class SentEntries(Struct, frozen=True, kw_only=True):
    """What was sent of the difference between a store and the server."""

    count: int = 0
    retracted: int = 0
    version: int = 0
    """Version of the project afterwards; 0 if nothing was sent."""


class PulledEntries(Struct, frozen=True, kw_only=True):
    """What was pulled from the server."""

    version: int
    """Version of the project up to which everything was pulled."""
    entries: tuple[Incoming, ...] = ()
    unreadable: dict[str, int] = {}
    """Why entries were skipped -> how many."""
    present: frozenset[tuple[str, str]] | None = None
    """Member and name of every entry that is there, erased ones left out; None: not all was
    pulled, or the server may have lost some."""
    lacks_own: bool = False
    """Whether the server may have lost what this store sent, so that all must be compared."""


class TeamSyncResult(Struct, frozen=True, kw_only=True):
    """What the server answered."""

    greeting: ServerGreeting
    sent: SentEntries
    pulled: PulledEntries
    took_s: float


def project_digest(key: TeamKey, repository: str) -> str:
    """Return the name by which the server knows a repository."""
    return key.name_of("project", repository)


def entry_name(key: TeamKey, project: str, identity: str) -> str:
    """Return the name by which the server knows a memory or a checkpoint of a member."""
    return key.name_of("entry", project, identity)


def sync_with_server(request: TeamSyncRequest, knock: RunningKnock) -> TeamSyncResult:
    """Ask the server. Raises SharedUnavailable, StoreDamaged, UsageError."""
    began = monotonic()
    # Before a driver is imported: a server that is down or silent costs a turn no more than this.
    knock.raise_problem()
    project = project_digest(request.key, request.repository)
    with connected(request.address) as connection:
        server = TeamServer(connection, address=request.address, project=project)
        greeting = server.greet()
        of_other_key = 0
        if not greeting.epoch:
            of_other_key = server.count_of_other_key(request.key.id)
        sent = SentEntries()
        if request.outgoing is not None:
            sent = _send(server, request.key, greeting, request.outgoing, project)
            if sent.version and not greeting.epoch:
                # The first entry of all began the project.
                greeting = server.greet()
        newest = max(greeting.version, sent.version)
        pulled = _pull(server, request, greeting, project, newest=newest)
    if of_other_key:
        pulled = replace(pulled, unreadable=pulled.unreadable | {OTHER_KEY: of_other_key})
    return TeamSyncResult(
        greeting=greeting, sent=sent, pulled=pulled, took_s=monotonic() - began
    )


def _send(
    server: TeamServer, key: TeamKey, greeting: ServerGreeting, outgoing: Outgoing, project: str
) -> SentEntries:
    """Send the difference between this store and the server."""
    encrypted = [_encrypted(key, greeting, project, text) for text in outgoing.texts]
    retracted_names = [entry_name(key, project, identity) for identity in outgoing.retracted]
    names: list[str] | None = None
    if not outgoing.is_whole:
        names = [entry.name for entry in encrypted] + retracted_names
    on_server = server.own_digests(names)
    entries: list[NewEntry] = []
    for entry in encrypted:
        assert entry.content is not None
        if on_server.get(entry.name) != sha256(entry.content).digest():
            entries.append(entry)
    sent = len(entries)
    for name in retracted_names:
        if name in on_server:
            entries.append(NewEntry(name, MEMORY, None))
    version = 0
    for start in range(0, len(entries), MOST_AT_ONCE):
        version = server.put(entries[start : start + MOST_AT_ONCE])
    return SentEntries(count=sent, retracted=len(entries) - sent, version=version)


def _encrypted(
    key: TeamKey, greeting: ServerGreeting, project: str, text: OutgoingText
) -> NewEntry:
    name = entry_name(key, project, text.identity)
    place = RowPlace(greeting.organisation, project, greeting.member, name, text.kind)
    return NewEntry(name, text.kind, key.encrypt(text.content, place))


def _pull(
    server: TeamServer,
    request: TeamSyncRequest,
    greeting: ServerGreeting,
    project: str,
    *,
    newest: int,
) -> PulledEntries:
    """Pull every new entry, page by page."""
    is_restored = _is_restored(request, greeting)
    misses_marks = request.version < greeting.pruned
    pulls_all = request.pulls_all or is_restored or misses_marks
    since = 0 if pulls_all else request.version
    # What this store sent before may be missing there.
    is_whole = request.outgoing is not None and request.outgoing.is_whole
    began_at = since
    entries: list[Incoming] = []
    unreadable: Counter[str] = Counter()
    present: set[tuple[str, str]] = set()
    # An entry that changes meanwhile moves behind those that were read, so that only an empty page
    # says that all have been seen.
    is_at_end = since >= newest and not pulls_all
    while not is_at_end:
        page = server.pull(since)
        for row in page:
            if row.content is not None:
                present.add((row.member, row.name))
            entry = _read_row(request, greeting, project, row)
            if isinstance(entry, Incoming):
                entries.append(entry)
            else:
                unreadable[entry] += 1
        if page:
            since = page[-1].version
        elif since < newest:
            # The latest were marks that have been removed. It raises where access was lost.
            server.greet()
            since = newest
        is_at_end = not page or (since >= newest and not pulls_all)
    if since != began_at or request.is_first:
        _note_reader(server, request, profile_place(greeting, project), since)
    # Only there do marks tell less than the entries do.
    is_complete = pulls_all and greeting.pruned > 0 and not is_restored
    return PulledEntries(
        version=since,
        entries=tuple(entries),
        unreadable=dict(unreadable),
        present=frozenset(present) if is_complete else None,
        lacks_own=is_restored and not is_whole,
    )


def _note_reader(
    server: TeamServer, request: TeamSyncRequest, place: RowPlace, version: int
) -> None:
    """Tell the server how far this member has pulled, with the member's name, encrypted."""
    profile = msgspec.json.encode(MemberProfile(request.by))
    server.note_reader(request.key.encrypt(profile, place), version)


def _is_restored(request: TeamSyncRequest, greeting: ServerGreeting) -> bool:
    """Whether a server was recreated, or restored from a backup: it counts from another beginning.

    What this sync has sent itself does not count: it may have made up for what is missing.
    """
    if not request.epoch:
        return False
    return greeting.epoch != request.epoch or greeting.version < request.version


def profile_place(
    greeting: ServerGreeting, project: str, member: str | None = None
) -> RowPlace:
    """Return where the profile of a member belongs; None means this one."""
    return RowPlace(greeting.organisation, project, member or greeting.member, "", "profile")


def _read_row(
    request: TeamSyncRequest, greeting: ServerGreeting, project: str, row: ServerEntry
) -> Incoming | str:
    """Return the entry of a row, or why it cannot be read."""
    try:
        return read_entry(request.key, row, greeting.organisation, project, request.repository)
    except OtherKey:
        return OTHER_KEY
    except StoreDamaged:
        return "changed on the server"
    # Also of a text that is nested too deep.
    except (ValueError, RecursionError):
        return "in a form that this xscore does not read"


def read_entry(
    key: TeamKey, entry: ServerEntry, organisation: str, project: str, repository: str
) -> Incoming:
    """Decrypt and check an entry. Raises OtherKey, StoreDamaged, ValueError."""
    if entry.content is None:
        return Incoming(member=entry.member, name=entry.name, kind=entry.kind)
    place = RowPlace(organisation, project, entry.member, entry.name, entry.kind)
    content = key.decrypt(bytes(entry.content), place)
    if entry.kind == CHECKPOINT:
        checkpoint = read_checkpoint(content, repository=repository)
        return Incoming(
            member=entry.member, name=entry.name, kind=entry.kind, checkpoint=checkpoint
        )
    memory = read_memory(content, repository=repository)
    return Incoming(member=entry.member, name=entry.name, kind=entry.kind, memory=memory)


class RunningRequest(Generic[T]):
    """A request in a thread of its own, which ends with the process where it is not awaited."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._results: list[T] = []
        self._error: Exception | None = None
        self._thread = Thread(target=self._run, daemon=True, name="team")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._results.append(self._ask())
        # It is raised where the result is awaited.
        except (XscoreError, *BAD_ANSWER) as error:
            self._error = error

    def ends_within(self, timeout_s: float) -> bool:
        """Return whether the server answers, or fails, within so long."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def wait(self, timeout_s: float, *, name: str) -> T:
        """Return the result. name: name of the server, for the error.

        Raises SharedUnavailable where it does not come in time, and what the request raised.
        """
        self._thread.join(timeout_s)
        if isinstance(self._error, XscoreError):
            raise self._error
        if self._error is not None:
            raise SharedUnavailable(
                f"the shared server {name} sent an invalid reply: {type(self._error).__name__}",
                hint="Check shared.memories_url.",
            ) from self._error
        if not self._results:
            raise SharedUnavailable(
                f"the shared server {name} did not answer within {format_seconds(timeout_s)}",
                hint="Check why it is slow: `xscore doctor` asks it.",
            )
        return self._results[0]


def within(timeout_s: float, ask: Callable[[], T], *, name: str) -> T:
    """Ask a server, and wait at most so long. Raises SharedUnavailable, and what `ask` raises."""
    return RunningRequest(ask).wait(timeout_s, name=name)
