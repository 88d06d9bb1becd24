"""Source code cut into functions, methods, classes, tests, and the blocks between them.

A class (or a test suite, or an object that holds functions) keeps its header, docstring and fields,
and one line for each member, which has its own draft. Every row of the file is in some draft. A
test also gets a card: its name, its docstring, and what it calls. The judge reads the card instead
of the body; test bodies would be two fifths of its input.

What a test exercises is read from its calls, judged by their receiver and not by their last part:
`axios.get` counts where `axios` is imported, `names.get` does not. Left out are tools of testing,
the language's own library, fixtures, and functions that the tests define for themselves. Trade-off:
what a variable holds is known only where the test itself makes it from a subject.
"""

import re
import sys
import textwrap
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from xscore.indexer.captures import Syntax
from xscore.indexer.chains import PARAMETERS
from xscore.indexer.entities import Entity, outline
from xscore.indexer.file_facts import FileFacts, made_by
from xscore.indexer.languages import is_test_path
from xscore.indexer.library_names import BUILTIN_NAMES
from xscore.indexer.parameters import parameter_count
from xscore.indexer.receivers import Receivers, Scope
from xscore.indexer.sections import split_rows
from xscore.indexer.syntax import MemoryDraft, NameUse, SourceFile, number_names, trim_rows
from xscore.records.memory import BLOCK_NAME, CodeFacts, Kind

MAX_CASES = 40
LONG_STATEMENT = 2
"""Windows that one statement may take without being cut."""
_DOC_CHARS = 300
_HEADING_CHARS = 200


def with_test_card(
    draft: MemoryDraft, facts: FileFacts, *, cases: Sequence[str] = ()
) -> MemoryDraft:
    """Return the draft, with a card if it is a test and the card is shorter than its text."""
    if draft.kind is not Kind.TEST:
        return draft
    called = called_subjects(draft, facts)
    summary = " ".join(draft.facts.docstring.split("\n\n")[0].split())[:_DOC_CHARS]
    lines = [line for line in draft.facts.signature.split("\n") if not line.startswith("@")]
    heading = " ".join(" ".join(lines).split())[:_HEADING_CHARS].rstrip(":")
    parts = [heading or draft.entity, *([summary] if summary else [])]
    if cases:
        parts.append(
            "Cases: " + "; ".join(cases[:MAX_CASES]) + ("; ..." if len(cases) > MAX_CASES else "")
        )
    if called:
        parts.append("Calls: " + ", ".join(called))
    card = "\n".join(parts)
    return replace(draft, card=card) if len(card) < len(draft.text) else draft


_REST_OF_ROW = re.compile(r"[\s;,)\]}]*(//.*|#.*|/\*.*)?\Z")
_TITLE_CHARS = 160
_IDLE_WORDS = frozenset(
    {
        "else",
        "try",
        "finally",
        "pass",
        "return",
        "export",
        "default",
        "module",
        "exports",
        "use",
        "strict",
    }
)
"""Words of a run that is not a memory of its own."""
_ONE_COMMENT = re.compile(r"\s*(#(?!\s*(?:include|define|import|pragma)\b)|//)")
_HEADING_WORDS = 5
_LOGGERS = frozenset({"log", "logger"})
"""What nearly every module defines, so it names none."""


def cut_code(source: SourceFile, syntax: Syntax) -> tuple[list[MemoryDraft], list[NameUse]]:
    """Cut one file of code into drafts, in source order; also return the uses of the file
    itself."""
    facts = FileFacts(source, syntax)
    entities = outline(syntax, facts.lines, is_test=source.is_test)
    tops = [entity for entity in entities if entity.parent is None]
    runs = _runs_between(facts, tops)
    receivers, scopes = Receivers(facts), dict[str, Scope]()
    for entity in entities:  # after the entity around it
        is_suite = entity.parent is not None and entity.parent.definition.kind == "suite"
        outer = scopes[entity.parent.name] if entity.parent is not None and is_suite else None
        scopes[entity.name] = receivers.scope_of(entity, _owner(entity), outer)
    drafts = [_entity_draft(facts, entity, receivers, scopes) for entity in entities]
    drafts += _blocks(facts, receivers, runs, tops)
    return sorted(drafts, key=lambda draft: (draft.start, -draft.end)), facts.file_uses()


