"""How long a memory that does not come from files may be, so that all that is kept can be exported and read back.

Who says too much is told so (`words`, `line`); whatever else is too long is cut at the door, with a mark (`cut`), and
the gate of `saved_form` lets in as much as the door. What comes from files is bounded by the index. Trade-off: the
limits are in characters, which a line of JSON can hold in six bytes each.

The single write door of the store: what is not redacted here is not stored.

`make` turns raw parts into a Memory: redacted first, then named and hashed, so that neither ids nor hashes remember a
secret. `put` upserts memories with their term vectors; use counts (`accessed_at`, `access_count`), `created_at` and
`importance` of a memory already known survive. It removes nothing: that is the index's and the user's business.
Trade-off: a row is written even if nothing about it changed; callers hand in what they parsed anew.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from xscore.platform import tokens
from xscore.platform.errors import UsageError
from xscore.platform.hashing import content_hash, memory_id
from xscore.records import CodeFacts, Kind, Layer, Memory, MemoryDetails, MemoryScope, MemorySource, MemoryStatus
from xscore.store import memory_rows
from xscore.store.personal_data import redact_pii
from xscore.store.redaction import redact
from xscore.store.term_vectors import TERM_EMBEDDER, term_vector

STATEMENT_CHARS = 100_000
"""Of one statement; a judge reads it whole, so what is longer belongs into a file of the repository."""
DETAIL_CHARS = 80_000
"""Of all that is said beside the words: reasons, alternatives, what mended it."""
TEXT_CHARS = 200_000
"""Of one text of a memory."""
LINE_CHARS = 4_000
"""Of a title, a key, a name, a link, a path."""
MAX_PARTS = 1_000
"""Alternatives, links, paths or citations."""
_MARK_CHARS = 40


def check_statement_length(said: str, beside: Iterable[str] = ()) -> None:
    """Check what somebody says. Raises UsageError for too much of it."""
    if len(said) > STATEMENT_CHARS:
        raise UsageError(
            f"{len(said):,} characters are too many for a memory",
            hint=f"At most {STATEMENT_CHARS:,}: put the whole into a file of the repository and remember its gist.",
        )
    parts = list(beside)
    if sum(map(len, parts)) > DETAIL_CHARS or len(parts) > MAX_PARTS:
        raise UsageError(
            "too much is said beside the words",
            hint=f"Reasons and alternatives are at most {DETAIL_CHARS:,} characters and {MAX_PARTS:,} parts.",
        )


def check_line_length(name: str, text: str) -> str:
    """Return a title, key or link as it is. Raises UsageError for one that is too long."""
    if len(text) > LINE_CHARS:
        raise UsageError(
            f"{len(text):,} characters are too many for a {name}", hint=f"At most {LINE_CHARS:,}: say it in the text."
        )
    return text


def truncate(text: str, most: int) -> str:
    """Return the text, or its beginning with a mark, in at most so many characters."""
    if len(text) <= most:
        return text
    kept = most - _MARK_CHARS
    return f"{text[:kept]}… [{len(text) - kept:,} characters left out]"


def take_within(texts: Iterable[str], *, chars: int) -> Iterator[str]:
    """Yield the first `MANY` of these, as long as they come to no more characters."""
    for number, text in enumerate(texts):
        chars -= len(text)
        if number >= MAX_PARTS or chars < 0:
            return
        yield text


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
    f"INSERT INTO memory ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
    f" ON CONFLICT (id) DO UPDATE SET {', '.join(f'{c} = excluded.{c}' for c in _COLUMNS if c not in _SURVIVING)}"
)

_OF_KEY = "layer = ? AND scope = ? AND key = ? AND key <> ''"
"""Said twice, so that the index by key serves."""
_OUTDATED = """
    DELETE FROM vec WHERE memory_id = ? AND embedder <> ?
    AND NOT EXISTS (SELECT 1 FROM memory WHERE id = ? AND text_hash = ?)
