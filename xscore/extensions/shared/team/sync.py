"""Synchronise a store with its team: in a turn, after a statement, or by `xscore shared sync`.

A turn begins the exchange before the index is brought up to date and takes what has come by then;
it waits a little longer only for a server that was well the last time. A server that was away is
left alone for a while, so an outage costs one short wait and a line, never a turn. What was pulled
before stays in use. Trade-off: what comes too late for a turn is taken by the next.
"""

from collections.abc import Callable
from sqlite3 import Connection

from msgspec import Struct
from msgspec.structs import replace

from xscore.extension import implements
from xscore.extensions.shared.team.address import TeamAddress, team_address
from xscore.extensions.shared.team.exchange_with_team import (
    ExchangeRequest,
    ExchangeResult,
    RunningRequest,
    exchange,
    project_digest,
)
from xscore.extensions.shared.team.incoming import Arrivals, Incoming, apply_incoming
from xscore.extensions.shared.team.membership import (
    Membership,
    read_membership,
    write_membership,
)
from xscore.extensions.shared.team.outgoing import (
    Outgoing,
    newest_event,
    read_outgoing,
)
from xscore.extensions.shared.team.team_key import team_key
from xscore.pipeline.parts import TEAM_SYNC
from xscore.platform import database
from xscore.platform.errors import NothingMatched, SharedUnavailable, StoreDamaged, UsageError
from xscore.platform.text import counted
from xscore.settings import Settings
from xscore.settings.model import SharedSettings
from xscore.store.checkpoints import checkpoints_taken_back, note_checkpoints_erased
from xscore.store.copied_stores import has_statement_since
from xscore.store.store import Store

LEAST_WAIT_S = 0.05
"""What a turn waits at least, after its own work, for the server's answer."""
MOST_WAIT_S = 0.5
PATIENCE = 2.0
"""A turn waits so many times as long as an exchange usually takes."""
SLOWER = 1.25
"""By how much one exchange can raise what is usual; it falls at once."""
RECENT_S = 20.0
"""A turn asks no server that was asked so lately, unless something was stated."""
COMMAND_S = 120.0
"""For a command that is about nothing else, with thousands of memories to take."""


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
    """Why nothing was done; empty: it was."""


class _Begun(Struct, frozen=True):
    membership: Membership
    request: ExchangeRequest
    running: RunningRequest[ExchangeResult]


def memories_address(settings: SharedSettings, *, timeout_s: float | None = None) -> TeamAddress:
    """Return where the team's memories are. Raises UsageError."""
    url, setting = settings.memories_url.reveal(), "shared.memories_url"
    if not url:
        url, setting = settings.url.reveal(), "shared.url"
    if not url:
        raise UsageError(
            "memories of a team need a server, and none is set",
            hint="Set shared.memories_url (XSCORE_SHARED_MEMORIES_URL), or shared.url.",
        )
    return team_address(url, timeout_s=timeout_s or settings.timeout_s, setting=setting)


def team_server_name(address: TeamAddress, repository: str) -> str:
    """Return the name under which an erasure is owed there."""
    return f"{address.name}, memories of {repository}"


def required_membership(store: Store) -> Membership:
    """Return how the store takes part in a team. Raises NothingMatched where it does not."""
    membership = read_membership(store.connection)
    if membership is None:
        raise NothingMatched(
            "this repository shares nothing with a team", hint="`xscore shared join` begins it."
        )
    return membership


def synchronise(store: Store, settings: SharedSettings, *, everything: bool = False) -> TeamSync:
    """Exchange with the server now.

    everything: take all entries again, and compare one's own.
    Raises SharedUnavailable, UsageError, NothingMatched, StoreError.
    """
    membership = required_membership(store)
    if not _is_own(store):
        raise UsageError(
            "this store was made elsewhere, so its statements are not sent in your name",
            hint="`xscore store trust` accepts it for good.",
        )
    if everything:
        membership = replace(membership, epoch="", version=0, event=-1)
    begun = _begin(store, settings, membership)
    result = begun.running.wait(COMMAND_S, name=begun.request.address.name)
    done = _finish(store, settings, begun, result)
    if result.lacks_own and settings.memories == "write":
        begun = _begin(store, settings, required_membership(store))
        result = begun.running.wait(COMMAND_S, name=begun.request.address.name)
        repeated = _finish(store, settings, begun, result)
        done = replace(done, sent=done.sent + repeated.sent)
    return done


