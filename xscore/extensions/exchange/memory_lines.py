"""A memory as a file holds it, and the gate through which one comes back.

Only what is not from the index is written, without judgments and without what the store counts of its use. What is
empty is left out, so that lines are short and diffs are small. The gate is strict: a word that is not known, a path
out of the repository, a number out of its range is refused with its place, never mended. Trade-off: a newer xscore's
file is refused as well, where it says something that this one does not know.

Memories as JSON lines: one memory a line, sorted, so that two exports can be compared with `diff`.

Superseded and archived ones are in it where the choice says so; judgments, vectors and use counts never. Reading back
is `memory.copies.importing`. Trade-off: edges are left out, since they are found again from the text.

Read exported memories back: whole or not at all, as quoted data, past what is here already.

What comes in has the source `import`, so that no prompt takes it for the user's own word. What is here stays as it is:
a memory that the file has otherwise, or a key that it claims too, is named and left. Every line passes the gate of
`saved_form` before the first is written. Trade-off: the whole file is held in memory, so there is a limit to its size.
"""

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from xscore.platform.errors import UsageError
from xscore.records import (
    Citation,
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemoryImport,
    MemoryScope,
    MemorySource,
    MemoryStatus,
)
from xscore.store import evidence, memory_rows, memory_writer
from xscore.store.events import write_memory
from xscore.store.evidence import citations_of
from xscore.store.lookup import LIVE_STATUSES, MemoryFilter, filter_memories, memories_starting_with
from xscore.store.mention_links import link_mentions
from xscore.store.opening import Databases
from xscore.store.redaction import is_safe_name

MEMORY_SCHEMA = 1
MEMORY_ID = r"^m_[0-9a-f]{20}$"
HASH_PATTERN = r"^[0-9a-f]{32}$"
INDEX_ONLY_KINDS = frozenset(
    {Kind.FUNCTION, Kind.METHOD, Kind.CLASS, Kind.TEST, Kind.BLOCK, Kind.DOC, Kind.CONFIG, Kind.TEXT}
)
"""Kinds that only the index makes."""
_OF_FILES_LAYERS = frozenset({Layer.GRAPH, Layer.VECTOR})

BoundedText = Annotated[str, Field(max_length=memory_writer.TEXT_CHARS)]
BoundedLine = Annotated[str, Field(max_length=memory_writer.LINE_CHARS)]
UnitInterval = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
UnixTime = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=1 << 53)]
MAX_TRUSTED_COUNT = 1_000
"""Of what a file says was met, seen or used; more is not believed of a stranger, and weighs no more."""
SavedMemoryId = Annotated[str, Field(pattern=MEMORY_ID)]
BoundedLines = Annotated[tuple[BoundedLine, ...], Field(max_length=memory_writer.MAX_PARTS)]


