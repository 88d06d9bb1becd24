"""Synchronise a store with its team, as `xscore shared sync` does; `turn_sync` does it in a turn.

A sync starts with what the store has to send, runs in a thread, and ends by writing what was
pulled, with how far it is, in one transaction. Trade-off: a sync that is begun twice at once, by
two processes, is done twice; the later one finds nothing to do.
"""

from sqlite3 import Connection

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.shared.knock import RunningKnock
from xscore.extensions.shared.team.address import TeamAddress, memories_address
from xscore.extensions.shared.team.incoming import (
    Arrivals,
    Incoming,
    apply_incoming,
    remove_missing,
)
from xscore.extensions.shared.team.membership import (
    COMMAND_S,
    Membership,
    has_news,
    read_membership,
    write_membership,
)
from xscore.extensions.shared.team.outgoing import (
    Outgoing,
    newest_event,
    read_outgoing,
)
from xscore.extensions.shared.team.server_sync import (
    RunningRequest,
    TeamSyncRequest,
    TeamSyncResult,
    project_digest,
    sync_with_server,
)
from xscore.extensions.shared.team.team_key import team_key
from xscore.platform import database
from xscore.platform.errors import NothingMatched, SharedUnavailable, UsageError
from xscore.records.memory import MemorySource
from xscore.settings.model import SharedSettings
from xscore.store import memory_rows
from xscore.store.checkpoints import is_shared_checkpoint, note_checkpoints_erased
from xscore.store.copied_stores import has_statement_since
from xscore.store.evidence import refresh_evidence
from xscore.store.other_places import is_followed
from xscore.store.removal import note_team_server, team_server
from xscore.store.store import Store

FITS_A_TURN_S = 0.3
"""Longest sync after which the next may be a turn's own; after a longer one, it is left to a
background process."""


class TeamSync(Struct, frozen=True, kw_only=True):
    """What a synchronisation did."""

    repository: str
    sent: int = 0
    taken_back: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    checkpoints: int = 0
    forgotten: int = 0
    skipped: dict[str, int] = {}
    """Why entries of others were skipped -> how many."""
    too_long: int = 0
    took_s: float = 0.0
    problem: str = ""
    """Why nothing was exchanged; empty if it was."""


class BegunSync(Struct, frozen=True):
    """A sync that is under way."""

    membership: Membership
    request: TeamSyncRequest
    running: RunningRequest[TeamSyncResult]
    knock: RunningKnock

    def wait(self, timeout_s: float) -> TeamSyncResult:
        """Return the answer. Raises SharedUnavailable where none comes in time, and what the
        request raised."""
        return self.running.wait(timeout_s, name=self.request.address.name)

    def finish(
        self, store: Store, settings: SharedSettings, result: TeamSyncResult
    ) -> TeamSync:
        """Write what was pulled into the store, and note how far it is."""
        return _finish_sync(store, settings, self, result)


def team_server_name(address: TeamAddress, repository: str) -> str:
    """Return the name under which an erasure is owed there."""
    return f"{address.name}, memories of {repository}"


def required_membership(store: Store) -> Membership:
    """Return how the store takes part in a team. Raises NothingMatched where it does not."""
    membership = read_membership(store.connection)
    if membership is None:
        raise NothingMatched(
            "this repository shares nothing with a team",
            hint="Join one with `xscore shared join`.",
        )
    return membership


def synchronise(
    store: Store, settings: SharedSettings, *, everything: bool = False
) -> TeamSync:
    """Synchronise with the server now.

    everything: pull all entries again, and compare one's own.
    Raises SharedUnavailable, UsageError, NothingMatched, StoreError.
    """
    membership = required_membership(store)
    if not store.is_users_own:
        raise UsageError(
            "this store was made elsewhere, so its statements are not sent in your name",
            hint="`xscore store trust` accepts it for good.",
        )
    if everything:
        membership = replace(membership, event=-1)
    begun = begin_sync(store, settings, membership, pulls_all=everything)
    result = begun.wait(COMMAND_S)
    done = begun.finish(store, settings, result)
    if result.pulled.lacks_own and settings.memories == "write":
        begun = begin_sync(store, settings, required_membership(store))
        repeated = begun.finish(store, settings, begun.wait(COMMAND_S))
        done = replace(done, sent=done.sent + repeated.sent)
    return done


def send_marked(store: Store, settings: SharedSettings) -> None:
    """Send what was just marked for the team, or take it back.

    Raises what `synchronise` raises. If the server is away, a later exchange does it.
    """
    membership = required_membership(store)
    with database.transaction(store.connection):
        # A checkpoint leaves no event, so that all is compared.
        write_membership(store.connection, replace(membership, event=-1))
    try:
        synchronise(store, settings)
    except SharedUnavailable as error:
        hint = f"It is noted here, and the next exchange tells the server. {error.hint}"
        raise SharedUnavailable(error.message, hint=hint) from error


