"""What a turn reads of the memories of each version of a file, packed for it (table
`version_pool`).

Reading ten thousand rows by SQL, each with its views, took a tenth of a hook. A pack holds the same
values end to end, so that a turn reads as many rows as there are files. Triggers remove the pack of
a version when one of its memories changes and note the version in `unpacked_version`; an index run
packs it again, and until then its rows are read. So are they where a pack is damaged, and then all
packs are dropped (`drop_packs`). Trade-off: only the view of a test that turns judge by default is
packed; with another setting all rows are read.
"""

import sqlite3
import struct
import time
from binascii import crc32
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from math import isfinite
from typing import NamedTuple

from xscore.platform.database import damage_if_invalid, lock_wait_until, transaction
from xscore.platform.errors import StoreError
from xscore.platform.patterns import compiled_late
from xscore.records.candidates import TERM_ENTRY
from xscore.records.memory import Kind, Layer, MemoryStatus, TestView, judged_views
from xscore.store.memory_views import join_judged_view
from xscore.store.worktrees import HERE

PACKED_VIEW: TestView = "cards"
"""The view of tests that is packed: the default of `judge.tests`."""
BATCH = 200
"""How many versions are packed in one transaction."""
_SEPARATOR = "\x1f"
"""Separator of the texts of a pack. No name has it; a version of one that does is not
packed."""
_ID_PREFIX, _ID_CHARS, _HASH_CHARS = "m_", 20, 32
_ID_BYTES, _HASH_BYTES = _ID_CHARS // 2, _HASH_CHARS // 2
_IDENTITY_FORM = struct.Struct(f"{_ID_BYTES}s{_HASH_BYTES}s")
"""Form of a memory's id and content hash."""
_CHECKSUM_BYTES = 4
"""Bytes of the CRC-32 that follows the identities of a pack. A changed id would be a memory
without a text, a changed hash a memory that was never judged; nothing else in the pack would
contradict it."""
_CHECKSUM_OF_ALL = 0x2144DF1C
"""The CRC-32 of any bytes that end with their own CRC-32."""
_IDENTITY = compiled_late(rf"{_ID_PREFIX}[0-9a-f]{{{_ID_CHARS}}} [0-9a-f]{{{_HASH_CHARS}}}")
_NUMBERS_OF_MEMORY = 4
"""How many numbers a memory has: first line, last line, estimated tokens, and entries of its
term vector."""
_MOST = 2**16 - 1
"""Largest number in a pack: larger ones are rare, and would take a tenth more room of all."""
_LETTERS = {
    Kind.FUNCTION: "f",
    Kind.METHOD: "m",
    Kind.CLASS: "c",
    Kind.TEST: "t",
    Kind.BLOCK: "b",
    Kind.DOC: "d",
    Kind.CONFIG: "g",
    Kind.TEXT: "x",
}
"""The letter of each kind of memory that files have; a version with another is not packed."""
_KIND_OF_LETTER = {letter: kind for kind, letter in _LETTERS.items()}
IS_UNPACKED = "(version = 0 OR version IN (SELECT version FROM main.unpacked_version))"
"""SQL condition on `memory_row` for memories that are in no pack."""
_PACKS = f"""
    SELECT path, updated_at, identities, kinds, entities, languages, numbers, {{terms}}
    FROM main.file_row AS listed JOIN main.version_pool ON number = 2 * listed.version + ?
    WHERE listed.worktree = {HERE} AND listed.version > 0 ORDER BY path
"""
_TO_PACK = "SELECT version FROM unpacked_version WHERE NOT is_tried ORDER BY version LIMIT ?"
_PUT = """
    INSERT INTO version_pool
      (number, updated_at, identities, kinds, entities, languages, numbers, terms)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_NOTE_ALL = """
    INSERT INTO unpacked_version (version) SELECT number FROM file_version WHERE true
    ON CONFLICT (version) DO UPDATE SET is_tried = 0
