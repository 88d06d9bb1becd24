"""Source code cut into functions, methods, classes, tests, and the blocks between them.

A class (or a test suite, or an object that holds functions) keeps its header, docstring and fields,
and one line for each member, which has its own draft. Every row of the file is in some draft. What
a judge is shown of a test is `cards_of_tests`' business. Trade-off: a run between entities that
defines nothing is named by the entity above it.
"""

import re
import textwrap
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import partial

from xscore.indexer.captures import Syntax
from xscore.indexer.cards_of_tests import with_test_card
from xscore.indexer.chains import PARAMETERS
from xscore.indexer.entities import Entity, outline
from xscore.indexer.file_facts import FileFacts
from xscore.indexer.parameters import parameter_count
from xscore.indexer.receivers import Receivers
from xscore.indexer.sections import split_rows
from xscore.indexer.syntax import MemoryDraft, NameUse, SourceFile, number_names, trim_rows
from xscore.indexer.variable_scopes import VariableScope
from xscore.records.memory import BLOCK_NAME, CodeFacts, Kind

LONG_STATEMENT = 2
"""Most windows that one statement may take without being split."""


_REST_OF_ROW = re.compile(r"[\s;,)\]}]*(//.*|#.*|/\*.*)?\Z")
_TITLE_CHARS = 160
_IDLE_WORDS = frozenset(
    "else try finally pass return export default module exports use strict".split()
)
"""Words of a run that is not a memory of its own."""
_ONE_COMMENT = re.compile(r"\s*(#(?!\s*(?:include|define|import|pragma)\b)|//)")
_HEADING_WORDS = 5
_LOGGERS = frozenset({"log", "logger"})
"""Names that nearly every module defines, so that they identify none."""


def cut_code(source: SourceFile, syntax: Syntax) -> tuple[list[MemoryDraft], list[NameUse]]:
    """Cut one file of code into drafts, in source order; also return the uses of the file
    itself."""
    facts = FileFacts(source, syntax)
    has_clauses = source.language.has_clauses
    entities = outline(syntax, facts.lines, is_test=source.is_test, has_clauses=has_clauses)
    tops = [entity for entity in entities if entity.parent is None]
    # First of all: a run of idle rows widens the entity next to it.
    runs = _runs_between(facts, tops)
    receivers = Receivers(facts)
    scopes: dict[str, VariableScope] = {}
    for entity in entities:  # after the entity around it
        outer = None
        if entity.parent is not None and entity.parent.definition.kind == "suite":
            outer = scopes[entity.parent.name]
        scopes[entity.name] = receivers.scopes.scope_of(entity, _owner(entity), outer)
    drafts = [_entity_draft(facts, entity, receivers, scopes) for entity in entities]
    drafts += _blocks(facts, receivers, runs, tops)
    return sorted(drafts, key=lambda draft: (draft.start, -draft.end)), facts.file_uses()


def _runs_between(facts: FileFacts, tops: Sequence[Entity]) -> list[tuple[int, int]]:
    """Return the lines outside every entity; a run without content of its own joins a neighbour."""
    lines = facts.lines
    row = 0
    runs: list[tuple[int, int]] = []
    last: Entity | None = None
    idle = _IDLE_WORDS | {top.definition.name for top in tops}
    for entity in [*tops, None]:
        if entity is not None:
            upto = entity.start - 1
        else:
            upto = len(lines) - 1
        start, end = trim_rows(lines, row, upto)
        if start <= end:
            neighbour = _neighbour(facts, (start, end), idle, last, entity)
            if neighbour is None:
                runs.append((start, end))
            elif neighbour is last:
                last.end = end
            else:
                neighbour.start = start
        if entity is not None:
            row = max(row, entity.end + 1)
            last = entity
    return runs


def _neighbour(
    facts: FileFacts,
    run: tuple[int, int],
    idle: frozenset[str],
    last: Entity | None,
    following: Entity | None,
) -> Entity | None:
    """Return the entity that takes a run without content of its own; None if the run is a
    memory.

    Not a memory: only brackets, keywords (`else:`), entity names (`export default Name`), or a
    heading comment of one row; in a file of tests, where the judge reads cards, also code that
    calls nothing (imports).
    """
    start, end = run
    text = "\n".join(facts.lines[start : end + 1])
    words = set(re.findall(r"\w+", text)) - facts.namespace_words
    if last is not None and words <= idle:
        return last
    is_short = start == end and len(words) <= _HEADING_WORDS
    is_heading = is_short and _ONE_COMMENT.match(text) is not None
    if following is not None and (is_heading or words <= _IDLE_WORDS):
        return following
    if not facts.source.is_test or end - start >= facts.source.window_lines:
        return None
    calls = facts.calls(facts.row_bytes[start], facts.row_bytes[end + 1])
    if set(calls) - {"require"}:
        return None
    return following