def send_marked(store: Store, settings: SharedSettings) -> None:
    """Send what was just marked for the team.

    Raises UsageError where nothing is sent, and what `synchronise` raises.
    """
    if settings.memories != "write":
        raise UsageError(
            "it was saved here, and the team was not sent it: shared.memories is not `write`",
            hint="Set it in your own settings (XSCORE_SHARED_MEMORIES): see docs/shared.md.",
        )
    membership = required_membership(store)
    with database.transaction(store.connection):
        # A checkpoint leaves no event, so that all is compared.
        write_membership(store.connection, replace(membership, event=-1))
    synchronise(store, settings)


@implements(TEAM_SYNC)
def begin_turn_sync(settings: Settings, *, store: Store) -> Callable[[], str]:
    """Begin an exchange for a turn; return what takes its result and says what was wrong."""
    membership = read_membership(store.connection)
    if membership is None or not _is_due(store, settings.shared, membership):
        return lambda: ""
    try:
        begun = _begin(store, settings.shared, membership)
    except UsageError as error:
        problem = f"the team's memories: {error.message}"
        return lambda: problem

    def finish() -> str:
        return _finish_turn(store, settings.shared, begun)

    return finish


def _is_due(store: Store, settings: SharedSettings, membership: Membership) -> bool:
    now = store.clock()
    # A paused server is left alone, whatever was stated meanwhile.
    if now < membership.pauses_until() or not _is_own(store):
        return False
    is_recent = abs(now - membership.synced_at) < RECENT_S
    return not is_recent or _has_news(store.connection, settings, membership)


def _is_own(store: Store) -> bool:
    """Whether the store is the user's own: one that is used untrusted for a run, or read from a
    copy, may name a team and hold statements that a stranger planted."""
    return store.copies_to is not None and not store.root.read_only


def _has_news(connection: Connection, settings: SharedSettings, membership: Membership) -> bool:
    """Whether the store may hold something that the server lacks."""
    if settings.memories != "write":
        return False
    if membership.event < 0 or membership.kinds != settings.kinds:
        return True
    if checkpoints_taken_back(connection):
        return True
    return has_statement_since(connection, membership.event)


def _begin(store: Store, settings: SharedSettings, membership: Membership) -> _Begun:
    # Of kinds that were not taken before, everything is new.
    if membership.kinds != settings.kinds:
        membership = replace(membership, epoch="", version=0)
    address = memories_address(settings)
    outgoing: Outgoing | None = None
    if _has_news(store.connection, settings, membership):
        with database.read_snapshot(store.connection):
            outgoing = read_outgoing(store.connection, membership, kinds=settings.kinds)
    request = ExchangeRequest(
        address=address,
        key=team_key(settings),
        repository=membership.repository,
        by=membership.by,
        epoch=membership.epoch,
        version=membership.version,
        outgoing=outgoing,
    )
    return _Begun(membership, request, RunningRequest(lambda: exchange(request)))


def _finish_turn(store: Store, settings: SharedSettings, begun: _Begun) -> str:
    wait_s = min(MOST_WAIT_S, max(LEAST_WAIT_S, PATIENCE * begun.membership.usual_s))
    try:
        result = begun.running.wait(wait_s, name=begun.request.address.name)
        sync = _finish(store, settings, begun, result)
    except (SharedUnavailable, StoreDamaged, UsageError) as error:
        _note_failure(store)
        return f"the team's memories are as of the last exchange: {error.message}"
    skipped = [f"{counted(n, 'memory', 'memories')} {why}" for why, n in sync.skipped.items()]
    return f"skipped of the team: {', '.join(skipped)}" if skipped else ""


