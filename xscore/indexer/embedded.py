"""Cut files that hold other languages: scripts in HTML, Vue and Svelte, and the cells of notebooks.

Each part is cut by its own language and keeps its rows in the file. The rest of a page (markup,
styles) becomes windows of lines. A notebook is read as a script whose cells begin with `# %%`;
outputs are dropped first, and sources keep their rows. Trade-off: rows match the file only if it
has one source line per row, as Jupyter writes it; otherwise they are the rows of that script.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from xscore.indexer.code import cut_code
from xscore.indexer.languages import language_named
from xscore.indexer.prose_sections import cut_prose
from xscore.indexer.sections import cut_rows, name_rows
from xscore.indexer.syntax import (
    GrammarGaveUp,
    MemoryDraft,
    NameUse,
    SourceFile,
    number_names,
    parse_syntax,
    trim_rows,
)
from xscore.records.memory import BLOCK_NAME, CodeFacts, Kind

_SCRIPT = re.compile(r"<script\b([^>]{0,500})>", re.IGNORECASE)
_ONE_TAG = re.compile(r"\s*</?script\b[^>]{0,500}>\s*", re.IGNORECASE)
"""Matches rows with nothing but the tag of a script."""
_COMPONENTS = frozenset({"vue", "svelte"})
"""Languages in which a page is one component."""
_SCRIPT_END = re.compile(r"</script\s{0,20}>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""\b(lang|type)\s{0,20}=\s{0,20}["']?([\w/+.-]+)""", re.IGNORECASE)
_SCRIPTS = (
    "",
    "js",
    "jsx",
    "module",
    "text/javascript",
    "application/javascript",
    "text/babel",
)
_LANGUAGES = dict.fromkeys(_SCRIPTS, "javascript") | {
    "ts": "typescript",
    "tsx": "tsx",
    "text/typescript": "typescript",
}
"""What `lang` or `type` of a script says -> the language; data and templates have none."""
CELL, MARKDOWN_CELL = "# %%", "# %% [markdown]"
_HEADING = re.compile(r"#{1,6}[^\n]{0,500}")
_CELL_TYPE = re.compile(r'"cell_type": "(\w+)"\Z')

Cut = tuple[list[MemoryDraft], list[NameUse]]


def cut_page(source: SourceFile) -> Cut:
    """Cut the scripts of a page as code and the rows around them into windows."""
    last_row = len(source.lines) - 1
    row = 0
    drafts: list[MemoryDraft] = []
    uses: list[NameUse] = []
    for language, start, end in _scripts(source.text):
        first = source.text.count("\n", 0, start)
        last = source.text.count("\n", 0, end)
        # Blank rows before it, so that its rows are those of the page.
        script = replace(source, text="\n" * first + source.text[start:end])
        cut = _cut_part(script, language)
        if cut is None:
            continue
        code = cut[0]
        # A tag without markup is no memory of its own.
        if code and _is_tag(source, row, first):
            code = _with_rows(code, source.lines, row, min(draft.start for draft in code) - 1)
        else:
            drafts += _cut_markup(source, row, first)
        row = last
        if code and _is_tag(source, last, last_row):
            code = _with_rows(code, source.lines, max(draft.end for draft in code) + 1, last)
            row = last_row + 1
        drafts += code
        uses += cut[1]
    drafts += _cut_markup(source, row, last_row)
    if last_row < source.window_lines and _is_one_component(source, drafts):
        return [_as_component(source, drafts)], uses
    return _in_order(drafts), uses


def _is_tag(source: SourceFile, start: int, end: int) -> bool:
    """Whether rows hold nothing but the tag of a script."""
    return _ONE_TAG.fullmatch("\n".join(source.lines[start : end + 1])) is not None


def _cut_markup(source: SourceFile, start: int, end: int) -> list[MemoryDraft]:
    """Cut rows of markup, which may begin with the tag of the script above, into windows."""
    drafts: list[MemoryDraft] = []
    for draft in cut_rows(source, start, end):
        named = draft
        if draft.end > draft.start and _is_tag(source, draft.start, draft.start):
            name = name_rows(source.lines, draft.start + 1, draft.end)
            named = replace(draft, entity=name, title=name)
        drafts.append(named)
    return drafts


