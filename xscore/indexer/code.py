"""What a test is for, in a few lines: its name, what it says of itself, and what it calls.

The judge reads this card instead of the test's body, which would otherwise be two fifths of what it reads.

Source code cut into functions, methods, classes, tests, and the blocks between them.

A class (or a suite of tests, or an object that holds functions) keeps its header, docstring and fields, and one line
for each member that is a piece of its own. Every row of the file ends up in the text of some piece.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from xscore.indexer.entities import BUILTIN_NAMES, Entity, FileFacts, outline
from xscore.indexer.languages import is_test_class
from xscore.indexer.syntax import MemoryDraft, NameUse, SourceFile, Syntax, number_names, trim_rows
from xscore.records import CodeFacts, Kind

MAX_TESTED = 12
"""Names listed as tested."""
MAX_CASES = 40
"""Cases listed of a class or suite of tests."""
_DOC_CHARS = 300
_HELPER = re.compile(
    r"^(assert\w*|self\.assert\w*|self\.(subTest|fail|skipTest)|expect|pytest\.\w+|mock\.\w+|\w*[Mm]ock\w*|t\.\w+|"
    r"jest\.\w+|vi\.\w+|done|console\.\w+|should|monkeypatch\.\w+)$|^\?\.(to[A-Z]\w*|should|equal|eql|be)$"
)


def with_test_card(piece: MemoryDraft, *, cases: Sequence[str]) -> MemoryDraft:
    """The piece with its card and purpose, where it is a test and the card is the shorter."""
    if piece.kind is not Kind.TEST:
        return piece
    tested = [name for name in map(_plain, piece.facts.dependencies) if name][:MAX_TESTED]
    said = " ".join(piece.facts.docstring.split("\n\n")[0].split())[:_DOC_CHARS]
    parts = [_heading(piece)]
    if said:
        parts.append(said)
    if cases:
        parts.append("Cases: " + "; ".join(cases[:MAX_CASES]) + ("; ..." if len(cases) > MAX_CASES else ""))
    if tested:
        parts.append("Tests: " + ", ".join(tested))
    card = "\n".join(parts)
    facts = replace(piece.facts, purpose=_purpose(piece.entity, said, tested))
    return replace(piece, facts=facts, card=card if len(card) < len(piece.text) else "")


def _heading(piece: MemoryDraft) -> str:
    signature = piece.facts.signature.split("\n")
    return next((line for line in signature if not line.startswith("@")), "").rstrip(":") or piece.entity


def _plain(name: str) -> str:
    if _HELPER.match(name):
        return ""
    plain = name.removeprefix("?.")
    return "" if plain.rpartition(".")[2] in BUILTIN_NAMES else plain


def _purpose(entity: str, said: str, tested: Sequence[str]) -> str:
    title = said.partition(". ")[0] or _words(entity)
    return f"{title} ({', '.join(tested[:5])})" if tested else title


def _words(entity: str) -> str:
    """`TestApp.test_no_route` -> `no route`; titles of suites stay as they are."""
    if " " in entity:
        return entity
    last = entity.rpartition(".")[2].partition("#")[0]
    return " ".join(part for part in re.split(r"_+|(?<=[a-z])(?=[A-Z])", last) if part.lower() != "test") or entity


_REST_OF_ROW = re.compile(r"[\s;,)\]}]*(//.*|#.*|/\*.*)?\Z")
_TITLE_CHARS = 160


def cut_code(source: SourceFile, found: Syntax) -> list[MemoryDraft]:
    """Cut one file of code into pieces, in source order."""
    lines = source.lines
    entities = outline(found, lines)
    facts = FileFacts(source, found)
    runs = _runs(lines, [e for e in entities if e.parent is None])
    pieces = [_entity_draft(source, facts, entity, lines) for entity in entities]
    pieces += _blocks(source, facts, found, runs, entities)
    return sorted(pieces, key=lambda piece: (piece.start, -piece.end))


def _runs(lines: Sequence[str], tops: Sequence[Entity]) -> list[tuple[int, int]]:
    """Rows outside every entity; a run of mere punctuation goes to the entity before it."""
    runs, row = [], 0
    last: Entity | None = None
    for entity in [*tops, None]:
        upto = entity.start - 1 if entity is not None else len(lines) - 1
        start, end = trim_rows(lines, row, upto)
        if start <= end and last is not None and not re.search(r"\w", "".join(lines[start : end + 1])):
            last.end = end
        elif start <= end:
            runs.append((start, end))
        if entity is not None:
            row, last = max(row, entity.end + 1), entity
    return runs


def _entity_draft(source: SourceFile, facts: FileFacts, entity: Entity, lines: Sequence[str]) -> MemoryDraft:
    d = entity.definition
    holes = [(m.definition.start_byte, m.definition.end_byte) for m in entity.members]
    text = (
        class_skeleton(source, facts, entity, lines)
        if entity.members
        else "\n".join(lines[entity.start : entity.end + 1])
    )
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
    uses: list[NameUse] = facts.uses(calls, owner=owner)
    uses += facts.uses(facts.bases(entity), is_reference=True) if entity.is_container else []
    return with_test_card(
        MemoryDraft(
            kind=kind,
            entity=_entity_name(entity),
            start=entity.start,
            end=entity.end,
            text=text,
            title=_code_title(_entity_name(entity), known),
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


def class_skeleton(source: SourceFile, facts: FileFacts, entity: Entity, lines: Sequence[str]) -> str:
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
) -> list[MemoryDraft]:
    lines = source.lines
    spans = [part for run in runs for part in _code_parts(lines, run, found.statements, source.window_lines)]
    called = _BlockNames(found, entities)
    names = number_names([f"module:{called.name(*span)}" for span in spans])
    starts = _row_bytes(lines)
    pieces: list[MemoryDraft] = []
    for name, (start, end) in zip(names, spans, strict=True):
        text = "\n".join(lines[start : end + 1])
        calls = facts.calls(starts[start], starts[end + 1])
        known = CodeFacts(
            docstring=facts.module_docstring() if not pieces else "",
            imports=facts.imports(text),
            dependencies=tuple(calls),
        )
        piece = MemoryDraft(
            kind=Kind.TEST if source.is_test else Kind.BLOCK,
            entity=name,
            start=start,
            end=end,
            text=text,
            title=_code_title(name, known),
            facts=known,
            uses=tuple(facts.uses(calls)),
        )
        pieces.append(with_test_card(piece, cases=()))
    return pieces


def _code_parts(
    lines: Sequence[str], run: tuple[int, int], statements: Sequence[int], window: int
) -> list[tuple[int, int]]:
    """Cut a long run where statements begin, and a long statement by rows."""
    start, end = run
    parts = []
    while end - start + 1 > window:
        last = bisect_right(statements, start + window) - 1
        border = statements[last] if last >= 0 and statements[last] > start else start + window
        parts.append(trim_rows(lines, start, border - 1))
        start = border
    parts.append(trim_rows(lines, start, end))
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


def _code_title(name: str, facts: CodeFacts) -> str:
    said = (facts.docstring or facts.signature).strip().split("\n", 1)[0].strip()
    return (f"{name}: {said}" if said and facts.docstring else said or name)[:_TITLE_CHARS]