def begin_sync(
    store: Store,
    settings: SharedSettings,
    membership: Membership,
    knock: RunningKnock | None = None,
    *,
    pulls_all: bool = False,
) -> BegunSync:
    """Begin to send what the store has to send, and to pull what is new.

    knock: at the server, if it has begun.
    pulls_all: pull what was pulled before, too.
    Raises UsageError.
    """
    address = memories_address(settings)
    if knock is None:
        knock = RunningKnock(address.url, timeout_s=address.timeout_s)
    outgoing: Outgoing | None = None
    if has_news(store.connection, settings, membership):
        with database.read_snapshot(store.connection):
            outgoing = read_outgoing(store.connection, membership, kinds=settings.kinds)
    request = TeamSyncRequest(
        address=address,
        key=team_key(settings),
        repository=membership.repository,
        by=membership.by,
        epoch=membership.epoch,
        version=membership.version,
        # Everything is new of kinds that were not pulled before.
        pulls_all=pulls_all or membership.kinds != settings.kinds,
        is_first=not membership.synced_at,
        outgoing=outgoing,
    )
    running = RunningRequest(lambda: sync_with_server(request, knock))
    return BegunSync(membership, request, running, knock)


def _finish_sync(
    store: Store, settings: SharedSettings, begun: BegunSync, result: TeamSyncResult
) -> TeamSync:
    now = store.clock()
    connection = store.connection
    with database.transaction(connection):
        membership = read_membership(connection)
        if membership is None or membership.repository != begun.membership.repository:
            raise NothingMatched("the repository has left its team in the meantime", hint="")
        event = _compared_until(connection, membership, begun)
        if begun.request.outgoing is not None:
            note_checkpoints_erased(connection, begun.request.outgoing.retracted_checkpoints)
        _note_moved_server(connection, begun)
        arrivals = _apply(store, settings, begun, result, now=now)
        # The exchange's own events are no news; what was stated during it stays one.
        if event is None:
            event = newest_event(connection)
        if result.pulled.lacks_own:
            event = -1
        write_membership(
            connection,
            replace(
                membership,
                organisation=result.greeting.organisation,
                member=result.greeting.member,
                epoch=result.greeting.epoch,
                version=result.pulled.version,
                event=event,
                kinds=settings.kinds,
                synced_at=now,
                is_slow=result.took_s > FITS_A_TURN_S,
                background_sync_at=0.0,
                problem="",
                failures=0,
                failed_at=0.0,
            ),
        )
    data_dir = store.user_data_dir
    has_files = data_dir is None or not is_followed(store.root, data_dir)
    if arrivals.total and has_files:
        _check_citations(store, now=now)
    return _report(membership.repository, begun, result, arrivals)


def _note_moved_server(connection: Connection, begun: BegunSync) -> None:
    """Let erasures reach the server where it is now."""
    name = team_server_name(begun.request.address, begun.request.repository)
    # A repository that is only followed has stated nothing, and names none.
    if team_server(connection) not in ("", name):
        note_team_server(connection, name)


def _apply(
    store: Store,
    settings: SharedSettings,
    begun: BegunSync,
    result: TeamSyncResult,
    *,
    now: float,
) -> Arrivals:
    """Write what was pulled, and remove what is not there any more."""
    organisation = result.greeting.organisation
    project = project_digest(begun.request.key, begun.request.repository)
    arrivals = apply_incoming(
        store,
        _of_others(store.connection, result),
        organisation=organisation,
        project=project,
        kinds=settings.kinds,
        now=now,
    )
    if result.pulled.present is not None:
        arrivals.removed += remove_missing(
            store, result.pulled.present, organisation=organisation, project=project, now=now
        )
    return arrivals


def _compared_until(
    connection: Connection, membership: Membership, begun: BegunSync
) -> int | None:
    """Return up to which event the server has what was stated here; None: up to now."""
    outgoing = begun.request.outgoing
    event = membership.event if outgoing is None else outgoing.event
    if event < 0 or has_statement_since(connection, event):
        return event
    return None


def _of_others(connection: Connection, result: TeamSyncResult) -> list[Incoming]:
    """Leave out what this store itself has sent, and has."""
    member = result.greeting.member
    entries: list[Incoming] = []
    for entry in result.pulled.entries:
        if entry.member != member or not _is_here(connection, entry):
            entries.append(entry)
    return entries


def _is_here(connection: Connection, entry: Incoming) -> bool:
    """Whether this store is where an entry of its own member comes from."""
    if entry.memory is not None:
        stored = memory_rows.memory_with_id(connection, entry.memory.memory.id)
        return stored is not None and stored.source is MemorySource.EXPLICIT
    if entry.checkpoint is not None:
        return is_shared_checkpoint(connection, entry.checkpoint.name)
    return False


def _check_citations(store: Store, *, now: float) -> None:
    refresh_evidence(store.connection, store.root, now=now)


def _report(
    repository: str, begun: BegunSync, result: TeamSyncResult, arrivals: Arrivals
) -> TeamSync:
    outgoing = begun.request.outgoing
    return TeamSync(
        repository=repository,
        sent=result.sent.count,
        taken_back=result.sent.retracted,
        added=arrivals.added,
        changed=arrivals.changed,
        removed=arrivals.removed,
        checkpoints=arrivals.checkpoints,
        forgotten=arrivals.forgotten,
        skipped=result.pulled.unreadable,
        too_long=outgoing.too_long if outgoing is not None else 0,
        took_s=result.took_s,
    )
