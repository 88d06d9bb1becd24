"""The single write door of the store: what is not redacted here is not stored.

`make` turns raw parts into a Memory: redacted first, then named and hashed, so that neither ids nor hashes remember a
secret. `put` upserts memories with their term vectors; use counts (`accessed_at`, `access_count`), `created_at` and
`importance` of a memory already known survive. It removes nothing: that is the index's and the user's business.
Trade-off: a row is written even if nothing about it changed; callers hand in what they parsed anew.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace

from xscore import tokens
from xscore.hashing import content_hash, memory_id
from xscore.memory import limits, rows
from xscore.memory.likeness.terms import EMBEDDER, term_vector
from xscore.memory.secrets.pii import redact_pii
from xscore.memory.secrets.redact import redact
from xscore.records import CodeFacts, Kind, Layer, Memory, MemoryScope, Particulars, Source, Status

STALE_MARK = "[stale: the code this cites has changed since]\n"
"""Stands before the text of a stale memory wherever a judge sees it, and so is part of its content hash."""

_WITHIN = " > "
"""Between the headings, or the suites, of an entity."""
_COLUMNS = (
    *("id", "layer", "kind", "scope", "status", "path", "entity", "start_line", "end_line", "language"),
    *("content_hash", "text_hash", "tokens", "text_tokens", "updated_at", "importance", "confidence", "thread", "key"),
    *("evidence_count", "source", "superseded_by", "created_at", "accessed_at", "access_count"),
    *("title", "attrs", "card", "text"),
)

_SURVIVING = frozenset({"id", "created_at", "accessed_at", "access_count", "importance"})
_UPSERT = (
    f"INSERT INTO memory ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608  column names are ours
    f" ON CONFLICT (id) DO UPDATE SET {', '.join(f'{c} = excluded.{c}' for c in _COLUMNS if c not in _SURVIVING)}"
)

_OF_KEY = "layer = ? AND scope = ? AND key = ? AND key <> ''"
"""Said twice, so that the index by key serves."""
_OUTDATED = """
    DELETE FROM vec WHERE memory_id = ? AND embedder <> ?
    AND NOT EXISTS (SELECT 1 FROM memory WHERE id = ? AND text_hash = ?)
"""


def make(
    *,
    layer: Layer,
    kind: Kind,
    title: str,
    text: str,
    path: str = "",
    entity: str = "",
    card: str = "",
    ordinal: int = 0,
    start_line: int = 0,
    end_line: int = 0,
    language: str = "",
    facts: CodeFacts | None = None,
    particulars: Particulars | None = None,
    key: str = "",
    scope: MemoryScope = MemoryScope.REPOSITORY,
    importance: float = 0.5,
    confidence: float = 1.0,
    evidence_count: int = 1,
    source: Source = Source.INDEX,
    status: Status = Status.ACTIVE,
    created_at: float = 0.0,
    updated_at: float = 0.0,
    allow_pii: bool = False,
) -> tuple[Memory, int]:
    """Redact, name and hash one memory; also return how many secrets and personal data were taken out.

    Personal data go from configuration and from what does not come from files, unless `allow_pii`.

    `ordinal` tells memories of one file with equal kind and entity apart; it must not depend on line numbers.
    """
    facts = facts or CodeFacts()
    screens = not allow_pii and (kind is Kind.CONFIG or source is not Source.INDEX)
    named = (particulars.origin, particulars.session) if particulars else ()
    names = (*named, entity, title, key, facts.signature, facts.purpose, *facts.imports, *facts.dependencies)
    broom = _Broom(names, screens=screens, cuts=source is not Source.INDEX)
    clean = broom.sweep_name(entity)
    if clean != entity:  # two headings that differ in their secrets alone must not become one memory
        ordinal += (start_line + 1) << 20
    raw, card, text = text, broom.sweep(card), broom.sweep(text)
    memory = Memory(
        id=memory_id(layer, path, kind, clean, ordinal),
        layer=layer,
        kind=kind,
        title=broom.sweep_name(title, again=title in raw),
        text=text,
        card=card,
        content_hash=content_hash(path, clean, _marked(card or text, status)),
        text_hash=content_hash(path, clean, _marked(text, status)),
        path=path,
        entity=clean,
        start_line=start_line,
        end_line=end_line,
        language=language,
        facts=_swept(facts, broom),
        particulars=_swept_particulars(particulars, broom) if particulars else Particulars(),
        key=broom.sweep_name(key, again=key in entity),
        scope=scope,
        importance=importance,
        confidence=confidence,
        evidence_count=evidence_count,
        source=source,
        status=status,
        created_at=created_at or updated_at,
        updated_at=updated_at,
    )
    return memory, broom.count


def with_status(memory: Memory, status: Status) -> Memory:
    """Return the memory in another state; what the judge is shown, and so its hashes, follow."""
    shown, text = _marked(memory.card or memory.text, status), _marked(memory.text, status)
    return replace(
        memory,
        status=status,
        content_hash=content_hash(memory.path, memory.entity, shown),
        text_hash=content_hash(memory.path, memory.entity, text),
    )


def put(connection: sqlite3.Connection, memories: Sequence[Memory], *, thread: str = "") -> tuple[str, ...]:
    """Upsert memories and their vectors; return the ids of those that stepped back. Call it in `database.transaction`.

    An active or stale memory with the same layer, scope and key steps back as superseded. `thread` marks exchanges.
    Vectors that other embedders made of a text that is another now are gone; they cost money, so the others stay.
    """
    claims = [memory for memory in memories if memory.key and memory.status is Status.ACTIVE]
    superseded = tuple(identifier for memory in claims for identifier in _supersede(connection, memory))
    connection.executemany(
        _OUTDATED, ((memory.id, EMBEDDER, memory.id, memory.text_hash) for memory in memories)
    )  # before the texts are written
    connection.executemany(_UPSERT, (_row(memory, thread) for memory in memories))
    connection.executemany(
        "INSERT INTO vec (memory_id, embedder, data) VALUES (?, ?, ?)"
        " ON CONFLICT (memory_id, embedder) DO UPDATE SET data = excluded.data",
        ((memory.id, EMBEDDER, _vector(memory)) for memory in memories),
    )
    return superseded


def shown(text: str, card: str, *, status: str, tests: str) -> str:
    """Return what a judge is shown of a memory: its card unless `tests` is `full`, marked when stale."""
    return _marked(text if tests == "full" or not card else card, status)


def facts_to_json(facts: CodeFacts, particulars: Particulars) -> str:
    """Write facts and particulars as the `attrs` column holds them; what is empty is left out."""
    values = {name: getattr(facts, name) for name in CodeFacts.__slots__}
    values |= {name: getattr(particulars, name) for name in Particulars.__slots__}
    return json.dumps({name: value for name, value in values.items() if value}, ensure_ascii=False)


class _Broom:
    """Redacts and counts. A memory's many short names are looked at in one go; one by one only where that finds any."""

    def __init__(self, names: Iterable[str], *, screens: bool, cuts: bool) -> None:
        self.count = 0
        self._screens, self._cuts = screens, cuts
        self._names_are_clean = True
        self._clean("\n".join(names).replace(_WITHIN, "\n"))
        self._names_are_clean, self.count = not self.count, 0

    def sweep(self, text: str, most: int = limits.TEXT_CHARS) -> str:
        """Clean a text, and cut it where it is too long for what no file holds."""
        clean = self._clean(text) if text else text
        if not self._cuts or len(clean) <= most:
            return clean
        return limits.cut(self._clean(limits.cut(clean, most)), most)  # a cut may show what was no secret before

    def sweep_name(self, name: str, *, again: bool = False) -> str:
        """Sweep each heading of a path of headings by itself: a rule for the start of a line holds for all of them.

        again: it stands in what was swept before, so what it holds is counted.
        """
        if again:
            count, clean = self.count, self.sweep_name(name)
            self.count = count
            return clean
        clean = name if self._names_are_clean else _WITHIN.join(map(self._clean, name.split(_WITHIN)))
        return self.sweep(clean, limits.LINE_CHARS) if self._cuts and len(clean) > limits.LINE_CHARS else clean

    def sweep_all(self, texts: Iterable[str], most: int = limits.LINE_CHARS) -> tuple[str, ...]:
        """Sweep each, and leave out those beyond what one memory may hold."""
        clean = [self.sweep(text, most) for text in texts]
        return tuple(limits.few(clean, chars=limits.TEXT_CHARS) if self._cuts else clean)

    def _clean(self, text: str) -> str:
        found = redact(text)
        self.count += found.count
        if not self._screens:
            return found.text
        screened = redact_pii(found.text)
        self.count += screened.count
        return screened.text


