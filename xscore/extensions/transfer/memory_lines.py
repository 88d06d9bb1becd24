"""Memories as a saved file, out and back in: one memory a line, sorted, so that two exports can be
compared with `diff`.

Memories of the index, judgments, vectors and use counts are never written. What comes in is checked
line by line before the first is stored, gets the source `import`, so that no prompt takes it for
the user's word, and changes nothing that is here; what a person stated where it was exported stays
a statement, and says that it was imported. Trade-offs: unknown fields are refused, and so is a line
of a newer `schema`; edges are left out, since they are found again from the text; the file is held
in memory, so its size is limited.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from xscore.extensions.transfer.saved_files import (
    Contents,
    decode_file,
    read_records,
    without_damaged_lines,
)
from xscore.extensions.transfer.saved_records import NO_FACTS, SavedMemory, saved_memory
from xscore.platform.errors import UsageError
from xscore.platform.json_lines import unique_lines
from xscore.records.memory import (
    STATED_ELSEWHERE,
    TEAM_ORIGIN,
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemorySource,
    MemoryStatus,
)
from xscore.store import evidence, memory_rows, memory_writer
from xscore.store.lookup import (
    LIVE_STATUSES,
    MemoryFilter,
    filter_memories,
    memories_starting_with,
)
from xscore.store.memory_writer import write_memory
from xscore.store.mention_links import link_mentions
from xscore.store.store import Store

MAX_IMPORT_BYTES = 256_000_000
MAX_TRUSTED_COUNT = 1_000
"""Highest count trusted in a foreign file; higher ones are reduced to it."""
_EVENTS = frozenset({Kind.EXCHANGE, Kind.SUMMARY, Kind.FAILURE, Kind.TODO})
"""Kinds that tell what happened, and state nothing."""
LINE_HINT = (
    "Import what `xscore memory export` wrote, or correct this line; --skip-damaged leaves out"
    " lines that are not JSON."
)
MOST_NAMED = 10
"""How many numbers of damaged lines are shown."""
_CLOCK_SKEW_S = 86_400.0


class MemoryImport(Struct):
    """Result of importing memories."""

    added: list[str] = field(default_factory=list)
    known: int = 0
    kept: list[str] = field(default_factory=list)
    """Ids of local memories that differ from the file's, or whose key it claims: they are
    unchanged."""
    forgotten: int = 0
    refused: int = 0
    """Number of lines of the user's own layer, which was not requested."""
    redacted: int = 0
    damaged: tuple[int, ...] = ()
    """Numbers of lines that are not JSON and were left out, where that was asked for."""


def exported_memories(store: Store, choice: MemoryFilter) -> Iterator[SavedMemory]:
    """Yield the chosen memories that are not from the index, sorted."""
    memories = []
    for memory in filter_memories(store, choice):
        if memory.source is not MemorySource.INDEX:
            memories.append(memory)
    memories.sort(key=lambda memory: (memory.layer, memory.kind, memory.key, memory.id))
    cited = evidence.citations_of(store.connection, [memory.id for memory in memories])
    for memory in memories:
        yield saved_memory(memory, cited.get(memory.id, ()))


def import_lines(
    store: Store,
    data: bytes,
    *,
    name: str = "lines",
    users: bool = False,
    skips_damaged: bool = False,
) -> MemoryImport:
    """Import exported memories, or lines that a person wrote. name: their source, for errors.

    users: also memories of the user layer, which hold in every repository; otherwise they are
        refused and counted.
    skips_damaged: leave out lines that are not JSON, as a full disk leaves them.

    Raises UsageError, and changes nothing, if any line is not a valid memory.
    """
    file = decode_file(data, name, Contents.MEMORIES, hint=LINE_HINT)
    damaged: tuple[int, ...] = ()
    if skips_damaged:
        file, damaged = without_damaged_lines(file)
    lines = []
    for number, record in read_records(file, hint=LINE_HINT):
        if isinstance(record, SavedMemory):
            lines.append((number, record))
    if not lines:
        raise UsageError(
            f"{name} holds no line to import", hint="`xscore memory export` makes one."
        )
    done = import_memories(store, unique_lines(lines, name), users=users)
    return replace(done, damaged=damaged)


