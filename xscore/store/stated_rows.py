"""Stated memories as rows of their copy (`stated_copy.sql`), and the reading of them from a store.

A memory's title, text and card are columns, the rest is JSON, which later versions read by its
names. Trade-off: a copy is compared whole, row by row, which takes about 5 ms for a thousand
memories.
"""

import sqlite3
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xscore.records.memory import Citation, Memory
from xscore.store import memory_rows, memory_writer
from xscore.store.evidence import citations_of
from xscore.store.memory_queries import stated_threads

CopyRow = tuple[str, str, str, str, str]
"""A row of table `stated`: id, title, text, card and the other fields."""
_WRITE = """
    INSERT INTO stated (id, title, text, card, rest) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET title = excluded.title, text = excluded.text,
      card = excluded.card,
        rest = excluded.rest
"""


class CountedOccurrence(Struct, frozen=True):
    """An occurrence of a failure that was counted."""

    id: str
    source_exchange: str


class StatedMemory(Struct, frozen=True):
    """A memory with what the store keeps of it in other tables."""

    memory: Memory
    thread: str = ""
    citations: tuple[Citation, ...] = ()
    occurrences: tuple[CountedOccurrence, ...] = ()


def rows_to_copy(connection: sqlite3.Connection) -> dict[str, CopyRow]:
    """Return what a store holds that was stated, by id; what colleagues share is on their team's
    server, and what files show is read from them again."""
    rows: dict[str, CopyRow] = {}
    for stated in _stated_memories(connection):
        if not (stated.memory.is_from_team or stated.memory.is_shown_by_files):
            rows[stated.memory.id] = _row_of(stated)
    return rows


def copied_rows(connection: sqlite3.Connection) -> dict[str, CopyRow]:
    """Return the rows of a copy, by id."""
    rows = connection.execute(
        "SELECT id, title, text, card, rest FROM stated ORDER BY id"
    ).fetchall()
    return {row[0]: row for row in rows}


def write_rows(connection: sqlite3.Connection, rows: Iterable[CopyRow]) -> None:
    """Write rows of a copy; call it inside a transaction."""
    connection.executemany(_WRITE, rows)


def _stated_memories(connection: sqlite3.Connection) -> Iterator[StatedMemory]:
    """Yield the memories that are neither indexed from a file nor past exchanges."""
    # Ids first: ordered by path, the same condition would walk over every indexed memory.
    threads = stated_threads(connection)
    memories = memory_rows.memories_with_ids(connection, threads)
    citations = citations_of(connection, threads)
    occurrences: dict[str, list[CountedOccurrence]] = {}
    for memory, *counted in connection.execute(
        "SELECT memory_id, id, source_exchange FROM occurrence ORDER BY id"
    ):
        occurrences.setdefault(memory, []).append(CountedOccurrence(*counted))
    for memory in memories:
        yield StatedMemory(
            memory,
            threads[memory.id],
            citations.get(memory.id, ()),
            tuple(occurrences.get(memory.id, ())),
        )


def _row_of(stated: StatedMemory) -> CopyRow:
    memory = stated.memory
    rest = replace(stated, memory=replace(memory, title="", text="", card="", views=()))
    return memory.id, memory.title, memory.text, memory.card, msgspec.json.encode(rest).decode()


def memory_of(row: CopyRow) -> StatedMemory:
    """Return the memory of a row. Raises ValueError for an invalid one."""
    identifier, title, text, card, rest = row
    stated = msgspec.json.decode(rest, type=StatedMemory)
    if stated.memory.id != identifier:
        raise ValueError(f"{identifier} holds another memory")
    memory = replace(stated.memory, title=title, text=text, card=card)
    # Its views are made of its texts, so a copy holds none.
    return replace(stated, memory=memory_writer.with_status(memory, memory.status))
