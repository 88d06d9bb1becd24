"""A memory as a file holds it, and the gate through which one comes back.

Only what is not from the index is written, without judgments and without what the store counts of its use. What is
empty is left out, so that lines are short and diffs are small. The gate is strict: a word that is not known, a path
out of the repository, a number out of its range is refused with its place, never mended. Trade-off: a newer xscore's
file is refused as well, where it says something that this one does not know.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from xscore.memory import door, limits
from xscore.memory.secrets.redact import may_be_named
from xscore.records import Citation, Kind, Layer, Memory, MemoryScope, Particulars, Source, Status

SCHEMA = 1
MEMORY_ID = r"^m_[0-9a-f]{20}$"
HASH = r"^[0-9a-f]{32}$"
OF_FILES = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.CLASS, Kind.TEST, Kind.BLOCK, Kind.DOC, Kind.CONFIG, Kind.TEXT})
"""Kinds that only the index makes."""
_OF_FILES_LAYERS = frozenset({Layer.GRAPH, Layer.VECTOR})

Text = Annotated[str, Field(max_length=limits.TEXT_CHARS)]
Line = Annotated[str, Field(max_length=limits.LINE_CHARS)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Moment = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=1 << 53)]
MOST_COUNTED = 1_000
"""Of what a file says was met, seen or used; more is not believed of a stranger, and weighs no more."""
Id = Annotated[str, Field(pattern=MEMORY_ID)]
Lines = Annotated[tuple[Line, ...], Field(max_length=limits.MANY)]


class Form(BaseModel):
    """Strict, and closed to names that it does not know."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class SavedParticulars(Form):
    """What was said beside the text."""

    rationale: Text = ""
    alternatives: Annotated[tuple[Text, ...], Field(max_length=limits.MANY)] = ()
    links: Lines = ()
    resolution: Text = ""
    occurrences: Count = 0
    polarity: Annotated[str, Field(pattern="^(|pattern|antipattern)$")] = ""
    exception_of: Annotated[str, Field(pattern=f"{MEMORY_ID}|^$")] = ""
    origin: Line = ""
    session: Line = ""
    paths: Lines = ()


class SavedCitation(Form):
    """A span of code that the memory rests on."""

    path: Line
    start_line: Count
    end_line: Count
    span_hash: Annotated[str, Field(pattern=HASH)]
    is_changed: bool = False

    @field_validator("path")
    @classmethod
    def _inside(cls, path: str) -> str:
        return inside(path)


class SavedMemory(Form):
    """One memory of a file."""

    schema_: Annotated[int, Field(alias="schema", ge=SCHEMA, le=SCHEMA)] = SCHEMA
    id: Id
    layer: Layer
    kind: Kind
    scope: MemoryScope = MemoryScope.REPOSITORY
    status: Status = Status.ACTIVE
    key: Line = ""
    title: Line
    text: Text
    path: Line = ""
    entity: Line = ""
    importance: Share = 0.5
    confidence: Share = 1.0
    evidence_count: Count = 1
    source: Source
    superseded_by: Annotated[str, Field(pattern=f"{MEMORY_ID}|^$")] = ""
    created_at: Moment
    updated_at: Moment
    particulars: SavedParticulars = SavedParticulars()
    citations: Annotated[tuple[SavedCitation, ...], Field(max_length=limits.MANY)] = ()

    @field_validator("path")
    @classmethod
    def _inside(cls, path: str) -> str:
        return inside(path) if path else path

    @field_validator("kind")
    @classmethod
    def _not_of_files(cls, kind: Kind) -> Kind:
        if kind in OF_FILES:
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
    def _not_the_index(cls, source: Source) -> Source:
        if source is Source.INDEX:
            raise ValueError("what comes from the index is indexed, never taken from here")
        return source

    def memory(self, *, allow_pii: bool = False) -> tuple[Memory, int]:
        """Make the memory through the door, with the id it had; also return how many secrets were taken out."""
        made, redacted = door.make(
            layer=self.layer,
            kind=self.kind,
            title=self.title,
            text=self.text,
            path=self.path,
            entity=self.entity,
            particulars=Particulars(**self.particulars.model_dump()),
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


def saved(memory: Memory, citations: Iterable[Citation] = ()) -> dict[str, Any]:
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
    return {"schema": SCHEMA, **values}


def inside(path: str) -> str:
    """Check a path as one relative to a repository's root, with no secret in its name. Raises ValueError."""
    parts = path.split("/")
    if not path or path.startswith("/") or "\\" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{path[:80]!r} is no path inside a repository")
    if re.search(r"[\x00-\x1f\x7f]", path) or not may_be_named(path):
        raise ValueError("a path that may not be named")
    return path


def complaint(error: ValidationError) -> str:
    """Say what a form complains of, shortly and without quoting its values."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    message = first["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