def _entity_draft(
    facts: FileFacts, entity: Entity, receivers: Receivers, scopes: Mapping[str, VariableScope]
) -> MemoryDraft:
    d = entity.definition
    name = entity.name
    if d.kind == "scope":
        name = f"{BLOCK_NAME}{name}"
    holes = [(m.definition.start_byte, m.definition.end_byte) for m in entity.members]
    if entity.members:
        text = _skeleton(facts, entity)
        imports = facts.imports(entity.start, entity.end, shown=text)
    else:
        text = "\n".join(facts.lines[entity.start : entity.end + 1])
        imports = facts.imports(entity.start, entity.end)
    has_branches = not entity.is_container and d.kind not in {"type", "alias"}
    code_facts = CodeFacts(
        signature=facts.signature(entity),
        docstring=facts.docstring(entity),
        imports=imports,
        dependencies=tuple(facts.calls(d.start_byte, d.end_byte, holes)),
        complexity=facts.complexity(d.start_byte, d.end_byte) if has_branches else 0,
        defines=(entity.name,) if d.kind == "scope" else (),
    )
    uses = receivers.uses(scopes[entity.name], d.start_byte, d.end_byte, holes)
    if entity.is_container:
        uses += facts.bases_used(entity)
    uses += facts.value_uses(d.start_byte, d.end_byte, holes)
    draft = MemoryDraft(
        kind=_kind(facts, entity),
        entity=name,
        start=entity.start,
        end=entity.end,
        text=text,
        title=_code_title(name, code_facts),
        facts=code_facts,
        uses=tuple(uses),
        types=_types(facts, entity, receivers, scopes),
    )
    cases = [member.name.removeprefix(entity.name).lstrip(" >.") for member in entity.members]
    return with_test_card(draft, facts, cases=cases)


def _types(
    facts: FileFacts, entity: Entity, receivers: Receivers, scopes: Mapping[str, VariableScope]
) -> dict[str, str]:
    """Return the types of a draft: what it gives, and those of its members."""
    d = entity.definition
    scope = scopes[entity.name]
    has_function_types = facts.source.language.has_function_types
    taken = receivers.types.taken_by(entity) if has_function_types else {}
    if d.kind in {"class", "extension", "type", "alias"}:
        methods = [scopes[member.name] for member in entity.members]
        members = receivers.members_of(entity, scope, methods)
        alias = receivers.types.alias_of(entity)
        own_type = {"": alias} if alias else {}
        return {**own_type, **taken, **members}
    if d.kind == "scope":  # `const store = new Store({ … })`
        between = receivers.variables_between(d.start_byte, d.end_byte)
        return {name: chain for name, chain in between.items() if name == entity.name}
    result = receivers.result_of(entity, scope)
    types = {"": result} if result else {}
    types |= taken
    if facts.source.language.has_overloads:
        types[PARAMETERS] = parameter_count(facts.signature(entity), d.name)
    return types


def _kind(facts: FileFacts, entity: Entity) -> Kind:
    kind = entity.definition.kind
    if facts.source.is_test or kind in {"test", "suite"} or _is_in_test_class(facts, entity):
        return Kind.TEST
    if kind in {"class", "type", "alias", "extension"}:
        return Kind.CLASS
    if kind == "scope":
        return Kind.BLOCK
    parent_kind = entity.parent.definition.kind if entity.parent is not None else ""
    if parent_kind in {"class", "extension"} or entity.definition.owner:
        return Kind.METHOD
    return Kind.FUNCTION


def _is_in_test_class(facts: FileFacts, entity: Entity) -> bool:
    outer = entity
    while outer.parent is not None:
        outer = outer.parent
    marks = facts.source.language.test_classes
    if not marks or outer.definition.kind != "class":
        return False
    return re.search(marks, facts.signature(outer)) is not None


def _owner(entity: Entity) -> str:
    """Return the class whose methods `self` means here."""
    if entity.definition.kind == "class":
        return entity.name
    if entity.parent is not None:
        return entity.parent.qualifier
    return entity.name.rpartition(".")[0]


def _skeleton(facts: FileFacts, entity: Entity) -> str:
    """Return the rows of a class with each member reduced to its signature and a placeholder."""
    rows = dict(enumerate(facts.lines[entity.start : entity.end + 1], entity.start))
    for member in entity.members:
        d = member.definition
        behind = facts.data[d.end_byte : facts.row_bytes[d.end + 1] - 1].decode(
            "utf-8", "replace"
        )
        if member.start <= entity.definition.inner_start or not _REST_OF_ROW.match(behind):
            continue  # it shares a row with other code
        for row in range(member.start, member.end + 1):
            rows.pop(row, None)
        head = facts.lines[d.inner_start]
        indent = " " * (len(head) - len(head.lstrip()))
        stub = facts.signature(member)
        if d.body_byte < d.end_byte:
            stub = f"{stub} {facts.source.language.placeholder}"
        rows[member.start] = textwrap.indent(stub, indent, lambda line: line != "\n")
    kept: list[str] = []
    for _, text in sorted(rows.items()):
        if text.strip() or (kept and kept[-1].strip()):
            kept.append(text)
    return "\n".join(kept).rstrip()


