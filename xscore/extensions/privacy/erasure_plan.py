"""What is erased with memories: the answers made with them, the exchanges those became, and so on.

A turn is affected when its receipt says that it used one of the memories: its answer may repeat it,
and so may the exchange that the answer became, later turns that used that exchange, and summaries
of either. It only reads. Trade-off: an affected answer goes whole, since a paraphrase cannot be
found.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field

from xscore.records.memory import Memory
from xscore.store import derived_memories
from xscore.store.line_search import LineMatcher, searchable_lines
from xscore.store.memory_rows import IN_JSON_LIST
from xscore.store.removal import all_hashes, read_removable
from xscore.store.scrubbing import lines_still_stored

_USED = """
    SELECT turn_id, json_extract(value, '$.id') FROM receipt, json_each(body, '$.selected')
    WHERE json_type(body, '$.selected') = 'array'
"""
_TURN_THREADS = f"SELECT DISTINCT thread FROM turn WHERE thread <> '' AND id {IN_JSON_LIST}"
_TURN_TEXTS = f"""
    SELECT task || char(10) || answer || char(10) || coalesce(json_extract(context, '$.errors'), '')
    FROM turn WHERE id {IN_JSON_LIST}
"""
_ASKED_AGAIN = f"""
    SELECT id FROM turn WHERE id {IN_JSON_LIST} AND EXISTS (
        SELECT 1 FROM turn AS other WHERE other.turn_key = turn.turn_key AND other.task <> ''
        AND NOT other.id {IN_JSON_LIST}
    )
"""
_ONLY_ASKED_THERE = f"""
    SELECT turn_key FROM turn WHERE id {IN_JSON_LIST}
    AND turn_key NOT IN (SELECT turn_key FROM turn WHERE task <> '' AND NOT id {IN_JSON_LIST})