"""
_PLACES = {Layer.GRAPH: 0, Layer.VECTOR: 1}
"""The layers of which files are made, and what each adds to twice the number of a version."""


class LayerColumns(NamedTuple):
    """The memories of a layer by column: the fields of a candidate, and their term vectors."""

    ids: Sequence[str]
    hashes: Sequence[str]
    kinds: Sequence[Kind]
    paths: Sequence[str]
    entities: Sequence[str]
    start_lines: Sequence[int]
    end_lines: Sequence[int]
    languages: Sequence[str]
    tokens: Sequence[int]
    updated_at: Sequence[float]
    term_sizes: Sequence[int]
    inferred: Sequence[int]
    """Flags of inferred memories; empty if there are none."""
    terms: bytes


class _PackedMemory(NamedTuple):
    """A memory of a version, as it is read to be packed."""

    layer: str
    status: str
    id: str
    hash: str
    kind: str
    entity: str
    language: str
    start_line: int
    end_line: int
    tokens: int
    updated_at: float
    terms: bytes


_VIEWS = join_judged_view(judged_views(Layer.GRAPH, PACKED_VIEW), ("0",))
_MEMORIES = f"""
    SELECT layer, status, id, {_VIEWS.hash}, kind, entity, memory_row.language, start_line,
      end_line, {_VIEWS.tokens}, updated_at, terms
    FROM file_version JOIN memory_row
      ON memory_row.path = file_version.path AND memory_row.version = file_version.number
    {_VIEWS.joins} WHERE file_version.number = ? ORDER BY memory_row.number