def _finish(
    store: Store, settings: SharedSettings, begun: _Begun, result: ExchangeResult
) -> TeamSync:
    """Bring what came into the store, and note how far it is."""
    now = store.clock()
    connection = store.connection
    with database.transaction(connection):
        membership = read_membership(connection)
        if membership is None or membership.repository != begun.membership.repository:
            raise NothingMatched("the repository left its team meanwhile", hint="")
        event = _compared_until(connection, membership, begun)
        if begun.request.outgoing is not None:
            note_checkpoints_erased(connection, begun.request.outgoing.checkpoints_taken_back)
        arrivals = apply_incoming(
            store,
            _of_others(connection, result),
            organisation=result.greeting.organisation,
            project=project_digest(begun.request.key, membership.repository),
            kinds=settings.kinds,
            now=now,
        )
        # The exchange's own events are no news; what was stated during it stays one.
        if event is None:
            event = newest_event(connection)
        if result.lacks_own:
            event = -1
        write_membership(
            connection,
            replace(
                membership,
                organisation=result.greeting.organisation,
                member=result.greeting.member,
                epoch=result.greeting.epoch,
                version=result.version,
                event=event,
                kinds=settings.kinds,
                synced_at=now,
                usual_s=_usual_s(membership, result),
                failures=0,
                failed_at=0.0,
            ),
        )
    if arrivals.total:
        _check_citations(store, now=now)
    return _report(membership.repository, begun, result, arrivals)


def _usual_s(membership: Membership, result: ExchangeResult) -> float:
    """Return how long an exchange usually takes: one slow one, as the first is, lengthens no
    wait."""
    if not membership.usual_s:
        return result.took_s
    return min(result.took_s, SLOWER * membership.usual_s)


def _compared_until(connection: Connection, membership: Membership, begun: _Begun) -> int | None:
    """Return up to which event the server has what was stated here; None: up to now."""
    outgoing = begun.request.outgoing
    event = membership.event if outgoing is None else outgoing.event
    if event < 0 or has_statement_since(connection, event):
        return event
    return None


def _of_others(connection: Connection, result: ExchangeResult) -> list[Incoming]:
    """Leave out what this store itself has sent, and has."""
    member = result.greeting.member
    entries: list[Incoming] = []
    for entry in result.entries:
        if entry.member != member or not _is_here(connection, entry):
            entries.append(entry)
    return entries


def _is_here(connection: Connection, entry: Incoming) -> bool:
    """Whether this store is where an entry of its own member comes from."""
    if entry.memory is not None:
        query = "SELECT 1 FROM memory_row WHERE id = ? AND source = 'explicit'"
        return connection.execute(query, (entry.memory.memory.id,)).fetchone() is not None
    if entry.checkpoint is not None:
        query = """
            SELECT 1 FROM checkpoint
            WHERE name = ? AND json_extract(payload, '$.is_shared') = 1
        """
        return connection.execute(query, (entry.checkpoint.name,)).fetchone() is not None
    return False


def _check_citations(store: Store, *, now: float) -> None:
    from xscore.store.evidence import refresh_evidence  # only where something came

    refresh_evidence(store.connection, store.root, now=now)


def _note_failure(store: Store) -> None:
    with database.transaction(store.connection):
        membership = read_membership(store.connection)
        if membership is not None:
            failed = replace(membership, failures=membership.failures + 1, failed_at=store.clock())
            write_membership(store.connection, failed)


def _report(repository: str, begun: _Begun, result: ExchangeResult, arrivals: Arrivals) -> TeamSync:
    outgoing = begun.request.outgoing
    return TeamSync(
        repository=repository,
        sent=result.sent,
        taken_back=result.taken_back,
        added=arrivals.added,
        changed=arrivals.changed,
        removed=arrivals.removed,
        checkpoints=arrivals.checkpoints,
        forgotten=arrivals.forgotten,
        skipped=result.unreadable,
        too_long=outgoing.too_long if outgoing is not None else 0,
        took_s=result.took_s,
    )
