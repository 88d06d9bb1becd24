"""A snapshot as JSON, and the gate through which one comes back.

Beside what `saved_form` writes of a memory, it holds the hashes, the thread and the counts of use, so that it is put
back to equality where the file bears the seal of this very store. Any other is a stranger's: what it holds is quoted
(source `import`), ties code to nothing, and its counts are bounded. The gate takes nothing that it does not know.
Trade-off: a snapshot is one object, read whole; and one taken of another store comes back as a stranger's.
"""

import hmac
import json
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from xscore.errors import UsageError
from xscore.memory.copies.saved_form import (
    HASH,
    MOST_COUNTED,
    SCHEMA,
    Count,
    Form,
    Line,
    Moment,
    SavedMemory,
    Text,
    complaint,
    inside,
    saved,
)
from xscore.memory.copies.snapshot import retrieval_id
from xscore.memory.repository_map import map_of
from xscore.records import (
    Edge,
    KeptMemory,
    Layer,
    MappedFile,
    Particulars,
    Relation,
    RepositoryMap,
    RetrievalTrace,
    Snapshot,
    Source,
)
from xscore.records import Memory as MemoryRecord

MAX_BYTES = 256_000_000
_TIES = frozenset({Relation.REFERENCES, Relation.BELONGS_TO})
"""What a stranger's memory may be to another; calls, imports and tests are for the index to find."""
_END = r"^(m_[0-9a-f]{20}|f_[^\x00-\x1f]{1,4000})$"


class _Memory(SavedMemory):
    content_hash: Annotated[str, Field(pattern=HASH)]
    text_hash: Annotated[str, Field(pattern=HASH)]
    card: Text = ""
    start_line: Count = 0
    end_line: Count = 0
    language: Line = ""
    accessed_at: Moment = 0.0
    access_count: Count = 0
    thread: Line = ""

    @field_validator("layer")
    @classmethod
    def _of_the_repository(cls, layer: Layer) -> Layer:
        if layer is Layer.USER:
            raise ValueError("what is the user's own is in no snapshot of a repository")
        return layer

    def kept(self) -> KeptMemory:
        """Return the record, hashes as they are stated."""
        beside = ("schema_", "particulars", "citations", "thread")
        values = {name: getattr(self, name) for name in type(self).model_fields if name not in beside}
        said = Particulars(**self.particulars.model_dump())
        return KeptMemory(MemoryRecord(**values, particulars=said), self.thread, self.cited())


class _Edge(Form):
    source: Annotated[str, Field(pattern=_END)]
    target: Annotated[str, Field(pattern=_END)]
    relation: Relation
    weight: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 1.0


class _Retrieval(Form):
    at: Moment
    turn: Annotated[str, Field(pattern=r"^t_[0-9a-zA-Z_-]{1,64}$")]
    memories: Annotated[
        tuple[Annotated[str, Field(pattern=r"^m_[0-9a-zA-Z_]{1,64}$")], ...], Field(max_length=100_000)
    ] = ()


class _File(Form):
    path: Line
    language: Line = ""
    file_hash: Line
    memories: Count = 0

    @field_validator("path")
    @classmethod
    def _inside(cls, path: str) -> str:
        return inside(path)


class _Map(Form):
    indexed_at: Moment = 0.0
    files: tuple[_File, ...] = ()
    edges: dict[Relation, Count] = Field(default_factory=dict)


class _Snapshot(Form):
    schema_: Annotated[int, Field(alias="schema", ge=SCHEMA, le=SCHEMA)]
    memories: tuple[_Memory, ...] = ()
    edges: tuple[_Edge, ...] = ()
    retrievals: tuple[_Retrieval, ...] = ()
    repository_maps: tuple[_Map, ...] = ()
    seal: Annotated[str, Field(pattern="^([0-9a-f]{64}|)$")] = ""


