"""Memories as JSON lines, out and back in: one memory a line, sorted, so that two exports can be compared with `diff`.

Memories of the index, judgments, vectors and use counts are never written. What comes in is checked line by line before
the first is stored, gets the source `import`, so that no prompt takes it for the user's word, and changes nothing that
is here. Trade-offs: unknown fields are refused, so a newer version's file may be too; edges are left out, since they
are found again from the text; the file is held in memory, so its size is limited.
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from xscore.platform.errors import UsageError
from xscore.records.memory import Citation, Kind, Layer, Memory, MemoryDetails, MemoryScope, MemorySource, MemoryStatus
from xscore.store import evidence, memory_rows, memory_writer
from xscore.store.events import write_memory
from xscore.store.lookup import LIVE_STATUSES, MemoryFilter, filter_memories, memories_starting_with
from xscore.store.mention_links import link_mentions
from xscore.store.redaction import is_safe_name
from xscore.store.store import Store

MEMORY_SCHEMA = 1
MAX_IMPORT_BYTES = 256_000_000
MAX_LINE_BYTES = 8_000_000
"""A memory at its limits with every character escaped."""
MAX_TRUSTED_COUNT = 1_000
"""Higher counts of a foreign file are cut to this."""
INDEX_ONLY_KINDS = frozenset(
    {Kind.FUNCTION, Kind.METHOD, Kind.CLASS, Kind.TEST, Kind.BLOCK, Kind.DOC, Kind.CONFIG, Kind.TEXT}
)
_FILE_LAYERS = frozenset({Layer.GRAPH, Layer.VECTOR})
_COMPLAINTS_SHOWN = 5
_CLOCK_SKEW_S = 86_400.0
Form = TypeVar("Form", bound="SavedMemory")

BoundedText = Annotated[str, Meta(max_length=memory_writer.TEXT_CHARS)]
BoundedLine = Annotated[str, Meta(max_length=memory_writer.LINE_CHARS)]
BoundedLines = Annotated[tuple[BoundedLine, ...], Meta(max_length=memory_writer.MAX_PARTS)]
UnitInterval = Annotated[float, Meta(ge=0, le=1)]
UnixTime = Annotated[float, Meta(ge=0, le=1e11)]
Count = Annotated[int, Meta(ge=0, le=1 << 53)]
HashText = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]
SavedMemoryId = Annotated[str, Meta(pattern=r"^m_[0-9a-f]{20}$")]
OptionalMemoryId = Annotated[str, Meta(pattern=r"^(m_[0-9a-f]{20})?$")]


class SavedParticulars(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What was said beside the text."""

    rationale: BoundedText = ""
    alternatives: Annotated[tuple[BoundedText, ...], Meta(max_length=memory_writer.MAX_PARTS)] = ()
    links: BoundedLines = ()
    resolution: BoundedText = ""
    occurrences: Count = 0
    polarity: Annotated[str, Meta(pattern="^(|pattern|antipattern)$")] = ""
    exception_of: OptionalMemoryId = ""
    origin: BoundedLine = ""
    session: BoundedLine = ""
    paths: BoundedLines = ()
    author: BoundedLine = ""


class SavedCitation(Struct, frozen=True, forbid_unknown_fields=True):
    """A span of code that the memory rests on."""

    path: BoundedLine
    start_line: Count
    end_line: Count
    span_hash: HashText
    is_changed: bool = False

    def __post_init__(self) -> None:
        check_path(self.path)


