"""Exchange memories with the team during a turn.

Where the driver is loaded already, or the store was not synchronised for an hour, the exchange
is begun in a thread before the index is brought up to date, and the turn takes what has come by
then; it waits 30 ms more, but not for a server that shows no sign of life within 30 ms. In all
other cases, and where the whole turn was too short, a process exchanges for the next turn
(`background_sync`); it is started when the turn has ended, since it would take the processor
from it. A server that was away is left alone for a while, and asked by a process alone until it
answers, so an outage costs a line, never a turn. What was pulled before stays in use. Where
nothing is due, nothing but this is loaded. Trade-off: a colleague's statement may come a turn
late.
"""

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.extension import implements
from xscore.extensions.shared.team.membership import (
    Membership,
    has_news,
    note_failure,
    read_membership,
    write_membership,
)
from xscore.pipeline.parts import TEAM_SYNC
from xscore.pipeline.server_contacts import TurnSyncResult
from xscore.platform import database
from xscore.platform.errors import (
    NothingMatched,
    SharedUnavailable,
    StoreDamaged,
    StoreError,
    UsageError,
)
from xscore.platform.text import counted
from xscore.records.calls import EXCHANGE, ServerCall
from xscore.settings import Settings
from xscore.settings.model import SharedSettings
from xscore.store.store import Store

if TYPE_CHECKING:
    from xscore.extensions.shared.team.sync import BegunSync

KNOCK_S = 0.03
"""How long after its beginning a turn waits for a sign of life."""
WAIT_S = 0.03
"""How long a turn waits, after its own work, for what a server that has answered will send."""
MOST_IN_TURN = 50
"""Most entries that a turn exchanges itself; more are left to a process, at some 4 ms each."""
RECENT_S = 60.0
"""A server that was asked so recently is not asked by a turn, unless something was stated."""
STALE_S = 3_600.0
"""After so long, the first turn asks the server itself, so that it judges what colleagues have
stated since."""
_AS_OF = "the team's memories are as of the last exchange"


@implements(TEAM_SYNC)
def begin_turn_sync(settings: Settings, *, store: Store) -> Callable[[], TurnSyncResult]:
    """Begin an exchange for a turn; return what takes its result and says what was wrong."""
    membership = read_membership(store.connection)
    if membership is None:
        return _nothing_to_sync
    if membership.problem:
        return _with_warning(_taken_problem(store))
    if not _is_due(store, settings.shared, membership):
        return _nothing_to_sync
    is_for_process = membership.is_slow or membership.failures
    if is_for_process or not _is_worth_its_import(store, membership):
        return lambda: _left_to_process(store, settings.shared, is_slow=False)
    try:
        begun = _begin(store, settings.shared, membership)
    except UsageError as error:
        return _with_warning(f"the team's memories: {error.message}")
    return partial(_finish_turn, store, settings.shared, begun, began=time.time())


def _begin(store: Store, settings: SharedSettings, membership: Membership) -> "BegunSync":
    """Begin to knock at the server, and then to exchange. Raises UsageError."""
    # Few turns exchange themselves.
    from xscore.extensions.shared.knock import RunningKnock
    from xscore.extensions.shared.team.address import memories_address  # for the same reason

    address = memories_address(settings)
    knock = RunningKnock(address.url, timeout_s=address.timeout_s)
    # The server has the time of this import to answer.
    from xscore.extensions.shared.team.sync import begin_sync

    return begin_sync(store, settings, membership, knock)


def _nothing_to_sync() -> TurnSyncResult:
    return TurnSyncResult()


def _with_warning(warning: str) -> Callable[[], TurnSyncResult]:
    return lambda: TurnSyncResult(warning=warning)


def _is_due(store: Store, settings: SharedSettings, membership: Membership) -> bool:
    now = store.clock()
    # A paused server is left alone, whatever was stated meanwhile.
    if membership.is_paused(now) or membership.is_syncing_in_background(now):
        return False
    if not store.is_users_own:
        return False
    is_recent = abs(now - membership.synced_at) < RECENT_S
    return not is_recent or has_news(store.connection, settings, membership)