class StrictForm(BaseModel):
    """Strict, and closed to names that it does not know."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class SavedParticulars(StrictForm):
    """What was said beside the text."""

    rationale: BoundedText = ""
    alternatives: Annotated[tuple[BoundedText, ...], Field(max_length=memory_writer.MAX_PARTS)] = ()
    links: BoundedLines = ()
    resolution: BoundedText = ""
    occurrences: Count = 0
    polarity: Annotated[str, Field(pattern="^(|pattern|antipattern)$")] = ""
    exception_of: Annotated[str, Field(pattern=f"{MEMORY_ID}|^$")] = ""
    origin: BoundedLine = ""
    session: BoundedLine = ""
    paths: BoundedLines = ()


class SavedCitation(StrictForm):
    """A span of code that the memory rests on."""

    path: BoundedLine
    start_line: Count
    end_line: Count
    span_hash: Annotated[str, Field(pattern=HASH_PATTERN)]
    is_changed: bool = False

    @field_validator("path")
    @classmethod
    def _inside(cls, path: str) -> str:
        return checked_path(path)


class SavedMemory(StrictForm):
    """One memory of a file."""

    schema_: Annotated[int, Field(alias="schema", ge=MEMORY_SCHEMA, le=MEMORY_SCHEMA)] = MEMORY_SCHEMA
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
    superseded_by: Annotated[str, Field(pattern=f"{MEMORY_ID}|^$")] = ""
    created_at: UnixTime
    updated_at: UnixTime
    particulars: SavedParticulars = SavedParticulars()
    citations: Annotated[tuple[SavedCitation, ...], Field(max_length=memory_writer.MAX_PARTS)] = ()

    @field_validator("path")
    @classmethod
    def _inside(cls, path: str) -> str:
        return checked_path(path) if path else path

    @field_validator("kind")
    @classmethod
    def _not_of_files(cls, kind: Kind) -> Kind:
        if kind in INDEX_ONLY_KINDS:
            raise ValueError(f"a {kind} comes from the files of a repository, never from here")
        return kind

    @field_validator("layer")
    @classmethod
    def _layer_of_sayings(cls, layer: Layer) -> Layer:
        if layer in _OF_FILES_LAYERS:
            raise ValueError(f"the {layer} layer holds what the files say, never what comes from here")
        return layer

    @field_validator("source")
    @classmethod
    def _not_the_index(cls, source: MemorySource) -> MemorySource:
        if source is MemorySource.INDEX:
            raise ValueError("what comes from the index is indexed, never taken from here")
        return source

    def memory(self, *, allow_pii: bool = False) -> tuple[Memory, int]:
        """Make the memory through the door, with the id it had; also return how many secrets were taken out."""
        made, redacted = memory_writer.make_memory(
            layer=self.layer,
            kind=self.kind,
            title=self.title,
            text=self.text,
            path=self.path,
            entity=self.entity,
            particulars=MemoryDetails(**self.particulars.model_dump()),
            key=self.key,
            scope=self.scope,
            importance=self.importance,
            confidence=self.confidence,
            evidence_count=self.evidence_count,
            source=self.source,
            status=self.status,
            created_at=self.created_at,
            updated_at=self.updated_at,
            allow_pii=allow_pii,
        )
        return replace(made, id=self.id, superseded_by=self.superseded_by, created_at=self.created_at), redacted

    def cited(self) -> tuple[Citation, ...]:
        """Return what it cites."""
        return tuple(Citation(**one.model_dump()) for one in self.citations)


def memory_to_json(memory: Memory, citations: Iterable[Citation] = ()) -> dict[str, Any]:
    """Return the form of a memory as plain JSON values; what is empty or as usual is left out."""
    said = memory.particulars
    values: dict[str, Any] = {
        name: getattr(memory, name)
        for name in SavedMemory.model_fields
        if name not in ("schema_", "particulars", "citations")
    }
    usual = {name: field.default for name, field in SavedMemory.model_fields.items()}
    values = {name: value for name, value in values.items() if value != usual[name]}
    beside = {name: getattr(said, name) for name in SavedParticulars.model_fields if getattr(said, name)}
    if beside:
        values["particulars"] = beside
    cited = [{name: getattr(one, name) for name in SavedCitation.model_fields} for one in citations]
    if cited:
        values["citations"] = cited
    return {"schema": MEMORY_SCHEMA, **values}


def checked_path(path: str) -> str:
    """Check a path as one relative to a repository's root, with no secret in its name. Raises ValueError."""
    parts = path.split("/")
    if not path or path.startswith("/") or "\\" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{path[:80]!r} is no path inside a repository")
    if re.search(r"[\x00-\x1f\x7f]", path) or not is_safe_name(path):
        raise ValueError("a path that may not be named")
    return path


