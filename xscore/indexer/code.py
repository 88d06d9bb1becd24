"""Source code cut into functions, methods, classes, tests, and the blocks between them.

A class (or a suite of tests, or an object that holds functions) keeps its header, docstring and fields, and one line
for each member that is a draft of its own. Every row of the file ends up in some draft. A test also gets a card: its
name, its docstring, and what it calls. The judge reads the card instead of the body, which would otherwise be two
fifths of what it reads.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from msgspec.structs import replace

from xscore.indexer.entities import BUILTIN_NAMES, Entity, FileFacts, outline
from xscore.indexer.languages import is_test_class
from xscore.indexer.sections import split_rows, trimmed_spans
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


def with_test_card(draft: MemoryDraft, *, cases: Sequence[str]) -> MemoryDraft:
    """Return the draft with its card and purpose, where it is a test and the card is the shorter."""
    if draft.kind is not Kind.TEST:
        return draft
    tested = [name for name in map(_plain, draft.facts.dependencies) if name][:MAX_TESTED]
    said = " ".join(draft.facts.docstring.split("\n\n")[0].split())[:_DOC_CHARS]
    parts = [_heading(draft)]
    if said:
        parts.append(said)
    if cases:
        parts.append("Cases: " + "; ".join(cases[:MAX_CASES]) + ("; ..." if len(cases) > MAX_CASES else ""))
    if tested:
        parts.append("Tests: " + ", ".join(tested))
    card = "\n".join(parts)
    facts = replace(draft.facts, purpose=_purpose(draft.entity, said, tested))
    return replace(draft, facts=facts, card=card if len(card) < len(draft.text) else "")


def _heading(draft: MemoryDraft) -> str:
    signature = draft.facts.signature.split("\n")
    return next((line for line in signature if not line.startswith("@")), "").rstrip(":") or draft.entity


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
    """Cut one file of code into drafts, in source order."""
    lines = source.lines
    entities = outline(found, lines)
    facts = FileFacts(source, found)
    runs = _runs(lines, [e for e in entities if e.parent is None])
    drafts = [_entity_draft(source, facts, entity, lines) for entity in entities]
    drafts += _blocks(source, facts, found, runs, entities)
    return sorted(drafts, key=lambda draft: (draft.start, -draft.end))


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
    """Whether nothing but punctuation or a comment stands on the member's last row behind it."""
    d = member.definition
    if member.start <= after:
        return False
    rows = [line.encode() for line in lines[d.start : d.end + 1]]
    lead = len(rows[0]) - len(lines[d.start].lstrip().encode())
    behind = max(0, sum(len(row) + 1 for row in rows) - 1 - lead - (d.end_byte - d.start_byte))
    tail = rows[-1][len(rows[-1]) - behind :].decode("utf-8", "replace") if rows[-1] else ""
    return bool(_REST_OF_ROW.match(tail))


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
    tops = sorted((e.end, e.name.partition("#")[0]) for e in entities if e.parent is None)
    imports = sorted(imported.row for imported in found.imports)
    names = number_names(f"module:{_block_name(span, imports, found.constants, tops)}" for span in spans)
    starts = list(accumulate((len(line.encode()) + 1 for line in lines), initial=0))
    drafts: list[MemoryDraft] = []
    for name, (start, end) in zip(names, spans, strict=True):
        text = "\n".join(lines[start : end + 1])
        calls = facts.calls(starts[start], starts[end + 1])
        known = CodeFacts(
            docstring="" if drafts else facts.module_docstring(),
            imports=facts.imports(text),
            dependencies=tuple(calls),
        )
        draft = MemoryDraft(
            kind=Kind.TEST if source.is_test else Kind.BLOCK,
            entity=name,
            start=start,
            end=end,
            text=text,
            title=_code_title(name, known),
            facts=known,
            uses=tuple(facts.uses(calls)),
        )
        drafts.append(with_test_card(draft, cases=()))
    return drafts


def _code_parts(
    lines: Sequence[str], run: tuple[int, int], statements: Sequence[int], window: int
) -> list[tuple[int, int]]:
    """Cut a long run where statements begin, and a long statement by rows."""

    def border(_lines: Sequence[str], start: int, window: int) -> int:
        last = bisect_right(statements, start + window) - 1
        return statements[last] if last >= 0 and statements[last] > start else start + window

    return trimmed_spans(lines, split_rows(lines, *run, window=window, border=border))


def _block_name(
    span: tuple[int, int],
    imports: Sequence[int],
    constants: Sequence[tuple[int, str]],
    tops: Sequence[tuple[int, str]],
) -> str:
    """Name a block by its imports, by what it defines, or by the entity above it."""
    start, end = span
    at = bisect_left(imports, start)
    if at < len(imports) and imports[at] <= end:
        return "imports"
    at = bisect_left(constants, (start, ""))
    if at < len(constants) and constants[at][0] <= end:
        return constants[at][1]
    above = bisect_left(tops, (start, "")) - 1
    return f"after {tops[above][1]}" if above >= 0 else "start"


def _code_title(name: str, facts: CodeFacts) -> str:
    said = (facts.docstring or facts.signature).strip().split("\n", 1)[0].strip()
    return (f"{name}: {said}" if said and facts.docstring else said or name)[:_TITLE_CHARS]