"""


def make_memory(
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
    particulars: MemoryDetails | None = None,
    key: str = "",
    scope: MemoryScope = MemoryScope.REPOSITORY,
    importance: float = 0.5,
    confidence: float = 1.0,
    evidence_count: int = 1,
    source: MemorySource = MemorySource.INDEX,
    status: MemoryStatus = MemoryStatus.ACTIVE,
    created_at: float = 0.0,
    updated_at: float = 0.0,
    allow_pii: bool = False,
) -> tuple[Memory, int]:
    """Redact, name and hash one memory; also return how many secrets and personal data were taken out.

    Personal data go from configuration and from what does not come from files, unless `allow_pii`.

    `ordinal` tells memories of one file with equal kind and entity apart; it must not depend on line numbers.
    """
    facts = facts or CodeFacts()
    screens = not allow_pii and (kind is Kind.CONFIG or source is not MemorySource.INDEX)
    named = (particulars.origin, particulars.session) if particulars else ()
    names = (*named, entity, title, key, facts.signature, facts.purpose, *facts.imports, *facts.dependencies)
    broom = _Redactor(names, screens=screens, cuts=source is not MemorySource.INDEX)
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
        content_hash=content_hash(path, clean, _with_stale_mark(card or text, status)),
        text_hash=content_hash(path, clean, _with_stale_mark(text, status)),
        path=path,
        entity=clean,
        start_line=start_line,
        end_line=end_line,
        language=language,
        facts=_redacted_facts(facts, broom),
        particulars=_redacted_particulars(particulars, broom) if particulars else MemoryDetails(),
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


def with_status(memory: Memory, status: MemoryStatus) -> Memory:
    """Return the memory in another state; what the judge is shown, and so its hashes, follow."""
    shown, text = _with_stale_mark(memory.card or memory.text, status), _with_stale_mark(memory.text, status)
    return replace(
        memory,
        status=status,
        content_hash=content_hash(memory.path, memory.entity, shown),
        text_hash=content_hash(memory.path, memory.entity, text),
    )


def put_memories(connection: sqlite3.Connection, memories: Sequence[Memory], *, thread: str = "") -> tuple[str, ...]:
    """Upsert memories and their vectors; return the ids of those that stepped back. Call it in `database.transaction`.

    An active or stale memory with the same layer, scope and key steps back as superseded. `thread` marks exchanges.
    Vectors that other embedders made of a text that is another now are gone; they cost money, so the others stay.
    """
    claims = [memory for memory in memories if memory.key and memory.status is MemoryStatus.ACTIVE]
    superseded = tuple(identifier for memory in claims for identifier in _supersede(connection, memory))
    connection.executemany(
        _OUTDATED, ((memory.id, TERM_EMBEDDER, memory.id, memory.text_hash) for memory in memories)
    )  # before the texts are written
    connection.executemany(_UPSERT, (_memory_row(memory, thread) for memory in memories))
    connection.executemany(
        "INSERT INTO vec (memory_id, embedder, data) VALUES (?, ?, ?)"
        " ON CONFLICT (memory_id, embedder) DO UPDATE SET data = excluded.data",
        ((memory.id, TERM_EMBEDDER, _vector(memory)) for memory in memories),
    )
    return superseded


def judge_text(text: str, card: str, *, status: str, tests: str) -> str:
    """Return what a judge is shown of a memory: its card unless `tests` is `full`, marked when stale."""
    return _with_stale_mark(text if tests == "full" or not card else card, status)


def facts_to_json(facts: CodeFacts, particulars: MemoryDetails) -> str:
    """Write facts and particulars as the `attrs` column holds them; what is empty is left out."""
    values = {name: getattr(facts, name) for name in CodeFacts.__struct_fields__}
    values |= {name: getattr(particulars, name) for name in MemoryDetails.__struct_fields__}
    return json.dumps({name: value for name, value in values.items() if value}, ensure_ascii=False)


class _Redactor:
    """Redacts and counts. A memory's many short names are looked at in one go; one by one only where that finds any."""

    def __init__(self, names: Iterable[str], *, screens: bool, cuts: bool) -> None:
        self.count = 0
        self._screens, self._cuts = screens, cuts
        self._names_are_clean = True
        self._clean("\n".join(names).replace(_WITHIN, "\n"))
        self._names_are_clean, self.count = not self.count, 0

    def sweep(self, text: str, most: int = TEXT_CHARS) -> str:
        """Clean a text, and cut it where it is too long for what no file holds."""
        clean = self._clean(text) if text else text
        if not self._cuts or len(clean) <= most:
            return clean
        return truncate(self._clean(truncate(clean, most)), most)  # a cut may show what was no secret before

    def sweep_name(self, name: str, *, again: bool = False) -> str:
        """Sweep each heading of a path of headings by itself: a rule for the start of a line holds for all of them.

        again: it stands in what was swept before, so what it holds is counted.
        """
        if again:
            count, clean = self.count, self.sweep_name(name)
            self.count = count
            return clean
        clean = name if self._names_are_clean else _WITHIN.join(map(self._clean, name.split(_WITHIN)))
        return self.sweep(clean, LINE_CHARS) if self._cuts and len(clean) > LINE_CHARS else clean

    def sweep_all(self, texts: Iterable[str], most: int = LINE_CHARS) -> tuple[str, ...]:
        """Sweep each, and leave out those beyond what one memory may hold."""
        clean = [self.sweep(text, most) for text in texts]
        return tuple(take_within(clean, chars=TEXT_CHARS) if self._cuts else clean)

    def _clean(self, text: str) -> str:
        found = redact(text)
        self.count += found.count
        if not self._screens:
            return found.text
        screened = redact_pii(found.text)
        self.count += screened.count
        return screened.text