def _runs_between(facts: FileFacts, tops: Sequence[Entity]) -> list[tuple[int, int]]:
    """Return the lines outside every entity; a run without content of its own joins a neighbour."""
    lines, runs, row = facts.lines, list[tuple[int, int]](), 0
    last: Entity | None = None
    idle = _IDLE_WORDS | {top.definition.name for top in tops}
    for entity in [*tops, None]:
        upto = entity.start - 1 if entity is not None else len(lines) - 1
        start, end = trim_rows(lines, row, upto)
        beside = _neighbour(facts, (start, end), idle, last, entity) if start <= end else None
        if beside is not None and beside is last:
            last.end = end
        elif beside is not None:
            beside.start = start
        elif start <= end:
            runs.append((start, end))
        if entity is not None:
            row, last = max(row, entity.end + 1), entity
    return runs


def _neighbour(
    facts: FileFacts,
    run: tuple[int, int],
    idle: frozenset[str],
    last: Entity | None,
    following: Entity | None,
) -> Entity | None:
    """Return the entity that takes a run without content of its own; None: the run is a memory.

    Not a memory: only brackets, keywords (`else:`), entity names (`export default Name`), or a
    heading comment of one row; in a file of tests, where the judge reads cards, also code that
    calls nothing (imports).
    """
    (start, end), text = run, "\n".join(facts.lines[run[0] : run[1] + 1])
    words = set(re.findall(r"\w+", text)) - facts.namespace_words
    if last is not None and words <= idle:
        return last
    is_comment = start == end and bool(_ONE_COMMENT.match(text)) and len(words) <= _HEADING_WORDS
    if following is not None and (is_comment or words <= _IDLE_WORDS):
        return following
    calls = (
        facts.calls(facts.row_bytes[start], facts.row_bytes[end + 1])
        if facts.source.is_test
        else ["something"]
    )
    is_short = end - start < facts.source.window_lines
    return following if is_short and not set(calls) - {"require"} else None


def _entity_draft(
    facts: FileFacts, entity: Entity, receivers: Receivers, scopes: Mapping[str, Scope]
) -> MemoryDraft:
    d, name = entity.definition, entity.name
    if d.kind == "scope":
        name = f"{BLOCK_NAME}{name}"
    holes = [(m.definition.start_byte, m.definition.end_byte) for m in entity.members]
    calls = facts.calls(d.start_byte, d.end_byte, holes)
    text = (
        _skeleton(facts, entity)
        if entity.members
        else "\n".join(facts.lines[entity.start : entity.end + 1])
    )
    code_facts = CodeFacts(
        signature=facts.signature(entity),
        docstring=facts.docstring(entity),
        imports=facts.imports(entity.start, entity.end, shown=text if entity.members else None),
        dependencies=tuple(calls),
        complexity=(
            0
            if entity.is_container or d.kind in {"type", "alias"}
            else facts.complexity(d.start_byte, d.end_byte)
        ),
        defines=(entity.name,) if d.kind == "scope" else (),
    )
    scope = scopes[entity.name]
    uses = receivers.uses(scope, d.start_byte, d.end_byte, holes)
    uses += facts.bases_used(entity) if entity.is_container else []
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
    facts: FileFacts, entity: Entity, receivers: Receivers, scopes: Mapping[str, Scope]
) -> dict[str, str]:
    scope = scopes[entity.name]
    if entity.definition.kind in {"class", "extension", "type", "alias"}:
        members = receivers.members_of(
            entity, scope, [scopes[member.name] for member in entity.members]
        )
        alias = receivers.alias_of(entity)
        return {"": alias, **members} if alias else members
    if entity.definition.kind == "scope":  # `const store = new Store({ … })`
        between = receivers.variables_between(
            entity.definition.start_byte, entity.definition.end_byte
        )
        return {name: chain for name, chain in between.items() if name == entity.name}
    result = receivers.result_of(entity, scope)
    types = {"": result} if result else {}
    if facts.source.language.has_overloads:
        types[PARAMETERS] = parameter_count(facts.signature(entity), entity.definition.name)
    return types


def _kind(facts: FileFacts, entity: Entity) -> Kind:
    kind, outer = entity.definition.kind, entity
    while outer.parent is not None:
        outer = outer.parent
    marks = facts.source.language.test_classes if outer.definition.kind == "class" else ""
    in_test_class = bool(marks) and re.search(marks, facts.signature(outer))
    if facts.source.is_test or kind in {"test", "suite"} or in_test_class:
        return Kind.TEST
    if kind in {"class", "type", "alias", "extension"}:
        return Kind.CLASS
    if kind == "scope":
        return Kind.BLOCK
    in_class = entity.parent is not None and entity.parent.definition.kind in {"class", "extension"}
    return Kind.METHOD if in_class or entity.definition.owner else Kind.FUNCTION