def _with_rows(
    drafts: Sequence[MemoryDraft], lines: Sequence[str], start: int, end: int
) -> list[MemoryDraft]:
    """Give rows above or below the drafts of a script to the outermost adjacent draft."""
    adjacent = [draft for draft in drafts if end + 1 == draft.start or start - 1 == draft.end]
    outermost = max(adjacent, key=lambda draft: draft.end - draft.start)
    rows = "\n".join(lines[start : end + 1])
    if start > outermost.end:
        wider = replace(outermost, text=f"{outermost.text}\n{rows}", end=end)
    else:
        wider = replace(outermost, text=f"{rows}\n{outermost.text}", start=start)
    return [wider if draft is outermost else draft for draft in drafts]


def _is_one_component(source: SourceFile, drafts: Sequence[MemoryDraft]) -> bool:
    """Whether a page is markup around a script that defines no functions or classes."""
    kinds = {draft.kind for draft in drafts}
    has_script = Kind.BLOCK in kinds or source.language.name in _COMPONENTS
    return has_script and bool(kinds) and kinds <= {Kind.BLOCK, Kind.TEXT}


def _as_component(source: SourceFile, drafts: Sequence[MemoryDraft]) -> MemoryDraft:
    """Return a short page as one draft, named by its file."""
    start, end = trim_rows(source.lines, 0, len(source.lines) - 1)
    imports: dict[str, None] = {}
    dependencies: dict[str, None] = {}
    defines: dict[str, None] = {}
    uses: dict[NameUse, None] = {}
    types: dict[str, str] = {}
    for draft in drafts:
        imports |= dict.fromkeys(draft.facts.imports)
        dependencies |= dict.fromkeys(draft.facts.dependencies)
        defines |= dict.fromkeys(draft.facts.defines)
        uses |= dict.fromkeys(draft.uses)
        types |= draft.types
    stem = source.path.rpartition("/")[2].partition(".")[0]
    return MemoryDraft(
        kind=Kind.BLOCK,
        entity=f"{BLOCK_NAME}{stem}",
        start=start,
        end=end,
        text="\n".join(source.lines[start : end + 1]),
        title=stem,
        facts=CodeFacts(
            imports=tuple(imports), dependencies=tuple(dependencies), defines=tuple(defines)
        ),
        uses=tuple(uses),
        types=types,
    )


