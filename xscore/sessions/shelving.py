"""Exchanges go into the store in batches: memories, links, failures and bookmarks in one transaction each.

What is known, forgotten, put away or the user's own by now is left alone; an exchange that went on since is renewed.
A batch that never commits has left nothing. Trade-off: a file with more exchanges than a batch is committed in steps,
each to the end of an exchange.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence

from xscore import database
from xscore.memory import door
from xscore.memory.events import EventName, emit
from xscore.memory.links.mention_links import link_mentions
from xscore.records import Memory, Source, Status
from xscore.sessions import bookmarks
from xscore.sessions.bookmarks import Bookmark
from xscore.sessions.keeping import Kept, record_failures
from xscore.settings import MemorySettings

BATCH_EXCHANGES = 500
BATCH_FILES = 200

Shown = tuple[str, str, str, float]
"""Text hash, status, source, time of a memory that is there."""


class Shelf:
    """Collects what was read, and puts it away."""

    def __init__(self, connection: sqlite3.Connection, *, now: float, dry_run: bool, memory: MemorySettings) -> None:
        self._connection = connection
        self._now, self._dry_run, self._settings = now, dry_run, memory
        self._kept: list[Kept] = []
        self._bookmarks: list[Bookmark] = []
        self._fresh = 0
        """Of `_kept`, how many are of the file that is being read."""
        self._seen: dict[str, Shown] = {}
        """What a dry run would have put by now."""
        self.counts: Counter[str] = Counter()
        self.by_origin: Counter[str] = Counter()

    @property
    def is_full(self) -> bool:
        """Whether it is time to put away what there is."""
        return len(self._kept) >= BATCH_EXCHANGES or len(self._bookmarks) >= BATCH_FILES

    def add(self, one: Kept) -> None:
        """Take an exchange of the file that is being read."""
        self._kept.append(one)
        self._fresh += 1

    def discard(self) -> int:
        """Drop what came of the file that is being read and is not put away; return how much that was."""
        dropped, self._fresh = self._fresh, 0
        if dropped:
            del self._kept[-dropped:]
        return dropped

    def finish(self, bookmark: Bookmark) -> None:
        """The file is read: keep its bookmark with what came of it."""
        self._bookmarks.append(bookmark)
        self._fresh = 0

    def put_away(self, *so_far: Bookmark) -> None:
        """Commit what there is. so_far: of the file that is being read, up to its last whole exchange."""
        kept, marks = self._kept, [*self._bookmarks, *so_far]
        self._kept, self._bookmarks, self._fresh = [], [], 0
        if self._dry_run:
            self._settle(kept)
        elif kept or marks:
            with database.transaction(self._connection):
                chosen = self._settle(kept)
                self._write(chosen)
                for mark in marks:
                    bookmarks.save(self._connection, mark, now=self._now)

    def _write(self, chosen: Sequence[Kept]) -> None:
        if not chosen:
            return
        door.put(self._connection, [one.memory for one in chosen])
        self.counts["links"] += link_mentions(self._connection, [one.memory.id for one in chosen])
        rules = self._settings
        failures = [
            failure
            for one in chosen
            for failure in record_failures(
                self._connection, one, pattern_at=rules.pattern_at, allow_pii=rules.allow_pii
            )
        ]
        if failures:
            link_mentions(self._connection, failures)
        first = chosen[0].memory
        told = {"layer": first.layer, "kind": first.kind, "source": first.source, "memories": len(chosen)}
        emit(self._connection, EventName.STORED, at=self._now, payload=told)

    def _settle(self, kept: Sequence[Kept]) -> list[Kept]:
        """Choose what is to be written, each id once, and count what becomes of the rest."""
        ids = [one.memory.id for one in kept]
        known = {**_known(self._connection, ids), **{id_: self._seen[id_] for id_ in ids if id_ in self._seen}}
        gone = _forgotten(self._connection, ids)
        chosen: dict[str, Kept] = {}
        for one in kept:
            memory = one.memory
            became = "forgotten" if memory.id in gone else _became(memory, known.get(memory.id))
            self.counts[became] += 1
            if became not in ("added", "updated"):
                continue
            chosen[memory.id] = one
            known[memory.id] = (memory.text_hash, memory.status, memory.source, memory.updated_at)
            if self._dry_run:
                self._seen[memory.id] = known[memory.id]
            self.by_origin[memory.particulars.origin] += 1
            self.counts["secrets"] += one.secrets
            self.counts["failures"] += len(one.lessons)
        return list(chosen.values())


def _became(memory: Memory, known: Shown | None) -> str:
    if known is None:
        return "added"
    text_hash, status, source, updated_at = known
    is_ours = status == Status.ACTIVE and source == Source.IMPORT
    went_on = text_hash != memory.text_hash and memory.updated_at >= updated_at
    return "updated" if is_ours and went_on else "known"


def _known(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Shown]:
    rows = connection.execute(
        "SELECT id, text_hash, status, source, updated_at FROM memory WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(ids),),
    )
    return {
        identifier: (text_hash, status, source, at) for identifier, text_hash, status, source, at in rows.fetchall()
    }


def _forgotten(connection: sqlite3.Connection, ids: Sequence[str]) -> set[str]:
    rows = connection.execute(
        "SELECT memory_id FROM forgotten WHERE memory_id IN (SELECT value FROM json_each(?))", (json.dumps(ids),)
    )
    return {row[0] for row in rows.fetchall()}
