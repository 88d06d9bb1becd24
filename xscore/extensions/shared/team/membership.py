"""What a store knows of its team: the repository's name there, how far it has pulled, and when the
server was last away.

It is one row of `meta`, so it comes with the store, which is trusted only where its user made it: a
cloned repository can neither join a team nor say which. Trade-off: a copy of a store that is
brought back from a backup pulls again from where it was, and what it had sent is compared again.
"""

import sqlite3

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xscore.platform import database
from xscore.platform.database import damage_if_invalid
from xscore.settings.model import SharedSettings
from xscore.store.checkpoints import retracted_checkpoints
from xscore.store.copied_stores import has_statement_since
from xscore.store.index_rows import read_meta, write_meta
from xscore.store.store import Store

MEMBERSHIP = "team"
"""Key of the membership in `meta`."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 30.0, 900.0
"""How long a server that was away is left alone; doubles with each failure."""
COMMAND_S = 120.0
"""Deadline for a process that does nothing else, with thousands of memories to take."""


class Membership(Struct, frozen=True, kw_only=True):
    """How this store takes part in a team."""

    repository: str
    """Name of the repository: `github.com/acme/pay`."""
    by: str
    """The member's display name."""
    organisation: str = ""
    member: str = ""
    """The member's ID on the server (a digest)."""
    epoch: str = ""
    """Random ID of the project's incarnation; changes when the server is recreated."""
    version: int = 0
    """Version of the project up to which this store has pulled."""
    event: int = -1
    """The newest event of the store when its own memories were last compared; -1: they never
    were."""
    kinds: tuple[str, ...] = ()
    """Kinds exchanged at the last sync."""
    synced_at: float = 0.0
    """When the store was last synchronised, in Unix seconds; 0: never."""
    is_slow: bool = False
    """Whether the last exchange took longer than a turn waits."""
    background_sync_at: float = 0.0
    """When a background sync was started; 0 if it is over."""
    problem: str = ""
    """What went wrong in a background sync, if no turn has reported it yet."""
    failures: int = 0
    """Number of failures in a row, since it last succeeded."""
    failed_at: float = 0.0

    def is_syncing_in_background(self, now: float) -> bool:
        """Whether a background sync may still be asking the server."""
        return 0 <= now - self.background_sync_at < COMMAND_S

    def is_paused(self, now: float) -> bool:
        """Whether a server that was away is left alone for now."""
        if not self.failures:
            return False
        pause = min(FIRST_PAUSE_S * 2.0 ** min(self.failures - 1, 10), LONGEST_PAUSE_S)
        # A clock that was set back would make it a pause of days.
        return 0 <= now - self.failed_at < pause


def read_membership(connection: sqlite3.Connection) -> Membership | None:
    """Return how the store takes part; None if it does not. Raises StoreDamaged."""
    text = read_meta(connection, MEMBERSHIP)
    if not text:
        return None
    with damage_if_invalid("the membership in a team"):
        return msgspec.json.decode(text, type=Membership)


def write_membership(connection: sqlite3.Connection, membership: Membership | None) -> None:
    """Write it, or with None end it; call it inside a transaction."""
    if membership is None:
        text = ""
    else:
        text = msgspec.json.encode(membership).decode()
    write_meta(connection, MEMBERSHIP, text)


def note_failure(store: Store, *, problem: str = "") -> None:
    """Note that the server was away. problem: what the next turn says about it."""
    with database.transaction(store.connection):
        membership = read_membership(store.connection)
        if membership is not None:
            failed = replace(
                membership,
                failures=membership.failures + 1,
                failed_at=store.clock(),
                background_sync_at=0.0,
                problem=problem,
            )
            write_membership(store.connection, failed)


def has_news(
    connection: sqlite3.Connection, settings: SharedSettings, membership: Membership
) -> bool:
    """Whether the store may hold something that the server lacks."""
    if settings.memories != "write":
        return False
    if membership.event < 0 or membership.kinds != settings.kinds:
        return True
    if retracted_checkpoints(connection):
        return True
    return has_statement_since(connection, membership.event)