def _swept(facts: CodeFacts, broom: _Broom) -> CodeFacts:
    return CodeFacts(
        signature=broom.sweep_name(facts.signature),
        docstring=broom.sweep(facts.docstring),
        imports=tuple(map(broom.sweep_name, facts.imports)),
        dependencies=tuple(map(broom.sweep_name, facts.dependencies)),
        complexity=facts.complexity,
        purpose=broom.sweep_name(facts.purpose),
    )


def _swept_particulars(said: Particulars, broom: _Broom) -> Particulars:
    return replace(
        said,
        rationale=broom.sweep(said.rationale),
        alternatives=broom.sweep_all(said.alternatives, limits.TEXT_CHARS),
        links=broom.sweep_all(said.links),
        resolution=broom.sweep(said.resolution),
        origin=broom.sweep_name(said.origin),
        session=broom.sweep_name(said.session),
        paths=broom.sweep_all(said.paths),
    )


def _marked(text: str, status: str) -> str:
    return STALE_MARK + text if status == Status.STALE else text


def _supersede(connection: sqlite3.Connection, memory: Memory) -> list[str]:
    """Let those that are live under its key step back, without the mark that some had; return their ids."""
    known = (memory.layer, memory.scope, memory.key, memory.id)
    found = rows.memories(connection, f"{_OF_KEY} AND status = 'active' AND id <> ?", known)
    found += rows.memories(connection, f"{_OF_KEY} AND status = 'stale' AND id <> ?", known)
    stepped_back = [with_status(one, Status.SUPERSEDED) for one in found]
    connection.executemany(
        "UPDATE memory SET status = 'superseded', superseded_by = ?, content_hash = ?, text_hash = ? WHERE id = ?",
        [(memory.id, one.content_hash, one.text_hash, one.id) for one in stepped_back],
    )
    return [one.id for one in stepped_back]


def _vector(memory: Memory) -> bytes:
    return term_vector(
        memory.text, path=memory.path, entity=memory.entity, title=memory.title, signature=memory.facts.signature
    )


def _row(memory: Memory, thread: str) -> tuple[object, ...]:
    text_tokens = tokens.estimate(len(memory.text), kind=memory.kind, language=memory.language)
    card_tokens = tokens.estimate(len(memory.card), kind=memory.kind, language=memory.language)
    derived = {
        "tokens": card_tokens if memory.card else text_tokens,
        "text_tokens": text_tokens,
        "thread": thread,
        "attrs": facts_to_json(memory.facts, memory.particulars),
    }
    return tuple(derived[name] if name in derived else getattr(memory, name) for name in _COLUMNS)
