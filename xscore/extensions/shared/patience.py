"""How long a turn waits for a server's first sign of life: a multiple of how long it took before.

A server that usually answers within some milliseconds, and now says nothing, is given up after
`NEAR_S`; one that is far away or busy has more time, and one that never answered this store
`shared.first_wait_s`. Giving up is cheap to take back: the knock goes on in the background, and
if it succeeds, the next turn waits as long as it took. Trade-off: a server that is slower than
ever before is away for the first claims of a turn.
"""

import sqlite3

import msgspec
from msgspec import Struct

from xscore.extensions.shared.link import NEAR_S
from xscore.platform import database
from xscore.store.index_rows import read_meta, write_meta

USUAL_ANSWER_KEY = "shared_answer"
"""Key in `meta` of how long a server usually takes to answer."""
PATIENCE_FACTOR = 8
"""A server is waited for this many times as long as it took before."""
MOST_BEYOND_S = 0.25
"""But at most this many seconds longer than it took before, since a server that is far away may be
down, too."""
DECAY = 0.5
"""Weight that a slow answer keeps after a quick one, so that a busy time is not forgotten at
once."""
NOTICEABLE = 1.5
"""Least factor of a change that is written."""


class UsualAnswer(Struct, frozen=True):
    """How long a server took for its sign of life."""

    server: str
    """Name of the server, with the tenant."""
    seconds: float


class ServerPatience:
    """Reads and writes how long one server takes, in a store."""

    def __init__(self, connection: sqlite3.Connection, server: str) -> None:
        self._connection = connection
        self._server = server
        self._usual_s = _read(connection, server)

    def wait_s(self) -> float | None:
        """Return how long to wait; None if it has never answered this store."""
        if self._usual_s is None:
            return None
        most_s = self._usual_s + MOST_BEYOND_S
        return max(NEAR_S, min(PATIENCE_FACTOR * self._usual_s, most_s))

    def learn(self, answer_s: float) -> None:
        """Note how long it took this time. Raises StoreError."""
        usual_s = answer_s
        if self._usual_s is not None:
            usual_s = max(answer_s, DECAY * self._usual_s)
            if self._usual_s / NOTICEABLE < usual_s < self._usual_s * NOTICEABLE:
                return
        text = msgspec.json.encode(UsualAnswer(self._server, usual_s)).decode()
        with database.transaction(self._connection):
            write_meta(self._connection, USUAL_ANSWER_KEY, text)


def _read(connection: sqlite3.Connection, server: str) -> float | None:
    text = read_meta(connection, USUAL_ANSWER_KEY)
    if not text:
        return None
    try:
        usual = msgspec.json.decode(text, type=UsualAnswer)
    except msgspec.MsgspecError:
        return None  # it costs one longer wait
    if usual.server != server or not usual.seconds > 0:
        return None
    return usual.seconds
