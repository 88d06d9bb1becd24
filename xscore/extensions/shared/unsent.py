"""Which turns of a store have judgments that a shared server may lack, so that a later turn sends
them.

A process notes a turn before it stores the first judgment of it, and removes the note once the
server has everything. A note that is left, after an outage or a kill, is worked off by the next
process that reaches the server: it reads the turn's judgments from the store and sends them. What
was erased meanwhile is not there to be sent. Trade-off: all of the turn is sent, since a note that
named each content would be rewritten with every judgment; the server keeps what it has.
"""

import sqlite3
import time
from collections.abc import Callable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.judgments import read_judgments, read_reasons
from xscore.cache.keys import JudgmentKey
from xscore.platform import database
from xscore.platform.processes import is_process_at_work, process_identity, random_hex
from xscore.records.judgment import Judgment
from xscore.store.index_rows import read_meta, write_meta

UNSENT = "shared_unsent"
"""Key in `meta` of the turns that are not sent yet."""
MOST_TURNS = 500
"""Most turns that are noted; beyond that the oldest are dropped."""


class UnsentTurn(Struct, frozen=True, kw_only=True):
    """A turn by one judge, of which a server may lack judgments."""

    id: str
    server: str
    """Name of the server, with the tenant."""
    names: JudgmentKey
    process: str
    """Identity of the process that noted it, and may still be judging."""
    at: float
    """Unix seconds."""


class UnsentTurns:
    """The notes of one store about one server."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        server: str,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """clock: Unix seconds."""
        self._connection = connection
        self._server = server
        self._clock = clock
        self._own: dict[JudgmentKey, str] = {}
        """Ids of the notes of this process."""

    def note(self, names: JudgmentKey) -> None:
        """Note that this process is about to store judgments of a turn."""
        if names in self._own:
            return
        turn = UnsentTurn(
            id=random_hex(8),
            server=self._server,
            names=names,
            process=process_identity(),
            at=self._clock(),
        )
        self._own[names] = turn.id
        with database.transaction(self._connection):
            turns = _read(self._connection)
            _write(self._connection, [*turns, turn][-MOST_TURNS:])

    def forget_own(self) -> None:
        """Remove the notes of this process, since the server has everything."""
        self._forget(set(self._own.values()))
        self._own.clear()

    def leave_own(self) -> None:
        """Leave the notes of this process to the next one, since the server lacks something."""
        with database.transaction(self._connection):
            turns: list[UnsentTurn] = []
            for turn in _read(self._connection):
                is_own = turn.id in self._own.values()
                turns.append(replace(turn, process="") if is_own else turn)
            _write(self._connection, turns)
        self._own.clear()

    def left_by_others(self) -> list[UnsentTurn]:
        """Return what earlier processes have left for this server."""
        unfinished: list[UnsentTurn] = []
        for turn in _read(self._connection):
            if turn.server != self._server or turn.id in self._own.values():
                continue
            age_s = self._clock() - turn.at
            if not is_process_at_work(turn.process, age_s=age_s):
                unfinished.append(turn)
        return unfinished

    def judgments(self, turn: UnsentTurn) -> list[Judgment]:
        """Return what the store has of a turn, with reasons. Raises StoreDamaged."""
        judgments = read_judgments(self._connection, turn.names)
        reasons = read_reasons(self._connection, turn.names, judgments)
        with_reasons: list[Judgment] = []
        for content, judgment in judgments.items():
            with_reasons.append(judgment._replace(reason=reasons.get(content, "")))
        return with_reasons

    def sent(self, turn: UnsentTurn) -> None:
        """Remove a note whose judgments the server has."""
        self._forget({turn.id})

    def _forget(self, ids: set[str]) -> None:
        if not ids:
            return
        with database.transaction(self._connection):
            turns = _read(self._connection)
            _write(self._connection, [turn for turn in turns if turn.id not in ids])


def _read(connection: sqlite3.Connection) -> list[UnsentTurn]:
    text = read_meta(connection, UNSENT)
    if not text:
        return []
    try:
        return msgspec.json.decode(text, type=list[UnsentTurn])
    except msgspec.MsgspecError:
        # Notes that cannot be read cost a second payment, and no turn.
        return []


def _write(connection: sqlite3.Connection, turns: list[UnsentTurn]) -> None:
    text = msgspec.json.encode(turns).decode() if turns else ""
    write_meta(connection, UNSENT, text)