class SavedMemory(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One memory of a file."""

    schema: Annotated[int, Meta(ge=MEMORY_SCHEMA, le=MEMORY_SCHEMA)]
    id: SavedMemoryId
    layer: Layer
    kind: Kind
    scope: MemoryScope = MemoryScope.REPOSITORY
    status: MemoryStatus = MemoryStatus.ACTIVE
    key: BoundedLine = ""
    title: BoundedLine
    text: BoundedText
    path: BoundedLine = ""
    entity: BoundedLine = ""
    importance: UnitInterval = 0.5
    confidence: UnitInterval = 1.0
    evidence_count: Count = 1
    source: MemorySource
    superseded_by: OptionalMemoryId = ""
    created_at: UnixTime
    updated_at: UnixTime
    particulars: SavedParticulars = SavedParticulars()
    citations: Annotated[tuple[SavedCitation, ...], Meta(max_length=memory_writer.MAX_PARTS)] = ()

    def __post_init__(self) -> None:
        if self.path:
            check_path(self.path)
        if self.kind in INDEX_ONLY_KINDS:
            raise ValueError(f"kind: a {self.kind} comes only from the files of a repository")
        if self.layer in _FILE_LAYERS:
            raise ValueError(f"layer: the {self.layer} layer holds only what comes from files")
        if self.source is MemorySource.INDEX:
            raise ValueError("source: memories of the index cannot be imported")

    def cited(self) -> tuple[Citation, ...]:
        """Return its citations as records."""
        return msgspec.convert(self.citations, tuple[Citation, ...], from_attributes=True)


class MemoryImport(Struct):
    """Result of importing memories."""

    added: list[str] = field(default_factory=list)
    known: int = 0
    kept: list[str] = field(default_factory=list)
    """Ids of memories here that the file has otherwise, or whose key it claims: they stay as they are."""
    forgotten: int = 0
    refused: int = 0
    """Lines of the user's own layer, which was not named."""
    redacted: int = 0


def saved_memory(memory: Memory, citations: Iterable[Citation], form: type[Form], **more: object) -> Form:
    """Return a memory in the form of a file. more: further fields of the form."""
    names = [name for name in form.__struct_fields__ if hasattr(memory, name)]
    values = {name: getattr(memory, name) for name in names} | {"citations": tuple(citations)} | more
    return msgspec.convert({"schema": MEMORY_SCHEMA, **values}, form, from_attributes=True)


def check_path(path: str) -> None:
    """Check that a path is inside a repository and holds no secret. Raises ValueError."""
    parts = path.split("/")
    if not path or path.startswith("/") or "\\" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"path: {path[:80]!r} is not inside a repository")
    if re.search(r"[\x00-\x1f\x7f]", path) or not is_safe_name(path):
        raise ValueError("path: it holds a control character or a secret")


def exported_memories(store: Store, choice: MemoryFilter) -> Iterator[SavedMemory]:
    """Yield the chosen memories that are not from the index, sorted."""
    found = [memory for memory in filter_memories(store, choice) if memory.source != "index"]
    cited = evidence.citations_of(store.connection, [memory.id for memory in found])
    for memory in sorted(found, key=lambda memory: (memory.layer, memory.kind, memory.key, memory.id)):
        yield saved_memory(memory, cited.get(memory.id, ()), SavedMemory)


def read_lines(
    data: bytes, form: type[Form], *, first: int, check: Callable[[Form, int], None], hint: str
) -> list[Form]:
    """Read lines, or raise UsageError naming the first that do not fit. check: raises ValueError."""
    if len(data) > MAX_IMPORT_BYTES:
        raise UsageError(f"{len(data):,} bytes are too many for one import", hint=f"At most {MAX_IMPORT_BYTES:,}.")
    decoder = msgspec.json.Decoder(form)
    found, complaints = list[Form](), list[str]()
    for number, line in enumerate(data.split(b"\n"), first):
        if not line.strip():
            continue
        try:
            if len(line) > MAX_LINE_BYTES:
                raise ValueError(f"{len(line):,} bytes are too many for a memory")
            one = decoder.decode(line)
            check(one, number)
            found.append(one)
        except (ValueError, RecursionError) as error:
            complaints.append(f"line {number}: {without_values(error)}")
    if complaints:
        more = f"; and {len(complaints) - _COMPLAINTS_SHOWN} more" if len(complaints) > _COMPLAINTS_SHOWN else ""
        shown = "; ".join(complaints[:_COMPLAINTS_SHOWN])
        raise UsageError(f"nothing was imported: {shown}{more}", hint=hint)
    return found


def without_values(error: Exception) -> str:
    """Return a decoder's message without the values it quotes, which may be secrets."""
    return re.sub(r"(Invalid enum value) .*?( - at `\$|$)", r"\1\2", str(error), flags=re.DOTALL)[:400]