"""


class ErasurePlan(Struct, frozen=True, kw_only=True):
    """What goes from one store."""

    memories: Mapping[str, Memory]
    """Memories by id: the named ones and their dependents."""
    dependents: frozenset[str]
    """Memories that were not named: dependent exchanges and summaries."""
    turns: frozenset[str] = frozenset()
    """Turns whose answers go."""
    erased_tasks: frozenset[str] = frozenset()
    """Turns whose tasks go too, because their own exchange was named."""
    deleted_turns: frozenset[str] = frozenset()
    """Turns that go with their receipts."""
    threads: frozenset[str] = frozenset()
    """Working sessions whose summaries go."""
    predecessors: tuple[str, ...] = ()
    """Superseded memories that led to one of the memories."""
    turn_keys: frozenset[str] = frozenset()
    """Keys of erased questions that no turn asks any more: the reasons given for them go."""
    texts: tuple[str, ...] = ()
    """Texts of the memories and the erased turns."""
    other_store_ids: frozenset[str] = frozenset()
    """Ids erased from the other store."""
    lines: LineMatcher = field(default_factory=lambda: LineMatcher(()))
    """Lines of these texts that no other memory contains."""

    @property
    def ids(self) -> frozenset[str]:
        """Every id that goes, from either store."""
        return self.other_store_ids | self.memories.keys()

    @property
    def hashes(self) -> frozenset[str]:
        """Every content hash of the memories."""
        return all_hashes(self.memories.values())


def plan_erasure(
    connection: sqlite3.Connection,
    ids: Collection[str],
    *,
    deleted_turns: Collection[str] = (),
    other_store_ids: Collection[str] = (),
    texts: Iterable[str] = (),
    turn_keys: Collection[str] = (),
) -> ErasurePlan:
    """Follow the memories with these ids through one store, which may mention those of the other.

    deleted_turns: past turns that go with question, answer and exchange.
    other_store_ids: memories that are erased from the other store in the same run.
    texts: of those memories.
    turn_keys: of their turns.

    Raises UsageError for memories of files.
    """
    # The exchange of a question that another turn asked as well is that turn's, too, so it stays.
    asked_again = _column(connection, _ASKED_AGAIN, deleted_turns, deleted_turns)
    turns = set(deleted_turns) - asked_again
    named = read_removable(connection, ids)
    named |= derived_memories.exchanges_of_turns(connection, turns)
    memories = dict(named)
    threads = _column(connection, _TURN_THREADS, deleted_turns)
    _follow(connection, memories, turns, threads, other_store_ids)
    erased_tasks = derived_memories.turns_of_exchanges(connection, named) | set(deleted_turns)
    erased_texts = tuple(map(_text_of, memories.values()))
    turn_texts = tuple(_column(connection, _TURN_TEXTS, erased_tasks))
    lines = searchable_lines([*texts, *erased_texts])
    # A line that another memory holds as well is still in the store, and no trace of these.
    lines -= lines_still_stored(connection, lines, but=memories)
    task_lines = searchable_lines(turn_texts)
    their_own = {*memories, *erased_tasks, *threads}
    task_lines -= lines_still_stored(connection, task_lines, but=their_own, tasks=True)
    only_asked_there = _column(connection, _ONLY_ASKED_THERE, erased_tasks, erased_tasks)
    return ErasurePlan(
        memories=memories,
        dependents=frozenset(memories.keys() - named.keys()),
        turns=frozenset(turns).union(deleted_turns),
        erased_tasks=frozenset(erased_tasks),
        deleted_turns=frozenset(deleted_turns),
        threads=frozenset(threads),
        predecessors=_predecessors(connection, memories),
        other_store_ids=frozenset(other_store_ids),
        turn_keys=frozenset(only_asked_there).union(turn_keys),
        texts=erased_texts + turn_texts,
        lines=LineMatcher(lines | task_lines),
    )


def _follow(
    connection: sqlite3.Connection,
    memories: dict[str, Memory],
    turns: set[str],
    threads: set[str],
    other_store_ids: Collection[str],
) -> None:
    """Add the turns that saw these memories, their sessions, and what was derived from them.

    A derived memory may have been seen by further turns, so it goes on until nothing is new.
    """
    turns_by_id = defaultdict[str, set[str]](set)
    for turn, id_ in connection.execute(_USED):
        turns_by_id[id_].add(turn)
    fresh = set(memories) | set(other_store_ids)
    while fresh:
        affected = derived_memories.turns_of_exchanges(connection, fresh)
        for id_ in fresh & turns_by_id.keys():
            affected |= turns_by_id[id_]
        threads |= derived_memories.threads_of(connection, fresh)
        # The sessions of earlier turns are in `threads` already.
        threads |= _column(connection, _TURN_THREADS, affected - turns)
        turns |= affected
        new = derived_memories.exchanges_of_turns(connection, turns)
        new |= derived_memories.summaries_of(connection, fresh, threads)
        failures = derived_memories.failures_only_in(connection, memories)
        facts = derived_memories.facts_quoting(connection, memories)
        new |= read_removable(connection, failures | facts)
        fresh = set(new.keys() - memories.keys())
        memories |= new


def _text_of(memory: Memory) -> str:
    details = memory.details
    parts = [
        memory.title,
        memory.card,
        memory.text,
        details.rationale,
        *details.alternatives,
        *details.aliases,
        details.resolution,
        memory.entity,
        memory.place,
    ]
    return "\n".join(parts)


def _column(connection: sqlite3.Connection, sql: str, *ids: Iterable[str]) -> set[str]:
    """Return the only column of a query about lists of ids."""
    lists = [json.dumps(list(among)) for among in ids]
    return {value for (value,) in connection.execute(sql, lists)}


def _predecessors(connection: sqlite3.Connection, going: Collection[str]) -> tuple[str, ...]:
    predecessors = set[str]()
    fresh = set(going)
    while fresh:
        fresh = derived_memories.superseded_by(connection, fresh) - predecessors
        predecessors |= fresh
    return tuple(sorted(predecessors - set(going)))