def _scripts(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the language, and the start and end in characters, of each script with more than one
    row."""
    at = 0
    while opened := _SCRIPT.search(text, at):
        closed = _SCRIPT_END.search(text, opened.end())
        if closed is None:
            return
        attributes: dict[str, str] = {}
        for name, value in _ATTRIBUTE.findall(opened[1]):
            attributes[name.lower()] = value.lower()
        stated = attributes.get("lang") or attributes.get("type", "")
        language = _LANGUAGES.get(stated, "")
        if language and "\n" in text[opened.end() : closed.start()].strip():
            yield language, opened.end(), closed.start()
        at = closed.end()


def _cut_part(part: SourceFile, language: str) -> Cut | None:
    """Cut one part, whose rows are those of the file, as code of this language; None if the grammar
    gives up."""
    part = replace(part, language=language_named(language))
    try:
        return cut_code(part, parse_syntax(part.text.encode(), part.language))
    except GrammarGaveUp:
        return None


def notebook_text(text: str) -> str:
    """Return a notebook as a script: `# %%` where a cell begins, then its source. Raises
    ValueError.

    Where every row holds one line of source at most, rows stay where they are in the file.
    """
    lines: list[str] = []
    try:
        notebook = json.loads(text)
        for sheet in notebook.get("worksheets", [notebook]):  # of nbformat 3
            for cell in sheet["cells"]:
                lines += _cell_lines(cell)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("not a notebook") from error
    try:
        in_place = _rows_in_place(text)
    except ValueError:  # a layout of its own
        in_place = []
    # Rows in place are worth something only if nothing was lost on the way.
    if list(filter(None, in_place)) == list(filter(None, lines)):
        return "\n".join(in_place)
    return "\n".join(lines)


def _cell_lines(cell: Mapping[str, Any]) -> list[str]:
    written = cell["source"] if "source" in cell else cell["input"]  # of nbformat 3
    source = written if isinstance(written, str) else "".join(written)
    level = cell.get("level") if cell["cell_type"] == "heading" else None
    if isinstance(level, int):
        source = "#" * min(max(level, 1), 6) + " " + source
    return [CELL if cell["cell_type"] == "code" else MARKDOWN_CELL, *source.split("\n")]


def _rows_in_place(text: str) -> list[str]:
    """Return each row's part of the script, as Jupyter lays notebooks out: sorted keys, one string
    a row."""
    rows: list[str] = []
    in_source = False
    for row in text.split("\n"):
        token = row.strip().rstrip(",")
        line = ""
        if in_source and token.startswith('"'):
            line = json.loads(token).removesuffix("\n")
        elif marked := _CELL_TYPE.match(token):
            line = CELL if marked[1] == "code" else MARKDOWN_CELL
        else:
            in_source = token in ('"source": [', '"input": [')
        rows.append(line)
    return rows


def cut_cells(source: SourceFile) -> Cut:
    """Cut a notebook's script: its prose by heading, the code of a cell into functions and blocks.

    Prose runs on from cell to cell. A heading alone above code goes with the code.
    """
    lines = source.lines
    starts = [row for row, line in enumerate(lines) if line in (CELL, MARKDOWN_CELL)]
    first = starts[0] if starts else len(lines)
    drafts: list[MemoryDraft] = cut_rows(source, 0, first - 1)
    uses: list[NameUse] = []
    for start, following, is_prose in _cell_runs(lines, starts):
        body = ["" if line == MARKDOWN_CELL else line for line in lines[start + 1 : following]]
        if not "".join(body).strip():
            continue
        part = replace(source, text="\n" * (start + 1) + "\n".join(body))
        if is_prose:
            drafts += cut_prose(part, None)
            continue
        cut = _cut_part(part, "python")
        if cut is None:
            drafts += cut_rows(part, 0, len(part.lines) - 1)
            continue
        if cut[0] and drafts and _is_heading_above(drafts[-1], start):
            drafts += _with_heading(cut[0], drafts.pop())
        else:
            drafts += cut[0]
        uses += cut[1]
    return _in_order(drafts), uses


def _cell_runs(lines: Sequence[str], starts: Sequence[int]) -> Iterator[tuple[int, int, bool]]:
    """Yield the first row, the row after the last, and whether it is prose, of each cell of code
    and of each run of cells with prose."""
    begins: list[int] = []
    was_prose = False
    for row in starts:
        is_prose = lines[row] == MARKDOWN_CELL
        if not (is_prose and was_prose):
            begins.append(row)
        was_prose = is_prose
    for start, following in zip(begins, [*begins[1:], len(lines)], strict=True):
        yield start, following, lines[start] == MARKDOWN_CELL


def _is_heading_above(draft: MemoryDraft, row: int) -> bool:
    """Whether a draft is nothing but one heading, with no code between it and a cell."""
    is_heading = draft.kind is Kind.DOC and _HEADING.fullmatch(draft.text) is not None
    return is_heading and draft.end < row


def _with_heading(drafts: Sequence[MemoryDraft], heading: MemoryDraft) -> list[MemoryDraft]:
    """Give a heading to the outermost of the drafts below it, whose documentation it is if it has
    none."""
    first = min(drafts, key=lambda draft: (draft.start, -draft.end))
    facts = first.facts
    title = first.title
    if not facts.docstring:
        words = heading.text.strip("# ")
        facts = replace(facts, docstring=words)
        title = f"{first.entity}: {words}"
    wider = replace(
        first,
        text=f"{heading.text}\n\n{first.text}",
        title=title,
        facts=facts,
        start=heading.start,
    )
    return [wider if draft is first else draft for draft in drafts]


def _in_order(drafts: Sequence[MemoryDraft]) -> list[MemoryDraft]:
    ordered = sorted(drafts, key=lambda draft: (draft.start, -draft.end))
    names = number_names([draft.entity for draft in ordered])
    return [replace(draft, entity=name) for draft, name in zip(ordered, names, strict=True)]
