"""Exchange memories with the team beside a turn.

The exchange is begun before the index is brought up to date, and the turn takes what has come by
then; it waits a little longer only as an exchange usually takes. A server that was away is left
alone for a while, so an outage costs one short wait and a line, never a turn. What was pulled
before stays in use. Where nothing is due, nothing but this is loaded. Trade-off: what comes too
late for a turn is taken by the next.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.extension import implements
from xscore.extensions.shared.team.membership import (
    Membership,
    has_news,
    is_users_own,
    read_membership,
    write_membership,
)
from xscore.pipeline.parts import TEAM_SYNC
from xscore.platform import database
from xscore.platform.errors import NothingMatched, SharedUnavailable, StoreDamaged, UsageError
from xscore.platform.text import counted
from xscore.settings import Settings
from xscore.settings.model import SharedSettings
from xscore.store.store import Store

if TYPE_CHECKING:
    from xscore.extensions.shared.team.sync import BegunExchange

LEAST_WAIT_S = 0.05
"""What a turn waits at least, after its own work, for the server's answer."""
MOST_WAIT_S = 0.5
PATIENCE = 2.0
"""A turn waits this many times as long as an exchange usually takes."""
MOST_LATE = 1
"""How many turns in a row may go without its answer before the server counts as away."""
LONGER_WHEN_LATE = 1.25
"""By how much longer the next turn waits for a server that was too late for this one."""
RECENT_S = 60.0
"""A turn asks no server that was asked so lately, unless something was stated."""


@implements(TEAM_SYNC)
def begin_turn_sync(settings: Settings, *, store: Store) -> Callable[[], str]:
    """Begin an exchange for a turn; return what takes its result and says what was wrong."""
    membership = read_membership(store.connection)
    if membership is None or not _is_due(store, settings.shared, membership):
        return lambda: ""
    # Few turns have something due.
    from xscore.extensions.shared.team.sync import begin_exchange

    try:
        begun = begin_exchange(store, settings.shared, membership)
    except UsageError as error:
        problem = f"the team's memories: {error.message}"
        return lambda: problem

    def finish() -> str:
        return _finish_turn(store, settings.shared, begun)

    return finish


def _is_due(store: Store, settings: SharedSettings, membership: Membership) -> bool:
    now = store.clock()
    # A paused server is left alone, whatever was stated meanwhile.
    if now < membership.pauses_until() or not is_users_own(store):
        return False
    is_recent = abs(now - membership.synced_at) < RECENT_S
    return not is_recent or has_news(store.connection, settings, membership)


def _finish_turn(store: Store, settings: SharedSettings, begun: "BegunExchange") -> str:
    from xscore.extensions.shared.team.sync import finish_exchange  # as above

    wait_s = min(MOST_WAIT_S, max(LEAST_WAIT_S, PATIENCE * begun.membership.usual_s))
    try:
        result = begun.running.wait(wait_s, name=begun.request.address.name)
        sync = finish_exchange(store, settings, begun, result)
    except (SharedUnavailable, StoreDamaged, UsageError, NothingMatched) as error:
        if not _note_failure(store, is_late=begun.running.is_under_way):
            return ""
        return f"the team's memories are as of the last exchange: {error.message}"
    skipped = [f"{counted(n, 'memory', 'memories')} {why}" for why, n in sync.skipped.items()]
    return f"skipped from the team: {', '.join(skipped)}" if skipped else ""


def _note_failure(store: Store, *, is_late: bool) -> bool:
    """Note that the server was away, or that its answer was too late; return whether the user is
    told.

    Once too late may be this machine's own doing, where it is busy: the next turn waits longer.
    """
    with database.transaction(store.connection):
        membership = read_membership(store.connection)
        if membership is None:
            return True
        if is_late and membership.late < MOST_LATE:
            usual_s = min(LONGER_WHEN_LATE * membership.usual_s, MOST_WAIT_S / PATIENCE)
            late = replace(membership, late=membership.late + 1, usual_s=usual_s)
            write_membership(store.connection, late)
            return False
        failed = replace(membership, failures=membership.failures + 1, failed_at=store.clock())
        write_membership(store.connection, failed)
    return True
