"""What goes with memories that are to be erased: the answers made with them, what those answers became, and so on.

A turn is touched when its receipt says that it kept one of the memories; its answer may repeat it, and so may the
exchange that the answer became, whatever later turn kept that exchange, and the summaries made of either. It reads and
changes nothing. Trade-off: whether an answer does repeat it is not asked, since a paraphrase cannot be found.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field

from xscore.platform.errors import UsageError
from xscore.records import Kind, Memory, MemorySource, MemoryStatus
from xscore.store import memory_rows, memory_writer
from xscore.store.line_search import LineMatcher, searchable_lines
from xscore.store.lookup import STATED_LAYERS

AMONG = "IN (SELECT value FROM json_each(?))"
_KEPT = """
    SELECT turn_id, json_extract(value, '$.id') FROM receipt, json_each(body, '$.selected')
    WHERE json_type(body, '$.selected') = 'array'
"""
_SAID = "SELECT id, title || char(10) || attrs || char(10) || card || char(10) || text FROM memory"
_TASKS = f"""
    {_SAID} UNION ALL SELECT id, task || char(10) || context FROM turn
    UNION ALL SELECT thread, active_task FROM session
"""
_OF_SESSIONS = "layer = 'session'"
"""Lets the index by layer find exchanges and summaries."""
_SUMMARIES = f"""
    id IN (SELECT target FROM edge WHERE relation = 'belongs_to' AND source {AMONG}) OR thread {AMONG}
"""

_MET_THERE_ALONE = f"""
    SELECT memory.id FROM memory JOIN occurrence ON memory_id = memory.id WHERE source_exchange {AMONG}
    GROUP BY memory.id HAVING count(*) >= json_extract(attrs, '$.occurrences')
    UNION SELECT memory.id FROM memory, json_each(attrs, '$.links') AS link
    WHERE layer = 'project' AND kind = 'pattern' AND memory.key LIKE 'failure_pattern:%' AND link.value {AMONG}