def import_memories(
    store: Store, memories: Sequence[SavedMemory], *, users: bool = False
) -> MemoryImport:
    """Import all memories of an unsigned file, or none. users: see `import_lines`."""
    moment = store.clock()
    _check_together(memories, latest=moment + _CLOCK_SKEW_S)
    chosen = list(memories)
    if not users:
        chosen = [memory for memory in memories if memory.layer is not Layer.USER]
    done = MemoryImport(refused=len(memories) - len(chosen))
    if not chosen:
        return done
    layers = {memory.layer for memory in chosen}
    homes = {layer: store.home_of(layer) for layer in layers}
    with store.transaction(layers):
        for memory in chosen:
            _import_memory(
                homes[memory.layer],
                memory,
                done,
                now=moment,
                allow_pii=store.settings.allow_pii,
            )
        if layers != {Layer.USER}:
            link_mentions(store.connection, done.added)
    return replace(done, kept=list(dict.fromkeys(done.kept)))


def _check_together(lines: Iterable[SavedMemory], *, latest: float) -> None:
    """Refuse times in the future, keys that two active memories have, and code cited by the user's
    own memories."""
    id_by_key: dict[tuple[str, ...], str] = {}
    for line in lines:
        wrong = ""
        if max(line.created_at, line.updated_at) > latest:
            wrong = "its time is in the future"
        elif line.layer is Layer.USER and line.citations:
            wrong = "a memory of the user layer cannot cite a repository's code"
        elif line.key and line.status is MemoryStatus.ACTIVE:
            first = id_by_key.setdefault((line.layer, line.scope, line.key), line.id)
            if first != line.id:
                wrong = f"it has the key of {first}"
        if wrong:
            raise UsageError(f"nothing was imported: {line.id}: {wrong}", hint=LINE_HINT)


def _import_memory(
    connection: sqlite3.Connection,
    line: SavedMemory,
    done: MemoryImport,
    *,
    now: float,
    allow_pii: bool,
) -> None:
    if memory_rows.is_erased(connection, line.id):
        done.forgotten += 1
        return
    details = MemoryDetails(**asdict(line.details))
    was_stated = line.source is MemorySource.EXPLICIT and line.kind not in _EVENTS
    # A team's memory that was exported: here no server keeps it up to date.
    is_of_team = details.imported_from == TEAM_ORIGIN
    if is_of_team or (was_stated and not details.imported_from):
        details = replace(details, imported_from=STATED_ELSEWHERE)
    # Nothing that only the index knows, and no count that would outweigh what is here.
    remade, redacted = memory_writer.remake_memory(
        line,
        allow_pii=allow_pii,
        card="",
        facts=NO_FACTS,
        language="",
        start_line=0,
        end_line=0,
        details=replace(details, occurrences=min(details.occurrences, MAX_TRUSTED_COUNT)),
        evidence_count=min(line.evidence_count, MAX_TRUSTED_COUNT),
        source=MemorySource.IMPORT,
    )
    memory = replace(remade, accessed_at=now, access_count=0)
    conflicting = _conflicting(connection, memory)
    if any(_says_the_same(stored, memory) for stored in conflicting):
        done.known += 1
    elif conflicting:
        done.kept += [stored.id for stored in conflicting]
    else:
        write_memory(connection, memory, before=None, now=now, link=False)
        if line.citations:
            evidence.attach_citations(connection, memory.id, line.citations)
        done.added.append(memory.id)
        done.redacted += redacted


def _conflicting(connection: sqlite3.Connection, memory: Memory) -> list[Memory]:
    """Find memories with its id, its words, or its key if both are live."""
    conflicting = memory_rows.select_memories(connection, "id = ?", (memory.id,))
    for stored in memories_starting_with(connection, memory.layer, memory.kind, memory.text):
        if _says_the_same(stored, memory):
            conflicting.append(stored)
    if memory.key and memory.status in LIVE_STATUSES:
        of_key = (memory.layer, memory.scope, memory.key)
        for status in LIVE_STATUSES:
            # The status is in the text, so that SQLite uses the index of that status.
            where = f"layer = ? AND scope = ? AND key = ? AND key <> '' AND status = '{status}'"
            conflicting += memory_rows.select_memories(connection, where, of_key)
    return conflicting


def _says_the_same(first: Memory, second: Memory) -> bool:
    is_of_kind = first.layer == second.layer and first.kind == second.kind
    return is_of_kind and first.text == second.text and first.key == second.key