def _is_worth_its_import(store: Store, membership: Membership) -> bool:
    """Whether the turn should exchange itself, although importing the driver takes longer than the
    exchange."""
    return "psycopg" in sys.modules or abs(store.clock() - membership.synced_at) > STALE_S


def _left_to_process(
    store: Store, settings: SharedSettings, *, is_slow: bool, call: ServerCall | None = None
) -> TurnSyncResult:
    """Have a process exchange once the turn is over. call: what the turn itself has asked."""
    start = partial(_sync_in_background, store, settings, is_slow=is_slow)
    return TurnSyncResult(call=call, at_end=start)


def _taken_problem(store: Store) -> str:
    """Return what went wrong in a background sync, and forget it: it is reported once."""
    with database.transaction(store.connection):
        membership = read_membership(store.connection)
        if membership is None:
            return ""
        write_membership(store.connection, replace(membership, problem=""))
    return f"{_AS_OF}: {membership.problem}"


def _sync_in_background(store: Store, settings: SharedSettings, *, is_slow: bool) -> str:
    """Leave the exchange to a process; return why it could not be started."""
    # Once a minute: other turns do without it.
    from xscore.extensions.shared.team.background_sync import start_background_sync

    try:
        start_background_sync(store, settings, is_slow=is_slow)
    except (UsageError, StoreError) as error:
        return f"the team's memories: {error.message}"
    except OSError as error:
        with suppress(StoreError):
            note_failure(store)
        return f"{_AS_OF}: no process could be started ({error.strerror})"
    return ""


def _finish_turn(
    store: Store, settings: SharedSettings, begun: "BegunSync", *, began: float
) -> TurnSyncResult:
    """Take what has come, or leave the exchange to a process. began: Unix seconds."""
    address = begun.request.address
    call = ServerCall(
        system="postgresql",
        operation=EXCHANGE,
        host=f"{address.host}:{address.port}",
        started_at=began,
        duration_s=time.time() - began,
    )
    # A silent server gets no more time for having had the turn's own.
    silent_s = max(0.0, begun.knock.began + KNOCK_S - time.monotonic())
    has_knocked = begun.knock.ends_within(silent_s)
    if not begun.running.ends_within(WAIT_S if has_knocked else 0.0):
        call = replace(call, duration_s=time.time() - began, error="late")
        return TurnSyncResult(call=call, at_end=partial(_end_late, store, settings, begun))
    try:
        result = begun.wait(0)
        if len(result.pulled.entries) > MOST_IN_TURN:
            return _left_to_process(store, settings, is_slow=False, call=call)
        sync = begun.finish(store, settings, result)
    except (SharedUnavailable, StoreDamaged, UsageError, NothingMatched) as error:
        note_failure(store)
        return TurnSyncResult(
            warning=f"{_AS_OF}: {error.message}", call=replace(call, error=error.kind)
        )
    skipped = [f"{counted(n, 'memory', 'memories')} {why}" for why, n in sync.skipped.items()]
    warning = f"skipped from the team: {', '.join(skipped)}" if skipped else ""
    return TurnSyncResult(warning=warning, call=replace(call, duration_s=sync.took_s))


def _end_late(store: Store, settings: SharedSettings, begun: "BegunSync") -> str:
    """Look once more, now that the turn is over; return a warning, or nothing."""
    if not begun.running.ends_within(0):
        # Too late may be the server's doing or this machine's: the process finds out.
        return _sync_in_background(store, settings, is_slow=True)
    # The turn has its answer, and a store that cannot be written does not take it away.
    with suppress(StoreError):
        try:
            result = begun.wait(0)
            if result.pulled.entries:
                return _sync_in_background(store, settings, is_slow=True)
            begun.finish(store, settings, result)
        except (SharedUnavailable, StoreDamaged, UsageError, NothingMatched) as error:
            note_failure(store)
            return f"{_AS_OF}: {error.message}"
    return ""