def _owner(entity: Entity) -> str:
    """Return the class whose methods `self` means here."""
    if entity.definition.kind == "class":
        return entity.name
    return entity.parent.qualifier if entity.parent is not None else entity.name.rpartition(".")[0]


def _skeleton(facts: FileFacts, entity: Entity) -> str:
    """Return the rows of a class with each member reduced to its signature and a placeholder."""
    rows = dict(enumerate(facts.lines[entity.start : entity.end + 1], entity.start))
    for member in entity.members:
        d = member.definition
        behind = facts.data[d.end_byte : facts.row_bytes[d.end + 1] - 1].decode("utf-8", "replace")
        if member.start <= entity.definition.inner_start or not _REST_OF_ROW.match(behind):
            continue  # it shares a row with other code
        for row in range(member.start, member.end + 1):
            rows.pop(row, None)
        head = facts.lines[d.inner_start]
        stub = f"{facts.signature(member)} {facts.source.language.placeholder}"
        rows[member.start] = textwrap.indent(
            stub, " " * (len(head) - len(head.lstrip())), lambda line: line != "\n"
        )
    kept: list[str] = []
    for _, text in sorted(rows.items()):
        if text.strip() or (kept and kept[-1].strip()):
            kept.append(text)
    return "\n".join(kept).rstrip()


def _blocks(
    facts: FileFacts, receivers: Receivers, runs: Sequence[tuple[int, int]], tops: Sequence[Entity]
) -> list[MemoryDraft]:
    """Draft the rows between entities; a long run is cut where statements begin."""
    source, statements = facts.source, facts.syntax.statements

    def border(lines: Sequence[str], start: int, window: int) -> int:
        last = bisect_right(statements, start + window) - 1
        if last >= 0 and statements[last] > start:
            return statements[last]
        following = statements[last + 1] if last + 1 < len(statements) else len(lines)
        # A statement that is not much longer stays whole; another is cut where its parts begin.
        return (
            following
            if following - start <= LONG_STATEMENT * window
            else _part_border(lines, start, window)
        )

    spans = [
        span
        for run in runs
        for span in split_rows(facts.lines, *run, window=source.window_lines, border=border)
    ]
    ends = [-1, *(top.end for top in tops)]
    above = [None, *tops]  # the entity that ends on each of these rows
    defined = [facts.values(*span) for span in spans]
    names = number_names(
        BLOCK_NAME + _block_name(facts.syntax, span, values, above[bisect_left(ends, span[0]) - 1])
        for span, values in zip(spans, defined, strict=True)
    )
    drafts: list[MemoryDraft] = []
    for name, values, (start, end) in zip(names, defined, spans, strict=True):
        text = "\n".join(facts.lines[start : end + 1])
        place = facts.row_bytes[start], facts.row_bytes[end + 1]
        calls = facts.calls(*place)
        code_facts = CodeFacts(
            docstring="" if drafts else facts.docstring(),
            imports=facts.imports(start, end),
            dependencies=tuple(calls),
            defines=values,
        )
        draft = MemoryDraft(
            kind=Kind.TEST if source.is_test else Kind.BLOCK,
            entity=name,
            start=start,
            end=end,
            text=text,
            title=_code_title(name, code_facts),
            facts=code_facts,
            uses=(
                *receivers.uses(receivers.scope_between(*place), *place),
                *facts.value_uses(*place),
            ),
            types=receivers.variables_between(*place),
        )
        drafts.append(with_test_card(draft, facts))
    return drafts


