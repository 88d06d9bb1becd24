"""What was made from memories: exchanges of the turns that used them, summaries, failures,
patterns; and what they superseded.

Each function takes one step; `erasure_plan` follows the steps until nothing is new. It only reads.
Trade-off: no index covers the links of patterns, so `failures_only_in` walks over all of them.
"""

import json
import sqlite3
from collections.abc import Iterable

from xscore.records.memory import Kind, Memory
from xscore.store.lookup import STATED_LAYERS
from xscore.store.memory_rows import IN_JSON_LIST, select_memories

_OF_SESSIONS = "layer = 'session'"
"""Lets the index by layer find exchanges and summaries."""
_OWN_EXCHANGES = f"""
    {_OF_SESSIONS} AND kind = '{Kind.EXCHANGE}' AND source <> 'import'
    AND key IN (SELECT turn_key FROM turn WHERE id {IN_JSON_LIST})
"""
_OWN_SUMMARIES = f"""
    {_OF_SESSIONS} AND kind = '{Kind.SUMMARY}' AND source <> 'index' AND (
        id IN (SELECT target FROM edge WHERE relation = 'belongs_to' AND source {IN_JSON_LIST})
          OR thread {IN_JSON_LIST})
"""
_TURNS = f"""
    SELECT turn.id FROM turn JOIN memory ON memory.key = turn_key AND memory.kind = 'exchange'
    WHERE memory.source <> 'import' AND memory.id {IN_JSON_LIST}
"""
_THREADS = f"SELECT DISTINCT thread FROM memory WHERE thread <> '' AND id {IN_JSON_LIST}"
_SUPERSEDED_BY = f"""
    SELECT id FROM memory WHERE {STATED_LAYERS} AND status = 'superseded'
    AND superseded_by {IN_JSON_LIST}
"""
_QUOTING = f"""
    SELECT id FROM memory WHERE {STATED_LAYERS} AND source <> 'index'
    AND json_extract(attrs, '$.quoted_in') {IN_JSON_LIST}
"""
_ONLY_THERE = f"""
    SELECT memory.id FROM memory JOIN occurrence ON memory_id = memory.id
      WHERE source_exchange {IN_JSON_LIST}
    GROUP BY memory.id HAVING count(*) >= json_extract(attrs, '$.occurrences')
    UNION SELECT memory.id FROM memory, json_each(attrs, '$.links') AS link
    WHERE layer = 'project' AND kind = 'pattern' AND memory.key LIKE 'failure_pattern:%'
      AND link.value {IN_JSON_LIST}
"""


def turns_of_exchanges(connection: sqlite3.Connection, ids: Iterable[str]) -> set[str]:
    """Return the turns whose answers became these exchanges."""
    return _column(connection, _TURNS, ids)


def exchanges_of_turns(
    connection: sqlite3.Connection, turns: Iterable[str]
) -> dict[str, Memory]:
    """Return the exchanges that the answers of these turns became, by id."""
    return _memories(connection, _OWN_EXCHANGES, turns)


def summaries_of(
    connection: sqlite3.Connection, ids: Iterable[str], threads: Iterable[str]
) -> dict[str, Memory]:
    """Return the summaries of these memories and of these working sessions, by id."""
    return _memories(connection, _OWN_SUMMARIES, ids, threads)


def threads_of(connection: sqlite3.Connection, ids: Iterable[str]) -> set[str]:
    """Return the working sessions in which these memories were made."""
    return _column(connection, _THREADS, ids)


def failures_only_in(connection: sqlite3.Connection, ids: Iterable[str]) -> set[str]:
    """Return the failures that were met in these exchanges only, and the failure patterns that were
    made from one of these memories."""
    among = tuple(ids)
    return _column(connection, _ONLY_THERE, among, among)


def facts_quoting(connection: sqlite3.Connection, ids: Iterable[str]) -> set[str]:
    """Return the extracted facts that quote one of these exchanges."""
    return _column(connection, _QUOTING, ids)


def superseded_by(connection: sqlite3.Connection, ids: Iterable[str]) -> set[str]:
    """Return the memories that one of these superseded."""
    return _column(connection, _SUPERSEDED_BY, ids)


def _column(connection: sqlite3.Connection, query: str, *ids: Iterable[str]) -> set[str]:
    """Return the only column of a query about lists of ids."""
    lists = [json.dumps(list(among)) for among in ids]
    return {value for (value,) in connection.execute(query, lists)}


def _memories(
    connection: sqlite3.Connection, where: str, *ids: Iterable[str]
) -> dict[str, Memory]:
    lists = [json.dumps(list(among)) for among in ids]
    return {memory.id: memory for memory in select_memories(connection, where, lists)}