"""
"""SQL of the memories of a version, by path, which has an index."""


def read_packs(
    connection: sqlite3.Connection, layer: Layer, *, with_terms: bool
) -> LayerColumns | None:
    """Return the packed memories of a layer that this worktree has, by path; None if there are
    none. Raises StoreDamaged."""
    query = _PACKS.format(terms="terms" if with_terms else "x''")
    rows = connection.execute(query, (_PLACES[layer],)).fetchall()
    if not rows:
        return None
    paths, times, identities, kinds, entities, languages, numbers, terms = zip(
        *rows, strict=True
    )
    with damage_if_invalid("the packed memories of a file"):
        if any(checksum != _CHECKSUM_OF_ALL for checksum in map(crc32, identities)):
            raise ValueError("identities have changed")
        counts = [len(identity) // _IDENTITY_FORM.size for identity in identities]
        joined_identities = b"".join([identity[:-_CHECKSUM_BYTES] for identity in identities])
        if len(joined_identities) != sum(counts) * _IDENTITY_FORM.size:
            raise ValueError("identities are cut")
        # Each column of all files is taken apart at once: file by file took twice the time.
        identity_fields = struct.unpack(_IDENTITY_FORM.format * sum(counts), joined_identities)
        id_bytes, hash_bytes = identity_fields[0::2], identity_fields[1::2]
        all_ids = b"".join(id_bytes).hex(" ", _ID_BYTES).replace(" ", f" {_ID_PREFIX}")
        joined_numbers = b"".join(numbers)
        form = f"<{_NUMBERS_OF_MEMORY * len(id_bytes)}H"
        if len(joined_numbers) != struct.calcsize(form):
            raise ValueError("numbers are missing")
        values = struct.unpack(form, joined_numbers)
        columns = LayerColumns(
            ids=f"{_ID_PREFIX}{all_ids}".split(" "),
            hashes=b"".join(hash_bytes).hex(" ", _HASH_BYTES).split(" "),
            kinds=list(map(_KIND_OF_LETTER.__getitem__, "".join(kinds))),
            paths=list(chain.from_iterable(map(repeat, paths, counts))),
            entities=_SEPARATOR.join(entities).split(_SEPARATOR),
            start_lines=values[0::_NUMBERS_OF_MEMORY],
            end_lines=values[1::_NUMBERS_OF_MEMORY],
            languages=list(chain.from_iterable(map(_languages_of, languages, counts))),
            tokens=values[2::_NUMBERS_OF_MEMORY],
            updated_at=list(chain.from_iterable(map(repeat, times, counts))),
            term_sizes=[count * TERM_ENTRY.size for count in values[3::_NUMBERS_OF_MEMORY]],
            inferred=(),
            terms=b"".join(terms),
        )
        if not isfinite(sum(times)):
            raise ValueError("a time of change is none")
        lengths = {len(columns.kinds), len(columns.entities), len(columns.languages)}
        if lengths != {len(id_bytes)}:
            raise ValueError("its columns have different lengths")
    return columns


def _languages_of(languages: str, count: int) -> Iterable[str]:
    """Return the language of each memory of a version; most versions have one."""
    return languages.split(_SEPARATOR) if _SEPARATOR in languages else repeat(languages, count)


def drop_packs(connection: sqlite3.Connection) -> bool:
    """Remove every pack, so that rows are read until an index run packs them again.

    Return whether that was done: it waits for no lock, and a store that cannot be written to, or
    whose pages of packs are lost, keeps them.
    """
    if connection.in_transaction:
        return False
    try:
        with lock_wait_until(connection, time.monotonic()), transaction(connection):
            connection.execute("DELETE FROM version_pool")
            connection.execute(_NOTE_ALL)
    except StoreError:
        return False
    return True


def are_packs_due(connection: sqlite3.Connection) -> bool:
    """Return whether a version is to be packed."""
    return connection.execute(_TO_PACK, (1,)).fetchone() is not None


def pack_versions(
    connection: sqlite3.Connection, *, is_late: Callable[[], bool] = lambda: False
) -> None:
    """Pack every version without a pack, of any worktree, until it is too late.

    One whose memories fit into no pack stays without, and is not tried again until one of them
    changes.
    """
    while not is_late():
        with transaction(connection):
            versions = connection.execute(_TO_PACK, (BATCH,)).fetchall()
            for (version,) in versions:
                _pack(connection, version)
        if len(versions) < BATCH:
            return


def _pack(connection: sqlite3.Connection, version: int) -> None:
    memories = [
        _PackedMemory(*row) for row in connection.execute(_MEMORIES, (version,)).fetchall()
    ]
    packs: list[tuple[object, ...]] = []
    for layer in {memory.layer for memory in memories}:
        columns = _packed([memory for memory in memories if memory.layer == layer])
        if layer not in _PLACES or columns is None:
            tried = "UPDATE unpacked_version SET is_tried = 1 WHERE version = ?"
            connection.execute(tried, (version,))
            return
        packs.append((2 * version + _PLACES[Layer(layer)], *columns))
    connection.executemany(_PUT, packs)
    connection.execute("DELETE FROM unpacked_version WHERE version = ?", (version,))


def _packed(memories: Sequence[_PackedMemory]) -> tuple[object, ...] | None:
    """Return the columns of a pack after its number; None where these memories fit into none.

    memories: those of one layer of a version.
    """
    first = memories[0]
    identities: list[str] = []
    numbers: list[int] = []
    for memory in memories:
        # Live, of one date, and named as the index names memories.
        is_alike = (memory.status, memory.updated_at) == (MemoryStatus.ACTIVE, first.updated_at)
        if not (is_alike and _IDENTITY.fullmatch(f"{memory.id} {memory.hash}")):
            return None
        entries, rest = divmod(len(memory.terms), TERM_ENTRY.size)
        numbers_of_memory = (memory.start_line, memory.end_line, memory.tokens, entries)
        is_in_range = min(numbers_of_memory) >= 0 and max(numbers_of_memory) <= _MOST
        if rest or memory.kind not in _LETTERS or not is_in_range:
            return None
        identities += memory.id.removeprefix(_ID_PREFIX), memory.hash
        numbers += numbers_of_memory
    entities = _joined([memory.entity for memory in memories])
    languages = _joined([memory.language for memory in memories])
    if entities is None or languages is None:
        return None
    if len({memory.language for memory in memories}) == 1:
        languages = first.language
    joined_identities = bytes.fromhex("".join(identities))
    return (
        first.updated_at,
        joined_identities + crc32(joined_identities).to_bytes(_CHECKSUM_BYTES, "little"),
        "".join([_LETTERS[Kind(memory.kind)] for memory in memories]),
        entities,
        languages,
        struct.pack(f"<{len(numbers)}H", *numbers),
        b"".join([memory.terms for memory in memories]),
    )


def _joined(texts: Sequence[str]) -> str | None:
    """Return texts as one that can be taken apart again; None if it could not."""
    joined = _SEPARATOR.join(texts)
    return joined if joined.count(_SEPARATOR) == len(texts) - 1 else None