def _redacted_facts(facts: CodeFacts, broom: _Redactor) -> CodeFacts:
    return CodeFacts(
        signature=broom.sweep_name(facts.signature),
        docstring=broom.sweep(facts.docstring),
        imports=tuple(map(broom.sweep_name, facts.imports)),
        dependencies=tuple(map(broom.sweep_name, facts.dependencies)),
        complexity=facts.complexity,
        purpose=broom.sweep_name(facts.purpose),
    )


def _redacted_particulars(said: MemoryDetails, broom: _Redactor) -> MemoryDetails:
    return replace(
        said,
        rationale=broom.sweep(said.rationale),
        alternatives=broom.sweep_all(said.alternatives, TEXT_CHARS),
        links=broom.sweep_all(said.links),
        resolution=broom.sweep(said.resolution),
        origin=broom.sweep_name(said.origin),
        session=broom.sweep_name(said.session),
        paths=broom.sweep_all(said.paths),
    )


def _with_stale_mark(text: str, status: str) -> str:
    return STALE_MARK + text if status == MemoryStatus.STALE else text


def _supersede(connection: sqlite3.Connection, memory: Memory) -> list[str]:
    """Let those that are live under its key step back, without the mark that some had; return their ids."""
    known = (memory.layer, memory.scope, memory.key, memory.id)
    found = memory_rows.select_memories(connection, f"{_OF_KEY} AND status = 'active' AND id <> ?", known)
    found += memory_rows.select_memories(connection, f"{_OF_KEY} AND status = 'stale' AND id <> ?", known)
    stepped_back = [with_status(one, MemoryStatus.SUPERSEDED) for one in found]
    connection.executemany(
        "UPDATE memory SET status = 'superseded', superseded_by = ?, content_hash = ?, text_hash = ? WHERE id = ?",
        [(memory.id, one.content_hash, one.text_hash, one.id) for one in stepped_back],
    )
    return [one.id for one in stepped_back]


def _vector(memory: Memory) -> bytes:
    return term_vector(
        memory.text, path=memory.path, entity=memory.entity, title=memory.title, signature=memory.facts.signature
    )


def _memory_row(memory: Memory, thread: str) -> tuple[object, ...]:
    text_tokens = tokens.estimate(len(memory.text), kind=memory.kind, language=memory.language)
    card_tokens = tokens.estimate(len(memory.card), kind=memory.kind, language=memory.language)
    derived = {
        "tokens": card_tokens if memory.card else text_tokens,
        "text_tokens": text_tokens,
        "thread": thread,
        "attrs": facts_to_json(memory.facts, memory.particulars),
    }
    return tuple(derived[name] if name in derived else getattr(memory, name) for name in _COLUMNS)