"""


class ErasurePlan(Struct, frozen=True, kw_only=True):
    """What goes from one store."""

    memories: Mapping[str, Memory]
    """By id: the named ones and those that go along."""
    along: frozenset[str]
    """Of them, the exchanges and summaries that nobody named."""
    turns: frozenset[str] = frozenset()
    """Turns whose answers go."""
    unsaid: frozenset[str] = frozenset()
    """Turns whose tasks go as well: their exchange itself was named."""
    deleted: frozenset[str] = frozenset()
    """Turns that go with their receipts."""
    threads: frozenset[str] = frozenset()
    """Working sessions whose summaries go."""
    earlier: tuple[str, ...] = ()
    """Superseded memories that led to one of them."""
    elsewhere: frozenset[str] = frozenset()
    """Ids erased from the other store."""
    lines: LineMatcher = field(default_factory=lambda: LineMatcher(()))
    """Of their texts, what no other memory says."""

    @property
    def ids(self) -> frozenset[str]:
        """Every id that goes, of either store."""
        return self.elsewhere | self.memories.keys()

    @property
    def hashes(self) -> frozenset[str]:
        """Every content hash they have, or had before or would have after going stale."""
        shown = (
            memory_writer.with_status(m, s)
            for m in self.memories.values()
            for s in (MemoryStatus.ACTIVE, MemoryStatus.STALE)
        )
        return frozenset(hash_ for memory in shown for hash_ in (memory.content_hash, memory.text_hash))


def plan_erasure(
    connection: sqlite3.Connection,
    ids: Collection[str],
    *,
    turns: Collection[str] = (),
    elsewhere: Collection[str] = (),
    texts: Iterable[str] = (),
) -> ErasurePlan:
    """Follow the memories with these ids through one store.

    turns: past turns that go with question, answer and exchange. elsewhere, texts: ids and texts erased from the other store at once, which this one may speak of. Raises UsageError
    for memories that come from files.
    """
    named = _read(connection, ids) | _exchanges(connection, turns)
    _refuse_indexed(named.values())
    found, touched_turns, threads = dict(named), set(turns), _threads_of_turns(connection, turns)
    kept = connection.execute(_KEPT).fetchall()
    fresh = set(named) | set(elsewhere)
    while fresh:
        threads |= _threads(connection, fresh)
        touched = {turn for turn, identifier in kept if identifier in fresh} | _turns_of(connection, fresh)
        threads |= _threads_of_turns(connection, touched - touched_turns)
        touched_turns |= touched
        new = {**_exchanges(connection, touched_turns), **_summaries(connection, fresh, threads)}
        new |= _failures(connection, found)
        fresh = new.keys() - found.keys()
        found |= new
    lines = searchable_lines([*texts, *(_said(memory) for memory in found.values())])
    return ErasurePlan(
        memories=found,
        along=frozenset(found.keys() - named.keys()),
        turns=frozenset(touched_turns),
        unsaid=frozenset(_turns_of(connection, named)) | frozenset(turns),
        deleted=frozenset(turns),
        threads=frozenset(threads),
        earlier=_earlier(connection, found),
        elsewhere=frozenset(elsewhere),
        lines=LineMatcher(lines - lines_still_stored(connection, lines, but=found)),
    )


def plan_removal(connection: sqlite3.Connection, ids: Collection[str]) -> ErasurePlan:
    """Plan for these memories alone, and nothing that was made with them. Raises UsageError as `plan` does."""
    named = _read(connection, ids)
    _refuse_indexed(named.values())
    return ErasurePlan(memories=named, along=frozenset())


def lines_still_stored(
    connection: sqlite3.Connection, lines: Iterable[str], *, but: Collection[str] = (), tasks: bool = False
) -> set[str]:
    """Return which of the lines other memories say, or with `tasks` what was asked: they stay, and prove nothing."""
    wanted, found = LineMatcher(lines), set[str]()
    if wanted:
        for identifier, said in connection.execute(_TASKS if tasks else _SAID):
            if identifier not in but:
                found |= wanted.found_in(said)
    return found


def memory_texts(plans: Iterable[ErasurePlan]) -> list[str]:
    """Return everything that the memories of these plans say."""
    return [_said(memory) for each in plans for memory in each.memories.values()]


def _said(memory: Memory) -> str:
    said = memory.particulars
    return "\n".join(
        [memory.title, memory.card, memory.text, said.rationale, *said.alternatives, said.resolution, memory.entity]
    )


def _read(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, Memory]:
    return {
        memory.id: memory for memory in memory_rows.select_memories(connection, f"id {AMONG}", (json.dumps(list(ids)),))
    }


def _refuse_indexed(memories: Iterable[Memory]) -> None:
    indexed = next((memory for memory in memories if memory.source is MemorySource.INDEX), None)
    if indexed:
        raise UsageError(
            f"{indexed.id} comes from the file {indexed.path} and would be back with the next index",
            hint="Exclude the file (`index.exclude`), then run `xscore index`: its memories go then.",
        )


def _turns_of(connection: sqlite3.Connection, ids: Iterable[str]) -> set[str]:
    """Turns whose answers became one of these exchanges."""
    asked = (
        "SELECT turn.id FROM turn JOIN memory ON memory.key = turn_key AND memory.kind = 'exchange'"
        f" WHERE memory.source <> 'import' AND memory.id {AMONG}"
    )
    return {turn for (turn,) in connection.execute(asked, (json.dumps(list(ids)),)).fetchall()}


def _exchanges(connection: sqlite3.Connection, turns: Iterable[str]) -> dict[str, Memory]:
    """Exchanges that the answers of these turns became."""
    where = (
        f"{_OF_SESSIONS} AND kind = ? AND source <> 'import' AND key IN (SELECT turn_key FROM turn WHERE id {AMONG})"
    )
    found = memory_rows.select_memories(connection, where, (Kind.EXCHANGE, json.dumps(list(turns))))
    return {memory.id: memory for memory in found}


def _summaries(connection: sqlite3.Connection, ids: Iterable[str], threads: Iterable[str]) -> dict[str, Memory]:
    where = f"{_OF_SESSIONS} AND kind = ? AND source <> 'index' AND ({_SUMMARIES})"
    found = memory_rows.select_memories(
        connection, where, (Kind.SUMMARY, json.dumps(list(ids)), json.dumps(list(threads)))
    )
    return {memory.id: memory for memory in found}


def _failures(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, Memory]:
    """Failures that were met in these exchanges alone, and the patterns of failures that go."""
    asked = json.dumps(list(ids))
    return _read(connection, [row[0] for row in connection.execute(_MET_THERE_ALONE, (asked, asked)).fetchall()])


def _threads(connection: sqlite3.Connection, ids: Iterable[str]) -> set[str]:
    asked = f"SELECT DISTINCT thread FROM memory WHERE thread <> '' AND id {AMONG}"
    return {thread for (thread,) in connection.execute(asked, (json.dumps(list(ids)),)).fetchall()}


def _threads_of_turns(connection: sqlite3.Connection, turns: Iterable[str]) -> set[str]:
    asked = f"SELECT DISTINCT thread FROM turn WHERE thread <> '' AND id {AMONG}"
    return {thread for (thread,) in connection.execute(asked, (json.dumps(list(turns)),)).fetchall()}


def _earlier(connection: sqlite3.Connection, going: Collection[str]) -> tuple[str, ...]:
    """Superseded memories that led to those that go, through any number of steps."""
    asked = f"SELECT id FROM memory WHERE {STATED_LAYERS} AND status = 'superseded' AND superseded_by {AMONG}"
    found, fresh = set[str](), set(going)
    while fresh:
        fresh = {i for (i,) in connection.execute(asked, (json.dumps(list(fresh)),)).fetchall()} - found
        found |= fresh
    return tuple(sorted(found - set(going)))
