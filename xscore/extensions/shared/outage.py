"""What a store remembers of a shared server that was away, so that the next turns do not wait for
it again.

A turn within `REMEMBERED_S` of the outage goes on without the server from its start, and looks
for it in the background. Trade-off: for that long the first packs of a short turn are claimed
here alone, although the server may be back.
"""

import sqlite3
from collections.abc import Callable

import msgspec
from msgspec import Struct

from xscore.platform import database
from xscore.store.index_rows import read_meta, write_meta

OUTAGE = "shared_outage"
"""Key of the outage in `meta`."""
REMEMBERED_S = 300.0


class ServerOutage(Struct, frozen=True):
    """A server that did not answer."""

    server: str
    """Name of the server, with the tenant."""
    problem: str
    at: float
    """When the server was last waited for, in Unix seconds."""


class OutageMemory:
    """Reads and writes the outage of one server in a store."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        server: str,
        *,
        clock: Callable[[], float],
        key: str = OUTAGE,
    ) -> None:
        """clock: Unix seconds. key: in `meta`."""
        self._connection = connection
        self._server = server
        self._clock = clock
        self._key = key
        self._read = _read_outage(connection, key)

    def problem(self) -> str:
        """Return why the server was away a short while ago; empty if it was not."""
        outage = self._read
        if outage is None or outage.server != self._server:
            return ""
        is_recent = 0 <= self._clock() - outage.at < REMEMBERED_S
        return outage.problem if is_recent else ""

    def remember(self, problem: str) -> None:
        """Remember that the server is away, or with an empty text that it answers."""
        # A known outage is not renewed, so that the server is waited for again once it is over.
        if problem == self.problem():
            return
        text = ""
        if problem:
            outage = ServerOutage(self._server, problem, self._clock())
            text = msgspec.json.encode(outage).decode()
        with database.transaction(self._connection):
            write_meta(self._connection, self._key, text)


def _read_outage(connection: sqlite3.Connection, key: str) -> ServerOutage | None:
    text = read_meta(connection, key)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=ServerOutage)
    except msgspec.MsgspecError:
        # A note that cannot be read costs one wait.
        return None