def _part_border(lines: Sequence[str], start: int, window: int) -> int:
    """Return the last of the least indented rows in the second half of a window: the next part of
    an object."""
    indents: dict[int, int] = {}
    for row in range(start + max(1, window // 2), start + window + 1):
        text = lines[row]
        if text.strip() and not _REST_OF_ROW.match(text):
            indents[len(text) - len(text.lstrip())] = row
    return indents[min(indents)] if indents else start + window


def _block_name(
    syntax: Syntax, span: tuple[int, int], defined: Sequence[str], above: Entity | None
) -> str:
    """Name a block by the first value that it defines, by its imports, or by the entity above
    it."""
    start, end = span
    telling = (
        one
        for one in defined
        if len(one) > 1 and one[:2] != "__" and one.strip("_").lower() not in _LOGGERS
    )
    if first := next(telling, ""):
        return first
    imported = bisect_left(syntax.imports, start, key=lambda one: one.row)
    if any(one.row <= end for one in syntax.imports[imported : imported + 1]):
        return "imports"
    if defined:
        return defined[0]
    return f"after {above.name.partition('#')[0]}" if above else "start"


def _code_title(name: str, facts: CodeFacts) -> str:
    stated = [
        line for line in facts.signature.split("\n") if not line.lstrip().startswith(("@", "#["))
    ]
    summary = (facts.docstring or "\n".join(stated)).strip().split("\n", 1)[0].strip()
    return (f"{name}: {summary}" if summary and facts.docstring else summary or name)[:_TITLE_CHARS]


MAX_SUBJECTS = 12
MAX_KEYWORDS = 4
_TOOLS = frozenset(
    """
    pytest unittest mock mocker patch hypothesis given settings strategies st monkeypatch assert
    assume expect should describe context it test suite specify before after beforeEach afterEach
    beforeAll afterAll jest vi vitest sinon jasmine chai ava tap t done console cy screen capsys
    capfd caplog recwarn request tmp_path tmpdir pytester testdir snapshot benchmark setTimeout
    clearTimeout setImmediate process window document super nock supertest
    """.split()
)
"""Modules and names that drive or check a test."""
_NODE_MODULES = frozenset(
    """
    assert buffer child_process crypto events fs http http2 https net os path querystring readline
    stream timers tls url util zlib
    """.split()
)
_TOKEN = re.compile(
    r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*+"|'(?:\\.|[^'\\\n])*+'|[(\[{]|[)\]}]|\b(\w++)\s*+=(?!=)""",
    re.DOTALL,
)
_SCANNED_CHARS = 2_000
_OPENED, _PART_OF_NAME = re.compile(r"\s*\("), re.compile(r"[\w.]")


def called_subjects(draft: MemoryDraft, facts: FileFacts) -> list[str]:
    """Return what a test calls of the code under test, with the names of keyword arguments."""
    python = facts.source.language.module_separator == "."
    parameters = (
        set(re.findall(r"\w+", draft.facts.signature.partition("(")[2])) if python else set[str]()
    )
    strong: dict[str, None] = {}
    weak: dict[str, None] = {}
    for call in draft.facts.dependencies:
        head, *rest = call.split(".")
        if (
            head in _TOOLS
            or head == "?"
            or (head in facts.source.language.receivers and len(rest) < 2)
        ):
            continue
        if head in facts.imported:
            if not _is_ambient(facts, head):
                strong[call] = None
        elif rest and (rest[-1] not in BUILTIN_NAMES or made_by(head, draft.text) in strong):
            (weak if head in parameters else strong)[call] = None
        elif (
            not rest
            and head not in BUILTIN_NAMES
            and head not in parameters
            and head not in facts.own_names
        ):
            strong[call] = None
    return [
        _with_keywords(name, draft.text) if python else name
        for name in list(strong or weak)[:MAX_SUBJECTS]
    ]


def _is_ambient(facts: FileFacts, head: str) -> bool:
    """Whether an imported name is a tool, of the language's library, or a helper of the tests."""
    imported = facts.imported[head]
    top = imported.module.removeprefix("node:").replace("@", "").partition(".")[0].partition("/")[0]
    library = (
        sys.stdlib_module_names if facts.source.language.module_separator == "." else _NODE_MODULES
    )
    path = facts.reference(imported.module).removeprefix("./") + "/" + imported.name
    return top in library or top in _TOOLS or is_test_path(path, facts.source.language)


def _with_keywords(call: str, text: str) -> str:
    """`AsyncClient` -> `AsyncClient(app=, timeout=)`, by the first call in the text."""
    opened = _after_call(call, text)
    keywords = list(dict.fromkeys(_keywords(text, opened))) if opened else []
    return (
        f"{call}({', '.join(f'{name}=' for name in keywords[:MAX_KEYWORDS])})" if keywords else call
    )


def _after_call(call: str, text: str) -> int:
    """Return where the arguments of the first call of this name begin, 0 if it is not called."""
    place = text.find(call)
    while place >= 0:  # a pattern made for each name would cost a tenth of the index
        opened = _OPENED.match(text, place + len(call))
        if opened and not (place and _PART_OF_NAME.match(text[place - 1])):
            return opened.end()
        place = text.find(call, place + 1)
    return 0


def _keywords(text: str, start: int) -> Iterator[str]:
    depth = 0
    for token in _TOKEN.finditer(text, start, start + _SCANNED_CHARS):
        if token[0] in "([{":
            depth += 1
        elif token[0] in ")]}":
            depth -= 1
            if depth < 0:
                return
        elif token[1] and depth == 0:
            yield token[1]