def snapshot_to_json(snapshot: Snapshot, *, secret: bytes | None = None) -> dict[str, Any]:
    """Return a snapshot as plain JSON values; secret: of the store, which will know its own file again."""
    whole = {
        "schema": SCHEMA,
        "memories": [_memory(kept) for kept in snapshot.memories],
        "edges": [asdict(edge) for edge in snapshot.edges],
        "retrievals": [{"at": one.at, "turn": one.turn, "memories": list(one.memories)} for one in snapshot.retrievals],
        "repository_maps": [_map(one) for one in snapshot.repository_maps],
    }
    return whole if secret is None else whole | {"seal": _seal(whole, secret)}


def snapshot_from_json(data: str | bytes, *, secret: bytes | None = None, now: float = 0.0) -> Snapshot:
    """Read a snapshot. Raises UsageError for what is none, with the place; nothing of it is mended.

    secret: of the store that it is for; a file without that store's seal is read as a stranger's, whose
    memories are seen now (Unix seconds), so that their age begins anew.
    """
    if len(data) > MAX_BYTES:
        raise UsageError(f"{len(data):,} bytes are too many for a snapshot", hint=f"At most {MAX_BYTES:,}.")
    try:
        form = _Snapshot.model_validate_json(data)
    except ValidationError as error:
        raise UsageError(
            f"this is no snapshot: {complaint(error)}", hint="`xscore memory export --snapshot` makes one."
        ) from error
    found = _snapshot(form)
    is_own = secret is not None and bool(form.seal) and hmac.compare_digest(_seal(json.loads(data), secret), form.seal)
    return found if is_own else _of_a_stranger(found, now)


def _seal(whole: dict[str, Any], secret: bytes) -> str:
    said = {name: value for name, value in whole.items() if name != "seal"}
    return hmac.new(secret, b"snapshot\0" + json.dumps(said, sort_keys=True).encode(), sha256).hexdigest()


def _of_a_stranger(snapshot: Snapshot, now: float) -> Snapshot:
    """Believe of a snapshot what is believed of imported lines."""
    return replace(
        snapshot,
        memories=tuple(replace(kept, memory=_quoted(kept.memory, now)) for kept in snapshot.memories),
        edges=tuple(replace(edge, weight=1.0) for edge in snapshot.edges if edge.relation in _TIES),
    )


def _quoted(memory: MemoryRecord, now: float) -> MemoryRecord:
    said = memory.particulars
    return replace(
        memory,
        source=Source.IMPORT,
        accessed_at=max(memory.accessed_at, now),
        access_count=min(memory.access_count, MOST_COUNTED),
        evidence_count=min(memory.evidence_count, MOST_COUNTED),
        particulars=replace(said, occurrences=min(said.occurrences, MOST_COUNTED)),
    )


def _snapshot(form: _Snapshot) -> Snapshot:
    return Snapshot(
        memories=tuple(one.kept() for one in form.memories),
        edges=tuple(Edge(one.source, one.target, one.relation, one.weight) for one in form.edges),
        retrievals=tuple(
            RetrievalTrace(retrieval_id(one.at, one.turn, one.memories), one.at, one.turn, one.memories)
            for one in form.retrievals
        ),
        repository_maps=tuple(_mapped(one) for one in form.repository_maps),
    )


def _memory(kept: KeptMemory) -> dict[str, Any]:
    own = _Memory.model_fields.keys() - SavedMemory.model_fields.keys() - {"thread"}
    values = {name: getattr(kept.memory, name) for name in sorted(own)}
    more = {name: value for name, value in values.items() if value != _Memory.model_fields[name].default}
    return {**saved(kept.memory, kept.citations), **more, **({"thread": kept.thread} if kept.thread else {})}


def _map(one: RepositoryMap) -> dict[str, Any]:
    return {
        "indexed_at": one.indexed_at,
        "files": [asdict(each) for each in one.files],
        "edges": dict(one.edges),
    }


def _mapped(one: _Map) -> RepositoryMap:
    files = [MappedFile(each.path, each.language, each.file_hash, each.memories) for each in one.files]
    return map_of(one.indexed_at, files, sorted((str(name.value), count) for name, count in one.edges.items()))