def import_lines(
    store: Store,
    data: bytes,
    *,
    users: bool = False,
    now: float | None = None,
    form: type[SavedMemory] = SavedMemory,
    first: int = 1,
) -> MemoryImport:
    """Import exported lines. now: unix seconds. form, first: of the lines, and the number of the first one.

    users: also memories of the user layer, which hold in every repository; otherwise they are refused and counted.
    Raises UsageError, and changes nothing, if any line is not a valid memory.
    """
    moment = store.now_or_clock(now)
    hint = "Import what `xscore memory export` wrote, or mend these lines."
    lines = read_lines(data, form, first=first, check=_MemoryCheck(moment + _CLOCK_SKEW_S), hint=hint)
    if not lines:
        raise UsageError("the file holds no line to import", hint="`xscore memory export` makes one.")
    wanted = [line for line in lines if users or line.layer is not Layer.USER]
    done = MemoryImport(refused=len(lines) - len(wanted))
    layers = {line.layer for line in wanted}
    homes = {layer: store.home_of(layer) for layer in layers}
    with store.transaction(layers) if layers else nullcontext():
        for line in wanted:
            _import_memory(homes[line.layer], line, done, now=moment, allow_pii=store.settings.allow_pii)
        if layers - {Layer.USER}:
            link_mentions(store.connection, done.added)
    return replace(done, kept=list(dict.fromkeys(done.kept)))


class _MemoryCheck(Struct):
    """Refuses what no single line shows: times in the future, ids and keys that occur twice."""

    latest: float
    seen: dict[object, int] = field(default_factory=dict)

    def __call__(self, memory: SavedMemory, number: int) -> None:
        if max(memory.created_at, memory.updated_at) > self.latest:
            raise ValueError("its time is in the future")
        if memory.layer is Layer.USER and memory.citations:
            raise ValueError("a memory of the user layer cannot cite a repository's code")
        names: dict[object, str] = {memory.id: "id"}
        if memory.key and memory.status is MemoryStatus.ACTIVE:
            names[(memory.layer, memory.scope, memory.key)] = "key"
        for name, what in names.items():
            if name in self.seen:
                raise ValueError(f"it has the {what} of line {self.seen[name]}")
            self.seen[name] = number


def _import_memory(
    connection: sqlite3.Connection, line: SavedMemory, done: MemoryImport, *, now: float, allow_pii: bool
) -> None:
    if connection.execute("SELECT 1 FROM erased_memory WHERE memory_id = ?", (line.id,)).fetchone():
        done.forgotten += 1
        return
    particulars = msgspec.convert(line.particulars, MemoryDetails, from_attributes=True)
    occurrences = min(particulars.occurrences, MAX_TRUSTED_COUNT)
    names = ("layer", "kind", "title", "text", "path", "entity", "key", "scope", "importance", "confidence", "status")
    made, redacted = memory_writer.make_memory(
        **{name: getattr(line, name) for name in names},
        particulars=replace(particulars, occurrences=occurrences),
        evidence_count=min(line.evidence_count, MAX_TRUSTED_COUNT),
        source=MemorySource.IMPORT,
        created_at=line.created_at,
        updated_at=line.updated_at,
        allow_pii=allow_pii,
    )
    memory = replace(made, id=line.id, superseded_by=line.superseded_by, created_at=line.created_at, accessed_at=now)
    there = _conflicting(connection, memory)
    if any(_says_the_same(other, memory) for other in there):
        done.known += 1
    elif there:
        done.kept += [other.id for other in there]
    else:
        write_memory(connection, memory, before=None, now=now, link=False)
        if line.citations:
            evidence.attach_citations(connection, memory.id, line.cited())
        done.added.append(memory.id)
        done.redacted += redacted


def _conflicting(connection: sqlite3.Connection, memory: Memory) -> list[Memory]:
    """Find memories with its id, its words, or its key where both are live."""
    found = memory_rows.select_memories(connection, "id = ?", (memory.id,))
    same_start = memories_starting_with(connection, memory.layer, memory.kind, memory.text)
    found += [other for other in same_start if _says_the_same(other, memory)]
    if memory.key and memory.status in LIVE_STATUSES:
        for status in LIVE_STATUSES:
            where = f"layer = ? AND scope = ? AND key = ? AND key <> '' AND status = '{status}'"
            found += memory_rows.select_memories(connection, where, (memory.layer, memory.scope, memory.key))
    return found


def _says_the_same(one: Memory, other: Memory) -> bool:
    return (one.layer, one.kind, one.text, one.key) == (other.layer, other.kind, other.text, other.key)