def validation_message(error: ValidationError) -> str:
    """Say what a form complains of, shortly and without quoting its values."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    message = first["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def export_lines(store: Databases, choice: MemoryFilter) -> Iterator[str]:
    """Yield the chosen memories that are not from the index, each as a line of JSON without its line end."""
    return map(json_line, exported_memories(store, choice))


def json_line(saved_form: dict[str, Any]) -> str:
    """Write one of `exported` as its line."""
    return json.dumps(saved_form, ensure_ascii=False)


def exported_memories(store: Databases, choice: MemoryFilter) -> Iterator[dict[str, Any]]:
    """Yield the chosen memories that are not from the index, sorted, each as the object that its line holds."""
    found = [memory for memory in filter_memories(store, choice) if memory.source != "index"]
    cited = citations_of(store.connection, [memory.id for memory in found])
    for memory in sorted(found, key=lambda memory: (memory.layer, memory.kind, memory.key, memory.id)):
        yield memory_to_json(memory, cited.get(memory.id, ()))


MAX_IMPORT_BYTES = 64_000_000
MAX_LINE_BYTES = 8_000_000
"""Of a memory at its limits (`memory.limits`), with every character escaped."""
_COMPLAINTS_SHOWN = 5
_FUTURE_S = 86_400.0
"""Clocks differ; nothing was said tomorrow."""


def import_lines(store: Databases, data: bytes, *, users: bool = False, now: float | None = None) -> MemoryImport:
    """Take over memories from the lines that `export_lines` wrote. now: Unix seconds.

    users: also what is of the user layer, which holds in every repository; else it is refused, and counted.
    Raises UsageError, and changes nothing, where a line is not such a memory: each is named with its number.
    """
    moment = store.moment(now)
    lines = _read(data, now=moment)
    told = _ImportCounts(refused=0 if users else sum(line.layer is Layer.USER for _, line in lines))
    wanted = [line for _, line in lines if users or line.layer is not Layer.USER]
    if not wanted:
        return told.imported()
    layers = {line.layer for line in wanted}
    homes = {layer: store.home_of(layer) for layer in layers}
    with store.transaction(layers):
        for line in wanted:
            _import_memory(homes, line, told, now=moment, allow_pii=store.settings.allow_pii)
        if layers != {Layer.USER}:
            link_mentions(store.connection, told.added)
    return told.imported()


class _ImportCounts(Struct):
    added: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    known: int = 0
    forgotten: int = 0
    refused: int = 0
    redacted: int = 0

    def imported(self) -> MemoryImport:
        return MemoryImport(
            added=tuple(self.added),
            known=self.known,
            kept=tuple(dict.fromkeys(self.kept)),
            forgotten=self.forgotten,
            refused=self.refused,
            redacted=self.redacted,
        )


def _read(data: bytes, *, now: float) -> list[tuple[int, SavedMemory]]:
    """Read all lines, or say which of them are no memories."""
    if len(data) > MAX_IMPORT_BYTES:
        raise UsageError(
            f"{len(data):,} bytes are too many for one import", hint=f"At most {MAX_IMPORT_BYTES:,}: split it by lines."
        )
    found: list[tuple[int, SavedMemory]] = []
    wrong: list[str] = []
    seen: dict[object, int] = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            memory = _parsed(line)
            _check(memory, seen, number, now=now)
        except ValidationError as error:
            wrong.append(f"line {number}: {validation_message(error)}")
        except ValueError as error:
            wrong.append(f"line {number}: {error}")
        else:
            found.append((number, memory))
    if wrong:
        more = f"; and {len(wrong) - _COMPLAINTS_SHOWN} more" if len(wrong) > _COMPLAINTS_SHOWN else ""
        raise UsageError(
            f"nothing was imported: {'; '.join(wrong[:_COMPLAINTS_SHOWN])}{more}",
            hint="Import what `xscore memory export` wrote, or mend these lines.",
        )
    if not found:
        raise UsageError("there is nothing to import: the file holds no line", hint="`xscore memory export` makes one.")
    return found


def _parsed(line: bytes) -> SavedMemory:
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"{len(line):,} bytes are too many for a memory")
    return SavedMemory.model_validate_json(line)


def _check(memory: SavedMemory, seen: dict[object, int], number: int, *, now: float) -> None:
    """Refuse what no single line shows. Raises ValueError."""
    if max(memory.created_at, memory.updated_at) > now + _FUTURE_S:
        raise ValueError("it was said in the future")
    if memory.layer is Layer.USER and memory.citations:
        raise ValueError("a memory of the user layer cannot cite a repository's code")
    names: list[object] = [memory.id]
    if memory.key and memory.status is MemoryStatus.ACTIVE:
        names.append((memory.layer, memory.scope, memory.key))
    for name in names:
        if name in seen:
            what = "id" if name == memory.id else "key"
            raise ValueError(f"it has the {what} of line {seen[name]}")
        seen[name] = number


def _import_memory(
    homes: Mapping[Layer, sqlite3.Connection], line: SavedMemory, told: _ImportCounts, *, now: float, allow_pii: bool
) -> None:
    connection = homes[line.layer]
    if connection.execute("SELECT 1 FROM forgotten WHERE memory_id = ?", (line.id,)).fetchone():
        told.forgotten += 1
        return
    made, redacted = line.memory(allow_pii=allow_pii)
    memory = _as_imported(made, now=now)
    there = _conflicting(connection, memory)
    if there:
        if any(_says_the_same(other, memory) for other in there):
            told.known += 1
        else:
            told.kept.extend(other.id for other in there)
        return
    write_memory(connection, memory, before=None, now=now, link=False)
    if line.citations:
        evidence.attach_citations(connection, memory.id, line.cited())
    told.added.append(memory.id)
    told.redacted += redacted


def _as_imported(memory: Memory, *, now: float) -> Memory:
    """Return what is believed of a line: its words, as someone's, seen now, so that its age begins anew."""
    said = memory.particulars
    return replace(
        memory,
        source=MemorySource.IMPORT,
        evidence_count=min(memory.evidence_count, MAX_TRUSTED_COUNT),
        particulars=replace(said, occurrences=min(said.occurrences, MAX_TRUSTED_COUNT)),
        accessed_at=now,
    )


def _conflicting(connection: sqlite3.Connection, memory: Memory) -> list[Memory]:
    """Find what has its id, its words, or its key where both are live."""
    found = memory_rows.select_memories(connection, "id = ?", (memory.id,))
    found += [
        other
        for other in memories_starting_with(connection, memory.layer, memory.kind, memory.text)
        if _says_the_same(other, memory)
    ]
    if memory.key and memory.status in LIVE_STATUSES:
        claimed = (memory.layer, memory.scope, memory.key)
        for status in LIVE_STATUSES:
            where = f"layer = ? AND scope = ? AND key = ? AND key <> '' AND status = '{status}'"
            found += memory_rows.select_memories(connection, where, claimed)
    return found


def _says_the_same(one: Memory, other: Memory) -> bool:
    return (one.layer, one.kind, one.text, one.key) == (other.layer, other.kind, other.text, other.key)