def _blocks(
    facts: FileFacts,
    receivers: Receivers,
    runs: Sequence[tuple[int, int]],
    tops: Sequence[Entity],
) -> list[MemoryDraft]:
    """Draft the rows between entities; a long run is cut where statements begin."""
    spans: list[tuple[int, int]] = []
    border = partial(_statement_border, facts.syntax.statements)
    for run in runs:
        spans += split_rows(facts.lines, *run, window=facts.source.window_lines, border=border)
    ends = [-1, *(top.end for top in tops)]
    above = [None, *tops]  # the entity that ends on each of these rows
    defined = [facts.values(*span) for span in spans]
    names: list[str] = []
    for span, values in zip(spans, defined, strict=True):
        entity_above = above[bisect_left(ends, span[0]) - 1]
        names.append(BLOCK_NAME + _block_name(facts.syntax, span, values, entity_above))
    drafts: list[MemoryDraft] = []
    for name, values, span in zip(number_names(names), defined, spans, strict=True):
        # The docstring of the file is that of its first block.
        docstring = "" if drafts else facts.docstring()
        drafts.append(_block_draft(facts, receivers, name, values, span, docstring=docstring))
    return drafts


def _block_draft(
    facts: FileFacts,
    receivers: Receivers,
    name: str,
    values: tuple[str, ...],
    span: tuple[int, int],
    *,
    docstring: str,
) -> MemoryDraft:
    start, end = span
    place = facts.row_bytes[start], facts.row_bytes[end + 1]
    code_facts = CodeFacts(
        docstring=docstring,
        imports=facts.imports(start, end),
        dependencies=tuple(facts.calls(*place)),
        defines=values,
    )
    scope = receivers.scopes.scope_between(*place)
    uses = [*receivers.uses(scope, *place), *facts.value_uses(*place)]
    draft = MemoryDraft(
        kind=Kind.TEST if facts.source.is_test else Kind.BLOCK,
        entity=name,
        start=start,
        end=end,
        text="\n".join(facts.lines[start : end + 1]),
        title=_code_title(name, code_facts),
        facts=code_facts,
        uses=tuple(uses),
        types=receivers.variables_between(*place),
    )
    return with_test_card(draft, facts)


def _statement_border(
    statements: Sequence[int], lines: Sequence[str], start: int, window: int
) -> int:
    """Return the row of the last statement that begins within a window."""
    last = bisect_right(statements, start + window) - 1
    if last >= 0 and statements[last] > start:
        return statements[last]
    if last + 1 < len(statements):
        following = statements[last + 1]
    else:
        following = len(lines)
    # A statement that is not much longer stays whole; another is cut where its parts begin.
    if following - start <= LONG_STATEMENT * window:
        return following
    return _part_border(lines, start, window)


def _part_border(lines: Sequence[str], start: int, window: int) -> int:
    """Return the last of the least indented rows in the second half of a window: the next part of
    an object."""
    indents: dict[int, int] = {}
    for row in range(start + max(1, window // 2), start + window + 1):
        text = lines[row]
        if text.strip() and not _REST_OF_ROW.match(text):
            indents[len(text) - len(text.lstrip())] = row
    if indents:
        return indents[min(indents)]
    return start + window


def _block_name(
    syntax: Syntax, span: tuple[int, int], defined: Sequence[str], above: Entity | None
) -> str:
    """Name a block by the first value that it defines, by its imports, by the first function that
    it declares, or by the entity above it."""
    start, end = span
    for name in defined:
        if len(name) > 1 and name[:2] != "__" and name.strip("_").lower() not in _LOGGERS:
            return name
    first = bisect_left(syntax.imports, start, key=lambda imported: imported.row)
    if first < len(syntax.imports) and syntax.imports[first].row <= end:
        return "imports"
    if defined:
        return defined[0]
    first = bisect_left(syntax.prototypes, (start, ""))
    if first < len(syntax.prototypes) and syntax.prototypes[first][0] <= end:
        return syntax.prototypes[first][1]
    if above:
        return f"after {above.name.partition('#')[0]}"
    return "start"


def _code_title(name: str, facts: CodeFacts) -> str:
    if facts.docstring:
        summary = _first_line(facts.docstring)
        title = f"{name}: {summary}" if summary else name
        return title[:_TITLE_CHARS]
    stated: list[str] = []
    for line in facts.signature.split("\n"):
        # A decorator or an attribute says nothing about what it is.
        if not line.lstrip().startswith(("@", "#[")):
            stated.append(line)
    title = _first_line("\n".join(stated)) or name
    return title[:_TITLE_CHARS]


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0].strip()
