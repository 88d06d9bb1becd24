"""Source code cut into functions, methods, classes, tests, and the blocks between them.

A class (or a suite of tests, or an object that holds functions) keeps its header, docstring and fields, and one line
for each member that is a piece of its own. Every row of the file ends up in the text of some piece.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from xscore.indexer import purpose
from xscore.indexer.facts import FileFacts
from xscore.indexer.languages import is_test_class
from xscore.indexer.outline import Entity, outline
from xscore.indexer.pieces import Piece, SourceFile, Use, numbered, trimmed
from xscore.indexer.syntax import Syntax
from xscore.records import CodeFacts, Kind

_REST_OF_ROW = re.compile(r"[\s;,)\]}]*(//.*|#.*|/\*.*)?\Z")
_TITLE_CHARS = 160


def cut(source: SourceFile, found: Syntax) -> list[Piece]:
    """Cut one file of code into pieces, in source order."""
    lines = source.lines
    entities = outline(found, lines)
    facts = FileFacts(source, found)
    runs = _runs(lines, [e for e in entities if e.parent is None])
    pieces = [_piece(source, facts, entity, lines) for entity in entities]
    pieces += _blocks(source, facts, found, runs, entities)
    return sorted(pieces, key=lambda piece: (piece.start, -piece.end))


def _runs(lines: Sequence[str], tops: Sequence[Entity]) -> list[tuple[int, int]]:
    """Rows outside every entity; a run of mere punctuation goes to the entity before it."""
    runs, row = [], 0
    last: Entity | None = None
    for entity in [*tops, None]:
        upto = entity.start - 1 if entity is not None else len(lines) - 1
        start, end = trimmed(lines, row, upto)
        if start <= end and last is not None and not re.search(r"\w", "".join(lines[start : end + 1])):
            last.end = end
        elif start <= end:
            runs.append((start, end))
        if entity is not None:
            row, last = max(row, entity.end + 1), entity
    return runs


def _piece(source: SourceFile, facts: FileFacts, entity: Entity, lines: Sequence[str]) -> Piece:
    d = entity.definition
    holes = [(m.definition.start_byte, m.definition.end_byte) for m in entity.members]
    text = skeleton(source, facts, entity, lines) if entity.members else "\n".join(lines[entity.start : entity.end + 1])
    calls = facts.calls(d.start_byte, d.end_byte, holes)
    kind = _kind(source, entity, facts, lines)
    known = CodeFacts(
        signature=facts.signature(entity, lines),
        docstring=facts.docstring(entity),
        imports=facts.imports(text),
        dependencies=tuple(calls),
        complexity=0 if entity.is_container or d.kind == "type" else facts.complexity(d.start_byte, d.end_byte),
    )
    owner = _owner(entity)
    uses: list[Use] = facts.uses(calls, owner=owner)
    uses += facts.uses(facts.bases(entity), is_reference=True) if entity.is_container else []
    return purpose.with_card(
        Piece(
            kind=kind,
            entity=_entity_name(entity),
            start=entity.start,
            end=entity.end,
            text=text,
            title=_title(_entity_name(entity), known),
            facts=known,
            uses=tuple(uses),
        ),
        cases=[member.name.removeprefix(entity.name).lstrip(" >.") for member in entity.members],
    )


def _kind(source: SourceFile, entity: Entity, facts: FileFacts, lines: Sequence[str]) -> Kind:
    d = entity.definition
    if source.is_test or d.kind in {"test", "suite"}:
        return Kind.TEST
    outer = entity
    while outer.parent is not None:
        outer = outer.parent
    if outer.definition.kind == "class" and is_test_class(facts.signature(outer, lines), source.language):
        return Kind.TEST
    if d.kind in {"class", "type"}:
        return Kind.CLASS
    if d.kind == "scope":
        return Kind.BLOCK
    in_class = entity.parent is not None and entity.parent.definition.kind == "class"
    return Kind.METHOD if in_class else Kind.FUNCTION


def _entity_name(entity: Entity) -> str:
    return f"module:{entity.name}" if entity.definition.kind == "scope" else entity.name


def _owner(entity: Entity) -> str:
    """The class whose methods `self` reaches from here."""
    if entity.definition.kind == "class":
        return entity.name
    if entity.parent is not None:
        return entity.parent.name
    return entity.name.rpartition(".")[0]


def skeleton(source: SourceFile, facts: FileFacts, entity: Entity, lines: Sequence[str]) -> str:
    """The rows of a class without those of its members; for each member its signature and a placeholder."""
    rows: dict[int, str | None] = {row: lines[row] for row in range(entity.start, entity.end + 1)}
    for member in entity.members:
        if not _owns_its_rows(member, lines, after=entity.definition.inner_start):
            continue
        for row in range(member.start, member.end + 1):
            rows[row] = None
        indent = " " * (len(lines[member.definition.inner_start]) - len(lines[member.definition.inner_start].lstrip()))
        signature = facts.signature(member, lines)
        stub = f"{signature} {source.language.placeholder}"
        rows[member.start] = "\n".join(indent + line if line else line for line in stub.split("\n"))
    return "\n".join(_without_double_blanks(row for row in rows.values() if row is not None))


def _owns_its_rows(member: Entity, lines: Sequence[str], *, after: int) -> bool:
    d = member.definition
    if member.start <= after:
        return False
    last = lines[d.end].encode()
    tail = last[len(last) - _bytes_after(member, lines) :].decode("utf-8", "replace") if last else ""
    return bool(_REST_OF_ROW.match(tail))


def _bytes_after(member: Entity, lines: Sequence[str]) -> int:
    """Bytes on the last row behind the member."""
    d = member.definition
    size = sum(len(line.encode()) + 1 for line in lines[d.start : d.end + 1]) - 1
    first = lines[d.start]
    lead = len(first.encode()) - len(first.lstrip().encode())
    return max(0, size - lead - (d.end_byte - d.start_byte))


def _without_double_blanks(rows: Iterable[str]) -> list[str]:
    kept: list[str] = []
    for row in rows:
        if row.strip() or (kept and kept[-1].strip()):
            kept.append(row)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept


def _blocks(
    source: SourceFile, facts: FileFacts, found: Syntax, runs: Sequence[tuple[int, int]], entities: Sequence[Entity]
) -> list[Piece]:
    lines = source.lines
    spans = [part for run in runs for part in _parts(lines, run, found.statements, source.window_lines)]
    called = _BlockNames(found, entities)
    names = numbered([f"module:{called.name(*span)}" for span in spans])
    starts = _row_bytes(lines)
    pieces: list[Piece] = []
    for name, (start, end) in zip(names, spans, strict=True):
        text = "\n".join(lines[start : end + 1])
        calls = facts.calls(starts[start], starts[end + 1])
        known = CodeFacts(
            docstring=facts.module_docstring() if not pieces else "",
            imports=facts.imports(text),
            dependencies=tuple(calls),
        )
        piece = Piece(
            kind=Kind.TEST if source.is_test else Kind.BLOCK,
            entity=name,
            start=start,
            end=end,
            text=text,
            title=_title(name, known),
            facts=known,
            uses=tuple(facts.uses(calls)),
        )
        pieces.append(purpose.with_card(piece, cases=()))
    return pieces


def _parts(lines: Sequence[str], run: tuple[int, int], statements: Sequence[int], window: int) -> list[tuple[int, int]]:
    """Cut a long run where statements begin, and a long statement by rows."""
    start, end = run
    parts = []
    while end - start + 1 > window:
        last = bisect_right(statements, start + window) - 1
        border = statements[last] if last >= 0 and statements[last] > start else start + window
        parts.append(trimmed(lines, start, border - 1))
        start = border
    parts.append(trimmed(lines, start, end))
    return [part for part in parts if part[0] <= part[1]]


class _BlockNames:
    """Names blocks by their imports, by what they define, or by the entity above them."""

    def __init__(self, found: Syntax, entities: Sequence[Entity]) -> None:
        self._imports = sorted(i.row for i in found.imports)
        self._constants = found.constants
        tops = sorted((e.end, e.name.partition("#")[0]) for e in entities if e.parent is None)
        self._ends, self._tops = [end for end, _ in tops], [name for _, name in tops]

    def name(self, start: int, end: int) -> str:
        """Name the block of these rows."""
        at = bisect_left(self._imports, start)
        if at < len(self._imports) and self._imports[at] <= end:
            return "imports"
        at = bisect_left(self._constants, (start, ""))
        if at < len(self._constants) and self._constants[at][0] <= end:
            return self._constants[at][1]
        above = bisect_left(self._ends, start) - 1
        return f"after {self._tops[above]}" if above >= 0 else "start"


def _row_bytes(lines: Sequence[str]) -> list[int]:
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()) + 1)
    return starts


def _title(name: str, facts: CodeFacts) -> str:
    said = (facts.docstring or facts.signature).strip().split("\n", 1)[0].strip()
    return (f"{name}: {said}" if said and facts.docstring else said or name)[:_TITLE_CHARS]
